"""Sets of rows in which a row passes a filter are never passed over, and those far from it are."""

import datetime as dt
import math
import operator
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.readers.column_ranges import _array_range, hull, may_pass, may_pass_in_any
from tests.support.strength import examples

TIME = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-5, 5)),
    "long": (pa.int64(), st.sampled_from([-(2**63), -(2**25) - 1, 0, 2**25 - 1, 2**25, 2**25 + 1, 2**63 - 1])),
    "float": (pa.float32(), st.sampled_from([-math.inf, -0.0, 0.0, 0.5, math.inf, math.nan])),
    "double": (pa.float64(), st.floats(-2, 2) | st.just(math.nan)),
    "text": (pa.string(), st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600"])),
    "day": (pa.date32(), st.dates(dt.date(2026, 1, 1), dt.date(2026, 1, 9))),
    "time": (pa.timestamp("us", "UTC"), st.integers(0, 9).map(lambda hours: TIME + dt.timedelta(hours=hours))),
}
NUMBERS = ("int", "long", "float", "double")
COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)


def constant_of(literal: Any) -> pc.Expression:
    return pc.scalar(literal)


@st.composite
def leaves(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(KINDS)))
    kind, values = KINDS[name]
    column: Any = pc.field(name)
    form = draw(st.integers(0, 4))
    if form == 0:
        constant = draw(st.booleans())
        return draw(st.sampled_from([column.is_null(), column.is_valid(), pc.scalar(constant)]))
    if form == 1:
        return column.isin(pa.array(draw(st.lists(values, max_size=20)), kind))
    if form == 2 and name in NUMBERS:
        # The other numbers have another type.
        other_kind, others = KINDS[draw(st.sampled_from(NUMBERS))]
        return draw(st.sampled_from(COMPARISONS))(column, pa.scalar(draw(others), other_kind))
    literal = pa.scalar(draw(values), kind)
    if form == 3:
        return pc.less(constant_of(literal), column)
    return draw(st.sampled_from(COMPARISONS))(column, literal)


FILTERS = st.recursive(
    leaves(),
    lambda inner: st.one_of(
        st.builds(operator.inv, inner), st.builds(operator.and_, inner, inner), st.builds(operator.or_, inner, inner)
    ),
    max_leaves=4,
)
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in KINDS.items()})
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in KINDS.items()])


@settings(max_examples=examples(200), deadline=None)
@given(sets=st.lists(st.lists(ROWS, max_size=3), min_size=1, max_size=4), row_filter=FILTERS, data=st.data())
def test_no_set_with_a_passing_row_is_passed_over(
    sets: list[list[Any]], row_filter: pc.Expression, data: st.DataObject
) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA).combine_chunks() for rows in sets]
    known = st.lists(st.sampled_from(sorted(KINDS)), unique=True)
    ranges: dict[str, Any] = {
        name: (
            KINDS[name][0],
            [
                data.draw(st.just(_array_range(table.column(name).combine_chunks())) | st.just(False))
                for table in tables
            ],
        )
        for name in data.draw(known)
    }
    try:
        passing = [table.filter(row_filter).num_rows > 0 for table in tables]
    except pa.ArrowInvalid:
        # A number that the type of the other side cannot have.
        return
    assert np.all(may_pass(row_filter, ranges, len(tables)) | ~np.array(passing))


@settings(max_examples=examples(200), deadline=None)
@given(files=st.lists(st.lists(ROWS, max_size=3), min_size=1, max_size=3), row_filter=FILTERS, data=st.data())
def test_no_row_with_values_of_several_files_is_passed_over(
    files: list[list[Any]], row_filter: pc.Expression, data: st.DataObject
) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in files]
    known = data.draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True))
    ranges: dict[str, Any] = {
        name: (KINDS[name][0], [tuple(_array_range(table.column(name).combine_chunks()) for table in tables)])
        for name in known
    }
    rows = [row for of_file in files for row in of_file]
    row = {name: data.draw(st.sampled_from([item[name] for item in rows])) for name in KINDS} if rows else None
    try:
        passes = row is not None and pa.Table.from_pylist([row], SCHEMA).filter(row_filter).num_rows > 0
    except pa.ArrowInvalid:
        return
    assert may_pass_in_any(row_filter, ranges, 1)[0] or not passes


def test_values_between_ranges_rule_out_sets() -> None:
    apart, unknown = ((1.0, 2.0), (8.0, 9.0)), False
    ranges: Any = {name: (pa.float64(), [apart, unknown, (None, (3.0, 4.0))]) for name in ("x", "y")}
    x, y = pc.field("x"), pc.field("y")
    assert may_pass_in_any((x > 2) & (x < 8), ranges, 3).tolist() == [False, True, True]
    assert may_pass_in_any((x < 3) & (y > 7), ranges, 3).tolist() == [True, True, False]
    assert may_pass_in_any((x < 3) & (y == 5), ranges, 3).tolist() == [False, True, False]


def test_of_many_combinations_ranges_are_taken_as_one() -> None:
    names = [f"c{number}" for number in range(5)]
    ranges: Any = {name: (pa.float64(), [((1.0, 2.0), (8.0, 9.0))]) for name in names}
    assert may_pass_in_any(pc.field("c0") == 5, ranges, 1).tolist() == [True]
    assert may_pass_in_any(pc.field("c0") == 10, ranges, 1).tolist() == [False]
    assert hull([None, (1, 2), (8, 9)]) == (1, 9)
    assert hull([None]) is None


def test_filters_of_very_many_parts() -> None:
    """Arrow ends the process if it is given a chain of so many."""
    x: Any = pc.field("x")
    ranges: Any = {"x": (pa.int64(), [(1, 2), (150, 190), (-2, -1)])}
    few, many = ([x.isin([100 * item + n for n in range(16)]) for item in range(number)] for number in (20, 800))
    assert may_pass(balanced(few), ranges, 3).tolist() == [True, False, False]
    assert may_pass(balanced(many), ranges, 3).tolist() == [True, True, True]
    assert may_pass(balanced(many) & (x < 100), ranges, 3).tolist() == [True, False, True]
    # Each of these goes one level deeper.
    assert may_pass(reduce(operator.or_, [x == number for number in range(240)]), ranges, 3).tolist() == [
        True,
        True,
        False,
    ]
    assert may_pass(reduce(operator.or_, [x == number for number in range(490)]), ranges, 3)[0]


def balanced(tests: list[pc.Expression]) -> pc.Expression:
    if len(tests) == 1:
        return tests[0]
    middle = len(tests) // 2
    return balanced(tests[:middle]) | balanced(tests[middle:])


NUMBER = pc.field("double")


@pytest.mark.parametrize(
    ("row_filter", "chosen"),
    [
        (NUMBER == 1.5, [0, 3]),
        (NUMBER > 2, [1, 3]),
        (NUMBER >= 2, [0, 1, 3]),
        (NUMBER < 1.0, [3]),
        (pc.less(pc.scalar(5.0), NUMBER), [1, 3]),
        (NUMBER.isin([1.0, 7.0]), [0, 1, 3]),
        (NUMBER.isin([1.0, math.nan]), [0, 1, 2, 3]),
        (NUMBER.isin(pa.array([], pa.float64())), [3]),
        (pc.equal(NUMBER, pc.scalar(math.nan)), [3]),
        (NUMBER != 1.5, [0, 1, 2, 3]),
        (~(NUMBER > 2), [0, 1, 2, 3]),
        ((NUMBER > 2) | pc.is_nan(NUMBER), [0, 1, 2, 3]),
        ((NUMBER > 2) & (pc.field("other") == 1), [1, 3]),
        (pc.if_else(NUMBER > 2, NUMBER < 4, pa.scalar(False)), [3]),
        (NUMBER.isin([float(number) for number in range(100, 200)]), [3]),
        (NUMBER > "a", [0, 1, 2, 3]),
    ],
)
def test_ranges_rule_out_sets(row_filter: pc.Expression, chosen: list[int]) -> None:
    ranges: Any = {"double": (pa.float64(), [(1.0, 2.0), (5.0, 9.0), None, False])}
    assert np.flatnonzero(may_pass(row_filter, ranges, 4)).tolist() == chosen
