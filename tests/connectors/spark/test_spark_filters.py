import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import datasource as spark_filters

from hudi_bridge.connectors.spark.conditions import Condition, condition_of, expression_of
from hudi_bridge.connectors.spark.data_source import FilteringReader
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, load_split
from hudi_bridge.readers.filters import MOST_PARTS
from tests.support.golden_cases import golden_table
from tests.support.moved_partitions import MOVED_KEYS, moved

NAN = float("nan")
ROWS = pa.table(
    {
        "n": pa.array([1, 2, None, 3], pa.int32()),
        "x": pa.array([1.0, NAN, None, -0.0]),
        "s": pa.array(["ab", "b", None, "bc"]),
        "d": pa.array([Decimal("1.50"), None, Decimal("2.00"), Decimal("-1.00")], pa.decimal128(10, 2)),
        "day": pa.array([dt.date(2026, 1, 1), None, dt.date(2026, 1, 2), dt.date(2025, 1, 1)]),
        "t": pa.array([0, 1_000_000, None, 5], pa.timestamp("us", "UTC")),
        "b": pa.array([True, False, None, True]),
        "st": pa.array([{"a": 1}, {"a": None}, None, {"a": 3}], pa.struct([("a", pa.int64())])),
        "ls": pa.array([[1], [], None, [2]], pa.list_(pa.int32())),
    }
)


def passing(condition: Condition) -> list[Any]:
    expression = expression_of(condition, ROWS.schema)
    assert expression is not None
    numbered = ROWS.append_column("place", pa.array(range(4)))
    places: list[Any] = numbered.filter(expression).column("place").to_pylist()
    return places


def condition(name: str, column: str, *values: Any, negated: bool = False) -> Condition:
    return Condition(name=name, path=tuple(column.split(".")), values=values, is_negated=negated)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        (condition("EqualTo", "n", 2), [1]),
        (condition("EqualTo", "n", "2"), [1]),
        (condition("EqualTo", "n", 2, negated=True), [0, 3]),
        (condition("EqualNullSafe", "n", 2), [1]),
        (condition("EqualNullSafe", "n", 2, negated=True), [0, 2, 3]),
        (condition("In", "n", 1, 3), [0, 3]),
        (condition("In", "n", 1, 3, negated=True), [1]),
        (condition("In", "x", 0.0, 1.0), [0, 3]),
        (condition("In", "x", 0.0, 7.0, negated=True), [0, 1]),
        (condition("In", "d", "1.50", "-1.0"), [0, 3]),
        (condition("In", "day", "2026-01-01"), [0]),
        (condition("In", "t", dt.datetime(1970, 1, 1, tzinfo=dt.UTC)), [0]),
        (condition("In", "b", "true"), [0, 3]),
        (condition("In", "st.a", 3, 4), [3]),
        (condition("In", "n", *range(2, 90_000)), [1, 3]),
        (condition("IsNull", "n"), [2]),
        (condition("IsNull", "n", negated=True), [0, 1, 3]),
        (condition("IsNotNull", "st.a"), [0, 3]),
        (condition("GreaterThan", "x", 0.5), [0, 1]),
        (condition("GreaterThan", "x", 0.5, negated=True), [3]),
        (condition("GreaterThanOrEqual", "x", 1.0), [0, 1]),
        (condition("LessThan", "x", 1.0), [3]),
        (condition("LessThan", "x", 1.0, negated=True), [0, 1]),
        (condition("EqualTo", "x", 0.0), [3]),
        (condition("EqualTo", "x", 0.0, negated=True), [0, 1]),
        (condition("LessThanOrEqual", "d", Decimal("1.5")), [0, 3]),
        (condition("LessThanOrEqual", "d", "1.50"), [0, 3]),
        (condition("GreaterThan", "day", dt.date(2026, 1, 1)), [2]),
        (condition("GreaterThan", "day", "2026-01-01"), [2]),
        (condition("GreaterThan", "t", dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)), []),
        (condition("EqualTo", "b", "true"), [0, 3]),
        (condition("GreaterThan", "b", False), [0, 3]),
        (condition("GreaterThan", "st.a", 1), [3]),
        (condition("StringStartsWith", "s", "b"), [1, 3]),
        (condition("StringStartsWith", "s", "b", negated=True), [0]),
        (condition("StringEndsWith", "s", "b"), [0, 1]),
        (condition("StringContains", "s", "c"), [3]),
    ],
    ids=lambda one: str(one)[:200],
)
def test_conditions_mean_what_they_mean_to_spark(taken: Condition, expected: list[int]) -> None:
    assert passing(taken) == expected


@pytest.mark.parametrize(
    "left",
    [
        condition("EqualTo", "nope", 1),
        condition("EqualTo", "st.nope", 1),
        condition("EqualTo", "st", {"a": 1}),
        condition("EqualTo", "ls", [1]),
        condition("EqualTo", "n", None),
        condition("EqualTo", "n", "two"),
        condition("EqualTo", "n", 1 << 40),
        condition("GreaterThan", "x", NAN),
        condition("In", "n", 1, None),
        condition("In", "n"),
        condition("EqualTo", "d", Decimal("1.001")),
        condition("StringStartsWith", "n", "1"),
        condition("Rlike", "s", "b"),
    ],
    ids=str,
)
def test_what_arrow_cannot_decide_alike_is_left_to_spark(left: Condition) -> None:
    assert expression_of(left, ROWS.schema) is None


def test_filters_of_spark_become_conditions() -> None:
    pushed = {
        spark_filters.EqualTo(("n",), 1): condition("EqualTo", "n", 1),
        spark_filters.In(("n",), (1, 2)): condition("In", "n", 1, 2),
        spark_filters.IsNull(("st", "a")): condition("IsNull", "st.a"),
        spark_filters.Not(spark_filters.StringContains(("s",), "x")): condition(
            "StringContains", "s", "x", negated=True
        ),
        spark_filters.Not(spark_filters.Not(spark_filters.IsNull(("n",)))): None,
    }
    assert {item: condition_of(item) for item in pushed} == pushed
    assert isinstance(expression_of(condition("IsNull", "n"), ROWS.schema), pc.Expression)


def test_of_many_filters_those_that_arrow_cannot_take_are_left_to_spark() -> None:
    query = PinnedQuery.of(parse_options({"path": str(golden_table("a_story_v9_120"))}))
    reader = FilteringReader(query, query.full_schema.names, None)
    name = query.full_schema.names[0]
    pushed = [spark_filters.Not(spark_filters.EqualTo((name,), str(number))) for number in range(12_000)]
    assert list(reader.pushFilters(pushed)) == pushed[MOST_PARTS:]
    assert reader.partitions()


def test_a_condition_of_many_parts_chooses_by_some_of_them() -> None:
    query = PinnedQuery.of(parse_options({"path": str(golden_table("a_story_v9_120"))}))
    name = query.full_schema.names[0]
    listing = query.listing(
        conditions=[condition("EqualTo", name, str(number), negated=True) for number in range(12_000)]
    )
    assert len(listing.splits) == len(query.listing().splits)


def test_no_condition_on_a_partition_column_leaves_out_a_slice_with_rows(tmp_path: Path) -> None:
    moved(tmp_path / "t")
    query = PinnedQuery.of(parse_options({"path": str(tmp_path / "t")}))
    for value, keys in MOVED_KEYS.items():
        listing = query.listing(conditions=[condition("EqualTo", "part", value)])
        paths = {
            load_split(split.pickled, listing.reading.contexts).slices[0].partition_path for split in listing.splits
        }
        expected = {"a" if key in ("k1", "k2", "k3") else "b" for key in keys}
        assert paths >= expected


def test_read_optimized_queries_find_records_that_logs_delete() -> None:
    path = str(golden_table("h_record_index_120"))
    # A snapshot looks for a key that the index has lost, too: a late delete would leave its row.
    for query_type, key, slices in (
        ("read_optimized", "k00000", 1),
        ("snapshot", "k00000", 1),
        ("snapshot", "none", 0),
    ):
        query = PinnedQuery.of(parse_options({"path": path, "hoodie.datasource.query.type": query_type}))
        assert len(query.listing(conditions=[condition("EqualTo", "id", key)]).splits) == slices
