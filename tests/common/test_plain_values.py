import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.common.display import values_as_text

UNITS = {"s": 10**12, "ms": 10**15, "us": 2**63 - 1, "ns": 2**63 - 1}
MAP = pa.map_(pa.string(), pa.int64())


def by_numpy(number: int, unit: Any) -> str:
    moment: Any = np.datetime64(number, unit)
    sign, year, rest = re.fullmatch(r"(-?)(\d+)(-.*)", str(moment).replace("T", " ")).groups()  # type: ignore[union-attr]
    return f"{sign}{year.zfill(4)}{rest}"


@pytest.mark.parametrize("unit", UNITS)
@given(data=st.data())
def test_times_of_any_year_are_those_of_numpy(unit: str, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.none() | st.integers(-UNITS[unit], UNITS[unit]), max_size=5))
    expected = [None if number is None else by_numpy(number, unit) for number in numbers]
    column = pa.array(numbers, pa.int64()).cast(pa.timestamp(unit))
    assert values_as_text(column) == expected
    in_a_zone = [None if item is None else f"{item}Z" for item in expected]
    assert values_as_text(column.cast(pa.timestamp(unit, "UTC"))) == in_a_zone
    # Hudi keeps instants, whatever zone they are shown in.
    assert values_as_text(column.view(pa.timestamp(unit, "America/New_York"))) == in_a_zone


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_dates_of_any_year_are_those_of_numpy(days: list[int | None]) -> None:
    expected = [None if day is None else by_numpy(day, "D") for day in days]
    assert values_as_text(pa.array(days, pa.int32()).cast(pa.date32())) == expected


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([{"n": 1}, None, {"n": None}], pa.struct([("n", pa.int8())]), [{"n": 1}, None, {"n": None}]),
        ([{}, None, {}], pa.struct([]), [{}, None, {}]),
        ([[1.1], None, []], pa.list_(pa.float32()), [[1.1], None, []]),
        ([[b"a"], None, [None]], pa.large_list(pa.binary()), [["61"], None, [None]]),
        ([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2), [[1, 2], None, [3, 4]]),
        ([[1, 2], None, [3]], pa.list_view(pa.int64()), [[1, 2], None, [3]]),
        ([[("a", 1)], None, [("b", None)]], MAP, [{"a": 1}, None, {"b": None}]),
        ([[(True, 1)], None, []], pa.map_(pa.bool_(), pa.int64()), [{"true": 1}, None, {}]),
        ([[20454000], None, []], pa.list_(pa.date32()), [["57971-02-25"], None, []]),
        ([[1], None, []], pa.list_(pa.timestamp("ns")), [["1970-01-01 00:00:00.000000001"], None, []]),
        (["x", None, "y"], pa.dictionary(pa.int8(), pa.string()), ["x", None, "y"]),
    ],
    ids=str,
)
def test_nested_values(values: list[Any], kind: pa.DataType, expected: list[Any]) -> None:
    column = pa.array(values, kind)
    assert values_as_text(column) == expected
    assert values_as_text(column.slice(1)) == expected[1:]
    nested = pa.array([{"x": value} for value in values], pa.struct([("x", kind)]))
    assert values_as_text(nested) == [{"x": item} for item in expected]


def test_values_of_a_union_are_text() -> None:
    union = pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])])
    assert values_as_text(union) == ["1", "b"]
