import operator
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.readers.filters import allowed_results, allowed_values

ID, X = pc.field("id"), pc.field("x")


@pytest.mark.parametrize(
    ("row_filter", "expected"),
    [
        (ID == "a", ["a"]),
        (pc.equal(pc.scalar("a"), ID), ["a"]),
        (ID.isin(["a", "b"]), ["a", "b"]),
        (ID.isin(pa.array([], pa.string())), []),
        ((X == 3) & (ID == "a"), ["a"]),
        ((pc.field("s", "id") == 3) & (ID == "a"), ["a"]),
        (ID.isin(["a", "b"]) & (ID == "b"), ["b"]),
        ((ID == "a") | (ID == "b"), ["a", "b"]),
        (pc.equal(ID, pa.scalar(None, pa.string())), []),
        (pc.if_else(ID.is_valid(), ID.isin(["a", "b"]), pa.scalar(None, pa.bool_())), ["a", "b"]),
        (pc.if_else(ID == "a", X == 1, pa.scalar(False)), ["a"]),
    ],
)
def test_filters_that_list_values(row_filter: pc.Expression, expected: list[str]) -> None:
    values = allowed_values(row_filter, "id")
    assert values is not None
    assert sorted(map(str, values.to_pylist())) == expected


@pytest.mark.parametrize(
    "row_filter",
    [
        ID != "a",
        ~(ID == "a"),
        (ID == "a") | (X == 1),
        ID > "a",
        ID.is_null(),
        ID.isin(["a", None]),
        pc.field("s", "id") == "a",
        pc.field(0) == "a",
        ID.cast(pa.binary()) == b"a",
        pc.if_else(X == 1, ID == "a", ID == "b"),
        pc.if_else(X == 1, ID == "a", pa.scalar(True)),
        pc.if_else(ID == "a", ID == "b", X == 1),
        pc.scalar(True),
        X == 1,
        (ID == "a") | (ID == 1),
    ],
)
def test_filters_that_do_not(row_filter: pc.Expression) -> None:
    assert allowed_values(row_filter, "id") is None


LEAVES = st.one_of(
    st.builds(lambda values: ID.isin(pa.array(values, pa.string())), st.lists(st.sampled_from("abc"))),
    st.builds(lambda value: pc.equal(ID, value), st.sampled_from("abc")),
    st.builds(lambda value: pc.not_equal(ID, value), st.sampled_from("abc")),
    st.builds(lambda value: pc.equal(X, value), st.integers(0, 2)),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda one, other: one & other, inner, inner),
        st.builds(lambda one, other: one | other, inner, inner),
        st.builds(lambda one: ~one, inner),
        st.builds(lambda one, other: pc.if_else(one, other, pa.scalar(None, pa.bool_())), inner, inner),
        st.builds(pc.if_else, inner, inner, inner),
    ),
    max_leaves=6,
)
ROWS = pa.table({"id": ["a", "b", "c", None] * 3, "x": [0] * 4 + [1] * 4 + [2] * 4})


@given(TREES)
def test_no_row_that_passes_has_another_value(row_filter: pc.Expression) -> None:
    values = allowed_values(row_filter, "id")
    if values is not None:
        assert set(ROWS.filter(row_filter)["id"].to_pylist()) <= set(values.to_pylist())


def test_results_of_a_function() -> None:
    lower: Any = pc.utf8_lower(pc.field("a"))
    for row_filter in (lower == "x", lower.isin(["x"]), (lower == "x") & (pc.field("b") > 1), pc.scalar("x") == lower):
        actual = allowed_results(row_filter, "utf8_lower", "a")
        assert actual is not None
        assert actual.to_pylist() == ["x"]
        assert allowed_results(row_filter, "utf8_upper", "a") is None
        assert allowed_results(row_filter, "utf8_lower", "b") is None
        assert allowed_values(row_filter, "a") is None
    assert allowed_results(pc.field("a") == "x", "utf8_lower", "a") is None


def test_a_date_that_python_does_not_have() -> None:
    day = pa.scalar(10**7, pa.int32()).cast(pa.date32())
    actual = allowed_values(pc.field("a") == day, "a")
    assert actual is not None
    assert actual.cast(pa.int32()).to_pylist() == [10**7]


def test_each_filter_has_its_own_values() -> None:
    # Filters that are gone leave their ids to others.
    for number in range(100):
        values = allowed_values(pc.field("id") == number, "id")
        assert values is not None
        assert values.to_pylist() == [number]
    for _ in range(2):
        assert allowed_values(KEPT, "id") is None
        assert allowed_values(KEPT, "part") is not None


KEPT = (pc.field("part") == "a") & (pc.field("id") > 1)


def test_long_chains_and_calls_of_many_levels() -> None:
    equal = [pc.equal(ID, pc.scalar(str(number))) for number in range(1500)]
    listed = allowed_values(reduce(operator.or_, equal), "id")
    assert listed is not None
    assert listed.to_pylist() == [str(number) for number in range(1500)]
    assert allowed_values(reduce(operator.and_, equal), "id") == pa.array(["0"])
    deep = pc.equal(X, pc.scalar(1))
    for _ in range(1000):
        deep = ~deep
    assert allowed_values(deep & (ID == "a"), "id") == pa.array(["a"])
    assert allowed_values(deep | (ID == "a"), "id") is None
