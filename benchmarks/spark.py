"""Times reads in Spark with ``hudi_bridge`` and with Hudi's bundle: ``python -m benchmarks.spark standard``.

The bundle runs in PySpark 3.5, ``hudi_bridge`` in PySpark 3.5 and in the PySpark of this environment: in one process
after another, on the same table, with the same number of cores. Answers are compared too.
"""

import argparse
import datetime as dt
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
from benchmarks.scenarios import SCENARIOS, Scenario

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
PYTHON35 = ROOT / ".venv-spark35" / "bin" / "python"
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
    environment = os.environ | {
        "PYSPARK_PYTHON": str(contender.python),
        "PYSPARK_DRIVER_PYTHON": str(contender.python),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    command = [str(contender.python), "-m", "benchmarks.spark_reader", contender.reader, str(table), str(rounds)]
    command += [str(cores), *([str(contender.jar)] if contender.jar else [])]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_SECONDS
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def markdown(scenario: Scenario, results: dict[str, dict[str, Any]], cores: int, rounds: int) -> str:
    """The page of one scenario; a ratio is void if the answers differ."""
    bundle = results["bundle"]
    lines = [f"# {scenario.name} in Spark, {dt.datetime.now(dt.UTC).date()}", ""]
    lines += [
        "| read | reader | Spark | rows/s, best | rows/s, median | of the bundle's best |",
        "|---|---|---|---:|---:|---:|",
    ]
    again = [f"{read}, again" for read in bundle["seconds"]]
    for read, theirs in (*bundle["seconds"].items(), *zip(again, bundle["seconds"].values(), strict=True)):
        for name, one in results.items():
            if read not in one["seconds"]:
                continue
            seconds, same = one["seconds"][read], one["answers"] == bundle["answers"] and one["rows"] == bundle["rows"]
            ratio = f"{min(theirs) / min(seconds):.2f}x" if same else "void"
            best, median = one["rows"] / min(seconds), one["rows"] / statistics.median(seconds)
            lines.append(f"| {read} | {name} | {one['spark']} | {best:,.0f} | {median:,.0f} | {ratio} |")
    about = (
        f"{bundle['rows']:,} rows x 13 columns; a row counts as read whether or not it passes the filter. "
        f"`local[{cores}]`, {rounds} rounds after one that is not measured, one session after another; the bundle is "
        f"`{NAME}`. Reads `again` are those of a DataFrame that is open already. Load average {os.getloadavg()[0]:.2f}."
    )
    lines += ["", about, ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time reads in Spark with hudi-bridge and with Hudi's bundle.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=5, help="measured runs of each read (default: 5)")
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
            (RESULTS / f"{dt.datetime.now(dt.UTC).date()}-{name}-spark.md").write_text(page)
        print(page, flush=True)


if __name__ == "__main__":
    main()
