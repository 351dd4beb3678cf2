"""The ranges of columns in base files and in log files, from what is read of them anyway, kept with the storage.

Of a base file, that is its footer; of log files, the records that a reader decodes. Ranges are of the columns of a
query: those of columns that a file has otherwise are not known, except of whole numbers that have become wider.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.merge.log_records import LogRecords
from hudi_bridge.readers.filter_ranges import Range, Ranges, has_ranges, hull
from hudi_bridge.readers.footers import BaseFooter, kept_footer
from hudi_bridge.readers.legacy_dates import LegacyDates
from hudi_bridge.readers.split_columns import plan_file_evolution
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage

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
        in_logs: _RangeInLogs | None = storage.kept.get(_log_key(split, column))
        # The column may have got its default since.
        if in_logs is None or column in dict(split.context.field_defaults):
            return False
        if _counted(in_logs.instants, split.context) != in_logs.counted:
            return False
        found.append(in_logs.values)
    return tuple(found)


def _range_in_base_file(storage: Storage, split: RealtimeFileSplit, column: str) -> "Range | bool":
    key = ("range", split.base_path, split.base_size_bytes, column, split.context.schema.field(column).type)
    known: tuple[Range | bool] | None = storage.kept.get(key)
    if known is not None:
        return known[0]
    footer = kept_footer(storage, split, split.base_path or "")
    if footer is None:
        return False
    found = _range_in_footer(footer, split, column)
    storage.kept.put(key, (found,), _BYTES_OF_ANY)
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
            storage.kept.put(_log_key(self._split, name), _RangeInLogs(hull(ranges), instants, counted), size)


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
