"""Reads one Avro datum into Python values, and checks every length before it is used.

A datum is read once, so what reads a type is composed as the datum needs it: of a union, the branches that occur.
Logical types are left as the numbers, texts or bytes that carry them.

Source: "Binary Encoding" of the Avro specification.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from hudi_bridge.errors import CorruptTimelineError, UnsupportedTableError
from hudi_bridge.schema.avro_types import (
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

# Position -> the value there, and the position after it.
_Reader: TypeAlias = Callable[[int], tuple[Any, int]]
_NumberReader: TypeAlias = Callable[[int], tuple[int, int]]

_CONTINUES = 0x80
_MAX_NUMBER_BYTES = 10
_FORMATS = {"boolean": struct.Struct("<?"), "float": struct.Struct("<f"), "double": struct.Struct("<d")}


def read_datum(avro: AvroRecord, data: bytes, path: str) -> dict[str, Any]:
    """The record that the bytes hold; ``path`` names their file in errors.

    Raises:
        CorruptTimelineError: the bytes are not exactly one such record.
        UnsupportedTableError: the record has an array that can be of any length in no bytes.
    """
    datum = _Datum(data, path)
    record, end = datum.record_reader(avro)(0)
    if end != len(data):
        raise datum.corrupt(end, "bytes after the last field", "the end of the record")
    return record


class _Datum:
    """The bytes of a datum, with functions that read values of a type from them."""

    def __init__(self, data: bytes, path: str) -> None:
        self._data = data
        self._path = path
        self._number = self._number_reader()

    def corrupt(self, position: int, found: str, expected: str) -> CorruptTimelineError:
        return CorruptTimelineError(self._path, None, f"{found} at byte {position} of the record", expected)

    def reader(self, avro: AvroType) -> _Reader:
        match avro:
            case AvroPrimitive():
                return self._primitive_reader(avro.kind)
            case AvroUnion():
                return self._union_reader(avro.branches)
            case AvroRecord():
                return self.record_reader(avro)
            case AvroArray():
                return self._array_reader(avro.items)
            case AvroMap():
                return self._map_reader(avro)
            case AvroEnum():
                return self._enum_reader(avro.symbols)
            case AvroFixed():
                return self._fixed_reader(avro.size_bytes)

    def _primitive_reader(self, kind: str) -> _Reader:
        match kind:
            case "null":
                return lambda position: (None, position)
            case "int" | "long":
                return self._number
            case "string":
                return self._text_reader()
            case "bytes":
                return self._bytes_reader()
        return self._packed_reader(_FORMATS[kind])

    def record_reader(self, avro: AvroRecord) -> Callable[[int], tuple[dict[str, Any], int]]:
        readers = [(field.name, self.reader(field.type)) for field in avro.fields]

        def read(position: int) -> tuple[dict[str, Any], int]:
            record: dict[str, Any] = {}
            for name, read_field in readers:
                record[name], position = read_field(position)
            return record, position

        return read

    def _number_reader(self) -> _NumberReader:
        data, size = self._data, len(self._data)

        def read(position: int) -> tuple[int, int]:
            if position < size and (byte := data[position]) < _CONTINUES:
                return (byte >> 1) ^ -(byte & 1), position + 1
            number = 0
            for place, byte in enumerate(data[position : position + _MAX_NUMBER_BYTES]):
                number |= (byte & 0x7F) << 7 * place
                if byte < _CONTINUES and not number >> 64:
                    return (number >> 1) ^ -(number & 1), position + place + 1
            raise self.corrupt(position, "no whole number", f"one in up to {_MAX_NUMBER_BYTES} bytes and 64 bits")

        return read

    def _union_reader(self, branches: tuple[AvroType, ...]) -> _Reader:
        data, size, read_number = self._data, len(self._data), self._number
        readers: dict[int, _Reader] = {}
        is_nullable = branches[0] == AvroPrimitive(kind="null")

        def read(position: int) -> tuple[Any, int]:
            if is_nullable and position < size and not data[position]:
                return None, position + 1
            branch, after = read_number(position)
            if branch not in readers:
                if not 0 <= branch < len(branches):
                    raise self.corrupt(position, f"branch {branch} of a union", f"one of its {len(branches)} branches")
                readers[branch] = self.reader(branches[branch])
            return readers[branch](after)

        return read

    def _bytes_reader(self) -> Callable[[int], tuple[bytes, int]]:
        data, size, read_number = self._data, len(self._data), self._number

        def read(position: int) -> tuple[bytes, int]:
            length, start = read_number(position)
            if not 0 <= length <= size - start:
                raise self.corrupt(position, f"a value of {length} bytes", f"0 to {size - start} bytes")
            return data[start : start + length], start + length

        return read

    def _text_reader(self) -> _Reader:
        read_bytes = self._bytes_reader()

        def read(position: int) -> tuple[str, int]:
            encoded, after = read_bytes(position)
            try:
                return encoded.decode(), after
            except UnicodeDecodeError as error:
                raise self.corrupt(position, f"damaged Avro ({error})", "text in UTF-8") from error

        return read

    def _fixed_reader(self, width: int) -> Callable[[int], tuple[bytes, int]]:
        data, size = self._data, len(self._data)

        def read(position: int) -> tuple[bytes, int]:
            if width > size - position:
                raise self.corrupt(position, f"{size - position} bytes left", f"a value of {width} bytes")
            return data[position : position + width], position + width

        return read

    def _packed_reader(self, packed: struct.Struct) -> _Reader:
        read_fixed = self._fixed_reader(packed.size)

        def read(position: int) -> tuple[Any, int]:
            encoded, after = read_fixed(position)
            return packed.unpack(encoded)[0], after

        return read

    def _enum_reader(self, symbols: tuple[str, ...]) -> _Reader:
        read_number = self._number

        def read(position: int) -> tuple[str, int]:
            symbol, after = read_number(position)
            if not 0 <= symbol < len(symbols):
                raise self.corrupt(position, f"symbol {symbol} of an enum", f"one of its {len(symbols)} symbols")
            return symbols[symbol], after

        return read

    def _array_reader(self, items: AvroType) -> _Reader:
        width = min_width(items)
        if not width:
            found = f"an array of items that take no bytes, in {self._path}"
            raise UnsupportedTableError("Avro schema", found, "items of at least one byte")
        return self._items_reader(self.reader(items), width)

    def _map_reader(self, avro: AvroMap) -> _Reader:
        # The length of the key is at least one byte.
        read_entries = self._items_reader(self.record_reader(avro.entry), 1)

        def read(position: int) -> tuple[dict[str, Any], int]:
            entries, after = read_entries(position)
            return {entry["key"]: entry["value"] for entry in entries}, after

        return read

    def _items_reader(self, read_item: _Reader, width: int) -> Callable[[int], tuple[list[Any], int]]:
        """A reader of blocks of items of at least ``width`` bytes each."""
        size, read_number = len(self._data), self._number

        def read(position: int) -> tuple[list[Any], int]:
            items: list[Any] = []
            while True:
                header = position
                count, position = read_number(position)
                if not count:
                    return items, position
                announced = None
                if count < 0:
                    announced, position = read_number(position)
                if abs(count) > (size - position) // width:
                    most = f"up to {(size - position) // width} items"
                    raise self.corrupt(header, f"a block of {abs(count)} array items", most)
                first = position
                for _ in range(abs(count)):
                    item, position = read_item(position)
                    items.append(item)
                if announced not in (None, position - first):
                    found = f"array items of {position - first} bytes"
                    raise self.corrupt(first, found, f"the {announced} bytes announced")

        return read
