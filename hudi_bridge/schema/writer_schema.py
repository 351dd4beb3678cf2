"""The schema of a writer as an InternalSchema, with column ids by position (``AvroInternalSchemaConverter``).

Fields are optional where the writer's Avro schema says so.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.schema.avro import NULL, AvroArray, AvroMap, AvroRecord, AvroType, AvroUnion, arrow_type
from hudi_bridge.schema.internal import InternalSchema, internal_from_arrow


def writer_schema_from_avro(record: AvroRecord, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """The schema of a table, from the Avro schema of a writer; see ``writer_schema_from_arrow``.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    return writer_schema_from_arrow(
        pa.schema([_field(field.name, field.type) for field in record.fields]), leading, trailing
    )


def writer_schema_from_arrow(schema: pa.Schema, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """The schema of a table, from the columns of a writer.

    A writer may leave out meta fields and partition columns; they are added as strings.

    Args:
        schema: the writer's columns.
        leading: the meta fields, which come first.
        trailing: the partition columns that the writer drops, which come last.
    """
    first = [pa.field(name, pa.string()) for name in leading]
    last = [pa.field(name, pa.string()) for name in trailing if name not in schema.names]
    data = (field for field in schema if field.name not in leading)
    return internal_from_arrow(pa.schema([*first, *data, *last]))


def _field(name: str, avro: AvroType) -> "pa.Field[Any]":
    type_, nullable = _type(avro)
    return pa.field(name, type_, nullable)


def _type(avro: AvroType) -> tuple[Any, bool]:
    """The Arrow type, and whether the value may be null."""
    match avro:
        case AvroUnion():
            members = avro.members
            type_ = _type(members[0])[0] if len(members) == 1 else arrow_type(avro)
            return type_, NULL in avro.branches
        case AvroRecord():
            return pa.struct([_field(field.name, field.type) for field in avro.fields]), False
        case AvroArray():
            return pa.list_(_field("element", avro.items)), False
        case AvroMap():
            return pa.map_(pa.string(), _field("value", avro.values)), False
        case _:
            return arrow_type(avro), avro == NULL
