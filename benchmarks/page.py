"""Shows a run as Markdown: aims, ratios, and all figures."""

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks import plot
from benchmarks.aims import MEASURES, Aims
from benchmarks.readings import BUNDLE, DUCKDB, OURS, Line, Run

DOCS = Path(__file__).parent.parent / "docs"
_HERE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
_OTHERS = {BUNDLE: "time of Hudi on Spark / ours", DUCKDB: "time of DuckDB on base files / ours"}
_HOW = """\
Seconds: best (median), from opening the table to the last row, or the first batch, without imports. Ratios are
those of the best. Base files alone give a stale answer: they are what a read costs without its merge. Memory is the
peak of resident memory above that of the process before the read; of Spark, all that its processes hold. Requests
are those that the store has counted; near, calls that read files, without files mapped into memory. Each
measurement runs in a process of its own (Spark in one session), the readers in turns, files in the page cache. A
read of more than ten seconds is not repeated, and Spark is timed once, after a read that is not. Arrow uses the
allocator of the C library (`ARROW_DEFAULT_MEMORY_POOL=system`), as `hudi` does. *same* is the answer of hudi-bridge,
compared by rows and checksum; *stale* is one that is not compared.
"""


def markdown(run: Run, aims: Aims) -> str:
    """The page of a run."""
    parts = [f"# {run.size}, {run.date}\n", *summary(run, aims)]
    parts += ["## All figures\n", *_figures(run)]
    parts += [f"{_HOW}\n{run.rounds} rounds.\n"]
    parts += ["## Tables\n", *(f"- `{name}`: {about}" for name, about in run.cases.items()), ""]
    parts += ["## Machine\n", *(f"- {name}: {fact}" for name, fact in run.machine.items()), ""]
    return "\n".join(parts)


def summary(run: Run, aims: Aims) -> Iterator[str]:
    """The section on ratios and their aims."""
    bold = "Bold is what misses its aim." if any("**" in row for row in _rows(run, aims)) else "None misses its aim."
    met, aimed = _met(run, aims)
    yield f"## Ratios\n\n{met} of {aimed} aims are met. {bold}\n"
    yield f"| table | read | s | MB | {' | '.join([*(one.about for one in MEASURES.values()), *_OTHERS.values()])} |"
    yield "|---|---|---:|---:|" + "---:|" * (len(MEASURES) + len(_OTHERS))
    yield from _rows(run, aims)
    yield ""


def publish(run: Run, aims: Aims, results: Path) -> None:
    """Show a run in docs/performance.md, between the marks there, and its plot beside it."""
    page = DOCS / "performance.md"
    about = f"{run.date}, {run.machine['processor']}, commit {run.machine['commit'][:7]}"
    link = f"[all figures](../benchmarks/results/{results.name})"
    text = "\n".join(("![Time of other readers over that of hudi-bridge](performance.svg)\n", *summary(run, aims)))
    (DOCS / "performance.svg").write_text(plot.dots(run))
    text = text.replace("## ", "### ")
    shown = f"\nSize `{run.size}`, {about}: {link}.\n\n{text}\n"
    page.write_text(_HERE.sub(lambda _: shown, page.read_text()))


def _met(run: Run, aims: Aims) -> tuple[int, int]:
    """How many aims are met, and how many there are."""
    found = [
        measure.is_met(ratio, aim)
        for case, read in run.reads()
        for name, measure in MEASURES.items()
        if (aim := aims.aim(case, read, name)) is not None and (ratio := measure.of(run, case, read)) is not None
    ]
    return sum(found), len(found)


def _rows(run: Run, aims: Aims) -> Iterator[str]:
    for case, read in run.reads():
        ours = run.line(case, read, OURS)
        if ours is None or not ours.is_timed:
            continue
        cells = [case, read, _seconds(ours), f"{ours.best('peak_bytes') / 1e6:,.0f}"]
        cells += [_measured(run, aims, case, read, name) for name in MEASURES]
        cells += [_time_of(ours, run.line(case, read, name)) for name in _OTHERS]
        yield f"| {' | '.join(cells)} |"


def _measured(run: Run, aims: Aims, case: str, read: str, name: str) -> str:
    """A ratio with its aim, and what is recorded; or why there is none."""
    measure, aim = MEASURES[name], aims.aim(case, read, name)
    ratio = measure.of(run, case, read)
    if ratio is None:
        return _no_time(run.line(case, read, measure.other))
    recorded = aims.reached.get(run.size, {}).get(case, {}).get(read, {}).get(name)
    notes = [f"aim {aim:g}"] if aim is not None else []
    notes += [f"recorded {recorded:.2f}"] if recorded is not None and round(ratio, 2) != recorded else []
    shown = f"{ratio:.2f}" if aim is None or measure.is_met(ratio, aim) else f"**{ratio:.2f}**"
    return f"{shown} ({', '.join(notes)})" if notes else shown


def _time_of(ours: Line, other: Line | None) -> str:
    if other is None or not other.is_timed:
        return _no_time(other)
    return f"{other.best('seconds') / ours.best('seconds'):.2f}"


def _no_time(line: Line | None) -> str:
    return "-" if line is None else line.answer.partition(":")[0]


def _figures(run: Run) -> Iterator[str]:
    yield "| table | read | reader | answer | rows | s | CPU, s | memory, MB | read, MB | requests |"
    yield "|---|---|---|---|---:|---:|---:|---:|---:|---:|"
    for line in run.lines:
        rows = "" if line.rows is None else f"{line.rows:,}"
        cells = [line.case, line.read, line.reader, _safe(line.answer), rows]
        if line.readings:
            cells += [
                _seconds(line),
                f"{line.best('cpu_seconds'):.3f} ({line.median('cpu_seconds'):.3f})",
                f"{line.best('peak_bytes') / 1e6:,.0f} ({line.median('peak_bytes') / 1e6:,.0f})",
                f"{line.median('read_bytes') / 1e6:,.1f}",
                f"{line.median('requests'):,.0f}",
            ]
        else:
            cells += [""] * 5
        yield f"| {' | '.join(cells)} |"
    yield ""


def _seconds(line: Line) -> str:
    return f"{line.best('seconds'):.3f} ({line.median('seconds'):.3f})"


def _safe(text: str) -> str:
    """Text of another program for a cell of a table."""
    return re.sub(r"[^\w ,.:;()'/+=-]", " ", " ".join(text.split()))[:200]
