"""How the Avro records of a log block are stored, for engines that decode them by themselves.

A layout is JSON: ``{"width": 3, "fields": [[0, "string"], [null, "long"], [2, ["union", ["null", "double"]]]]}``. Its
fields are those of the writer, in stored order: the slot of each among the columns of the query, null if it is not
wanted, and its type: ``null``, ``boolean``, ``long``, ``millis`` (a long, times 1,000 in the query), ``float``,
``double``, ``string``, ``bytes``, ``["fixed", size]``, ``["decimal", scale, size or null]``, ``["enum", symbols]``,
``["array", type]``, ``["map", type]``, ``["row", types]``, ``["union", types]``, or ``["repeated", type]`` for values
that are mostly those of the record before. Slots without a field are null.
"""

import json
from typing import TypeAlias

import pyarrow as pa

from hudi_bridge.engines.log_blocks import StoredLogBlock
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.readers.split_columns import internal_schemas
from hudi_bridge.schema.avro import (
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    arrow_schema,
    parse_avro_schema,
)
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.file_columns import Outcome, map_columns
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.split import RealtimeFileSplit

Layout: TypeAlias = "str | list[Layout | int | None]"

_MOST_LEVELS = 8
_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_IN_RESULT = (Outcome.DROPPED, Outcome.NOT_IN_QUERY)
_WIDENED = ("int", "long")
_REPEATED = (META_COLUMNS[0], *META_COLUMNS[3:])


def record_layout(split: RealtimeFileSplit, block: StoredLogBlock) -> str:
    """The layout of the records of an Avro data block, by the columns of the query.

    Raises:
        UnsupportedTableError: its columns are not those of the query, by their names, or no layout can express them.
        CorruptTableError: the block has no schema, or one that is not Avro's.
    """
    writer = parse_avro_schema(block.writer_schema or "", block.log_path, block.offset)
    schema, from_path = split.context.schema, split.path_values
    where = f"in {block.log_path} at byte {block.offset}"
    if (reason := _why_not_by_name(split, block, arrow_schema(writer))) is not None:
        raise _unsupported(f"{reason}, {where}", "columns of the same names and types, or ints that are now longs")
    slots = {name: slot for slot, name in enumerate(schema.names) if name not in from_path}
    types = {one.name: _layout(one.type, f"{one.name}, {where}") for one in writer.fields}
    fields = [[slots.get(name), ["repeated", kind] if name in _REPEATED else kind] for name, kind in types.items()]
    return json.dumps({"width": len(schema), "fields": fields})


def _why_not_by_name(split: RealtimeFileSplit, block: StoredLogBlock, stored: pa.Schema) -> str | None:
    """Why the columns of the query are not those of the same names in the block; None if they are."""
    context = split.context
    file_ids, query_ids = internal_schemas(block.instant_time or "", context)
    path_columns = tuple(name for name in context.path_columns if name in split.path_values)
    columns = map_columns(
        stored,
        context.schema,
        file_ids=file_ids,
        query_ids=query_ids,
        path_columns=path_columns,
        stored_as=StoredAs.AVRO,
        defaults=dict(context.field_defaults),
    )
    for one in columns:
        if one.outcome in _NOT_IN_RESULT or one.outcome is Outcome.FROM_PATH:
            continue
        is_within = "." in (one.column or "")
        is_same = one.outcome is Outcome.READ and one.column == one.file_column
        is_missing = one.outcome in _NULL_IN_BOTH and not is_within and one.column not in stored.names
        is_widened = one.outcome is Outcome.CAST and (one.file_type, one.query_type) == _WIDENED and not is_within
        if not (is_same or is_missing or is_widened):
            return f"{one.column}: {one}"
    for field in context.schema:
        if field.name in stored.names and field.name not in path_columns:
            found = stored.field(field.name).type
            if found != field.type and (found, field.type) != (pa.int32(), pa.int64()):
                return f"{field.name} of type {found}, which is {field.type} in the table"
    return None


def _unsupported(found: str, supported: str) -> UnsupportedTableError:
    return UnsupportedTableError("log block to decode by its layout", found, supported)


def _layout(avro: AvroType, column: str, level: int = 0) -> Layout:
    if level > _MOST_LEVELS:
        raise _unsupported(f"more than {_MOST_LEVELS} levels in column {column}", f"up to {_MOST_LEVELS} levels")
    match avro:
        case AvroPrimitive():
            return _primitive(avro, column)
        case AvroFixed():
            return _fixed(avro, column)
        case AvroEnum():
            return ["enum", list(avro.symbols)]
        case AvroArray():
            return ["array", _layout(avro.items, column, level + 1)]
        case AvroMap():
            return ["map", _layout(avro.values, column, level + 1)]
        case AvroUnion():
            if len(avro.members) > 1:
                raise _unsupported(f"several types in column {column}", "one type, or null")
            return ["union", [_layout(branch, column, level) for branch in avro.branches]]
        case AvroRecord():
            return ["row", [_layout(field.type, column, level + 1) for field in avro.fields]]


def _fixed(avro: AvroFixed, column: str) -> Layout:
    if avro.logical is None:
        return ["fixed", avro.size_bytes]
    if avro.logical.name != "decimal":
        raise _unsupported(f"a VECTOR in column {column}", "other types")
    return ["decimal", avro.logical.scale, avro.size_bytes]


def _primitive(avro: AvroPrimitive, column: str) -> Layout:
    logical = avro.logical.name if avro.logical is not None else None
    if logical == "decimal" and avro.logical is not None:
        return ["decimal", avro.logical.scale, None]
    if logical is not None and logical.endswith("-millis"):
        return "millis"
    if logical is not None and logical.endswith("-nanos"):
        raise _unsupported(f"nanoseconds in column {column}", "milliseconds and microseconds")
    return "long" if avro.kind in ("int", "long") else avro.kind
