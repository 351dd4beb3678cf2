"""What is asked of a split: which columns a filter refers to, and what does not fit."""

import operator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge.errors import QueryError
from hudi_bridge.readers.request import RowRequest, referenced_columns

ODD_NAMES = ("a", "ab", "a b", "a.b", 'a"b', "\u00e9", "is_null", "true", "FieldRef", "(", "add_checked", "1")
SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in ODD_NAMES),
        ("s", pa.struct([("a", pa.int64()), ("t", pa.struct([("ab", pa.string())]))])),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int64())),
    ]
)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_found_and_no_others(name: str) -> None:
    for expression in (pc.field(name) > 1, ~pc.field(name).is_null(), (pc.field(name) + 1) * 2 == pc.field(name)):
        assert referenced_columns(expression, SCHEMA) == (name,)


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        (pc.field("s", "a") > 1, ("s",)),
        (pc.field("s", "t", "ab") == "x", ("s",)),
        (pc.field("flag"), ("flag",)),
        ((pc.field("a") > 1) & pc.field("flag"), ("a", "flag")),
        (pc.field("text") == "a", ("text",)),
        (pc.field("text") == "FieldPath(1)", ("text",)),
        (pc.field("text").isin(["a", "ab"]), ("text",)),
        (pc.if_else(pc.field("flag"), pc.field("a"), pc.field("ab")) > 1, ("a", "ab", "flag")),
        (pc.list_element(pc.field("list"), 0) > 1, ("list",)),
        (pc.scalar(True), ()),
        (pc.scalar(1) == 1, ()),
    ],
)
def test_referenced_columns(expression: pc.Expression, columns: tuple[str, ...]) -> None:
    # A text that looks like a position may only cost the reading of more columns.
    actual = referenced_columns(expression, SCHEMA)
    assert set(columns).issubset(actual)
    if "FieldPath" not in str(expression):
        assert actual == columns


def test_needed_columns_are_the_wanted_ones_first() -> None:
    request = RowRequest.of(SCHEMA, ["text", "a"], (pc.field("ab") > 1) & (pc.field("a") > 1))
    assert request.columns == ("text", "a")
    assert request.filter_columns == ("a", "ab")
    assert request.needed == ("text", "a", "ab")


def test_all_columns_without_a_filter() -> None:
    request = RowRequest.of(SCHEMA)
    assert request.columns == request.needed == tuple(SCHEMA.names)
    assert request.filter_columns == ()
    assert RowRequest.of(SCHEMA, []).columns == ()


@pytest.mark.parametrize("columns", [["nope"], ["a", "s.a"], ["A"], [" "]])
def test_unknown_columns_are_refused(columns: list[str]) -> None:
    with pytest.raises(QueryError, match=columns[-1]) as caught:
        RowRequest.of(SCHEMA, columns)
    assert caught.value.argument == "columns"


@pytest.mark.parametrize(
    "expression",
    [
        pc.field("nope") > 1,
        pc.field("s", "nope") > 1,
        pc.field("a", "b") > 1,
        pc.field("text") > 1,
        pc.field("a") + 1,
        pc.field("text"),
        pc.field("s"),
        pc.scalar(None),  # type: ignore[arg-type]  # missing from the stubs
        pc.scalar(1),
        pc.field("A") > 1,
        pc.field(99) > 1,
    ],
    ids=str,
)
def test_filters_that_do_not_fit_are_refused(expression: pc.Expression) -> None:
    with pytest.raises(QueryError) as caught:
        RowRequest.of(SCHEMA, None, expression)
    assert caught.value.argument == "filter"


def test_rows_that_pass() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.record_batch(
        {"b": [1, 2, 3], "a": [1, None, 3]}, schema=pa.schema([schema.field("b"), schema.field("a")])
    )
    request = RowRequest.of(schema, ["b"], pc.field("a") >= 1)
    assert request.passes(rows).tolist() == [True, False, True]
    assert request.apply(rows).to_pydict() == {"b": [1, 3]}


FLOATS = pa.array([0.0, -0.0, 7.0, 1.0, float("nan"), None])
DECIMALS = pa.array([*map(Decimal, ("1.55", "1.50", "7.00", "99999999.99")), None, None], pa.decimal128(10, 2))
INTEGERS = pa.array([0, 2**20, 7, 1, -1, None], pa.int32())


@pytest.mark.parametrize(
    "condition",
    [
        (pc.field("d") == 0.0) | pc.field("d").isin([7.0]),
        (pc.field("d") == -0.0) | (pc.field("d") == pa.scalar(float("nan"))),
        pc.field("d").isin([-0.0, float("nan")]),
        pc.field("d") == pa.scalar(0.0, pa.float32()),
        pc.field("m") == Decimal("1.555"),
        pc.field("m") == Decimal("1.5"),
        pc.field("m") == pa.scalar(Decimal("99999999.99"), pa.decimal128(38, 2)),
        pc.field("i") == pa.scalar(2**40),
        pc.field("i") == 7.0,
        pc.field("i").isin(pa.array([0, 7], pa.int32())),
    ],
    ids=str,
)
def test_what_an_if_else_lists_of_a_column_passes_as_in_arrow(condition: pc.Expression) -> None:
    rows = pa.record_batch({"d": FLOATS, "m": DECIMALS, "i": INTEGERS})
    for name in rows.schema.names:
        row_filter = pc.if_else(pc.field(name).is_valid(), condition, pa.scalar(None, pa.bool_()))
        actual = RowRequest.of(rows.schema, None, row_filter).apply(rows)
        expected = pa.table(rows).filter(row_filter)
        assert str(actual.to_pylist()) == str(expected.to_pylist())


COMPARISONS: tuple[Any, ...] = (operator.eq, operator.ne, operator.lt, operator.ge)


@pytest.mark.parametrize("compare", COMPARISONS)
def test_a_null_never_passes_a_comparison(compare: Any) -> None:
    schema = pa.schema([("a", pa.int64())])
    rows = pa.record_batch({"a": pa.array([None, None], pa.int64())})
    for row_filter in (compare(pc.field("a"), 1), ~compare(pc.field("a"), 1)):
        assert RowRequest.of(schema, None, row_filter).apply(rows).num_rows == 0


def test_a_filter_of_no_columns() -> None:
    schema = pa.schema([("a", pa.int64())])
    rows = pa.record_batch({"a": [1, 2]})
    assert RowRequest.of(schema, [], pc.scalar(True)).apply(rows).num_rows == 2
    assert RowRequest.of(schema, ["a"], pc.scalar(False)).apply(rows).num_rows == 0
