"""Traces one record key through the files of a snapshot.

The resulting row is merged by the functions that merge whole file slices.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.merge.arrays import all_positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.log_records import selected
from hudi_bridge.merge.ordering_fields import ordering_values
from hudi_bridge.merge.record_map import build_record_map
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.threads import map_in_threads
from hudi_bridge.trace.base_search import BaseRows, base_versions, find_base_rows
from hudi_bridge.trace.log_search import LogVersions, find_log_versions
from hudi_bridge.trace.record_history import FileGroupHistory, RecordHistory
from hudi_bridge.trace.slices import slices_to_search
from hudi_bridge.trace.verdicts import MergeOutcome, compare_versions
from hudi_bridge.trace.versions import RecordVersion

_GROUPS_AT_ONCE = 4
_SURROGATES = re.compile("[\ud800-\udfff]")
_NO_LOG = LogVersions(versions=(), blocks=(), by_position=False, uncounted=(), unreadable=())


def trace_record(planner: SplitPlanner, record_key: str, partition_path: str | None = None) -> RecordHistory:
    """The history of a key in a planner's snapshot, in all partitions or in one.

    Holds the log files of the file groups that are traced in parallel in memory.

    Raises:
        QueryError: the key or the path is no Unicode text.
        CorruptTableError: a file of the snapshot is damaged.
        DataFileGoneError: a file of the snapshot no longer exists.
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    for name, text in (("record_key", record_key), ("partition_path", partition_path or "")):
        if _SURROGATES.search(text):
            raise QueryError(name, ascii(text), "Unicode text without lone surrogates")
    context = planner.context(QueryType.SNAPSHOT)
    storage, rule = planner.state.storage, context.merge_rule
    if rule is not None and rule.precedence.asks_about_deletes:
        found = f"the merger {type(rule.payload).__name__}, which decides about deletes"
        raise UnsupportedTableError("history of a record", found, "payloads, and mergers of rows alone")
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
    pieces = [base.rows.filter(pa.array(stays))]
    if merge.merges_rows and len(matches.rows):
        pieces.append(merge.merged_rows(base.rows.take(pa.array(matches.rows, pa.int64())), matches))
    result = pa.concat_tables([pa.Table.from_batches(pieces), merge.remaining_log_rows()])
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

    By position, each base row has log versions of its own; the winner is that of the first one.
    """
    numbers = len(base_rows) + 1 + np.arange(len(log.versions))
    positions = all_positions([block.base_positions for block in log.blocks]) if log.by_position else None
    if positions is None:
        of_base = None if matched is None else (matched + 1, base_rows[matched])
        return compare_versions(of_base, log.versions, log.blocks, numbers.tolist(), context, rule)
    ends = np.cumsum([len(block.keys) for block in log.blocks])[:-1]
    outcomes = []
    for position in np.unique(positions):
        chosen = positions == position
        parts = zip(log.blocks, np.split(chosen, ends), strict=True)
        blocks = [selected(block, part) for block, part in parts]
        versions = [log.versions[version] for version in np.flatnonzero(chosen)]
        places = np.flatnonzero(base.positions == position).tolist()
        of_base = (places[0] + 1, base_rows[places[0]]) if places else None
        outcomes.append(compare_versions(of_base, versions, blocks, numbers[chosen].tolist(), context, rule))
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
