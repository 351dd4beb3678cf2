"""Measures the planning of a query on a table of many file slices: ``python -m benchmarks.plan_size``.

The timeline is real; the partitions exist only in memory, and are listed with the delay of an object store. Prints the
time, the growth of the process, and the size of what Spark's driver keeps.
"""

import argparse
import json
import resource
import tempfile
import time
from array import array
from dataclasses import dataclass
from pathlib import Path

from hudi_bridge.config import QueryType, read_table_config
from hudi_bridge.connectors.spark.plan import SplitPickles
from hudi_bridge.connectors.split_tasks import pack
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.timeline import TableState

INSTANT, DELTA_INSTANT = "20260101000000000", "20260101000001000"
FILE_ID = "{number:08d}-5cf8-454a-a936-0b7c688e654a-0"
BASE_BYTES, LOG_BYTES = 120 << 20, 8 << 20
PROPERTIES = """\
hoodie.table.name=trips
hoodie.table.type=MERGE_ON_READ
hoodie.table.version=6
hoodie.timeline.layout.version=1
hoodie.table.recordkey.fields=id
hoodie.table.partition.fields=day
hoodie.table.precombine.field=ts
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldersInMemory(Storage):
    """A storage with ``partitions`` of ``slices`` file slices each, of one base file and one log file."""

    partitions: int
    slices: int
    delay_seconds: float

    def list_directory(self, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        """The entries of a folder: real ones of the timeline, simulated ones of partitions."""
        if path.startswith(".hoodie"):
            return Storage.list_directory(self, path, must_exist=must_exist)
        time.sleep(self.delay_seconds)
        if not path:
            days = (f"day={number:05d}" for number in range(self.partitions))
            return tuple(FileInfo(path=name, size_bytes=0, is_dir=True) for name in (".hoodie", *days))
        first = int(path.partition("=")[2]) * self.slices
        files = [FileInfo(path=f"{path}/.hoodie_partition_metadata", size_bytes=96, is_dir=False)]
        for number in range(first, first + self.slices):
            file_id = FILE_ID.format(number=number)
            base, log = f"{file_id}_0-1-1_{INSTANT}.parquet", f".{file_id}_{INSTANT}.log.1_0-1-1"
            files.append(FileInfo(path=f"{path}/{base}", size_bytes=BASE_BYTES, is_dir=False))
            files.append(FileInfo(path=f"{path}/{log}", size_bytes=LOG_BYTES, is_dir=False))
        return tuple(files)


def write_timeline(folder: Path) -> None:
    """Two commits of a table of 40 columns; the schema is most of a read context."""
    hoodie = folder / ".hoodie"
    hoodie.mkdir()
    (hoodie / "hoodie.properties").write_text(PROPERTIES)
    names = ["id", "ts", "day", *(f"column_{number:02d}" for number in range(37))]
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    schema = json.dumps({"type": "record", "name": "trips", "fields": fields})
    for name in (f"{INSTANT}.commit", f"{DELTA_INSTANT}.deltacommit"):
        (hoodie / name).write_text(json.dumps({"extraMetadata": {"schema": schema}}))


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Plan a query on a table of many simulated file slices.")
    parser.add_argument("--partitions", type=int, default=1000)
    parser.add_argument("--slices", type=int, default=100, help="file slices per partition (default: 100)")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds per listing (default: 0.02)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_timeline(Path(folder))
        real = Storage.open(folder)
        storage = FoldersInMemory(
            origin=real.origin,
            root=real.root,
            filesystem=real.filesystem,
            partitions=options.partitions,
            slices=options.slices,
            delay_seconds=options.delay,
        )
        planner = SplitPlanner(TableState.load(storage, read_table_config(storage)))
        planner.context(QueryType.SNAPSHOT)
        before, start = peak_bytes(), time.perf_counter()
        pickles = SplitPickles()
        weights, pickled = array("q"), []
        for split in planner.splits(QueryType.SNAPSHOT):
            weights.append(split.base_size_bytes + split.log_size_bytes)
            pickled.append(pickles.dump(split))
        tasks = [tuple(pickled[index] for index in group) for group in pack(weights, 128 << 20, 16)]
        seconds, growth = time.perf_counter() - start, peak_bytes() - before
    print(
        f"{len(pickled):,} splits in {len(tasks):,} tasks in {seconds:.1f} s; one after the other, the listings "
        f"alone take {options.partitions * options.delay:.0f} s. The process grew by {growth / 1e6:.0f} MB; the tasks "
        f"are {sum(map(len, pickled)) / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
