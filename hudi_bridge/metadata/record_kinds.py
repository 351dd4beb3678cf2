"""The kinds of records of the metadata table: their columns, and how versions of a record are merged.

A record of Hudi has one nested field for each kind. Here each kind has plain columns; a record of a partition's files
becomes one row for each file.

Source: ``HoodieMetadataPayload``, ``MetadataPartitionType`` and ``HoodieMetadata.avsc``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.metadata.column_statistics import VALUE, merged_statistics, plain_values

Array: TypeAlias = "pa.Array[Any]"

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordKind:
    """A kind of records.

    ``field`` is the nested field of the Avro record. ``columns`` are its plain columns, by the name of the field within
    the nested one. ``merged`` returns the rows that count of the versions of some records, given oldest first.
    """

    field: str
    columns: "Mapping[str, pa.Field[Any]]"
    merged: Callable[[pa.Table], pa.Table]

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
        place = nested.type.get_field_index(name)
        return plain_values(_nulls(len(nested), pa.null()) if place < 0 else pc.struct_field(nested, name))
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


def _newest(versions: pa.Table) -> pa.Table:
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
    places = np.arange(len(ordered))
    removed = ordered.column(DELETED).to_numpy()
    last_removal = np.maximum.reduceat(np.where(removed, places, -1), starts)
    counts = np.diff(np.append(starts, len(ordered)))
    sizes = np.where(places > np.repeat(last_removal, counts), ordered.column(SIZE).to_numpy(), -1)
    greatest = np.maximum.reduceat(sizes, starts)
    files = ordered.take(starts)
    files = files.set_column(2, files.schema.field(SIZE), pa.array(greatest))
    files = files.set_column(3, files.schema.field(DELETED), _all(len(files), is_deleted=False))
    left = starts + counts - 1 > last_removal
    return files.filter(pa.array(left))


def _text(name: str) -> "pa.Field[Any]":
    return pa.field(name, pa.string())


def _number(name: str) -> "pa.Field[Any]":
    return pa.field(name, pa.int64())


_FILES = RecordKind(
    field="filesystemMetadata", columns={"name": _text(NAME), "size": _number(SIZE)}, merged=_files_left
)
_RECORD_INDEX = RecordKind(
    field="recordIndexMetadata",
    columns={
        "partitionName": _text("partition"),
        "fileIdHighBits": _number("file_id_high_bits"),
        "fileIdLowBits": _number("file_id_low_bits"),
        "fileIndex": _number("file_index"),
        "fileId": _text("file_id"),
        "instantTime": _number("instant_ms"),
        "fileIdEncoding": _number("file_id_encoding"),
        "position": _number("position"),
    },
    merged=_newest,
)
_BLOOM_FILTERS = RecordKind(
    field="BloomFilterMetadata",
    columns={"type": _text("type"), "timestamp": _text("instant"), "bloomFilter": pa.field("filter", pa.binary())},
    merged=_newest,
)
_STATISTICS = RecordKind(
    field="ColumnStatsMetadata",
    columns={
        "fileName": _text("file_name"),
        "columnName": _text("column"),
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
_SECONDARY_INDEX = RecordKind(field="SecondaryIndexMetadata", columns={}, merged=_newest)
_KINDS = {
    FILES: _FILES,
    RECORD_INDEX: _RECORD_INDEX,
    BLOOM_FILTERS: _BLOOM_FILTERS,
    COLUMN_STATS: _STATISTICS,
    PARTITION_STATS: _STATISTICS,
}
_PREFIXES = {COLUMN_STATS: "col-stats-"}
