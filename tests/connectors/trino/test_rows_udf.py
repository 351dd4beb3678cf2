"""The decoder that runs within Trino's Python, run here on layouts of real schemas, against fastavro."""

import datetime as dt
import io
import json
import math
import struct
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.connectors.trino.rows_udf import decode_rows
from hudi_bridge.engines import iter_log_blocks, record_layout
from hudi_bridge.errors import UnsupportedTableError
from tests.support.table_writer import TableWriter, at

POINT = {"type": "record", "name": "point", "fields": [{"name": "x", "type": ["null", "long"]}]}
FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", "string"),
    ("ts", "long"),
    ("flag", "boolean"),
    ("i", "int"),
    ("f", "float"),
    ("d", "double"),
    ("raw", "bytes"),
    ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}),
    ("fix", {"type": "fixed", "name": "four", "size": 4}),
    ("dec_fix", {"type": "fixed", "name": "dec_four", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 2}),
    ("e", {"type": "enum", "name": "colour", "symbols": ["red", "green"]}),
    ("a", {"type": "array", "items": ["null", "long"]}),
    ("m", {"type": "map", "values": {"type": "array", "items": "string"}}),
    ("r", POINT),
    ("points", {"type": "array", "items": "point"}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    ("micros", {"type": "long", "logicalType": "local-timestamp-micros"}),
)
META = 5


def layout_in(folder: Path, stored: tuple[tuple[str, Any], ...], wanted: tuple[tuple[str, Any], ...]) -> Any:
    """The layout of a block with the fields ``stored`` for a table with the fields ``wanted``."""
    writer = TableWriter(folder=folder, fields=stored).create()
    writer.base_file(at(1), [])
    writer.log_file(at(2), [writer.data_block(at(2), [])])
    writer.commit(at(1))
    writer.commit(at(2))
    later = replace(writer, fields=wanted)
    later.commit(at(3))
    table = later.open()
    (split,) = table.splits()
    (block,) = iter_log_blocks(table.storage, split)
    return json.loads(record_layout(split, block))


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The layout of all fields, without the meta columns."""
    actual = layout_in(tmp_path_factory.mktemp("t"), FIELDS, FIELDS)
    assert [slot for slot, _ in actual["fields"]] == list(range(META + len(FIELDS)))
    assert [kind for _, kind in actual["fields"][:2]] == [
        ["repeated", ["union", ["null", "string"]]],
        ["union", ["null", "string"]],
    ]
    return {"width": len(FIELDS), "fields": [[slot - META, kind] for slot, kind in actual["fields"][META:]]}


LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70) | st.sampled_from([2**n for n in range(0, 63, 7)])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.text(max_size=80),
    "ts": LONGS,
    "flag": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "f": st.floats(width=32, allow_nan=False),
    "d": st.floats(allow_nan=False),
    "raw": st.binary(max_size=200),
    "dec": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda one: Decimal(one).scaleb(-3)),
    "fix": st.binary(min_size=4, max_size=4),
    "dec_fix": st.integers(-(10**8) + 1, 10**8 - 1).map(lambda one: Decimal(one).scaleb(-2)),
    "e": st.sampled_from(["red", "green"]),
    "a": st.lists(st.none() | LONGS, max_size=5),
    "m": st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=3), max_size=2), max_size=3),
    "r": st.fixed_dictionaries({"x": st.none() | LONGS}),
    "points": st.lists(st.fixed_dictionaries({"x": st.none() | LONGS}), max_size=3),
    "day": st.integers(-(2**31), 2**31 - 1),
    "millis": st.integers(-(2**50), 2**50),
    "micros": LONGS,
}
COLUMNS = st.sampled_from(list(VALUES)).flatmap(
    lambda name: st.tuples(st.just(name), st.lists(st.none() | VALUES[name], min_size=1, max_size=3))
)


def plain(kind: Any) -> Any:
    """A schema without logical types of time, for fastavro to write whole numbers."""
    if isinstance(kind, dict) and kind.get("logicalType", "decimal") != "decimal":
        return kind["type"]
    return kind


PLAIN: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "row",
        "fields": [{"name": name, "type": ["null", plain(kind)]} for name, kind in FIELDS],
    }
)


def chunk_of(*rows: Any) -> bytes:
    datums = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, PLAIN, row)
        datums.append(struct.pack(">i", out.tell()) + out.getvalue())
    return b"".join(datums)


def shown(row: Any) -> tuple[Any, ...]:
    changed = {
        "millis": None if row["millis"] is None else row["millis"] * 1000,
        "a": None if row["a"] is None else [None, *row["a"]],
        "m": None if row["m"] is None else [None, *((key, [None, *texts]) for key, texts in row["m"].items())],
        "r": None if row["r"] is None else (row["r"]["x"],),
        "points": None if row["points"] is None else [None, *((item["x"],) for item in row["points"])],
    }
    return tuple((row | changed).values())


ROW = {
    "id": 'k"1✓',
    "ts": 2**40,
    "flag": True,
    "i": -7,
    "f": 1.5,
    "d": 2.5,
    "raw": b"\x00\xff",
    "dec": Decimal("-12.345"),
    "fix": b"abcd",
    "dec_fix": Decimal("-1.25"),
    "e": "green",
    "a": [1, None, -(2**63)],
    "m": {"x": ["y"]},
    "r": {"x": None},
    "points": [{"x": 2}],
    "day": -1,
    "millis": -1,
    "micros": 1,
}


@given(COLUMNS)
def test_rows_are_those_of_avro(layout: Any, column: tuple[str, list[Any]]) -> None:
    name, values = column
    rows = [ROW | {name: value} for value in values]
    assert decode_rows(chunk_of(*rows), json.dumps(layout)) == list(map(shown, rows))


def test_values_of_the_record_before_are_told_from_others() -> None:
    layout = {"width": 2, "fields": [[1, ["repeated", ["union", ["null", "string"]]]], [None, "long"], [0, "double"]]}
    schema: Any = {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "s", "type": ["null", "string"]},
            {"name": "n", "type": "long"},
            {"name": "d", "type": "double"},
        ],
    }
    texts = [None, None, "a", "a", "ab", "", "x" * 100, "x" * 100, "x" * 101, None]
    parts = []
    for number, text in enumerate(texts):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"s": text, "n": number, "d": math.inf})
        parts.append(struct.pack(">i", out.tell()) + out.getvalue())
    assert decode_rows(b"".join(parts), json.dumps(layout)) == [(math.inf, text) for text in texts]


def test_a_chunk_that_is_cut_anywhere_is_refused(layout: Any) -> None:
    chunk = chunk_of(ROW)
    for end in range(1, len(chunk)):
        with pytest.raises((ValueError, IndexError, struct.error)):
            decode_rows(chunk[:end], json.dumps(layout))


@pytest.mark.parametrize("content", [b"\xff" * 40, b"\x01" * 40, b"\x02\x01", b"\x02\x03a", b"\x04", b"\0" * 40])
def test_a_record_that_is_none_of_the_layout_is_refused(content: bytes, layout: Any) -> None:
    with pytest.raises((ValueError, IndexError, struct.error)):
        decode_rows(struct.pack(">i", len(content)) + content, json.dumps(layout))


def test_columns_are_found_by_name(tmp_path: Path) -> None:
    stored = (("id", "string"), ("ts", "int"), ("gone", "long"))
    layout = layout_in(tmp_path, stored, (("id", "string"), ("new", "string"), ("ts", "long")))
    slots = dict(layout["fields"][META:])
    assert (layout["width"], sorted(slots, key=str)) == (META + 3, [META, META + 2, None])


DEEP: Any = "long"
for _ in range(9):
    DEEP = {"type": "array", "items": DEEP}


@pytest.mark.parametrize(
    ("stored", "wanted", "reason"),
    [
        ("float", "double", "cast float to double"),
        ("long", "string", "cast long to string"),
        ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, "changed inside"),
        ({"type": "array", "items": ["null", "long", "string"]}, None, "several types in column v"),
        (DEEP, DEEP, "more than 8 levels in column v"),
        (
            {
                "type": "fixed",
                "name": "vector",
                "size": 8,
                "logicalType": "vector",
                "dimension": 2,
                "elementType": "FLOAT",
            },
            None,
            "a VECTOR in column v",
        ),
        ({"type": "long", "logicalType": "timestamp-nanos"}, None, "nanoseconds in column v"),
    ],
)
def test_what_no_layout_can_express_is_refused_by_name(tmp_path: Path, stored: Any, wanted: Any, reason: str) -> None:
    fields = (("id", "string"), ("ts", "long"))
    with pytest.raises(UnsupportedTableError, match=reason):
        layout_in(tmp_path, (*fields, ("v", stored)), (*fields, ("v", wanted or stored)))


def test_whole_numbers_stand_for_times() -> None:
    layout = json.dumps({"width": 2, "fields": [[0, "millis"], [1, "long"]]})
    schema: Any = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "m", "type": "long"}, {"name": "d", "type": "int"}],
    }
    out = io.BytesIO()
    moment = dt.datetime(1801, 1, 1, tzinfo=dt.UTC)
    fastavro.schemaless_writer(out, schema, {"m": int(moment.timestamp() * 1000), "d": -61728})
    ((micros, days),) = decode_rows(struct.pack(">i", out.tell()) + out.getvalue(), layout)
    assert dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=micros) == moment
    assert dt.date(1970, 1, 1) + dt.timedelta(days=days) == dt.date(1800, 12, 30)
