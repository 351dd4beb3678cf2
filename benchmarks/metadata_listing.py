"""Plans a table of many files with its metadata table, and by listing folders.

    python -m benchmarks.metadata_listing --partitions 10000 --files 100

Writes the table below ``--folder``: empty data files, and a metadata table of one base file. Each plan runs in a
process of its own, which prints seconds and peak memory. The ``hudi`` package plans the same from local data files, if
they are made, with the metadata table and without, for a minute at most.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.compute as pc
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks.lookup import SlowFileSystem
from hudi_bridge.table import HudiTable
from tests.logformat.hfile_writer import Cell, hfile
from tests.table_writer import TableWriter

_SCHEMA = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {
            "name": "filesystemMetadata",
            "type": [
                "null",
                {
                    "type": "map",
                    "values": {
                        "type": "record",
                        "name": "HoodieMetadataFileInfo",
                        "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
                    },
                },
            ],
        },
    ],
}
_COLUMNS = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": ["null", "string"]}, {"name": "part", "type": ["null", "string"]}],
}
_INSTANT, _COMPLETED = "20260101000000000", "20260101000001000"
_BOOTSTRAP = "00000000000000000"
_PARTITIONS_TYPE, _FILES_TYPE = 1, 2
_BLOCK_BYTES = 1 << 20
_PEER = "hudi"
_MOST_SECONDS = 60


def _long(number: int) -> bytes:
    """An Avro long."""
    value, out = number << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _text(text: str) -> bytes:
    raw = text.encode()
    return _long(len(raw)) + raw


def _record(kind: int, files: dict[str, int]) -> bytes:
    items = b"".join(_text(name) + _long(size) + b"\0" for name, size in files.items())
    return _text("") + _long(kind) + _long(1) + (_long(len(files)) + items if files else b"") + _long(0)


def _blocks(cells: Iterator[Cell]) -> Iterator[list[Cell]]:
    block: list[Cell] = []
    size = 0
    for cell in cells:
        block.append(cell)
        size += len(cell[1])
        if size > _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _file_names(partition: int, files: int) -> dict[str, int]:
    return {
        f"{partition:08d}-0000-4000-8000-{number:012d}-0_0-1-{number}_{_INSTANT}.parquet": 1_000_000 + number
        for number in range(files)
    }


def write_table(folder: Path, partitions: int, files: int, *, with_files: bool) -> None:
    """A table whose metadata table has all files; ``with_files`` makes them, all empty, and not their folders alone."""
    paths = [f"part={number:05d}" for number in range(partitions)]
    timeline, own = folder / ".hoodie/timeline", folder / ".hoodie/metadata/.hoodie/timeline"
    index = folder / ".hoodie/metadata/files"
    for made in (timeline, own, index):
        made.mkdir(parents=True)
    properties = {
        "hoodie.table.name": "many",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.table.partition.fields": "part",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.table.metadata.partitions": "files",
        "hoodie.table.create.schema": json.dumps(_COLUMNS).replace(":", "\\:"),
    }
    (folder / ".hoodie/hoodie.properties").write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
    columns = (("id", "string"), ("part", "string"))
    for place, instants in ((folder, (_INSTANT,)), (folder / ".hoodie/metadata", (_BOOTSTRAP, _INSTANT))):
        for instant in instants:
            TableWriter(folder=place, fields=columns).commit(instant, completed=_COMPLETED)

    def cells() -> Iterator[Cell]:
        yield "__all_partitions__", _record(_PARTITIONS_TYPE, dict.fromkeys(paths, 0))
        for number, path in enumerate(paths):
            yield path, _record(_FILES_TYPE, _file_names(number, files))

    info = {"schema": json.dumps(_SCHEMA).encode()}
    data = hfile([*_blocks(cells())], info=info)
    (index / f"files-0000-0_0-1-1_{_BOOTSTRAP}.hfile").write_bytes(data)
    for number, path in enumerate(paths):
        # Without any folder, the table would be taken for a small one, which is listed.
        (folder / path).mkdir()
        (folder / path / ".hoodie_partition_metadata").touch()
        for name in _file_names(number, files) if with_files else ():
            (folder / path / name).touch()


def _all(table: HudiTable) -> int:
    return sum(1 for _ in table.splits())


def _one(table: HudiTable) -> int:
    return sum(1 for _ in table.splits(filter=pc.field("part") == "00007"))


_QUESTIONS: dict[str, Callable[[HudiTable], int]] = {"all": _all, "one partition": _one}


def _by_hudi(folder: Path, question: str, uses_index: str) -> int:
    """The number of file slices that ``hudi`` plans."""
    table = HudiTableBuilder.from_base_uri(str(folder)).with_hudi_option("hoodie.metadata.enable", uses_index).build()
    options = HudiReadOptions()
    return len(table.get_file_slices(options.with_filters([("part", "=", "00007")]) if question != "all" else options))


def measure_peer(folder: Path, question: str, uses_index: str) -> None:
    """Plans once by ``hudi``, and prints what it took."""
    started, used = time.perf_counter(), time.process_time()
    slices = _by_hudi(folder, question, uses_index)
    seconds, of_cpu = time.perf_counter() - started, time.process_time() - used
    how = "metadata table" if uses_index == "true" else "listing"
    _print(question, slices, seconds, of_cpu, f"`hudi`, {how}")


def _print(question: str, splits: int, seconds: float, of_cpu: float, how: str) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{question:15}{splits:10,} splits{seconds:8.2f} s{of_cpu:8.2f} s of CPU{peak:8,} MiB  {how}", flush=True)


def measure(folder: Path, question: str, uses_index: str, delay_ms: float) -> None:
    """Plans once, and prints what it took; with a delay, each request takes that long."""
    slow = SlowFileSystem(delay_ms / 1000) if delay_ms else None
    started, used = time.perf_counter(), time.process_time()
    table = HudiTable.open(str(folder), slow, options={"hoodie.metadata.enable": uses_index})
    splits = _QUESTIONS[question](table)
    seconds, of_cpu = time.perf_counter() - started, time.process_time() - used
    how = "metadata table" if uses_index == "true" else "listing"
    if slow is not None:
        how += f", {slow.requests:,} requests of {delay_ms:g} ms"
    _print(question, splits, seconds, of_cpu, how)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100, help="files in each partition")
    parser.add_argument("--folder", type=Path, help="where to write the table, a temporary folder unless given")
    parser.add_argument("--no-listing", action="store_true", help="do not make the data files, and do not list them")
    parser.add_argument("--delay-ms", type=float, default=30.0, help="of each request, in a second plan")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        folder, question, uses_index, delay_ms = given.measure
        if delay_ms == _PEER:
            measure_peer(Path(folder), question, uses_index)
        else:
            measure(Path(folder), question, uses_index, float(delay_ms))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = Path(scratch) / "many"
        write_table(folder, given.partitions, given.files, with_files=not given.no_listing)
        size = sum(path.stat().st_size for path in (folder / ".hoodie/metadata/files").iterdir())
        print(f"{given.partitions:,} partitions of {given.files} files, an index of {size / 2**20:.0f} MiB", flush=True)
        for uses_index in ("true",) if given.no_listing else ("true", "false"):
            for question in _QUESTIONS:
                for delay_ms in ("0", str(given.delay_ms), *(() if given.no_listing else (_PEER,))):
                    command = [sys.executable, "-m", "benchmarks.metadata_listing", "--measure", str(folder)]
                    timeout = _MOST_SECONDS if delay_ms == _PEER else None
                    try:
                        subprocess.run([*command, question, uses_index, delay_ms], check=True, timeout=timeout)
                    except subprocess.TimeoutExpired:
                        print(f"{question:15}`hudi`: not in {_MOST_SECONDS} s", flush=True)


if __name__ == "__main__":
    main()
