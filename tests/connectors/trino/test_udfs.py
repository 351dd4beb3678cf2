"""What runs within Trino's Python, run here: a payload, and the decoder against Avro's own."""

import datetime as dt
import io
import json
import math
import struct
from collections import defaultdict
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import fastavro
import pytest

from hudi_bridge.connectors.trino.decode_udf import decode_chunk
from hudi_bridge.connectors.trino.functions import make_rows_text
from hudi_bridge.connectors.trino.payload_udf import merged_rows, to_payload
from hudi_bridge.merge.custom_payload import RecordPayload, Row


class Adding(RecordPayload):
    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        total = current["n"] + incoming["n"]
        return {**incoming, "n": total, "tags": [*current["tags"], *incoming["tags"]]} if total else None


def merged_whole(payload: RecordPayload, pairs: Any, shapes: Any) -> list[Any]:
    """The merged rows of a payload that gets all columns."""
    names = tuple(name for name, _ in shapes)
    space: dict[str, Any] = {"to_payload": to_payload}
    exec(make_rows_text(shapes), space)
    rows = merged_rows(payload, pairs, names, shapes, space["make_rows"])
    assert all(row is None or row[0] == "" for row in rows)
    return [None if row is None else row[1] for row in rows]


def test_a_payload_gets_names_and_gives_places() -> None:
    shapes = (("n", None), ("tags", ("map", ("array", ("row", (("x", None),))))), ("left_out", None))
    base, log = (1, [("a", [(1,)])], 5), (2, [("b", [None, (2,)]), ("c", [])], 6)
    # Trino mistakes what follows an empty array, so that none is given.
    tags = [None, ("a", [None, (1,)]), ("b", [None, None, (2,)]), ("c", [None])]
    assert merged_whole(Adding(), [(base, log)], shapes) == [(3, tags, 6)]


class Taking(RecordPayload):
    """Deletes the record of an even number; gives fewer columns, in another order."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        return {"note": current["note"], "n": incoming["n"]} if incoming["n"] % 2 else None


def test_a_batch_is_merged_in_order_and_deleted_records_are_none() -> None:
    shapes = (("n", None), ("left_out", None), ("note", None))
    pairs = [((0, 1, f"base {n}"), (n, 1, "log")) for n in range(6)]
    assert merged_whole(Taking(), pairs, shapes) == [(n, None, f"base {n}") if n % 2 else None for n in range(6)]
    assert merged_whole(Taking(), pairs[::2], shapes) == [None] * 3
    assert merged_whole(Taking(), [], shapes) == []


def test_dates_and_timestamps_come_as_text() -> None:
    shapes = (("n", None), ("tags", ("date", None)), ("t", ("timestamp", None)), ("i", ("instant", None)))
    row = (1, "1801-02-03", "1801-02-03 04:05:06.000007", "2101-02-03 04:05:06.000007+00:00")
    moment = dt.datetime.combine(dt.date(1801, 2, 3), dt.time(4, 5, 6, 7))
    instant = dt.datetime(2101, 2, 3, 4, 5, 6, 7, tzinfo=dt.UTC)
    assert merged_whole(RecordPayload(), [(row, row), (row, (2, None, None, None))], shapes) == [
        (1, dt.date(1801, 2, 3), moment, instant),
        (2, None, None, None),
    ]


class Mapped(RecordPayload):
    """Gives a mapping that is no dictionary, or one that makes up what it lacks."""

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        del current
        return MappingProxyType({"n": 1}) if incoming["n"] else defaultdict(int, {"note": "x"})


def test_what_a_mapping_lacks_is_null() -> None:
    shapes = (("n", None), ("note", None))
    assert merged_whole(Mapped(), [((0, ""), (n, "")) for n in (0, 1)], shapes) == [(None, "x"), (1, None)]


SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "row",
    "namespace": "com.acme",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "flag", "type": "boolean"},
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": "double"},
        {"name": "b", "type": "bytes"},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}},
        {"name": "fix", "type": {"type": "fixed", "name": "four", "size": 4}},
        {"name": "again", "type": "four"},
        {"name": "e", "type": {"type": "enum", "name": "colour", "symbols": ["red", "green"]}},
        {"name": "a", "type": {"type": "array", "items": ["null", "long"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "record", "name": "in", "fields": []}}},
        {"name": "r", "type": ["null", {"type": "record", "name": "p", "fields": [{"name": "x", "type": "colour"}]}]},
    ],
}
ROW = {
    "id": 'k"1✓',
    "flag": True,
    "i": -7,
    "l": 2**62,
    "f": 1.5,
    "d": math.nan,
    "b": b"\x00\xff",
    "dec": Decimal("-12.345"),
    "fix": b"abcd",
    "again": b"efgh",
    "e": "green",
    "a": [1, None, -(2**63)],
    "m": {"x": {}},
    "r": {"x": "red"},
}
SHOWN = {
    **ROW,
    "d": "nan",
    "b": "00ff",
    "dec": "-12.345",
    "fix": "61626364",
    "again": "65666768",
}


def chunk_of(*rows: Any) -> bytes:
    parsed = fastavro.parse_schema(SCHEMA)
    datums = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        datums.append(struct.pack(">i", out.tell()) + out.getvalue())
    return b"".join(datums)


def test_records_of_all_types_become_json() -> None:
    other = {**ROW, "l": None, "r": None, "a": [], "m": {}}
    texts = decode_chunk(chunk_of(ROW, other), json.dumps(SCHEMA))
    assert [json.loads(text) for text in texts] == [SHOWN, {**SHOWN, "l": None, "r": None, "a": [], "m": {}}]
    assert decode_chunk(b"", json.dumps(SCHEMA)) == []


def test_a_chunk_that_is_cut_anywhere_is_refused() -> None:
    chunk = chunk_of(ROW)
    for end in range(1, len(chunk)):
        with pytest.raises(ValueError, match="byte"):
            decode_chunk(chunk[:end], json.dumps(SCHEMA))


@pytest.mark.parametrize(
    "record", [b"\xff" * 40, b"\x01" * 40, b"\x00\x00\x00\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x00" * 9]
)
def test_a_record_that_is_none_of_the_schema_is_refused(record: bytes) -> None:
    with pytest.raises(ValueError, match="byte"):
        decode_chunk(struct.pack(">i", len(record)) + record, json.dumps(SCHEMA))


def test_types_that_go_on_for_ever_are_refused() -> None:
    endless = {"type": "record", "name": "n", "fields": [{"name": "n", "type": "n"}]}
    with pytest.raises(ValueError, match="levels"):
        decode_chunk(struct.pack(">i", 1) + b"\0", json.dumps(endless))
