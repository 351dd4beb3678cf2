"""The record in a timeline file, and typed access to its fields.

Commits are JSON in layout 1 and Avro in layout 2. Plans, cleans, rollbacks, restores and savepoints are Avro in both.
An Avro file is an object container file of one record.

Source: ``TimelineMetadataUtils``, ``CommitMetadataSerDeV1``, "Object Container Files" of the Avro specification.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hudi_bridge.errors import CorruptTableError, CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.inflating import RAW_DEFLATE, inflate, max_inflated_bytes
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.schema.json_values import parse_json
from hudi_bridge.timeline.avro_values import read_datum

MAGIC = b"Obj\x01"

_SYNC_BYTES = 16
_CONTINUES = 0x80
_NUMBER_BYTES = 10

Record = Mapping[str, Any]


def parse_record(data: bytes, path: str) -> Record:
    """The record of a JSON or Avro file; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are neither, are truncated, or do not hold exactly one record.
        UnsupportedTableError: an Avro schema contains itself, or its codec is not supported.
    """
    return parse_container(data, path) if data.startswith(MAGIC) else _parse_json(data, path)


def _parse_json(data: bytes, path: str) -> Record:
    if not data:
        raise CorruptTimelineError(path, None, "0 bytes", "JSON or an Avro container")
    try:
        value = parse_json(data)
    except (ValueError, RecursionError) as error:
        offset = error.pos if isinstance(error, json.JSONDecodeError) else None
        found = f"{data[:16]!r}, {len(data)} bytes that are neither ({error})"
        raise CorruptTimelineError(path, offset, found, "JSON or an Avro container") from error
    if not isinstance(value, dict):
        raise CorruptTimelineError(path, 0, repr(data[:16]), "a JSON object")
    return value


def text_field(record: Record, name: str, path: str) -> str:
    """A text field, "" if it is null or missing. Raises CorruptTimelineError if it has another type."""
    value = record.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_kind(name, value, "text", path)
    return value


def number_field(record: Record, name: str, path: str) -> int:
    """An integer field, 0 if it is null or missing. Raises CorruptTimelineError if it has another type."""
    value = record.get(name)
    if value is None:
        return 0
    if not isinstance(value, int):
        raise _wrong_kind(name, value, "a whole number", path)
    return value


def map_field(record: Record, name: str, path: str) -> Record:
    """A map field, empty if it is null or missing. Raises CorruptTimelineError if it has another type."""
    value = record.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _wrong_kind(name, value, "a map", path)
    return value


def texts_field(record: Record, name: str, path: str) -> tuple[str, ...]:
    """A list of texts, empty if it is null or missing. Raises CorruptTimelineError if it has another type."""
    return tuple(_list_of(str, record, name, path))


def records_field(record: Record, name: str, path: str) -> list[Record]:
    """A list of records, empty if it is null or missing. Raises CorruptTimelineError if it has another type."""
    return _list_of(dict, record, name, path)


def _list_of(kind: type, record: Record, name: str, path: str) -> list[Any]:
    value = record.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise _wrong_kind(name, value, f"a list of {kind.__name__}", path)
    return value


def _wrong_kind(name: str, value: object, expected: str, path: str) -> CorruptTimelineError:
    return CorruptTimelineError(path, None, f"{name} = {str(value)[:80]!r}", expected)


def parse_container(data: bytes, path: str) -> dict[str, Any]:
    """The record of a container file; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are not a complete container file of exactly one record.
        UnsupportedTableError: the schema contains itself, or the codec is not supported.
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
            datums = [inflate(stored, RAW_DEFLATE, max_inflated_bytes(len(stored))) for stored in datums]
        except ValueError as error:
            raise CorruptTimelineError(path, None, str(error), "a deflated Avro record") from error
    try:
        schema_text = metadata.get("avro.schema", b"").decode()
    except UnicodeDecodeError as error:
        raise CorruptTimelineError(path, None, f"a schema that is not text: {error.reason}", "UTF-8") from error
    try:
        avro = parse_avro_schema(schema_text, path)
    except CorruptTableError as error:
        raise CorruptTimelineError(path, None, error.found, error.expected) from error
    (datum,) = datums
    return read_datum(avro, datum, path)


@dataclass(slots=True, kw_only=True)
class _Cursor:
    """A position in the bytes of a file."""

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
            # A negative count is followed by the block's size in bytes.
            cursor.number()
        for _ in range(abs(count)):
            key = cursor.take(cursor.number()).decode("utf-8", "replace")
            yield key, cursor.take(cursor.number())
