"""Rules out file slices and partitions for a filter, by the ranges of column values in the metadata table.

A slice is ruled out only if its base file and all its log files have stats of a column. A merged row takes each value
from one of these files, so the value lies in one of their ranges. Where that does not hold, the slice is read:

    floating-point columns  of a base file with a NaN, the stats have 0.0 as both ends, whatever the others are
    evolved columns         a file's column of that name may be another one, if columns have ids
    rows by user payloads   they may have values that no file has
    texts and times         values may be counted as nulls, and be in no range (``counted_nulls``)
    external files          their writers may have cut times to milliseconds, and files of the same name in several
                            folders of a partition share their stats

Column stats describe files, and serve queries of earlier states too. Partition stats describe the newest state, and
leave out log files without stats. So they serve queries of base files alone: of a copy-on-write table, or read
optimized. They rule out partitions before files are listed.

Source: ``DataSkippingUtils``, ``HoodieFileIndex``, ``PartitionStatsIndexSupport`` and
``HoodieTableMetadataUtil.convertMetadataToPartitionStatRecords`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from itertools import islice, pairwise, product
from operator import and_, attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.indexes.metadata_table import IndexPartition, MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import (
    COLUMN_STATS,
    EXPRESSION_INDEX,
    FIRST_REORDERED,
    KEY,
    PARTITION_STATS,
    VALUE_TYPES,
    column_id,
    counted_nulls,
    file_id,
    partition_id,
)
from hudi_bridge.readers.request import referenced_columns
from hudi_bridge.schema.julian import widened
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN, META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.splits.notes import PARTITIONS, PlanNotes
from hudi_bridge.splits.partitions import paths_that_may_pass, range_guarantee
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.timeline import TableState

_MOST_CASES = 16
"""How many combinations of ranges of several columns are tried for a row; beyond that, ranges are taken as one."""
_MOST_KEYS = 10_000
"""Beyond so many files, reading the stats of the whole column takes less time than looking up each file."""
_BYTES_OF_RANGE = 300
"""How much the range of a file counts in the cache, with its key; about what both take."""
_LOG = logging.getLogger(__name__)
_SPLITS_AT_ONCE = 4_096
"""Few enough that the first splits are read soon, and so many that a lookup of their stats costs little for each."""
COLUMN_STATS_STEP = "column stats"
_FEW_PARTITIONS = 8
"""Listing so few partitions is faster than reading the metadata table."""
PARTITION_STATS_STEP = "partition stats"


class _Range(NamedTuple):
    """The least and the greatest value, None without values, and whether there may be nulls."""

    low: Any
    high: Any
    has_nulls: bool


def skippable_columns(columns: Iterable[str], context: ReadContext) -> tuple[str, ...]:
    """The columns by whose stats slices may be passed over, of some columns of a query."""
    rule = context.merge_rule
    if context.schema_ids is not None or (rule is not None and rule.payload is not None):
        return ()
    others = {*META_COLUMNS, COMPLETION_TIME_COLUMN, *context.path_columns}
    return tuple(name for name in columns if name not in others and _wrappers(context.schema.field(name).type))


def splits_that_may_pass(
    table: MetadataTable,
    splits: Sequence[RealtimeFileSplit],
    row_filter: pc.Expression,
    columns: Sequence[str],
) -> list[RealtimeFileSplit]:
    """The splits whose rows may pass a filter that refers to ``columns``, which are among ``skippable_columns``.

    Raises:
        CorruptTableError: the column stats are damaged.
        StorageError: they cannot be read.
    """
    if not splits or not columns:
        return list(splits)
    context = splits[0].context
    most_parts = int(_MOST_CASES ** (1 / len(columns)))
    by_column = [_guarantees(table, splits, name, context, most_parts) for name in columns]
    guarantees: dict[str, list[pc.Expression]] = {}
    for number in range(len(splits)):
        of_columns = [by_split[number] for by_split in by_column if number in by_split]
        if of_columns:
            guarantees[str(number)] = [reduce(and_, combination) for combination in product(*of_columns)]
    passing = set(paths_that_may_pass(table.own.storage, row_filter, context.schema, guarantees))
    return [split for number, split in enumerate(splits) if str(number) not in guarantees or str(number) in passing]


def splits_with_values(
    table: MetadataTable,
    partition: str,
    splits: Sequence[RealtimeFileSplit],
    column: str,
    kind: pa.DataType,
    values: Sequence[tuple[Any, Any]],
) -> list[RealtimeFileSplit]:
    """The splits whose rows may have results of an expression in one of the ranges ``values``, both ends included.

    ``partition`` is an expression index with stats of results over a column, ``kind`` the type of the results.

    Raises:
        CorruptTableError: the index is damaged.
        StorageError: it cannot be read.
    """
    ranges_of_splits = _complete_ranges(table, partition, splits, column, kind)
    without = {number for number, ranges in ranges_of_splits if not _is_any_within(ranges, values)}
    return [split for number, split in enumerate(splits) if number not in without]


def _is_any_within(ranges: Sequence[_Range], values: Sequence[tuple[Any, Any]]) -> bool:
    """Whether one of the ranges ``values`` has a value in common with one of ``ranges``."""
    bounded = [value_range for value_range in ranges if value_range.low is not None]
    return any(low <= value_range.high and high >= value_range.low for low, high in values for value_range in bounded)


def partitions_that_may_pass(
    table: MetadataTable,
    paths: Sequence[str],
    row_filter: pc.Expression,
    columns: Sequence[str],
    context: ReadContext,
) -> list[str]:
    """The partitions whose base files may have rows that pass a filter; ``columns`` are some ``skippable_columns``.

    The stats of a partition do not name their files. They count only if they have as many values as the stats of the
    record key, which all files have. Log files may have no stats, so rows in logs are not covered.

    Raises:
        CorruptTableError: the partition stats are damaged.
        StorageError: they cannot be read.
    """
    of_paths = {path: partition_id(path) for path in paths}
    counted = _counts(_partition_stats(table, RECORD_KEY_COLUMN, of_paths))
    guarantees: dict[str, list[pc.Expression]] = {}
    for column in columns:
        kind = context.schema.field(column).type
        stats = _partition_stats(table, column, of_paths)
        start, counts = column_id(column), _counts(stats)
        ranges = _ranges(stats, kind, PARTITION_STATS)
        by_partition = dict(zip((key.removeprefix(start) for key in counts), ranges, strict=True))
        for path, partition in of_paths.items():
            values = by_partition.get(partition)
            expected = counted.get(f"{column_id(RECORD_KEY_COLUMN)}{partition}")
            if values is not None and expected is not None and counts[f"{start}{partition}"] == expected:
                guarantee = _guarantee(column, kind, [values], may_be_null=True)
                guarantees[path] = [reduce(and_, [guarantee, *guarantees.get(path, [])])]
    if not guarantees:
        return list(paths)
    passing = set(paths_that_may_pass(table.own.storage, row_filter, context.schema, guarantees))
    return [path for path in paths if path not in guarantees or path in passing]


def _partition_stats(table: MetadataTable, column: str, of_paths: Mapping[str, str]) -> pa.Table:
    return stats_of_files(
        table, column, [f"{column_id(column)}{partition}" for partition in of_paths.values()], PARTITION_STATS
    )


def _counts(stats: pa.Table) -> dict[str, int | None]:
    """The number of values by key."""
    return dict(zip(map(str, stats.column(KEY).to_pylist()), stats.column("value_count").to_pylist(), strict=True))


def _guarantees(
    table: MetadataTable, splits: Sequence[RealtimeFileSplit], column: str, context: ReadContext, most: int
) -> Mapping[int, list[pc.Expression]]:
    """For the number of each split, at most ``most`` expressions; at least one is true for each row of the split.

    Splits with a file of unknown range are left out.
    """
    kind = context.schema.field(column).type
    has_default = column in dict(context.field_defaults)
    guarantees = {}
    for number, ranges in _complete_ranges(table, COLUMN_STATS, splits, column, kind):
        with_logs = bool(splits[number].log_paths)
        # The blocks of a log file may have schemas without the column: its value is the default, then, or null.
        if not (with_logs and has_default):
            parts = _disjoint_groups(ranges, most)
            guarantees[number] = [_guarantee(column, kind, part, may_be_null=with_logs) for part in parts]
    return guarantees


def _disjoint_groups(ranges: Sequence[_Range], most: int) -> list[list[_Range]]:
    """The ranges in at most ``most`` groups that have no value in common; the lowest first."""
    groups: list[list[_Range]] = []
    greatest: Any = None
    for value_range in sorted(
        (value_range for value_range in ranges if value_range.low is not None), key=attrgetter("low")
    ):
        if not groups or (value_range.low > greatest and len(groups) < most):
            groups.append([])
            greatest = value_range.high
        groups[-1].append(value_range)
        greatest = max(greatest, value_range.high)
    return groups or [list(ranges)]


def _complete_ranges(
    table: MetadataTable, partition: str, splits: Sequence[RealtimeFileSplit], column: str, kind: pa.DataType
) -> Iterator[tuple[int, list[_Range]]]:
    """The numbers of the splits whose files all have a range, with these ranges."""
    numbers, keys = _keys_of_files(splits, column, kind)
    if not numbers:
        return
    for number, ranges in _by_split(numbers, _ranges_of_files(table, partition, column, keys, kind)):
        complete = [value_range for value_range in ranges if value_range is not None]
        if len(complete) == len(ranges):
            yield number, complete


def _ranges_of_files(
    table: MetadataTable, partition: str, column: str, keys: Sequence[str], kind: pa.DataType
) -> "Sequence[_Range | None]":
    """The ranges of the files with some keys, None where unknown; cached for the next query."""
    question = partition, kind, tuple(keys)
    cached: Sequence[_Range | None] | None = table.cache.get(question)
    if cached is None:
        stats = stats_of_files(table, column, keys, partition)
        ranges = _ranges(stats, kind, partition)
        rows = pc.index_in(pa.array(keys, pa.string()), stats.column(KEY).combine_chunks()).to_pylist()
        cached = [None if row is None else ranges[row] for row in rows]
        table.cache.put(question, cached, _BYTES_OF_RANGE * len(keys))
    return cached


def _keys_of_files(splits: Sequence[RealtimeFileSplit], column: str, kind: pa.DataType) -> tuple[list[int], list[str]]:
    """The keys of the files' stats, and for each the number of its split; leaves out splits with unusable stats."""
    start = column_id(column)
    numbers, keys = [], []
    for number, split in enumerate(splits):
        if split.is_external and ("/" in split.file_id or pa.types.is_timestamp(kind)):
            continue
        partition = partition_id(split.partition_path)
        for file in (*filter(None, [split.base_path]), *split.log_paths):
            numbers.append(number)
            keys.append(f"{start}{partition}{file_id(file.rpartition('/')[2])}")
    return numbers, keys


def stats_of_files(table: MetadataTable, column: str, keys: Sequence[str], partition: str = COLUMN_STATS) -> pa.Table:
    """The stats of a column with some keys, or of all files if the keys are many; raises like ``of_keys``."""
    if len(keys) <= _MOST_KEYS:
        return table.of_keys(partition, keys)
    return table.of_prefix(partition, column_id(column))


def _by_split(
    numbers: Sequence[int], ranges: "Sequence[_Range | None]"
) -> "Iterator[tuple[int, Sequence[_Range | None]]]":
    """The ranges of each split's files."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(starts):
        yield numbers[start], ranges[start:end]


def _wrappers(kind: pa.DataType) -> tuple[str, ...]:
    """The types of Hudi's wrapped values that compare like a column of this type; none if no stats can be used."""
    if pa.types.is_signed_integer(kind):
        return ("int", "long")
    if pa.types.is_string(kind):
        return ("string",)
    if pa.types.is_date32(kind):
        return ("date", "local_date")
    if pa.types.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None:
        return ("timestamp_micros",)
    return ()


def _ranges(stats: pa.Table, kind: pa.DataType, partition: str) -> "list[_Range | None]":
    """The ranges of values of files or partitions, None where unknown, by stats of a metadata partition."""
    lows, highs = _ends(stats.column("min_value"), kind, min), _ends(stats.column("max_value"), kind, max)
    counts = zip(stats.column("value_count").to_pylist(), stats.column("null_count").to_pylist(), strict=True)
    value_ranges: list[_Range | None] = []
    for low, high, (values, nulls), is_empty, is_whole in zip(
        lows, highs, counts, *_certain_nulls(stats, kind, partition), strict=True
    ):
        if low is None or high is None:
            # Column stats count nulls among the values, expression indexes do not.
            has_none = values is not None and (values == 0 or (values == nulls and is_empty))
            value_ranges.append(_Range(None, None, bool(values or nulls)) if has_none else None)
        elif (nulls != 0 and not is_whole) or (isinstance(low, str) and max(low + high, default="") >= FIRST_REORDERED):
            value_ranges.append(None)
        elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            # Stats do not tell by which calendar the values were stored.
            value_ranges.append(_Range(*widened(low, high, kind), nulls != 0))
        else:
            value_ranges.append(_Range(low, high, nulls != 0))
    return value_ranges


def _certain_nulls(stats: pa.Table, kind: pa.DataType, partition: str) -> Sequence[Sequence[bool]]:
    """Whether the null count of stats is exact: for rows without a range, and for rows with one."""
    if partition.startswith(EXPRESSION_INDEX):
        # Results are counted by Spark, as ``SparkMetadataWriterUtils`` computes them.
        return [[True] * len(stats)] * 2
    return [mask.tolist() for mask in counted_nulls(stats, kind, of_files=partition == COLUMN_STATS)]


def _ends(values: "pa.ChunkedArray[Any]", kind: pa.DataType, choose: Callable[[Iterable[Any]], Any]) -> list[Any]:
    """The least or greatest value of each file, None where there is none, or one of another type."""
    wrappers = _wrappers(kind)
    of_types = {name: pc.struct_field(values, name) for name in VALUE_TYPES}
    of_wanted = zip(*(of_types[name].to_pylist() for name in wrappers), strict=True)
    ends = [
        choose(present) if (present := [value for value in row if value is not None]) else None for row in of_wanted
    ]
    others = reduce(pc.or_, [column.is_valid() for name, column in of_types.items() if name not in wrappers])
    return [None if is_other else value for value, is_other in zip(ends, others.to_pylist(), strict=True)]


def _guarantee(column: str, kind: pa.DataType, ranges: Sequence[_Range], *, may_be_null: bool) -> pc.Expression:
    """An expression that is true for values in one of the ranges."""
    lows = [value_range.low for value_range in ranges if value_range.low is not None]
    if not lows:
        return pc.field(column).is_null()
    least = _value(min(lows), kind)
    greatest = _value(max(value_range.high for value_range in ranges if value_range.high is not None), kind)
    return range_guarantee(
        column, least, greatest, may_be_null=may_be_null or any(value_range.has_nulls for value_range in ranges)
    )


def _value(stored: Any, kind: pa.DataType) -> "pa.Scalar[Any]":  # noqa: ANN401 - a number or a text
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        return pa.scalar(stored, kind)
    is_date = pa.types.is_date32(kind)
    value: pa.Scalar[Any] = pa.scalar(stored, pa.int32() if is_date else pa.int64()).cast(kind)
    return value


def in_batches(splits: Iterable[RealtimeFileSplit]) -> Iterator[list[RealtimeFileSplit]]:
    """The splits in lists; an index is asked once for each list."""
    waiting = iter(splits)
    while batch := list(islice(waiting, _SPLITS_AT_ONCE)):
        yield batch


class ColumnStatsOfTable:
    """The column stats of a table. If they cannot be used, this is reported once, and no slice is skipped.

    They describe files, which do not change, so they serve queries of earlier states too.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The column stats of a state, whose metadata table is opened when it is first needed."""
        report = partial(_LOG.warning, "the column stats are not used: %s")
        self._stats = IndexPartition(metadata, COLUMN_STATS, why_not_there(state, COLUMN_STATS), report)

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass a filter that refers to some columns of a query."""
        skippable = skippable_columns(columns, context)
        for part in in_batches(splits):
            chosen = self._select(part, row_filter, skippable)
            if notes is not None and skippable and self._stats.why_not is None:
                notes.counted(COLUMN_STATS_STEP, len(part), len(chosen))
            yield from chosen
        if notes is not None and self._stats.why_not is not None:
            notes.not_used(COLUMN_STATS_STEP, self._stats.why_not)
        elif notes is not None and not skippable:
            notes.not_used(COLUMN_STATS_STEP, f"they do not tell of {', '.join(columns) or 'no column'}")

    def _select(
        self, splits: list[RealtimeFileSplit], row_filter: pc.Expression, columns: Sequence[str]
    ) -> list[RealtimeFileSplit]:
        if not columns:
            return splits
        chosen = self._stats.ask(lambda table: splits_that_may_pass(table, splits, row_filter, columns))
        return splits if chosen is None else chosen


class PartitionStatsOfTable:
    """The partition stats of a table in its newest state. If they cannot be used, this is reported once.

    Reading the metadata table takes time, so they are used only if there are more than a few partitions.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The partition stats of a state, whose metadata table is opened when it is first needed."""
        why_not = why_not_there(state, PARTITION_STATS)
        self._is_there = why_not is None
        report = partial(_LOG.warning, "the partition stats are not used: %s")
        self._stats = IndexPartition(metadata, PARTITION_STATS, why_not, report)

    @property
    def why_not(self) -> str | None:
        """Why partition stats that the table has cannot be used."""
        return self._stats.why_not if self._is_there else None

    def partitions_that_may_pass(
        self, paths: Sequence[str], row_filter: pc.Expression, context: ReadContext, notes: PlanNotes | None = None
    ) -> Sequence[str]:
        """The partitions in which base files may have rows that pass a filter."""
        if len(paths) <= _FEW_PARTITIONS or self._stats.why_not is not None or not context.skips_slices:
            return paths
        skippable = skippable_columns(referenced_columns(row_filter, context.schema), context)
        if not skippable:
            return paths

        def select(table: MetadataTable) -> Sequence[str] | None:
            columns = [name for name in skippable if name in _indexed_columns(table)]
            return partitions_that_may_pass(table, paths, row_filter, columns, context) if columns else None

        chosen = self._stats.ask(select)
        if notes is not None and self._stats.why_not is not None:
            notes.not_used(PARTITION_STATS_STEP, self._stats.why_not, PARTITIONS)
        elif notes is not None and chosen is not None:
            notes.counted(PARTITION_STATS_STEP, len(paths), len(chosen), PARTITIONS)
        return paths if chosen is None else chosen


def _indexed_columns(table: MetadataTable) -> tuple[str, ...]:
    """The columns that writers keep stats of; there may be old stats of others."""
    definition = table.definitions.get(COLUMN_STATS)
    return () if definition is None else definition.source_fields
