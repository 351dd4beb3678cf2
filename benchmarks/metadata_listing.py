"""Plans a table of many files with its metadata table, and by listing folders.

    python -m benchmarks.metadata_listing --partitions 10000 --files 100

Writes the table below ``--folder``: empty data files, and a metadata table of one base file. ``hudi-bridge``, the
``hudi`` package and Hudi's bundle in PySpark 3.5 plan the same queries, one after another, for some minutes at most;
the first two also from an object store, with a delay of each request. Each plan runs in a process of its own, except
those of Spark, which has planned once before.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from hudi import HudiReadOptions, HudiTableBuilder

from benchmarks.hudi_in_store import in_store
from benchmarks.machine import facts
from benchmarks.many_files import WANTED_PARTITION, ManyFiles
from benchmarks.process_tree import own_peak_bytes
from benchmarks.reader_process import ReaderProcess, ReadFailedError
from benchmarks.spark_answers import spark_answers
from benchmarks.store import Store, running_store
from hudi_bridge.table import HudiTable

BRIDGE, PEER, BUNDLE = "hudi-bridge", "`hudi`", "Hudi on Spark"
ALL, ONE = "all", "one partition"
_PART = f"{WANTED_PARTITION:05d}"
_FOLDER = "lake"
_COLUMNS = ("query", "files from", "reader", "behind", "file slices", "s", "CPU s", "peak memory, MB", "requests")


def _by_bridge(place: str, query: str, uses_index: str) -> int:
    """The number of file slices that this package plans, of a table at a path or URI."""
    table = HudiTable.open(place, options={"hoodie.metadata.enable": uses_index})
    return sum(1 for _ in table.splits(filter=pc.field("part") == _PART if query == ONE else None))


def _by_hudi(place: str, query: str, uses_index: str) -> int:
    """The number of file slices that ``hudi`` plans, of a table at a path, or at ``host:port`` of a store."""
    is_near = place.startswith("/")
    builder = HudiTableBuilder.from_base_uri(place) if is_near else in_store(place, f"{_FOLDER}/many")
    table = builder.with_hudi_option("hoodie.metadata.enable", uses_index).build()
    options = HudiReadOptions()
    return len(table.get_file_slices(options.with_filters([("part", "=", _PART)]) if query == ONE else options))


_READERS: dict[str, Callable[[str, str, str], int]] = {BRIDGE: _by_bridge, PEER: _by_hudi}


def measure(reader: str, place: str, query: str, uses_index: str) -> dict[str, Any]:
    """What one plan took."""
    started, used = time.perf_counter(), time.process_time()
    slices = _READERS[reader](place, query, uses_index)
    return {
        "slices": slices,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - used,
        "peak_bytes": own_peak_bytes(),
    }


def _in_process(reader: str, place: str, query: str, uses_index: str, most_seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.metadata_listing", "--measure", reader, place, query, uses_index]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=most_seconds)
    except subprocess.TimeoutExpired:
        return {"refused": f"not in {most_seconds:g} s"}
    if done.returncode:
        return {"refused": " ".join(done.stderr.split("\n")[-2:])[:200]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _by_spark(spark: ReaderProcess, folder: Path, query: str, uses_index: str) -> dict[str, Any]:
    where = f"part = '{_PART}'" if query == ONE else None
    try:
        found = spark.ask(folder=str(folder), plan=True, metadata=uses_index, where=where)
    except ReadFailedError as error:
        return {"refused": str(error)[:200]}
    return found | {"slices": found["rows"], "requests": None}


def _line(query: str, uses_index: str, reader: str, behind: str, found: dict[str, Any]) -> str:
    cells = [query, "metadata table" if uses_index == "true" else "listing", reader, behind]
    if "refused" in found:
        return f"| {' | '.join(cells)} | {found['refused'].replace('|', '/')} | | | | |"
    cells += [f"{found['slices']:,}", f"{found['seconds']:.2f}", f"{found['cpu_seconds']:.2f}"]
    cells += [f"{found['peak_bytes'] / 1e6:,.0f}", f"{found['requests']:,}" if found.get("requests") else ""]
    return f"| {' | '.join(cells)} |"


def _compare(folder: Path, store: Store | None, spark: ReaderProcess | None, given: argparse.Namespace) -> None:
    """Print a line for each query and reader.

    Raises:
        SystemExit: a plan has another number of file slices than the table.
    """
    expected = {ALL: given.partitions * given.files, ONE: given.files}
    if spark is not None:
        _by_spark(spark, folder, ONE, "true")
    for uses_index in ("true",) if given.no_listing else ("true", "false"):
        for query, slices in expected.items():
            plans = [
                (reader, "", _in_process(reader, str(folder), query, uses_index, given.minutes * 60))
                for reader in _READERS
            ]
            for reader in _READERS if store is not None else ():
                assert store is not None
                store.reset()
                place = store.uri(folder) if reader == BRIDGE else store.endpoint()
                found = _in_process(reader, place, query, uses_index, given.minutes * 60)
                found["requests"] = sum(store.counted().requests.values())
                plans.append((reader, f"{given.delay_ms:g} ms", found))
            if spark is not None:
                plans.append((BUNDLE, "", _by_spark(spark, folder, query, uses_index)))
            for reader, behind, found in plans:
                print(_line(query, uses_index, reader, behind, found), flush=True)
                if reader == BRIDGE and found.get("slices") != slices:
                    raise SystemExit(f"{found} instead of {slices:,} file slices")


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=100, help="files in each partition")
    parser.add_argument("--folder", type=Path, help="where to write the table, a temporary folder unless given")
    parser.add_argument("--no-listing", action="store_true", help="do not make the data files, and do not list them")
    parser.add_argument("--no-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--no-delay", action="store_true", help="leave the object store out")
    parser.add_argument("--delay-ms", type=float, default=30.0, help="of each request (default: 30)")
    parser.add_argument("--minutes", type=float, default=5, help="for each plan, at most (default: 5)")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(*given.measure)))
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        root = Path(scratch).resolve()
        folder = root / _FOLDER / "many"
        ManyFiles(partitions=given.partitions, slices=given.files).write(folder, with_files=not given.no_listing)
        size = sum(path.stat().st_size for path in (folder / ".hoodie/metadata/files").iterdir())
        print(
            f"{given.partitions:,} partitions of {given.files} files, {size / 1e6:.0f} MB of names in the metadata "
            f"table\n\n| {' | '.join(_COLUMNS)} |\n|---|---|---|---|{'---:|' * 5}",
            flush=True,
        )
        delayed = nullcontext(None) if given.no_delay else running_store(root, given.delay_ms / 1000, None)
        with delayed as store, nullcontext(None) if given.no_spark else spark_answers() as spark:
            _compare(folder, store, spark, given)
    about = facts()
    print(f"\n{about['processor']}; Python {about['Python']}, hudi {about['hudi']}; commit {about['commit']}")


if __name__ == "__main__":
    main()
