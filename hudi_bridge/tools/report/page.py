"""A report as one HTML page with its own style and script: nothing is loaded, and no request is allowed.

The script draws large tables, which it can search and sort, from rows that are embedded as JSON; everything else is
there without it. In the JSON, ``names`` are partition paths; ``partitions`` and ``slices`` start with an index into
them.

The timeline has a column for each instant, a lane for each action, and the durations below on a logarithmic scale. The
state of an instant has a shape as well as a fill: completed instants are squares, instants in flight have a thick
border, and requested ones a thin one.

File groups have a row each, with their slices from the instant that began them to the one that ended them. The script
draws only the rows that are in view, so that ten thousand take no longer than ten. In the JSON, ``times`` are instants,
and ``groups`` refer to them, and to the ``states``, by index.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import accumulate, chain
from math import log10
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.display import STYLE, clipped, counted, header_cell, page_start, page_text, shown, size_text
from hudi_bridge.inspection.file_groups import SliceState
from hudi_bridge.splits.file_slice import parse_log_file_name
from hudi_bridge.splits.schema_history import SchemaVersion
from hudi_bridge.timeline.instant import Action, time_of
from hudi_bridge.tools.checks.findings import Severity, SliceCost, finding_head, finding_row, subtitle, summary
from hudi_bridge.tools.report.contents import (
    END_OF_SCROLLING,
    CompactionGain,
    PartitionCost,
    Report,
    TimelineEntry,
    scrolling,
    story_html,
)

_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))
MAX_DRAWN = 400
"""How many instants, from the newest on, are drawn."""
_LABELS, _WIDTH, _LANE, _DURATIONS, _TIMES = 130, 1000, 26, 90, 34
_MIN_SLOT, _MAX_SLOT = 6, 60
_MARK = 14
_MIN_SECONDS = 0.1
_GRID = ((1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 day"))
_TICK_EVERY = 150
_KINDS = {
    Action.COMPACTION: "service",
    Action.LOG_COMPACTION: "service",
    Action.CLUSTERING: "service",
    Action.CLEAN: "service",
    Action.INDEXING: "service",
    Action.ROLLBACK: "undo",
    Action.RESTORE: "undo",
    Action.SAVEPOINT: "savepoint",
}
MAX_SLICES = 20_000
MAX_PARTITIONS = 10_000
MAX_INSTANTS = 5_000
"""The limits keep the page small: the most expensive partitions and slices, and the newest instants, are listed."""
MAX_ALL_SLICES = 20_000
"""How many file slices of all times are drawn."""
_MAX_PLANS = 200
_MAX_LOG_TIMES = 50
_MAX_EXTRA = 20
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&"}
_MAX_FINDINGS = 500
_MAX_VERSIONS = 100
_MAX_CHANGES = 100
_MAX_COLUMNS = 1000
_SECTIONS = (
    ("findings", "Findings"),
    ("timeline", "Timeline"),
    ("plans", "Plans under way"),
    ("files", "File slices"),
    ("history", "File slices of all times"),
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
    ("size", "size"),
    ("share of logs", "share"),
    ("base files", "size"),
    ("logs", "size"),
    ("rows of base files", "count"),
    ("newest commit", "text"),
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
    parts = (_findings, _timeline, _plans, _files, _history, _compaction, _schema, _records)
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
    yield from map(finding_row, findings[:_MAX_FINDINGS])
    yield "</tbody></table>\n</div>\n"
    yield _left_out(len(findings), _MAX_FINDINGS, "findings", "hudi-bridge doctor shows all")


def _timeline(report: Report) -> Iterator[str]:
    entries = report.timeline
    if not entries:
        yield "<p>The active timeline is empty.</p>\n"
        return
    yield (
        '<p class="legend"><span>■ completed</span> <span>thick border: in flight</span> '
        '<span>broken border: requested</span> <span class="write">writes</span> <span class="service">services</span> '
        '<span class="undo">rollbacks, restores</span> <span class="savepoint">savepoints</span></p>\n'
        "<p>A column for each instant, in the order of requests. Below, how long each took, or has been under way, "
        "on a logarithmic scale; table versions up to 6 do not record it. "
        "Arrow keys lead from instant to instant.</p>\n"
    )
    yield _left_out(len(entries), MAX_DRAWN, "instants", "the newest are drawn")
    yield f'<div class="scrolls">\n{draw_timeline(entries)}</div>\n'
    yield '<div id="instant" role="status" aria-label="The chosen instant">Choose an instant.</div>\n'
    yield from _paged_table("instants", "Instants, the newest first", "Search instants", _INSTANTS)
    yield _left_out(len(entries), MAX_INSTANTS, "instants", "the newest are listed")


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
    yield _left_out(len(report.partitions), MAX_PARTITIONS, "partitions", "those with the most logs are listed")
    yield from _paged_table("slices", "File slices", "Search file slices", _SLICES)
    yield _left_out(len(costs), MAX_SLICES, "file slices", "those with the most logs are listed")


_PLANS = (
    "requested",
    "service",
    "state",
    "under way for",
    "about",
    "partitions",
    "file groups",
    "done",
    "what ends it",
)
_WHICH = (
    ("all", "all file groups"),
    ("waiting", "those with slices that wait for the cleaner"),
    ("logs", "those with logs now"),
    ("unfinished", "those with files of writes that are under way or failed"),
)


def _plans(report: Report) -> Iterator[str]:
    if not report.plans:
        yield "<p>Nothing is under way.</p>\n"
        return
    yield f"{scrolling('Plans under way')}<table>"
    yield f"<caption>Plans under way, the oldest first</caption>\n<thead><tr>{''.join(map(header_cell, _PLANS))}"
    yield "</tr></thead>\n<tbody>\n"
    yield from map(_plan, report.plans[:_MAX_PLANS])
    yield f"</tbody></table>\n{END_OF_SCROLLING}"
    yield _left_out(len(report.plans), _MAX_PLANS, "plans", "the oldest are listed")


def _plan(row: Mapping[str, Any]) -> str:
    age, planned, done, failed = (row[name] for name in ("age_seconds", "files_planned", "files_done", "files_failed"))
    progress = (
        "" if planned is None else f"{done or 0:,} of {planned:,} files" + (f", {failed:,} failed" if failed else "")
    )
    texts = (
        row["service"],
        row["state"],
        "" if age is None else duration_text(age),
        row["target"] or "",
        "" if row["partitions"] is None else f"{row['partitions']:,}",
        "" if row["file_groups"] is None else f"{row['file_groups']:,}",
        progress,
        row["problem"] or row["hudi_command"] or "",
    )
    cells = "".join(f"<td>{_text(text)}</td>" for text in texts)
    return f'<tr><th scope="row">{_text(time_text(row["requested_time"]))}</th>{cells}</tr>\n'


def _history(report: Report) -> Iterator[str]:
    if not report.slices.num_rows:
        yield "<p>There are no file slices.</p>\n"
        return
    waiting = report.slices.filter(pc.field("waits_for_cleaner"))
    sizes = (waiting[name] for name in ("base_size_bytes", "log_size_bytes"))
    size = sum(pc.sum(column).as_py() or 0 for column in sizes)
    slices = counted(waiting.num_rows, "slice")
    yield f"<p>The cleaner may remove {slices} of {size_text(size)}.</p>\n" if waiting.num_rows else ""
    yield (
        '<p class="legend"><span class="key current">current</span> <span class="key superseded">superseded</span> '
        '<span class="key replaced">replaced</span> <span class="key waits">waits for the cleaner</span> '
        '<span class="key pending">under way</span> <span class="key failed">of a failed write</span></p>\n'
        "<p>A row for each file group, time to the right: a column for each instant. The upper bars are base files, "
        "the lower ones their logs, with a mark for each write whose time their names tell. Up and down lead from "
        "group to group, left and right from slice to slice.</p>\n"
        '<p class="controls"><span><label for="history-search">Search file groups</label> <input type="search" '
        'id="history-search" aria-describedby="history-status"></span> '
        '<span><label for="history-which">Show</label> <select id="history-which">'
    )
    yield from (f'<option value="{value}">{text}</option>' for value, text in _WHICH)
    yield (
        '</select></span></p>\n<p role="status" id="history-status"></p>\n<div id="groups" role="listbox" tabindex="0" '
        'aria-label="File groups"></div>\n<p id="axis" class="dim"></p>\n'
        '<div id="slice" class="panel" role="status" aria-label="The chosen slice">Choose a file slice.</div>\n'
    )
    total = report.slices.num_rows
    yield _left_out(total, MAX_ALL_SLICES, "file slices", "those of the groups that were written last are drawn")


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
    yield f"{scrolling('By what is compacted')}<table><caption>By what is compacted</caption>\n<thead><tr>"
    yield header_cell("file slices")
    names = ("number", "merge cost saved", "of all", "the compaction reads", "and writes about")
    yield from (header_cell(name, is_number=True) for name in names)
    yield "</tr></thead>\n<tbody>\n"
    yield from map(_gain, report.gains)
    yield f"</tbody></table>\n{END_OF_SCROLLING}"
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
        yield f"<details><summary>{counted(len(report.columns), 'column')} now</summary>\n{scrolling('Columns')}<table>"
        yield f"<caption>Columns</caption>\n<thead><tr>{header_cell('column')}{header_cell('type')}</tr></thead>\n"
        yield "<tbody>\n"
        for field in [*report.columns][:_MAX_COLUMNS]:
            yield f'<tr><th scope="row">{_text(field.name)}</th><td>{_text(str(field.type))}</td></tr>\n'
        yield f"</tbody></table>\n{END_OF_SCROLLING}</details>\n"
        yield _left_out(len(report.columns), _MAX_COLUMNS, "columns", "the first are listed")


def _versions(versions: Sequence[SchemaVersion]) -> Iterator[str]:
    if not versions[-1].has_ids:
        yield '<p class="dim">The table keeps no column ids: a rename looks like a drop and an add.</p>\n'
    yield f"{scrolling('Versions of the schema')}<table><caption>Versions of the schema, the newest first</caption>\n"
    yield f"<thead><tr>{header_cell('since')}"
    yield f"{header_cell('columns', is_number=True)}{header_cell('what has changed')}</tr></thead>\n<tbody>\n"
    newest_first = [*enumerate(versions)][::-1]
    for number, version in newest_first[:_MAX_VERSIONS]:
        changes = _listed([str(change) for change in version.changes]) if number else "the first version"
        yield f'<tr><th scope="row">{_text(time_text(version.instant))}</th>'
        yield f'<td class="number">{len(version.arrow_schema):,}</td><td>{changes}</td></tr>\n'
    yield f"</tbody></table>\n{END_OF_SCROLLING}"
    yield _left_out(len(versions), _MAX_VERSIONS, "versions", "the newest are listed")


def _listed(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _MAX_CHANGES:,} more"] if len(texts) > _MAX_CHANGES else []
    return "<br>".join(_text(text) for text in (*texts[:_MAX_CHANGES], *more))


def _records(report: Report) -> Iterator[str]:
    if not report.stories:
        yield "<p>For stories of records: <code>hudi-bridge report TABLE --key KEY</code>, as often as needed.</p>\n"
        return
    yield '<p><label for="records-search">Search records</label> <input type="search" id="records-search"></p>\n'
    yield '<p role="status" id="records-status"></p>\n'
    yield from map(story_html, report.stories)


def _paged_table(name: str, caption: str, label: str, columns: Iterable[tuple[str, str]]) -> Iterator[str]:
    """A table without rows, which the script fills; each column has a name and a kind of values."""
    yield f'<p><label for="{name}-search">{label}</label> <input type="search" id="{name}-search"'
    yield f' aria-describedby="{name}-status">'
    if name == "slices":
        yield ' <button type="button" id="slices-all" hidden>Those of all partitions</button>'
    yield f'</p>\n<p role="status" id="{name}-status"></p>\n'
    yield f'<div class="scrolls"><table id="{name}"><caption>{caption}</caption>\n<thead><tr>'
    for column, kind in columns:
        number_class = ' class="number"' if kind in _NUMBERS else ""
        yield f'<th scope="col"{number_class} aria-sort="none" data-kind="{kind}">'
        yield f'<button type="button">{column}</button></th>'
    yield "</tr></thead>\n<tbody></tbody></table></div>\n"
    yield f'<p><button type="button" id="{name}-more" hidden>Show more</button></p>\n'


def _left_out(total: int, limit: int, what: str, which: str) -> str:
    return "" if total <= limit else f'<p class="dim">{limit:,} of {total:,} {what}: {which}.</p>\n'


def _text(text: str) -> str:
    return page_text(clipped(text))


def embedded(report: Report) -> str:
    """The JSON text of a report without ``<``, ``>`` and ``&``, so that it can be in a ``script`` element."""
    slices, partitions = report.diagnosis.slices[:MAX_SLICES], report.partitions[:MAX_PARTITIONS]
    groups = _drawn_groups(report.slices)
    paths = (cost.path for cost in partitions), (cost.partition_path for cost in slices), (path for path, _ in groups)
    indexes = {path: index for index, path in enumerate(dict.fromkeys(chain(*paths)))}
    log_bytes = sum(cost.log_bytes for cost in report.partitions)
    content = {
        "names": [_without_surrogates(path) or "(none)" for path in indexes],
        "partitions": [_partition_row(report, cost, indexes[cost.path], log_bytes) for cost in partitions],
        "slices": [_slice_row(cost, indexes[cost.partition_path]) for cost in slices],
        "instants": list(_instant_rows(report.timeline)),
        **_histories(groups, indexes),
    }
    return json.dumps(content, separators=(",", ":")).translate(_ESCAPES)


def _partition_row(report: Report, cost: PartitionCost, index: int, log_bytes: int) -> Sequence[Any]:
    size = cost.base_bytes + cost.log_bytes
    rows, commit = report.rows_and_commits.get(cost.path, (None, None))
    return (
        index,
        cost.slices,
        size,
        round(cost.log_bytes / size, 4) if size else None,
        cost.base_bytes,
        cost.log_bytes,
        rows,
        None if commit is None else time_text(commit),
        cost.log_files,
        cost.most_writes,
        cost.overdue,
        round(cost.log_bytes / log_bytes if log_bytes else 0, 4),
    )


Group: TypeAlias = tuple[str, str]
"""The partition path and the file id of a file group."""


def _drawn_groups(slices: pa.Table) -> Mapping[Group, Sequence[Mapping[str, Any]]]:
    """The rows of ``inspect_all_slices`` by file group; of too many, those of the groups that were written last."""
    groups: dict[Group, list[Mapping[str, Any]]] = {}
    for row in slices.to_pylist():
        groups.setdefault((row["partition_path"], row["file_id"] or ""), []).append(row)
    if slices.num_rows <= MAX_ALL_SLICES:
        return groups
    newest_first = sorted(groups, key=lambda group: groups[group][-1]["base_instant_time"] or "", reverse=True)
    totals = accumulate(len(groups[group]) for group in newest_first)
    drawn = {group for group, total in zip(newest_first, totals, strict=True) if total <= MAX_ALL_SLICES}
    return {group: rows for group, rows in groups.items() if group in drawn}


def _histories(groups: Mapping[Group, Sequence[Mapping[str, Any]]], indexes: Mapping[str, int]) -> dict[str, Any]:
    """The file groups as the script draws them: of each slice, what is in ``_version_row``."""
    rows = [row for versions in groups.values() for row in versions]
    logs = {id(row): _log_times(row) for row in rows}
    named = {time for row in rows for time in (row["base_instant_time"], row["ended_by"]) if time is not None}
    times = {time: index for index, time in enumerate(sorted(named.union(*logs.values())))}
    return {
        "times": [time_text(time) for time in times],
        "states": [str(state) for state in SliceState],
        "groups": [
            (
                indexes[path],
                _without_surrogates(file_id),
                [_version_row(row, times, logs[id(row)]) for row in versions if row["state"] is not None],
                next((_without_surrogates(row["problem"]) for row in versions if row["problem"] is not None), None),
            )
            for (path, file_id), versions in groups.items()
        ],
    }


def _log_times(row: Mapping[str, Any]) -> list[str]:
    """The instants in the names of a slice's log files, as far as these are not that of the slice."""
    names = (parse_log_file_name(path.rpartition("/")[2]) for path in row["log_paths"] or ())
    times = {name.instant_time for name in names if name is not None} - {row["base_instant_time"]}
    return sorted(times)[-_MAX_LOG_TIMES:]


def _version_row(row: Mapping[str, Any], times: Mapping[str, int], log_times: Iterable[str]) -> Sequence[Any]:
    return (
        times[row["base_instant_time"]],
        None if row["ended_by"] is None else times[row["ended_by"]],
        list(SliceState).index(SliceState(row["state"])),
        int(bool(row["waits_for_cleaner"])),
        row["base_size_bytes"],
        row["log_files"],
        row["log_size_bytes"],
        row["rows_written"],
        None if row["operation"] is None else _without_surrogates(row["operation"]),
        [times[time] for time in log_times],
    )


def _slice_row(cost: SliceCost, index: int) -> Sequence[Any]:
    ratio = None if cost.log_ratio is None else round(cost.log_ratio, 3)
    return (
        index,
        _without_surrogates(cost.file_id),
        cost.base_bytes,
        cost.log_bytes,
        cost.log_files,
        cost.delta_commits,
        ratio,
    )


def _instant_rows(timeline: Sequence[TimelineEntry]) -> Iterable[Sequence[Any]]:
    """Yields the newest instants, with their number in the timeline, and last what the panel beside them shows."""
    first = max(0, len(timeline) - MAX_INSTANTS)
    for number, entry in enumerate(timeline[first:], start=first):
        seconds = None if entry.seconds is None else round(entry.seconds, 3)
        extra = [
            (_without_surrogates(name), _without_surrogates(value)) for name, value in entry.extra_metadata[:_MAX_EXTRA]
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


def draw_timeline(entries: Sequence[TimelineEntry]) -> str:
    """An SVG element of the newest instants; each is a group ``instant`` with its number in ``data-instant``."""
    return "".join(_drawing(entries))


def _drawing(entries: Sequence[TimelineEntry]) -> Iterator[str]:
    first = max(0, len(entries) - MAX_DRAWN)
    drawn = entries[first:]
    actions = {entry.action for entry in drawn}
    lanes = [str(action) for action in Action if action in actions]
    slot = min(_MAX_SLOT, max(_MIN_SLOT, (_WIDTH - _LABELS) / len(drawn)))
    width = max(_WIDTH, _LABELS + slot * len(drawn))
    floor = len(lanes) * _LANE + _DURATIONS
    longest = max([1.0, *(entry.seconds for entry in drawn if entry.seconds is not None)])
    yield (
        f'<svg class="timeline" role="group" aria-label="Timeline" viewBox="0 0 {width:g} {floor + _TIMES}" '
        f'width="{width:g}" height="{floor + _TIMES}">\n'
    )
    for number, action in enumerate(lanes):
        middle = number * _LANE + _LANE / 2
        yield f'<text class="lane" x="0" y="{middle + 4:g}">{page_text(action)}</text>'
        yield f'<line class="grid" x1="{_LABELS}" x2="{width:g}" y1="{middle:g}" y2="{middle:g}"/>\n'
    for seconds, name in _GRID:
        if seconds <= longest:
            y = floor - _height(seconds, longest)
            yield f'<text class="lane" x="{_LABELS - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>'
            yield f'<line class="grid" x1="{_LABELS}" x2="{width:g}" y1="{y:.1f}" y2="{y:.1f}"/>\n'
    for index, entry in enumerate(drawn):
        left = _LABELS + index * slot
        middle = lanes.index(entry.action) * _LANE + _LANE / 2
        yield from _instant(entry, first + index, left, slot, middle, floor, longest)
    yield from _times(drawn, slot, floor)
    yield "</svg>\n"


def _instant(
    entry: TimelineEntry, number: int, left: float, slot: float, middle: float, floor: int, longest: float
) -> Iterator[str]:
    size = min(_MARK, slot - 2)
    kind = _KINDS.get(Action(entry.action), "write")
    x = left + (slot - size) / 2
    label = page_text(instant_text(entry))
    yield f'<g class="instant {kind} {entry.state}" data-instant="{number}" role="img" aria-label="{label}">'
    yield f'<title>{label}</title><rect class="hit" x="{left:.1f}" y="0" width="{slot:.1f}" height="{floor}"/>'
    yield f'<rect class="mark" x="{x:.1f}" y="{middle - _MARK / 2:g}" width="{size:.1f}" height="{_MARK}"/>'
    if entry.seconds is not None:
        height = max(1.0, _height(entry.seconds, longest))
        top = floor - height
        yield f'<rect class="mark" x="{x:.1f}" y="{top:.1f}" width="{size:.1f}" height="{height:.1f}"/>'
    yield "</g>\n"


def instant_text(entry: TimelineEntry) -> str:
    """An instant as a sentence."""
    took = "" if entry.seconds is None else f", {duration_text(entry.seconds)}"
    if not entry.is_completed:
        took = "" if entry.seconds is None else f" for {duration_text(entry.seconds)}"
    return f"{entry.requested_time} {entry.action} {entry.state}{took}"


def _height(seconds: float, longest: float) -> float:
    """The height of a duration in the drawing."""
    least = log10(_MIN_SECONDS)
    part = (log10(max(seconds, _MIN_SECONDS)) - least) / (log10(max(longest, 1.0)) - least)
    return part * (_DURATIONS - 20)


def _times(drawn: Sequence[TimelineEntry], slot: float, floor: int) -> Iterator[str]:
    """Yields the requested times of some instants, far enough from each other, always with the newest."""
    step = max(1, -(-_TICK_EVERY // int(slot)))
    indexes = range(len(drawn) - 1, -1, -step)
    for index in indexes:
        x = _LABELS + (index + 0.5) * slot
        anchor = "end" if x + _TICK_EVERY / 2 > _WIDTH and index == len(drawn) - 1 else "middle"
        text = page_text(time_text(drawn[index].requested_time))
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{floor}" y2="{floor + 8}"/>'
        yield f'<text class="lane" x="{x:.1f}" y="{floor + 22}" text-anchor="{anchor}">{text}</text>\n'


def time_text(instant: str) -> str:
    """An instant to the second, or the text itself if it is not a time."""
    moment = time_of(instant)
    return instant if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def duration_text(seconds: float) -> str:
    """A duration: ``0.8 s``, ``4.5 min``, ``3.0 h``, ``2.1 days``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"
