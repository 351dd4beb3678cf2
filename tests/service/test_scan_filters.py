"""The filters of scan requests: a condition that rules out file slices never rules out a row that passes the filter."""

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import expressions
from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions.visitors import expression_evaluator
from pyiceberg.typedef import Record

from hudi_bridge.connectors.iceberg.columns import columns_of
from hudi_bridge.errors import QueryError
from hudi_bridge.service.scan_filters import MOST_LEVELS, ScanFilter
from hudi_bridge.service.scans import IncrementalScanError, parse_scan_request, parse_task_request
from tests.support.strength import examples

FIELDS: list[tuple[str, pa.DataType]] = [
    ("n", pa.int32()),
    ("big", pa.int64()),
    ("text", pa.string()),
    ("ok", pa.bool_()),
    ("day", pa.date32()),
    ("time", pa.timestamp("us")),
    ("price", pa.decimal128(5, 2)),
    ("real", pa.float64()),
    ("single", pa.float32()),
    ("inside", pa.struct([("x", pa.int32())])),
]
SCHEMA = pa.schema(FIELDS)
EPOCH = dt.datetime.fromisoformat("1970-01-01")
COLUMNS = columns_of(SCHEMA, (), {})
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "n": st.integers(-3, 3),
    "big": st.integers(-3, 3) | st.just(2**40),
    "text": st.text("ab\ud7ff\uffff", max_size=2),
    "ok": st.booleans(),
    "day": st.dates(dt.date(2026, 1, 1), dt.date(2026, 1, 4)),
    "time": st.integers(0, 10**6).map(lambda micros: EPOCH + dt.timedelta(microseconds=micros)),
    "price": st.decimals(-2, 2, places=2),
    "real": st.sampled_from([-1.5, -0.0, 0.0, 1.0, float("nan"), float("inf")]),
    "single": st.sampled_from(
        [-1.5, -0.0, 0.0, 0.1, 7.038531e-26, 16777217.0, 3.4028235e38, 3.5e38, float("nan"), float("inf")]
    ),
}
COMPARED = (
    expressions.EqualTo,
    expressions.NotEqualTo,
    expressions.LessThan,
    expressions.LessThanOrEqual,
    expressions.GreaterThan,
    expressions.GreaterThanOrEqual,
)


@st.composite
def single_tests(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(VALUES)))
    value = VALUES[name].filter(lambda one: one == one)  # noqa: PLR0124 - NaN is no literal
    kinds = ["compare", "null", "in"]
    kinds += ["start"] if name == "text" else ["nan"] if name in ("real", "single") else []
    match draw(st.sampled_from(kinds)):
        case "compare":
            return draw(st.sampled_from(COMPARED))(name, draw(value))
        case "null":
            return draw(st.sampled_from([expressions.IsNull, expressions.NotNull]))(name)
        case "nan":
            return draw(st.sampled_from([expressions.IsNaN, expressions.NotNaN]))(name)
        case "start":
            return draw(st.sampled_from([expressions.StartsWith, expressions.NotStartsWith]))(name, draw(value))
        case _:
            kind = draw(st.sampled_from([expressions.In, expressions.NotIn]))
            return kind(name, draw(st.lists(value, min_size=1, max_size=3)))


FILTERS = st.recursive(
    single_tests(),
    lambda inner: st.one_of(
        st.builds(expressions.And, inner, inner),
        st.builds(expressions.Or, inner, inner),
        st.builds(expressions.Not, inner),
    ),
    max_leaves=5,
)
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | one for name, one in VALUES.items()}), min_size=1, max_size=4)


@settings(max_examples=examples(300), deadline=None)
@given(given_filter=FILTERS, rows=ROWS)
def test_no_row_that_passes_the_filter_is_ruled_out(given_filter: Any, rows: list[dict[str, Any]]) -> None:
    document = json.loads(PlanTableScanRequest(filter=given_filter).model_dump_json(by_alias=True))["filter"]
    condition = condition_of(document)
    table = pa.Table.from_pylist([row | {"number": number} for number, row in enumerate(rows)], with_number())
    rows = [row | {"single": one} for row, one in zip(rows, table.column("single").to_pylist(), strict=True)]
    left = table if condition is None else table.filter(condition)
    passes = expression_evaluator(COLUMNS.schema, given_filter, case_sensitive=True)
    passing = {number for number, row in enumerate(rows) if passes(Record(*in_iceberg(row)))}
    assert passing <= set(left.column("number").to_pylist())


SINGLES = [0.1, 0.3, 1e-45, 7.0385307e-26, 16777216.0, 16777218.0, 3.4028235e38, -0.1]


@pytest.mark.parametrize("name", ["eq", "not-eq", "lt", "lt-eq", "gt", "gt-eq", "in", "not-in"])
@pytest.mark.parametrize("literal", [*SINGLES, 7.038531e-26, 16777217.0, 3.5e38, -3.5e38])
def test_floats_are_compared_as_floats_and_as_doubles(name: str, literal: float) -> None:
    """Some clients have floats as literals and write them with the fewest digits; others compare doubles."""
    stored = np.array([*SINGLES, np.nextafter(np.float32(0.1), np.float32(0))], np.float32)
    value = {"values": [literal]} if name.endswith("in") else {"value": literal}
    condition = condition_of({"type": name, "term": "single", **value})
    table = pa.table({"single": stored})
    left = table if condition is None else table.filter(condition)
    as_float = pa.scalar(str(literal)).cast(pa.float32()).as_py()
    for one, values in ((np.float32(as_float), stored), (literal, stored.astype(np.float64))):
        passes = {"eq": values == one, "lt": values < one, "lt-eq": values <= one, "gt": values > one}
        passes |= {"in": passes["eq"], "not-in": ~passes["eq"], "not-eq": ~passes["eq"], "gt-eq": values >= one}
        assert set(stored[passes[name]].tolist()) <= set(left.column("single").to_pylist())
    if name == "eq" and literal in (0.1, 0.3):
        assert left.num_rows == 1


def with_number() -> pa.Schema:
    return SCHEMA.append(pa.field("number", pa.int64()))


def in_iceberg(row: dict[str, Any]) -> list[Any]:
    values: list[Any] = []
    for name in (*VALUES, "inside"):
        value = row.get(name)
        if isinstance(value, dt.datetime):
            value = (value - EPOCH) // dt.timedelta(microseconds=1)
        elif isinstance(value, dt.date):
            value = (value - EPOCH.date()).days
        values.append(value)
    return values


def condition_of(document: Any, *, case_sensitive: bool = True) -> Any:
    return ScanFilter(bound_to=COLUMNS.schema, columns=COLUMNS, case_sensitive=case_sensitive).condition(document)


def numbers_that_pass(document: Any, **options: Any) -> list[int]:
    table = pa.table({"n": pa.array([1, 2, None], pa.int32()), "text": ["a", "b", None]})
    condition = condition_of(document, **options)
    return [1, 2, 0] if condition is None else [item or 0 for item in table.filter(condition).column("n").to_pylist()]


N_ID = COLUMNS.ids["n"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "eq", "term": "n", "value": 1}, [1]),
        ({"type": "eq", "left": {"type": "reference", "name": "n"}, "right": 1}, [1]),
        ({"type": "eq", "left": {"type": "reference", "id": N_ID}, "right": {"type": "literal", "value": 2}}, [2]),
        ({"type": "in", "child": {"type": "reference", "name": "n"}, "values": [1, 7]}, [1]),
        (
            {
                "type": "in",
                "term": "n",
                "values": {"type": "literals", "values": [2], "data-type": "int"},
            },
            [2],
        ),
        ({"type": "is-null", "child": {"type": "reference", "name": "n"}}, [0]),
        ({"type": "not", "child": {"type": "eq", "term": "n", "value": 1}}, [2, 0]),
        ({"type": "starts-with", "term": "text", "value": "b"}, [2]),
        ({"type": "in", "term": "n", "values": []}, []),
        (False, []),
        ({"type": "false"}, []),
        ({"type": "not", "child": {"type": "true"}}, []),
        ({"type": "and", "left": {"type": "later"}, "right": {"type": "eq", "term": "n", "value": 1}}, [1]),
    ],
)
def test_all_spellings_of_filters_are_read(document: Any, expected: list[int]) -> None:
    assert numbers_that_pass(document) == expected


@pytest.mark.parametrize(
    "unknown",
    [
        None,
        7,
        [],
        {},
        {"type": ["eq"]},
        {"type": "eq"},
        {"type": "eq", "term": "n"},
        {"type": "eq", "term": "nowhere", "value": 1},
        {"type": "eq", "term": "inside.x", "value": 1},
        {"type": "eq", "term": "n", "value": "one"},
        {"type": "eq", "term": "n", "value": 2**80},
        {"type": "eq", "term": "n", "value": True},
        {"type": "eq", "term": "day", "value": "yesterday"},
        {"type": "eq", "term": "price", "value": "1.2345"},
        {"type": "eq", "term": "real", "value": "NaN"},
        {"type": "eq", "term": {"type": "transform", "transform": "bucket[4]", "term": "n"}, "value": 1},
        {"type": "eq", "left": {"type": "apply", "function": "abs", "arguments": []}, "right": 1},
        {"type": "in", "term": "n", "values": "abc"},
        {"type": "not", "child": {"type": "gt", "term": "real", "value": 1.5}},
        {"type": "in", "term": "n", "values": [{}]},
        {"type": "st-intersects", "term": "n", "value": 1},
        {"type": "starts-with", "term": "n", "value": 1},
        {"type": "and"},
    ],
)
def test_what_is_not_understood_rules_out_nothing(unknown: Any) -> None:
    assert condition_of(unknown) is None
    assert condition_of({"type": "not", "child": unknown}) is None
    assert condition_of({"type": "or", "left": unknown, "right": {"type": "eq", "term": "n", "value": 1}}) is None


def test_names_are_matched_regardless_of_case_if_the_client_asks_for_it() -> None:
    document = {"type": "eq", "term": "N", "value": 1}
    assert numbers_that_pass(document) == [1, 2, 0]
    assert numbers_that_pass(document, case_sensitive=False) == [1]


def test_a_long_list_of_numbers_is_one_test() -> None:
    """Arrow ends the process if it is given a chain of so many."""
    table = pa.table({"real": [1.0, 0.5, -0.0, 0.0, float("nan"), None], "number": range(6)})
    values = [float(number) for number in range(90_000)]
    actual = table.filter(condition_of({"type": "in", "term": "real", "values": values}))
    assert actual.column("number").to_pylist() == [0, 2, 3]


def balanced(joined: str, tests: list[Any]) -> Any:
    if len(tests) == 1:
        return tests[0]
    middle = len(tests) // 2
    return {"type": joined, "left": balanced(joined, tests[:middle]), "right": balanced(joined, tests[middle:])}


def test_of_too_many_tests_some_rule_out_nothing() -> None:
    tests = [{"type": "eq", "term": "n", "value": number} for number in range(12_000)]
    few, many = balanced("or", tests[:400]), balanced("or", tests)
    parse_scan_request(json.dumps({"filter": many}).encode())
    table = pa.table({"n": pa.array([1, 399, 11_999, 12_000, None], pa.int32()), "text": list("aabbb")})
    assert table.filter(condition_of(few)).column("n").to_pylist() == [1, 399]
    assert condition_of(many) is None
    of_a = {"type": "eq", "term": "text", "value": "a"}
    for joined in ({"type": "and", "left": many, "right": of_a}, {"type": "and", "left": of_a, "right": many}):
        assert table.filter(condition_of(joined)).column("n").to_pylist() == [1, 399]
    others = balanced("and", [{"type": "not-eq", "term": "n", "value": number} for number in range(12_000)])
    assert 12_000 in table.filter(condition_of(others)).column("n").to_pylist()
    assert table.filter(condition_of({"type": "and", "left": others, "right": of_a})).num_rows <= 2


def test_decimals_are_compared_as_such() -> None:
    table = pa.table({"price": pa.array([Decimal("1.50"), Decimal("1.51")], pa.decimal128(5, 2))})
    actual = table.filter(condition_of({"type": "lt-eq", "term": "price", "value": "1.50"}))
    assert actual.column("price").to_pylist() == [Decimal("1.50")]


def nested(levels: int) -> str:
    return '{"type":"not","child":' * levels + "true" + "}" * levels


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"snapshot-id": "1"}',
        b'{"snapshot-id": true}',
        b'{"filter": "x"}',
        b'{"filter": 1}',
        b'{"select": [1]}',
        b'{"case-sensitive": "no"}',
        b'{"stats-fields": {}}',
        b'{"snapshot-id": 1, "start-snapshot-id": 1, "end-snapshot-id": 2}',
        b'{"start-snapshot-id": 1}',
        b'{"filter": %s}' % nested(MOST_LEVELS).encode(),
        b'{"filter": %s}' % nested(100_000).encode(),
        b'{"filter": {"type": "in", "term": "n", "values": [%s]}}' % b",".join([b"1"] * 100_001),
    ],
)
def test_hostile_requests_are_refused(body: bytes) -> None:
    with pytest.raises(QueryError):
        parse_scan_request(body)


def test_scans_between_snapshots_are_refused_by_name() -> None:
    with pytest.raises(IncrementalScanError, match="end-snapshot-id"):
        parse_scan_request(b'{"start-snapshot-id": 1, "end-snapshot-id": 2}')


def test_requests_have_the_defaults_of_the_specification() -> None:
    request = parse_scan_request(b'{"filter": %s, "min-rows-requested": 5}' % nested(MOST_LEVELS - 2).encode())
    assert (request.snapshot_id, request.case_sensitive, request.use_snapshot_schema) == (None, True, False)
    assert parse_scan_request(b"{}").filter is None


@pytest.mark.parametrize("body", [b"{}", b'{"plan-task": 1}', b'"x"'])
def test_a_request_for_tasks_names_a_plan_task(body: bytes) -> None:
    with pytest.raises(QueryError):
        parse_task_request(body)
