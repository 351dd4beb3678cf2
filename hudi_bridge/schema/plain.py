"""The schema of a writer, which knows no column ids -> InternalSchema with ids by position.

Where ``hudi_bridge.schema.avro`` makes every Arrow field nullable, for reading, the fields here are as optional as Avro
has them, as ``AvroInternalSchemaConverter`` keeps them.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.schema.avro import NULL, AvroArray, AvroMap, AvroRecord, AvroType, AvroUnion, arrow_type
from hudi_bridge.schema.internal import InternalSchema, internal_from_arrow


def plain_from_avro(record: AvroRecord, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """As ``plain_from_arrow``.

    Raises:
        UnsupportedTableError: a decimal has more digits than any Arrow type.
    """
    return plain_from_arrow(pa.schema([_field(field.name, field.type) for field in record.fields]), leading, trailing)


def plain_from_arrow(schema: pa.Schema, leading: Sequence[str], trailing: Sequence[str]) -> InternalSchema:
    """The columns of a table whose writer may leave some out: those that are its own or come from partition paths.

    The ``leading`` columns are text and come first, whether or not the writer has them; those of the ``trailing`` ones
    that it lacks are text and come last.
    """
    first = [pa.field(name, pa.string()) for name in leading]
    last = [pa.field(name, pa.string()) for name in trailing if name not in schema.names]
    own = (field for field in schema if field.name not in leading)
    return internal_from_arrow(pa.schema([*first, *own, *last]))


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
