"""The kinds of records of the metadata table: their columns, their keys, and how versions of a record are merged.

A record of Hudi has one nested field for each kind. Here each kind has plain columns, and a record of a partition's
files becomes one row for each file. Column values in statistics are a union of wrapper records in Hudi; here they are a
struct with a member for each type, and one member is not null unless the file has no value. Keys name columns,
partitions and files by hashes as Base64 text. A hash of the whole key, as Java computes it, gives its file group.

Source: ``HoodieMetadataPayload``, ``MetadataPartitionType`` and ``HoodieMetadata.avsc``; ``HoodieMetadataColumnStats``
and ``HoodieTableMetadataUtil.mergeColumnStatsRecords``; ``ColumnIndexID``, ``PartitionIndexID``, ``FileIndexID`` and
``HashID``; ``HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex``.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import md5
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh64_digest

from hudi_bridge.schema.java_text import string_hashes

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
FIRST_REORDERED = "\ue000"
"""Texts of characters below this one have one order, by UTF-8 bytes as by UTF-16 code units, by which Java compares."""
KEY, NAME, SIZE, DELETED = "key", "name", "size_bytes", "is_deleted"
"""Columns of the versions of a record: ``is_deleted`` marks one that removes the record, or the file."""
FILES = "files"
RECORD_INDEX = "record_index"
COLUMN_STATS = "column_stats"
PARTITION_STATS = "partition_stats"
BLOOM_FILTERS = "bloom_filters"
SECONDARY_INDEX = "secondary_index_"
EXPRESSION_INDEX = "expr_index_"
ALL_PARTITIONS = "__all_partitions__"
"""The key of the record that has the partitions of the table where others have files."""
_PREFIXES = {COLUMN_STATS: "col-stats-"}
_SEED = 0xFFFFFFFFDABADABA
Ints: TypeAlias = npt.NDArray[np.int64]


class CountedNulls(NamedTuple):
    """Two masks: whether the values that statistics count as nulls are nulls.

    The first mask is for statistics without a range: whether there are no values. The second is for statistics with a
    range: whether it includes all values.
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
        position = wrapped.type.get_field_index(f"member{number}") if pa.types.is_struct(wrapped.type) else -1
        nulls: Array = pa.nulls(len(wrapped), kind)
        members.append(nulls if position < 0 else pc.struct_field(wrapped, [position, 0]).cast(kind))
    return pa.StructArray.from_arrays(members, fields=list(VALUE))


def merged_statistics(versions: pa.Table) -> pa.Table:
    """Merges the statistics of several writes, oldest first.

    A write adds to the range of earlier ones, unless it says that its own is tight, or removes the entry.
    """
    positions = np.arange(len(versions))
    numbered = versions.append_column("place", pa.array(positions))
    tight, deleted = (_flags(versions, name) for name in ("is_tight", "is_deleted"))
    resets = numbered.filter(pa.array(tight | deleted)).group_by("key").aggregate([("place", "max")])
    rows: Any = pc.index_in(numbered.column("key"), resets.column("key")).fill_null(-1)
    since = np.append(resets.column("place_max").to_numpy(), -1)[rows.to_numpy()]
    counting = versions.filter(pa.array((positions >= since) & ~deleted))
    if len(pc.unique(counting.column("key"))) == len(counting):
        return counting
    return _merged_ranges(counting)


def _flags(versions: pa.Table, name: str) -> npt.NDArray[np.bool_]:
    column: Any = versions.column(name)
    flags: npt.NDArray[np.bool_] = column.fill_null(fill_value=False).to_numpy().astype(np.bool_)
    return flags


def _merged_ranges(versions: pa.Table) -> pa.Table:
    """Merges the ranges of a key's versions; drops keys with an unknown range."""
    flat = {"key": versions.column("key"), "known": pa.array(_are_known(versions))}
    whole = ("file_name", "column", "is_tight", "is_deleted")
    aggregations: list[Any] = (
        [(name, "last") for name in whole] + [(name, "sum") for name in COUNTS] + [("known", "min")]
    )
    flat |= {name: versions.column(name) for name in (*whole, *COUNTS)}
    for end in ("min", "max"):
        for member in VALUE_TYPES:
            name = f"{end}_{member}"
            flat[name] = pc.struct_field(versions.column(f"{end}_value"), member)
            aggregations.append((name, end))
    groups = pa.table(flat).group_by("key", use_threads=False).aggregate(aggregations)
    columns = {"key": groups.column("key")} | {name: groups.column(f"{name}_{how}") for name, how in aggregations}
    is_known: Any = columns["known"]
    unknown = pc.invert(is_known.combine_chunks())
    for end in ("min", "max"):
        members = [columns[f"{end}_{member}"].combine_chunks() for member in VALUE_TYPES]
        values = pa.StructArray.from_arrays(members, fields=list(VALUE), mask=unknown)
        columns[f"{end}_value"] = pa.chunked_array([values])
    return pa.table([columns[name] for name in versions.schema.names], schema=versions.schema)


def _are_known(versions: pa.Table) -> npt.NDArray[np.bool_]:
    """Whether a version has a range, or no values other than null."""
    only_nulls = pc.equal(versions.column("value_count"), versions.column("null_count")).fill_null(fill_value=False)
    ends = (values_as_text(versions.column(f"{end}_value")).is_valid().to_numpy() for end in ("min", "max"))
    are_known: npt.NDArray[np.bool_] = np.logical_and(*ends) | only_nulls.to_numpy()
    return are_known


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """A kind of records.

    ``field`` is the nested field of the Avro record. ``columns`` are its plain columns, by the name of the field within
    the nested one. ``merged`` returns the rows that count of the versions of some records, given oldest first.
    ``versions`` makes versions of keys and decoded records, for kinds whose columns are those of the whole record; None
    for plain columns.
    """

    field: str
    columns: "Mapping[str, pa.Field[Any]]"
    merged: Callable[[pa.Table], pa.Table]
    versions: Callable[[pa.StringArray, pa.RecordBatch], pa.Table] | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of versions: the key, the plain columns, and whether the version removes."""
        return pa.schema([pa.field(KEY, pa.string()), *self.columns.values(), pa.field(DELETED, pa.bool_())])


def record_kind(partition: str, index_type: str | None = None) -> RecordKind | None:
    """The kind of records in a partition of the metadata table, None if it is unknown.

    ``index_type`` is Hudi's type of an expression index.
    """
    if partition.startswith(SECONDARY_INDEX):
        return _SECONDARY_INDEX
    if partition.startswith(EXPRESSION_INDEX):
        return _BLOOM_FILTERS if index_type == BLOOM_FILTERS else _STATISTICS
    return _KINDS.get(partition)


def is_of_one_state(partition: str) -> bool:
    """Whether records describe all rows of the newest state, rather than files, which are as they were in others."""
    return partition in (RECORD_INDEX, PARTITION_STATS) or partition.startswith(SECONDARY_INDEX)


def file_id_prefix(partition: str) -> str:
    """How the ids of a partition's file groups begin."""
    return _PREFIXES.get(partition, f"{partition.replace('_', '-')}-")


def versions_of(kind: RecordKind, keys: pa.StringArray, records: pa.RecordBatch) -> pa.Table:
    """The versions in decoded records, whose keys are given."""
    if kind.versions is not None:
        return kind.versions(keys, records)
    index = records.schema.get_field_index(kind.field)
    nested = records.column(index) if index >= 0 else pa.nulls(len(keys), pa.struct([]))
    if kind is _FILES:
        return _versions_of_files(keys, nested)
    columns = [_plain(nested, name, column.type) for name, column in kind.columns.items()]
    # A record without the field that its kind has removes the record, too.
    marked: Any = _plain(nested, "isDeleted", pa.bool_())
    deleted = pc.or_(marked.fill_null(fill_value=False), nested.is_null())
    return pa.table([keys, *columns, deleted], schema=kind.schema)


def deletes_of(kind: RecordKind, keys: pa.StringArray) -> pa.Table:
    """Versions that remove whole records."""
    nulls = {column.name: _nulls(len(keys), column.type) for column in kind.columns.values()}
    return pa.table({KEY: keys, **nulls, DELETED: _all(len(keys), is_deleted=True)}, schema=kind.schema)


def _plain(nested: Array, name: str, kind: pa.DataType) -> Array:
    """A field of structs, null where the struct is, or where its writer did not have the field."""
    if kind == VALUE:
        position = nested.type.get_field_index(name)
        return plain_values(_nulls(len(nested), pa.null()) if position < 0 else pc.struct_field(nested, name))
    if nested.type.get_field_index(name) < 0:
        return _nulls(len(nested), kind)
    field: Array = pc.struct_field(nested, name)
    return field.cast(kind)


def _nulls(count: int, kind: Any) -> Array:  # noqa: ANN401 - of any type
    nulls: Array = pa.nulls(count, kind)
    return nulls


def _all(count: int, *, is_deleted: bool) -> Array:
    values: Array = pa.array(np.full(count, is_deleted))
    return values


def _versions_of_files(keys: pa.StringArray, maps: Array) -> pa.Table:
    if not isinstance(maps, pa.MapArray):
        return _FILES.schema.empty_table()
    offsets = np.asarray(maps.offsets)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    rows = np.repeat(np.arange(len(keys)), np.diff(offsets))
    files = maps.items.slice(first, last - first)
    return pa.table(
        {
            KEY: keys.take(rows),
            NAME: maps.keys.slice(first, last - first),
            SIZE: _plain(files, "size", pa.int64()),
            DELETED: _plain(files, "isDeleted", pa.bool_()),
        },
        schema=_FILES.schema,
    )


def newest_versions(versions: pa.Table) -> pa.Table:
    """The newest version of each record, unless that removes it."""
    keys: Any = versions.column(KEY).combine_chunks().dictionary_encode()
    last = np.zeros(len(keys.dictionary), np.int64)
    np.maximum.at(last, keys.indices.to_numpy(), np.arange(len(versions)))
    newest = versions.take(np.sort(last))
    return newest.filter(pc.invert(newest.column(DELETED)))


def _files_left(versions: pa.Table) -> pa.Table:
    """The files of each record that were not removed after they were last added, ordered by key and name.

    A file that was added repeatedly has the greatest of its sizes: writers append to log files. A version without a
    name removes all files.
    """
    numbered = versions.append_column("place", pa.array(np.arange(len(versions))))
    wholly = numbered.filter(pc.is_null(numbered.column(NAME))).group_by(KEY).aggregate([("place", "max")])
    if len(wholly):
        removals: Any = pc.index_in(numbered.column(KEY), wholly.column(KEY)).fill_null(-1)
        last = np.append(wholly.column("place_max").to_numpy(), -1)[removals.to_numpy()]
        numbered = numbered.filter(pa.array(np.arange(len(numbered)) > last))
    ordered = numbered.sort_by([(KEY, "ascending"), (NAME, "ascending"), ("place", "ascending")]).drop_columns("place")
    if not len(ordered):
        return ordered
    keys, names = ordered.column(KEY), ordered.column(NAME)
    differs = pc.or_(pc.not_equal(keys[1:], keys[:-1]), pc.not_equal(names[1:], names[:-1]))
    starts = np.flatnonzero(np.concatenate([[True], differs.to_numpy()]))
    positions = np.arange(len(ordered))
    removed = ordered.column(DELETED).to_numpy()
    last_removal = np.maximum.reduceat(np.where(removed, positions, -1), starts)
    counts = np.diff(np.append(starts, len(ordered)))
    sizes = np.where(positions > np.repeat(last_removal, counts), ordered.column(SIZE).to_numpy(), -1)
    greatest = np.maximum.reduceat(sizes, starts)
    files = ordered.take(starts)
    files = files.set_column(2, files.schema.field(SIZE), pa.array(greatest))
    files = files.set_column(3, files.schema.field(DELETED), _all(len(files), is_deleted=False))
    left = starts + counts - 1 > last_removal
    return files.filter(pa.array(left))


def _text_field(name: str) -> "pa.Field[Any]":
    return pa.field(name, pa.string())


def _number(name: str) -> "pa.Field[Any]":
    return pa.field(name, pa.int64())


_FILES = RecordKind(
    field="filesystemMetadata", columns={"name": _text_field(NAME), "size": _number(SIZE)}, merged=_files_left
)
_RECORD_INDEX = RecordKind(
    field="recordIndexMetadata",
    columns={
        "partitionName": _text_field("partition"),
        "fileIdHighBits": _number("file_id_high_bits"),
        "fileIdLowBits": _number("file_id_low_bits"),
        "fileIndex": _number("file_index"),
        "fileId": _text_field("file_id"),
        "instantTime": _number("instant_ms"),
        "fileIdEncoding": _number("file_id_encoding"),
        "position": _number("position"),
    },
    merged=newest_versions,
)
_BLOOM_FILTERS = RecordKind(
    field="BloomFilterMetadata",
    columns={
        "type": _text_field("type"),
        "timestamp": _text_field("instant"),
        "bloomFilter": pa.field("filter", pa.binary()),
    },
    merged=newest_versions,
)
_STATISTICS = RecordKind(
    field="ColumnStatsMetadata",
    columns={
        "fileName": _text_field("file_name"),
        "columnName": _text_field("column"),
        "minValue": pa.field("min_value", VALUE),
        "maxValue": pa.field("max_value", VALUE),
        "valueCount": _number("value_count"),
        "nullCount": _number("null_count"),
        "totalSize": _number("total_size"),
        "totalUncompressedSize": _number("total_uncompressed_size"),
        "isTightBound": pa.field("is_tight", pa.bool_()),
    },
    merged=merged_statistics,
)
_SECONDARY_INDEX = RecordKind(field="SecondaryIndexMetadata", columns={}, merged=newest_versions)
_KINDS = {
    FILES: _FILES,
    RECORD_INDEX: _RECORD_INDEX,
    BLOOM_FILTERS: _BLOOM_FILTERS,
    COLUMN_STATS: _STATISTICS,
    PARTITION_STATS: _STATISTICS,
}


def column_id(column: str) -> str:
    """The id of a column, which may be a field within columns: ``a.b``."""
    return _base64(xxh64_digest(column.encode(), _SEED))


@lru_cache(maxsize=4096)
def partition_id(partition: str) -> str:
    """The id of a partition; the path of the only one of a table without partitions is empty."""
    return _base64(xxh64_digest((partition or ".").encode(), _SEED))


def file_id(name: str) -> str:
    """The id of a base file or log file, by its name without a folder."""
    return _base64(md5(name.encode(), usedforsecurity=False).digest())


def _base64(digest: bytes) -> str:
    return b64encode(digest).decode()


def group_numbers(keys: pa.StringArray, groups: int) -> Ints:
    """The number of the file group of each key, from 0 to ``groups`` - 1."""
    if groups == 1:
        return np.zeros(len(keys), np.int64)
    return np.abs(string_hashes(keys).astype(np.int64)) % groups
