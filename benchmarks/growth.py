"""Measures how cost grows with cores, file slices, columns and the share of logs: ``python -m benchmarks.growth``.

Each curve is a read of tables of the suite, by ``hudi-bridge`` beside ``hudi``, ``hudi`` 0.6 if its program is built,
and pyarrow on the base files alone. With fewer cores, all readers may use these only. ``--keep`` writes one page with
its plot, and the readings as JSON, into ``results/``. With tables that are there, size ``standard`` takes some minutes,
``small`` a part of one.
"""

import argparse
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import plot
from benchmarks.make_tables import default_cache
from benchmarks.readings import FLOOR, NEWEST_PEER, OURS, PEER, Run
from benchmarks.results_folder import keep, today
from benchmarks.run import run_cases
from benchmarks.rust_programs import READER, program_path
from benchmarks.scenarios import FULL, THREE_COLUMNS, Read
from benchmarks.suite import SIZES, Case, Size, cases

_COLUMNS = (1, 5, 20, 100, 500)
_READERS = (OURS, PEER, NEWEST_PEER, FLOOR)
_HOW = """\
Seconds: the best of {rounds} readings, and in brackets the least CPU seconds, from opening the table to the last row,
kept in memory. Each reading is in a process of its own with all imports done, the readers in turns, files in the page
cache. pyarrow reads the base files alone: a stale answer. *Growth for ten times* is the factor of the time for each
factor of ten in the first column, between the first point and the last. With fewer cores, processes may use these
only, as with `taskset`; the *serial share* is that of Amdahl's law, between one core and the most. *n/a*: the answer
is wrong, refused or left out.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What grows, and the reads with which it is measured: for each point, what is below it, and its case and read."""

    title: str
    unit: str
    points: tuple[tuple[float, Case, Read], ...]

    def cases(self) -> list[Case]:
        """The cases, with the reads of this curve alone."""
        return [replace(case, reads=(read,)) for _, case, read in self.points]


def _restricted(case: Case, cores: int) -> Case:
    return replace(case, name=f"{case.name}, {cores} cores")


def curves(size: Size, cores: Sequence[int]) -> list[Curve]:
    """The curves of a size; those of cores first, each with the points of all ``cores``."""
    by_name = {case.name: case for case in cases(size)}
    most = f"slices-{max(size.slices)}"
    wide = by_name["columns-500"]
    shares = [(float(name.removeprefix("updates-")), case) for name, case in by_name.items() if name[:8] == "updates-"]
    by_cores = [
        Curve(
            title=f"Cores: {about}",
            unit="cores",
            points=tuple((number, _restricted(by_name[name], number), FULL) for number in cores),
        )
        for name, about in (("updates-10", "one large file slice"), (most, f"{max(size.slices):,} small file slices"))
    ]
    by_share = [
        Curve(
            title=f"Share of the rows that logs update: {read.name}",
            unit="%",
            points=tuple((share, case, read) for share, case in sorted(shares, key=lambda point: point[0])),
        )
        for read in (FULL, THREE_COLUMNS)
    ]
    return [
        *by_cores,
        Curve(
            title=f"File slices of {size.slice_rows:,} rows: all columns",
            unit="slices",
            points=tuple((times, by_name[f"slices-{times}"], FULL) for times in size.slices),
        ),
        Curve(
            title="Columns that are read, of 500",
            unit="columns",
            points=tuple((number, wide, _some_columns(number)) for number in _COLUMNS),
        ),
        *by_share,
    ]


def _some_columns(number: int) -> Read:
    return Read(name=f"{number} columns", columns=tuple(f"c{column:03d}" for column in range(number)))


def measure(chosen: Sequence[Curve], cache: Path, *, size: str, rounds: int, readers: Sequence[str]) -> Run:
    """The run of all curves, each point once, with the cores that the point allows."""
    allowed = os.sched_getaffinity(0)
    run: Run | None = None
    points = {
        (case.name, read.name): (number, case, read, curve.unit)
        for curve in chosen
        for number, case, read in curve.points
    }
    by_cores: dict[int, dict[str, Case]] = {}
    for number, case, read, unit in points.values():
        cases_of = by_cores.setdefault(int(number) if unit == "cores" else len(allowed), {})
        known = cases_of.get(case.name)
        cases_of[case.name] = replace(case, reads=(read,) if known is None else (*known.reads, read))
    for cores, cases_of in by_cores.items():
        os.sched_setaffinity(0, sorted(allowed)[:cores])
        try:
            part = run_cases(list(cases_of.values()), cache, size=size, rounds=rounds, readers=readers)
        finally:
            os.sched_setaffinity(0, allowed)
        run = part if run is None else replace(run, cases={**run.cases, **part.cases}).with_lines(part.lines)
    assert run is not None
    return run


def seconds(run: Run, curve: Curve, reader: str) -> list[tuple[float, float]]:
    """The points of a reader, with the seconds of each; without those that have no answer."""
    lines = ((number, run.line(case.name, read.name, reader)) for number, case, read in curve.points)
    return [(number, line.best("seconds")) for number, line in lines if line is not None and line.is_timed]


def page(run: Run, chosen: Sequence[Curve], plot_name: str) -> str:
    """The results as Markdown."""
    readers = [name for name in _READERS if any(line.reader == name for line in run.lines)]
    parts = [f"# How cost grows, {run.size}, {run.date}\n", f"![Seconds of each reader]({plot_name})\n"]
    for curve in chosen:
        parts += [f"## {curve.title}\n", *_table(run, curve, readers), ""]
    parts += [_HOW.format(rounds=run.rounds)]
    parts += ["## Tables\n", *(f"- `{name}`: {about}" for name, about in run.cases.items()), ""]
    parts += ["## Machine\n", *(f"- {name}: {fact}" for name, fact in run.machine.items()), ""]
    return "\n".join(parts)


def _table(run: Run, curve: Curve, readers: Sequence[str]) -> Iterator[str]:
    yield f"| {curve.unit} | {' | '.join(readers)} |"
    yield f"|---:|{'---:|' * len(readers)}"
    for number, case, read in curve.points:
        lines = [run.line(case.name, read.name, reader) for reader in readers]
        cells = [
            f"{line.best('seconds'):.3f} ({line.best('cpu_seconds'):.3f})"
            if line is not None and line.is_timed
            else "n/a"
            for line in lines
        ]
        yield f"| {number:g} | {' | '.join(cells)} |"
    name, of_ends = ("serial share", _serial_share) if curve.unit == "cores" else ("growth for ten times", _growth)
    ends = [(found[0], found[-1]) if len(found := seconds(run, curve, reader)) > 1 else None for reader in readers]
    yield f"| {name} | {' | '.join('n/a' if end is None else f'{of_ends(*end):.2f}' for end in ends)} |"


def _serial_share(first: tuple[float, float], last: tuple[float, float]) -> float:
    """By Amdahl's law: the share of the work of one core that more cores do not shorten."""
    cores = last[0] / first[0]
    return (cores * last[1] / first[1] - 1) / (cores - 1)


def _growth(first: tuple[float, float], last: tuple[float, float]) -> float:
    """The factor of the seconds for each factor of ten below."""
    return float((last[1] / first[1]) ** (1 / math.log10(last[0] / first[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="standard", help="of the tables (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TITLE", help="curves that begin with one of these")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each read and reader (default: %(default)s)")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="default: %(default)s")
    parser.add_argument("--keep", action="store_true", help="write page, plot and readings into results/")
    given = parser.parse_args()
    available = len(os.sched_getaffinity(0))
    cores = sorted({*(2**power for power in range(available.bit_length() - 1)), available})
    chosen = [curve for curve in curves(SIZES[given.size], cores) if curve.title.startswith(tuple(given.only))]
    # Building it takes ten minutes, which this command does not.
    readers = [name for name in _READERS if name != NEWEST_PEER or program_path(READER).exists()]
    run = measure(chosen, given.cache.resolve(), size=given.size, rounds=given.rounds, readers=readers)
    name = f"growth-{given.size}"
    text = page(run, chosen, f"{today()}-{name}.svg")
    if given.keep:
        path = keep(text, name)
        run.save(path.with_suffix(".json"))
        path.with_suffix(".svg").write_text(plot.curves(panels(run, chosen)))
    print(text, flush=True)


def panels(run: Run, chosen: Sequence[Curve]) -> list[plot.Panel]:
    """What is drawn of each curve."""
    return [
        plot.Panel(
            title=curve.title, unit=curve.unit, lines={reader: seconds(run, curve, reader) for reader in _READERS}
        )
        for curve in chosen
    ]


if __name__ == "__main__":
    main()
