from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.schema.casts import plan_cast

F32 = pa.float32()
MICROS = pa.timestamp("us", "UTC")
MILLIS = pa.timestamp("ms", "UTC")


def converted(values: list[Any], source: Any, target: Any, *, by_text: bool = True) -> list[Any]:
    cast = plan_cast(source, target, float_to_double_by_text=by_text)
    assert cast is not None
    array = pa.array([*values, None], source)
    result = cast(array)
    result.validate(full=True)
    assert result.type == target
    assert cast(array.slice(1)).to_pylist() == result.to_pylist()[1:]
    assert result.to_pylist()[-1] is None
    return list(result.to_pylist()[:-1])


CONVERSIONS = [
    ("int to long", [2**31 - 1, -(2**31)], pa.int32(), pa.int64(), [2**31 - 1, -(2**31)]),
    ("int to float rounds", [16777217, -7], pa.int32(), F32, [16777216.0, -7.0]),
    ("int to double", [2**31 - 1], pa.int32(), pa.float64(), [2147483647.0]),
    ("int to string", [0, -12], pa.int32(), pa.string(), ["0", "-12"]),
    ("int to decimal", [7, -1], pa.int32(), pa.decimal128(12, 2), [Decimal("7.00"), Decimal("-1.00")]),
    ("int that does not fit", [99, 100], pa.int32(), pa.decimal128(4, 2), [Decimal("99.00"), None]),
    ("long to float", [10000000014], pa.int64(), F32, [10000000000.0]),
    ("long to double rounds", [2**53 + 1], pa.int64(), pa.float64(), [2.0**53]),
    ("long to string", [-(2**63)], pa.int64(), pa.string(), ["-9223372036854775808"]),
    ("long to decimal", [2**63 - 1], pa.int64(), pa.decimal128(38, 18), [Decimal(2**63 - 1)]),
    ("long that does not fit", [-1, 0], pa.int64(), pa.decimal128(38, 38), [None, Decimal("0E-38")]),
    ("long to local time", [1], pa.int64(), pa.timestamp("us"), [datetime(1970, 1, 1, 0, 0, 0, 1)]),  # noqa: DTZ001
    ("float to double", [0.2, -3.3, 1e10], F32, pa.float64(), [0.2, -3.3, 1e10]),
    ("float to string", [0.2, 1e10, -0.0], F32, pa.string(), ["0.2", "1.0E10", "-0.0"]),
    ("float to decimal", [4.4], F32, pa.decimal128(20, 9), [Decimal("4.400000000")]),
    ("float that is no number", [float("nan"), float("inf")], F32, pa.decimal128(5, 1), [None, None]),
    ("zeros differ as text", [0.0, -0.0, 0.0], pa.float64(), pa.string(), ["0.0", "-0.0", "0.0"]),
    ("double to string", [1e-5, float("-inf")], pa.float64(), pa.string(), ["1.0E-5", "-Infinity"]),
    (
        "double half up",
        [0.125, -0.125],
        pa.float64(),
        pa.decimal128(5, 2),
        [Decimal("0.13"), Decimal("-0.13")],
    ),
    ("decimal to wider", [Decimal("1.25")], pa.decimal128(3, 2), pa.decimal128(38, 10), [Decimal("1.25")]),
    (
        "decimal to string",
        [Decimal("-7.50"), Decimal(0)],
        pa.decimal128(10, 2),
        pa.string(),
        ["-7.50", "0.00"],
    ),
    (
        "small decimal to string",
        [Decimal(0), Decimal("0.0000015000"), Decimal("1.5E-9")],
        pa.decimal128(38, 10),
        pa.string(),
        ["0E-10", "0.0000015000", "1.5E-9"],
    ),
    ("date to string", [date(2020, 2, 9)], pa.date32(), pa.string(), ["2020-02-09"]),
    ("string to binary", ["é"], pa.string(), pa.binary(), ["é".encode()]),
    ("binary to string", ["é".encode()], pa.binary(), pa.string(), ["é"]),
    ("string to large string", ["a"], pa.string(), pa.large_string(), ["a"]),
    ("large binary to binary", [b"a"], pa.large_binary(), pa.binary(), [b"a"]),
    ("fixed to binary", [b"ab"], pa.binary(2), pa.binary(), [b"ab"]),
    ("short to int", [-3], pa.int16(), pa.int32(), [-3]),
    ("date64 to date32", [date(2020, 2, 9)], pa.date64(), pa.date32(), [date(2020, 2, 9)]),
    ("nothing but nulls", [None], pa.null(), pa.list_(pa.int32()).value_type, [None]),
    (
        "millis to micros",
        [datetime(2020, 1, 1, tzinfo=UTC)],
        MILLIS,
        MICROS,
        [datetime(2020, 1, 1, tzinfo=UTC)],
    ),
]


@pytest.mark.parametrize(("values", "source", "target", "expected"), [case[1:] for case in CONVERSIONS])
def test_values_become_what_hudi_shows(values: list[Any], source: Any, target: Any, expected: list[Any]) -> None:
    assert converted(values, source, target) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.3455", Decimal("12.346")),
        (" -1E2\t", Decimal("-100.000")),
        (".5", Decimal("0.500")),
        ("5.", Decimal("5.000")),
        ("9999999.9994", Decimal("9999999.999")),
        ("9999999.9995", None),
        ("1e999999999", None),
        ("1e-999999999", Decimal("0.000")),
        ("1_000", None),
        ("NaN", None),
        ("", None),
        ("one", None),
        ("٣", None),
    ],
)
def test_text_becomes_a_decimal_or_null(text: str, expected: Decimal | None) -> None:
    assert converted([text], pa.string(), pa.decimal128(10, 3)) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-02-29", date(2020, 2, 29)),
        (" 2020-2-9 ", date(2020, 2, 9)),
        ("2020-02-09 23:59:59", date(2020, 2, 9)),
        ("2020-02-09T23:59\n", date(2020, 2, 9)),
        ("2020-03", date(2020, 3, 1)),
        ("2020", date(2020, 1, 1)),
        ("0001-01-01", date(1, 1, 1)),
        ("2021-02-29", None),
        ("2021-13-01", None),
        ("2021-00-01", None),
        ("2021-01-00", None),
        ("2021-01-01x", None),
        ("20210101", None),
        ("9999999-01-01", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_text_becomes_a_date_or_null(text: str, expected: date | None) -> None:
    assert converted([text], pa.string(), pa.date32()) == [expected]


def test_float_to_double_can_keep_the_exact_value() -> None:
    assert converted([0.2], F32, pa.float64(), by_text=False) == [0.20000000298023224]
    assert converted([4.4], F32, pa.decimal128(20, 9), by_text=False) == [Decimal("4.400000095")]
    assert converted([0.2], F32, pa.string(), by_text=False) == ["0.2"]


def test_a_timestamp_loses_only_what_the_query_has_no_room_for() -> None:
    nanos = pa.timestamp("ns")
    assert converted([-1, 999, 1000], nanos, pa.timestamp("us")) == [
        datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - local timestamps
        datetime(1970, 1, 1),  # noqa: DTZ001
        datetime(1970, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
    ]
    cast = plan_cast(MICROS, MILLIS, float_to_double_by_text=True)
    assert cast is not None
    before_epoch = pa.array([-1, -1000, -1001, 1999], MICROS)
    assert cast(before_epoch).view(pa.int64()).to_pylist() == [-1, -1, -2, 1]


def test_a_zone_label_changes_no_value() -> None:
    local = pa.array([datetime(2020, 1, 1)], pa.timestamp("us"))  # noqa: DTZ001 - a local timestamp
    cast = plan_cast(local.type, MICROS, float_to_double_by_text=True)
    assert cast is not None
    assert cast(local).to_pylist() == [datetime(2020, 1, 1, tzinfo=UTC)]
    (_, before), (_, after) = local.buffers(), cast(local).buffers()
    assert before is not None
    assert after is not None
    assert after.address == before.address


def test_a_timestamp_that_overflows_is_not_wrapped() -> None:
    cast = plan_cast(MILLIS, MICROS, float_to_double_by_text=True)
    assert cast is not None
    with pytest.raises(pa.ArrowInvalid, match="overflow"):
        cast(pa.array([2**60], pa.int64()).view(MILLIS))


def test_times_change_their_unit() -> None:
    cast = plan_cast(pa.time32("ms"), pa.time64("us"), float_to_double_by_text=True)
    assert cast is not None
    result = cast(pa.array([1, None], pa.time32("ms")))
    assert (result.type, result.view(pa.int64()).to_pylist()) == (pa.time64("us"), [1000, None])


def test_dictionaries_are_converted_entry_by_entry() -> None:
    dictionary = pa.dictionary(pa.int32(), pa.string())
    assert converted(["a", "b", "a"], dictionary, pa.string()) == ["a", "b", "a"]
    assert converted(["1.5", "x", "1.5"], dictionary, pa.decimal128(3, 1)) == [
        Decimal("1.5"),
        None,
        Decimal("1.5"),
    ]
    assert converted([1, 2], pa.int32(), dictionary) == ["1", "2"]
    assert converted(["a"], pa.dictionary(pa.int8(), pa.string()), dictionary) == ["a"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.float64(), pa.int64()),
        (pa.decimal128(10, 2), pa.decimal128(10, 3)),
        (pa.decimal128(10, 2), pa.decimal128(9, 2)),
        (pa.decimal128(10, 2), pa.decimal128(12, 1)),
        (pa.decimal128(10, 2), pa.float64()),
        (pa.string(), pa.int32()),
        (pa.string(), pa.timestamp("us", "UTC")),
        (pa.bool_(), pa.string()),
        (pa.bool_(), pa.int32()),
        (pa.date32(), pa.timestamp("us")),
        (pa.int64(), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.int64()),
        (pa.binary(), pa.decimal128(10, 2)),
        (pa.duration("s"), pa.int64()),
        (pa.dictionary(pa.int32(), pa.string()), pa.int32()),
        (pa.bool_(), pa.dictionary(pa.int32(), pa.string())),
    ],
    ids=str,
)
def test_other_conversions_are_refused(source: Any, target: Any) -> None:
    assert plan_cast(source, target, float_to_double_by_text=True) is None
    assert plan_cast(source, target, float_to_double_by_text=False) is None
