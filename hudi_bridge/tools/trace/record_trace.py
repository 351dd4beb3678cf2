"""The history of one record key in the files of a snapshot: its versions, which of them win and why, and the resulting
row.

The functions that merge whole file slices also merge the resulting row.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_bridge.common.display import counted, html_of_properties, html_of_rows
from hudi_bridge.common.threads import map_in_threads
from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.merge.arrays import all_positions, ordering_values
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.record_map import build_record_map, selected
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike
from hudi_bridge.tools.trace.key_search import (
    BaseCheck,
    BaseRows,
    LogVersions,
    base_versions,
    find_base_rows,
    find_log_versions,
    slices_to_search,
)
from hudi_bridge.tools.trace.verdicts import (
    HEEDED_BY_VERDICTS,
    MergeOutcome,
    RecordVersion,
    UncountedVersion,
    UnreadablePlace,
    Verdict,
    compare_versions,
    ordering_text,
)

_HISTORY_COLUMNS: Mapping[str, Any] = {
    "record_key": pa.string(),
    "partition_path": pa.string(),
    "file_id": pa.string(),
    "number": pa.int32(),
    "kind": pa.string(),
    "instant_time": pa.string(),
    "commit_time": pa.string(),
    "ordering": pa.string(),
    "delete": pa.string(),
    "counts": pa.bool_(),
    "wins": pa.bool_(),
    "verdict": pa.string(),
    "path": pa.string(),
    "block_number": pa.int32(),
    "offset": pa.int64(),
    "absent": pa.list_(pa.string()),
}
_ROW = "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileGroupHistory:
    """The history of a record key in one file group.

    Attributes:
        partition_path: the partition.
        file_id: the file group.
        base_check: how far the base file was read.
        log_files: the number of log files that were read.
        versions: the versions that count, numbered from 1: rows of the base file, then log versions in merge order.
        verdicts: the comparisons of two of them, in merge order.
        winner: the number of the version that remains, which may be a delete; None without versions.
        sources: for each column of the resulting row, the number of the version that its value comes from.
        result: the rows of the key that a snapshot returns: at most one, unless the base file has several. Then only
            the first is merged with the log or, if log blocks store positions, each with its own log versions;
            ``winner`` and ``sources`` belong to the first.
        uncounted: versions that a snapshot does not see.
        unreadable: damaged places in log files that may have had the key.

    Part of a ``RecordHistory``.
    """

    partition_path: str
    file_id: str
    base_check: BaseCheck
    log_files: int
    versions: tuple[RecordVersion, ...]
    verdicts: tuple[Verdict, ...]
    winner: int | None
    sources: tuple[tuple[str, int], ...]
    result: pa.Table
    uncounted: tuple[UncountedVersion, ...]
    unreadable: tuple[UnreadablePlace, ...]

    @property
    def holds_key(self) -> bool:
        """Whether any version was found, including versions that do not count."""
        return bool(self.versions or self.uncounted)

    def verdict_texts(self, number: int) -> tuple[str, ...]:
        """The results of comparing a version, by number, with earlier ones; empty for the first version."""
        numbers = {version_number for verdict in self.verdicts for version_number in (verdict.winner, verdict.loser)}
        if self.versions[number - 1].is_base_row:
            is_left_out = bool(self.verdicts) and number not in numbers
            return ("no log version meets this row",) if is_left_out else ()
        own = (verdict for verdict in self.verdicts if max(verdict.winner, verdict.loser) == number)
        return tuple(_verdict_text(number, verdict) for verdict in own)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RecordHistory:
    """The history of a record key as of an instant.

    ``searched_file_groups`` are ordered by partition and file id. ``rule`` is the name of the table's merge rule.

    Made by ``hudi_bridge.tools.history_of``.
    """

    record_key: str
    instant: str
    rule: str
    schema: pa.Schema
    searched_file_groups: tuple[FileGroupHistory, ...]

    def __repr__(self) -> str:
        groups = self.file_groups
        versions = sum(len(group.versions) + len(group.uncounted) for group in groups)
        versions_text = f"{counted(versions, 'version')} in {counted(len(groups), 'file group')}"
        rows_text = counted(self.result.num_rows, "row")
        return f"<RecordHistory {self.record_key!r} as of {self.instant}: {versions_text}, {rows_text} left>"

    def _repr_html_(self) -> str:
        properties = (("record key", self.record_key), ("instant", self.instant), ("rule", self.rule))
        shown = ("partition_path", "number", "kind", "instant_time", "ordering", "delete", "wins", "verdict", "path")
        rows = [[row[name] for name in shown] for row in self.to_table().to_pylist()]
        return html_of_properties("RecordHistory", properties) + html_of_rows("Versions", shown, rows)

    @property
    def file_groups(self) -> tuple[FileGroupHistory, ...]:
        """The file groups that have the key; several if several partitions have it."""
        return tuple(group for group in self.searched_file_groups if group.holds_key)

    @property
    def result(self) -> pa.Table:
        """The rows of the key that a snapshot returns."""
        return pa.concat_tables([self.schema.empty_table(), *(group.result for group in self.searched_file_groups)])

    def to_table(self) -> pa.Table:
        """One row per version; in each file group, versions that do not count come last.

        ``number`` is null for versions that do not count. ``verdict`` is the result of comparing a version with earlier
        ones, or the reason why it does not count. ``wins`` marks the version that remains. ``row`` has the values of a
        version, null in a delete block; ``absent`` names the columns that it does not carry, which are null there.
        """
        entries = [row for group in self.file_groups for row in _version_rows(group)]
        facts = pa.Table.from_pylist(
            [{"record_key": self.record_key, **row} for row, _ in entries], history_schema(None)
        )
        rows: Any = [_image(version, self.schema) for _, version in entries]
        kind: Any = pa.struct(list(self.schema))
        images = pa.chunked_array(rows, kind)
        return facts.append_column(history_schema(self.schema).field(_ROW), images)


def history_schema(columns: pa.Schema | None) -> pa.Schema:
    """The columns of a history as a table; with the ``columns`` of the record, also ``row``."""
    facts = [pa.field(name, kind) for name, kind in _HISTORY_COLUMNS.items()]
    return pa.schema(facts if columns is None else [*facts, pa.field(_ROW, pa.struct(list(columns)))])


def _image(version: RecordVersion, schema: pa.Schema) -> "pa.StructArray":
    """The values of a version as a struct of a record's columns."""
    fields = list(schema)
    if not version.row.num_rows:
        return pa.nulls(1, pa.struct(fields))
    carried: Any = {name: version.row.column(name).combine_chunks() for name in version.carried}
    columns = [carried[field.name] if field.name in carried else pa.nulls(1, field.type) for field in fields]
    columns = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in columns]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _verdict_text(number: int, verdict: Verdict) -> str:
    wins = verdict.winner == number
    other = verdict.loser if wins else verdict.winner
    filled = ""
    if verdict.filled:
        # The filled columns of the winner come from the loser, or from versions that filled the loser.
        columns = ", ".join(verdict.filled)
        filled = f"; {columns} from {other}" if wins else f"; but {columns} from it"
    return f"{'replaces' if wins else 'loses to'} {other}: {verdict.reason}{filled}"


def _version_rows(group: FileGroupHistory) -> Iterator[tuple[Mapping[str, Any], RecordVersion]]:
    for number, version in enumerate(group.versions, start=1):
        wins = number == group.winner
        verdict = "; ".join(group.verdict_texts(number))
        columns = {"number": number, "counts": True, "wins": wins, "verdict": verdict}
        yield _version_row(group, version) | columns, version
    for uncounted in group.uncounted:
        columns = _version_row(group, uncounted.version)
        columns |= {"number": None, "counts": False, "wins": False, "verdict": uncounted.reason}
        yield columns, uncounted.version


def _version_row(group: FileGroupHistory, version: RecordVersion) -> dict[str, Any]:
    return {
        "partition_path": group.partition_path,
        "file_id": group.file_id,
        "kind": version.kind,
        "instant_time": version.instant_time,
        "commit_time": version.commit_time,
        "ordering": ordering_text(version.ordering) if version.ordering else None,
        "delete": version.delete,
        "path": version.path,
        "block_number": version.block_number,
        "offset": version.offset,
        "absent": _absent(group, version) if version.row.num_rows else None,
    }


def _absent(group: FileGroupHistory, version: RecordVersion) -> list[str]:
    carried = frozenset(version.carried)
    return [name for name in group.result.schema.names if name not in carried]


_GROUPS_AT_ONCE = 4
_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_LOG = LogVersions(versions=(), blocks=(), by_position=False, uncounted=(), unreadable=())


def history_of(
    table: HudiTable, record_key: str, *, partition_path: str | None = None, as_of: InstantLike | None = None
) -> RecordHistory:
    """The history of a record: all its versions, which of them win and why, and the row that a snapshot returns.

    The log files of a few file groups at a time are in memory.

    Args:
        table: the table.
        record_key: the key as in ``_hoodie_record_key``.
        partition_path: limits the search to one partition.
        as_of: as for ``HudiTable.snapshot``.

    Raises:
        QueryError: the key or the path is not valid Unicode, or the instant has none of Hudi's formats.
        InstantNotReadableError: files of that instant were removed, or an earlier write has not completed.
        CorruptTableError: a file of the snapshot is damaged.
        DataFileGoneError: a file of the snapshot no longer exists.
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    # A planner without indexes: the history also has versions in files of writes that did not complete.
    planner = SplitPlanner(table.planner(as_of).state)
    for name, text in (("record_key", record_key), ("partition_path", partition_path or "")):
        if _SURROGATES.search(text):
            raise QueryError(name, ascii(text), "Unicode text without lone surrogates")
    context = planner.context(QueryType.SNAPSHOT)
    storage, rule = planner.state.storage, context.merge_rule
    if rule is not None and context.is_lsm_tree:
        raise UnsupportedTableError("history of a record", "an LSM tree", "other storage layouts")
    if rule is not None and rule.precedence.asks_about_deletes:
        actual = f"the merger {type(rule.payload).__name__}, which decides about deletes"
        raise UnsupportedTableError("history of a record", actual, "payloads, and mergers of rows alone")
    if rule is not None:
        rule.require_heeded(HEEDED_BY_VERDICTS, "the history of a record")
    # Before the first commit there are no columns, and so no keys, but log files of later commits may exist.
    has_columns = len(context.schema) > 0
    slices = slices_to_search(planner, partition_path) if has_columns else []
    searched = map_in_threads(lambda group: _trace_group(storage, rule, record_key, *group), slices, _GROUPS_AT_ONCE)
    return RecordHistory(
        record_key=record_key,
        instant=planner.state.instant,
        rule=_rule_text(rule),
        schema=context.schema,
        searched_file_groups=tuple(searched),
    )


def _trace_group(
    storage: Storage,
    rule: MergeRule | None,
    record_key: str,
    split: RealtimeFileSplit,
    other_paths: tuple[str, ...],
) -> FileGroupHistory:
    """The history of a key in one file group."""
    base = find_base_rows(storage, split, record_key)
    base_rows = base_versions(base, split, rule)
    log = _NO_LOG
    if rule is not None:
        # If a key has several base rows, recorded positions may decide which of them the log matches.
        rows = base.file_rows if len(base_rows) > 1 else 0
        log = find_log_versions(storage, split, rule, record_key, other_paths, base_rows=rows)
    if rule is None or not log.versions:
        result = pa.Table.from_batches([base.rows])
        sources = tuple((name, 1) for name in result.schema.names) if base_rows else ()
        outcome = MergeOutcome(verdicts=(), winner=1 if base_rows else None, sources=sources)
    else:
        result, matched = _merged(base, log, split.context, rule)
        outcome = _outcome(base, base_rows, log, matched, split.context, rule)
    return FileGroupHistory(
        partition_path=split.partition_path,
        file_id=split.file_id,
        base_check=base.check,
        log_files=len(split.log_paths) + len(other_paths),
        versions=base_rows + log.versions,
        verdicts=outcome.verdicts,
        winner=outcome.winner,
        sources=outcome.sources,
        result=result,
        uncounted=log.uncounted,
        unreadable=log.unreadable,
    )


def _merged(base: BaseRows, log: LogVersions, context: ReadContext, rule: MergeRule) -> tuple[pa.Table, int | None]:
    """The rows of a key in a snapshot, and the number of the first base row that the log matches."""
    defaults = context.defaults
    records = build_record_map(log.blocks, rule, context.schema, defaults, by_position=log.by_position)
    merge = FileSliceMerger(records, rule, defaults)
    matches = _match(merge, base, log, context, rule)
    stays = np.ones(base.rows.num_rows, dtype=np.bool_)
    stays[merge.superseded(matches)] = False
    batches = [base.rows.filter(pa.array(stays))]
    if merge.merges_rows and len(matches.rows):
        batches.append(merge.merged_rows(base.rows.take(pa.array(matches.rows, pa.int64())), matches))
    result = pa.concat_tables([pa.Table.from_batches(batches), merge.remaining_log_rows()])
    return result, int(matches.rows[0]) if len(matches.rows) else None


def _match(
    merge: FileSliceMerger, base: BaseRows, log: LogVersions, context: ReadContext, rule: MergeRule
) -> KeyMatches:
    ordering = [ordering_values(name, base.rows) for name in rule.ordering_fields] if rule.orders_base else []
    if log.by_position:
        return merge.match_chosen(base.positions, ordering)
    return merge.match(record_keys(base.rows, context), ordering)


def _outcome(
    base: BaseRows,
    base_rows: Sequence[RecordVersion],
    log: LogVersions,
    matched: int | None,
    context: ReadContext,
    rule: MergeRule,
) -> MergeOutcome:
    """The comparisons of log versions with one another and with the base row ``matched``.

    By position, each base row has its own log versions; the first one's winner is the winner.
    """
    numbers = len(base_rows) + 1 + np.arange(len(log.versions))
    positions = all_positions([block.base_positions for block in log.blocks]) if log.by_position else None
    if positions is None:
        base_version = None if matched is None else (matched + 1, base_rows[matched])
        return compare_versions(base_version, log.versions, log.blocks, numbers.tolist(), context, rule)
    ends = np.cumsum([len(block.keys) for block in log.blocks])[:-1]
    outcomes = []
    for position in np.unique(positions):
        mask = positions == position
        parts = zip(log.blocks, np.split(mask, ends), strict=True)
        blocks = [selected(block, part) for block, part in parts]
        versions = [log.versions[version] for version in np.flatnonzero(mask)]
        rows_at_position = np.flatnonzero(base.positions == position).tolist()
        base_version = (rows_at_position[0] + 1, base_rows[rows_at_position[0]]) if rows_at_position else None
        outcomes.append(compare_versions(base_version, versions, blocks, numbers[mask].tolist(), context, rule))
    verdicts = tuple(verdict for outcome in outcomes for verdict in outcome.verdicts)
    return replace(outcomes[0], verdicts=verdicts)


def _rule_text(rule: MergeRule | None) -> str:
    if rule is None:
        return "copy on write"
    parts = [rule.precedence.name if rule.payload is None else f"{rule.precedence.name}, {type(rule.payload).__name__}"]
    if rule.ordering_fields and rule.uses_ordering:
        parts.append(f"ordered by {', '.join(rule.ordering_fields)}")
    if rule.delete_marker is not None:
        parts.append(f"{' = '.join(rule.delete_marker)} deletes")
    if rule.fill is not None:
        parts.append(f"{rule.fill} are filled from the version that loses")
    return ", ".join(parts)
