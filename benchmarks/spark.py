"""Times reads in Spark with ``hudi_bridge`` and with Hudi's bundle: ``python -m benchmarks.spark standard``.

The bundle runs in PySpark 3.5, ``hudi_bridge`` in PySpark 3.5 and in the PySpark of this environment: each in a process
of its own, in turns, on the same table, with the same number of cores. Answers are compared too. ``slices-100`` and
``slices-1000`` are tables of that many small file slices.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.hudi_bundle import NAME, hudi_bundle
from benchmarks.idle import wait_until_idle
from benchmarks.make_tables import default_cache
from benchmarks.process_tree import Usage, peak_memory, usage
from benchmarks.results_folder import keep, today
from benchmarks.scenarios import SCENARIOS, row_key
from benchmarks.spark_environment import PYTHON35, environment
from benchmarks.spark_reader import again
from benchmarks.suite import SIZES, Case, make_all, of_scenario, of_slices

ROOT = Path(__file__).parent.parent
TIMEOUT_SECONDS = 60
Times = dict[str, list[float]]
"""By read, one number for each round."""


SLICES = {f"slices-{times}": times for times in (100, 1_000)}
BUNDLE = "bundle"
KEY = row_key(123_450)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all sessions have: the number of cores, the heap of the JVM, and the record key that one read looks up."""

    cores: int
    heap: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A reader, the Python that runs it, and the jar that it needs, if any."""

    name: str
    reader: str
    python: Path
    jar: Path | None = None


def contenders() -> list[Contender]:
    return [
        Contender(name=BUNDLE, reader="bundle", python=PYTHON35, jar=hudi_bundle()),
        Contender(name="hudi-bridge, 3.5", reader="bridge", python=PYTHON35),
        Contender(name="hudi-bridge by the public API, 3.5", reader="public", python=PYTHON35),
        Contender(name="hudi-bridge through Python, 3.5", reader="passing", python=PYTHON35),
        Contender(name="hudi-bridge, 4.x", reader="bridge", python=Path(sys.executable)),
        Contender(name="hudi-bridge by the public API, 4.x", reader="public", python=Path(sys.executable)),
        Contender(name="hudi-bridge by Spark Connect, 4.x", reader="connect", python=Path(sys.executable)),
    ]


class Session:
    """A reader in a process of its own, which has read the table once."""

    def __init__(self, contender: Contender, table: Path, setting: Setting) -> None:
        self._command = [str(contender.python), "-m", "benchmarks.spark_reader", contender.reader, str(table)]
        self._command += [
            str(setting.cores),
            setting.heap,
            setting.key,
            *([str(contender.jar)] if contender.jar else []),
        ]
        self.process = subprocess.Popen(
            self._command,
            env=environment(contender.python),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.found: dict[str, Any] = {}
        self.seconds: Times = defaultdict(list)
        self.cpu_seconds: Times = defaultdict(list)

    def begin(self) -> None:
        """Wait until the table has been read."""
        self.found = self._answer()

    def read(self, name: str) -> None:
        """Time a read, after the process has done what earlier ones have left to do."""
        wait_until_idle(lambda: usage(self.process.pid).cpu_seconds)
        assert self.process.stdin is not None
        print(name, file=self.process.stdin, flush=True)
        answer = self._answer()
        self.seconds[name].append(answer["seconds"])
        self.cpu_seconds[name].append(answer["cpu_seconds"])

    def end(self, peak: Usage) -> dict[str, Any]:
        """All that was found."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        last = self._answer() | {"peak_bytes": peak.resident_bytes, "python_peak_bytes": peak.bytes_beside_jvm}
        self.process.wait(TIMEOUT_SECONDS)
        return {**self.found, **last, "seconds": self.seconds, "cpu_seconds": self.cpu_seconds}

    def _answer(self) -> dict[str, Any]:
        """The next line of JSON; Spark and the bundle may print others."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise subprocess.CalledProcessError(self.process.wait(TIMEOUT_SECONDS), self._command)


def measure(table: Path, rounds: int, setting: Setting, chosen: Sequence[Contender]) -> dict[str, dict[str, Any]]:
    """What the readers have found, which take turns."""
    with ExitStack() as stack:
        sessions: dict[str, Session] = {}
        peaks: dict[str, Usage] = {}
        for one in chosen:
            sessions[one.name] = session = Session(one, table, setting)
            stack.enter_context(session.process)
            stack.callback(session.process.kill)
            peaks[one.name] = stack.enter_context(peak_memory(session.process.pid))
            session.begin()
        names = dict.fromkeys(name for session in sessions.values() for name in session.found["reads"])
        for name in names:
            for _ in range(rounds):
                for session in sessions.values():
                    if name in session.found["reads"]:
                        session.read(name)
        return {name: session.end(peaks[name]) for name, session in sessions.items()}


def markdown(case: Case, results: dict[str, dict[str, Any]], setting: Setting, rounds: int) -> str:
    """The page of one table; a ratio is void if the answers differ."""
    bundle = results[BUNDLE]
    lines = [f"# {case.name} in Spark, {today()}", ""]
    lines += [
        "| read | reader | Spark | rows/s, best | of the bundle's best | of its median | CPU s, median | of its |",
        "|---|---|---|---:|---:|---:|---:|---:|",
    ]
    reads = list(bundle["seconds"])
    for read, of_bundle in (*zip(reads, reads, strict=True), *zip(map(again, reads), reads, strict=True)):
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
    lines += ["", "| reader | peak memory of all processes, MB | of Python's alone | heap in use at the end |"]
    lines += ["|---|---:|---:|---:|"]
    for name, one in results.items():
        sizes = (one["peak_bytes"], one["python_peak_bytes"], one["heap_bytes"])
        lines.append(f"| {name} | {' | '.join(f'{size >> 20:,}' for size in sizes)} |")
    about = (
        f"{bundle['rows']:,} rows x 13 columns: {case.about}. A row counts as read whether it passes the filter or "
        f"not. `local[{setting.cores}]`, {rounds} rounds after one not measured. The readers take turns, each in a "
        f"session of its own, which is idle before it reads; the bundle is `{NAME}`. Reads `again` are those of a "
        f"DataFrame that is open already. The JVMs may have a heap of {setting.heap}; its use is taken after a garbage "
        f"collection, with the last DataFrame open. Load average {os.getloadavg()[0]:.2f}."
    )
    lines += ["", about, ""]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Time reads in Spark with hudi-bridge and with Hudi's bundle.")
    parser.add_argument("tables", nargs="+", choices=(*SCENARIOS, *SLICES))
    # The JVM compiles what it runs for some rounds.
    parser.add_argument("--rounds", type=int, default=20, help="measured runs of each read (default: 20)")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1, help="default: %(default)s")
    parser.add_argument("--heap", default="4g", help="of each JVM (default: %(default)s)")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[""],
        metavar="NAME",
        help="readers whose names begin with one of these, and the bundle",
    )
    parser.add_argument(
        "--slice-rows",
        type=int,
        default=SIZES["standard"].slice_rows,
        help="rows of a small slice (default: %(default)s)",
    )
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write the page into results/")
    options = parser.parse_args()
    chosen = [one for one in contenders() if one.name.startswith((BUNDLE, *options.only))]
    for name in options.tables:
        setting = Setting(cores=options.cores, heap=options.heap, key=KEY)
        if name in SLICES:
            case = of_slices(options.slice_rows, SLICES[name])
            setting = replace(setting, key=row_key(options.slice_rows // 2))
        else:
            case = of_scenario(SCENARIOS[name])
        (table,) = make_all([case], options.cache.resolve())
        results = measure(table, options.rounds, setting, chosen)
        page = markdown(case, results, setting, options.rounds)
        if options.keep:
            keep(page, f"{name}-spark")
        print(page, flush=True)


if __name__ == "__main__":
    main()
