"""Minima and maxima of columns, which show that no row of a file slice or row group can pass a filter.

Ranges come from what a read has in memory anyway: footers of base files and decoded log records. They are cached with
the storage. A range counts only if the file stores the column as the query returns it, or as a narrower whole number.

NaN is left out of ranges: a comparison with a constant is false for it in Arrow. Parts of a filter that cannot be
checked against ranges are taken to be true.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.merge.arrays import Booleans, Column
from hudi_bridge.merge.record_map import LogRecords
from hudi_bridge.readers.base_formats.footers import BaseFooter, cached_footer
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.readers.filters import (
    MATCH_ALL,
    MATCH_ANY,
    Call,
    Field,
    Joined,
    Literal,
    Node,
    joined_by_and,
    joined_by_or,
    listed_values,
    never_passes,
    parsed_filter,
)
from hudi_bridge.readers.split_columns import plan_file_evolution
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN, META_COLUMNS
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

Range: TypeAlias = tuple[Any, Any] | None
"""The minimum and maximum, or None if there are no values besides NaN.

Values are texts, floats, or whole numbers; dates and times are the whole numbers that Arrow stores.
"""
Ranges: TypeAlias = tuple[Range, ...]
"""At least one range, such as that of the base file and that of the logs; each value of the column
is in one of them.
"""
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_MOST_LISTED = 16
"""Longer lists are compared by their minimum and maximum only."""
_MOST_COMBINATIONS = 16
_NUMBER = "number"
_ENTRY_BYTES = 512
"""The assumed size of a cache entry without its paths."""


def has_ranges(kind: pa.DataType) -> bool:
    """Whether minima and maxima of this type are read and compared."""
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return is_number or pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)


def may_pass(
    row_filter: pc.Expression, ranges: Mapping[str, tuple[pa.DataType, Sequence["Range | bool"]]], sets: int
) -> Booleans:
    """For each set of rows, whether one of its rows may pass the filter.

    Args:
        row_filter: the filter.
        ranges: for each column the type, which must satisfy ``has_ranges``, and its range in each set of rows; False
            for an unknown range.
        sets: the number of sets, which is the length of the result.
    """
    indexes = {name: number for number, name in enumerate(ranges)}
    condition = _condition(parsed_filter(row_filter), {name: ranges[name][0] for name in ranges}, indexes)
    passes = np.ones(sets, np.bool_)
    if condition is None:
        return passes
    columns: dict[str, Any] = {_NUMBER: np.arange(sets)}
    for name, (kind, set_ranges) in ranges.items():
        present = [value_range for value_range in set_ranges if value_range is not False]
        is_known = np.array([value_range is not False for value_range in set_ranges], np.bool_)
        row = np.cumsum(is_known) - 1
        rows = pa.array(row, mask=~is_known)
        columns[_unknown_name(indexes[name])] = ~is_known
        for end in (0, 1):
            values = _stored([None if value_range is None else value_range[end] for value_range in present], kind)  # type: ignore[index]
            columns[_end_name(indexes[name], end)] = values.take(rows)
    try:
        passing = pa.table(columns).filter(condition.condition).column(_NUMBER).to_numpy()
    except pa.ArrowException:
        # The filter's own error is for whoever applies it.
        return passes
    passes[:] = False
    passes[passing] = True
    return passes


def may_pass_in_any(
    row_filter: pc.Expression, ranges: Mapping[str, tuple[pa.DataType, Sequence["Ranges | bool"]]], sets: int
) -> Booleans:
    """As ``may_pass``, where a column may have several ranges in a set.

    Every combination of the columns' ranges is checked, because a partial update takes some values of a row from a log
    and others from the base file.
    """
    owners: list[int] = []
    rows: list[tuple[Range | bool, ...]] = []
    choices: list[tuple[Range | bool, ...]]
    per_column = [per_set for _, per_set in ranges.values()]
    for number in range(sets):
        choices = [
            (column_ranges,) if isinstance(column_ranges := per_set[number], bool) else column_ranges
            for per_set in per_column
        ]
        if prod(map(len, choices)) > _MOST_COMBINATIONS:
            choices = [
                (column_ranges if isinstance(column_ranges, bool) else hull(column_ranges),)
                for column_ranges in (ranges_of_column[number] for ranges_of_column in per_column)
            ]
        combinations = list(product(*choices))
        rows += combinations
        owners += [number] * len(combinations)
    ranges_of_rows = {
        name: (ranges[name][0], row_ranges) for name, row_ranges in zip(ranges, zip(*rows, strict=True), strict=True)
    }
    passes = np.zeros(sets, np.bool_)
    passes[np.array(owners)[may_pass(row_filter, ranges_of_rows, len(rows))]] = True
    return passes


def hull(ranges: Iterable[Range]) -> Range:
    """The smallest range that includes all ranges; None if all are empty."""
    nonempty = [value_range for value_range in ranges if value_range is not None]
    return (min(low for low, _ in nonempty), max(high for _, high in nonempty)) if nonempty else None


def _stored(values: list[Any], kind: pa.DataType) -> Column:
    """An array of the type ``kind`` from values as Arrow stores them."""
    if pa.types.is_date32(kind):
        dates: Column = pa.array(values, pa.int32()).view(kind)
        return dates
    if pa.types.is_timestamp(kind):
        times: Column = pa.array(values, pa.int64()).view(kind)
        return times
    return pa.array(values, kind)


def _unknown_name(index: int) -> str:
    return f"unknown {index}"


def _end_name(index: int, end: int) -> str:
    return f"{'high' if end else 'low'} {index}"


def _condition(node: Node, kinds: Mapping[str, pa.DataType], indexes: Mapping[str, int]) -> Joined | None:
    """A condition on minima and maxima that is true if a row may pass, and false or null if none can.

    None stands for a condition that is always true.
    """
    if isinstance(node, Literal):
        return joined_by_or([]) if never_passes(node) else None
    if not isinstance(node, Call):
        return None
    if node.name in MATCH_ALL or (node.name == "if_else" and never_passes(node.arguments[-1])):
        parts = node.arguments if node.name in MATCH_ALL else node.arguments[:-1]
        return joined_by_and(_condition(argument, kinds, indexes) for argument in parts)
    if node.name in MATCH_ANY:
        return joined_by_or(_condition(argument, kinds, indexes) for argument in node.arguments)
    return _compared(node, kinds, indexes)


def _compared(node: Call, kinds: Mapping[str, pa.DataType], indexes: Mapping[str, int]) -> Joined | None:
    """The condition for a comparison of a column with constants; None for other calls."""
    name, arguments = node.name, node.arguments
    if len(arguments) == 2 and isinstance(arguments[0], Literal):  # noqa: PLR2004 - of a comparison
        name, arguments = _MIRRORED.get(name, name), arguments[::-1]
    column = arguments[0] if arguments else None
    if not isinstance(column, Field) or column.name not in kinds:
        return None
    index = indexes[column.name]
    low: Any = pc.field(_end_name(index, 0))
    high: Any = pc.field(_end_name(index, 1))
    unknown = Joined(pc.field(_unknown_name(index)))
    if name == "is_in":
        inside = _any_within(low, high, node, kinds[column.name])
        return None if inside is None else joined_by_or([unknown, inside])
    if len(arguments) != 2 or not isinstance(arguments[1], Literal):  # noqa: PLR2004 - of a comparison
        return None
    value: Any = arguments[1].value
    match name:
        case "equal":
            passes = (low <= value) & (high >= value)
        case "less":
            passes = low < value
        case "less_equal":
            passes = low <= value
        case "greater":
            passes = high > value
        case "greater_equal":
            passes = high >= value
        case _:
            return None
    return joined_by_or([unknown, Joined(passes)])


def _any_within(low: Any, high: Any, node: Call, kind: pa.DataType) -> Joined | None:  # noqa: ANN401 - fields
    """A condition that is true if a listed value may be in the range; None if the list cannot be checked."""
    values = None if len(node.arguments) != 1 or node.options is None else listed_values(node.options)
    if values is None or not _is_comparable(values.type, kind):
        return None
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        # In a list, NaN is equal to NaN.
        return None
    if len(values) <= _MOST_LISTED:
        return joined_by_or(Joined((low <= value) & (high >= value)) for value in values)
    ends: Any = pc.min_max(values)
    return Joined((low <= ends["max"]) & (high >= ends["min"]))


def _is_comparable(list_type: pa.DataType, column_type: pa.DataType) -> bool:
    """Whether listed values of one type can be compared with ranges of the other as they are."""
    if list_type == column_type or (pa.types.is_signed_integer(list_type) and pa.types.is_signed_integer(column_type)):
        return True
    return pa.types.is_large_string(list_type) and pa.types.is_string(column_type)


class _LogRange(NamedTuple):
    """The range of a column in the log blocks that counted when it was read.

    ``instants`` has the instants of all blocks in the logs, ``counted`` the instants of blocks that counted.
    """

    values: Range
    instants: frozenset[str]
    counted: frozenset[str]


def columns_with_ranges(columns: Iterable[str], context: ReadContext) -> tuple[str, ...]:
    """Columns whose values all come from files of the table, unchanged, and whose type has ranges."""
    rule = context.merge_rule
    if context.schema_ids is not None or (rule is not None and rule.payload is not None):
        return ()
    others = {*META_COLUMNS, COMPLETION_TIME_COLUMN, *context.path_columns}
    return tuple(name for name in columns if name not in others and has_ranges(context.schema.field(name).type))


def ranges_of_row_groups(
    footer: pq.FileMetaData, file_schema: pa.Schema, split: RealtimeFileSplit, column: str
) -> "Sequence[Range | bool]":
    """The range of a column in each row group of a base file; False if it is unknown.

    Raises:
        SchemaEvolutionError: the stored type cannot be converted to the type of the query.
    """
    context = split.context
    unknown, path = [False] * footer.num_row_groups, split.base_path or ""
    query_schema = pa.schema([context.schema.field(column)])
    plan = plan_file_evolution(
        file_schema, query_schema, split.base_instant_time, context, path, stored_as=StoredAs.PARQUET
    )
    (planned,) = plan.columns
    is_same = planned.step is None or (
        planned.source_type is not None
        and pa.types.is_signed_integer(planned.source_type)
        and pa.types.is_signed_integer(planned.field.type)
    )
    if planned.source != column or not is_same or not footer.num_row_groups:
        return unknown
    legacy_dates = LegacyDates.of(footer, file_schema, path)
    if legacy_dates is not None and column in legacy_dates.columns:
        return unknown
    group = footer.row_group(0)
    positions = (position for position in range(group.num_columns) if group.column(position).path_in_schema == column)
    position = next(positions, None)
    if position is None:
        return unknown
    groups = map(footer.row_group, range(footer.num_row_groups))
    return [_chunk_range(group.column(position), planned.field.type) for group in groups]


def _chunk_range(chunk: Any, kind: pa.DataType) -> "Range | bool":  # noqa: ANN401 - the stubs lack fields
    statistics = chunk.statistics
    if statistics is None or chunk.path_in_schema.count("."):
        return False
    if not statistics.has_min_max:
        has_none = statistics.has_null_count and statistics.null_count == chunk.num_values
        return None if has_none else False
    try:
        low, high = (
            (statistics.min, statistics.max) if pa.types.is_string(kind) else (statistics.min_raw, statistics.max_raw)
        )
    except UnicodeDecodeError:
        # Writers may truncate texts within a character.
        return False
    # Some writers store NaN as a minimum or maximum; then the comparison is false.
    return (low, high) if low <= high else False


def known_ranges(storage: Storage, split: RealtimeFileSplit, column: str) -> "Ranges | bool":
    """The ranges of a column of ``columns_with_ranges`` in the base file and in the logs of a slice; False if one is
    unknown.

    They stay apart because logs often have much newer times. A merged row has its value from either.
    """
    ranges: list[Range] = []
    if split.base_path is not None:
        in_base = _range_in_base_file(storage, split, column)
        if isinstance(in_base, bool):
            return False
        ranges.append(in_base)
    if split.log_paths:
        in_logs: _LogRange | None = storage.cache.get(_log_key(split, column))
        # The column may have been given a default since the range was cached.
        if in_logs is None or column in dict(split.context.field_defaults):
            return False
        if _counted(in_logs.instants, split.context) != in_logs.counted:
            return False
        ranges.append(in_logs.values)
    return tuple(ranges)


def _range_in_base_file(storage: Storage, split: RealtimeFileSplit, column: str) -> "Range | bool":
    key = ("range", split.base_path, split.base_size_bytes, column, split.context.schema.field(column).type)
    cached: tuple[Range | bool] | None = storage.cache.get(key)
    if cached is not None:
        return cached[0]
    footer = cached_footer(storage, split, split.base_path or "")
    if footer is None:
        return False
    base_range = _range_in_footer(footer, split, column)
    storage.cache.put(key, (base_range,), _ENTRY_BYTES)
    return base_range


def _range_in_footer(footer: BaseFooter, split: RealtimeFileSplit, column: str) -> "Range | bool":
    group_ranges = ranges_of_row_groups(footer.fragment.metadata, footer.arrow_schema, split, column)
    ranges = [group_range for group_range in group_ranges if not isinstance(group_range, bool)]
    return hull(ranges) if len(ranges) == len(group_ranges) else False


class RangesInLogs:
    """Collects the ranges of columns from the log records of a slice while they are decoded."""

    def __init__(self, split: RealtimeFileSplit, columns: Iterable[str]) -> None:
        """Collects the ranges of those ``columns``, which a filter reads, that have some."""
        self._split = split
        # Rows of a block without the column are filled with its default after the range is taken.
        defaults = dict(split.context.field_defaults)
        names = columns_with_ranges(columns, split.context) if split.context.skips_slices else ()
        self._ranges: dict[str, list[Range]] = {name: [] for name in names if name not in defaults}

    def add(self, records: LogRecords) -> None:
        """Adds the records of one block."""
        if records.rows is not None:
            for name, ranges in self._ranges.items():
                ranges.append(_array_range(records.rows.column(name)))

    def keep(self, storage: Storage, instants: frozenset[str]) -> None:
        """Caches the ranges with the storage once all blocks were added; ``instants`` are as in ``LiveBlocks``."""
        counted = _counted(instants, self._split.context)
        size = _ENTRY_BYTES + sum(map(len, self._split.log_paths))
        for name, ranges in self._ranges.items():
            storage.cache.put(_log_key(self._split, name), _LogRange(hull(ranges), instants, counted), size)


def _array_range(values: Any) -> Range:  # noqa: ANN401 - an array of any type
    if pa.types.is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    elif pa.types.is_date32(values.type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    return None if low is None else (low, high)


def _counted(instants: frozenset[str], context: ReadContext) -> frozenset[str]:
    return frozenset(filter(context.counts, instants))


def _log_key(split: RealtimeFileSplit, column: str) -> tuple[object, ...]:
    # Log files are only appended to, so that the size stands for the content.
    kind = split.context.schema.field(column).type
    return ("range in logs", split.log_paths, split.log_size_bytes, split.base_instant_time, column, kind)
