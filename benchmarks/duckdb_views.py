"""Times queries in DuckDB on each way to the rows: ``python -m benchmarks.duckdb_views standard``."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.duckdb_view_reader import QUERIES, WAYS
from benchmarks.make_tables import default_cache, make_table
from benchmarks.results_folder import keep, today
from benchmarks.scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).parent.parent
STALE, BEFORE, CACHED = "base files alone", "dataset", "view, cache folder"
Measured = dict[tuple[str, str], list[dict[str, Any]]]


def measure(way: str, table: Path, query: str, cache: str) -> dict[str, Any]:
    """One process; see ``duckdb_view_reader``."""
    command = [sys.executable, "-m", "benchmarks.duckdb_view_reader", way, str(table), query, cache]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[0])
    return result


def measure_all(table: Path, rounds: int) -> Measured:
    """Rounds in which the ways take turns."""
    found: Measured = defaultdict(list)
    with tempfile.TemporaryDirectory() as cache:
        measure(CACHED, table, next(iter(QUERIES)), cache)
        for _ in range(rounds):
            for query in QUERIES:
                for way in WAYS:
                    found[query, way].append(measure(way, table, query, cache))
    return found


def markdown(scenario: Scenario, found: Measured, rounds: int) -> str:
    """The page of one scenario; a ratio is void if the answers differ."""
    lines = [f"# {scenario.name} in DuckDB, {today()}", ""]
    lines += [
        f"| query | rows by | warm, s | of {STALE} | first, s | of {BEFORE} | peak memory, MB |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for query in QUERIES:
        for way in WAYS:
            is_same = way == STALE or _answers(found, query, way) == _answers(found, query, BEFORE)
            warm, first = (_median(found, query, way, of) for of in ("warm", "first"))
            ratios = warm / _median(found, query, STALE, "warm"), first / _median(found, query, BEFORE, "first")
            shown = [f"{ratio:.2f}x" if is_same else "void" for ratio in ratios]
            peak = _median(found, query, way, "peak_bytes") / 1e6
            lines.append(f"| {query} | {way} | {warm:.4f} | {shown[0]} | {first:.3f} | {shown[1]} | {peak:,.0f} |")
    about = (
        f"{scenario.rows:,} rows before {scenario.rows // scenario.delete_every:,} deletes x 13 columns. Medians of "
        f"{rounds} rounds, in which the ways take turns, each query in a process of its own. Base files alone are what "
        "DuckDB reads without a connector, with a stale answer. A first query counts from attaching the table, without "
        f"imports. {os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f}."
    )
    lines += ["", about, ""]
    return "\n".join(lines)


def _median(found: Measured, query: str, way: str, of: str) -> float:
    return float(statistics.median(one[of] for one in found[query, way]))


def _answers(found: Measured, query: str, way: str) -> set[str]:
    return {one["answer"] for one in found[query, way]}


def main() -> None:
    """Measures and prints the pages."""
    parser = argparse.ArgumentParser(description="Time queries in DuckDB on each way to the rows of a table.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    options = parser.parse_args()
    for name in options.scenarios:
        scenario = SCENARIOS[name]
        found = measure_all(make_table(scenario, options.cache.resolve()), options.rounds)
        page = markdown(scenario, found, options.rounds)
        if options.keep:
            keep(page, f"{name}-duckdb")
        print(page, flush=True)


if __name__ == "__main__":
    main()
