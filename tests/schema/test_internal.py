import json
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.readers.blobs import blob_columns
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    InternalSchema,
    MapType,
    RecordType,
    has_constant_ids,
    internal_from_arrow,
    parse_internal_schema,
    parse_schema_history,
    schema_for_instant,
    to_arrow,
)

PATH = ".hoodie/.schema/20240101000000000.schemacommit"


def field(id_: int, name: str, type_: object, **more: object) -> dict[str, object]:
    return {"id": id_, "name": name, "optional": True, "type": type_, **more}


def record(*fields: dict[str, object], **more: object) -> dict[str, object]:
    return {"type": "record", "fields": list(fields), **more}


NESTED = record(
    field(0, "id", "string", doc="the key"),
    field(1, "s", record(field(4, "a", "int"), field(5, "n", record(field(6, "x", "decimal(10, 2)"))))),
    field(
        2,
        "ar",
        {
            "type": "array",
            "element_id": 7,
            "element": record(field(8, "k", "long")),
            "element_optional": True,
        },
    ),
    field(
        3,
        "m",
        {
            "type": "map",
            "key_id": 9,
            "key": "string",
            "value_id": 10,
            "value": "date",
            "value_optional": False,
        },
    ),
    version_id=20240101000000000,
    max_column_id=10,
)


def test_json_becomes_a_schema() -> None:
    schema = parse_internal_schema(json.dumps(NESTED), PATH)
    assert (schema.version_id, schema.max_column_id) == (20240101000000000, 10)
    key, struct, array, map_ = schema.fields
    assert key == Field(id=0, name="id", optional=True, type=pa.string(), doc="the key")
    inner = RecordType(fields=(Field(id=6, name="x", optional=True, type=pa.decimal128(10, 2)),))
    a_and_n = (
        Field(id=4, name="a", optional=True, type=pa.int32()),
        Field(id=5, name="n", optional=True, type=inner),
    )
    assert struct.type == RecordType(fields=a_and_n)
    element = RecordType(fields=(Field(id=8, name="k", optional=True, type=pa.int64()),))
    assert array.type == ArrayType(element_id=7, element=element, element_optional=True)
    assert map_.type == MapType(key_id=9, key=pa.string(), value_id=10, value=pa.date32(), value_optional=False)


def test_the_arrow_schema_is_nullable_throughout() -> None:
    arrow = to_arrow(parse_internal_schema(json.dumps(NESTED), PATH))
    assert arrow == pa.schema(
        [
            ("id", pa.string()),
            ("s", pa.struct([("a", pa.int32()), ("n", pa.struct([("x", pa.decimal128(10, 2))]))])),
            ("ar", pa.list_(pa.field("element", pa.struct([("k", pa.int64())])))),
            ("m", pa.map_(pa.string(), pa.date32())),
        ]
    )
    list_type: Any = arrow.field("ar").type
    assert list_type.value_field.name == "element"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("boolean", pa.bool_()),
        ("int", pa.int32()),
        ("LONG", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("date", pa.date32()),
        ("time", pa.time64("us")),
        ("time_millis", pa.time32("ms")),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_millis", pa.timestamp("ms", "UTC")),
        ("local_timestamp_millis", pa.timestamp("ms")),
        ("local_timestamp_micros", pa.timestamp("us")),
        ("string", pa.string()),
        ("uuid", pa.string()),
        ("binary", pa.binary()),
        ("fixed[16]", pa.binary()),
        ("decimal(38, 38)", pa.decimal128(38, 38)),
        ("decimal(1,0)", pa.decimal128(1, 0)),
        ("decimal_bytes(9, 3)", pa.decimal128(9, 3)),
        ("decimal_fixed(9, 3)[4]", pa.decimal128(9, 3)),
        ("vector[3, FLOAT, FIXED_BYTES]", pa.list_(pa.float32(), 3)),
        ("vector[128, INT8, FIXED_BYTES]", pa.list_(pa.int8(), 128)),
    ],
)
def test_primitive_types(text: str, expected: pa.DataType) -> None:
    schema = parse_internal_schema(json.dumps(record(field(0, "c", text))), PATH)
    assert schema.fields[0].type == expected


def test_keys_of_the_first_releases() -> None:
    array = {"type": "array", "element-id": 1, "element": "int", "element_optional": True}
    map_ = {
        "type": "map",
        "key-id": 2,
        "key": "string",
        "value-id": 3,
        "value": "int",
        "value_optional": True,
    }
    text = json.dumps(record(field(0, "a", array), field(4, "m", map_), **{"version-id": 7}))
    schema = parse_internal_schema(text, PATH)
    assert (schema.version_id, schema.max_column_id) == (7, 4)
    assert isinstance(schema.fields[1].type, MapType)
    assert schema.fields[1].type.value_id == 3


def test_a_history_is_newest_first() -> None:
    new, old = record(field(0, "b", "int"), version_id=5), record(field(0, "a", "int"), version_id=0)
    text = json.dumps({"schemas": [new, old]})
    history = parse_schema_history(text, PATH)
    assert [schema.version_id for schema in history] == [5, 0]


def test_an_instant_has_the_schema_of_its_version_or_the_one_before() -> None:
    history = tuple(InternalSchema(version_id=version, max_column_id=-1, fields=()) for version in (30, 20, 0))
    versions = {"10": 0, "20": 20, "29": 20, "30": 30, "31": 30, "20240101000000000": 30}
    actual = {instant: schema_for_instant(history, instant) for instant in versions}
    assert {instant: schema and schema.version_id for instant, schema in actual.items()} == versions
    assert schema_for_instant(history[:2], "19") is None
    assert schema_for_instant((), "19") is None
    assert schema_for_instant(history, "not an instant") is None


VARIANT = record(field(-2, "metadata", "binary"), field(-1, "value", "binary"))
_REFERENCE = (
    field(0, "external_path", "string"),
    field(1, "offset", "long"),
    field(2, "length", "long"),
    field(3, "managed", "boolean"),
)
BLOB = record(field(-10, "type", "string"), field(-11, "data", "binary"), field(-12, "reference", record(*_REFERENCE)))


def test_the_parts_of_each_variant_and_blob_have_the_same_ids() -> None:
    """As ``InternalSchemaConverter`` of Hudi 1.2.0 makes them."""
    columns = (field(2, "v", VARIANT), field(3, "s", record(field(5, "w", VARIANT))), field(4, "b", BLOB))
    schema = parse_internal_schema(
        json.dumps(record(field(0, "id", "string"), field(1, "x", "double"), *columns)), PATH
    )
    assert schema.max_column_id == 5
    arrow = to_arrow(schema)
    inner: Any = arrow.field("s").type
    assert is_variant(arrow.field("v"))
    assert is_variant(inner.field("w"))
    assert blob_columns(arrow) == ("b",)
    made = internal_from_arrow(arrow).fields[2].type
    assert isinstance(made, RecordType)
    assert has_constant_ids(made)


@pytest.mark.parametrize(
    "wrong",
    [
        field(-1, "v", "string"),
        field(1, "v", record(field(-1, "metadata", "binary"), field(-2, "value", "binary"))),
        field(1, "v", record(*VARIANT["fields"], field(-3, "more", "binary"))),  # type: ignore[misc]
    ],
    ids=["of a column", "of other parts", "of more parts"],
)
def test_other_negative_ids_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(CorruptTimelineError, match="column ids that repeat or are negative"):
        parse_internal_schema(json.dumps(record(field(0, "id", "string"), wrong)), PATH)


def test_ids_by_position_count_siblings_before_children() -> None:
    parsed = parse_internal_schema(json.dumps(NESTED), PATH)
    made = internal_from_arrow(to_arrow(parsed))
    assert [(item.id, item.name) for item in made.fields] == [(0, "id"), (1, "s"), (2, "ar"), (3, "m")]
    assert made.fields[1].type == parsed.fields[1].type
    assert made.fields[2].type == parsed.fields[2].type
    assert made.max_column_id == 10


def test_ids_by_position_keep_what_may_be_null() -> None:
    not_null = pa.field("element", pa.int32(), nullable=False)
    schema = internal_from_arrow(pa.schema([pa.field("l", pa.large_list(not_null), nullable=False)]))
    expected = ArrayType(element_id=1, element=pa.int32(), element_optional=False)
    assert schema.fields == (Field(id=0, name="l", optional=False, type=expected),)


def test_every_truncation_is_an_error() -> None:
    text = json.dumps(NESTED)
    for end in range(len(text)):
        with pytest.raises(CorruptTimelineError):
            parse_internal_schema(text[:end], PATH)


BAD = [
    ("null", "None"),
    ("[]", "[]"),
    ("{}", "fields"),
    ('"record"', "'record'"),
    ('{"fields": 1}', "fields = 1"),
    ('{"fields": [1]}', "1"),
    (json.dumps(record(field(0, "a", "int"), field(0, "b", "int"))), "repeat"),
    (json.dumps(record(field(-1, "a", "int"))), "negative"),
    (json.dumps(record(field(0, "a", "int"), field(1, "a", "int"))), "two fields"),
    (json.dumps(record(field(0, "a", record(field(0, "b", "int"))))), "repeat"),
    (json.dumps(record({"id": True, "name": "a", "optional": True, "type": "int"})), "id = True"),
    (json.dumps(record({"id": 0, "name": None, "optional": True, "type": "int"})), "name"),
    (json.dumps(record({"id": 0, "name": "a", "optional": 1, "type": "int"})), "optional"),
    (json.dumps(record({"id": 0, "name": "a", "optional": True})), "type"),
    (json.dumps(record(field(0, "a", "varchar"))), "varchar"),
    (json.dumps(record(field(0, "a", "decimal(39, 2)"))), "decimal"),
    (json.dumps(record(field(0, "a", "decimal(5, 6)"))), "decimal"),
    (json.dumps(record(field(0, "a", "decimal(0, 0)"))), "decimal"),
    (json.dumps(record(field(0, "a", "x" * 1000))), "..."),
    (json.dumps(record(field(0, "a", {"type": "union"}))), "union"),
    (json.dumps(record(field(0, "a", {"type": "array", "element": "int"}))), "element_id"),
    (json.dumps(record(field(0, "a", {"type": "map", "key_id": 1}))), "key"),
    (json.dumps(record(field(0, "a", "int"), version_id="1")), "version_id"),
    ('{"version_id": ' + "9" * 5000 + "}", "not JSON"),
    ("[" * 100_000, "not JSON"),
    ("\ufeff{}", "not JSON"),
]


@pytest.mark.parametrize(("text", "found"), BAD)
def test_bad_text_says_what_was_found(text: str, found: str) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        parse_internal_schema(text, PATH)
    assert caught.value.path == PATH
    assert found in caught.value.found
    assert len(caught.value.found) < 300


def test_bytes_that_are_no_text_and_deep_types_are_errors() -> None:
    with pytest.raises(CorruptTimelineError, match="not JSON"):
        parse_schema_history(b"\xff\xfe\xfd", PATH)
    deep: object = "int"
    for depth in range(65):
        deep = {"type": "array", "element_id": 65 - depth, "element": deep, "element_optional": True}
    with pytest.raises(CorruptTimelineError, match="64 deep"):
        parse_internal_schema(json.dumps(record(field(0, "a", deep))), PATH)


@pytest.mark.parametrize("text", ["{}", '{"schemas": {}}', '{"schemas": [1]}'])
def test_bad_histories_are_errors(text: str) -> None:
    with pytest.raises(CorruptTimelineError):
        parse_schema_history(text, PATH)
