"""The record in a timeline file, and typed access to its fields.

Commits are JSON in layout 1 and Avro in layout 2. Plans, cleans, rollbacks, restores and savepoints are Avro in both.
An Avro file is an object container file with one record.

The commits of a table have few schemas, and checks read all of them. So a reader is composed once for each schema, from
a function for each type, and every length is checked before it is used. Logical types stay the numbers, texts or bytes
that represent them.

Source: ``TimelineMetadataUtils``, ``CommitMetadataSerDeV1``; "Object Container Files" and "Binary Encoding" of the Avro
specification.
"""

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.errors import CorruptTableError, CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.hfile_blocks import RAW_DEFLATE, inflate, max_inflated_bytes
from hudi_bridge.schema.avro import parse_avro_schema, parse_json
from hudi_bridge.schema.avro_types import (
    NULL,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    min_width,
)

# Data, position -> the value there, and the position after it.
_Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]

_CONTINUATION_BIT = 0x80
_MAX_NUMBER_BYTES = 10
# Parsed schemas are cached objects, compared by identity: comparing them takes longer than reading a small commit.
_READERS = BoundedCache(64)
_SECOND_BRANCH = 2
"""The byte of the branch 1 of a union."""
_FORMATS = {"boolean": struct.Struct("<?"), "float": struct.Struct("<f"), "double": struct.Struct("<d")}
MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
Record = Mapping[str, Any]


class _DamageError(Exception):
    """Damage at a position of a datum; callers turn it into an error that names the file."""

    def __init__(self, position: int, actual: str, expected: str) -> None:
        super().__init__(actual)
        self.found = f"{actual} at byte {position} of the record"
        self.expected = expected


class _EmptyItemsError(Exception):
    """A schema has an array that can be of any length in no bytes."""


def read_datum(avro: AvroRecord, data: bytes, path: str) -> dict[str, Any]:
    """The record in the bytes; ``path`` names their file in errors.

    Raises:
        CorruptTimelineError: the bytes are not exactly one such record.
        UnsupportedTableError: the record has an array that can be of any length in no bytes.
    """
    try:
        record, end = _cached_reader(avro)(data, 0)
    except _DamageError as error:
        raise CorruptTimelineError(path, None, error.found, error.expected) from error
    except _EmptyItemsError as error:
        actual = f"an array of items that take no bytes, in {path}"
        raise UnsupportedTableError("Avro schema", actual, "items of at least one byte") from error
    if end != len(data):
        actual = f"bytes after the last field at byte {end} of the record"
        raise CorruptTimelineError(path, None, actual, "the end of the record")
    values: dict[str, Any] = record
    return values


def _cached_reader(avro: AvroRecord) -> _Reader:
    cached: tuple[AvroRecord, _Reader] | None = _READERS.get(id(avro))
    if cached is None:
        # The entry refers to the type, so that no other can have its id.
        cached = avro, _record_reader(avro)
        _READERS.put(id(avro), cached, 1)
    return cached[1]


def _reader(avro: AvroType) -> _Reader:
    match avro:
        case AvroPrimitive():
            return _primitive_reader(avro.kind)
        case AvroUnion():
            return _union_reader(avro.branches)
        case AvroRecord():
            return _record_reader(avro)
        case AvroArray():
            return _array_reader(avro.items)
        case AvroMap():
            return _map_reader(avro)
        case AvroEnum():
            return _enum_reader(avro.symbols)
        case AvroFixed():
            return _fixed_reader(avro.size_bytes)


def _primitive_reader(kind: str) -> _Reader:
    match kind:
        case "null":
            return lambda _, position: (None, position)
        case "int" | "long":
            return _number
        case "string":
            return _text
        case "bytes":
            return _bytes
    return _packed_reader(_FORMATS[kind])


def _record_reader(avro: AvroRecord) -> _Reader:
    fields = [(field.name, _second_reader(field.type), _reader(field.type)) for field in avro.fields]

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        record: dict[str, Any] = {}
        # Positions are not checked for each field: the last two bytes are read by functions that check.
        last = len(data) - 2
        for name, read_second, read_field in fields:
            if read_second is None or position > last:
                record[name], position = read_field(data, position)
            # Nearly all fields of timeline files are such unions, null or a short number: these take no call.
            elif not (branch := data[position]):
                record[name] = None
                position += 1
            elif branch != _SECOND_BRANCH:
                record[name], position = read_field(data, position)
            elif read_second is _number and (byte := data[position + 1]) < _CONTINUATION_BIT:
                record[name] = (byte >> 1) ^ -(byte & 1)
                position += 2
            else:
                record[name], position = read_second(data, position + 1)
        return record, position

    return read


def _second_reader(avro: AvroType) -> _Reader | None:
    """The reader of the second branch, where the first is null and the second a primitive."""
    match avro:
        case AvroUnion(branches=(first, AvroPrimitive() as second, *_)) if first == NULL:
            return _primitive_reader(second.kind)
    return None


def _number(data: bytes, position: int) -> tuple[int, int]:
    # Most have one byte or two, which takes no loop.
    left = len(data) - position
    if left > 0 and (low := data[position]) < _CONTINUATION_BIT:
        return (low >> 1) ^ -(low & 1), position + 1
    if left > 1 and (high := data[position + 1]) < _CONTINUATION_BIT:
        number = low & 0x7F | high << 7
        return (number >> 1) ^ -(number & 1), position + 2
    number = 0
    for index, byte in enumerate(data[position : position + _MAX_NUMBER_BYTES]):
        number |= (byte & 0x7F) << 7 * index
        if byte < _CONTINUATION_BIT and not number >> 64:
            return (number >> 1) ^ -(number & 1), position + index + 1
    raise _DamageError(position, "no whole number", f"one in up to {_MAX_NUMBER_BYTES} bytes and 64 bits")


def _bytes(data: bytes, position: int) -> tuple[bytes, int]:
    length, start = _number(data, position)
    if not 0 <= length <= len(data) - start:
        raise _DamageError(position, f"a value of {length} bytes", f"0 to {len(data) - start} bytes")
    return data[start : start + length], start + length


def _text(data: bytes, position: int) -> tuple[str, int]:
    length, start = _number(data, position)
    after = start + length
    if length < 0 or after > len(data):
        raise _DamageError(position, f"a value of {length} bytes", f"0 to {len(data) - start} bytes")
    try:
        return data[start:after].decode(), after
    except UnicodeDecodeError as error:
        raise _DamageError(position, f"damaged Avro ({error})", "text in UTF-8") from error


def _union_reader(branches: tuple[AvroType, ...]) -> _Reader:
    readers: dict[int, _Reader] = {}

    def read(data: bytes, position: int) -> tuple[Any, int]:
        branch, after = _number(data, position)
        read_branch = readers.get(branch)
        if read_branch is None:
            if not 0 <= branch < len(branches):
                raise _DamageError(position, f"branch {branch} of a union", f"one of its {len(branches)} branches")
            read_branch = readers[branch] = _reader(branches[branch])
        return read_branch(data, after)

    return read


def _packed_reader(packed: struct.Struct) -> _Reader:
    read_fixed = _fixed_reader(packed.size)

    def read(data: bytes, position: int) -> tuple[Any, int]:
        encoded, after = read_fixed(data, position)
        return packed.unpack(encoded)[0], after

    return read


def _fixed_reader(width: int) -> _Reader:
    def read(data: bytes, position: int) -> tuple[bytes, int]:
        left = len(data) - position
        if width > left:
            raise _DamageError(position, f"{left} bytes left", f"a value of {width} bytes")
        return data[position : position + width], position + width

    return read


def _enum_reader(symbols: tuple[str, ...]) -> _Reader:
    def read(data: bytes, position: int) -> tuple[str, int]:
        symbol, after = _number(data, position)
        if not 0 <= symbol < len(symbols):
            raise _DamageError(position, f"symbol {symbol} of an enum", f"one of its {len(symbols)} symbols")
        return symbols[symbol], after

    return read


def _array_reader(items: AvroType) -> _Reader:
    width = min_width(items)
    if not width:
        raise _EmptyItemsError
    return _items_reader(_reader(items), width)


def _map_reader(avro: AvroMap) -> _Reader:
    # The length of the key is at least one byte.
    read_entries = _items_reader(_record_reader(avro.entry), 1)

    def read(data: bytes, position: int) -> tuple[dict[str, Any], int]:
        entries, after = read_entries(data, position)
        return {entry["key"]: entry["value"] for entry in entries}, after

    return read


def _items_reader(read_item: _Reader, width: int) -> _Reader:
    """A reader of blocks of items of at least ``width`` bytes each."""

    def read(data: bytes, position: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        size = len(data)
        while True:
            header = position
            count, position = _number(data, position)
            if not count:
                return items, position
            announced = None
            if count < 0:
                announced, position = _number(data, position)
            if abs(count) > (size - position) // width:
                most = f"up to {(size - position) // width} items"
                raise _DamageError(header, f"a block of {abs(count)} array items", most)
            first = position
            for _ in range(abs(count)):
                item, position = read_item(data, position)
                items.append(item)
            if announced not in (None, position - first):
                actual = f"array items of {position - first} bytes"
                raise _DamageError(first, actual, f"the {announced} bytes announced")

    return read


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
        actual = f"{data[:16]!r}, {len(data)} bytes that are neither ({error})"
        raise CorruptTimelineError(path, offset, actual, "JSON or an Avro container") from error
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

    def corrupt(self, position: int, actual: str, expected: str) -> CorruptTimelineError:
        return CorruptTimelineError(self.path, position, actual, expected)

    def number(self) -> int:
        try:
            number, self.position = _number(self.data, self.position)
        except _DamageError as error:
            raise self.corrupt(self.position, error.found, "a part of an Avro container") from error
        return number

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
