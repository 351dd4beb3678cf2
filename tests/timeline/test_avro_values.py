import io
import json
from typing import Any

import fastavro
import pytest

from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.timeline.avro_values import read_datum
from tests.logformat.log_writer import avro_long, avro_text

PATH = ".hoodie/timeline/001.commit"

STAT: Any = {"type": "record", "name": "stat", "fields": [{"name": "n", "type": ["null", "long"]}]}
SCHEMA: Any = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "yes", "type": "boolean"},
        {"name": "small", "type": "int"},
        {"name": "large", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "twice", "type": "double"},
        {"name": "raw", "type": "bytes"},
        {"name": "text", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "four", "type": {"type": "fixed", "name": "f", "size": 4}},
        {"name": "kind", "type": {"type": "enum", "name": "e", "symbols": ["A", "B"]}},
        {"name": "stats", "type": ["null", {"type": "map", "values": {"type": "array", "items": STAT}}]},
        {"name": "one", "type": ["null", "stat", "string"]},
    ],
}
RECORD: dict[str, Any] = {
    "nothing": None,
    "yes": True,
    "small": -(2**31),
    "large": 2**63 - 1,
    "single": 0.5,
    "twice": -1e300,
    "raw": b"\xff\0",
    "text": "größe",
    "four": b"abcd",
    "kind": "B",
    "stats": {"": [], "p": [{"n": None}, {"n": -300}]},
    "one": "x",
}


def datum(schema: Any, record: dict[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(json.dumps(schema))), record)
    return written.getvalue()


def read(schema: Any, data: bytes) -> dict[str, Any]:
    return read_datum(parse_avro_schema(json.dumps(schema), PATH), data, PATH)


@pytest.mark.parametrize("changed", [{}, {"stats": None, "one": {"n": 7}, "yes": False, "large": -(2**63)}])
def test_values_of_all_types_are_those_that_were_written(changed: dict[str, Any]) -> None:
    record = RECORD | changed
    assert read(SCHEMA, datum(SCHEMA, record)) == record


def test_a_datum_that_ends_anywhere_is_damaged() -> None:
    whole = datum(SCHEMA, RECORD)
    for length in range(len(whole)):
        with pytest.raises(CorruptTimelineError):
            read(SCHEMA, whole[:length])


LIST: Any = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "string"}}]}
TWO = avro_text("x") + avro_text("yz")


def test_blocks_of_items_may_tell_their_size() -> None:
    sized = avro_long(-2) + avro_long(len(TWO)) + TWO
    assert read(LIST, sized + avro_long(1) + avro_text("") + avro_long(0)) == {"a": ["x", "yz", ""]}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (avro_long(-2) + avro_long(len(TWO) + 1) + TWO + avro_long(0), "array items of 5 bytes at byte 2"),
        (avro_long(-(2**40)) + avro_long(0), "a block of 1099511627776 array items at byte 0"),
        (b"\xff" * 10 + b"\1", "no whole number at byte 0"),
        (b"\xff" * 9 + b"\x7f", "no whole number at byte 0"),
        (avro_long(1) + avro_long(-1), "a value of -1 bytes at byte 1"),
    ],
)
def test_damage_is_told_with_its_place(data: bytes, found: str) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        read(LIST, data)
    assert caught.value.found.startswith(found)
