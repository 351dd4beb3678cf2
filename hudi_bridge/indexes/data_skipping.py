"""Passes over the file slices of which no row passes a filter, by the column stats of the metadata table.

A slice is passed over only if its base file and all its log files have stats of a column. A merged row takes each value
from one of them, so it lies in one of their ranges. What that cannot be said of is read:

    floating-point columns  of a base file with a NaN, the stats have 0.0 as both ends, whatever the others are
    evolved columns         a file's column of that name may be another one, if columns have ids
    rows by user payloads   they may have values that no file has
    texts and times         values may be counted as nulls, and be in no range (``counted_nulls``)
    external files          their writers may have cut times to milliseconds, and of files in several folders of a
                            partition those of one name share their stats

Source: ``DataSkippingUtils`` and ``HoodieFileIndex`` of Hudi.

Uses the column stats of the metadata table, as long as they are complete for the newest state of the table.

Uses the partition stats of the metadata table: they rule out partitions before their files are listed.

They are those of the newest state, and say nothing of log files without stats. So they serve queries of base files
alone: of a copy-on-write table, or read optimized.

Source: ``PartitionStatsIndexSupport`` and ``HoodieTableMetadataUtil.convertMetadataToPartitionStatRecords`` of Hudi.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import islice, pairwise, product
from operator import and_, attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import HudiReadError
from hudi_bridge.indexes.metadata_table import MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import (
    COLUMN_STATS,
    EXPRESSION_INDEX,
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
from hudi_bridge.schema.meta_columns import META_COLUMNS, RECORD_KEY_COLUMN
from hudi_bridge.splits.notes import PARTITIONS, PlanNotes
from hudi_bridge.splits.partitioning import paths_that_may_pass, range_guarantee
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.timeline.timeline import TableState

_MOST_CASES = 16
"""Of the combinations of ranges that the values of a row may be in. Of more, ranges are taken as one."""
_MOST_KEYS = 10_000
"""The stats of more files than that are read with those of all others of the column."""
_BYTES_OF_RANGE = 300
"""What is held for the range of a file and the key that it was found by, about."""
# Below this character, the orders of UTF-8 bytes and of UTF-16 code units, by which Java compares, are the same.
_FIRST_THAT_DIFFERS = "\ue000"


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
    others = {*META_COLUMNS, *context.path_columns}
    return tuple(name for name in columns if name not in others and _wrappers(context.schema.field(name).type))


def splits_that_may_pass(
    table: MetadataTable,
    splits: Sequence[RealtimeFileSplit],
    row_filter: pc.Expression,
    columns: Sequence[str],
) -> list[RealtimeFileSplit]:
    """The splits of which rows may pass a filter that refers to ``columns``; those are ``skippable_columns``, or some.

    Raises:
        CorruptTableError: the column stats are damaged.
        StorageError: they cannot be read.
    """
    if not splits or not columns:
        return list(splits)
    context = splits[0].context
    most_parts = int(_MOST_CASES ** (1 / len(columns)))
    known = [_guarantees(table, splits, name, context, most_parts) for name in columns]
    guarantees: dict[str, list[pc.Expression]] = {}
    for number in range(len(splits)):
        of_columns = [found[number] for found in known if number in found]
        if of_columns:
            guarantees[str(number)] = [reduce(and_, one) for one in product(*of_columns)]
    kept = set(paths_that_may_pass(table.own.storage, row_filter, context.schema, guarantees))
    return [split for number, split in enumerate(splits) if str(number) not in guarantees or str(number) in kept]


def splits_with_values(
    table: MetadataTable,
    partition: str,
    splits: Sequence[RealtimeFileSplit],
    column: str,
    kind: pa.DataType,
    wanted: Sequence[tuple[Any, Any]],
) -> list[RealtimeFileSplit]:
    """The splits of which rows may have results of an expression in one of the wanted ranges, both ends included.

    ``partition`` is an expression index with stats of results over a column, ``kind`` the type of the results.

    Raises:
        CorruptTableError: the index is damaged.
        StorageError: it cannot be read.
    """
    known = _known_ranges(table, partition, splits, column, kind)
    without = {number for number, ranges in known if not _is_any_within(ranges, wanted)}
    return [split for number, split in enumerate(splits) if number not in without]


def _is_any_within(ranges: Sequence[_Range], wanted: Sequence[tuple[Any, Any]]) -> bool:
    """Whether a wanted range has a value in common with one of the ranges."""
    known = [one for one in ranges if one.low is not None]
    return any(low <= one.high and high >= one.low for low, high in wanted for one in known)


def partitions_that_may_pass(
    table: MetadataTable,
    paths: Sequence[str],
    row_filter: pc.Expression,
    columns: Sequence[str],
    context: ReadContext,
) -> list[str]:
    """The partitions whose base files may have rows that pass a filter; ``columns`` are some ``skippable_columns``.

    The stats of a partition do not say which files they are made of. They count only if they are of as many values as
    those of the record key, which all files have. Log files may have no stats, and are not spoken of.

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
        known = dict(zip((key.removeprefix(start) for key in counts), ranges, strict=True))
        for path, partition in of_paths.items():
            values = known.get(partition)
            expected = counted.get(f"{column_id(RECORD_KEY_COLUMN)}{partition}")
            if values is not None and expected is not None and counts[f"{start}{partition}"] == expected:
                guarantee = _guarantee(column, kind, [values], may_be_null=True)
                guarantees[path] = [reduce(and_, [guarantee, *guarantees.get(path, [])])]
    if not guarantees:
        return list(paths)
    kept = set(paths_that_may_pass(table.own.storage, row_filter, context.schema, guarantees))
    return [path for path in paths if path not in guarantees or path in kept]


def _partition_stats(table: MetadataTable, column: str, of_paths: Mapping[str, str]) -> pa.Table:
    return stats_of_files(table, column, [f"{column_id(column)}{one}" for one in of_paths.values()], PARTITION_STATS)


def _counts(stats: pa.Table) -> dict[str, int | None]:
    """The number of values by key."""
    return dict(zip(map(str, stats.column(KEY).to_pylist()), stats.column("value_count").to_pylist(), strict=True))


def _guarantees(
    table: MetadataTable, splits: Sequence[RealtimeFileSplit], column: str, context: ReadContext, most: int
) -> Mapping[int, list[pc.Expression]]:
    """Expressions, ``most`` of them, of which one is true for each row of a split, by the number of the split.

    There is none for a split of which that is not known.
    """
    kind = context.schema.field(column).type
    has_default = column in dict(context.field_defaults)
    guarantees = {}
    for number, ranges in _known_ranges(table, COLUMN_STATS, splits, column, kind):
        with_logs = bool(splits[number].log_paths)
        # The blocks of a log file may have schemas without the column: its value is the default, then, or null.
        if not (with_logs and has_default):
            parts = _apart(ranges, most)
            guarantees[number] = [_guarantee(column, kind, part, may_be_null=with_logs) for part in parts]
    return guarantees


def _apart(ranges: Sequence[_Range], most: int) -> list[list[_Range]]:
    """The ranges in ``most`` groups that have no value in common; the first ones are the lowest."""
    groups: list[list[_Range]] = []
    greatest: Any = None
    for one in sorted((one for one in ranges if one.low is not None), key=attrgetter("low")):
        if not groups or (one.low > greatest and len(groups) < most):
            groups.append([])
            greatest = one.high
        groups[-1].append(one)
        greatest = max(greatest, one.high)
    return groups or [list(ranges)]


def _known_ranges(
    table: MetadataTable, partition: str, splits: Sequence[RealtimeFileSplit], column: str, kind: pa.DataType
) -> Iterator[tuple[int, list[_Range]]]:
    """The numbers of the splits of which the ranges of all files are known, with these ranges."""
    numbers, keys = _keys_of_files(splits, column, kind)
    if not numbers:
        return
    for number, found in _grouped(numbers, _ranges_of_files(table, partition, column, keys, kind)):
        known = [one for one in found if one is not None]
        if len(known) == len(found):
            yield number, known


def _ranges_of_files(
    table: MetadataTable, partition: str, column: str, keys: Sequence[str], kind: pa.DataType
) -> "Sequence[_Range | None]":
    """The ranges of the files with some keys, None where they are not known; kept for the next question."""
    question = partition, kind, tuple(keys)
    kept: Sequence[_Range | None] | None = table.kept.get(question)
    if kept is None:
        stats = stats_of_files(table, column, keys, partition)
        ranges = _ranges(stats, kind, partition)
        places = pc.index_in(pa.array(keys, pa.string()), stats.column(KEY).combine_chunks()).to_pylist()
        kept = [None if place is None else ranges[place] for place in places]
        table.kept.put(question, kept, _BYTES_OF_RANGE * len(keys))
    return kept


def _keys_of_files(splits: Sequence[RealtimeFileSplit], column: str, kind: pa.DataType) -> tuple[list[int], list[str]]:
    """The keys of the stats of all files, and for each the number of its split; of splits whose stats can be used."""
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


def _grouped(
    numbers: Sequence[int], ranges: "Sequence[_Range | None]"
) -> "Iterator[tuple[int, Sequence[_Range | None]]]":
    """The ranges of each split's files."""
    starts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for start, end in pairwise(starts):
        yield numbers[start], ranges[start:end]


def _wrappers(kind: pa.DataType) -> tuple[str, ...]:
    """The types of values that compare like those of a column of this type; none if there are no such."""
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
    """The ranges of values of files or partitions, None where they are not known, by stats of a metadata partition."""
    lows, highs = _ends(stats.column("min_value"), kind, min), _ends(stats.column("max_value"), kind, max)
    counts = zip(stats.column("value_count").to_pylist(), stats.column("null_count").to_pylist(), strict=True)
    found: list[_Range | None] = []
    for low, high, (values, nulls), is_empty, is_whole in zip(
        lows, highs, counts, *_sure_nulls(stats, kind, partition), strict=True
    ):
        if low is None or high is None:
            # Column stats count nulls among the values, expression indexes do not.
            has_none = values is not None and (values == 0 or (values == nulls and is_empty))
            found.append(_Range(None, None, bool(values or nulls)) if has_none else None)
        elif (nulls != 0 and not is_whole) or (
            isinstance(low, str) and max(low + high, default="") >= _FIRST_THAT_DIFFERS
        ):
            found.append(None)
        elif pa.types.is_date32(kind) or pa.types.is_timestamp(kind):
            # They are of the values as stored, and do not tell of which calendar these are.
            found.append(_Range(*widened(low, high, kind), nulls != 0))
        else:
            found.append(_Range(low, high, nulls != 0))
    return found


def _sure_nulls(stats: pa.Table, kind: pa.DataType, partition: str) -> Sequence[Sequence[bool]]:
    """Whether what stats count as nulls are nulls: of each row without a range, and of each with one."""
    if partition.startswith(EXPRESSION_INDEX):
        # Results are counted by Spark, as ``SparkMetadataWriterUtils`` computes them.
        return [[True] * len(stats)] * 2
    return [mask.tolist() for mask in counted_nulls(stats, kind, of_files=partition == COLUMN_STATS)]


def _ends(values: "pa.ChunkedArray[Any]", kind: pa.DataType, choose: Callable[[Iterable[Any]], Any]) -> list[Any]:
    """The least or greatest value of each file, None where there is none, or one of another type."""
    wanted = _wrappers(kind)
    of_types = {name: pc.struct_field(values, name) for name in VALUE_TYPES}
    of_wanted = zip(*(of_types[name].to_pylist() for name in wanted), strict=True)
    found = [choose(known) if (known := [one for one in row if one is not None]) else None for row in of_wanted]
    others = reduce(pc.or_, [column.is_valid() for name, column in of_types.items() if name not in wanted])
    return [None if is_other else one for one, is_other in zip(found, others.to_pylist(), strict=True)]


def _guarantee(column: str, kind: pa.DataType, ranges: Sequence[_Range], *, may_be_null: bool) -> pc.Expression:
    """An expression that is true for values in one of the ranges."""
    lows = [one.low for one in ranges if one.low is not None]
    if not lows:
        return pc.field(column).is_null()
    least = _value(min(lows), kind)
    greatest = _value(max(one.high for one in ranges if one.high is not None), kind)
    return range_guarantee(column, least, greatest, may_be_null=may_be_null or any(one.has_nulls for one in ranges))


def _value(stored: Any, kind: pa.DataType) -> "pa.Scalar[Any]":  # noqa: ANN401 - a number or a text
    if pa.types.is_string(kind) or pa.types.is_integer(kind):
        return pa.scalar(stored, kind)
    is_date = pa.types.is_date32(kind)
    value: pa.Scalar[Any] = pa.scalar(stored, pa.int32() if is_date else pa.int64()).cast(kind)
    return value


_LOG = logging.getLogger(__name__)
_SPLITS_AT_ONCE = 4_096
COLUMN_STATS_STEP = "column stats"


class ColumnStatsOfTable:
    """The column stats of a table; stats that cannot be used are reported once, and pass over no slice.

    They describe files, which do not change, so they serve queries of earlier states too.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The column stats of a state, whose metadata table is opened when it is first needed."""
        self._metadata = metadata
        self._why_not = why_not_there(state, COLUMN_STATS)

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of which rows may pass a filter that refers to some columns of a query."""
        known = skippable_columns(columns, context)
        waiting = iter(splits)
        while part := list(islice(waiting, _SPLITS_AT_ONCE)):
            chosen = self._chosen(part, row_filter, known)
            if notes is not None and known and self._why_not is None:
                notes.counted(COLUMN_STATS_STEP, len(part), len(chosen))
            yield from chosen
        if notes is not None and self._why_not is not None:
            notes.not_used(COLUMN_STATS_STEP, self._why_not)
        elif notes is not None and not known:
            notes.not_used(COLUMN_STATS_STEP, f"they do not tell of {', '.join(columns) or 'no column'}")

    def _chosen(
        self, splits: list[RealtimeFileSplit], row_filter: pc.Expression, columns: Sequence[str]
    ) -> list[RealtimeFileSplit]:
        if not columns or self._why_not is not None:
            return splits
        try:
            return splits_that_may_pass(self._table, splits, row_filter, columns)
        except HudiReadError as error:
            self._why_not = str(error)
            _LOG.warning("the column stats are not used: %s", error)
            return splits

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(COLUMN_STATS)
        return table


_FEW_PARTITIONS = 8
"""So many partitions are listed sooner than the metadata table is read for them."""
PARTITION_STATS_STEP = "partition stats"


class PartitionStatsOfTable:
    """The partition stats of a table in its newest state; stats that cannot be used are reported once.

    ``why_not`` says why, None as long as they can be used.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The partition stats of a state, whose metadata table is opened when it is first needed."""
        self.why_not: str | None = None
        self._metadata = metadata
        self._is_usable = PARTITION_STATS in state.config.metadata_partitions and state.options.uses_metadata_table

    def partitions_that_may_pass(
        self, paths: Sequence[str], row_filter: pc.Expression, context: ReadContext, notes: PlanNotes | None = None
    ) -> Sequence[str]:
        """The partitions in which base files may have rows that pass a filter."""
        if len(paths) <= _FEW_PARTITIONS:
            return paths
        if not self._is_usable or not context.skips_slices:
            return paths
        try:
            wanted = skippable_columns(referenced_columns(row_filter, context.schema), context)
            columns = [name for name in wanted if name in self._indexed_columns] if wanted else []
            if not columns:
                return paths
            chosen = partitions_that_may_pass(self._table, paths, row_filter, columns, context)
        except HudiReadError as error:
            self._is_usable = False
            self.why_not = str(error)
            _LOG.warning("the partition stats are not used: %s", error)
            if notes is not None:
                notes.not_used(PARTITION_STATS_STEP, self.why_not, PARTITIONS)
            return paths
        if notes is not None:
            notes.counted(PARTITION_STATS_STEP, len(paths), len(chosen), PARTITIONS)
        return chosen

    @cached_property
    def _indexed_columns(self) -> tuple[str, ...]:
        """The columns that writers keep stats of; of others, there may be old ones."""
        definition = self._table.definitions.get(COLUMN_STATS)
        return () if definition is None else definition.source_fields

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(PARTITION_STATS)
        return table
