"""Writes measurements as a Markdown page, with the machine and the commit."""

import datetime as dt
import os
import platform
import statistics
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.make_tables import HUDI_BUNDLE
from benchmarks.scenarios import Scenario

PACKAGES = ("pyarrow", "numpy", "hudi")

HEAD = """\
| read | rows | hudi-bridge, s | hudi, s | faster, best | faster, median | hudi-bridge, MB | hudi, MB |
|---|---:|---:|---:|---:|---:|---:|---:|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The measurement of one process."""

    seconds: float
    peak_bytes: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All runs of one read; ``void`` says why the two packages cannot be compared, None if they can."""

    read_name: str
    rows: int
    ours: tuple[Timing, ...]
    theirs: tuple[Timing, ...]
    void: str | None


def _seconds(timings: tuple[Timing, ...]) -> str:
    if not timings:
        return "-"
    seconds = [timing.seconds for timing in timings]
    return f"{min(seconds):.3f} ({statistics.median(seconds):.3f})"


def _peak(timings: tuple[Timing, ...]) -> str:
    return f"{max(timing.peak_bytes for timing in timings) / 1e6:.0f}" if timings else "-"


def _ratios(result: Result) -> tuple[str, str]:
    if result.void is not None:
        return "void", result.void
    ours = [timing.seconds for timing in result.ours]
    theirs = [timing.seconds for timing in result.theirs]
    best = min(theirs) / min(ours)
    median = statistics.median(theirs) / statistics.median(ours)
    return f"{best:.2f}x", f"{median:.2f}x"


def _row(result: Result) -> str:
    cells = (
        result.read_name,
        f"{result.rows:,}",
        _seconds(result.ours),
        _seconds(result.theirs),
        *_ratios(result),
        _peak(result.ours),
        _peak(result.theirs),
    )
    return f"| {' | '.join(cells)} |\n"


def _commit() -> str:
    """The commit, marked if the package has uncommitted changes."""
    root = Path(__file__).parent.parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    commit = git("rev-parse", "--verify", "--quiet", "HEAD") or "none yet"
    return f"{commit} with changes" if git("status", "--porcelain", "hudi_bridge") else commit


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    return (
        f"- {os.cpu_count()} cores ({_processor()}), {memory / 1e9:.0f} GB, {platform.machine()}\n"
        f"- Python {platform.python_version()}, {packages}\n"
        f"- commit {_commit()}\n"
    )


def markdown(scenario: Scenario, results: list[Result], rounds: int, load: float) -> str:
    """The page of one scenario; ``load`` is the load average before the first read."""
    return (
        f"# {scenario.name}, {dt.datetime.now(dt.UTC).date()}\n\n"
        f"{scenario.rows:,} rows x 13 columns in {scenario.partitions} base file(s), one row in "
        f"{scenario.update_every} updated and one in {scenario.delete_every:,} deleted in the log, "
        f"written by `{HUDI_BUNDLE}`.\n\n"
        f"{HEAD}{''.join(_row(result) for result in results)}\n"
        f"Seconds: best (median) of {rounds} processes per reader, taken in turns, files in the page cache. "
        "Faster: time of `hudi` ÷ time of `hudi-bridge`. MB: highest peak of resident memory above the "
        "interpreter with its imports. Both answers had the same rows and checksum, or it says void.\n\n"
        f"{_machine()}- load average before the first read {load:.2f}\n"
    )
