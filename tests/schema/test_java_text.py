import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.schema.java_text import (
    double_text,
    float_text,
    floating_text,
    has_value_text,
    string_hash,
    value_text,
)

# Printed by Double.toString of OpenJDK 17.
DOUBLES = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (float("-inf"), "-Infinity"),
    (1.0, "1.0"),
    (-1.5, "-1.5"),
    (0.1, "0.1"),
    (0.1 + 0.2, "0.30000000000000004"),
    (0.001, "0.001"),
    (0.002, "0.002"),
    (9.999e-4, "9.999E-4"),
    (1e-5, "1.0E-5"),
    (9999999.0, "9999999.0"),
    (1e7, "1.0E7"),
    (-9999992.3, "-9999992.3"),
    (12345678.25, "1.234567825E7"),
    (1e10, "1.0E10"),
    (1e22, "1.0E22"),
    (float(2**53), "9.007199254740992E15"),
    (float(2**62), "4.6116860184273879E18"),
    (float(2**63), "9.223372036854776E18"),
    (2.0**-44, "5.6843418860808015E-14"),
    (1e23, "9.999999999999999E22"),
    (2e23, "1.9999999999999998E23"),
    (5e22, "4.9999999999999996E22"),
    (5e-324, "4.9E-324"),
    (1.7976931348623157e308, "1.7976931348623157E308"),
]

# Printed by Float.toString of OpenJDK 17; written as the bits of the float.
FLOATS = [
    (0x3DCCCCCD, "0.1"),
    (0x40A00000, "5.0"),
    (0xBF8CCCCD, "-1.1"),
    (0x00000001, "1.4E-45"),
    (0x7F7FFFFF, "3.4028235E38"),
    (0x4B18967F, "9999999.0"),
    (0x4B189680, "1.0E7"),
    (0x69000000, "9.6714065E24"),
    (0x7FC00000, "NaN"),
    (0x80000000, "-0.0"),
    (0x3A83126F, "0.001"),
]


@pytest.mark.parametrize(("value", "text"), DOUBLES)
def test_a_double_reads_as_java_writes_it(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(("bits", "text"), FLOATS)
def test_a_float_reads_as_java_writes_it(bits: int, text: str) -> None:
    assert float_text(struct.unpack(">f", bits.to_bytes(4))[0]) == text


def test_an_array_keeps_its_nulls_and_its_width() -> None:
    assert floating_text(pa.array([0.1, None], pa.float32())).to_pylist() == ["0.1", None]
    assert floating_text(pa.array([0.1, None]).slice(0, 1)).to_pylist() == ["0.1"]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pa.array(["a", "", None]), ["a", "", None]),
        (pa.array(["a", "b", None, "a"]).dictionary_encode(), ["a", "b", None, "a"]),
        (pa.array([True, False, None]), ["true", "false", None]),
        (pa.array([-1, None], pa.int32()), ["-1", None]),
        (pa.array([1.0, 1e7, None]), ["1.0", "1.0E7", None]),
        (pa.array([0.1, None], pa.float32()), ["0.1", None]),
        (pa.array([-1, None], pa.int32()).cast(pa.date32()), ["-1", None]),
        (pa.array([-1, None], pa.timestamp("us", "UTC")), ["-1", None]),
        (pa.array([-1, None], pa.timestamp("ms")), ["-1000", None]),
        # As BigDecimal.toString has them.
        (
            pa.array([0, 100, 12345, None], pa.decimal128(20, 0)).cast(pa.decimal128(30, 2)),
            ["0.00", "100.00", "12345.00", None],
        ),
        (pa.array([0, None], pa.decimal128(10, 7)), ["0E-7", None]),
        (pa.array([Decimal("0.0000001"), Decimal("-0.0000012")], pa.decimal128(10, 7)), ["1E-7", "-0.0000012"]),
        (pa.array([], pa.float64()), []),
    ],
    ids=str,
)
def test_the_text_of_what_spark_holds(values: "pa.Array[Any]", texts: list[str | None]) -> None:
    actual = value_text(values)
    assert actual.type == pa.string()
    assert actual.to_pylist() == texts
    assert has_value_text(values.type) or pa.types.is_dictionary(values.type)


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.binary(), pa.binary(4), pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()),
        *(pa.time32("ms"), pa.time64("us"), pa.timestamp("ns"), pa.float16()),
    ],
    ids=str,
)
def test_other_types_have_no_text(kind: pa.DataType) -> None:
    assert not has_value_text(kind)


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        ("", 0),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", 1 << 31),
        ("\U0001d4b3", 1772318),
    ],
)
def test_strings_are_hashed_over_their_code_units(text: str, hashed: int) -> None:
    assert string_hash(text) == hashed
