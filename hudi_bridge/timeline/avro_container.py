"""The bytes of an Avro container file of one record -> the record as plain Python values.

    magic     "Obj" and 1
    metadata  a map of bytes: ``avro.schema``, ``avro.codec``
    sync      16 bytes that end every block
    blocks    a count of records, the length of their bytes, the bytes, the sync marker

fastavro believes what a file announces, and follows a schema that contains itself until the stack ends. So it is given
a datum only after that has been stepped over by the rules for log records.

Source: "Object Container Files" of the Avro specification.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptTableError, CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.avro_cursors import DatumBytes
from hudi_bridge.logformat.avro_single import value_step
from hudi_bridge.logformat.avro_sizes import least_width
from hudi_bridge.logformat.inflating import RAW_DEFLATE, inflated, most_inflated
from hudi_bridge.schema.avro import AvroArray, AvroRecord, inner_types, parse_avro_schema

MAGIC = b"Obj\x01"

_SYNC_BYTES = 16
_CONTINUES = 0x80
_NUMBER_BYTES = 10

# The files of a table are written with a handful of schemas.
_MOST_KNOWN = 64
_known_types: dict[bytes, tuple[AvroRecord, Any]] = {}


def parse_container(data: bytes, path: str) -> dict[str, Any]:
    """The record of a container file; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are no whole container, or hold another number of records.
        UnsupportedTableError: the schema contains itself, or the codec is not known here.
    """
    cursor = _Cursor(data=data, path=path, position=len(MAGIC))
    metadata = dict(_iter_metadata(cursor))
    sync = cursor.take(_SYNC_BYTES)
    codec = metadata.get("avro.codec", b"null")
    if codec not in (b"null", b"deflate"):
        raise UnsupportedTableError("codec of an Avro container", f"{codec!r} in {path}", "null, deflate")
    datums: list[bytes] = []
    while cursor.position < len(data):
        begin = cursor.position
        count, stored = cursor.number(), cursor.take(cursor.number())
        if cursor.take(_SYNC_BYTES) != sync:
            raise cursor.corrupt(cursor.position - _SYNC_BYTES, "another sync marker", "that of the file")
        datums += [stored] if count else []
        if count not in (0, 1) or len(datums) > 1:
            raise cursor.corrupt(begin, f"a block of {count} records", "an Avro container of one record")
    if not datums:
        raise cursor.corrupt(len(data), "0 records", "an Avro container of one record")
    if codec == b"deflate":
        try:
            datums = [inflated(stored, RAW_DEFLATE, most_inflated(len(stored))) for stored in datums]
        except ValueError as error:
            raise CorruptTimelineError(path, None, str(error), "a deflated Avro record") from error
    return _record(metadata.get("avro.schema", b""), datums[0], path)


@dataclass(slots=True, kw_only=True)
class _Cursor:
    """A place in the file."""

    data: bytes
    path: str
    position: int

    def corrupt(self, position: int, found: str, expected: str) -> CorruptTimelineError:
        return CorruptTimelineError(self.path, position, found, expected)

    def number(self) -> int:
        number = 0
        for place, byte in enumerate(self.data[self.position : self.position + _NUMBER_BYTES]):
            number |= (byte & 0x7F) << 7 * place
            if byte < _CONTINUES:
                self.position += place + 1
                return (number >> 1) ^ -(number & 1)
        raise self.corrupt(self.position, "no whole number", "a part of an Avro container")

    def take(self, size: int) -> bytes:
        left = len(self.data) - self.position
        if not 0 <= size <= left:
            raise self.corrupt(self.position, f"a part of {size} bytes", f"0 to {left} bytes")
        self.position += size
        return self.data[self.position - size : self.position]


def _iter_metadata(cursor: _Cursor) -> Iterator[tuple[str, bytes]]:
    while count := cursor.number():
        if count < 0:
            # A negative count is followed by the size of its block.
            cursor.number()
        for _ in range(abs(count)):
            key = cursor.take(cursor.number()).decode("utf-8", "replace")
            yield key, cursor.take(cursor.number())


def _record(schema: bytes, datum: bytes, path: str) -> dict[str, Any]:
    try:
        avro, parsed = _datum_type(schema, path)
        source = DatumBytes.of(pa.py_buffer(datum), np.zeros(1, np.int64), path, 0)
        end = value_step(avro, source)(0, len(datum))
    except CorruptTableError as error:
        raise CorruptTimelineError(path, None, error.found, error.expected) from error
    if end != len(datum):
        raise CorruptTimelineError(path, None, f"{len(datum) - end} bytes after the record", "the end of its block")
    try:
        record: Any = fastavro.schemaless_reader(io.BytesIO(datum), parsed, None)
    except Exception as error:
        raise CorruptTimelineError(path, None, f"damaged Avro ({error})", "an Avro record") from error
    assert isinstance(record, dict)
    return record


def _datum_type(schema: bytes, path: str) -> tuple[AvroRecord, Any]:
    """A schema that a datum can be read by without end neither of depth nor of items, here and in fastavro."""
    if schema not in _known_types:
        if len(_known_types) >= _MOST_KNOWN:
            _known_types.clear()
        _known_types[schema] = _parse_schema(schema, path)
    return _known_types[schema]


def _parse_schema(schema: bytes, path: str) -> tuple[AvroRecord, Any]:
    try:
        text = schema.decode()
    except UnicodeDecodeError as error:
        raise CorruptTimelineError(path, None, f"a schema that is not text: {error.reason}", "UTF-8") from error
    avro = parse_avro_schema(text, path)
    if any(isinstance(inner, AvroArray) and not least_width(inner.items) for inner in inner_types(avro)):
        found = f"an array of items that take no bytes, in {path}"
        raise UnsupportedTableError("Avro schema", found, "items of at least one byte")
    try:
        return avro, fastavro.parse_schema(json.loads(text))
    except Exception as error:
        raise CorruptTimelineError(path, None, f"a schema that is none ({error})", "an Avro schema") from error
