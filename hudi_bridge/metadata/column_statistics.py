"""The statistics of columns in the metadata table: for each file or partition, the range of a column's values.

Hudi wraps values in a union of records, one for each type. Here a value is a struct with a member for each type, of
which one is not null, or none if the file has no value.

Source: ``HoodieMetadataColumnStats`` and ``HoodieTableMetadataUtil.mergeColumnStatsRecords``.
"""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "pa.Array[Any]"

VALUE_TYPES: dict[str, Any] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "date": pa.int32(),
    "decimal": pa.decimal128(30, 15),
    "time_micros": pa.time64("us"),
    "timestamp_micros": pa.int64(),
    "local_date": pa.int32(),
}
"""The types of values, in the order of the union; ``date`` is in days, ``timestamp_micros`` since 1970."""

VALUE = pa.struct([pa.field(name, kind) for name, kind in VALUE_TYPES.items()])
COUNTS = ("value_count", "null_count", "total_size", "total_uncompressed_size")
LEAST_SIZE_LEFT_OUT = 2_048
"""Of a column whose longest value has fewer bytes, parquet-mr leaves no statistics out."""


class CountedNulls(NamedTuple):
    """Whether what statistics count as nulls are nulls, for each row: two masks.

    The first is for statistics without a range, and says whether there are no values. The second is for statistics with
    a range, and says whether it holds all values.
    """

    without_range: npt.NDArray[np.bool_]
    with_range: npt.NDArray[np.bool_]


def counted_nulls(statistics: pa.Table, kind: pa.DataType, *, of_files: bool) -> CountedNulls:
    """Whether what statistics of columns of a type count as nulls are nulls; ``of_files`` or of partitions.

    They are taken from the footers of Parquet files. Where a row group has none, Hudi counts all its values as nulls.
    parquet-mr has none for texts whose least and greatest value have 4,096 bytes or more together, for INT96, and, as
    written before 1.10, for all texts. Only of whole numbers and dates has it always written some.

    Log files have a size of 0 if their values were counted from the records. A partition may have files of any writer,
    so the size of its column tells nothing.

    Source: ``ParquetUtils.readColumnStatsFromMetadata``, ``HoodieTableMetadataUtil.collectColumnRangeMetadata`` and
    ``HoodieColumnRangeMetadata.merge`` of Hudi; ``ParquetMetadataConverter.MAX_STATS_SIZE`` of parquet-mr.
    """
    if pa.types.is_integer(kind) or pa.types.is_date(kind):
        return CountedNulls(*np.ones((2, len(statistics)), np.bool_))
    if not of_files:
        return CountedNulls(*np.zeros((2, len(statistics)), np.bool_))
    sizes: Any = statistics.column("total_uncompressed_size")
    size = sizes.fill_null(-1).to_numpy()
    is_log: Any = pc.starts_with(statistics.column("file_name"), ".").fill_null(fill_value=False)
    counted = is_log.to_numpy() & (size == 0)
    # All row groups of a file have the same writer, and the same type.
    is_whole = ((size > 0) & (size < LEAST_SIZE_LEFT_OUT)) | (not pa.types.is_string(kind))
    return CountedNulls(counted, counted | is_whole)


def plain_values(wrapped: Array) -> Array:
    """Values of the union of wrappers, as ``VALUE``; lists of values, which have no order, are left out."""
    members = []
    for number, kind in enumerate(VALUE_TYPES.values()):
        place = wrapped.type.get_field_index(f"member{number}") if pa.types.is_struct(wrapped.type) else -1
        nulls: Array = pa.nulls(len(wrapped), kind)
        members.append(nulls if place < 0 else pc.struct_field(wrapped, [place, 0]).cast(kind))
    return pa.StructArray.from_arrays(members, fields=list(VALUE))


def merged_statistics(versions: pa.Table) -> pa.Table:
    """The statistics that count, given those of several writes, oldest first.

    A write adds to the range of earlier ones, unless it says that its own is tight, or removes the entry.
    """
    places = np.arange(len(versions))
    numbered = versions.append_column("place", pa.array(places))
    tight, deleted = (_flags(versions, name) for name in ("is_tight", "is_deleted"))
    resets = numbered.filter(pa.array(tight | deleted)).group_by("key").aggregate([("place", "max")])
    found: Any = pc.index_in(numbered.column("key"), resets.column("key")).fill_null(-1)
    since = np.append(resets.column("place_max").to_numpy(), -1)[found.to_numpy()]
    kept = versions.filter(pa.array((places >= since) & ~deleted))
    if len(pc.unique(kept.column("key"))) == len(kept):
        return kept
    return _united(kept)


def _flags(versions: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    column: Any = versions.column(name)
    flags: npt.NDArray[np.bool_] = column.fill_null(fill_value=False).to_numpy().astype(np.bool_)
    return flags


def _united(versions: pa.Table) -> pa.Table:
    """One row for each key, with the range of all of its versions; none if that of one of them is unknown."""
    flat = {"key": versions.column("key"), "known": pa.array(_are_known(versions))}
    whole = ("file_name", "column", "is_tight", "is_deleted")
    wanted: list[Any] = [(name, "last") for name in whole] + [(name, "sum") for name in COUNTS] + [("known", "min")]
    flat |= {name: versions.column(name) for name in (*whole, *COUNTS)}
    for end in ("min", "max"):
        for member in VALUE_TYPES:
            name = f"{end}_{member}"
            flat[name] = pc.struct_field(versions.column(f"{end}_value"), member)
            wanted.append((name, end))
    groups = pa.table(flat).group_by("key", use_threads=False).aggregate(wanted)
    columns = {"key": groups.column("key")} | {name: groups.column(f"{name}_{how}") for name, how in wanted}
    known: Any = columns["known"]
    unknown = pc.invert(known.combine_chunks())
    for end in ("min", "max"):
        members = [columns[f"{end}_{member}"].combine_chunks() for member in VALUE_TYPES]
        values = pa.StructArray.from_arrays(members, fields=list(VALUE), mask=unknown)
        columns[f"{end}_value"] = pa.chunked_array([values])
    return pa.table([columns[name] for name in versions.schema.names], schema=versions.schema)


def _are_known(versions: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether a version has a range, or no values other than null."""
    only_nulls = pc.equal(versions.column("value_count"), versions.column("null_count")).fill_null(fill_value=False)
    ends = (values_as_text(versions.column(f"{end}_value")).is_valid().to_numpy() for end in ("min", "max"))
    known: npt.NDArray[np.bool_] = np.logical_and(*ends) | only_nulls.to_numpy()
    return known


def values_as_text(values: "pa.ChunkedArray[Any]") -> "pa.ChunkedArray[Any]":
    """Values as text, null where there is none; bytes are hexadecimal."""
    texts = []
    for member, kind in VALUE_TYPES.items():
        column: Any = pc.struct_field(values, member)
        if pa.types.is_binary(kind):
            column = pa.chunked_array([[None if raw is None else raw.hex() for raw in column.to_pylist()]], pa.string())
        texts.append(column.cast(pa.string()))
    text: pa.ChunkedArray[Any] = pc.coalesce(*texts)
    return text
