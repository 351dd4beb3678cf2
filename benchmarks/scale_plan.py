"""Plans queries of a table of 100 TB that is not there: ``python -m benchmarks.scale_plan``.

Its file slices have a base file of 120 MB and a log of 8 MB. Timeline and metadata table are real, with a record index
of as many file groups as Hudi makes at most; the folders of partitions exist in a file system that counts requests and
takes some time for each, and a page of 1,000 entries is one request. Each plan runs in a process of its own, which
prints slices, seconds, CPU time, peak memory and requests. The tasks of Spark are those of ``format``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from benchmarks.lookup import SlowFileSystem
from benchmarks.machine import facts
from benchmarks.many_files import WANTED_KEY, WANTED_PARTITION, ManyFiles
from benchmarks.process_tree import own_peak_bytes
from hudi_bridge.connectors.spark.plan import SplitPickles
from hudi_bridge.connectors.split_tasks import pack
from hudi_bridge.table import HudiTable

BASE_BYTES, LOG_BYTES = 120 << 20, 8 << 20
_LOG_WEIGHT = 2
_TASK_BYTES = (128 << 20, 1 << 30)
_PAGE_ENTRIES = 1000
_COLUMNS = ("query", "files from", "slices", "s", "CPU s", "peak memory, MB", "grown by, MB", "requests", "notes")

Answer = tuple[int, str]
"""The number of slices, and notes."""


class SimulatedFolders(SlowFileSystem):
    """A store in which the folders of partitions have files that are not there."""

    protocol = "simulated"

    def __init__(self, table: Path, many: ManyFiles, delay_seconds: float) -> None:
        super().__init__(delay_seconds)
        self._table, self._many = table, many

    def ls(self, path: str, **options: object) -> object:
        """The entries of a folder, a page at a time."""
        found: Any = super().ls(path, **options | {"detail": True})
        place = Path(path)
        if place.parent == self._table and place.name.startswith("part="):
            files = self._many.files(int(place.name.partition("=")[2]))
            found = [*found, *(self._entry(place, name, size) for name, size in files.items())]
        for _ in range(_PAGE_ENTRIES, len(found), _PAGE_ENTRIES):
            self.wait()
        return found if options.get("detail") else [entry["name"] for entry in found]

    @staticmethod
    def _entry(folder: Path, name: str, size: int) -> dict[str, object]:
        return {"name": str(folder / name), "size": size, "type": "file", "mtime": 0.0}


def _streamed(table: HudiTable, row_filter: pc.Expression | None) -> Answer:
    return sum(1 for _ in table.splits(filter=row_filter)), ""


def _as_tasks(table: HudiTable) -> Answer:
    """All slices as Spark's driver keeps them."""
    pickles = SplitPickles()
    weights, pickled = [], []
    for split in table.splits():
        weights.append(split.base_size_bytes + _LOG_WEIGHT * split.log_size_bytes)
        pickled.append(pickles.dump(split))
    tasks = " or ".join(
        f"{len(pack(weights, task_bytes, 16)):,} tasks of {task_bytes >> 20} MB" for task_bytes in _TASK_BYTES
    )
    return len(pickled), f"{sum(map(len, pickled)) / 1e6:.0f} MB for {tasks}"


_PARTITION = pc.field("part") == f"{WANTED_PARTITION:05d}"
QUERIES: dict[str, Callable[[HudiTable], Answer]] = {
    "all, one after another": partial(_streamed, row_filter=None),
    "all, as tasks of Spark": _as_tasks,
    "one partition": partial(_streamed, row_filter=_PARTITION),
    "one record key": partial(_streamed, row_filter=pc.field("_hoodie_record_key") == WANTED_KEY),
}
_BY_LISTING = tuple(QUERIES)[:3]


def measure(folder: Path, many: ManyFiles, query: str, uses_index: str, delay_ms: float) -> dict[str, Any]:
    """What one plan took."""
    store = SimulatedFolders(folder, many, delay_ms / 1000)
    before, started, used = own_peak_bytes(), time.perf_counter(), time.process_time()
    table = HudiTable.open(str(folder), store, options={"hoodie.metadata.enable": uses_index})
    slices, notes = QUERIES[query](table)
    return {
        "slices": slices,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - used,
        "peak_bytes": own_peak_bytes(),
        "grown_bytes": own_peak_bytes() - before,
        "requests": store.requests,
        "notes": notes,
    }


def expected_slices(many: ManyFiles, query: str) -> int:
    """The number of slices that a query has."""
    return {"one partition": many.slices, "one record key": 1}.get(query, many.partitions * many.slices)


def _line(query: str, uses_index: str, found: dict[str, Any]) -> str:
    cells = (
        query,
        "metadata table" if uses_index == "true" else "listing",
        f"{found['slices']:,}",
        f"{found['seconds']:.1f}",
        f"{found['cpu_seconds']:.1f}",
        f"{found['peak_bytes'] / 1e6:,.0f}",
        f"{found['grown_bytes'] / 1e6:,.0f}",
        f"{found['requests']:,}",
        found["notes"],
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=2500)
    parser.add_argument("--slices", type=int, default=300, help="file slices in a partition (default: 300)")
    parser.add_argument("--index-groups", type=int, default=10_000, help="of the record index (default: 10,000)")
    parser.add_argument("--delay-ms", type=float, default=30.0, help="of each request (default: 30)")
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=list(QUERIES), metavar="QUERY")
    parser.add_argument("--folder", type=Path, help="where to write the table, a temporary folder unless given")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    many = ManyFiles(
        partitions=given.partitions,
        slices=given.slices,
        base_bytes=BASE_BYTES,
        log_bytes=LOG_BYTES,
        index_groups=given.index_groups,
    )
    if given.measure:
        folder, query, uses_index = given.measure
        print(json.dumps(measure(Path(folder), many, query, uses_index, given.delay_ms)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = Path(scratch).resolve() / "many"
        many.write(folder)
        total = many.partitions * sum(many.files(0).values())
        size = sum(path.stat().st_size for path in (folder / ".hoodie/metadata/files").iterdir())
        print(
            f"{total / 1e12:.1f} TB: {given.partitions:,} partitions of {given.slices} file slices with a log each; "
            f"the metadata table has {size / 1e6:.0f} MB of file names; {given.delay_ms:g} ms a request\n\n"
            f"| {' | '.join(_COLUMNS)} |\n|---|---|{'---:|' * 6}---|",
            flush=True,
        )
        for uses_index, possible in (("true", tuple(QUERIES)), ("false", _BY_LISTING)):
            for query in (one for one in possible if one in given.queries):
                command = [sys.executable, "-m", "benchmarks.scale_plan", *sys.argv[1:]]
                command += ["--measure", str(folder), query, uses_index]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.splitlines()[-1])
                if found["slices"] != expected_slices(many, query):
                    raise SystemExit(f"{query}: {found['slices']:,} slices, expected {expected_slices(many, query):,}")
                print(_line(query, uses_index, found), flush=True)
    about = facts()
    print(f"\n{about['processor']}; Python {about['Python']}, pyarrow {about['pyarrow']}; commit {about['commit']}")


if __name__ == "__main__":
    main()
