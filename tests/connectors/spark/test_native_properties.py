"""Random tables and conditions: Spark's scan of base files with the rows of logs answers as a snapshot in Arrow."""

import datetime as dt
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge import HudiTable
from hudi_bridge.connectors.spark import jvm, read, slice_routes
from hudi_bridge.connectors.spark.types import arrow_layout, spark_schema
from tests.connectors.spark.conditions import ids_by_condition, ids_where_true
from tests.support.compare import differences
from tests.support.strength import examples
from tests.support.table_writer import Row, TableWriter, at

INNER = {"type": "record", "name": "inner", "fields": [{"name": "n", "type": ["null", "long"], "default": None}]}
FIELDS: tuple[tuple[str, Any], ...] = (
    ("id", "string"),
    ("ts", "long"),
    ("part", "string"),
    ("text", "string"),
    ("number", "int"),
    ("flag", "boolean"),
    ("day", {"type": "int", "logicalType": "date"}),
    ("t", {"type": "long", "logicalType": "timestamp-micros"}),
    ("inner", INNER),
    ("items", {"type": "array", "items": ["null", "string"], "default": []}),
)
PARTITIONS = ("p", "q r", "10%")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.sampled_from([f"k{number}" for number in range(8)]),
    "ts": st.integers(0, 3),
    "text": st.none() | st.sampled_from(["", "a", "ab", "\u00e9", "\U0001f600"]),
    "number": st.none() | st.integers(-2, 2),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.integers(-1, 3).map(lambda days: dt.date(1970, 1, 1) + dt.timedelta(days)),
    "t": st.none() | st.integers(-2, 2).map(lambda micros: EPOCH + dt.timedelta(microseconds=micros)),
    "inner": st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(0, 2)}),
    "items": st.none() | st.lists(st.none() | st.sampled_from(["a", "b"]), max_size=2),
}
ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=6, unique_by=lambda row: row["id"])
DELETES = st.lists(st.tuples(VALUES["id"], st.integers(0, 4)), max_size=3, unique_by=lambda one: one[0])
GROUPS = st.tuples(st.sampled_from(PARTITIONS), st.none() | ROWS, st.lists(st.tuples(ROWS, DELETES), max_size=2))
LITERALS = {
    "id": ["'k0'", "'k3'"],
    "ts": ["1", "2"],
    "part": ["'p'", "'q r'"],
    "text": ["'a'", "''", "'\u00e9'"],
    "number": ["0", "-1", "NULL"],
    "day": ["date'1970-01-01'"],
    "t": ["timestamp'1970-01-01 00:00:00'", "timestamp'1970-01-01 00:00:00.000001'"],
    "inner.n": ["1"],
    "length(text)": ["1"],
    "size(items)": ["1"],
    "get(items, 0)": ["'a'"],
}


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(sorted(LITERALS)))
    if draw(st.booleans()):
        return f"{name} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    return f"{name} {draw(st.sampled_from(['=', '<>', '<', '>=', '<=>']))} {draw(st.sampled_from(LITERALS[name]))}"


CONDITIONS = st.recursive(
    comparisons() | st.just("flag"),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | inner.map(lambda one: f"NOT ({one})")
    ),
    max_leaves=3,
)


def written(folder: Path, groups: list[Any]) -> HudiTable:
    writer = TableWriter(folder=folder / "table", fields=FIELDS, partition_fields=("part",)).create()
    for number, (partition, base, writes) in enumerate(groups):
        at_group = {"file_id": f"f{number}-0", "partition": partition}
        if base is not None:
            writer.base_file(at(1), _placed(partition, base), row_group_size=2, **at_group)
        for version, (rows, deletes) in enumerate(writes, start=2):
            blocks = [writer.data_block(at(version), _placed(partition, rows), **at_group)]
            if deletes:
                blocks.append(writer.delete_block(at(version), deletes, partition=partition))
            writer.log_file(at(version), blocks, **at_group)
    for version in (1, 2, 3):
        writer.commit(at(version))
    return writer.open()


def _placed(partition: str, rows: list[Row]) -> list[Row]:
    return [{**row, "part": partition} for row in rows]


def in_spark(spark: SparkSession, rows: pa.Table) -> DataFrame:
    layout = arrow_layout(rows.schema)
    # PySpark takes no columns without chunks.
    return spark.createDataFrame(rows.cast(layout) if len(rows) else layout.empty_table(), spark_schema(rows.schema))


@pytest.mark.parametrize("is_private", [True, False], ids=["private classes", "public API"])
def test_random_tables_and_conditions(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *, is_private: bool
) -> None:
    if not is_private:
        monkeypatch.setattr(jvm, "reason_unavailable", lambda _: "a test")

    @settings(max_examples=examples(4 if is_private else 2), deadline=None)
    @given(groups=st.lists(GROUPS, min_size=1, max_size=3), conditions=st.sets(CONDITIONS, min_size=1, max_size=4))
    def check(groups: list[Any], conditions: set[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = written(Path(folder), groups)
            rows = table.snapshot().to_table()
            expected = ids_where_true(in_spark(spark, rows), sorted(conditions), "_hoodie_record_key")
            frame = read(spark, table.path)
            assert slice_routes(frame).others == {}
            assert differences(rows, frame.toArrow()) == []
            assert ids_by_condition(dict.fromkeys(expected, frame)) == expected
            given_one = {condition: read(spark, table.path, filter=condition) for condition in sorted(conditions)[:2]}
            actual = ids_by_condition(given_one)
            assert actual == {condition: expected[condition] for condition in actual}

    check()
