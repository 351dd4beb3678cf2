"""Plans a table of many files with its metadata table, and by listing folders.

    python -m benchmarks.metadata_listing --partitions 10000 --files 100

Writes the table below ``--folder``: empty data files, and a metadata table of one base file. Each plan runs in a
process of its own, which prints seconds and peak memory. The ``hudi`` package plans the same from local data files, if
they are made, with the metadata table and without, for a minute at most.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.compute as pc
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks.lookup import SlowFileSystem
from benchmarks.many_files import ManyFiles
from hudi_bridge.table import HudiTable

_PEER = "hudi"
_MOST_SECONDS = 60


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
        ManyFiles(partitions=given.partitions, slices=given.files).write(folder, with_files=not given.no_listing)
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
