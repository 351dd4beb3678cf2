"""What runs within Trino's Python, run here: against the columnar merge, and against Avro's own decoder."""

import io
import json
import math
import struct
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.connectors.trino.decode_udf import decode_chunk
from hudi_bridge.connectors.trino.merge_udf import comparable, contested_fields, float_rank
from hudi_bridge.connectors.trino.payload_udf import combined
from hudi_bridge.merge.custom_payload import RecordPayload, Row
from hudi_bridge.merge.rules import DEFAULT_PAYLOAD, EVENT_TIME, Precedence


def total_order(value: float) -> tuple[bool, float, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value, 0.0 if math.isnan(value) else math.copysign(1, value)


@given(st.floats(), st.floats())
def test_floats_rank_in_the_total_order_of_java(one: float, other: float) -> None:
    assert (float_rank(one) < float_rank(other)) == (total_order(one) < total_order(other))


def test_missing_numbers_count_as_zero_where_they_do() -> None:
    assert comparable([None, None, 2], [True, False, False], sequences=False) == (0, None, 2)


@pytest.mark.parametrize(
    ("text", "parts"), [("000010.9", (10, 9)), ("2.10", (2, 10)), ("x", (None, None)), (None, (None, None))]
)
def test_sequences_compare_as_numbers(text: str | None, parts: tuple[int | None, int | None]) -> None:
    assert comparable([text], [False], sequences=True) == parts


def fields(rule: Precedence, base: int, log: int, **changes: Any) -> list[bool] | None:
    settings: dict[str, Any] = {"flags": (False, False, False), "unset": ([True, False], [False, True])} | changes
    newest = settings.pop("newest", (False, False))
    return contested_fields(rule.over_base_row, (False,), newest, sequences=False, ordering=(base, log), **settings)


def test_a_winner_takes_unset_fields_from_the_loser() -> None:
    assert fields(EVENT_TIME, 1, 2) == [True, False]
    assert fields(EVENT_TIME, 2, 1) == [True, False]
    assert fields(EVENT_TIME, 2, 1, unset=([False, False], [False, False])) == [False, False]
    assert fields(EVENT_TIME, 2, 1, unset=(None, None)) == [False, False]
    assert fields(EVENT_TIME, 2, 1, newest=(False, True)) == [True, True]


def test_a_delete_removes_the_row_or_leaves_it_as_it_is() -> None:
    assert fields(EVENT_TIME, 1, 2, flags=(True, True, False)) is None
    assert fields(EVENT_TIME, 2, 1, flags=(True, True, False)) == [False, False]
    assert fields(EVENT_TIME, 2, 1, flags=(True, True, True)) is None
    # A row that carries a delete marker is compared as a row.
    assert fields(DEFAULT_PAYLOAD, 2, 1, flags=(True, False, False)) == [False, False]
    assert fields(DEFAULT_PAYLOAD, 2, 1, flags=(True, True, False)) is None


class Adding(RecordPayload):
    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        total = current["n"] + incoming["n"]
        return {**incoming, "n": total, "tags": [*current["tags"], *incoming["tags"]]} if total else None


def test_a_payload_gets_names_and_gives_places() -> None:
    shape = "row", (("n", None), ("tags", ("map", ("array", ("row", (("x", None),))))), ("left_out", None))
    base, log = (1, {"a": [(1,)]}, 5), (2, {"b": [None, (2,)]}, 6)
    assert combined(Adding(), base, log, shape) == (3, {"a": [(1,)], "b": [None, (2,)]}, 6)
    assert combined(Adding(), base, (-1, {}, 0), shape) is None


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
