"""The ranges of columns in base files and in log files, from what is read of them anyway, kept with the storage.

Of a base file, that is its footer; of log files, the records that a reader decodes. Ranges are of the columns of a
query: those of columns that a file has otherwise are not known, except of whole numbers that have become wider.

Tells from the ranges of columns in sets of rows, as row groups or file slices, which of them a row may pass in.

A range is of all values but NaN, which no comparison with a constant lets pass: a filter has Arrow's meaning, in which
each such comparison is false. A form of filter that is not known to need a value in some range lets every set pass.
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
from hudi_bridge.readers.base_formats.footers import BaseFooter, kept_footer
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
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

Range: TypeAlias = tuple[Any, Any] | None
"""The least and the greatest value, None if there are no values other than NaN.

Values are texts, floats, or whole numbers; dates and times are those that Arrow stores.
"""

Ranges: TypeAlias = tuple[Range, ...]
"""Ranges of which each value is in one, as of the files that it may come from; they are one at least."""

_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
_MOST_LISTED = 16
"""Of more values in a list, the least and the greatest are compared alone."""
_MOST_COMBINATIONS = 16
_NUMBER = "number"


def has_ranges(kind: pa.DataType) -> bool:
    """Whether ranges of values of this type can be told from one another."""
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind)
    return is_number or pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_timestamp(kind)


def may_pass(
    row_filter: pc.Expression, ranges: Mapping[str, tuple[pa.DataType, Sequence["Range | bool"]]], sets: int
) -> Booleans:
    """In which of a number of sets of rows a row may pass the filter.

    ``ranges`` have for columns, by name, their type, which ``has_ranges``, and for each set of rows the range of the
    column, or False if it is not known.
    """
    places = {name: number for number, name in enumerate(ranges)}
    condition = _condition(parsed_filter(row_filter), {name: ranges[name][0] for name in ranges}, places)
    passes = np.ones(sets, np.bool_)
    if condition is None:
        return passes
    columns: dict[str, Any] = {_NUMBER: np.arange(sets)}
    for name, (kind, of_sets) in ranges.items():
        known = [one for one in of_sets if one is not False]
        is_known = np.array([one is not False for one in of_sets], np.bool_)
        where = np.cumsum(is_known) - 1
        taken = pa.array(where, mask=~is_known)
        columns[_unknown(places[name])] = ~is_known
        for end in (0, 1):
            values = _stored([None if one is None else one[end] for one in known], kind)  # type: ignore[index]
            columns[_end(places[name], end)] = values.take(taken)
    try:
        found = pa.table(columns).filter(condition.condition).column(_NUMBER).to_numpy()
    except pa.ArrowException:
        # The filter's own error is for whoever applies it.
        return passes
    passes[:] = False
    passes[found] = True
    return passes


def may_pass_in_any(
    row_filter: pc.Expression, ranges: Mapping[str, tuple[pa.DataType, Sequence["Ranges | bool"]]], sets: int
) -> Booleans:
    """As ``may_pass``, of columns with several ranges each.

    A row has a value in one range of each column, whichever it is: partial updates take some values of a row from a
    log and leave others.
    """
    owners: list[int] = []
    rows: list[tuple[Range | bool, ...]] = []
    choices: list[tuple[Range | bool, ...]]
    of_columns = [of_sets for _, of_sets in ranges.values()]
    for number in range(sets):
        choices = [(one,) if isinstance(one := of_sets[number], bool) else one for of_sets in of_columns]
        if prod(map(len, choices)) > _MOST_COMBINATIONS:
            choices = [(one if isinstance(one, bool) else hull(one),) for one in (of[number] for of in of_columns)]
        combinations = list(product(*choices))
        rows += combinations
        owners += [number] * len(combinations)
    of_rows = {name: (ranges[name][0], of_row) for name, of_row in zip(ranges, zip(*rows, strict=True), strict=True)}
    passes = np.zeros(sets, np.bool_)
    passes[np.array(owners)[may_pass(row_filter, of_rows, len(rows))]] = True
    return passes


def hull(ranges: Iterable[Range]) -> Range:
    """The range from the least to the greatest value of all ranges."""
    known = [one for one in ranges if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if known else None


def _stored(values: list[Any], kind: pa.DataType) -> Column:
    """Values as an array of a type, given as Arrow stores them."""
    if pa.types.is_date32(kind):
        dates: Column = pa.array(values, pa.int32()).view(kind)
        return dates
    if pa.types.is_timestamp(kind):
        times: Column = pa.array(values, pa.int64()).view(kind)
        return times
    return pa.array(values, kind)


def _unknown(place: int) -> str:
    return f"unknown {place}"


def _end(place: int, end: int) -> str:
    return f"{'high' if end else 'low'} {place}"


def _condition(node: Node, kinds: Mapping[str, pa.DataType], places: Mapping[str, int]) -> Joined | None:
    """A condition on the ends of ranges that is true if a row may pass; null counts as false. None is always true."""
    if isinstance(node, Literal):
        return joined_by_or([]) if never_passes(node) else None
    if not isinstance(node, Call):
        return None
    if node.name in MATCH_ALL or (node.name == "if_else" and never_passes(node.arguments[-1])):
        parts = node.arguments if node.name in MATCH_ALL else node.arguments[:-1]
        return joined_by_and(_condition(one, kinds, places) for one in parts)
    if node.name in MATCH_ANY:
        return joined_by_or(_condition(one, kinds, places) for one in node.arguments)
    return _compared(node, kinds, places)


def _compared(node: Call, kinds: Mapping[str, pa.DataType], places: Mapping[str, int]) -> Joined | None:
    """The condition of a comparison of a column with constants; None if it is another call."""
    name, arguments = node.name, node.arguments
    if len(arguments) == 2 and isinstance(arguments[0], Literal):  # noqa: PLR2004 - of a comparison
        name, arguments = _MIRRORED.get(name, name), arguments[::-1]
    column = arguments[0] if arguments else None
    if not isinstance(column, Field) or column.name not in kinds:
        return None
    place = places[column.name]
    low: Any = pc.field(_end(place, 0))
    high: Any = pc.field(_end(place, 1))
    unknown = Joined(pc.field(_unknown(place)))
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
    """A condition that is true if one of the listed values may be in the range; None if that is not known."""
    values = None if len(node.arguments) != 1 or node.options is None else listed_values(node.options)
    if values is None or not _compare_alike(values.type, kind):
        return None
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        # In a list, NaN is equal to NaN.
        return None
    if len(values) <= _MOST_LISTED:
        return joined_by_or(Joined((low <= value) & (high >= value)) for value in values)
    ends: Any = pc.min_max(values)
    return Joined((low <= ends["max"]) & (high >= ends["min"]))


def _compare_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether a list of values of one type means the same values of the other."""
    if one == other or (pa.types.is_signed_integer(one) and pa.types.is_signed_integer(other)):
        return True
    return pa.types.is_large_string(one) and pa.types.is_string(other)


_BYTES_OF_ANY = 512


class _RangeInLogs(NamedTuple):
    """A range, and of which instants the blocks counted when it was read, of all that the logs have blocks of."""

    values: Range
    instants: frozenset[str]
    counted: frozenset[str]


def columns_with_ranges(columns: Iterable[str], context: ReadContext) -> tuple[str, ...]:
    """The columns of a query whose values all come from the files, among some columns, and that have ranges."""
    rule = context.merge_rule
    if context.schema_ids is not None or (rule is not None and rule.payload is not None):
        return ()
    others = {*META_COLUMNS, *context.path_columns}
    return tuple(name for name in columns if name not in others and has_ranges(context.schema.field(name).type))


def ranges_of_row_groups(
    footer: pq.FileMetaData, file_schema: pa.Schema, split: RealtimeFileSplit, column: str
) -> "Sequence[Range | bool]":
    """The range of a column in each row group of a base file, False where it is not known.

    Raises:
        SchemaEvolutionError: the column has a type that cannot become that of the query.
    """
    context = split.context
    unknown, path = [False] * footer.num_row_groups, split.base_path or ""
    wanted = pa.schema([context.schema.field(column)])
    plan = plan_file_evolution(file_schema, wanted, split.base_instant_time, context, path, stored_as=StoredAs.PARQUET)
    (found,) = plan.columns
    is_same = found.step is None or (
        found.source_type is not None
        and pa.types.is_signed_integer(found.source_type)
        and pa.types.is_signed_integer(found.field.type)
    )
    if found.source != column or not is_same or not footer.num_row_groups:
        return unknown
    legacy_dates = LegacyDates.of(footer, file_schema, path)
    if legacy_dates is not None and column in legacy_dates.columns:
        return unknown
    group = footer.row_group(0)
    places = (place for place in range(group.num_columns) if group.column(place).path_in_schema == column)
    place = next(places, None)
    if place is None:
        return unknown
    groups = map(footer.row_group, range(footer.num_row_groups))
    return [_range_of_chunk(group.column(place), found.field.type) for group in groups]


def _range_of_chunk(chunk: Any, kind: pa.DataType) -> "Range | bool":  # noqa: ANN401 - the stubs lack fields
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
        # Writers may cut texts off.
        return False
    # Not so if one of them is NaN, as some writers have it.
    return (low, high) if low <= high else False


def known_ranges(storage: Storage, split: RealtimeFileSplit, column: str) -> "Ranges | bool":
    """The ranges of one of ``columns_with_ranges`` in the base file and in the logs of a slice; False if not known.

    A merged row has each of its values from one of them. The ranges may be far apart: logs have newer times.
    """
    found: list[Range] = []
    if split.base_path is not None:
        in_base = _range_in_base_file(storage, split, column)
        if isinstance(in_base, bool):
            return False
        found.append(in_base)
    if split.log_paths:
        in_logs: _RangeInLogs | None = storage.cache.get(_log_key(split, column))
        # The column may have got its default since.
        if in_logs is None or column in dict(split.context.field_defaults):
            return False
        if _counted(in_logs.instants, split.context) != in_logs.counted:
            return False
        found.append(in_logs.values)
    return tuple(found)


def _range_in_base_file(storage: Storage, split: RealtimeFileSplit, column: str) -> "Range | bool":
    key = ("range", split.base_path, split.base_size_bytes, column, split.context.schema.field(column).type)
    known: tuple[Range | bool] | None = storage.cache.get(key)
    if known is not None:
        return known[0]
    footer = kept_footer(storage, split, split.base_path or "")
    if footer is None:
        return False
    found = _range_in_footer(footer, split, column)
    storage.cache.put(key, (found,), _BYTES_OF_ANY)
    return found


def _range_in_footer(footer: BaseFooter, split: RealtimeFileSplit, column: str) -> "Range | bool":
    of_groups = ranges_of_row_groups(footer.fragment.metadata, footer.arrow_schema, split, column)
    known = [one for one in of_groups if not isinstance(one, bool)]
    return hull(known) if len(known) == len(of_groups) else False


class RangesInLogs:
    """Learns the ranges of columns in the log records of a slice while they are decoded."""

    def __init__(self, split: RealtimeFileSplit, columns: Iterable[str]) -> None:
        """Ranges of columns, which are those of a filter."""
        self._split = split
        # A block without the column has its default instead.
        defaults = dict(split.context.field_defaults)
        names = columns_with_ranges(columns, split.context) if split.context.skips_slices else ()
        self._ranges: dict[str, list[Range]] = {name: [] for name in names if name not in defaults}

    def add(self, records: LogRecords) -> None:
        """Learn from the records of a block."""
        if records.rows is not None:
            for name, ranges in self._ranges.items():
                ranges.append(_range_of(records.rows.column(name)))

    def keep(self, storage: Storage, instants: frozenset[str]) -> None:
        """Let the storage keep what was learnt of all blocks; ``instants`` are as in ``LiveBlocks``."""
        counted = _counted(instants, self._split.context)
        size = _BYTES_OF_ANY + sum(map(len, self._split.log_paths))
        for name, ranges in self._ranges.items():
            storage.cache.put(_log_key(self._split, name), _RangeInLogs(hull(ranges), instants, counted), size)


def _range_of(values: Any) -> Range:  # noqa: ANN401 - an array of any type
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
    # Files only grow.
    kind = split.context.schema.field(column).type
    return ("range in logs", split.log_paths, split.log_size_bytes, split.base_instant_time, column, kind)
