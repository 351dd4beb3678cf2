import io
import json
import struct
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptLogFileError, HudiReadError, UnsupportedTableError
from hudi_bridge.logformat import avro_cursors
from hudi_bridge.logformat.avro_columns import Array, decode_avro_block, decode_avro_records, record_bounds
from hudi_bridge.schema.avro import AvroRecord, parse_avro_schema
from hudi_bridge.schema.avro_types import MAX_EMPTY_ITEMS

PATH, OFFSET = "p/.f1_1.log.1_0-1-0", 4096


@pytest.fixture(params=[1, 64], ids=["together", "singly"], autouse=True)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to walk arrays, which the number of cursors decides between, must agree."""
    monkeypatch.setattr(avro_cursors, "MIN_TOGETHER", request.param)


def number(value: int) -> bytes:
    """Zigzag, then base 128 with the low digit first."""
    rest = value << 1 if value >= 0 else ~value << 1 | 1
    digits = []
    while rest > 0x7F:
        digits.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*digits, rest])


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return number(len(data)) + data


def block(*records: bytes, version: int = 3, count: int | None = None) -> bytes:
    head = struct.pack(">ii", version, len(records) if count is None else count)
    return head + b"".join(struct.pack(">i", len(record)) + record for record in records)


def writer(**columns: Any) -> AvroRecord:
    fields = [{"name": name, "type": avro} for name, avro in columns.items()]
    return parse_avro_schema(json.dumps({"type": "record", "name": "r", "fields": fields}), PATH)


def column(avro: Any, *values: bytes) -> Array:
    """The values as read from a block whose records have one field."""
    rows = decode_avro_block(block(*values), writer(c=avro), None, PATH, OFFSET)
    rows.validate(full=True)
    return rows.column("c")


def values_of(avro: Any, *values: bytes) -> list[Any]:
    return column(avro, *values).to_pylist()


ARRAY = {"type": "array", "items": "int"}
PAIR = {
    "type": "record",
    "name": "pair",
    "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "string"}],
}
NUMBERS = [0, -1, 1, 63, -64, 64, -65, 8191, 8192, 2**27, -(2**27) - 1, 2**31 - 1, -(2**31)]
LONG_NUMBERS = [
    *NUMBERS,
    *(sign * 2**bits + step for bits in range(6, 63) for sign in (1, -1) for step in (-1, 0)),
]
LONG_NUMBERS += [2**63 - 1, -(2**63)]


def test_numbers_of_every_length() -> None:
    assert values_of("int", *map(number, NUMBERS)) == NUMBERS
    assert values_of("long", *map(number, LONG_NUMBERS)) == LONG_NUMBERS
    for value in LONG_NUMBERS:
        assert values_of("long", number(value)) == [value]


def test_a_number_takes_nothing_from_the_bytes_after_it() -> None:
    rows = [{"n": value, "after": b"\xff"} for value in LONG_NUMBERS]
    data = [number(value) + b"\xff" for value in LONG_NUMBERS]
    schema = writer(n="long", after={"type": "fixed", "name": "f", "size": 1})
    assert decode_avro_block(block(*data), schema, None, PATH, OFFSET).to_pylist() == rows


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**63 - 1])
def test_an_int_of_more_than_32_bits_is_corrupt(value: int) -> None:
    with pytest.raises(CorruptLogFileError, match=str(value)):
        values_of("int", number(value))


@pytest.mark.parametrize("data", [b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02", b"\xff" * 20])
def test_a_number_of_more_than_64_bits_is_corrupt(data: bytes) -> None:
    for avro, value in (("long", data), (ARRAY, data), (ARRAY, number(1) + data), ("string", data)):
        with pytest.raises(CorruptLogFileError, match=r"64 bits|whole number"):
            values_of(avro, value)


def test_a_number_longer_than_it_need_be_counts() -> None:
    assert values_of("long", b"\x82\x80\x00", b"\x82\x80\x80\x80\x80\x80\x80\x80\x80\x00") == [1, 1]


def test_floating_point_keeps_every_bit() -> None:
    doubles = [0x8000000000000000, 0x7FF8000000000001, 0xFFF4000000ABCDEF, 0x7FF0000000000000, 1]
    floats = [0x80000000, 0x7FC00001, 0xFFA0ABCD, 0xFF800000, 1]
    read = column("double", *(struct.pack("<Q", bits) for bits in doubles))
    assert np.frombuffer(memoryview(read.buffers()[1] or b""), np.uint64, 5).tolist() == doubles
    read = column("float", *(struct.pack("<I", bits) for bits in floats))
    assert np.frombuffer(memoryview(read.buffers()[1] or b""), np.uint32, 5).tolist() == floats


def test_booleans() -> None:
    assert values_of("boolean", b"\x01", b"\x00") == [True, False]
    with pytest.raises(CorruptLogFileError, match=r"no boolean in record 1 "):
        values_of("boolean", b"\x01", b"\x02")


@pytest.mark.parametrize(
    "strings",
    [
        [],
        [""],
        ["", ""],
        ["one"],
        ["same", "size"],
        ["é€", "ab"],
        ["a", "", "two words", "é€😀", "x" * 5000],
    ],
)
def test_strings_and_bytes(strings: list[str]) -> None:
    assert values_of("string", *map(text, strings)) == strings
    assert values_of("bytes", *map(text, strings)) == [value.encode() for value in strings]


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"ab\x80"])
def test_a_string_that_is_not_utf8_is_corrupt(broken: bytes) -> None:
    with pytest.raises(CorruptLogFileError, match="not UTF-8 in record 1 "):
        values_of("string", text("fine"), text(broken))
    assert values_of("bytes", text(broken)) == [broken]
    assert decode_avro_block(block(text(broken)), writer(c="string"), [], PATH, OFFSET).num_rows == 1


@pytest.mark.parametrize("length", [-1, 4, 2**31, 2**62, 2**63 - 1, -(2**63)])
def test_a_length_beyond_the_record_is_corrupt(length: int) -> None:
    for columns in (None, ()):
        with pytest.raises(CorruptLogFileError):
            decode_avro_block(block(number(length) + b"abc", text("next")), writer(c="string"), columns, PATH, OFFSET)


def test_fixed_and_enum() -> None:
    assert values_of({"type": "fixed", "name": "f", "size": 2}, b"ab", b"\xff\x00") == [b"ab", b"\xff\x00"]
    assert values_of({"type": "fixed", "name": "f", "size": 0}, b"", b"") == [b"", b""]
    colours = {"type": "enum", "name": "e", "symbols": ["RED", "GREEN"]}
    assert values_of(colours, number(1), number(0)) == ["GREEN", "RED"]
    for location in (2, -1):
        with pytest.raises(CorruptLogFileError, match=f"symbol {location} of e"):
            values_of(colours, number(location))


def big_endian(unscaled: int, size: int) -> bytes:
    return unscaled.to_bytes(size, "big", signed=True)


def test_vectors_are_numbers_side_by_side_with_the_low_byte_first() -> None:
    def vector(name: str, size: int, **facts: Any) -> dict[str, Any]:
        return {"type": "fixed", "name": name, "size": size, "logicalType": "vector", **facts}

    floats, doubles = vector("f", 8, dimension=2), vector("d", 16, dimension=2, elementType="DOUBLE")
    half_and_minus_two = b"\x00\x00\x00\x3f\x00\x00\x00\xc0"
    assert values_of(floats, half_and_minus_two, bytes(8)) == [[0.5, -2.0], [0.0, 0.0]]
    assert values_of(["null", floats], b"\x00", b"\x02" + half_and_minus_two, b"\x00") == [None, [0.5, -2.0], None]
    assert values_of(doubles, struct.pack("<2d", 0.1, -1e300)) == [[0.1, -1e300]]
    assert values_of(vector("b", 3, dimension=3, elementType="INT8"), b"\x80\xff\x7f") == [[-128, -1, 127]]
    items = number(2) + half_and_minus_two + bytes(8) + number(0)
    assert values_of({"type": "array", "items": floats}, items, number(0)) == [[[0.5, -2.0], [0.0, 0.0]], []]
    inside = {"type": "record", "name": "s", "fields": [{"name": "v", "type": floats}]}
    assert values_of(inside, half_and_minus_two) == [{"v": [0.5, -2.0]}]
    with pytest.raises(CorruptLogFileError):
        values_of(floats, half_and_minus_two[:-1])


@pytest.mark.parametrize("digits", [1, 9, 18, 19, 37, 38, 39, 76])
def test_decimals_to_the_last_digit(digits: int) -> None:
    most = 10**digits - 1
    unscaled = [0, 1, -1, 127, 128, -128, -129, most, -most][: 3 if digits < 3 else None]
    logical = {"logicalType": "decimal", "precision": digits, "scale": digits // 2}
    size = (most.bit_length() + 8) // 8
    expected = [Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -(digits // 2))) for value in unscaled]
    as_fixed = {"type": "fixed", "name": "f", "size": size, **logical}
    assert values_of(as_fixed, *(big_endian(value, size) for value in unscaled)) == expected
    shortest = [text(big_endian(value, (value.bit_length() + 8) // 8)) for value in unscaled]
    assert values_of({"type": "bytes", **logical}, *shortest) == expected
    padded = [text(big_endian(value, 40)) for value in unscaled]
    assert values_of({"type": "bytes", **logical}, *padded) == expected


@pytest.mark.parametrize(
    "value", [b"", big_endian(1000, 2), big_endian(-1000, 20), big_endian(2**127, 17), b"\0\x80" * 9]
)
def test_a_decimal_that_is_too_wide_is_corrupt(value: bytes) -> None:
    avro = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}
    with pytest.raises(CorruptLogFileError, match="record 1 "):
        values_of(avro, text(b"\x01"), text(value))


def test_logical_numbers_are_taken_as_they_stand() -> None:
    for logical, arrow in (
        ("timestamp-micros", pa.timestamp("us", "UTC")),
        ("local-timestamp-nanos", pa.timestamp("ns")),
    ):
        read = column({"type": "long", "logicalType": logical}, *map(number, LONG_NUMBERS))
        assert read.type == arrow
        assert read.cast(pa.int64()).to_pylist() == LONG_NUMBERS
    dates = column({"type": "int", "logicalType": "date"}, *map(number, NUMBERS))
    assert dates.cast(pa.int32()).to_pylist() == NUMBERS


@pytest.mark.parametrize(
    ("kind", "logical", "day"), [("int", "time-millis", 86_400_000), ("long", "time-micros", 86_400_000_000)]
)
def test_times_lie_within_a_day(kind: str, logical: str, day: int) -> None:
    avro = {"type": kind, "logicalType": logical}
    integers = pa.int64() if kind == "long" else pa.int32()
    assert column(avro, number(0), number(day - 1)).equals(pa.array([0, day - 1], integers).cast(column(avro).type))
    for beyond in (-day, day):
        with pytest.raises(CorruptLogFileError, match=str(beyond)):
            values_of(avro, number(beyond))
    # Flink makes them of moments before 1970.
    for before in (-1, 1 - day):
        with pytest.raises(
            UnsupportedTableError, match=f"time of day: found {before} [mu]s in .*supported: 0 to {day - 1}"
        ):
            values_of(avro, number(0), number(before))


def test_nullable_columns_with_null_first_or_last() -> None:
    null_first = [number(1) + text("a"), number(0), number(1) + text(""), number(0)]
    assert values_of(["null", "string"], *null_first) == ["a", None, "", None]
    null_last = [number(0) + number(7), number(1), number(0) + number(-7)]
    assert values_of(["int", "null"], *null_last) == [7, None, -7]
    assert values_of(["null", "string"], number(0), number(0)) == [None, None]
    assert values_of(["string"], number(0) + text("a")) == ["a"]
    assert values_of(["null"], number(0)) == [None]


def test_unions_of_several_types_become_structs_of_members() -> None:
    avro = ["int", "null", "string", PAIR]
    read = values_of(avro, number(2) + text("a"), number(1), number(0) + number(5), number(3) + number(6) + text("b"))
    assert read == [
        {"member0": None, "member1": "a", "member2": None},
        None,
        {"member0": 5, "member1": None, "member2": None},
        {"member0": None, "member1": None, "member2": {"x": 6, "y": "b"}},
    ]


def test_unions_of_two_widths_become_the_wider() -> None:
    assert values_of(["int", "long"], number(0) + number(5), number(1) + number(2**40)) == [5, 2**40]
    halves = [number(2) + struct.pack("<f", 0.5), number(1), number(0) + struct.pack("<d", 0.1)]
    assert values_of(["double", "null", "float"], *halves) == [0.5, None, 0.1]
    moments = [{"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"}]
    assert values_of(moments, number(0) + number(3), number(1) + number(4)) == [3, 4]


@pytest.mark.parametrize("branch", [-1, 2, 3, 2**40])
def test_a_branch_that_the_union_lacks_is_corrupt(branch: int) -> None:
    union = ["null", "int"]
    for avro, value in ((union, b""), ({"type": "array", "items": union}, number(1))):
        with pytest.raises(CorruptLogFileError, match="branch"):
            values_of(avro, value + number(branch) + number(0) + number(0))


def test_arrays_in_one_block_in_several_and_with_sizes() -> None:
    items = [number(value) for value in (1, -300, 70000)]
    one = number(3) + b"".join(items) + number(0)
    several = number(1) + items[0] + number(2) + items[1] + items[2] + number(0)
    sized = number(-1) + number(len(items[0])) + items[0] + number(-2) + number(5) + items[1] + items[2] + number(0)
    assert values_of(ARRAY, one, number(0), several, sized, one) == [
        [1, -300, 70000],
        [],
        [1, -300, 70000],
        [1, -300, 70000],
        [1, -300, 70000],
    ]
    rows = decode_avro_block(block(sized + b"\x0e", several + b"\x10"), writer(a=ARRAY, c="int"), ["c"], PATH, OFFSET)
    assert rows.to_pylist() == [{"c": 7}, {"c": 8}]


def test_arrays_of_fixed_width_items_in_several_blocks() -> None:
    halves, quarters = struct.pack("<2d", 0.5, 1.5), struct.pack("<d", 0.25)
    avro = {"type": "array", "items": "double"}
    first = number(2) + halves + number(-1) + number(8) + quarters + number(0)
    second = number(1) + quarters + number(0)
    assert values_of(avro, first, second, number(0)) == [[0.5, 1.5, 0.25], [0.25], []]


@pytest.mark.parametrize(
    "data",
    [
        number(5) + b"\x02\x02" + number(0),
        number(2**62) + b"\x02",
        number(-(2**63)) + number(1) + b"\x02" + number(0),
        number(-1) + number(-1) + b"\x02" + number(0),
        number(-1) + number(2) + b"\x02" + number(0),
        number(-1) + number(2**63 - 1) + b"\x02" + number(0),
        number(1) + b"\x02",
        number(1) + b"\x02" + number(-1),
    ],
)
def test_array_counts_and_sizes_that_make_no_sense_are_corrupt(data: bytes) -> None:
    avro_types = (ARRAY, {"type": "array", "items": "boolean"}, {"type": "array", "items": ARRAY})
    for avro in avro_types:
        for columns in (None, ()):
            with pytest.raises(CorruptLogFileError):
                decode_avro_block(block(data), writer(c=avro), columns, PATH, OFFSET)


@pytest.mark.parametrize("item", ["null", {"type": "record", "name": "e", "fields": []}])
def test_items_without_bytes_are_read_but_not_without_end(item: Any) -> None:
    avro = {"type": "array", "items": item}
    value: Any = None if item == "null" else {}
    assert values_of(avro, number(3) + number(0), number(0)) == [[value] * 3, []]
    for huge in (
        number(2**62) + number(0),
        number(MAX_EMPTY_ITEMS + 1) + number(0),
        (number(MAX_EMPTY_ITEMS) * 2) + number(0),
    ):
        with pytest.raises(CorruptLogFileError, match="items"):
            values_of(avro, huge)


def test_maps() -> None:
    avro = {"type": "map", "values": ["null", "long"]}
    entries = number(2) + text("k") + number(1) + number(5) + text("é") + number(0) + number(0)
    assert values_of(avro, entries, number(0)) == [[("k", 5), ("é", None)], []]


def test_keys_of_maps_have_no_validity_bitmap() -> None:
    """PyArrow 25 ends the process for one, even if it says that no key is null."""
    entries = number(2) + text("k") + number(5) + text("é") + number(6) + number(0)
    maps: Any = column({"type": "map", "values": "long"}, entries, entries)
    assert maps.keys.buffers()[0] is None


def test_records_within_everything() -> None:
    nested = {"type": "map", "values": {"type": "array", "items": ["null", PAIR]}}
    entry = text("k") + number(2) + number(0) + number(1) + number(9) + text("z") + number(0)
    assert values_of(nested, number(1) + entry + number(0)) == [[("k", [None, {"x": 9, "y": "z"}])]]
    empty = {"type": "record", "name": "e", "fields": []}
    assert values_of(["null", empty], number(1), number(0)) == [{}, None]


def test_only_the_wanted_columns_are_built_in_the_writers_order() -> None:
    schema = writer(a="string", b=ARRAY, c=["null", "long"], d={"type": "map", "values": "bytes"}, e="int")
    data = text("x") + number(1) + number(4) + number(0) + number(1) + number(2**40)
    data += number(1) + text("k") + text(b"\xff") + number(0) + number(6)
    row = {"a": "x", "b": [4], "c": 2**40, "d": [("k", b"\xff")], "e": 6}
    for wanted in (None, ["e", "a", "absent"], {"c"}, ("b", "d"), []):
        rows = decode_avro_block(block(data, data), schema, wanted, PATH, OFFSET)
        expected = {name: value for name, value in row.items() if wanted is None or name in wanted}
        assert rows.to_pylist() == [expected, expected]
        assert rows.schema.names == list(expected)
        assert rows.num_rows == 2


def test_the_wanted_columns_are_not_searched_for_each_field() -> None:
    class Searched(tuple[str, ...]):
        """Names that may be listed, but not looked through."""

        __slots__ = ()

        def __contains__(self, name: object) -> bool:
            raise AssertionError(name)

    schema = writer(a="string", b="int")
    rows = decode_avro_block(block(text("x") + number(1)), schema, Searched(("b",)), PATH, OFFSET)
    assert rows.to_pylist() == [{"b": 1}]


def test_no_records_and_no_columns_still_have_a_schema_and_a_length() -> None:
    schema = writer(a="string", b=ARRAY, c=["null", PAIR], d={"type": "map", "values": "int"}, e=["int", "string"])
    rows = decode_avro_block(block(), schema, None, PATH, OFFSET)
    assert (rows.num_rows, rows.schema.names) == (0, ["a", "b", "c", "d", "e"])
    assert decode_avro_block(block(b"", b""), writer(), None, PATH, OFFSET).num_rows == 2


def test_content_versions() -> None:
    for version in (1, 2, 3):
        assert decode_avro_block(block(number(1), version=version), writer(c="int"), None, PATH, OFFSET).num_rows == 1
    for version in (0, 4, -1):
        with pytest.raises(UnsupportedTableError, match="content"):
            decode_avro_block(block(number(1), version=version), writer(c="int"), None, PATH, OFFSET)


def test_an_error_names_file_offset_and_record() -> None:
    with pytest.raises(CorruptLogFileError) as caught:
        decode_avro_block(block(number(1), number(1) + b"\0"), writer(c="int"), None, PATH, OFFSET)
    assert (caught.value.path, caught.value.offset) == (PATH, OFFSET)
    assert "record 1 of the block (byte 18 of its content)" in caught.value.found


WIDE = {
    "s": ["null", "string"],
    "n": "long",
    "f": {"type": "fixed", "name": "f", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 1},
    "a": {"type": "array", "items": ["null", PAIR]},
    "m": {"type": "map", "values": "double"},
    "u": ["null", "int", "string"],
    "b": "boolean",
}
WIDE_ROW = {
    "s": "é",
    "n": 2**50,
    "f": big_endian(-99999, 3),
    "a": [None, {"x": 1, "y": "why"}],
    "m": {"k": -0.0},
    "u": "text",
    "b": True,
}


def wide_datum() -> bytes:
    fields = [{"name": name, "type": avro} for name, avro in WIDE.items()]
    fields[2] = {"name": "f", "type": {"type": "fixed", "name": "f", "size": 3}}
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, WIDE_ROW)
    return stream.getvalue()


def test_a_record_cut_short_at_any_byte_is_corrupt() -> None:
    schema, datum = writer(**WIDE), wide_datum()
    whole = decode_avro_block(block(datum), schema, None, PATH, OFFSET)
    for columns in (None, [], ["n", "m"]):
        for length in range(len(datum)):
            with pytest.raises(CorruptLogFileError):
                decode_avro_block(block(datum, datum[:length], datum), schema, columns, PATH, OFFSET)
        for more in (b"\0", b"\x02", datum):
            with pytest.raises(CorruptLogFileError):
                decode_avro_block(block(datum, datum + more, datum), schema, columns, PATH, OFFSET)
    assert whole.column("f").to_pylist() == [Decimal("-9999.9")]


def test_a_block_cut_short_at_any_byte_is_corrupt() -> None:
    schema, content = writer(**WIDE), block(wide_datum(), wide_datum())
    for length in range(len(content)):
        with pytest.raises(CorruptLogFileError):
            decode_avro_block(content[:length], schema, None, PATH, OFFSET)
    for garbage in (b"\0", b"\0" * 4, content):
        with pytest.raises(CorruptLogFileError):
            decode_avro_block(content + garbage, schema, None, PATH, OFFSET)


def test_any_one_byte_changed_gives_rows_or_an_error_of_ours() -> None:
    schema, datum = writer(**WIDE), wide_datum()
    for position in range(len(datum)):
        for value in (0x00, 0x01, 0x02, 0x03, 0x7F, 0x80, 0xFE, 0xFF):
            changed = datum[:position] + bytes([value]) + datum[position + 1 :]
            try:
                rows = decode_avro_block(block(datum, changed), schema, None, PATH, OFFSET)
            except HudiReadError:
                continue
            rows.validate(full=True)
            assert rows.num_rows == 2


@pytest.mark.parametrize("count", [-1, 2, 3, 2**31 - 1, -(2**31)])
def test_a_record_count_that_does_not_fit_is_corrupt(count: int) -> None:
    with pytest.raises(CorruptLogFileError):
        decode_avro_block(block(number(1), count=count), writer(c="int"), None, PATH, OFFSET)


@pytest.mark.parametrize("length", [-1, -4, -(2**31), 2, 2**31 - 1])
def test_a_record_length_that_does_not_fit_is_corrupt(length: int) -> None:
    record = struct.pack(">i", length) + number(1)
    for content in (record, record + struct.pack(">i", 1) + number(1)):
        with pytest.raises(CorruptLogFileError):
            record_bounds(content, 0, 1 if content is record else 2, PATH, OFFSET)


def test_record_bounds() -> None:
    starts, ends = record_bounds(b"skip" + block(b"ab", b"", b"c")[8:], 4, 3, PATH, OFFSET)
    assert (starts.tolist(), ends.tolist()) == ([8, 14, 18], [10, 14, 19])
    starts, ends = record_bounds(b"", 0, 0, PATH, OFFSET)
    assert (starts.tolist(), ends.tolist()) == ([], [])


def test_datums_may_lie_anywhere_in_a_buffer() -> None:
    data = b"\xff" + number(300) + b"\xff\xff" + number(-1)
    bounds = np.array([1, 5]), np.array([3, 6])
    rows = decode_avro_records(data, *bounds, writer(c="int"), None, PATH, OFFSET)
    assert rows.column("c").to_pylist() == [300, -1]


@pytest.mark.parametrize(("starts", "ends"), [([0, 1], [2, 3]), ([2, 0], [3, 1]), ([-1], [1]), ([0], [99]), ([2], [1])])
def test_bounds_that_overlap_or_leave_the_buffer_are_corrupt(starts: list[int], ends: list[int]) -> None:
    with pytest.raises(CorruptLogFileError):
        decode_avro_records(b"\x02\x04\x06\x08", np.array(starts), np.array(ends), writer(c="int"), None, PATH, OFFSET)


def test_more_bytes_than_hudi_can_write_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_cursors, "MAX_BYTES", 12)
    assert values_of("int") == []
    with pytest.raises(UnsupportedTableError, match="up to 12 bytes"):
        values_of("int", number(1))


def test_many_records_are_read_in_parts_without_a_seam() -> None:
    strings = ["x" * (row % 50) for row in range(3000)]
    schema = writer(s=["null", "string"], a={"type": "array", "items": "string"})
    items = [
        number(len(value) % 3) + text(value) * (len(value) % 3) + number(0) * bool(len(value) % 3) for value in strings
    ]
    datums = [
        number(1) + text(value) + item if value else number(0) + item
        for value, item in zip(strings, items, strict=True)
    ]
    rows = decode_avro_block(block(*datums), schema, None, PATH, OFFSET)
    assert rows.column("s").to_pylist() == [value or None for value in strings]
    assert rows.column("a").to_pylist() == [[value] * (len(value) % 3) for value in strings]
    assert decode_avro_block(block(*datums), schema, [], PATH, OFFSET).num_rows == 3000
    with pytest.raises(CorruptLogFileError, match="record 2999 "):
        decode_avro_block(block(*datums[:-1], datums[-1] + b"\0"), schema, None, PATH, OFFSET)
