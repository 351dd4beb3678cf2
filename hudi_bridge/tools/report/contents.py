"""The contents of a report: facts, timeline, costs, gains of compactions, and histories of records.

A part that cannot be read leaves its error in the report, and the other parts follow.

The cost of merging is counted in bytes of logs: a snapshot reads them all. The size of a compacted base file is not
known before: it equals the old size if all log records are updates, and grows by at most the logs if all are inserts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa

from hudi_bridge.common.display import clipped, counted, header_cell, page_text
from hudi_bridge.config import TableType
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.inspection import (
    ALL_SLICES_SCHEMA,
    inspect_all_slices,
    inspect_commits,
    inspect_partitions,
    inspect_services,
    inspect_timeline,
)
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.schema_history import SchemaVersion
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import Action, InstantLike, clock, parse_query_instant, seconds_between
from hudi_bridge.tools.checks.examination import doctor
from hudi_bridge.tools.checks.examined import Progress
from hudi_bridge.tools.checks.findings import Diagnosis, Limits, SliceCost
from hudi_bridge.tools.trace.record_trace import FileGroupHistory, RecordHistory, history_of
from hudi_bridge.tools.trace.verdicts import RecordVersion, ordering_text, shown_values

_FIRST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionGain:
    """The gain of compacting some file slices, in bytes.

    ``saved_bytes`` are the bytes of logs that snapshots would no longer merge, ``saved_share`` their part of all logs,
    between 0 and 1. ``read_bytes`` is what the compaction itself reads. It writes between ``least_written_bytes`` and
    ``read_bytes``.
    """

    which: str
    slices: int
    saved_bytes: int
    saved_share: float
    read_bytes: int
    least_written_bytes: int


def compaction_gains(costs: Sequence[SliceCost], delta_commits: int) -> tuple[CompactionGain, ...]:
    """The gains of compacting all slices with logs, the slices that Hudi would choose, and the few with most logs.

    ``costs`` come from a diagnosis, the most expensive first. Hudi compacts a slice after ``delta_commits`` writes.
    Empty without logs.
    """
    merged = [cost for cost in costs if cost.log_files]
    if not merged:
        return ()
    total = sum(cost.merge_bytes for cost in merged)
    choices = [("all with logs", merged)]
    overdue = [cost for cost in merged if cost.is_overdue]
    if overdue:
        choices.append((f"those with {delta_commits} writes or more in their logs", overdue))
    if len(merged) > _FIRST:
        choices.append((f"the {_FIRST} with the most bytes of logs", merged[:_FIRST]))
    return tuple(_gain(which, chosen, total) for which, chosen in choices)


def _gain(which: str, chosen: Sequence[SliceCost], total: int) -> CompactionGain:
    saved = sum(cost.merge_bytes for cost in chosen)
    base = sum(cost.base_bytes for cost in chosen)
    return CompactionGain(
        which=which,
        slices=len(chosen),
        saved_bytes=saved,
        saved_share=saved / total if total else 0.0,
        read_bytes=base + saved,
        least_written_bytes=base,
    )


_COMPLETED = "completed"
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """An instant of the active timeline.

    ``seconds`` is the duration of a completed action, None if the timeline does not have it; for another action, the
    time since it was requested. The numbers of rows and bytes are None unless it is a completed commit.
    """

    requested_time: str
    action: str
    state: str
    completion_time: str | None
    seconds: float | None
    operation: str | None
    rows_inserted: int | None
    rows_updated: int | None
    rows_deleted: int | None
    bytes_written: int | None
    extra_metadata: tuple[tuple[str, str], ...]

    @property
    def is_completed(self) -> bool:
        """Whether the action has ended."""
        return self.state == _COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCost:
    """The costs of the newest slices of a partition together; sizes in bytes.

    ``most_writes`` is the largest number of writes in the logs of one slice.
    """

    path: str
    slices: int
    base_bytes: int
    log_bytes: int
    log_files: int
    most_writes: int
    overdue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The contents of a report about a table.

    ``facts`` are names and values. ``partitions`` are ordered by log bytes, largest first; the slices themselves are in
    ``diagnosis``. ``slices`` are those of all times, as ``inspect_all_slices`` has them. ``plans`` are the rows of
    ``inspect_services`` for what has not completed. ``rows_and_commits`` has for partitions the number of rows in base
    files, if commits tell it, and the newest commit. ``pending_compactions`` are instants. ``problems`` are parts that
    cannot be read, and why.
    """

    facts: tuple[tuple[str, str], ...]
    timeline: tuple[TimelineEntry, ...]
    diagnosis: Diagnosis
    partitions: tuple[PartitionCost, ...]
    rows_and_commits: Mapping[str, tuple[int | None, str | None]]
    slices: pa.Table
    plans: tuple[Mapping[str, Any], ...]
    gains: tuple[CompactionGain, ...]
    pending_compactions: tuple[str, ...]
    is_merge_on_read: bool
    columns: pa.Schema | None
    versions: tuple[SchemaVersion, ...]
    stories: tuple[RecordHistory, ...]
    problems: tuple[tuple[str, str], ...]


def gather(
    table: HudiTable,
    keys: Iterable[str] = (),
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Reads what ``doctor`` reads, commits, plans, schemas, all folders, and the files that may hold the record keys.

    ``now``, ``deep``, ``limits`` and ``progress`` are as for ``doctor``.

    Raises:
        QueryError: ``now`` is not a time, or a key is not valid Unicode.
    """
    config, report_progress = table.config, progress or (lambda *_: None)
    moment = (
        clock(config.timeline_timezone) if now is None else parse_query_instant(now, config.timeline_timezone, "now")
    )
    limits = limits or Limits()
    diagnosis = doctor(table, deep=deep, now=moment, limits=limits, progress=report_progress)
    problems: list[tuple[str, str]] = []

    def part(name: str, read: Callable[[], _Part]) -> _Part | None:
        report_progress(name, 0, 0)
        try:
            contents = read()
        except QueryError:
            raise
        except (HudiReadError, OSError, pa.ArrowException) as error:
            problems.append((name, str(error)))
            return None
        if isinstance(contents, pa.Table):
            # What cannot be read of it is in rows that say so, several of one file perhaps.
            texts = dict.fromkeys(contents.column("problem").drop_null().to_pylist())
            problems.extend((name, str(text)) for text in texts)
        return contents

    commits = (part("commits", lambda: inspect_commits(table)) or inspect_timeline(table)).to_pylist()
    problems += [("commits", row["problem"]) for row in commits if row.get("problem") is not None]
    histories = (part(f"story of {key!r}", partial(history_of, table, key)) for key in dict.fromkeys(keys))
    slices = part("file slices of all times", lambda: inspect_all_slices(table))
    services = part("table services", lambda: inspect_services(table))
    partitions = part("partitions", lambda: inspect_partitions(table))
    stories = tuple(history for history in histories if history is not None)
    return Report(
        facts=tuple(_facts(table)),
        timeline=tuple(_entry(row, moment) for row in commits),
        diagnosis=diagnosis,
        partitions=partition_costs(diagnosis.slices),
        rows_and_commits={
            row["partition_path"]: (row["base_rows"], row["newest_commit"])
            for row in (() if partitions is None else partitions.to_pylist())
        },
        slices=ALL_SLICES_SCHEMA.empty_table() if slices is None else slices,
        plans=tuple(
            row | {"age_seconds": _age(row["requested_time"], moment)}
            for row in (() if services is None else services.to_pylist())
            if row["state"] != _COMPLETED
        ),
        gains=compaction_gains(diagnosis.slices, limits.delta_commits),
        pending_compactions=tuple(
            instant.requested_time
            for instant in table.timeline.instants
            if instant.action is Action.COMPACTION and not instant.is_completed
        ),
        is_merge_on_read=config.table_type is TableType.MERGE_ON_READ,
        columns=part("columns", lambda: table.schema),
        versions=part("schema history", lambda: table.schema_history) or (),
        stories=stories,
        problems=tuple(problems),
    )


def _facts(table: HudiTable) -> Iterable[tuple[str, str]]:
    config = table.config
    facts = (
        ("path", table.path),
        ("table type", str(config.table_type)),
        ("table version", str(config.table_version)),
        ("merge mode", str(infer_merge_mode(config))),
        ("record key", ", ".join(config.record_key_fields)),
        ("ordering fields", ", ".join(config.ordering_fields)),
        ("partition fields", ", ".join(config.partition_fields)),
        ("newest instant", table.latest_instant or "none yet"),
    )
    return (fact for fact in facts if fact[1])


def _entry(row: dict[str, Any], now: str) -> TimelineEntry:
    is_completed = row["state"] == _COMPLETED
    seconds = row.get("duration_seconds") if is_completed else _age(row["requested_time"], now)
    return TimelineEntry(
        requested_time=row["requested_time"],
        action=row["action"],
        state=row["state"],
        completion_time=row["completion_time"],
        seconds=seconds,
        operation=row.get("operation"),
        rows_inserted=row.get("rows_inserted"),
        rows_updated=row.get("rows_updated"),
        rows_deleted=row.get("rows_deleted"),
        bytes_written=row.get("bytes_written"),
        extra_metadata=tuple(row.get("extra_metadata") or ()),
    )


def _age(requested_time: str, now: str) -> float | None:
    """The seconds since a request; None if they are below 0."""
    since = seconds_between(requested_time, now)
    # The clock may be behind, or in another zone than a timeline without a time zone.
    return None if since is None or since < 0 else since


def partition_costs(costs: Sequence[SliceCost]) -> tuple[PartitionCost, ...]:
    """The costs of the partitions, ordered by log bytes, largest first."""
    by_path = groupby(sorted(costs, key=_path), key=_path)
    partitions = (_partition(path, tuple(costs_of_path)) for path, costs_of_path in by_path)
    return tuple(sorted(partitions, key=lambda cost: (-cost.log_bytes, cost.path)))


def _path(cost: SliceCost) -> str:
    return cost.partition_path


def _partition(path: str, costs: Sequence[SliceCost]) -> PartitionCost:
    return PartitionCost(
        path=path,
        slices=len(costs),
        base_bytes=sum(cost.base_bytes for cost in costs),
        log_bytes=sum(cost.log_bytes for cost in costs),
        log_files=sum(cost.log_files for cost in costs),
        most_writes=max(cost.delta_commits for cost in costs),
        overdue=sum(cost.is_overdue for cost in costs),
    )


_VERSION_COLUMNS = ("number", "kind", "instant", "ordering", "values", "what became of it", "file")


def story_html(history: RecordHistory) -> str:
    """An HTML ``article`` about one record key: every version, why it won or lost, and the resulting row."""
    return "".join(_story(history))


def _story(history: RecordHistory) -> Iterator[str]:
    yield f'<article class="record">\n<h3><code>{_text(history.record_key)}</code></h3>\n'
    yield f'<p class="dim">as of {_text(history.instant)}, merged by {_text(history.rule)}</p>\n'
    if not history.file_groups:
        searched = counted(len(history.searched_file_groups), "file group")
        yield f"<p>The record is not in the table; {searched} were searched.</p>\n"
    for group in history.file_groups:
        yield from _group(group)
    unreadable = [item for group in history.searched_file_groups for item in group.unreadable]
    if unreadable:
        items = "".join(f"<li>{_text(item.text())}</li>" for item in unreadable)
        yield f"<p>Unreadable, may have held the record:</p>\n<ul>{items}</ul>\n"
    yield "</article>\n"


def _group(group: FileGroupHistory) -> Iterator[str]:
    location = f"partition {group.partition_path or '(none)'}, file group {group.file_id}"
    yield f"{scrolling('Versions')}<table><caption>Versions in {_text(location)}</caption>\n<thead><tr>"
    yield from map(header_cell, _VERSION_COLUMNS)
    yield "</tr></thead>\n<tbody>\n"
    for number, version in enumerate(group.versions, start=1):
        verdicts = [*group.verdict_texts(number), *(["wins"] if number == group.winner else [])]
        yield _version(str(number), version, verdicts, is_winner=number == group.winner)
    for uncounted in group.uncounted:
        yield _version("–", uncounted.version, [f"does not count: {uncounted.reason}"], is_winner=False)  # noqa: RUF001
    yield f"</tbody></table>\n{END_OF_SCROLLING}"
    yield from _result(group)


def _version(number: str, version: RecordVersion, verdicts: Sequence[str], *, is_winner: bool) -> str:
    ordering = ordering_text(version.ordering) if version.ordering and not version.always_deletes else ""
    block = "" if version.block_number is None else f", block {version.block_number} at byte {version.offset:,}"
    earlier = version.commit_time not in (None, version.instant_time)
    written = f", written by {version.commit_time}" if earlier else ""
    carried = [name for name in version.carried if name not in META_COLUMNS]
    shown = shown_values(version.row.select(carried)) if carried else {}
    values = ", ".join(f"{name} = {value}" for name, value in shown.items())
    kind = version.kind if version.delete is None else f"{version.kind} by {version.delete}"
    cells = (ordering, values, "; ".join(verdicts), version.path.rpartition("/")[2] + block + written)
    attributes = ' class="winner"' if is_winner else ""
    return (
        f'<tr{attributes}><th scope="row">{number}</th><td>{_text(kind)}</td>'
        f'<td class="whole">{_text(version.instant_time)}</td>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in cells)
        + "</tr>\n"
    )


def _result(group: FileGroupHistory) -> Iterator[str]:
    if not group.result.num_rows:
        yield "<p>No row is left.</p>\n"
        return
    more = "" if group.result.num_rows == 1 else f", the first of {group.result.num_rows:,}"
    yield f"{scrolling('The row')}<table><caption>The row{more}</caption>\n<thead><tr>"
    yield from map(header_cell, ("column", "value", "from version"))
    yield "</tr></thead>\n<tbody>\n"
    sources = dict(group.sources)
    for name, value in shown_values(group.result.slice(0, 1)).items():
        source = sources.get(name, "")
        yield f'<tr><th scope="row">{_text(name)}</th><td>{_text(value)}</td><td>{source}</td></tr>\n'
    yield f"</tbody></table>\n{END_OF_SCROLLING}"


def scrolling(name: str) -> str:
    """The beginning of a region that scrolls if its table is wider than the page; a keyboard reaches it."""
    return f'<div class="scrolls" tabindex="0" role="region" aria-label="{page_text(name)}">'


END_OF_SCROLLING = "</div>\n"


def _text(text: str) -> str:
    return page_text(clipped(text))
