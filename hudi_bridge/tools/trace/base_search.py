"""Finds the files that may hold versions of a record, and the rows of its key in a base file.

Of a base file, only what its indexes and statistics do not rule out is read. Log files that a snapshot does not read
are searched too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.indexes.footer_index import FooterAnswer, footer_index
from hudi_bridge.merge.arrays import Positions, ordering_values
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.splits.file_slice import parse_log_file_name
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.tools.trace.verdicts import RecordVersion


class BaseCheck(StrEnum):
    """How far a base file was read to find a key."""

    NO_BASE_FILE = "not there"
    KEY_RANGE = "ruled out by key range"
    BLOOM_FILTER = "ruled out by Bloom filter"
    READ = "read"


_CHECKS = {
    FooterAnswer.OUT_OF_RANGE: BaseCheck.KEY_RANGE,
    FooterAnswer.NOT_IN_FILTER: BaseCheck.BLOOM_FILTER,
    FooterAnswer.MAY_HOLD: BaseCheck.READ,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseRows:
    """The rows of a key in a base file, with all columns of the query.

    ``positions`` are the positions of the rows among the ``file_rows`` rows of the file.
    """

    check: BaseCheck
    file_rows: int
    rows: pa.RecordBatch
    positions: Positions


def find_base_rows(storage: Storage, split: RealtimeFileSplit, record_key: str) -> BaseRows:
    """The rows of a key in the base file of a split; several only if a writer allowed duplicates.

    Raises:
        CorruptBaseFileError: the file is not valid Parquet, or the key range or Bloom filter in its footer is damaged.
        DataFileGoneError: the file no longer exists.
    """
    if split.base_path is None:
        return _nothing(split, BaseCheck.NO_BASE_FILE)
    with open_base_file(storage, split, split.base_path, use_threads=False) as base:
        check = _CHECKS[footer_index(base, split).ask(record_key)]
        if check is not BaseCheck.READ:
            return _nothing(split, check)
        return _read(base, split, record_key)


def base_versions(base: BaseRows, split: RealtimeFileSplit, rule: MergeRule | None) -> tuple[RecordVersion, ...]:
    """The rows as versions, with ordering values if the rule compares them."""
    fields = rule.ordering_fields if rule is not None and rule.uses_ordering else ()
    rows = (pa.Table.from_batches([base.rows.slice(number, 1)]) for number in range(base.rows.num_rows))
    return tuple(
        RecordVersion(
            instant_time=split.base_instant_time,
            path=split.base_path or "",
            block_number=None,
            offset=None,
            ordering=tuple(ordering_values(name, row)[0].as_py() for name in fields),
            delete=None,
            is_partial=False,
            absent=frozenset(),
            is_delete=False,
            always_deletes=False,
            marked=False,
            row=row,
        )
        for row in rows
    )


def _nothing(split: RealtimeFileSplit, check: BaseCheck) -> BaseRows:
    rows = pa.RecordBatch.from_pylist([], schema=split.context.schema)
    return BaseRows(check=check, file_rows=0, rows=rows, positions=np.zeros(0, dtype=np.int64))


def _read(base: OpenBaseFile, split: RealtimeFileSplit, record_key: str) -> BaseRows:
    context = split.context
    keys = base.view(context.key_columns)
    groups = keys.matching_row_groups(RowRequest.of(context.schema, (), _key_filter(context, record_key)))
    positions: list[int] = []
    batches = []
    for group in groups:
        start = int(base.row_group_starts[group])
        hits: list[int] = []
        for batch in keys.batches(group):
            equal = pc.equal(record_keys(batch, context), pa.scalar(record_key)).fill_null(False)  # noqa: FBT003
            hits += (np.flatnonzero(equal.to_numpy(zero_copy_only=False)) + start).tolist()
            start += batch.num_rows
        if hits:
            batches += _rows_at(base, context, group, hits)
            positions += hits
    return BaseRows(
        check=BaseCheck.READ if groups else BaseCheck.KEY_RANGE,
        file_rows=base.num_rows,
        rows=pa.Table.from_batches(batches, context.schema).combine_chunks().to_batches()[0]
        if batches
        else _nothing(split, BaseCheck.READ).rows,
        positions=np.array(positions, dtype=np.int64),
    )


def _rows_at(base: OpenBaseFile, context: ReadContext, group: int, positions: list[int]) -> list[pa.RecordBatch]:
    """The rows of a row group at ascending positions in the file, with all columns."""
    everything = base.view(context.schema.names)
    start = int(base.row_group_starts[group])
    batches = []
    for stored in everything.stored_batches(group):
        end = start + stored.num_rows
        indices = [position - start for position in positions if start <= position < end]
        if indices:
            batches.append(everything.evolve(stored.take(pa.array(indices, pa.int64()))))
        if positions[-1] < end:
            break
        start = end
    return batches


def _key_filter(context: ReadContext, record_key: str) -> pc.Expression | None:
    """A filter for the key, to be compared with row group statistics; None if the key's text does
    not determine the value.
    """
    names = context.key_columns
    kind = context.schema.field(names[0]).type
    if len(names) > 1 or not (pa.types.is_string(kind) or pa.types.is_integer(kind)):
        return None
    try:
        return pc.field(names[0]) == pa.scalar(record_key).cast(kind)
    except pa.ArrowInvalid:
        return None


def slices_to_search(
    planner: SplitPlanner, partition_path: str | None, row_filter: pc.Expression | None = None
) -> list[tuple[RealtimeFileSplit, tuple[str, ...]]]:
    """The splits of the snapshot, each with the log files of its file group that the snapshot does not read.

    With a path, only splits of this partition are returned; partitions that the filter rules out are left out. A file
    group with only such log files is a split without files.
    """
    partition_path = partition_path and partition_path.strip("/")
    context = planner.context(QueryType.SNAPSHOT)
    within = None if partition_path is None else (partition_path,)
    planned = planner.splits(QueryType.SNAPSHOT, row_filter, within=within)
    splits = {(split.partition_path, split.file_id): split for split in planned}
    others: dict[GroupId, list[str]] = {group: [] for group in splits}
    for path in planner.files.partitions(planner.columns(QueryType.SNAPSHOT), row_filter, within=within):
        for file_id, log_path in _uncounted_log_files(planner.files.in_partition(path, must_exist=False), context):
            others.setdefault((path, file_id), []).append(log_path)
    slices = []
    for group in sorted(others):
        split = splits.get(group) or planner.split_without_files(group)
        # In older layouts, log files written after a pending compaction have its instant, and a snapshot reads them.
        slices.append((split, tuple(path for path in others[group] if path not in split.log_paths)))
    return slices


def _uncounted_log_files(files: Iterable[FileInfo], context: ReadContext) -> list[tuple[str, str]]:
    """File ids and paths of the log files that a snapshot does not read, by their names, in log file order.

    Log files of earlier file slices are left out, because their records are in a base file.
    """
    names = ((parse_log_file_name(info.name), info.path) for info in files)
    uncounted = [
        (name, path)
        for name, path in names
        if name is not None
        and not name.is_cdc
        and (name.instant_time > context.latest_instant or not context.is_committed(name.instant_time))
    ]
    uncounted.sort(key=lambda item: item[0].sort_key)
    return [(name.file_id, path) for name, path in uncounted]
