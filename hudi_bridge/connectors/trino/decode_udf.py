"""Avro records of a log block -> JSON text, with the standard library alone.

The source text of this module runs in Trino's Python. A chunk is a part of a data block's content that holds whole
records: for each, its size in four bytes, big-endian, and its bytes. In JSON, bytes become hexadecimal text, and NaN
and infinities become text.

Source: the Avro specification, "Binary Encoding" and "JSON Encoding"; ``HoodieAvroDataBlock`` of Hudi.
"""

import json
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any

_SIZE = struct.Struct(">i")
_FLOATS = {"float": struct.Struct("<f"), "double": struct.Struct("<d")}
_MOST_DEPTH = 64
_MORE_FOLLOWS = 0x80
_LAST_SHIFT = 63
_WIDE = Context(prec=200)


def decode_chunk(chunk: bytes, schema_text: str) -> list[str]:
    """The records of a chunk as JSON texts."""
    schema = json.loads(schema_text)
    named: dict[str, Any] = {}
    collect_names(schema, "", named)
    records = []
    position = 0
    while position < len(chunk):
        if position + _SIZE.size > len(chunk):
            raise ValueError(f"the chunk ends at byte {len(chunk)}, in the size of a record")
        (size,) = _SIZE.unpack_from(chunk, position)
        position += _SIZE.size
        if size < 0 or position + size > len(chunk):
            raise ValueError(f"a record of {size} bytes at byte {position} of a chunk of {len(chunk)}")
        records.append(decode_record(chunk[position : position + size], schema, named))
        position += size
    return records


def decode_record(record: bytes, schema: Any, named: dict[str, Any]) -> str:  # noqa: ANN401 - any JSON
    """A record as JSON text."""
    value = _Reader(record, named).read(schema, "", 0)
    return json.dumps(value, ensure_ascii=False)


def collect_names(schema: Any, namespace: str, named: dict[str, Any]) -> None:  # noqa: ANN401 - any JSON
    """Add the named types of a schema to ``named``, by full name."""
    if isinstance(schema, list):
        for branch in schema:
            collect_names(branch, namespace, named)
    if not isinstance(schema, dict):
        return
    kind = schema.get("type")
    if kind in ("record", "error", "enum", "fixed"):
        name, namespace = full_name(schema, namespace)
        named[name] = schema
        for field in schema.get("fields", ()):
            collect_names(field["type"], namespace, named)
    elif isinstance(kind, dict | list):
        collect_names(kind, namespace, named)
    for inside in ("items", "values"):
        if inside in schema:
            collect_names(schema[inside], namespace, named)


def full_name(schema: dict[str, Any], namespace: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace of the types inside it."""
    name: str = schema["name"]
    if "." in name:
        return name, name.rpartition(".")[0]
    namespace = schema.get("namespace", namespace)
    return (f"{namespace}.{name}" if namespace else name), namespace


class _Reader:
    """Reads values from the bytes of one record."""

    def __init__(self, data: bytes, named: dict[str, Any]) -> None:
        self.data = data
        self.named = named
        self.position = 0

    def read(self, schema: Any, namespace: str, depth: int) -> Any:  # noqa: ANN401 - any JSON
        """The next value."""
        if depth > _MOST_DEPTH:
            raise ValueError(f"values of more than {_MOST_DEPTH} levels")
        if isinstance(schema, list):
            return self.read(schema[self.index(len(schema))], namespace, depth + 1)
        if isinstance(schema, str):
            named = self.named.get(f"{namespace}.{schema}") or self.named.get(schema)
            return self.primitive(schema, {}) if named is None else self.read(named, namespace, depth + 1)
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.read(kind, namespace, depth + 1)
        return self.complex(kind, schema, namespace, depth)

    def complex(self, kind: str, schema: dict[str, Any], namespace: str, depth: int) -> object:
        """The next value of a complex type."""
        if kind in ("record", "error"):
            _, inner = full_name(schema, namespace)
            return {field["name"]: self.read(field["type"], inner, depth + 1) for field in schema["fields"]}
        if kind == "array":
            return [self.read(schema["items"], namespace, depth + 1) for _ in self.entries()]
        if kind == "map":
            return {self.text(): self.read(schema["values"], namespace, depth + 1) for _ in self.entries()}
        if kind == "enum":
            return schema["symbols"][self.index(len(schema["symbols"]))]
        if kind == "fixed":
            return shown_bytes(self.take(schema["size"]), schema)
        if kind in self.named:
            return self.read(self.named[kind], namespace, depth + 1)
        return self.primitive(kind, schema)

    def primitive(self, kind: str, schema: dict[str, Any]) -> object:
        """The next value of a primitive type."""
        if kind == "null":
            return None
        if kind == "boolean":
            return self.take(1) != b"\0"
        if kind in ("int", "long"):
            return self.number()
        if kind in _FLOATS:
            layout = _FLOATS[kind]
            (value,) = layout.unpack(self.take(layout.size))
            return value if value - value == 0 else str(value)
        if kind == "string":
            return self.text()
        if kind == "bytes":
            return shown_bytes(self.take(self.number()), schema)
        raise ValueError(f"the type {kind!r} is unknown")

    def number(self) -> int:
        """The next integer, zigzag encoded."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & ~_MORE_FOLLOWS) << shift
            if byte < _MORE_FOLLOWS:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > _LAST_SHIFT:
                raise ValueError(f"a number of more than 64 bits before byte {self.position}")

    def index(self, choices: int) -> int:
        """The next index into a number of choices."""
        chosen = self.number()
        if not 0 <= chosen < choices:
            raise ValueError(f"choice {chosen} of {choices} before byte {self.position}")
        return chosen

    def entries(self) -> Iterator[int]:
        """One number for each entry of an array or a map, block by block."""
        while count := self.number():
            if count < 0:
                count = -count
                self.number()
            if count > len(self.data):
                raise ValueError(f"{count} entries before byte {self.position} of {len(self.data)}")
            yield from range(count)

    def text(self) -> str:
        """The next string."""
        return self.take(self.number()).decode()

    def take(self, size: int) -> bytes:
        """The next ``size`` bytes."""
        if size < 0 or self.position + size > len(self.data):
            raise ValueError(f"{size} bytes from byte {self.position} of a record of {len(self.data)}")
        taken = self.data[self.position : self.position + size]
        self.position += size
        return bytes(taken)


def shown_bytes(data: bytes, schema: dict[str, Any]) -> str:
    """Bytes as hexadecimal text; a decimal as its digits."""
    if schema.get("logicalType") != "decimal":
        return data.hex()
    scaled = Decimal(int.from_bytes(data, "big", signed=True))
    return format(scaled.scaleb(-schema.get("scale", 0), _WIDE), "f")
