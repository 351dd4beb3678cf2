import io
import json
import struct
from decimal import Context, Decimal
from typing import Any
from unittest import mock

import fastavro
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.errors import HudiReadError
from hudi_bridge.logformat import avro_cursors
from hudi_bridge.logformat.avro_columns import decode_avro_block
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from tests.properties.avro_strategies import record_schemas, values, without_logical_types
from tests.support.strength import examples

_PYTHON_TYPES = {
    "boolean": bool,
    "int": int,
    "long": int,
    "double": float,
    "float": float,
    "string": str,
    "bytes": bytes,
}
_WIDENED = (["int", "long"], ["long", "int"], ["float", "double"], ["double", "float"])
_WIDE = Context(prec=200)


def as_arrow(avro: Any, value: Any) -> Any:
    """What ``pa.array`` is given for a value that fastavro has read without logical types."""
    if isinstance(avro, list):
        return _member_as_arrow(avro, value)
    if value is None or isinstance(avro, str):
        return value
    match avro:
        case {"logicalType": "decimal"}:
            unscaled = Decimal(int.from_bytes(value, "big", signed=True))
            return unscaled.scaleb(-avro["scale"], _WIDE)
        case {"type": "array"}:
            return [as_arrow(avro["items"], item) for item in value]
        case {"type": "map"}:
            return [(key, as_arrow(avro["values"], item)) for key, item in value.items()]
        case {"type": "record"}:
            return {field["name"]: as_arrow(field["type"], value[field["name"]]) for field in avro["fields"]}
    return value


def _member_as_arrow(union: list[Any], value: Any) -> Any:
    members = [branch for branch in union if branch != "null"]
    if value is None or members in _WIDENED:
        return value
    if len(members) == 1:
        return as_arrow(members[0], value)
    for place, member in enumerate(members):
        kind = member if isinstance(member, str) else member["type"]
        if type(value) is {**_PYTHON_TYPES, "array": list, "map": dict}[kind]:
            return {f"member{place}": as_arrow(member, value)}
    raise AssertionError(value)


def block(datums: list[bytes]) -> bytes:
    framed = b"".join(struct.pack(">i", len(datum)) + datum for datum in datums)
    return struct.pack(">ii", 3, len(datums)) + framed


@st.composite
def written(draw: st.DrawFn) -> tuple[dict[str, Any], list[bytes], list[Any]]:
    """A schema, datums written with it, and what fastavro reads from them."""
    schema = draw(record_schemas())
    bare = fastavro.parse_schema(without_logical_types(schema))
    datums, read = [], []
    for row in draw(st.lists(values(schema), max_size=8)):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, bare, row)
        datums.append(stream.getvalue())
        read.append(fastavro.schemaless_reader(io.BytesIO(stream.getvalue()), bare, None))
    return schema, datums, read


MIN_TOGETHER = st.sampled_from([1, 3, 64])


@settings(max_examples=examples(100), deadline=None)
@given(written(), MIN_TOGETHER, st.data())
def test_columns_hold_what_fastavro_reads(
    case: tuple[dict[str, Any], list[bytes], list[Any]], few: int, data: st.DataObject
) -> None:
    schema, datums, read = case
    writer = parse_avro_schema(json.dumps(schema), "log")
    names = [field["name"] for field in schema["fields"]]
    asked = data.draw(st.none() | st.lists(st.sampled_from(names), unique=True))
    with mock.patch.object(avro_cursors, "MIN_TOGETHER", few):
        rows = decode_avro_block(block(datums), writer, asked, "log", 0)
    rows.validate(full=True)
    kept = [field for field in schema["fields"] if asked is None or field["name"] in asked]
    assert rows.num_rows == len(datums)
    assert rows.schema.names == [field["name"] for field in kept]
    for field in kept:
        type_ = arrow_schema(writer).field(field["name"]).type
        expected = pa.array([as_arrow(field["type"], row[field["name"]]) for row in read], type_)
        assert rows.column(field["name"]).equals(expected)


@settings(max_examples=examples(100), deadline=None)
@given(written(), MIN_TOGETHER, st.data())
def test_changed_bytes_give_rows_or_an_error_of_ours(
    case: tuple[dict[str, Any], list[bytes], list[Any]], few: int, data: st.DataObject
) -> None:
    schema, datums, _ = case
    content = bytearray(block(datums))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    expected = data.draw(st.none() | st.just(["f0"]))
    try:
        with mock.patch.object(avro_cursors, "MIN_TOGETHER", few):
            rows = decode_avro_block(bytes(content), parse_avro_schema(json.dumps(schema), "log"), expected, "log", 0)
    except HudiReadError:
        return
    rows.validate(full=True)
