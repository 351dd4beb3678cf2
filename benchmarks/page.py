"""Shows a run as Markdown: aims, ratios, and all figures."""

import re
from collections.abc import Iterator
from pathlib import Path

from benchmarks import plot
from benchmarks.aims import MEASURES, Aims
from benchmarks.readings import BUNDLE, DUCKDB, FLOOR, FLOOR_WITH_KEY, OURS, PEER, Line, Run

DOCS = Path(__file__).parent.parent / "docs"
_HERE = re.compile(r"(?<=<!-- figures -->\n).*?(?=<!-- end of figures -->)", re.DOTALL)
_TIMES = (PEER, BUNDLE, FLOOR, FLOOR_WITH_KEY, DUCKDB)
_HOW = """\
Seconds: best (median), from opening the table to the last row, or the first batch, without imports. Ratios are
those of the best: above 1, hudi-bridge is faster. Base files alone give a stale answer: they are what a read costs
without its merge. Memory is the peak of resident memory above that of the process before the read; of Spark, all
that its processes hold. Requests are those that the store has counted; near, calls that read files, without files
mapped into memory. Each measurement runs in a process of its own (Spark in one session), the readers in turns,
files in the page cache. A read of more than ten seconds is not repeated. *same* is the answer of hudi-bridge,
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
    """The sections on aims and on ratios."""
    rows = list(_aim_rows(run, aims))
    met = sum(row.endswith("| yes |") for row in rows)
    yield f"## Aims\n\n{met} of {len(rows)} are met.\n"
    yield "| table | read | ratio | aim | recorded | found | met |\n|---|---|---|---:|---:|---:|---|"
    yield from rows
    yield "\n## Beside other readers\n"
    yield f"| table | read | hudi-bridge, s | {' | '.join(f'{name}, x' for name in _TIMES)} | MB | `hudi`, x |"
    yield "|---|---|---:|" + "---:|" * (len(_TIMES) + 2)
    yield from _ratio_rows(run)
    yield ""


def publish(run: Run, aims: Aims, results: Path) -> None:
    """Show a run in docs/performance.md, between the marks there, and its plot beside it."""
    page = DOCS / "performance.md"
    about = f"{run.date}, {run.machine['processor']}, commit {run.machine['commit'][:7]}"
    link = f"[all figures](../benchmarks/results/{results.name})"
    text = "\n".join(("![Time of other readers over that of hudi-bridge](performance.svg)\n", *_plain(run, aims)))
    (DOCS / "performance.svg").write_text(plot.dots(run))
    shown = f"\nSize `{run.size}`, {about}: {link}.\n\n{text}\n"
    page.write_text(_HERE.sub(lambda _: shown, page.read_text()))


def _plain(run: Run, aims: Aims) -> Iterator[str]:
    """The summary with headings one level down, as a part of another page."""
    for part in summary(run, aims):
        yield part.replace("## ", "### ")


def _aim_rows(run: Run, aims: Aims) -> Iterator[str]:
    for case, read in run.reads():
        for name, measure in MEASURES.items():
            aim, found = aims.aim(case, read, name), measure.of(run, case, read)
            if aim is None or found is None:
                continue
            recorded = aims.reached.get(run.size, {}).get(case, {}).get(read, {}).get(name)
            bound = f"{'≥' if measure.is_more_better else '≤'} {aim:g}"
            met = "yes" if measure.is_met(found, aim) else "**no**"
            then = "-" if recorded is None else f"{recorded:.2f}"
            yield f"| {case} | {read} | {measure.about} | {bound} | {then} | {found:.2f} | {met} |"


def _ratio_rows(run: Run) -> Iterator[str]:
    for case, read in run.reads():
        ours, peer = run.line(case, read, OURS), run.line(case, read, PEER)
        if ours is None or not ours.is_timed:
            continue
        memory = MEASURES["memory"].of(run, case, read)
        cells = [_ratio(ours, run.line(case, read, name)) for name in _TIMES]
        cells += [f"{ours.best('peak_bytes') / 1e6:,.0f}"]
        cells += [f"{memory:.2f}" if memory is not None else _ratio(ours, peer)]
        yield f"| {case} | {read} | {_seconds(ours)} | {' | '.join(cells)} |"


def _ratio(ours: Line, other: Line | None) -> str:
    if other is None:
        return "-"
    if not other.is_timed:
        return other.answer.partition(":")[0]
    return f"{other.best('seconds') / ours.best('seconds'):.2f}"


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
