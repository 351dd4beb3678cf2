"""The defaults of fields, which are JSON of Avro, as Arrow values."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.avro import default_of, iter_defaults, parse_avro_schema, repeated

any_map: Any = pa.map_


@pytest.mark.parametrize(
    ("default", "kind", "expected"),
    [
        (True, pa.bool_(), True),
        (5, pa.int64(), 5),
        (0.5, pa.float32(), 0.5),
        ("text", pa.string(), "text"),
        ("a\u00ff", pa.binary(), b"a\xff"),
        ("\u0001\u0000", pa.decimal128(10, 2), Decimal("2.56")),
        ("\u00ff", pa.decimal256(60, 30), Decimal(-1).scaleb(-30)),
        (3, pa.date32(), dt.date(1970, 1, 4)),
        (4, pa.timestamp("ms", tz="UTC"), dt.datetime(1970, 1, 1, 0, 0, 0, 4000, tzinfo=dt.UTC)),
        (4, pa.timestamp("us", tz="UTC"), dt.datetime(1970, 1, 1, 0, 0, 0, 4, tzinfo=dt.UTC)),
        (7, pa.time32("ms"), dt.time(0, 0, 0, 7000)),
        ([], pa.list_(pa.string()), []),
        (["a", "b"], pa.list_(pa.string()), ["a", "b"]),
        ({"k": 1}, any_map(pa.string(), pa.int32()), [("k", 1)]),
        (
            {"x": "\u00ff"},
            pa.struct([("x", pa.binary()), ("y", pa.int32()), ("z", pa.int32())]),
            {"x": b"\xff", "y": 9, "z": None},
        ),
    ],
)
def test_values(default: Any, kind: Any, expected: Any) -> None:
    actual = default_of("field", kind, {"field": json.dumps(default), "field.y": "9"})
    assert actual is not None
    assert (actual.type, actual.to_pylist()) == (kind, [expected])
    for count in (0, 3):
        copies = repeated(actual, count)
        copies.validate(full=True)
        assert (copies.type, copies.to_pylist()) == (kind, [expected] * count)


def test_a_field_without_a_default_has_none() -> None:
    assert default_of("field", pa.int32(), {"other": "1"}) is None


@pytest.mark.parametrize(
    ("default", "kind"),
    [
        ('"x"', pa.int32()),
        ("1", pa.string()),
        ("1", pa.binary()),
        ('"member0"', pa.struct([("member0", pa.string())])),
        ("[1]", any_map(pa.string(), pa.int32())),
        ("3000000000", pa.int32()),
        ("[0.5]", pa.list_(pa.float32(), 1)),
    ],
)
def test_what_is_no_value_of_the_type_is_refused_by_name(default: str, kind: Any) -> None:
    if pa.types.is_fixed_size_list(kind):
        default = '"\\u0000"'
    with pytest.raises(UnsupportedTableError, match=r"default: found .* of field, supported: values of type"):
        default_of("field", kind, {"field": default})


def test_defaults_are_found_at_every_level() -> None:
    def record(name: str, default: int) -> dict[str, Any]:
        fields = [{"name": "n", "type": "int", "default": default}, {"name": "none", "type": "int"}]
        return {"type": "record", "name": name, "fields": fields}

    schema = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "a", "type": ["null", "string"], "default": None},
            {"name": "b", "type": "string", "default": "x"},
            {"name": "s", "type": ["null", record("s", 1)], "default": None},
            {"name": "l", "type": {"type": "array", "items": record("l", 2)}, "default": []},
            {"name": "m", "type": {"type": "map", "values": ["null", record("m", 3)]}},
            {"name": "u", "type": ["null", record("u", 4), "string"], "default": None},
        ],
    }
    actual = dict(iter_defaults(parse_avro_schema(json.dumps(schema), "test")))
    assert actual == {"b": '"x"', "s.n": "1", "l": "[]", "l.element.n": "2", "m.value.n": "3"}
