"""Measures what a query of one of 100 changed file slices costs: ``python -m benchmarks.scan_plan``.

A load by the Iceberg service merges all slices. Where the client lets the service plan its scan, only those that the
filter touches are merged. Each is asked of a new service with an empty scratch folder, in turns, after its
configuration, which all clients ask for first; CPU time is that of the service, from the request to the answer.
"""

import argparse
import json
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.machine import facts
from benchmarks.service_process import cpu_seconds, iceberg_service
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

_PART = 7
_LOAD, _PLAN = "load, all slices", "plan, one slice"
_TABLES = "namespaces/default/tables/trades"


def write_table(folder: Path, slices: int, rows: int) -> None:
    """One partition for each slice, of ``rows`` rows, of which the log changes one in ten."""
    table = TableWriter(folder=folder, partition_fields=("part",), fields=(*KEY_AND_VALUE, ("part", "int"))).create()

    def some(part: int, version: int, every: int) -> list[dict[str, Any]]:
        keys = (f"{part:03d}-{number:09d}" for number in range(0, rows, every))
        return [{"id": key, "ts": version, "value": f"version {version} of {key}", "part": part} for key in keys]

    for part in range(slices):
        table.base_file(at(1), some(part, 1, 1), partition=str(part), file_id=f"f{part}")
    table.commit(at(1))
    for part in range(slices):
        block = table.data_block(at(2), some(part, 2, 10))
        table.log_file(at(2), [block], base_instant=at(1), partition=str(part), file_id=f"f{part}")
    table.commit(at(2))


def measure(folder: Path, way: str) -> tuple[float, float]:
    """The seconds and CPU seconds of a way in a new service.

    Raises:
        ValueError: the answer is of another number of base files.
    """
    with tempfile.TemporaryDirectory() as scratch, iceberg_service(folder, Path(scratch), ()) as (url, process):
        _asked(f"{url}/v1/config")
        used, started = cpu_seconds(process), time.perf_counter()
        if way == _LOAD:
            answer = _asked(f"{url}/v1/{_TABLES}")
        else:
            condition = {"type": "eq", "term": "part", "value": _PART}
            answer = _asked(f"{url}/v1/planned/{_TABLES}/plan", {"filter": condition})
            named = {task["data-file"]["file-path"] for task in answer["file-scan-tasks"]}
            base_files = {path for path in named if str(folder) in path}
            if len(base_files) != 1:
                raise ValueError(f"the plan names {base_files}, expected one base file")
        return time.perf_counter() - started, cpu_seconds(process) - used


def _asked(url: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    request = urllib.request.Request(url, data=None if body is None else json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slices", type=int, default=100)
    parser.add_argument("--rows", type=int, default=10_000, help="in each slice (default: 10,000)")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "trades"
        write_table(folder, given.slices, given.rows)
        found: dict[str, list[tuple[float, float]]] = {_LOAD: [], _PLAN: []}
        for _ in range(given.rounds):
            for way, measured in found.items():
                measured.append(measure(folder, way))
    print("| way | s, median | CPU s, median | of the load's CPU |\n|---|---:|---:|---:|")
    whole = statistics.median(used for _, used in found[_LOAD])
    for way, measured in found.items():
        seconds, used = (statistics.median(values) for values in zip(*measured, strict=True))
        print(f"| {way} | {seconds:.3f} | {used:.3f} | {used / whole:.1%} |")
    about = facts()
    print(f"\n{given.slices} slices of {given.rows:,} rows; {about['processor']}; commit {about['commit']}")


if __name__ == "__main__":
    main()
