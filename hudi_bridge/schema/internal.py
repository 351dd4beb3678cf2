"""Hudi's InternalSchema, the table schema with column ids (JSON as in ``SerDeHelper``).

Tables written with schema-on-read have it in ``latest_schema`` of commits and, in all versions, in ``.hoodie/.schema``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.schema.avro import parse_json
from hudi_bridge.schema.avro_types import VARIANT_FIELD, is_variant, vector_type

# In pyarrow's stubs, parametric types have no attributes.
SCHEMA_FOLDER = ".hoodie/.schema"
"""The folder of the schema history, relative to the table."""

ArrowType: TypeAlias = Any
_PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "time_millis": pa.time32("ms"),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_millis": pa.timestamp("ms", "UTC"),
    "local_timestamp_millis": pa.timestamp("ms"),
    "local_timestamp_micros": pa.timestamp("us"),
    "string": pa.string(),
    "uuid": pa.string(),
    "binary": pa.binary(),
}
_VECTOR = re.compile(r"vector\[([0-9]{1,9}),\s*(float|double|int8),\s*fixed_bytes\]")
_FIXED = re.compile(r"fixed\[[0-9]+\]")
_DECIMAL = re.compile(r"decimal(?:_bytes|_fixed)?\(([0-9]{1,2}),\s*([0-9]{1,2})\)(?:\[[0-9]+\])?")
_MAX_PRECISION = 38
_VARIANT_IDS = {"metadata": -2, "value": -1}
_BLOB_IDS = {"type": -10, "data": -11, "reference": -12}
# Deeper nesting could overflow the stack of recursive functions.
_MAX_DEPTH = 64
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column, or a field of a record."""

    id: int
    name: str
    optional: bool
    type: "FieldType"
    doc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    """A record; no two fields have the same name."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayType:
    """A list of elements of one type."""

    element_id: int
    element: "FieldType"
    element_optional: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MapType:
    """A map; Hudi writes only string keys."""

    key_id: int
    key: "FieldType"
    value_id: int
    value: "FieldType"
    value_optional: bool


# A primitive type is the Arrow type of its values.
FieldType: TypeAlias = RecordType | ArrayType | MapType | pa.DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalSchema:
    """A table schema with column ids; ``version_id`` is the instant that wrote it, as a number, or 0.

    Part of a ``SchemaVersion``. The classes of its fields are in ``hudi_bridge.schema.internal``.
    """

    version_id: int
    max_column_id: int
    fields: tuple[Field, ...]


def parse_internal_schema(text: str | bytes, path: str) -> InternalSchema:
    """The schema of a ``latest_schema`` entry; ``path`` names the file that holds it.

    Raises:
        CorruptTimelineError: the text is not an InternalSchema.
    """
    return _Parser(path).schema(_load(text, path))


def parse_schema_history(text: str | bytes, path: str) -> tuple[InternalSchema, ...]:
    """The schemas of a ``.schemacommit`` file, newest first.

    Raises:
        CorruptTimelineError: the text is not a schema history.
    """
    parser = _Parser(path)
    return tuple(parser.schema(node) for node in parser.get(_load(text, path), "schemas", list))


def schema_for_instant(history: Sequence[InternalSchema], instant: str) -> InternalSchema | None:
    """The schema in force at an instant: the last one whose version is not later; None if all are later."""
    version = int(instant) if instant.isascii() and instant.isdigit() else -1
    earlier = [schema for schema in history if schema.version_id <= version]
    return max(earlier, key=lambda schema: schema.version_id, default=None)


def to_arrow(schema: InternalSchema) -> pa.Schema:
    """The Arrow schema of the table's rows; every column, element and value is nullable."""
    return pa.schema([_field_of(field.name, field.type) for field in schema.fields])


def has_constant_ids(record: RecordType) -> bool:
    """Whether a record is a VARIANT or a BLOB. Hudi gives their parts the same ids in every column.

    Source: ``InternalSchemaConverter.visitPrimitiveToBuildInternalType`` of Hudi 1.2.
    """
    return _ids_by_name(record) in (_VARIANT_IDS, _BLOB_IDS)


def internal_from_arrow(schema: pa.Schema) -> InternalSchema:
    """The schema with ids by position, siblings before their children.

    These are the ids that Hudi gives to the same columns in the same order.
    """
    next_id = count(len(schema))
    fields = tuple(
        Field(id=i, name=field.name, optional=field.nullable, type=_internal_type_of(field, next_id))
        for i, field in enumerate(schema)
    )
    return InternalSchema(version_id=0, max_column_id=next(next_id) - 1, fields=fields)


def _field_of(name: str, type_: FieldType) -> "pa.Field[ArrowType]":
    is_variant_type = isinstance(type_, RecordType) and _ids_by_name(type_) == _VARIANT_IDS
    return pa.field(name, _arrow_type(type_), metadata=VARIANT_FIELD if is_variant_type else None)


def _arrow_type(type_: FieldType) -> pa.DataType:
    match type_:
        case RecordType():
            return pa.struct([_field_of(field.name, field.type) for field in type_.fields])
        case ArrayType():
            return pa.list_(_field_of("element", type_.element))
        case MapType():
            return pa.map_(_arrow_type(type_.key), _arrow_type(type_.value))
        case _:
            return type_


def _internal_type_of(field: "pa.Field[ArrowType]", next_id: "count[int]") -> FieldType:
    if not is_variant(field):
        return _internal_type(field.type, next_id)
    parts: ArrowType = field.type
    return RecordType(
        fields=tuple(
            Field(id=_VARIANT_IDS[part.name], name=part.name, optional=False, type=part.type) for part in parts
        )
    )


def _internal_type(type_: ArrowType, next_id: "count[int]") -> FieldType:
    if pa.types.is_struct(type_):
        ids = [next(next_id) for _ in range(type_.num_fields)]
        children = [type_.field(i) for i in range(type_.num_fields)]
        return RecordType(
            fields=tuple(
                Field(id=id_, name=child.name, optional=child.nullable, type=_internal_type_of(child, next_id))
                for id_, child in zip(ids, children, strict=True)
            )
        )
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return ArrayType(
            element_id=next(next_id),
            element=_internal_type_of(type_.value_field, next_id),
            element_optional=type_.value_field.nullable,
        )
    if pa.types.is_map(type_):
        return MapType(
            key_id=next(next_id),
            key=type_.key_type,
            value_id=next(next_id),
            value=_internal_type_of(type_.item_field, next_id),
            value_optional=type_.item_field.nullable,
        )
    primitive: pa.DataType = type_
    return primitive


def _load(text: str | bytes, path: str) -> object:
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise CorruptTimelineError(path, None, f"text that is not JSON: {error}", "a schema in JSON") from error


@dataclass(frozen=True, slots=True)
class _Parser:
    """Turns JSON values into schemas; ``path`` is for errors."""

    path: str

    def schema(self, node: object) -> InternalSchema:
        version_id = self.get(node, "version_id", int, default=0)
        fields = self._fields(node, 0)
        ids = list(_ids(RecordType(fields=fields)))
        if len(set(ids)) < len(ids) or min(ids, default=0) < 0:
            raise self._error("column ids that repeat or are negative", "one id for each column")
        max_column_id = self.get(node, "max_column_id", int, default=max(ids, default=-1))
        return InternalSchema(version_id=version_id, max_column_id=max_column_id, fields=fields)

    def get(self, node: object, key: str, kind: type[_Value], default: _Value | None = None) -> _Value:
        """The value of a key; early releases wrote dashes instead of underscores."""
        if not isinstance(node, dict):
            raise self._error(f"{_shown(node)}", "a JSON object")
        value = node.get(key, node.get(key.replace("_", "-"), default))
        if value is None or not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self._error(f"{key} = {_shown(value)}", f"{key} of type {kind.__name__}")
        return value

    def _fields(self, node: object, depth: int) -> tuple[Field, ...]:
        fields = tuple(self._field(item, depth) for item in self.get(node, "fields", list))
        if len({field.name for field in fields}) < len(fields):
            raise self._error("two fields of one name", "names that differ within a record")
        return fields

    def _field(self, node: object, depth: int) -> Field:
        doc = node.get("doc") if isinstance(node, dict) else None
        return Field(
            id=self.get(node, "id", int),
            name=self.get(node, "name", str),
            optional=self.get(node, "optional", bool),
            type=self._type(self.get(node, "type", object), depth + 1),
            doc=doc if isinstance(doc, str) else None,
        )

    def _type(self, node: object, depth: int) -> FieldType:
        if depth > _MAX_DEPTH:
            raise self._error(f"types nested more than {_MAX_DEPTH} deep", "a schema of a table")
        if isinstance(node, str):
            return self._primitive(node)
        kind = self.get(node, "type", str)
        match kind:
            case "record":
                return RecordType(fields=self._fields(node, depth))
            case "array":
                return self._array(node, depth)
            case "map":
                return self._map(node, depth)
            case _:
                raise self._error(f"type {_shown(kind)}", "record, array or map")

    def _array(self, node: object, depth: int) -> ArrayType:
        return ArrayType(
            element_id=self.get(node, "element_id", int),
            element=self._type(self.get(node, "element", object), depth + 1),
            element_optional=self.get(node, "element_optional", bool),
        )

    def _map(self, node: object, depth: int) -> MapType:
        return MapType(
            key_id=self.get(node, "key_id", int),
            key=self._type(self.get(node, "key", object), depth + 1),
            value_id=self.get(node, "value_id", int),
            value=self._type(self.get(node, "value", object), depth + 1),
            value_optional=self.get(node, "value_optional", bool),
        )

    def _primitive(self, text: str) -> pa.DataType:
        name = text.lower()
        if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        if _FIXED.fullmatch(name):
            return pa.binary()
        if match := _VECTOR.fullmatch(name):
            return vector_type(match[2], int(match[1]))
        if match := _DECIMAL.fullmatch(name):
            precision, scale = map(int, match.groups())
            if 1 <= precision <= _MAX_PRECISION and scale <= precision:
                return pa.decimal128(precision, scale)
        raise self._error(f"type {_shown(text)}", "a type of Hudi's InternalSchema")

    def _error(self, actual: str, expected: str) -> CorruptTimelineError:
        return CorruptTimelineError(self.path, None, actual, expected)


def _shown(value: object) -> str:
    """The value, shortened for a message."""
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."  # noqa: PLR2004 - one line


def _ids_by_name(record: RecordType) -> dict[str, int]:
    return {field.name: field.id for field in record.fields}


def _ids(type_: FieldType) -> Sequence[int]:
    """All ids within a type that belong to one field alone."""
    match type_:
        case RecordType() if has_constant_ids(type_):
            # They repeat from column to column, and the reference of a BLOB has ids of the table's first columns.
            return []
        case RecordType():
            return [id_ for field in type_.fields for id_ in (field.id, *_ids(field.type))]
        case ArrayType():
            return [type_.element_id, *_ids(type_.element)]
        case MapType():
            return [type_.key_id, type_.value_id, *_ids(type_.key), *_ids(type_.value)]
        case _:
            return []
