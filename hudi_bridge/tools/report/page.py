"""A report as one HTML page with its own style and script: nothing is loaded, and no request is allowed.

Large tables are drawn by the script, from the rows that are embedded as JSON; all else is there without it.

The rows of the large tables of a report as JSON, which the page's script searches, sorts and shows in parts.

``data.json`` in the page: ``names`` are partition paths, ``partitions`` and ``slices`` begin with a place in them.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

from hudi_bridge.common.display import STYLE, clipped, counted, header_cell, page_start, page_text, shown, size_text
from hudi_bridge.splits.schema_history import SchemaVersion
from hudi_bridge.tools.checks.findings import Severity, SliceCost
from hudi_bridge.tools.checks.html_page import finding_head, finding_row, subtitle, summary
from hudi_bridge.tools.report.contents import CompactionGain, PartitionCost, Report, TimelineEntry, story_html
from hudi_bridge.tools.report.timeline_drawing import MOST_DRAWN, draw_timeline, time_text

MOST_SLICES = 20_000
MOST_PARTITIONS = 10_000
MOST_INSTANTS = 5_000
"""How many of each are in a page, so that it stays small: the most expensive ones, and the newest instants."""
_MOST_EXTRA = 20
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}


def embedded(report: Report) -> str:
    """The JSON text of a report, which may stand in a ``script`` element: it has none of ``<``, ``>`` and ``&``."""
    slices, partitions = report.diagnosis.slices[:MOST_SLICES], report.partitions[:MOST_PARTITIONS]
    names = dict.fromkeys((*(one.path for one in partitions), *(one.partition_path for one in slices)))
    places = {path: place for place, path in enumerate(names)}
    log_bytes = sum(one.log_bytes for one in report.partitions)
    content = {
        "names": [_without_surrogates(path) or "(none)" for path in places],
        "partitions": [_partition_row(one, places[one.path], log_bytes) for one in partitions],
        "slices": [_slice_row(one, places[one.partition_path]) for one in slices],
        "instants": list(_instant_rows(report.timeline)),
    }
    return json.dumps(content, separators=(",", ":")).translate(_ESCAPES)


def _partition_row(one: PartitionCost, place: int, log_bytes: int) -> Sequence[Any]:
    share = one.log_bytes / log_bytes if log_bytes else 0
    return (
        place,
        one.slices,
        one.base_bytes,
        one.log_bytes,
        one.log_files,
        one.most_writes,
        one.overdue,
        round(share, 4),
    )


def _slice_row(one: SliceCost, place: int) -> Sequence[Any]:
    ratio = None if one.log_ratio is None else round(one.log_ratio, 3)
    return (
        place,
        _without_surrogates(one.file_id),
        one.base_bytes,
        one.log_bytes,
        one.log_files,
        one.delta_commits,
        ratio,
    )


def _instant_rows(timeline: Sequence[TimelineEntry]) -> Iterable[Sequence[Any]]:
    """The newest instants, each with its number in the timeline, and at the end what the panel shows beside."""
    first = max(0, len(timeline) - MOST_INSTANTS)
    for number, entry in enumerate(timeline[first:], start=first):
        seconds = None if entry.seconds is None else round(entry.seconds, 3)
        extra = [
            (_without_surrogates(name), _without_surrogates(value))
            for name, value in entry.extra_metadata[:_MOST_EXTRA]
        ]
        yield (
            entry.requested_time,
            entry.action,
            entry.state,
            seconds,
            None if entry.operation is None else _without_surrogates(entry.operation),
            entry.rows_inserted,
            entry.rows_updated,
            entry.rows_deleted,
            entry.bytes_written,
            {
                "number": number,
                "requested": time_text(entry.requested_time),
                "completed": None if entry.completion_time is None else time_text(entry.completion_time),
                "extra": extra,
            },
        )


def _without_surrogates(text: str) -> str:
    return shown(clipped(text))


_MOST_FINDINGS = 500
_MOST_VERSIONS = 100
_MOST_CHANGES = 100
_MOST_COLUMNS = 1000
_SECTIONS = (
    ("findings", "Findings"),
    ("timeline", "Timeline"),
    ("files", "File slices"),
    ("compaction", "What compaction would give"),
    ("schema", "Schema"),
    ("records", "Records"),
)
_NUMBERS = frozenset({"count", "size", "duration", "ratio", "share"})
_INSTANTS = (
    ("requested", "text"),
    ("action", "text"),
    ("state", "text"),
    ("duration", "duration"),
    ("operation", "text"),
    ("inserted", "count"),
    ("updated", "count"),
    ("deleted", "count"),
    ("written", "size"),
)
_PARTITIONS = (
    ("partition", "text"),
    ("file slices", "count"),
    ("base files", "size"),
    ("logs", "size"),
    ("log files", "count"),
    ("most writes in logs", "count"),
    ("overdue", "count"),
    ("share of all logs", "share"),
)
_SLICES = (
    ("partition", "text"),
    ("file group", "text"),
    ("base file", "size"),
    ("logs", "size"),
    ("log files", "count"),
    ("writes in logs", "count"),
    ("logs / base", "ratio"),
)


def html_report(report: Report) -> str:
    """The page; names from the table are escaped, and long ones clipped."""
    return "".join(_page(report))


def _page(report: Report) -> Iterator[str]:
    name = report.diagnosis.name or "table"
    script = _resource("page.js")
    yield page_start(f"{name} – hudi-bridge report", STYLE + _resource("page.css"), script)  # noqa: RUF001
    yield '<a class="skip" href="#main">Skip to the content</a>\n<header>\n'
    yield f'<h1>{_text(name)}</h1>\n<p class="dim">{_text(subtitle(report.diagnosis))}</p>\n'
    yield '<nav aria-label="Sections"><ul>'
    yield from (f'<li><a href="#{anchor}">{title}</a></li>' for anchor, title in _SECTIONS)
    yield '</ul></nav>\n</header>\n<main id="main" tabindex="-1">\n'
    yield "<noscript><p>Tables of instants and file slices need scripts, which are switched off.</p></noscript>\n"
    yield from _overview(report)
    parts = (_findings, _timeline, _files, _compaction, _schema, _records)
    for (anchor, title), part in zip(_SECTIONS, parts, strict=True):
        yield f'<section id="{anchor}" aria-labelledby="{anchor}-title">\n<h2 id="{anchor}-title">{title}</h2>\n'
        yield from part(report)
        yield "</section>\n"
    yield f'</main>\n<script type="application/json" id="data">{embedded(report)}</script>\n'
    yield f"<script>{script}</script>\n</body>\n</html>\n"


@cache
def _resource(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _overview(report: Report) -> Iterator[str]:
    yield '<table class="facts"><caption>The table</caption>\n<tbody>\n'
    for name, value in report.facts:
        yield f'<tr><th scope="row">{page_text(name)}</th><td>{_text(value)}</td></tr>\n'
    yield "</tbody></table>\n"
    if report.problems:
        yield "<p>Parts of the table cannot be read, and are missing here:</p>\n<ul>"
        yield from (f'<li><span class="error">{_text(name)}</span>: {_text(why)}</li>' for name, why in report.problems)
        yield "</ul>\n"


def _findings(report: Report) -> Iterator[str]:
    findings = report.diagnosis.findings
    yield f"<p>{page_text(summary([report.diagnosis]))}; the checks are those of <code>hudi-bridge doctor</code>.</p>\n"
    if not findings:
        return
    yield '<fieldset id="severities"><legend>Severities</legend>'
    for severity in sorted(Severity, reverse=True):
        number = report.diagnosis.count(severity)
        yield f'<label><input type="checkbox" value="{severity}" checked> {severity} ({number:,})</label>'
    yield '</fieldset>\n<p role="status" id="findings-status"></p>\n<div class="scrolls" tabindex="0" role="region" '
    yield f'aria-label="Findings">\n<table><caption>Findings</caption>\n<thead>{finding_head()}</thead>\n<tbody>\n'
    yield from map(finding_row, findings[:_MOST_FINDINGS])
    yield "</tbody></table>\n</div>\n"
    yield _left_out(len(findings), _MOST_FINDINGS, "findings", "hudi-bridge doctor shows all")


def _timeline(report: Report) -> Iterator[str]:
    entries = report.timeline
    if not entries:
        yield "<p>The active timeline is empty.</p>\n"
        return
    yield (
        '<p class="legend"><span>■ completed</span><span>thick border: in flight</span>'
        '<span>broken border: requested</span><span class="write">writes</span><span class="service">services</span>'
        '<span class="undo">rollbacks, restores</span><span class="savepoint">savepoints</span></p>\n'
        "<p>A column for each instant, in the order of requests. Below, how long each took, or has been under way, "
        "on a logarithmic scale; table versions up to 6 do not record it. "
        "Arrow keys lead from instant to instant.</p>\n"
    )
    yield _left_out(len(entries), MOST_DRAWN, "instants", "the newest are drawn")
    yield f'<div class="scrolls">\n{draw_timeline(entries)}</div>\n'
    yield '<div id="instant" role="status" aria-label="The chosen instant">Choose an instant.</div>\n'
    yield from _paged_table("instants", "Instants, the newest first", "Search instants", _INSTANTS)
    yield _left_out(len(entries), MOST_INSTANTS, "instants", "the newest are listed")


def _files(report: Report) -> Iterator[str]:
    if not report.partitions:
        yield "<p>There are no file slices.</p>\n"
        return
    costs = report.diagnosis.slices
    yield (
        "<p>The newest slice of each file group, as a snapshot reads it. The cost of merging is the size of the logs: "
        "a snapshot reads all of them, beside the base files. Choose a partition to see its slices.</p>\n"
    )
    yield from _paged_table("partitions", "Partitions", "Search partitions", _PARTITIONS)
    yield _left_out(len(report.partitions), MOST_PARTITIONS, "partitions", "those with the most logs are listed")
    yield from _paged_table("slices", "File slices", "Search file slices", _SLICES)
    yield _left_out(len(costs), MOST_SLICES, "file slices", "those with the most logs are listed")


def _compaction(report: Report) -> Iterator[str]:
    if not report.is_merge_on_read:
        yield "<p>A copy-on-write table has no logs to compact.</p>\n"
        return
    if report.pending_compactions:
        times = ", ".join(report.pending_compactions)
        yield f"<p>Planned, and not completed: the compaction {_text(times)}.</p>\n"
    if not report.gains:
        yield "<p>No file slice has logs: there is nothing to compact.</p>\n"
        return
    yield '<table><caption>By what is compacted</caption>\n<thead><tr><th scope="col">file slices</th>'
    names = ("number", "merge cost saved", "of all", "the compaction reads", "and writes about")
    yield from (header_cell(name, is_number=True) for name in names)
    yield "</tr></thead>\n<tbody>\n"
    yield from map(_gain, report.gains)
    yield "</tbody></table>\n"
    yield (
        '<p class="dim">How this is estimated: the merge cost that is saved is the size of the logs, from the listing '
        "of files; every snapshot reads and merges them until they are compacted. A compaction reads these logs and "
        "their base files. It writes base files of the same size if all log records are updates, and larger ones, by "
        "the size of the logs at most, if they are inserts. Old files take their space until a clean removes "
        "them.</p>\n"
    )


def _gain(gain: CompactionGain) -> str:
    written = f"{size_text(gain.least_written_bytes)} to {size_text(gain.read_bytes)}"
    numbers = (
        f"{gain.slices:,}",
        size_text(gain.saved_bytes),
        f"{gain.saved_share:.0%}",
        size_text(gain.read_bytes),
        written,
    )
    cells = "".join(f'<td class="number">{number}</td>' for number in numbers)
    return f'<tr><th scope="row">{page_text(gain.which)}</th>{cells}</tr>\n'


def _schema(report: Report) -> Iterator[str]:
    if report.versions:
        yield from _versions(report.versions)
    if report.columns is not None:
        yield f"<details><summary>{counted(len(report.columns), 'column')} now</summary>\n<table>"
        yield f"<caption>Columns</caption>\n<thead><tr>{header_cell('column')}{header_cell('type')}</tr></thead>\n"
        yield "<tbody>\n"
        for field in [*report.columns][:_MOST_COLUMNS]:
            yield f'<tr><th scope="row">{_text(field.name)}</th><td>{_text(str(field.type))}</td></tr>\n'
        yield "</tbody></table>\n</details>\n"
        yield _left_out(len(report.columns), _MOST_COLUMNS, "columns", "the first are listed")


def _versions(versions: Sequence[SchemaVersion]) -> Iterator[str]:
    if not versions[-1].has_ids:
        yield '<p class="dim">The table keeps no column ids: a rename looks like a drop and an add.</p>\n'
    yield f"<table><caption>Versions of the schema, the newest first</caption>\n<thead><tr>{header_cell('since')}"
    yield f"{header_cell('columns', is_number=True)}{header_cell('what has changed')}</tr></thead>\n<tbody>\n"
    newest_first = [*enumerate(versions)][::-1]
    for number, version in newest_first[:_MOST_VERSIONS]:
        changes = _listed([str(change) for change in version.changes]) if number else "the first version"
        yield f'<tr><th scope="row">{_text(time_text(version.instant))}</th>'
        yield f'<td class="number">{len(version.arrow_schema):,}</td><td>{changes}</td></tr>\n'
    yield "</tbody></table>\n"
    yield _left_out(len(versions), _MOST_VERSIONS, "versions", "the newest are listed")


def _listed(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _MOST_CHANGES:,} more"] if len(texts) > _MOST_CHANGES else []
    return "<br>".join(_text(text) for text in (*texts[:_MOST_CHANGES], *more))


def _records(report: Report) -> Iterator[str]:
    if not report.stories:
        yield "<p>For stories of records: <code>hudi-bridge report TABLE --key KEY</code>, as often as needed.</p>\n"
        return
    yield '<p><label for="records-search">Search records</label> <input type="search" id="records-search"></p>\n'
    yield '<p role="status" id="records-status"></p>\n'
    yield from map(story_html, report.stories)


def _paged_table(name: str, caption: str, label: str, columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A table without rows, which the script fills; each column has a name and what its values are."""
    yield f'<p><label for="{name}-search">{label}</label> <input type="search" id="{name}-search"'
    yield f' aria-describedby="{name}-status">'
    if name == "slices":
        yield ' <button type="button" id="slices-all" hidden>Those of all partitions</button>'
    yield f'</p>\n<p role="status" id="{name}-status"></p>\n'
    yield f'<div class="scrolls"><table id="{name}"><caption>{caption}</caption>\n<thead><tr>'
    for column, kind in columns:
        of_number = ' class="number"' if kind in _NUMBERS else ""
        yield f'<th scope="col"{of_number} aria-sort="none" data-kind="{kind}">'
        yield f'<button type="button">{column}</button></th>'
    yield "</tr></thead>\n<tbody></tbody></table></div>\n"
    yield f'<p><button type="button" id="{name}-more" hidden>Show more</button></p>\n'


def _left_out(there: int, most: int, what: str, which: str) -> str:
    return "" if there <= most else f'<p class="dim">{most:,} of {there:,} {what}: {which}.</p>\n'


def _text(text: str) -> str:
    return page_text(clipped(text))
