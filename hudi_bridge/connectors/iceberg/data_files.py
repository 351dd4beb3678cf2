"""A Parquet footer -> the manifest entry of the file: row and null counts, bounds, and partition.

Floating-point columns of base files have no bounds: statistics leave NaN out, and a client could skip a file that has
one. In files that are written here, NaN is looked for.

Source: the Iceberg specification, "Manifests" and "Binary single-value serialization".
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.conversions import to_bytes
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from hudi_bridge.connectors.iceberg.deletion_vectors import VectorPlace
from hudi_bridge.connectors.iceberg.name_mapping import Ids
from hudi_bridge.engines import ColumnStatistics, column_statistics

_WITH_BOUNDS = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
_BOUND_LENGTH = 64
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_NO_BYTES = (ValueError, OverflowError, TypeError, NotImplementedError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file of an Iceberg table, as a manifest lists it.

    ``location`` is the URI that clients use. ``partition`` holds the values of all partition columns, in Iceberg's
    form; it is None unless all rows are known to have them. Counts, sizes in bytes and bounds are by field id;
    ``nan_counts`` are known of files that are written here. In version 3, ``written_at`` is the instant, as a number,
    of the newest write that the file shows, and ``vector`` tells where in the file the deletion vector lies, if any.
    """

    location: str
    rows: int
    size_bytes: int
    partition: tuple[Any, ...] | None
    value_counts: Mapping[int, int]
    null_counts: Mapping[int, int]
    lower_bounds: Mapping[int, bytes]
    upper_bounds: Mapping[int, bytes]
    split_offsets: tuple[int, ...]
    written_at: int | None = None
    vector: VectorPlace | None = None
    column_sizes: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)


def without_bounds(file: DataFile, ids: Collection[int]) -> DataFile:
    """The data file without bounds of the columns with these ids."""
    lower = {id_: bound for id_, bound in file.lower_bounds.items() if id_ not in ids}
    upper = {id_: bound for id_, bound in file.upper_bounds.items() if id_ not in ids}
    return replace(file, lower_bounds=lower, upper_bounds=upper)


def data_file(
    location: str,
    size_bytes: int,
    footer: pq.FileMetaData,
    schema: Schema,
    ids: Ids,
    partition: tuple[Any, ...] | None,
) -> DataFile:
    """The data file of a footer; ``ids`` are the field ids of the file's columns by dotted path."""
    known = {ids[path]: statistics for path, statistics in column_statistics(footer, ids).items()}
    bounds = {id_: _bounds(schema.find_type(id_), statistics) for id_, statistics in known.items()}
    return DataFile(
        location=location,
        rows=footer.num_rows,
        size_bytes=size_bytes,
        partition=partition,
        value_counts={id_: statistics.values for id_, statistics in known.items()},
        null_counts={id_: statistics.nulls for id_, statistics in known.items() if statistics.nulls is not None},
        lower_bounds={id_: lower for id_, (lower, _) in bounds.items() if lower is not None},
        upper_bounds={id_: upper for id_, (_, upper) in bounds.items() if upper is not None},
        split_offsets=tuple(_offsets(footer)),
        column_sizes={id_: statistics.stored_bytes for id_, statistics in known.items()},
    )


def _bounds(kind: IcebergType, statistics: ColumnStatistics) -> tuple[bytes | None, bytes | None]:
    if not isinstance(kind, _WITH_BOUNDS) or statistics.least is None or statistics.greatest is None:
        return None, None
    lower, upper = statistics.least, statistics.greatest
    if isinstance(kind, LongType) and not isinstance(lower, int):
        return None, None
    if isinstance(kind, StringType):
        if not isinstance(lower, str) or not isinstance(upper, str):
            return None, None
        lower, upper = lower[:_BOUND_LENGTH], _upper_text(upper)
    if isinstance(kind, BinaryType):
        if not isinstance(lower, bytes) or not isinstance(upper, bytes):
            return None, None
        lower, upper = lower[:_BOUND_LENGTH], _upper_bytes(upper)
    try:
        return to_bytes(kind, lower), None if upper is None else to_bytes(kind, upper)
    except _NO_BYTES:
        return None, None


def _upper_text(text: str) -> str | None:
    """A text of at most ``_BOUND_LENGTH`` characters that is not less than the given one; None if there is none."""
    if len(text) <= _BOUND_LENGTH:
        return text
    start = text[:_BOUND_LENGTH]
    while start:
        following = ord(start[-1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return start[:-1] + chr(following)
        start = start[:-1]
    return None


def _upper_bytes(content: bytes) -> bytes | None:
    """Bytes of at most ``_BOUND_LENGTH`` that are not less than the given ones; None if there are none."""
    if len(content) <= _BOUND_LENGTH:
        return content
    start = content[:_BOUND_LENGTH].rstrip(b"\xff")
    return start[:-1] + bytes([start[-1] + 1]) if start else None


def _offsets(footer: pq.FileMetaData) -> Iterator[int]:
    for group in range(footer.num_row_groups):
        chunk = footer.row_group(group).column(0)
        dictionary = chunk.dictionary_page_offset
        yield chunk.data_page_offset if dictionary is None else min(dictionary, chunk.data_page_offset)
