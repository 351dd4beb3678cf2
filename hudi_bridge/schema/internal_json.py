"""Writes InternalSchemas as Hudi's JSON (``SerDeHelper``), which ``hudi_bridge.schema.internal`` reads."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.difference import primitive_name
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType


def schema_history_json(versions: Sequence[InternalSchema]) -> str:
    """The text of a ``.schemacommit`` file; ``versions`` come oldest first.

    Raises:
        UnsupportedTableError: Hudi's InternalSchema does not have a type.
    """
    documents = [
        {"max_column_id": version.max_column_id, "version_id": version.version_id} | _record(version.fields)
        for version in reversed(versions)
    ]
    return json.dumps({"schemas": documents}, ensure_ascii=False, separators=(",", ":"))


def _record(fields: Sequence[Field]) -> dict[str, Any]:
    return {"type": "record", "fields": [_field(field) for field in fields]}


def _field(field: Field) -> dict[str, Any]:
    document = {"id": field.id, "name": field.name, "optional": field.optional, "type": _type(field.type)}
    return document if field.doc is None else document | {"doc": field.doc}


def _type(type_: FieldType) -> str | dict[str, Any]:
    match type_:
        case RecordType():
            return _record(type_.fields)
        case ArrayType():
            return {
                "type": "array",
                "element_id": type_.element_id,
                "element": _type(type_.element),
                "element_optional": type_.element_optional,
            }
        case MapType():
            return {
                "type": "map",
                "key_id": type_.key_id,
                "key": _type(type_.key),
                "value_id": type_.value_id,
                "value": _type(type_.value),
                "value_optional": type_.value_optional,
            }
        case _:
            return _primitive(type_)


def _primitive(type_: pa.DataType) -> str:
    name = primitive_name(type_)
    if name is None:
        raise UnsupportedTableError("type in a schema with column ids", str(type_), "types of Hudi's InternalSchema")
    return name
