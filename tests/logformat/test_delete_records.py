import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.errors import CorruptLogFileError, HudiReadError, UnsupportedTableError
from hudi_bridge.logformat.delete_records import DeleteRecords, parse_delete_block
from hudi_bridge.logformat.scan import scan_blocks
from tests.logformat.log_writer import (
    avro_long,
    avro_text,
    delete_block,
    delete_content,
    delete_list,
    wrapped,
    wrapped_array,
)

PATH = ".f1-0_001.log.1_0-1-2"
NULL = wrapped(0)


def parse(content: bytes) -> DeleteRecords:
    (block,) = scan_blocks(delete_block("001", content), PATH).blocks
    return parse_delete_block(block)


def deletes(*orderings: bytes) -> DeleteRecords:
    return parse(delete_content(delete_list([(f"k{n}", "p", value) for n, value in enumerate(orderings)])))


def number(value: int) -> bytes:
    return wrapped(3, avro_long(value))


def integer(value: int) -> bytes:
    return wrapped(2, avro_long(value))


def ordered(records: DeleteRecords, *types: pa.DataType) -> tuple[list[list[Any]], list[bool | None]]:
    orderings = records.ordering_as(types)
    assert [column.type for column in orderings.columns] == list(types)
    return [column.to_pylist() for column in orderings.columns], orderings.comparable.to_pylist()


@pytest.mark.parametrize(
    ("kinds", "like"),
    [
        ((pa.int32(), pa.date32(), pa.time32("ms")), 0),
        ((pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.time64("us")), 1),
        ((pa.decimal128(10, 2), pa.string(), pa.float32(), pa.float64(), pa.bool_(), pa.binary()), None),
    ],
)
def test_values_of_other_classes_than_those_of_rows(kinds: tuple[pa.DataType, ...], like: int | None) -> None:
    date_of_1970, decimal, text = wrapped(8, avro_long(1)), wrapped(9, avro_text(b"\x01")), wrapped(7, avro_text("x"))
    timestamp = wrapped(11, avro_long(1))
    records = deletes(integer(1), number(1), date_of_1970, decimal, text, timestamp, NULL)
    for kind in kinds:
        assert records.unlike_rows_of((kind,)).tolist() == [position not in (like, 6) for position in range(7)]


@pytest.mark.parametrize(
    ("ordering", "kind"),
    [
        (wrapped(1, b"\x01"), pa.bool_()),
        (wrapped(4, struct.pack("<f", 1)), pa.float32()),
        (wrapped(5, struct.pack("<d", 1)), pa.float64()),
        (wrapped(6, avro_text(b"x")), pa.binary()),
    ],
)
def test_values_of_the_classes_of_rows(ordering: bytes, kind: pa.DataType) -> None:
    assert deletes(ordering).unlike_rows_of((kind,)).tolist() == [False]


def test_several_values_are_unlike_one_of_rows() -> None:
    records = deletes(wrapped_array(number(1), number(2)))
    assert records.unlike_rows_of((pa.int64(),)).tolist() == [True]
    assert records.unlike_rows_of(()).tolist() == [True]


def test_keys_and_paths() -> None:
    records = parse(delete_content(delete_list([("k1", "a=1", NULL), ("ключ", "", NULL), ("k3", None, NULL)])))
    assert len(records) == 3
    assert records.record_keys.to_pylist() == ["k1", "ключ", "k3"]
    assert records.partition_paths.to_pylist() == ["a=1", "", None]


def test_no_deletes() -> None:
    records = parse(delete_content(delete_list([])))
    assert len(records) == 0
    assert ordered(records, pa.int64()) == ([[]], [])


def test_null_and_the_integer_0_are_defaults_and_a_long_0_is_not() -> None:
    records = deletes(NULL, integer(0), number(0), integer(7), number(-7))
    assert records.is_default.to_pylist() == [True, True, False, False, False]
    assert ordered(records, pa.int64()) == ([[None, None, 0, 7, -7]], [False, False, True, True, True])


MICROS = 1_704_164_645_678_901


@pytest.mark.parametrize(
    ("ordering", "data_type", "expected"),
    [
        (wrapped(1, b"\x01"), pa.bool_(), True),
        (integer(-5), pa.int32(), -5),
        (integer(-5), pa.int64(), -5),
        (number(1 << 40), pa.int64(), 1 << 40),
        (number(5), pa.int32(), 5),
        (integer(3), pa.float64(), 3.0),
        (number((1 << 53) + 1), pa.float64(), float(1 << 53)),
        (wrapped(4, struct.pack("<f", 1.5)), pa.float64(), 1.5),
        (wrapped(5, struct.pack("<d", 0.1)), pa.float64(), 0.1),
        (wrapped(5, struct.pack("<d", 0.5)), pa.float32(), 0.5),
        (wrapped(6, avro_text(b"\xff\x00")), pa.binary(), b"\xff\x00"),
        (wrapped(7, avro_text("b-2")), pa.string(), "b-2"),
        (wrapped(7, avro_text("b-2")), pa.large_string(), "b-2"),
        (wrapped(8, avro_long(19723)), pa.date32(), date(2024, 1, 1)),
        (integer(19723), pa.date32(), date(2024, 1, 1)),
        (
            wrapped(9, avro_text((1234 * 10**13).to_bytes(12, "big"))),
            pa.decimal128(10, 2),
            Decimal("12.34"),
        ),
        (
            wrapped(9, avro_text((-(10**15)).to_bytes(9, "big", signed=True))),
            pa.decimal128(38, 9),
            Decimal(-1),
        ),
        (wrapped(10, avro_long(1_000_001)), pa.time64("us"), time(0, 0, 1, 1)),
        (number(1_000_001), pa.time64("us"), time(0, 0, 1, 1)),
        (integer(1_001), pa.time32("ms"), time(0, 0, 1, 1000)),
        (wrapped(11, avro_long(MICROS)), pa.timestamp("us"), datetime(2024, 1, 2, 3, 4, 5, 678901)),  # noqa: DTZ001
        (
            wrapped(11, avro_long(MICROS)),
            pa.timestamp("us", "UTC"),
            datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC),
        ),
        (number(MICROS), pa.timestamp("us", "UTC"), datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)),
        (number(1_000), pa.timestamp("ms", "UTC"), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
    ],
)
def test_values_take_the_type_of_the_column(ordering: bytes, data_type: pa.DataType, expected: object) -> None:
    assert ordered(deletes(NULL, ordering), data_type) == ([[None, expected]], [False, True])


@pytest.mark.parametrize(
    ("ordering", "data_type"),
    [
        (number(1), pa.string()),
        (number(1), pa.decimal128(10, 2)),
        (number(1 << 40), pa.int32()),
        # 12.345, which is not rounded into another place of the order.
        (wrapped(9, avro_text((12345 * 10**12).to_bytes(12, "big"))), pa.decimal128(10, 2)),
        (wrapped(7, avro_text("1")), pa.int64()),
        (wrapped(7, avro_text("1")), pa.timestamp("us")),
        (wrapped(5, struct.pack("<d", 1.0)), pa.int64()),
        (wrapped(1, b"\x01"), pa.int64()),
        (wrapped(11, avro_long(1)), pa.int64()),
        (wrapped(11, avro_long(1)), pa.time64("us")),
        (wrapped(8, avro_long(1)), pa.int32()),
        (number(1), pa.list_(pa.int64())),
    ],
)
def test_values_that_do_not_compare_with_the_column(ordering: bytes, data_type: pa.DataType) -> None:
    records = deletes(ordering)
    assert records.is_default.to_pylist() == [False]
    assert ordered(records, data_type) == ([[None]], [False])


def test_kinds_may_be_mixed_in_one_block() -> None:
    records = deletes(number(9), wrapped(7, avro_text("x")), NULL, integer(4), number(1 << 50), integer(0))
    assert ordered(records, pa.int32()) == (
        [[9, None, None, 4, None, None]],
        [True, False, False, True, False, False],
    )
    assert ordered(records, pa.string()) == (
        [[None, "x", None, None, None, None]],
        [False, True, False, False, False, False],
    )


def test_several_ordering_fields() -> None:
    text = wrapped(7, avro_text("a"))
    records = deletes(
        wrapped_array(text, integer(0)),
        wrapped_array(text, NULL),
        wrapped_array(text),
        text,
        wrapped_array(integer(0), text),
        wrapped_array(),
        integer(0),
        wrapped(12, avro_long(0)),
    )
    assert records.is_default.to_pylist() == [False] * 6 + [True, True]
    assert ordered(records, pa.string(), pa.int64()) == (
        [["a", "a"] + [None] * 6, [0] + [None] * 7],
        [True, True] + [False] * 6,
    )
    assert ordered(records, pa.string()) == (
        [[None, None, "a", "a"] + [None] * 4],
        [False, False, True, True] + [False] * 4,
    )


def test_local_date_in_an_array() -> None:
    records = deletes(wrapped_array(wrapped(12, avro_long(19723)), number(1)))
    assert ordered(records, pa.date32(), pa.int64()) == ([[date(2024, 1, 1)], [1]], [True])


def test_no_ordering_fields_compare_nothing() -> None:
    assert ordered(deletes(integer(0), number(3))) == ([], [False, False])


@pytest.mark.parametrize("version", [0, 4, -1])
def test_unknown_content_versions(version: int) -> None:
    with pytest.raises(UnsupportedTableError, match="delete block version"):
        parse(delete_content(delete_list([]), version))


@pytest.mark.parametrize("length", [-1, 0, 3, 1 << 30])
def test_wrong_payload_length(length: int) -> None:
    with pytest.raises(CorruptLogFileError, match="payload length"):
        parse(struct.pack(">ii", 3, length) + delete_list([("k", "p", NULL)]))


def test_delete_without_a_key() -> None:
    with pytest.raises(CorruptLogFileError, match="record key"):
        parse(delete_content(delete_list([(None, "p", NULL)])))


def test_bytes_left_over() -> None:
    with pytest.raises(CorruptLogFileError, match="bytes after the last field"):
        parse(delete_content(delete_list([]) + b"\x00"))


@pytest.mark.parametrize(
    "ordering",
    [wrapped(13), wrapped(-1), wrapped(2, avro_long(1 << 40)), wrapped(9, avro_text(b"\x7f" * 40))],
)
def test_broken_ordering_values(ordering: bytes) -> None:
    with pytest.raises(CorruptLogFileError) as caught:
        deletes(ordering)
    assert caught.value.path == PATH


MIXED = delete_content(
    delete_list(
        [
            ("k1", "p", NULL),
            ("k2", "p", number(300)),
            ("k3", None, wrapped(9, avro_text(b"\x01\x02"))),
            ("k4", "p", wrapped_array(wrapped(7, avro_text("x")), NULL, wrapped(12, avro_long(5)))),
            ("k5", "p", wrapped(5, struct.pack("<d", 2.5))),
        ]
    )
)


def read_all(content: bytes) -> None:
    records = parse(content)
    for data_type in (pa.int64(), pa.string(), pa.decimal128(38, 15)):
        records.ordering_as((data_type,))


@pytest.mark.parametrize("length", range(len(MIXED)))
def test_truncation_is_an_error_of_ours(length: int) -> None:
    with pytest.raises(HudiReadError):
        read_all(MIXED[:length])
    if length >= 8:
        with pytest.raises(HudiReadError):
            read_all(delete_content(MIXED[8:length]))


@pytest.mark.parametrize("mask", [0x01, 0x02, 0x80, 0xFF])
def test_flipped_bits_give_deletes_or_an_error_of_ours(mask: int) -> None:
    outcomes = set()
    for position in range(len(MIXED)):
        broken = bytearray(MIXED)
        broken[position] ^= mask
        try:
            read_all(bytes(broken))
            outcomes.add("read")
        except HudiReadError:
            outcomes.add("refused")
    assert "refused" in outcomes
