"""The records of the metadata table with all of their fields, as Hudi's own queries of that table return them.

Other modules read plain columns of one kind of records. Here a record has the key, its type, and a nested field for
each kind, all but one of them null. Tables of older releases lack some fields, which are null then.

Versions of a record are merged as by the plain columns, but for the files of a partition: a file that was removed while
no earlier version has it stays, as removed.

Source: ``HoodieMetadata.avsc``; ``HoodieMetadataPayload.preCombine`` and ``combineFileSystemMetadata``.
"""

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.indexes.record_kinds import (
    DELETED,
    KEY,
    VALUE_TYPES,
    Array,
    RecordKind,
    newest_versions,
    versions_of,
)

_STATISTICS, _FILES = "ColumnStatsMetadata", "filesystemMetadata"


def _fields(**types: Any) -> pa.StructType:  # noqa: ANN401 - pyarrow has no common class in its stubs
    return pa.struct(types)


_FILE = _fields(size=pa.int64(), isDeleted=pa.bool_())
_STORED: dict[str, Any] = {"date": pa.int32(), "time_micros": pa.int64()}
"""Types of values that differ from ``VALUE_TYPES``, where they have the meaning of a number."""
_WRAPPERS = [_fields(value=_STORED.get(name, kind)) for name, kind in VALUE_TYPES.items()]
_SINGLE = pa.struct([pa.field(f"member{number}", wrapper) for number, wrapper in enumerate(_WRAPPERS)])
_VALUE = pa.struct([*_SINGLE, pa.field(f"member{len(_WRAPPERS)}", _fields(wrappedValues=pa.list_(_SINGLE)))])
_COLUMNS: dict[str, Any] = {
    KEY: pa.string(),
    "type": pa.int32(),
    _FILES: pa.map_(pa.string(), _FILE),
    "BloomFilterMetadata": _fields(
        type=pa.string(), timestamp=pa.string(), bloomFilter=pa.binary(), isDeleted=pa.bool_()
    ),
    _STATISTICS: _fields(
        fileName=pa.string(),
        columnName=pa.string(),
        minValue=_VALUE,
        maxValue=_VALUE,
        valueCount=pa.int64(),
        nullCount=pa.int64(),
        totalSize=pa.int64(),
        totalUncompressedSize=pa.int64(),
        isDeleted=pa.bool_(),
        isTightBound=pa.bool_(),
        valueType=_fields(typeOrdinal=pa.int32(), additionalInfo=pa.string()),
    ),
    "recordIndexMetadata": _fields(
        partitionName=pa.string(),
        fileIdHighBits=pa.int64(),
        fileIdLowBits=pa.int64(),
        fileIndex=pa.int32(),
        fileId=pa.string(),
        instantTime=pa.int64(),
        fileIdEncoding=pa.int32(),
        position=pa.int64(),
    ),
    "SecondaryIndexMetadata": _fields(isDeleted=pa.bool_()),
}
WHOLE_RECORD = pa.schema(_COLUMNS)
"""The columns of a record, with the names that Hudi gives them."""
_VERSIONS = WHOLE_RECORD.append(pa.field(DELETED, pa.bool_()))


def whole_records(kind: RecordKind) -> RecordKind:
    """The same kind of records, with all columns of a record."""
    columns = {field.name: field for field in WHOLE_RECORD if field.name != KEY}
    return RecordKind(
        field=kind.field, columns=columns, merged=partial(_merged, kind), versions=partial(_versions, kind)
    )


def _versions(kind: RecordKind, keys: pa.StringArray, records: pa.RecordBatch) -> pa.Table:
    columns: list[Array] = [keys]
    for field in WHOLE_RECORD:
        if field.name != KEY:
            index = records.schema.get_field_index(field.name)
            stored = _nulls(len(keys), pa.null()) if index < 0 else records.column(index)
            columns.append(_conformed(stored, field.type))
    if kind.field == _FILES:
        deleted: Any = pa.array(np.zeros(len(keys), np.bool_))
    else:
        deleted = versions_of(kind, keys, records).column(DELETED)
    return pa.table([*columns, deleted], schema=_VERSIONS)


def _conformed(array: Array, kind: pa.DataType) -> Array:
    """The values in another type; fields of structs that are missing are null."""
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return _nulls(len(array), kind)
    if isinstance(array, pa.StructArray) and isinstance(kind, pa.StructType):
        children = [
            _conformed(pc.struct_field(array, [position]), field.type)
            if (position := array.type.get_field_index(field.name)) >= 0
            else _nulls(len(array), field.type)
            for field in kind
        ]
        struct: Array = pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
        return struct
    if isinstance(array, pa.MapArray) and isinstance(kind, pa.MapType):
        items: Any = _conformed(array.items, kind.item_type)
        offsets: Any = array.offsets
        entries: Array = pa.MapArray.from_arrays(offsets, array.keys, items, mask=array.is_null())
        return entries.cast(kind)
    if isinstance(array, pa.ListArray) and isinstance(kind, pa.ListType):
        values = _conformed(array.values, kind.value_type)
        rows: Array = pa.ListArray.from_arrays(array.offsets, values, type=kind, mask=array.is_null())
        return rows
    cast: Array = array.cast(kind)
    return cast


def _nulls(count: int, kind: Any) -> Array:  # noqa: ANN401 - of any type
    nulls: Array = pa.nulls(count, kind)
    return nulls


def _merged(kind: RecordKind, versions: pa.Table) -> pa.Table:
    """Merges versions of records, which are ordered from the oldest; removed records are left out."""
    newest = newest_versions(versions)
    if kind.field not in (_FILES, _STATISTICS) or len(newest) == len(versions):
        return newest
    counts = versions.group_by(KEY).aggregate([(KEY, "count")])
    repeated: Any = counts.filter(pc.field(f"{KEY}_count") > 1).column(KEY).combine_chunks()
    of_several = versions.filter(pc.is_in(versions.column(KEY), repeated))
    alone = newest.filter(pc.invert(pc.is_in(newest.column(KEY), repeated)))
    merge = _merged_files if kind.field == _FILES else partial(_merged_statistics, kind)
    return pa.concat_tables([alone, merge(of_several)])


def _merged_files(versions: pa.Table) -> pa.Table:
    records: dict[str, dict[str, Any]] = {}
    for version in versions.to_pylist():
        key = version[KEY]
        if version[DELETED]:
            records.pop(key, None)
            continue
        files = dict(records[key][_FILES]) if key in records else {}
        for name, file in version[_FILES] or ():
            before = files.get(name)
            if before is None:
                files[name] = file
            elif file["isDeleted"]:
                del files[name]
            else:
                files[name] = file | {"size": max(file["size"], before["size"])}
        records[key] = version | {_FILES: list(files.items())}
    return pa.Table.from_pylist(list(records.values()), _VERSIONS)


def _merged_statistics(kind: RecordKind, versions: pa.Table) -> pa.Table:
    newest = newest_versions(versions)
    keys: Any = versions.column(KEY).combine_chunks()
    nested: Any = versions.select([_STATISTICS]).combine_chunks().to_batches()[0]
    merged = kind.merged(versions_of(kind, keys, nested))
    newest = newest.take(pc.index_in(merged.column(KEY).combine_chunks(), newest.column(KEY).combine_chunks()))
    stored: Any = newest.column(_STATISTICS).combine_chunks()
    plain = {column.name: merged.column(column.name).combine_chunks() for column in kind.columns.values()}
    by_name = {name: plain[column.name] for name, column in kind.columns.items()}
    by_name |= {name: _wrapped(by_name[name]) for name in ("minValue", "maxValue")}
    children = [by_name.get(field.name, pc.struct_field(stored, field.name)) for field in stored.type]
    statistics = pa.StructArray.from_arrays(children, fields=list(stored.type))
    return newest.set_column(newest.schema.get_field_index(_STATISTICS), _VERSIONS.field(_STATISTICS), statistics)


def _wrapped(values: Array) -> Array:
    """Plain values as the union of wrappers, null without a value."""
    members: list[Array] = []
    valid = np.zeros(len(values), np.bool_)
    for name, wrapper in zip(VALUE_TYPES, _WRAPPERS, strict=True):
        member: Any = pc.struct_field(values, name)
        stored = member.cast(wrapper.field(0).type)
        valid |= member.is_valid().to_numpy(zero_copy_only=False)
        members.append(pa.StructArray.from_arrays([stored], fields=list(wrapper), mask=member.is_null()))
    members.append(pa.nulls(len(values), _VALUE.field(len(members)).type))
    wrapped: Array = pa.StructArray.from_arrays(members, fields=list(_VALUE), mask=pa.array(~valid))
    return wrapped
