"""Decodes the payload of delete blocks of content versions 1 and 2, which Hudi up to 0.12 wrote with Kryo 4.

It is a ``HoodieKey[]`` (version 1) or a ``DeleteRecord[]`` (version 2):

    varint         little-endian base-128, a ninth byte has 8 bits; signed values are zigzag encoded
    class tag      varint: 0 null; 1 a name: varint name id, then the name if new; otherwise 2 + registered id
    reference tag  varint: 0 null; 1 a new object, which takes the next object id; otherwise 2 + an earlier id
    string         ASCII, top bit of the last byte set; or, top bit of the first byte set, varint of length + 1
                   (the first byte holds 6 bits, and 0x40 if more follow) and UTF-16 units of 1 to 3 bytes
    array          class tag, reference tag, varint of length + 1, elements
    object         class tag, reference tag, fields in the order of their names

Fields of type String carry no class tag, wrapped primitives no reference tag.

Source: ``SerializationUtils``.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any, NamedTuple

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.layout import OrderingKind

_KEY_CLASS = "org.apache.hudi.common.model.HoodieKey"
_RECORD_CLASS = "org.apache.hudi.common.model.DeleteRecord"

# The classes that Kryo 4 and Hudi's instantiator register; their ids count from 0.
_REGISTERED = (
    "int",
    "java.lang.String",
    "float",
    "boolean",
    "byte",
    "char",
    "short",
    "long",
    "double",
    "void",
    "org.apache.avro.util.Utf8",
)

# The ninth byte of a varint has no continuation bit.
_LAST_VARINT_SHIFT = 56
_CONTINUATION_BIT = 0x80
_TOP_BIT = 0x80
_MAX_SHOWN_CHARACTERS = 80
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FLOAT = struct.Struct(">f")
_DOUBLE = struct.Struct(">d")


@dataclass(frozen=True, slots=True, kw_only=True)
class KryoDelete:
    """One deleted key; ``ordering`` is a Python value of ``kind``, a decimal as (unscaled value, scale)."""

    record_key: str | None
    partition_path: str | None
    kind: OrderingKind
    ordering: Any


class _Key(NamedTuple):
    partition_path: str | None
    record_key: str | None


class _BigDecimal(NamedTuple):
    unscaled: int
    scale: int


def decode_deletes(payload: bytes, path: str, offset: int) -> tuple[KryoDelete, ...]:
    """The elements of a ``HoodieKey[]`` or ``DeleteRecord[]``; ``offset`` is where the payload begins in the file.

    Raises:
        CorruptLogFileError: the payload ends early or late, or refers to an object that it does not have.
        UnsupportedTableError: the payload holds an object of another class.
    """
    cursor = _Cursor(payload=payload, path=path, offset=offset)
    root = cursor.class_name()
    elements: dict[str, Callable[[_Cursor], KryoDelete]] = {
        f"[L{_KEY_CLASS};": _read_key_element,
        f"[L{_RECORD_CLASS};": _read_record_element,
    }
    if root not in elements:
        raise cursor.unsupported(root, tuple(elements))
    cursor.new_object("an array")
    count = cursor.varint() - 1
    # An element takes at least two bytes: a greater count is damage, and must not start a long loop.
    if count < 0 or 2 * count > len(payload):
        raise cursor.corrupt(f"an array of {count} elements", f"at most {len(payload) // 2}")
    deletes = tuple(elements[root](cursor) for _ in range(count))
    if cursor.position != len(payload):
        raise cursor.corrupt(f"{len(payload) - cursor.position} bytes left over", "the end of the delete block")
    return deletes


def _read_key_element(cursor: "_Cursor") -> KryoDelete:
    key = _read_key(cursor)
    return KryoDelete(
        record_key=key.record_key, partition_path=key.partition_path, kind=OrderingKind.NULL, ordering=None
    )


def _read_record_element(cursor: "_Cursor") -> KryoDelete:
    name = cursor.class_name()
    if name != _RECORD_CLASS:
        raise cursor.unsupported(name, (_RECORD_CLASS,))
    cursor.new_object("a delete record")
    key = _read_key(cursor)
    kind, ordering = _read_ordering(cursor)
    return KryoDelete(record_key=key.record_key, partition_path=key.partition_path, kind=kind, ordering=ordering)


def _read_key(cursor: "_Cursor") -> _Key:
    """The HoodieKey of a record, or a reference to an earlier one."""
    name = cursor.class_name()
    if name != _KEY_CLASS:
        raise cursor.unsupported(name, (_KEY_CLASS,))
    key: _Key | None = cursor.shared(cursor.key_fields, _Key)
    if key is None:
        raise cursor.corrupt("a null", "a HoodieKey")
    return key


def _read_ordering(cursor: "_Cursor") -> tuple[OrderingKind, Any]:
    name = cursor.class_name()
    if name is None:
        return OrderingKind.NULL, None
    if name not in _ORDERING_READERS:
        raise cursor.unsupported(name, tuple(_ORDERING_READERS))
    kind, read = _ORDERING_READERS[name]
    value = read(cursor)
    return (OrderingKind.NULL if value is None else kind), value


@dataclass(slots=True, kw_only=True)
class _Cursor:
    """A position in the payload, with the class names and objects read so far."""

    payload: bytes
    path: str
    offset: int
    position: int = 0
    names: list[str] = field(default_factory=list)
    objects: list[Any] = field(default_factory=list)

    def corrupt(self, actual: str, expected: str) -> CorruptLogFileError:
        return CorruptLogFileError(self.path, self.offset + self.position, actual, expected)

    def unsupported(self, name: str | None, supported: tuple[str, ...]) -> UnsupportedTableError:
        shown = "null" if name is None else name[:_MAX_SHOWN_CHARACTERS]
        location = f"{self.path} at byte {self.offset + self.position}"
        return UnsupportedTableError("class in a delete block", f"{shown} in {location}", ", ".join(supported))

    def take(self, length: int) -> bytes:
        end = self.position + length
        if not 0 <= length <= len(self.payload) - self.position:
            raise self.corrupt(f"a value of {length} bytes", f"at most {len(self.payload) - self.position}")
        taken = self.payload[self.position : end]
        self.position = end
        return taken

    def byte(self) -> int:
        return self.take(1)[0]

    def varint(self) -> int:
        value = 0
        for shift in range(0, _LAST_VARINT_SHIFT, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < _CONTINUATION_BIT:
                return value
        return value | self.byte() << _LAST_VARINT_SHIFT

    def zigzag(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def class_name(self) -> str | None:
        tag = self.varint()
        if tag == 0:
            return None
        if tag > 1:
            number = tag - 2
            return _REGISTERED[number] if number < len(_REGISTERED) else f"the class registered as {number}"
        name_id = self.varint()
        if name_id == len(self.names):
            self.names.append(self.string() or "")
        if name_id >= len(self.names):
            raise self.corrupt(f"class name {name_id}", f"one of the {len(self.names)} met so far")
        return self.names[name_id]

    def new_object(self, what: str) -> None:
        tag = self.varint()
        if tag != 1:
            raise self.corrupt(f"reference tag {tag}", f"1, for {what}")
        self.objects.append(None)

    def shared(self, read: Callable[[], Any], expected: type) -> Any:  # noqa: ANN401 - as read returns
        """The object after a reference tag: null, an earlier object, or a new one."""
        tag = self.varint()
        if tag == 0:
            return None
        if tag == 1:
            number = len(self.objects)
            self.objects.append(None)
            self.objects[number] = read()
            return self.objects[number]
        if tag - 2 >= len(self.objects) or not isinstance(self.objects[tag - 2], expected):
            raise self.corrupt(f"a reference to object {tag - 2}", f"an earlier {expected.__name__.lstrip('_')}")
        return self.objects[tag - 2]

    def key_fields(self) -> _Key:
        partition_path = self.shared(self.string, str)
        return _Key(partition_path=partition_path, record_key=self.shared(self.string, str))

    def string(self) -> str | None:
        first = self.byte()
        if first & _TOP_BIT:
            return self._long_string(first)
        start = self.position - 1
        while not self.byte() & _TOP_BIT:
            pass
        text = self.payload[start : self.position]
        return (text[:-1] + bytes([text[-1] & 0x7F])).decode("ascii")

    def _long_string(self, first: int) -> str | None:
        length = first & 0x3F
        if first & 0x40:
            length |= self.varint() << 6
        if length == 0:
            return None
        if length - 1 > len(self.payload) - self.position:
            raise self.corrupt(f"a string of {length - 1} characters", f"at most {len(self.payload) - self.position}")
        units = b"".join(self._utf16_unit().to_bytes(2, "big") for _ in range(length - 1))
        try:
            return units.decode("utf-16-be")
        except UnicodeDecodeError as error:
            raise self.corrupt(f"a string that is not text: {error.reason}", "UTF-16") from error

    def _utf16_unit(self) -> int:
        first = self.byte()
        match first >> 4:
            case 12 | 13:
                return (first & 0x1F) << 6 | self.byte() & 0x3F
            case 14:
                return (first & 0x0F) << 12 | (self.byte() & 0x3F) << 6 | self.byte() & 0x3F
        return first

    def utf8(self) -> str:
        try:
            return self.take(self.varint() - 1).decode()
        except UnicodeDecodeError as error:
            raise self.corrupt(f"a string that is not text: {error.reason}", "UTF-8") from error

    def decimal(self) -> _BigDecimal:
        unscaled = int.from_bytes(self.take(self.varint() - 1), "big", signed=True)
        return _BigDecimal(unscaled=unscaled, scale=self.zigzag())

    def timestamp(self) -> int:
        """Microseconds since 1970-01-01; Kryo stores milliseconds."""
        millis = self.varint()
        return (millis - (1 << 64) if millis >= 1 << 63 else millis) * 1000

    def local_date(self) -> int:
        """Days since 1970-01-01."""
        year, month, day = self.varint(), self.byte(), self.byte()
        try:
            return date(year, month, day).toordinal() - _EPOCH_ORDINAL
        except (ValueError, OverflowError) as error:
            raise self.corrupt(f"the date {year}-{month}-{day}", "a day of the calendar") from error


_ORDERING_READERS: dict[str, tuple[OrderingKind, Callable[[_Cursor], Any]]] = {
    "int": (OrderingKind.INT, _Cursor.zigzag),
    "long": (OrderingKind.LONG, _Cursor.zigzag),
    "float": (OrderingKind.FLOAT, lambda cursor: _FLOAT.unpack(cursor.take(_FLOAT.size))[0]),
    "double": (OrderingKind.DOUBLE, lambda cursor: _DOUBLE.unpack(cursor.take(_DOUBLE.size))[0]),
    "boolean": (OrderingKind.BOOLEAN, lambda cursor: cursor.byte() != 0),
    "java.lang.String": (OrderingKind.STRING, lambda cursor: cursor.shared(cursor.string, str)),
    "org.apache.avro.util.Utf8": (OrderingKind.UTF8, lambda cursor: cursor.shared(cursor.utf8, str)),
    "java.math.BigDecimal": (OrderingKind.DECIMAL, lambda cursor: cursor.shared(cursor.decimal, _BigDecimal)),
    "java.sql.Timestamp": (
        OrderingKind.TIMESTAMP_MICROS,
        lambda cursor: cursor.shared(cursor.timestamp, int),
    ),
    "java.time.LocalDate": (OrderingKind.DATE, lambda cursor: cursor.shared(cursor.local_date, int)),
}
