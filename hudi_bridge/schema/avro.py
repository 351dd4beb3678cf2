"""Parses Avro schemas, as Hudi writes them into block headers and commits, and the defaults of their fields.

A logical type on the wrong underlying type is ignored, as the Avro 1.12 specification requires. An unknown logical type
is refused, because its values could mean anything. JSON strings with unpaired surrogates are refused too: they cannot
be encoded as UTF-8. Defaults, as Arrow values, stand for fields that the writer of a record did not know.

Source: ``HoodieSchema`` of Hudi 1.2 for VECTOR, VARIANT and BLOB; "Schema Resolution" of the Avro specification and
``ResolvingGrammarGenerator.encode`` of Avro for defaults.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Context, Decimal
from itertools import permutations
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.schema.avro_types import (
    BLOB,
    NULL,
    PRIMITIVE_TYPES,
    VARIANT,
    VECTOR,
    VECTOR_ELEMENTS,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroLogical,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    arrow_schema,
    arrow_type,
)
from hudi_bridge.schema.casts import Array, ArrowType

__all__ = [
    "NULL",
    "AvroArray",
    "AvroEnum",
    "AvroField",
    "AvroFixed",
    "AvroLogical",
    "AvroMap",
    "AvroPrimitive",
    "AvroRecord",
    "AvroType",
    "AvroUnion",
    "arrow_schema",
    "arrow_type",
    "inner_types",
    "parse_avro_schema",
]
_SURROGATE = re.compile("[\ud800-\udfff]")
# A named type may be used many times, so a short text can describe a tree of any size.
MAX_TYPES = 100_000
MAX_DEPTH = 64
"""Deeper schemas would end in Python's limit of recursion."""
_MAX_JAVA_INT = 2**31 - 1
_SHOWN_CHARACTERS = 80
_USUAL_BRANCHES = 2
_NULL_JSON = "null"
_LOGICAL_CARRIERS = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
    "uuid": "string",
}
# Hive's text of limited length, and Avro's duration: Hudi on Spark shows the underlying type.
_IGNORED = {"char", "varchar", "duration"}
_HANDLED = {"decimal", *_LOGICAL_CARRIERS, *_IGNORED}
_HUDI_CARRIERS = {VECTOR: "fixed", VARIANT: "record", BLOB: "record"}
_FIXED_BYTES = "FIXED_BYTES"
_VARIANT_PARTS = {"metadata", "value"}
# Each log block has the schema of its writer.
_PARSED_SCHEMAS = BoundedCache(1 << 20)
_COMPLEX_KINDS = {"record", "error", "enum", "fixed", "array", "map"}
_PLAIN = {kind: AvroPrimitive(kind=kind) for kind in PRIMITIVE_TYPES} | {"null": NULL}
_PLAIN_UNIONS: dict[tuple[object, ...], AvroUnion] = {
    (first, second): AvroUnion(branches=(_PLAIN[first], _PLAIN[second])) for first, second in permutations(_PLAIN, 2)
}
"""Most fields of most schemas have these types, so the objects are shared."""
Defaults: TypeAlias = tuple[tuple[str, str], ...]
"""Paths of fields, and their defaults as JSON. Within lists and maps, paths have ``element`` and ``value``."""
_EXACT = Context(prec=100)


def parse_json(data: str | bytes) -> Any:  # noqa: ANN401 - of any kind
    r"""The value of a JSON text.

    Raises:
        ValueError: the text is not JSON or not UTF-8, or has half of a surrogate pair, such as ``\ud800``.
        RecursionError: the text is nested too deeply.
    """
    text = data.decode("utf-8-sig") if isinstance(data, bytes) else data
    value = json.loads(text)
    if "\\u" in text or not text.isascii():
        _refuse_surrogates(value)
    return value


def _refuse_surrogates(value: object) -> None:
    match value:
        case str():
            if surrogate := _SURROGATE.search(value):
                raise ValueError(f"half of a character, {surrogate[0]!r}")
        case list():
            for item in value:
                _refuse_surrogates(item)
        case dict():
            for key, item in value.items():
                _refuse_surrogates(key)
                _refuse_surrogates(item)


def parse_avro_schema(text: str, path: str, offset: int | None = None) -> AvroRecord:
    """The record type of a schema in JSON; ``path`` and ``offset`` are its location, for errors.

    Raises:
        CorruptTableError: the text is not the schema of an Avro record.
        UnsupportedTableError: a type contains itself, or the tree is too large.
    """
    cached: AvroRecord | None = _PARSED_SCHEMAS.get(text)
    if cached is not None:
        return cached
    parser = _Parser(path=path, offset=offset)
    try:
        avro = parser.parse(parse_json(text), "")
    except ValueError as error:
        raise parser.corrupt(f"text that is not JSON ({error})", "an Avro schema") from error
    except RecursionError as error:
        raise _too_large("more levels than can be read", path) from error
    if not isinstance(avro, AvroRecord):
        raise parser.corrupt(f"a schema of {_shown(text)}", "the schema of a record")
    _refuse_large(avro, path)
    _PARSED_SCHEMAS.put(text, avro, len(text))
    return avro


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parser:
    """Turns decoded JSON into types; ``named`` has the named types so far, None for a type that is not complete."""

    path: str
    offset: int | None
    named: dict[str, AvroType | None] = field(default_factory=dict)

    def corrupt(self, actual: str, expected: str) -> CorruptTableError:
        return CorruptTableError(self.path, self.offset, actual, expected)

    def parse(self, node: object, namespace: str) -> AvroType:
        match node:
            case str() if node in _PLAIN:
                return _PLAIN[node]
            case str():
                return self._reference(node, namespace)
            case list():
                return self._union(node, namespace)
            case dict():
                return self._object(node, namespace)
        raise self.corrupt(f"the type {_shown(node)}", "an Avro type")

    def _object(self, node: dict[str, object], namespace: str) -> AvroType:
        kind = node.get("type")
        if isinstance(kind, dict | list):
            return self.parse(kind, namespace)
        if isinstance(kind, str) and kind in _PLAIN:
            logical = _logical(node, kind)
            return _PLAIN[kind] if logical is None else AvroPrimitive(kind=kind, logical=logical)
        if isinstance(kind, str) and kind not in _COMPLEX_KINDS:
            return self._reference(kind, namespace)
        return self._complex(node, namespace)

    def _complex(self, node: dict[str, object], namespace: str) -> AvroType:
        match node:
            case {"type": "record" | "error", "fields": [*fields]}:
                return self._record(node, fields, namespace)
            case {"type": "enum", "symbols": [*symbols]} if all(_is_name(symbol) for symbol in symbols):
                name = self._declare(node, namespace)
                _logical(node, "enum")
                return self._define(name, AvroEnum(name=name, symbols=tuple(map(str, symbols))))
            case {"type": "fixed", "size": int(size)} if 0 <= size <= _MAX_JAVA_INT:
                name = self._declare(node, namespace)
                logical = _logical(node, "fixed", size)
                return self._define(name, AvroFixed(name=name, size_bytes=size, logical=logical))
            case {"type": "array", "items": items}:
                _logical(node, "array")
                return AvroArray(items=self.parse(items, namespace))
            case {"type": "map", "values": values}:
                _logical(node, "map")
                return AvroMap(values=self.parse(values, namespace))
        raise self.corrupt(f"the type {_shown(node)}", "an Avro type")

    def _union(self, node: list[object], namespace: str) -> AvroUnion:
        if len(node) == _USUAL_BRANCHES and all(isinstance(branch, str) for branch in node):
            plain = _PLAIN_UNIONS.get(tuple(node))
            if plain is not None:
                return plain
        branches = tuple([self.parse(branch, namespace) for branch in node])
        labels = {_branch_label(branch) for branch in branches}
        if not branches or len(labels) < len(branches) or "union" in labels:
            raise self.corrupt(f"the union {_shown(node)}", "different types, none of them a union")
        return AvroUnion(branches=branches)

    def _record(self, node: dict[str, object], fields: list[object], namespace: str) -> AvroType:
        name = self._declare(node, namespace)
        inner = name.rpartition(".")[0]
        parsed = tuple([self._field(entry, inner) for entry in fields])
        if len({entry.name for entry in parsed}) < len(parsed):
            raise self.corrupt(f"the record {name} with two fields of one name", "fields of different names")
        logical = _logical(node, "record")
        if logical is not None and logical.name == VARIANT:
            _require_variant(name, parsed)
        return self._define(name, AvroRecord(name=name, fields=parsed, logical=logical))

    def _field(self, entry: object, namespace: str) -> AvroField:
        if not isinstance(entry, dict) or "type" not in entry or not _is_name(name := entry.get("name")):
            raise self.corrupt(f"the field {_shown(entry)}", "a field with a name and a type")
        default = None
        if "default" in entry:
            value = entry["default"]
            default = _NULL_JSON if value is None else json.dumps(value)
        return AvroField(name=name, type=self.parse(entry["type"], namespace), default_json=default)

    def _declare(self, node: dict[str, object], namespace: str) -> str:
        name, space = node.get("name"), node.get("namespace", namespace)
        if not isinstance(name, str) or not _is_name(name) or not isinstance(space, str | None):
            raise self.corrupt(f"the type {_shown(node)}", "a type with a name")
        full_name = name if "." in name or not space else f"{space}.{name}"
        if full_name in self.named:
            raise self.corrupt(f"two types named {full_name}", "one type of each name")
        self.named[full_name] = None
        return full_name

    def _define(self, name: str, avro: AvroType) -> AvroType:
        self.named[name] = avro
        return avro

    def _reference(self, name: str, namespace: str) -> AvroType:
        full_name = f"{namespace}.{name}" if "." not in name and f"{namespace}.{name}" in self.named else name
        if full_name not in self.named:
            raise self.corrupt(f"the type {_shown(name)}", "an Avro type, or one defined before")
        avro = self.named[full_name]
        if avro is None:
            actual = f"{full_name}, which contains itself, in {self.path}"
            raise UnsupportedTableError("Avro schema", actual, "types of a fixed depth")
        return avro


def _logical(node: dict[str, object], kind: str, size_bytes: int = _MAX_JAVA_INT) -> AvroLogical | None:
    if "logicalType" not in node:
        return None
    match node:
        case {"logicalType": "decimal", "precision": int(precision)} if kind in ("bytes", "fixed"):
            scale = node.get("scale", 0)
            most_digits = math.floor(math.log10(2) * (8 * size_bytes - 1))
            if isinstance(scale, int) and 0 < precision <= most_digits and 0 <= scale <= precision:
                return AvroLogical(name="decimal", precision=precision, scale=scale)
        case {"logicalType": str(name)} if _LOGICAL_CARRIERS.get(name) == kind:
            return AvroLogical(name=name)
        case {"logicalType": "vector"} if kind == "fixed":
            return _vector(node, size_bytes)
        case {"logicalType": str(name)} if _HUDI_CARRIERS.get(name) == kind:
            return AvroLogical(name=name)
        case {"logicalType": str(name)} if name not in _HANDLED:
            raise UnsupportedTableError(
                "logical type", f"{name} on {kind}", ", ".join(sorted(_HANDLED | {*_HUDI_CARRIERS}))
            )
    return None


def _vector(node: dict[str, object], size_bytes: int) -> AvroLogical:
    dimension, element = node.get("dimension"), node.get("elementType", "FLOAT")
    backing = node.get("storageBacking", _FIXED_BYTES)
    name = str(element).lower()
    width = VECTOR_ELEMENTS[name].bit_width // 8 if name in VECTOR_ELEMENTS else 0
    if isinstance(dimension, int) and 0 < dimension * width == size_bytes and backing == _FIXED_BYTES:
        return AvroLogical(name=VECTOR, dimension=dimension, element=name)
    actual = f"{dimension} times {element}, {backing}, in {size_bytes} bytes"
    raise UnsupportedTableError("VECTOR", actual, f"{', '.join(VECTOR_ELEMENTS)} in as many bytes as they take")


def _require_variant(name: str, fields: tuple[AvroField, ...]) -> None:
    parts = {field.name: field.type for field in fields}
    if parts.keys() == _VARIANT_PARTS and all(_is_bytes(part) for part in parts.values()):
        return
    raise UnsupportedTableError("VARIANT", f"{name} of {', '.join(parts)}", "metadata and value, which are bytes")


def _is_bytes(avro: AvroType) -> bool:
    bytes_type = AvroPrimitive(kind="bytes")
    return avro == bytes_type or (isinstance(avro, AvroUnion) and avro.members == (bytes_type,))


def _branch_label(branch: AvroType) -> str:
    match branch:
        case AvroPrimitive():
            return branch.kind
        case AvroArray():
            return "array"
        case AvroMap():
            return "map"
        case AvroUnion():
            return "union"
        case _:
            return f"named {branch.name}"


def inner_types(avro: AvroType) -> Iterator[AvroType]:
    """The type and all types within it."""
    yield avro
    for child in _children(avro):
        yield from inner_types(child)


def _refuse_large(record: AvroRecord, path: str) -> None:
    # A named type is one object wherever it is used, and is counted each time, but looked at only once.
    extents: dict[int, tuple[int, int]] = {}

    def extent(avro: AvroType) -> tuple[int, int]:
        """The number of types, and of levels."""
        measured = extents.get(id(avro))
        if measured is None:
            types, levels = 1, 0
            for child in _children(avro):
                of_child, below = (1, 1) if isinstance(child, AvroPrimitive) else extent(child)
                types += of_child
                levels = max(levels, below)
            measured = extents[id(avro)] = types, levels + 1
        return measured

    types, levels = extent(record)
    if levels > MAX_DEPTH:
        raise _too_large(f"more than {MAX_DEPTH} levels", path)
    if types > MAX_TYPES:
        raise _too_large(f"more than {MAX_TYPES} types", path)


def _children(avro: AvroType) -> tuple[AvroType, ...]:
    match avro:
        case AvroArray():
            return (avro.items,)
        case AvroMap():
            return (avro.values,)
        case AvroUnion():
            return avro.branches
        case AvroRecord():
            return tuple([entry.type for entry in avro.fields])
        case _:
            return ()


def _too_large(actual: str, path: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "Avro schema", f"{actual} in {path}", f"up to {MAX_TYPES} types, {MAX_DEPTH} levels deep"
    )


def _shown(node: object) -> str:
    text = repr(node)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _is_name(value: object) -> TypeGuard[str]:
    # Hudi can skip Avro's own check of names. Arrow cannot hold unpaired surrogates, which are not printable.
    return isinstance(value, str) and value.isprintable() and bool(value)


def iter_defaults(avro: AvroType, path: str = "") -> Iterator[tuple[str, str]]:
    """The defaults that are not null of all fields within a type that is at a path."""
    match avro:
        case AvroRecord():
            for field in avro.fields:
                of_field = f"{path}.{field.name}" if path else field.name
                if field.default_json not in (None, _NULL_JSON):
                    yield of_field, field.default_json
                yield from iter_defaults(field.type, of_field)
        case AvroArray():
            yield from iter_defaults(avro.items, f"{path}.element")
        case AvroMap():
            yield from iter_defaults(avro.values, f"{path}.value")
        case AvroUnion() if len(avro.members) == 1:
            yield from iter_defaults(avro.members[0], path)
        case _:
            return


def default_of(path: str, kind: ArrowType, defaults: Mapping[str, str]) -> "Array | None":
    """The default of the field at a path, an array of one value of the type; None if it is null.

    Raises:
        UnsupportedTableError: the default is not a value of the type.
    """
    text = defaults.get(path)
    if text is None:
        return None
    try:
        return pa.array([_value(parse_json(text), kind, path, defaults)], kind)
    except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
        raise UnsupportedTableError("default", f"{text} of {path}", f"values of type {kind}") from error


def repeated(value: Array, count: int) -> Array:
    """An array that repeats its only value."""
    return value.take(pa.array(np.zeros(count), pa.int64()))


def _value(value: Any, kind: ArrowType, path: str, defaults: Mapping[str, str]) -> object:  # noqa: ANN401 - JSON
    """A value of Avro's JSON as Arrow takes it. In JSON, bytes are texts, decimals are bytes, and dates and times are
    numbers.
    """
    if value is None:
        return None
    if pa.types.is_struct(kind):
        if not isinstance(value, dict):
            raise TypeError("no record")
        return {field.name: _field(value, field, f"{path}.{field.name}", defaults) for field in kind}
    if pa.types.is_map(kind):
        return [(key, _value(item, kind.item_type, f"{path}.value", defaults)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_value(item, kind.value_type, f"{path}.element", defaults) for item in value]
    if pa.types.is_binary(kind):
        return value.encode("latin-1")
    if pa.types.is_decimal(kind):
        unscaled = int.from_bytes(value.encode("latin-1"), "big", signed=True)
        return Decimal(unscaled).scaleb(-kind.scale, _EXACT)
    return value


def _field(record: Mapping[str, Any], field: "pa.Field[Any]", path: str, defaults: Mapping[str, str]) -> object:
    if field.name in record:
        return _value(record[field.name], field.type, path, defaults)
    of_field = default_of(path, field.type, defaults)
    return None if of_field is None else of_field[0]
