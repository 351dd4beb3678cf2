import io
import json
from typing import Any

import fastavro
import pytest

from hudi_bridge.errors import CorruptTimelineError, UnsupportedTableError
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.timeline.records import read_datum
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


NULLABLE: Any = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "number", "type": ["null", "long"]},
        {"name": "text", "type": ["null", "string"]},
        {"name": "real", "type": ["null", "double", "string"]},
        {"name": "last", "type": ["null", "int"]},
    ],
}
NUMBERS = [None, 0, 1, -1, 63, -64, 64, -65, 8191, -8192, 8192, -8193, 2**31 - 1, -(2**31)]


@pytest.mark.parametrize("text", [None, "", "x", "ö" * 31, "x" * 63, "x" * 64, "x" * 8192])
@pytest.mark.parametrize("real", [None, 0.5, "x"])
def test_values_that_may_be_null_are_read_whatever_their_width(text: str | None, real: float | str | None) -> None:
    for number in [*NUMBERS, 2**63 - 1, -(2**63)]:
        for last in NUMBERS:
            record = {"number": number, "text": text, "real": real, "last": last}
            assert read(NULLABLE, datum(NULLABLE, record)) == record


@pytest.mark.parametrize("last", NUMBERS)
def test_values_that_may_be_null_end_with_their_record(last: int | None) -> None:
    whole = datum(NULLABLE, {"number": 8192, "text": "x" * 64, "real": 0.5, "last": last})
    for length in range(len(whole)):
        with pytest.raises(CorruptTimelineError):
            read(NULLABLE, whole[:length])
    for more in (b"\0", b"\2"):
        with pytest.raises(CorruptTimelineError, match="bytes after the last field"):
            read(NULLABLE, whole + more)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\1", "branch -1 of a union at byte 0"),
        (b"\4", "branch 2 of a union at byte 0"),
        (b"\0\2\1", "a value of -1 bytes at byte 2"),
        (b"\0\2\x80\1x", "a value of 64 bytes at byte 2"),
        (b"\0\2\2\xff\0\0", "damaged Avro"),
        (b"\0\0\2" + b"\0" * 7, "7 bytes left at byte 3"),
        (b"\0\0\0\2", "no whole number at byte 4"),
        (b"\0\0\0\2\x80", "no whole number at byte 4"),
    ],
)
def test_damage_of_values_that_may_be_null_is_told_with_its_place(data: bytes, found: str) -> None:
    with pytest.raises(CorruptTimelineError) as caught:
        read(NULLABLE, data)
    assert caught.value.found.startswith(found)


def test_files_of_one_schema_are_named_each_in_its_errors() -> None:
    avro = parse_avro_schema(json.dumps(NULLABLE), PATH)
    assert read_datum(avro, b"\0\0\0\0", PATH)
    for path in ("002.commit", "003.commit"):
        with pytest.raises(CorruptTimelineError) as caught:
            read_datum(avro, b"\0", path)
        assert caught.value.path == path


def test_a_branch_that_does_not_occur_may_have_items_of_no_bytes() -> None:
    nothing = {"type": "array", "items": "null"}
    schema: Any = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", nothing]}]}
    assert read(schema, b"\0") == {"a": None}
    with pytest.raises(UnsupportedTableError, match="items that take no bytes"):
        read(schema, b"\2\2\0")
