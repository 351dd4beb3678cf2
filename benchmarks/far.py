"""Reads tables from an object store on the loopback, with latency for each request and a line of limited bandwidth.

    python -m benchmarks.far small large --latency 0.03 --bandwidth 125

``small`` is a table of 335 small file slices, ``large`` one of 1 GB in slices of 128 MB. The tables are written below
``--folder``. The store and each read run in processes of their own; the reads print seconds, the requests that the
store has counted, and the bytes that it has sent. ``floor`` is the time in which the line carries those bytes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.store import Store, running_store
from hudi_bridge import HudiDataset, HudiTable
from tests.support.table_writer import META_FIELDS, TableWriter, at

_SLICES, _ROWS, _UPDATED = 335, 400, 40
_FILE_BYTES = 128_000_000
_BYTES_PER_ROW = 128
_TEXT_BYTES = 96


def write_small(folder: Path, _: int) -> None:
    """Slices of one base file and one log file, some tens of KB each."""
    table = TableWriter(folder=folder).create()
    bases, logs = [], []
    for number in range(_SLICES):
        file_id = f"f{number}-0"
        rows = [{"id": f"{number}-{row}", "ts": 1, "value": f"value {row}"} for row in range(_ROWS)]
        bases.append(table.base_file(at(1), rows, file_id=file_id))
        updates = [{**row, "ts": 2, "value": "updated"} for row in rows[:_UPDATED]]
        logs.append(table.log_file(at(2), [table.data_block(at(2), updates, file_id=file_id)], file_id=file_id))
    table.commit(at(1), wrote=bases)
    table.commit(at(2), wrote=logs)


def write_large(folder: Path, size_bytes: int) -> None:
    """Slices of one base file of one row group, which cannot be compressed, and a log file of 0.1 % of its rows."""
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("number", "double"))
    table = TableWriter(folder=folder, fields=fields).create()
    folder = table.partition("")
    bases, logs = [], []
    random = np.random.default_rng(1)
    rows = _FILE_BYTES // _BYTES_PER_ROW
    for number in range(max(1, size_bytes // _FILE_BYTES)):
        file_id = f"f{number}-0"
        name = f"{file_id}_0-1-1_{at(1)}.parquet"
        keys = pa.array([f"{file_id}-{row}" for row in range(rows)])
        texts = random.integers(32, 127, rows * _TEXT_BYTES, dtype=np.uint8)
        bounds = (np.arange(rows + 1) * _TEXT_BYTES).astype(np.int32)
        meta = [at(1), "", keys, "", name]
        columns = [
            *(pa.array([one] * rows) if isinstance(one, str) else one for one in meta),
            keys,
            pa.array(np.ones(rows, dtype=np.int64)),
            pa.StringArray.from_buffers(rows, pa.py_buffer(bounds.tobytes()), pa.py_buffer(texts.tobytes())),
            pa.array(random.random(rows)),
        ]
        written = pa.table(columns, names=[*META_FIELDS, *(field for field, _ in fields)])
        bases.append(folder / name)
        pq.write_table(written, bases[-1], row_group_size=rows, compression="snappy")
        updates = [
            {"id": keys[row].as_py(), "ts": 2, "value": "updated", "number": 0.0} for row in range(0, rows, 1000)
        ]
        logs.append(table.log_file(at(2), [table.data_block(at(2), updates, file_id=file_id)], file_id=file_id))
    table.commit(at(1), wrote=bases)
    table.commit(at(2), wrote=logs)


_TABLES: dict[str, Callable[[Path, int], None]] = {"small": write_small, "large": write_large}
_READS: dict[str, list[str] | None] = {"all columns": None, "one column": ["ts"]}


def _peak_kib() -> int:
    """The peak resident size; that of ``getrusage`` begins with that of the process which has started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def read(uri: str, columns: list[str] | None) -> dict[str, float]:
    """Reads the table once, batch by batch; returns what it took."""
    before, peak_before = resource.getrusage(resource.RUSAGE_SELF), _peak_kib()
    started = time.perf_counter()
    dataset: HudiDataset = HudiTable.open(uri).snapshot()
    slices = sum(1 for _ in dataset.splits())
    planned = time.perf_counter() - started
    rows = sum(batch.num_rows for batch in dataset.to_batches(columns=columns))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    grown = (_peak_kib() - peak_before) // 1024
    return {"slices": slices, "rows": rows, "planned": planned, "seconds": seconds, "cpu": cpu, "memory": grown}


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", help="small, large; both unless given")
    parser.add_argument("--latency", type=float, default=0.03, help="seconds for each request")
    parser.add_argument("--bandwidth", type=float, default=125, help="MB a second, 0 for no limit")
    parser.add_argument("--bytes", type=float, default=1e9, help="the size of the large table")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to keep the tables, a temporary folder unless given")
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        print(json.dumps(read(given.read[0], _READS[given.read[1]])))
        return
    with tempfile.TemporaryDirectory() as scratch:
        root = given.folder or Path(scratch)
        for name in given.tables or _TABLES:
            if not (root / "lake" / name).exists():
                _TABLES[name](root / "lake" / name, int(given.bytes))
        bandwidth = given.bandwidth * 1e6 or None
        with running_store(root, given.latency, bandwidth) as store:
            for name in given.tables or _TABLES:
                for what in _READS:
                    for _ in range(given.rounds):
                        _measure(store, root / "lake" / name, what, bandwidth)


def _measure(store: Store, table: Path, what: str, bandwidth: float | None) -> None:
    store.reset()
    command = [sys.executable, "-m", "benchmarks.far", "--read", store.uri(table), what]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    counted = store.counted()
    floor = f"{counted.sent_bytes / bandwidth:6.2f} s" if bandwidth else "-"
    counts = " ".join(f"{kind} {number:,}" for kind, number in sorted(counted.requests.items()))
    print(
        f"{table.name:6} {what:12} {found['seconds']:7.2f} s (plan {found['planned']:.2f}, CPU {found['cpu']:.2f}), "
        f"floor {floor}; {counts}, {counted.most_at_once} at once, {counted.sent_bytes / 1e6:,.1f} MB, "
        f"memory +{found['memory']:,} MiB; {found['slices']:,} slices, {found['rows']:,} rows",
        flush=True,
    )


if __name__ == "__main__":
    main()
