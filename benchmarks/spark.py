"""Times reads in Spark with ``hudi_bridge`` and with Hudi's bundle: ``python -m benchmarks.spark standard``.

The bundle runs in PySpark 3.5, ``hudi_bridge`` in PySpark 3.5 and in the PySpark of this environment: in one process
after another, on the same table, with the same number of cores. Answers are compared too.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.hudi_bundle import NAME, hudi_bundle
from benchmarks.make_tables import default_cache, make_table
from benchmarks.process_tree import peak_memory
from benchmarks.results_folder import keep, today
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.spark_environment import PYTHON35, environment

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A reader, the Python that runs it, and the jar that it needs, if any."""

    name: str
    reader: str
    python: Path
    jar: Path | None = None


def contenders() -> list[Contender]:
    return [
        Contender(name="bundle", reader="bundle", python=PYTHON35, jar=hudi_bundle()),
        Contender(name="hudi-bridge, 3.5", reader="bridge", python=PYTHON35),
        Contender(name="hudi-bridge through Python, 3.5", reader="passing", python=PYTHON35),
        Contender(name="hudi-bridge, 4.x", reader="bridge", python=Path(sys.executable)),
    ]


def measure(contender: Contender, table: Path, rounds: int, cores: int) -> dict[str, Any]:
    command = [str(contender.python), "-m", "benchmarks.spark_reader", contender.reader, str(table), str(rounds)]
    command += [str(cores), *([str(contender.jar)] if contender.jar else [])]
    with (
        subprocess.Popen(
            command, env=environment(contender.python), cwd=ROOT, stdout=subprocess.PIPE, text=True
        ) as reader,
        peak_memory(reader.pid) as peak,
    ):
        output, _ = reader.communicate(timeout=TIMEOUT_SECONDS)
    if reader.returncode:
        raise subprocess.CalledProcessError(reader.returncode, command)
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result | {"peak_bytes": peak.resident_bytes}


def markdown(scenario: Scenario, results: dict[str, dict[str, Any]], cores: int, rounds: int) -> str:
    """The page of one scenario; a ratio is void if the answers differ."""
    bundle = results["bundle"]
    lines = [f"# {scenario.name} in Spark, {today()}", ""]
    lines += [
        "| read | reader | Spark | rows/s, best | of the bundle's best | of its median | CPU s, median | of its |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    again = [f"{read}, again" for read in bundle["seconds"]]
    for read, of_bundle in (
        *zip(bundle["seconds"], bundle["seconds"], strict=True),
        *zip(again, bundle["seconds"], strict=True),
    ):
        for name, one in results.items():
            if read not in one["seconds"]:
                continue
            same = one["answers"] == bundle["answers"] and one["rows"] == bundle["rows"]
            seconds, cpu = one["seconds"][read], statistics.median(one["cpu_seconds"][read])
            theirs, their_cpu = bundle["seconds"][of_bundle], statistics.median(bundle["cpu_seconds"][of_bundle])
            pairs = (
                (min(theirs), min(seconds)),
                (statistics.median(theirs), statistics.median(seconds)),
                (their_cpu, cpu),
            )
            of_best, of_median, of_cpu = (f"{one / other:.2f}x" if same else "void" for one, other in pairs)
            best = one["rows"] / min(seconds)
            lines.append(
                f"| {read} | {name} | {one['spark']} | {best:,.0f} | {of_best} | {of_median} | {cpu:.2f} | {of_cpu} |"
            )
    lines += ["", "| reader | peak memory of all processes, MB | heap in use at the end, MB |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {one['peak_bytes'] >> 20:,} | {one['heap_bytes'] >> 20:,} |" for name, one in results.items()
    ]
    about = (
        f"{bundle['rows']:,} rows x 13 columns; a row counts as read whether or not it passes the filter. "
        f"`local[{cores}]`, {rounds} rounds after one that is not measured, one session after another; the bundle is "
        f"`{NAME}`. Reads `again` are those of a DataFrame that is open already. The JVMs may have 4 GB of heap; "
        "its use is taken after a garbage collection, with the last DataFrame open. "
        f"Load average {os.getloadavg()[0]:.2f}."
    )
    lines += ["", about, ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time reads in Spark with hudi-bridge and with Hudi's bundle.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    # The JVM compiles what it runs for some rounds.
    parser.add_argument("--rounds", type=int, default=20, help="measured runs of each read (default: 20)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="default: %(default)s")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    options = parser.parse_args()
    for name in options.scenarios:
        scenario = SCENARIOS[name]
        table = make_table(scenario, options.cache.resolve())
        results = {one.name: measure(one, table, options.rounds, options.cores) for one in contenders()}
        page = markdown(scenario, results, options.cores, options.rounds)
        if options.keep:
            keep(page, f"{name}-spark")
        print(page, flush=True)


if __name__ == "__main__":
    main()
