"""The bytes of an Avro container file of one record -> the record as plain Python values.

    magic     "Obj" and 1
    metadata  a map of bytes: ``avro.schema``, ``avro.codec``
    sync      16 bytes that end every block
    blocks    a count of records, the length of their bytes, the bytes, the sync marker

Source: "Object Container Files" of the Avro specification.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import CorruptTimelineError, UnsupportedTableError
from hudi_bridge.logformat.inflating import RAW_DEFLATE, inflate, max_inflated_bytes
from hudi_bridge.timeline.avro_datums import datum_type, iter_datums

MAGIC = b"Obj\x01"

_SYNC_BYTES = 16
_CONTINUES = 0x80
_NUMBER_BYTES = 10


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
            datums = [inflate(stored, RAW_DEFLATE, max_inflated_bytes(len(stored))) for stored in datums]
        except ValueError as error:
            raise CorruptTimelineError(path, None, str(error), "a deflated Avro record") from error
    try:
        schema_text = metadata.get("avro.schema", b"").decode()
    except UnicodeDecodeError as error:
        raise CorruptTimelineError(path, None, f"a schema that is not text: {error.reason}", "UTF-8") from error
    (datum,) = datums
    (record,) = iter_datums(datum_type(schema_text, path), pa.py_buffer(datum), [(0, len(datum))], path, 0)
    return record


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
