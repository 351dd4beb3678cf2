"""The content of a delete block -> deleted keys and their ordering values, as Arrow columns.

From ``HoodieDeleteBlock``: a 4-byte content version, a 4-byte payload length, the payload. Versions 1 and 2
are Kryo (``kryo``), version 3 is one Avro datum of ``HoodieDeleteRecordList``, whose ordering values are a
union of wrapper records. Values of several kinds may stand in one block: a delete by SQL carries the Java
Integer 0, a delete by upsert the ordering value of its row.
"""

import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.kryo import decode_deletes
from hudi_bridge.logformat.layout import ContentVersion, OrderingKind
from hudi_bridge.logformat.ordering_values import OrderingGroup, Orderings, cast_orderings

_CONTENT_START = struct.Struct(">ii")
# The scale that DecimalWrapper fixes, and the most that a decimal of Arrow can hold.
_WRAPPER_SCALE = 15
_MAX_DECIMAL_BITS = 255
_MAX_DECIMAL_SCALE = 76
# Stands for the number of values of a default ordering value.
_DEFAULT = -1

# One wrapped value each. Logical types are left out: values are taken as stored and typed by their kind.
_WRAPPERS: dict[str, tuple[OrderingKind, str]] = {
    "BooleanWrapper": (OrderingKind.BOOLEAN, "boolean"),
    "IntWrapper": (OrderingKind.INT, "int"),
    "LongWrapper": (OrderingKind.LONG, "long"),
    "FloatWrapper": (OrderingKind.FLOAT, "float"),
    "DoubleWrapper": (OrderingKind.DOUBLE, "double"),
    "BytesWrapper": (OrderingKind.BYTES, "bytes"),
    "StringWrapper": (OrderingKind.STRING, "string"),
    "DateWrapper": (OrderingKind.DATE, "int"),
    "DecimalWrapper": (OrderingKind.DECIMAL, "bytes"),
    "TimeMicrosWrapper": (OrderingKind.TIME_MICROS, "long"),
    "TimestampMicrosWrapper": (OrderingKind.TIMESTAMP_MICROS, "long"),
}
_LOCAL_DATE_WRAPPER = "LocalDateWrapper"
_KINDS = {name: kind for name, (kind, _) in _WRAPPERS.items()} | {_LOCAL_DATE_WRAPPER: OrderingKind.LOCAL_DATE}


def _record(name: str, **fields: object) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": value} for key, value in fields.items()],
    }


_ARRAY_WRAPPER = _record(
    "ArrayWrapper",
    wrappedValues=[
        "null",
        {"type": "array", "items": ["null", *_WRAPPERS, _record(_LOCAL_DATE_WRAPPER, value="int")]},
    ],
)
_DELETE_RECORD = _record(
    "HoodieDeleteRecord",
    recordKey=["null", "string"],
    partitionPath=["null", "string"],
    orderingVal=[
        "null",
        *(_record(name, value=avro) for name, (_, avro) in _WRAPPERS.items()),
        _ARRAY_WRAPPER,
    ],
)
_DELETE_RECORD_LIST = fastavro.parse_schema(
    _record("HoodieDeleteRecordList", deleteRecordList={"type": "array", "items": _DELETE_RECORD})
)
# What fastavro raises for bytes that are no datum of the schema.
_AVRO_ERRORS = (EOFError, IndexError, OverflowError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """The deletes of one block, in block order; every column has one row per delete.

    ``is_default`` marks an ordering value of null or the Java *Integer* 0: such a delete beats whatever came
    before, where one with a long 0 takes part in the ordering like a row.
    """

    record_keys: pa.StringArray
    partition_paths: pa.StringArray
    is_default: pa.BooleanArray
    field_counts: npt.NDArray[np.int32]
    groups: tuple[OrderingGroup, ...]

    def __len__(self) -> int:
        return len(self.record_keys)

    def ordering_as(self, types: Sequence[pa.DataType]) -> Orderings:
        """The ordering values as columns of the table's ordering fields, given by their types."""
        return cast_orderings(self.groups, self.field_counts, types)


def parse_delete_block(block: LogBlock) -> DeleteRecords:
    """The deletes of a delete block.

    Raises:
        CorruptLogFileError: the content is not what its version says.
        UnsupportedTableError: the content version, or the class of an ordering value, is unknown.
    """
    content = block.content.to_pybytes()
    if len(content) < _CONTENT_START.size:
        raise _corrupt(block, f"a delete block of {len(content)} bytes", f"at least {_CONTENT_START.size}")
    version, length = _CONTENT_START.unpack_from(content)
    payload = content[_CONTENT_START.size :]
    if length != len(payload):
        raise _corrupt(block, f"a payload length of {length}", f"{len(payload)}, the rest of the block")
    match version:
        case ContentVersion.KRYO_KEYS | ContentVersion.KRYO_DELETE_RECORDS:
            deletes = decode_deletes(payload, block.path, block.content_offset + _CONTENT_START.size)
            keys: list[str | None] = [delete.record_key for delete in deletes]
            paths: list[str | None] = [delete.partition_path for delete in deletes]
            orderings: list[tuple[OrderingKind, Any]] = [(delete.kind, delete.ordering) for delete in deletes]
        case ContentVersion.AVRO_DELETE_RECORDS:
            keys, paths, orderings = _decode_avro(payload, block)
        case _:
            found = f"{version} in {block.path} at byte {block.content_offset}"
            raise UnsupportedTableError("delete block version", found, "1 to 3")
    if None in keys:
        raise _corrupt(block, "a delete without a record key", "a record key")
    return _delete_records(keys, paths, orderings, block)


def _corrupt(block: LogBlock, found: str, expected: str) -> CorruptLogFileError:
    return CorruptLogFileError(block.path, block.content_offset, found, expected)


def _decode_avro(
    payload: bytes, block: LogBlock
) -> tuple[list[str | None], list[str | None], list[tuple[OrderingKind, Any]]]:
    stream = io.BytesIO(payload)
    try:
        datum: Any = fastavro.schemaless_reader(stream, _DELETE_RECORD_LIST, None, return_record_name=True)
    except _AVRO_ERRORS as error:
        raise _corrupt(block, f"a broken list of deletes ({error})", "an Avro HoodieDeleteRecordList") from error
    if stream.tell() != len(payload):
        raise _corrupt(block, f"{len(payload) - stream.tell()} bytes left over", "the end of the delete block")
    records = datum["deleteRecordList"]
    keys = [record["recordKey"] for record in records]
    paths = [record["partitionPath"] for record in records]
    return keys, paths, [_unwrap(record["orderingVal"]) for record in records]


def _unwrap(wrapped: tuple[str, dict[str, Any]] | None) -> tuple[OrderingKind, Any]:
    if wrapped is None:
        return OrderingKind.NULL, None
    name, record = wrapped
    if name in _KINDS:
        kind = _KINDS[name]
        if kind is OrderingKind.DECIMAL:
            return kind, (int.from_bytes(record["value"], "big", signed=True), _WRAPPER_SCALE)
        return kind, record["value"]
    values = record["wrappedValues"]
    if values is None:
        return OrderingKind.NULL, None
    return OrderingKind.ARRAY, [_unwrap(value) for value in values]


def _delete_records(
    keys: Sequence[str | None],
    paths: Sequence[str | None],
    orderings: Iterable[tuple[OrderingKind, Any]],
    block: LogBlock,
) -> DeleteRecords:
    counts: list[int] = []
    grouped: dict[tuple[int, OrderingKind], tuple[list[int], list[Any]]] = {}
    for position, (kind, value) in enumerate(orderings):
        if kind is OrderingKind.NULL or (kind is OrderingKind.INT and value == 0):
            counts.append(_DEFAULT)
            continue
        fields = value if kind is OrderingKind.ARRAY else ((kind, value),)
        counts.append(len(fields))
        for index, (field_kind, field_value) in enumerate(fields):
            positions, values = grouped.setdefault((index, field_kind), ([], []))
            positions.append(position)
            values.append(_decimal(field_value, block) if field_kind is OrderingKind.DECIMAL else field_value)
    field_counts = np.array(counts, dtype=np.int32)
    try:
        groups = tuple(
            OrderingGroup.of(field_index=index, kind=kind, positions=positions, values=values)
            for (index, kind), (positions, values) in grouped.items()
        )
    except (pa.ArrowInvalid, OverflowError) as error:
        raise _corrupt(block, f"an ordering value out of range ({error})", "a value of its kind") from error
    return DeleteRecords(
        record_keys=pa.array(keys, pa.string()),
        partition_paths=pa.array(paths, pa.string()),
        is_default=pa.array(field_counts == _DEFAULT),
        field_counts=field_counts,
        groups=groups,
    )


def _decimal(value: tuple[int, int], block: LogBlock) -> Decimal:
    unscaled, scale = value
    if unscaled.bit_length() > _MAX_DECIMAL_BITS or abs(scale) > _MAX_DECIMAL_SCALE:
        found = f"a decimal of {unscaled.bit_length()} bits and scale {scale}"
        raise _corrupt(block, found, f"at most {_MAX_DECIMAL_BITS} bits and scale {_MAX_DECIMAL_SCALE}")
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))
