import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptTableError, HudiReadError, UnsupportedTableError
from hudi_bridge.schema.avro import (
    AvroField,
    AvroPrimitive,
    AvroRecord,
    arrow_schema,
    parse_avro_schema,
)
from hudi_bridge.schema.avro_types import is_variant


def record(*fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "trip", "namespace": "hoodie.trips", "fields": list(fields)}


def parse(schema: Any) -> AvroRecord:
    return parse_avro_schema(json.dumps(schema), "p/.f1_1.log.1_0-1-0", 64)


def column_type(avro: Any) -> Any:
    return arrow_schema(parse(record({"name": "c", "type": avro}))).field("c").type


def member_struct(*types: Any) -> Any:
    return pa.struct([(f"member{place}", type_) for place, type_ in enumerate(types)])


LOGICAL = [
    ("int", "date", pa.date32()),
    ("int", "time-millis", pa.time32("ms")),
    ("long", "time-micros", pa.time64("us")),
    ("long", "timestamp-millis", pa.timestamp("ms", "UTC")),
    ("long", "timestamp-micros", pa.timestamp("us", "UTC")),
    ("long", "timestamp-nanos", pa.timestamp("ns", "UTC")),
    ("long", "local-timestamp-millis", pa.timestamp("ms")),
    ("long", "local-timestamp-micros", pa.timestamp("us")),
    ("long", "local-timestamp-nanos", pa.timestamp("ns")),
    ("string", "uuid", pa.string()),
]

SHAPES = [
    ("null", pa.null()),
    ("boolean", pa.bool_()),
    ("int", pa.int32()),
    ("long", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("bytes", pa.binary()),
    ("string", pa.string()),
    ({"type": "string", "avro.java.string": "String"}, pa.string()),
    ({"type": {"type": "long"}}, pa.int64()),
    ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, pa.string()),
    ({"type": "fixed", "name": "f", "size": 3}, pa.binary()),
    ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.field("element", pa.int32()))),
    ({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.int64())),
    (
        {"type": "record", "name": "inner", "fields": [{"name": "x", "type": "int"}]},
        pa.struct([("x", pa.int32())]),
    ),
    ({"type": "record", "name": "empty", "fields": []}, pa.struct([])),
    (["null", "string"], pa.string()),
    (["string", "null"], pa.string()),
    (["null"], pa.null()),
    (["double"], pa.float64()),
    (["int", "long"], pa.int64()),
    (["long", "null", "int"], pa.int64()),
    (["double", "float", "null"], pa.float64()),
    (["int", "null", "string"], member_struct(pa.int32(), pa.string())),
    (["int", "long", "double"], member_struct(pa.int32(), pa.int64(), pa.float64())),
    (["int", "double"], member_struct(pa.int32(), pa.float64())),
]


@pytest.mark.parametrize(("avro", "arrow"), SHAPES, ids=str)
def test_arrow_type_of_every_avro_type(avro: Any, arrow: pa.DataType) -> None:
    assert column_type(avro) == arrow


@pytest.mark.parametrize(("kind", "logical", "arrow"), LOGICAL)
def test_logical_types(kind: str, logical: str, arrow: pa.DataType) -> None:
    assert column_type({"type": kind, "logicalType": logical}) == arrow
    assert column_type(["null", {"type": kind, "logicalType": logical}]) == arrow


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ({"type": "bytes", "precision": 10, "scale": 2}, pa.decimal128(10, 2)),
        ({"type": "bytes", "precision": 38}, pa.decimal128(38, 0)),
        ({"type": "bytes", "precision": 39, "scale": 39}, pa.decimal256(39, 39)),
        ({"type": "fixed", "name": "f", "size": 5, "precision": 11, "scale": 11}, pa.decimal128(11, 11)),
        # Not decimals that the carrier can hold, so only what the carrier is.
        ({"type": "fixed", "name": "f", "size": 5, "precision": 12, "scale": 2}, pa.binary()),
        ({"type": "fixed", "name": "f", "size": 0, "precision": 1}, pa.binary()),
        ({"type": "fixed", "name": "f", "size": 4, "precision": 10**12}, pa.binary()),
        ({"type": "bytes", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "bytes", "precision": 2, "scale": -1}, pa.binary()),
        ({"type": "bytes", "precision": 0}, pa.binary()),
        ({"type": "bytes", "precision": "10"}, pa.binary()),
        ({"type": "string", "precision": 10}, pa.string()),
    ],
    ids=str,
)
def test_decimals(avro: dict[str, Any], arrow: pa.DataType) -> None:
    assert column_type({**avro, "logicalType": "decimal"}) == arrow


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "int", "logicalType": "timestamp-micros"}, pa.int32()),
        ({"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"}, pa.binary()),
        ({"type": "string", "logicalType": "varchar", "maxLength": 5}, pa.string()),
    ],
    ids=str,
)
def test_a_logical_type_that_its_carrier_cannot_bear_is_ignored(avro: Any, arrow: pa.DataType) -> None:
    assert column_type(avro) == arrow


BYTES = {"type": "fixed", "name": "b", "size": 8}
PARTS = [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]
TYPED = {"name": "typed_value", "type": ["null", "int"]}


def vector(size: int, **facts: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": "v", "size": size, "logicalType": "vector", **facts}


def variant(*parts: Any) -> dict[str, Any]:
    return {"type": "record", "name": "v", "fields": [*parts], "logicalType": "variant"}


@pytest.mark.parametrize(
    ("avro", "element", "dimension"),
    [
        (vector(12, dimension=3), pa.float32(), 3),
        (vector(16, dimension=4, elementType="FLOAT", storageBacking="FIXED_BYTES"), pa.float32(), 4),
        (vector(16, dimension=2, elementType="DOUBLE"), pa.float64(), 2),
        (vector(16, dimension=16, elementType="int8"), pa.int8(), 16),
    ],
    ids=str,
)
def test_a_vector_is_a_list_of_its_length(avro: Any, element: pa.DataType, dimension: int) -> None:
    assert column_type(avro) == pa.list_(element, dimension)
    assert column_type(["null", avro]) == column_type(avro)


@pytest.mark.parametrize(
    "avro",
    [
        {"type": "int", "logicalType": "fortnight"},
        {"type": "bytes", "logicalType": "big-decimal"},
        {**BYTES, "logicalType": "embedding"},
        {"type": "array", "items": "int", "logicalType": "set"},
        {"type": "map", "values": "int", "logicalType": "headers"},
        {"type": "enum", "name": "e", "symbols": ["A"], "logicalType": "colour"},
        {"type": "record", "name": "p", "fields": PARTS, "logicalType": "point"},
        {"type": "bytes", "logicalType": "vector", "dimension": 2},
        {"type": "array", "items": "float", "logicalType": "vector", "dimension": 2},
        {**BYTES, "logicalType": "variant"},
        vector(12),
        vector(12, dimension=4),
        vector(12, dimension=-3),
        vector(12, dimension="3"),
        vector(0, dimension=0),
        vector(12, dimension=6, elementType="FLOAT16"),
        vector(12, dimension=6, elementType=None),
        vector(12, dimension=3, storageBacking="ARRAY"),
        variant(PARTS[0]),
        variant(*PARTS, TYPED),
        variant(PARTS[0], {"name": "value", "type": "string"}),
    ],
    ids=str,
)
def test_a_type_whose_values_are_not_known_is_refused(avro: Any) -> None:
    with pytest.raises(UnsupportedTableError, match=r"logical type|VECTOR|VARIANT"):
        parse(record({"name": "a", "type": {"type": "array", "items": ["null", avro]}}))


def test_a_variant_is_labelled_as_arrow_s() -> None:
    schema = arrow_schema(parse(record({"name": "v", "type": ["null", variant(*PARTS)]})))
    assert schema.field("v").type == pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    assert is_variant(schema.field("v"))
    plain = {"type": "record", "name": "v", "fields": PARTS}
    assert not is_variant(arrow_schema(parse(record({"name": "v", "type": plain}))).field("v"))


def test_every_field_is_nullable_and_in_order() -> None:
    schema = arrow_schema(parse(record({"name": "b", "type": "int"}, {"name": "a", "type": ["null", "long"]})))
    assert schema == pa.schema([pa.field("b", pa.int32()), pa.field("a", pa.int64())])


def test_names_resolve_within_and_across_namespaces() -> None:
    inner = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    other = {"type": "enum", "name": "elsewhere.colour", "symbols": ["RED"]}
    schema = arrow_schema(
        parse(
            record(
                {"name": "first", "type": inner},
                {"name": "short", "type": ["null", "point"]},
                {"name": "full", "type": {"type": "array", "items": "hoodie.trips.point"}},
                {"name": "colour", "type": other},
                {"name": "again", "type": {"type": "elsewhere.colour"}},
            )
        )
    )
    point = pa.struct([("x", pa.int32())])
    assert schema.types == [point, point, pa.list_(pa.field("element", point)), pa.string(), pa.string()]


def test_defaults_are_kept_apart_from_no_default() -> None:
    parsed = parse(
        record(
            {"name": "none", "type": "int"},
            {"name": "null", "type": ["null", "int"], "default": None},
            {"name": "list", "type": {"type": "array", "items": "int"}, "default": [1]},
        )
    )
    assert [field.default_json for field in parsed.fields] == [None, "null", "[1]"]
    assert parsed.fields[0] == AvroField(name="none", type=AvroPrimitive(kind="int"))
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert len({parsed, pickle.loads(pickle.dumps(parsed))}) == 1


INT = {"name": "c", "type": "int"}


@pytest.mark.parametrize(
    "schema",
    [
        "string",
        [],
        {},
        7,
        None,
        {"type": "record"},
        {"type": "record", "name": "r"},
        {"type": "record", "name": "r", "fields": {}},
        {"type": "record", "name": "", "fields": []},
        {"type": "record", "name": "r", "namespace": 3, "fields": []},
        {"type": "array", "items": "int"},
        record("c"),
        record({"name": "c"}),
        record({"type": "int"}),
        record({"name": "", "type": "int"}),
        record({"name": "\ud800", "type": "int"}),
        record(INT, INT),
        record({"name": "c", "type": "unheard"}),
        record({"name": "c", "type": {"type": "array"}}),
        record({"name": "c", "type": {"type": "map"}}),
        record({"name": "c", "type": {"type": "fixed", "name": "f"}}),
        record({"name": "c", "type": {"type": "fixed", "name": "f", "size": -1}}),
        record({"name": "c", "type": {"type": "fixed", "name": "f", "size": 2**31}}),
        record({"name": "c", "type": {"type": "enum", "name": "e"}}),
        record({"name": "c", "type": {"type": "enum", "name": "e", "symbols": ["A", 1]}}),
        record({"name": "c", "type": []}),
        record({"name": "c", "type": ["int", "int"]}),
        record({"name": "c", "type": ["null", ["int"]]}),
        record(
            {
                "name": "c",
                "type": ["null", {"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
            }
        ),
        record({"name": "c", "type": {"type": "fixed", "name": "hoodie.trips.trip", "size": 1}}),
    ],
    ids=str,
)
def test_what_is_no_record_schema_is_corrupt(schema: Any) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parse(schema)
    assert (caught.value.path, caught.value.offset) == ("p/.f1_1.log.1_0-1-0", 64)


@pytest.mark.parametrize("text", ["", "{", "\0", '{"type": "record"', "NaN", "nul"])
def test_what_is_no_json_is_corrupt(text: str) -> None:
    with pytest.raises(CorruptTableError):
        parse_avro_schema(text, "p")


def test_every_truncation_of_a_schema_is_corrupt() -> None:
    text = json.dumps(record({"name": "c", "type": ["null", {"type": "map", "values": "int"}], "default": None}))
    for length in range(len(text)):
        with pytest.raises(CorruptTableError):
            parse_avro_schema(text[:length], "p")


def test_a_type_that_contains_itself_is_refused() -> None:
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    with pytest.raises(UnsupportedTableError, match=r"hoodie\.trips\.node, which contains itself"):
        parse(record({"name": "c", "type": node}))


@pytest.mark.parametrize("levels", [100, 100_000])
def test_nesting_without_end_is_refused(levels: int) -> None:
    array = '{"type": "array", "items": ' * levels + '"int"' + "}" * levels
    text = f'{{"type": "record", "name": "r", "fields": [{{"name": "c", "type": {array}}}]}}'
    with pytest.raises(UnsupportedTableError, match="levels"):
        parse_avro_schema(text, "p")


def test_a_short_text_cannot_stand_for_a_tree_without_end() -> None:
    fields: list[Any] = [{"name": "f0", "type": {"type": "fixed", "name": "t0", "size": 1}}]
    for level in range(1, 40):
        pair = [{"name": "l", "type": f"t{level - 1}"}, {"name": "r", "type": f"t{level - 1}"}]
        fields.append({"name": f"f{level}", "type": {"type": "record", "name": f"t{level}", "fields": pair}})
    with pytest.raises(UnsupportedTableError, match="types"):
        parse(record(*fields))


def test_a_decimal_wider_than_arrow_knows_is_refused() -> None:
    with pytest.raises(HudiReadError, match="77 digits"):
        column_type({"type": "bytes", "logicalType": "decimal", "precision": 77})
