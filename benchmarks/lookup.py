"""Measures look-ups of 1, 100 and 10,000 keys in tables of 100 and 1,000 file slices, beside the ``hudi`` package.

The tables have base files with the key ranges and Bloom filters of Hudi's footers, and logs in a tenth of the slices.
Keys are spread, so that all key ranges overlap. A first look-up opens the table; a warm one follows others in the same
process. With a delay, each request for a file or a folder takes that long, as on an object store.
"""

import argparse
import io
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem
from hudi import HudiReadOptions, HudiTableBuilder

from hudi_bridge import HudiTable
from tests.table_writer import META_FIELDS, TableWriter, at, key_index

ROWS_IN_SLICE = 2_000
KEYS_IN_LOG = 20
BLOOM_BITS = ROWS_IN_SLICE * 29
KEYS = (1, 100, 10_000)
ROUNDS = 7
COLUMNS = (
    "slices",
    "keys",
    "first, s",
    "warm, s",
    "`hudi`, s",
    "`hudi` / warm",
    "first, delayed, s",
    "requests",
    "warm, delayed, s",
    "requests",
)


class SlowFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local files, with a delay of each request; ``requests`` counts them."""

    cachable = False
    protocol = "slow"

    def __init__(self, delay_seconds: float) -> None:
        super().__init__()
        self.delay_seconds, self.requests = delay_seconds, 0

    def wait(self) -> None:
        """One request."""
        self.requests += 1
        time.sleep(self.delay_seconds)

    def ls(self, path: str, **options: object) -> object:
        """The entries of a folder."""
        self.wait()
        return super().ls(path, **options)

    def open(self, path: str, mode: str = "rb", **options: object) -> object:
        """A file; opening it costs the request for its size."""
        self.wait()
        return _SlowFile(super().open(path, mode, **options), self)


class _SlowFile:
    def __init__(self, file: io.BufferedIOBase, filesystem: SlowFileSystem) -> None:
        self._file, self._filesystem = file, filesystem

    def read(self, size: int = -1) -> bytes:
        self._filesystem.wait()
        return self._file.read(size)

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)


def write_table(folder: Path, slices: int) -> None:
    """A table of version 9 with one partition."""
    writer = TableWriter(folder=folder, options={"hoodie.table.keygenerator.type": "NON_PARTITION"}).create()
    instant = at(1)
    for number in range(slices):
        keys = [f"key-{place * slices + number:010d}" for place in range(ROWS_IN_SLICE)]
        file_id = f"{number:08d}-5cf8-454a-a936-0b7c688e654a-0"
        path = folder / f"{file_id}_0-1-1_{instant}.parquet"
        meta = dict(zip(META_FIELDS, (instant, f"{instant}_0_0", None, "", path.name), strict=True))
        columns: dict[str, list[Any]] = {name: [value] * ROWS_IN_SLICE for name, value in meta.items()}
        columns |= {"_hoodie_record_key": keys, "id": keys, "value": [key * 3 for key in keys]}
        columns |= {"ts": np.arange(ROWS_IN_SLICE).tolist()}
        table = pa.table(columns, schema=writer.arrow_schema)
        pq.write_table(table.replace_schema_metadata(key_index(keys, BLOOM_BITS, 20)), path, compression="gzip")
        if number % 10 == 0:
            rows = [{"id": key, "ts": 10**6, "value": "log"} for key in keys[:KEYS_IN_LOG]]
            writer.log_file(at(2), [writer.data_block(at(2), rows)], base_instant=instant, file_id=file_id)
    writer.commit(instant)
    writer.commit(at(2))


def chosen_keys(count: int, slices: int, seed: int) -> list[str]:
    """Keys of the table, each once."""
    places = np.random.default_rng(seed).choice(ROWS_IN_SLICE * slices, count, replace=False)
    return [f"key-{place:010d}" for place in places.tolist()]


def seconds_of(read: Callable[[Sequence[str]], int], count: int, slices: int, rounds: int) -> float:
    """The median time of reads of other keys each, all of which the table has."""
    times = []
    for seed in range(rounds):
        keys = chosen_keys(count, slices, seed)
        begun = time.perf_counter()
        rows = read(keys)
        times.append(time.perf_counter() - begun)
        if rows != count:
            raise SystemExit(f"{rows} rows for {count} keys")
    return statistics.median(times)


def read_by_hudi(folder: Path, keys: Sequence[str]) -> int:
    """The rows of the keys by ``hudi``, with its own filter."""
    condition = ("_hoodie_record_key", "=", keys[0]) if len(keys) == 1 else ("_hoodie_record_key", "in", ",".join(keys))
    options = HudiReadOptions().with_filters([condition])
    return sum(batch.num_rows for batch in HudiTableBuilder.from_base_uri(str(folder)).build().read(options))


def main() -> None:
    """Print a page of results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slices", type=int, nargs="*", default=[100, 1000])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--delay-ms", type=float, default=30.0)
    options = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---:|' * len(COLUMNS)}")
    with tempfile.TemporaryDirectory() as scratch:
        for slices in options.slices:
            folder = Path(scratch) / f"t{slices}"
            write_table(folder, slices)
            for count in KEYS:
                _measure(folder, slices, count, options.rounds, options.delay_ms / 1000)
    load = os.getloadavg()[0]
    print(f"\n{platform.python_version()}, {os.cpu_count()} cores, load average {load:.1f}, {options.delay_ms:g} ms")


def _measure(folder: Path, slices: int, count: int, rounds: int, delay_seconds: float) -> None:
    first = seconds_of(lambda keys: HudiTable.open(str(folder)).get(keys).num_rows, count, slices, 2)
    table = HudiTable.open(str(folder))
    table.get(chosen_keys(1, slices, rounds))
    warm = seconds_of(lambda keys: table.get(keys).num_rows, count, slices, rounds)
    peer_rounds = 2 if count < KEYS[-1] else 1
    peer = seconds_of(lambda keys: read_by_hudi(folder, keys), count, slices, peer_rounds)
    slow = SlowFileSystem(delay_seconds)
    delayed: list[float] = []
    requests: list[int] = []
    remote = None
    for seed in range(2):
        begun, before = time.perf_counter(), slow.requests
        remote = HudiTable.open(str(folder), slow) if remote is None else remote
        remote.get(chosen_keys(count, slices, seed))
        delayed.append(time.perf_counter() - begun)
        requests.append(slow.requests - before)
    print(
        f"| {slices:,} | {count:,} | {first:.3f} | {warm:.4f} | {peer:.3f} | {peer / warm:.0f} x "
        f"| {delayed[0]:.2f} | {requests[0]:,} | {delayed[1]:.2f} | {requests[1]:,} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
