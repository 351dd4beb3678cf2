"""Reads a table of 200 million rows in 2,000 file slices on two workers of Spark: ``python -m benchmarks.scale``.

Hudi writes the table in parts; its rows are numbers, so that their sums are known without a reader. A fifth of the
file slices has logs. Each way of reading runs in a session of its own, ``local-cluster[2,1,4096]``: two executors of
one core, each with a JVM and its Python workers, whose memory is watched. Then it is read once more, and one executor
is killed when half of the tasks of a stage are done. The command fails if a sum is wrong, if no executor died, or if an
executor with its Python workers took more memory than a worker has.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.machine import commit
from benchmarks.make_tables import default_cache
from benchmarks.results_folder import keep, today
from benchmarks.scale_reader import DRIVER_MB, EXECUTORS, WORKER_MB
from benchmarks.scale_table import ScaleTable
from benchmarks.spark_environment import PYTHON35, ROOT, environment

WAYS = {
    "read": Path(sys.executable),
    "format": Path(sys.executable),
    "read, 3.5": PYTHON35,
    "through Python, 3.5": PYTHON35,
}
_MB = 1 << 20
_COLUMNS = (
    "way",
    "Spark",
    "s",
    "opened after, s",
    "CPU s",
    "worker, MB",
    "its JVM",
    "its Python",
    "driver JVM, MB",
    "its Python",
    "killed after",
    "s",
)


def measure(name: str, table: Path, heap_mb: int, partition_bytes: int) -> dict[str, Any]:
    """What a session of its own finds."""
    python, way = WAYS[name], name.partition(",")[0]
    command = [str(python), "-m", "benchmarks.scale_reader", way, str(table), str(heap_mb), str(partition_bytes)]
    done = subprocess.run(command, env=environment(python), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def faults(table: ScaleTable, found: dict[str, Any]) -> list[str]:
    """What is wrong with a result, in words; nothing if it is as it has to be."""
    wrong = []
    for answer in ("sums", "sums_though_killed"):
        sums = {name: tuple(numbers) for name, numbers in found[answer].items()}
        expected = table.sums()
        names = sorted(name for name in {*sums, *expected} if sums.get(name) != expected.get(name))
        if names:
            wrong.append(f"{answer}: {names[0]} has {sums.get(names[0])}, expected {expected.get(names[0])}")
    if not found["death"]["tasks"]:
        wrong.append("no executor was killed")
    if found["worker"]["both"] > WORKER_MB * _MB:
        wrong.append(f"an executor took {found['worker']['both'] / _MB:,.0f} MB of {WORKER_MB}")
    return wrong


def page(table: ScaleTable, results: dict[str, dict[str, Any]], heap_mb: int) -> str:
    """The results as Markdown."""
    lines = [
        f"# {table.rows:,} rows on two workers, {today()}",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|---|---|{'---:|' * (len(_COLUMNS) - 2)}",
    ]
    for name, one in results.items():
        worker, driver, death = one["worker"], one["driver"], one["death"]
        sizes = (worker["both"], worker["jvm"], worker["python"], driver["jvm"], driver["python"])
        lines.append(
            f"| {name} | {one['spark']} "
            f"| {one['seconds']:.0f} | {one['opened_seconds']:.1f} | {one['cpu_seconds']:.0f} "
            f"| {' | '.join(f'{size / _MB:,.0f}' for size in sizes)} "
            f"| {death['completed']:,} of {death['tasks']:,} tasks | {one['seconds_though_killed']:.0f} |"
        )
    about = (
        f"{table.slices:,} file slices in {table.partitions:,} partitions, {table.slices_with_logs:,} of them with logs"
        f"{f'; Hudi wrote one in {table.copies:,}, the others are copies' if table.copies > 1 else ''}. "
        f"`local-cluster[{EXECUTORS},1,{WORKER_MB}]`, heaps of {heap_mb:,} MB for an executor and {DRIVER_MB:,} MB for "
        "the driver, whose JVM also has Spark's master and workers. All sums of each partition are as known, with an "
        "executor killed too. Memory is resident, the peak of the worst executor during the first read; the columns "
        f"of JVM and Python may be of different times. Load average {os.getloadavg()[0]:.1f}; commit {commit()}."
    )
    lines += ["", about, ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--buckets", type=int, default=20, help="file slices of a partition (default: 20)")
    parser.add_argument("--rows-in-slice", type=int, default=100_000)
    parser.add_argument("--copies", type=int, default=1, help="of what Hudi writes (default: 1)")
    parser.add_argument("--heap-mb", type=int, default=2048, help="of an executor (default: %(default)s)")
    parser.add_argument("--partition-bytes", type=int, default=128 << 20, help="of a task (default: 128 MB)")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help=", ".join(WAYS))
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    given = parser.parse_args()
    table = ScaleTable(
        partitions=given.partitions, buckets=given.buckets, rows_in_slice=given.rows_in_slice, copies=given.copies
    )
    path = table.made(given.cache.resolve())
    results = {}
    for way in given.ways:
        results[way] = measure(way, path, given.heap_mb, given.partition_bytes)
        wrong = faults(table, results[way])
        if wrong:
            raise SystemExit(f"{way}: {'; '.join(wrong)}")
    written = page(table, results, given.heap_mb)
    if given.keep:
        keep(written, "scale-spark")
    print(written, flush=True)


if __name__ == "__main__":
    main()
