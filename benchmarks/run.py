"""Times the reads of a scenario with both packages: ``python -m benchmarks.run standard``.

Every measurement runs in a process of its own, ``hudi-bridge`` and ``hudi`` in turns. Their answers are compared first;
if they differ, the ratio is void. This process imports neither a reader nor pyarrow: on Linux, the peak memory of a
child process starts at the memory of its parent.
"""

import argparse
import datetime as dt
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.make_tables import default_cache, make_table
from benchmarks.report import Result, Timing
from benchmarks.scenarios import SCENARIOS, Delivery, Read, Scenario

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
OURS = "benchmarks.reader_hudi_bridge"
PEER = "benchmarks.reader_hudi_rs"
TIMEOUT_SECONDS = 900


class ReadFailedError(Exception):
    """Raised when a reader's process ends without an answer."""


def _child(module: str, task: str, table: Path, scenario: Scenario, read: Read) -> dict[str, Any]:
    command = [sys.executable, "-m", module, task, str(table), scenario.name, read.name]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as expired:
        raise ReadFailedError(f"no answer in {TIMEOUT_SECONDS} s") from expired
    if done.returncode != 0:
        raise ReadFailedError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _difference(ours: dict[str, Any], theirs: dict[str, Any]) -> str | None:
    """The first difference between the two answers, None if they are the same."""
    for key in ("columns", "rows", "checksum"):
        if ours[key] != theirs[key]:
            return f"{key}: {ours[key]} against {theirs[key]}"
    return None


def _timing(module: str, table: Path, scenario: Scenario, read: Read, rows: int) -> Timing:
    timing = Timing(**_child(module, "time", table, scenario, read))
    if read.delivery is not Delivery.FIRST_BATCH and timing.rows != rows:
        raise ReadFailedError(f"{timing.rows} rows when timed, {rows} when checked")
    return timing


def measure(scenario: Scenario, table: Path, read: Read, rounds: int) -> Result:
    """The runs of one read; if the peer fails, the ratio is void.

    Raises:
        ReadFailedError: ``hudi-bridge`` fails, or a timed read has another number of rows than the checked one.
    """
    ours: list[Timing] = []
    theirs: list[Timing] = []
    checked = _child(OURS, "check", table, scenario, read)
    void = None
    try:
        peer_checked = _child(PEER, "check", table, scenario, read)
        void = _difference(checked, peer_checked)
    except ReadFailedError as failure:
        peer_checked = None
        void = str(failure)
    for _ in range(rounds):
        ours.append(_timing(OURS, table, scenario, read, checked["rows"]))
        if peer_checked is not None:
            theirs.append(_timing(PEER, table, scenario, read, peer_checked["rows"]))
    return Result(read_name=read.name, rows=checked["rows"], ours=tuple(ours), theirs=tuple(theirs), void=void)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time hudi-bridge and hudi on the same tables.")
    parser.add_argument("scenarios", nargs="+", choices=SCENARIOS)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each read and reader (default: 5)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    options = parser.parse_args()
    for name in options.scenarios:
        scenario = SCENARIOS[name]
        table = make_table(scenario, options.cache.resolve())
        load = os.getloadavg()[0]
        results = [measure(scenario, table, read, options.rounds) for read in scenario.reads]
        page = report.markdown(scenario, results, options.rounds, load)
        path = RESULTS / f"{dt.datetime.now(dt.UTC).date()}-{name}.md"
        RESULTS.mkdir(exist_ok=True)
        path.write_text(page)
        print(f"{path}\n\n{page}", flush=True)


if __name__ == "__main__":
    main()
