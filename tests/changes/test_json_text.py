import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hudi_bridge.changes.json_text import (
    AVRO,
    JACKSON,
    JACKSON_WITH_DIGITS,
    JsonStyle,
    java_map_order,
    json_texts,
    scala_map_order,
)
from hudi_bridge.schema.avro import parse_avro_schema

VALUES: list[tuple[pa.DataType, Any, str, str]] = [
    (pa.bool_(), True, "true", "true"),
    (pa.int32(), -5, "-5", "-5"),
    (pa.float32(), 0.1, "0.1", "0.1"),
    (pa.float32(), 12345678.9, "1.2345679E7", "1.2345679E7"),
    (pa.float64(), 1e22, "1.0E22", "1.0E22"),
    (pa.float64(), -0.0, "-0.0", "-0.0"),
    (pa.float64(), float("-inf"), '"-Infinity"', '"-Infinity"'),
    (pa.float64(), float("nan"), '"NaN"', '"NaN"'),
    (pa.string(), 'a "b"\\\n\x01', '"a \\"b\\"\\\\\\n\\u0001"', '"a \\"b\\"\\\\\\n\\u0001"'),
    (pa.string(), "\x7f\x9f\u2028\u20ff", '"\x7f\x9f\u2028\u20ff"', '"\\u007F\\u009F\\u2028\\u20FF"'),
    (pa.string(), "\xa0\u2100\U0001f600/", '"\xa0\u2100\U0001f600/"', '"\xa0\u2100\U0001f600/"'),
    (pa.binary(), b"\x00\xffA", '"AP9B"', '"\\u0000ÿA"'),
    (pa.date32(), dt.date(1969, 12, 31), "-1", "-1"),
    (pa.timestamp("us", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, 5, dt.UTC), "1000005", "1000005"),
    (pa.timestamp("ms", "UTC"), dt.datetime(1970, 1, 1, 0, 0, 1, 0, dt.UTC), "1000000", "1000"),
    (pa.timestamp("us"), 1_000_000, "1000000", "1000000"),
    (pa.decimal128(10, 2), Decimal("-1.10"), '{"zero":false}', "[-1, -1, -1, -1, -110]"),
    (pa.decimal128(38, 18), Decimal(0), '{"zero":true}', "[" + ", ".join(["0"] * 16) + "]"),
    (pa.list_(pa.string()), ["x", None], '["x",null]', '["x", null]'),
    (pa.list_(pa.list_(pa.int32())), [[1, 2], [], None], "[[1,2],[],null]", "[[1, 2], [], null]"),
    (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], '{"a":1}', '{"a": 1, "b": null}'),
    (pa.list_(pa.float32(), 2), [0.1, -1], "[0.1,-1.0]", "[0.1, -1.0]"),
    (pa.list_(pa.int8(), 2), [-128, 127], "[-128,127]", "[-128, 127]"),
    (pa.map_(pa.string(), pa.int32()), [], "{}", "{}"),
    (pa.struct([("x", pa.int32()), ("y", pa.string())]), {"x": None, "y": "z"}, '{"y":"z"}', '{"x": null, "y": "z"}'),
    (pa.struct([("x", pa.int32())]), {"x": None}, "{}", '{"x": null}'),
]


def texts(kind: pa.DataType, values: list[Any], style: JsonStyle) -> list[Any]:
    """What stands for the values of a column."""
    rows = pa.StructArray.from_arrays([pa.array(values, kind)], names=["c"])
    before = len('{"c"' + style.colon)
    return [text if text == "{}" else str(text)[before:-1] for text in json_texts(rows, style).to_pylist()]


@pytest.mark.parametrize(("kind", "value", "jackson", "avro"), VALUES, ids=lambda one: str(one)[:20])
def test_values_are_written_as_java_libraries_write_them(
    kind: pa.DataType, value: Any, jackson: str, avro: str
) -> None:
    assert texts(kind, [value, None, value], JACKSON) == [jackson, "{}", jackson]
    assert texts(kind, [value, None], AVRO) == [avro, "null"]


def test_rows_that_are_null_have_no_text() -> None:
    rows: Any = pa.array([{"c": 1}, None, {"c": None}], pa.struct([("c", pa.int32())]))
    assert json_texts(rows, JACKSON).to_pylist() == ['{"c":1}', None, "{}"]
    assert json_texts(rows.slice(1), AVRO).to_pylist() == [None, '{"c": null}']
    assert json_texts(rows.slice(0, 0), AVRO).to_pylist() == []


def test_many_rows_and_slices_of_nested_columns() -> None:
    kind = pa.struct(
        [("m", pa.map_(pa.string(), pa.list_(pa.int32()))), ("s", pa.struct([("x", pa.decimal128(7, 1))]))]
    )
    values = [
        None
        if number % 7 == 0
        else {"m": [("k", [number, None])], "s": None if number % 3 == 0 else {"x": Decimal(number)}}
        for number in range(40_000)
    ]
    rows: Any = pa.array(values, kind).slice(5)
    actual = json_texts(rows, JACKSON_WITH_DIGITS).to_pylist()
    assert [None if text is None else json.loads(text) for text in actual[:50]] == [
        value and {"m": {"k": [number, None]}} | ({"s": {"x": number}} if number % 3 else {})
        for number, value in list(enumerate(values))[5:55]
    ]
    assert actual[-1] == '{"m":{"k":[39999,null]}}'


def test_digits_of_decimals_are_written_where_they_are_wanted() -> None:
    assert texts(pa.decimal128(10, 2), [Decimal("-1.10"), Decimal(0)], JACKSON_WITH_DIGITS) == ["-1.10", "0.00"]


@pytest.mark.parametrize(
    ("avro_type", "expected"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, '"ÿ\\u0001"'),
        (
            {"type": "fixed", "name": "f", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2},
            "[-1, -1, 1]",
        ),
    ],
)
def test_decimals_are_written_as_avro_stores_them(avro_type: Any, expected: str) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "c", "type": ["null", avro_type]}]}
    avro = parse_avro_schema(json.dumps(schema), "test")
    kind = pa.decimal128(avro_type["precision"], 2)
    rows = pa.StructArray.from_arrays([pa.array([Decimal("-2.55"), None], kind)], names=["c"])
    assert json_texts(rows, AVRO, avro).to_pylist() == [f'{{"c": {expected}}}', '{"c": null}']


@pytest.mark.parametrize("count", [0, 1, 2])
def test_decimals_whose_memory_is_larger_than_they_are(count: int) -> None:
    """Arrow leaves room behind the last value, also where there is none: lists in rows without any are such."""
    kind, numbers = pa.decimal128(3, 0), b"".join(number.to_bytes(16, "little") for number in range(count))
    decimals = pa.Array.from_buffers(kind, count, [None, pa.py_buffer(numbers + bytes(4))])
    rows = pa.StructArray.from_arrays([decimals], names=["c"])
    assert json_texts(rows, AVRO).to_pylist() == [f'{{"c": [0, {number}]}}' for number in range(count)]


def test_fixed_bytes_are_a_list_and_unions_their_one_value() -> None:
    fields = [
        {"name": "f", "type": {"type": "fixed", "name": "two", "size": 2}},
        {"name": "u", "type": ["null", "int", "string"]},
    ]
    avro = parse_avro_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), "test")
    union = pa.struct([("member0", pa.int32()), ("member1", pa.string())])
    columns = [pa.array([b"\x01\xff"] * 2), pa.array([{"member0": 1}, {"member1": "x"}], union)]
    rows = pa.StructArray.from_arrays(columns, names=["f", "u"])
    assert json_texts(rows, AVRO, avro).to_pylist() == ['{"f": [1, -1], "u": 1}', '{"f": [1, -1], "u": "x"}']


def test_fields_of_nested_structs_are_in_the_order_of_a_scala_map() -> None:
    names = ["a", "b", "c", "d", "e", "ff", "g"]
    inner = pa.struct([(name, pa.int32()) for name in names])
    rows: Any = pa.array([{"st": dict.fromkeys(names, 1)}], pa.struct([("st", inner)]))
    [jackson], [avro] = json_texts(rows, JACKSON).to_pylist(), json_texts(rows, AVRO).to_pylist()
    # As Hudi 1.2 has written them; the columns of a table keep their order.
    assert jackson == '{"st":{"e":1,"a":1,"b":1,"g":1,"c":1,"ff":1,"d":1}}'
    assert list(json.loads(str(avro))["st"]) == names


# Orders in which Hudi 1.2 has written entries.
SCALA_ORDER = ["tab\t", "日本", "key 39", "ünï", "key 27", "key 24"]
JAVA_ORDER = ["key 15", "key 36", "key 31", "key 17", "key 27", "key 8"]


def test_maps_of_five_entries_are_hash_maps_in_scala_and_smaller_ones_keep_their_order() -> None:
    keys = [*sorted(SCALA_ORDER), "z", "key", "a", "bb"]
    order = scala_map_order(pa.array(keys), np.array([6, 4]))
    assert [keys[location] for location in order] == [*SCALA_ORDER, "z", "key", "a", "bb"]


def test_entries_of_java_maps_go_by_bucket() -> None:
    # Two of them share a bucket, in which they are in the order of their arrival.
    keys = [*JAVA_ORDER[4:], *JAVA_ORDER[2:4], *JAVA_ORDER[:2], "key1", "key0"]
    order = java_map_order(pa.array(keys), np.array([6, 0, 2]))
    assert [keys[location] for location in order] == [*JAVA_ORDER, "key1", "key0"]
    assert len(java_map_order(pa.array([], pa.string()), np.array([0, 0]))) == 0
