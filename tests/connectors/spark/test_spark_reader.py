"""What users do with DataFrames of the format ``hudi_bridge`` and of ``read``."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptLogFileError,
    DataFileGoneError,
    HudiTable,
    InstantNotReadableError,
    QueryError,
    TableNotFoundError,
    variant_path,
)
from hudi_bridge.connectors.spark import cause_of, read, slice_routes
from hudi_bridge.connectors.spark.data_source import KEEPS_FILTERS_APART
from hudi_bridge.connectors.spark.options import BEGIN, INCREMENTAL_FORMAT
from hudi_bridge.options import QUERY_TYPE_KEY
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN
from tests.connectors.damage import copy_with_damaged_logs
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.overlapping_writes import EXPECTED, ON, overlapping
from tests.support.shredded_tables import FILES, NAMES, seen, with_base
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at
from tests.support.variants import decoded, in_json
from tests.timeline.timeline_files import clean

STORY = "a_story_v9_120"

Load = Callable[[SparkSession, str], DataFrame]


def load(spark: SparkSession, path: str | Path, **options: str) -> DataFrame:
    return spark.read.format("hudi_bridge").options(**options).load(str(path))


def ids(frame: DataFrame) -> list[Any]:
    return sorted(row["id"] for row in frame.collect())


BOTH: tuple[Load, ...] = (load, read)


def two_partitions(folder: Path) -> TableWriter:
    writer = TableWriter(
        folder=folder / "table", fields=(*KEY_AND_VALUE, ("part", "string")), partition_fields=("part",)
    ).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x", "part": "p"}], partition="p", file_id="f1-0")
    writer.base_file(at(1), [{"id": "b", "ts": 1, "value": "y", "part": "q"}], partition="q", file_id="f2-0")
    writer.commit(at(1))
    return writer


def damage_column(path: Path, column: str) -> None:
    """Overwrite the pages of a column of a Parquet file."""
    chunks = pq.read_metadata(path).row_group(0)
    (place,) = (number for number in range(chunks.num_columns) if chunks.column(number).path_in_schema == column)
    chunk = chunks.column(place)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(content)


def test_columns_reach_the_executors(spark: SparkSession, tmp_path: Path) -> None:
    writer = two_partitions(tmp_path)
    for file in writer.folder.glob("*/*.parquet"):
        damage_column(file, "value")
    path = str(writer.folder)
    for narrow in (
        load(spark, path, columns="id"),
        read(spark, path, columns=["id"]),
        load(spark, path, columns='["id"]'),
    ):
        assert narrow.columns == ["id"]
        assert ids(narrow) == ["a", "b"]
    assert ids(spark.read.format("hudi_bridge").schema("id STRING").load(path)) == ["a", "b"]
    with pytest.raises(PySparkException) as caught:
        load(spark, path).select("value").collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, CorruptBaseFileError)
    assert cause.path.endswith(".parquet")


def test_a_filter_may_name_columns_that_are_not_returned(spark: SparkSession, tmp_path: Path) -> None:
    path = str(two_partitions(tmp_path).folder)
    frame = read(spark, path, columns=["value"], filter="id = 'b' AND length(part) = 1")
    assert [tuple(row) for row in frame.collect()] == [("y",)]


def test_a_filter_may_spell_columns_in_any_case(spark: SparkSession, tmp_path: Path) -> None:
    frame = read(spark, str(two_partitions(tmp_path).folder), columns=["value"], filter="ID = 'b'")
    assert [tuple(row) for row in frame.collect()] == [("y",)]


@pytest.mark.parametrize(
    "condition",
    [
        "id IN (SELECT id FROM returned WHERE part = 'q')",
        "id NOT IN (SELECT id FROM returned WHERE part = 'q')",
        "NOT EXISTS (SELECT 1 FROM returned WHERE returned.id = value AND part = 'q')",
        "EXISTS (SELECT 1 FROM returned WHERE returned.other = value)",
        "value > (SELECT min(other) FROM returned WHERE part = 'q')",
    ],
)
def test_a_condition_of_a_subquery_is_none_of_the_table(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    path = str(two_partitions(tmp_path).folder)
    rows = [("a", "q", "x"), ("b", "p", "z")]
    spark.createDataFrame(rows, "id string, part string, other string").createOrReplaceTempView("returned")
    expected = ids(read(spark, path).where(condition))
    assert ids(read(spark, path, columns=["id"], filter=condition)) == expected != []


def test_partitions_that_a_filter_rules_out_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    writer = two_partitions(tmp_path)
    for file in (writer.folder / "p").glob("*.parquet"):
        file.write_bytes(b"no Parquet")
    path = str(writer.folder)
    assert ids(read(spark, path, filter="part = 'q'")) == ["b"]
    assert ids(load(spark, path, pushFilters="true").where("part = 'q' AND id LIKE 'b%'")) == ["b"]
    with pytest.raises(PySparkException):
        read(spark, path, filter="part = 'p'").collect()


CONDITIONS = (
    "i > 0 AND s IS NOT NULL",
    "d > 0",
    "NOT (d < 0)",
    "d <> 1.5",
    "f >= cast(0 AS FLOAT)",
    "dec102 >= 1.5 AND da > '1990-01-01'",
    "bo",
    "NOT bo OR i < 5",
    "st.x IN (1, 2, 3) AND id > 'k'",
    "NOT st.x IN (1, 2)",
    "i <=> NULL",
    "NOT (i <=> 1)",
    "s LIKE 'b%' AND tm < '2100-01-01'",
    "1.5 < d AND l % 2 = 0",
    "i IN (1, NULL)",
    "1 = 0",
)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions_that_are_handed_over_select_the_rows_that_spark_selects(
    spark: SparkSession, condition: str
) -> None:
    path = str(golden_table("f_types_120"))
    everything = read(spark, path).toArrow()
    expected = ids(spark.createDataFrame(everything).where(condition))
    assert ids(read(spark, path, columns=["id"], filter=condition)) == expected
    assert ids(load(spark, path, pushFilters="true").where(condition)) == expected


def test_filters_of_one_query_do_not_stay_for_the_next(spark: SparkSession, tmp_path: Path) -> None:
    frame = load(spark, two_partitions(tmp_path).folder)
    assert ids(frame.where("id = 'a'")) == ["a"]
    assert ids(frame) == ["a", "b"]
    assert ids(frame.where("id = 'a'").union(frame.where("id = 'b'"))) == ["a", "b"]


def test_whether_this_release_of_spark_keeps_filters_apart(spark: SparkSession, tmp_path: Path) -> None:
    frame = load(spark, two_partitions(tmp_path).folder, pushFilters="true")
    frame.where("id = 'a'").count()
    assert (frame.count() == 2) is KEEPS_FILTERS_APART


@pytest.mark.parametrize("open_frame", BOTH, ids=["format", "read"])
def test_a_damaged_log_reaches_the_driver_with_its_facts(spark: SparkSession, tmp_path: Path, open_frame: Load) -> None:
    damaged = copy_with_damaged_logs(STORY, tmp_path)
    with pytest.raises(CorruptLogFileError) as expected:
        HudiTable.open(str(damaged)).snapshot().to_table()
    with pytest.raises(PySparkException) as caught:
        open_frame(spark, str(damaged)).collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, CorruptLogFileError)
    assert cause.offset is not None
    assert cause.path.startswith(("a/.", "b/.", "c/."))
    assert f"hudi_bridge.errors.CorruptLogFileError: {cause}\n" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    assert type(cause) is type(expected.value)
    assert cause_of(ValueError("nothing of ours")) is None


@pytest.mark.parametrize("open_frame", BOTH, ids=["format", "read"])
def test_a_file_of_the_newest_commit_that_is_gone_is_said_to_be_lost(
    spark: SparkSession, tmp_path: Path, open_frame: Load
) -> None:
    writer = two_partitions(tmp_path)
    frame = open_frame(spark, str(writer.folder))
    assert frame.count() == 2
    (file,) = (writer.folder / "p").glob("*.parquet")
    file.unlink()
    # Spark's own errors about files reach Python as they are.
    with pytest.raises((PySparkException, Py4JJavaError)) as caught:
        frame.collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, DataFileGoneError)
    assert "it was lost" in str(cause)
    assert cause.path == f"p/{file.name}"
    assert cause.newest_instant == at(1)


def test_files_cleaned_before_a_query_is_planned_are_missed(spark: SparkSession, tmp_path: Path) -> None:
    writer = two_partitions(tmp_path)
    frame = load(spark, writer.folder)
    (file,) = (writer.folder / "p").glob("*.parquet")
    file.unlink()
    (writer.timeline_folder / f"{at(3)}_{at(4)}.clean").write_bytes(clean(at(2)))
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, InstantNotReadableError)
    assert cause.earliest == at(2)


@pytest.mark.parametrize("open_frame", BOTH, ids=["format", "read"])
def test_a_frame_stays_at_its_instant(spark: SparkSession, tmp_path: Path, open_frame: Load) -> None:
    writer = two_partitions(tmp_path)
    frame = open_frame(spark, str(writer.folder))
    writer.base_file(at(2), [{"id": "c", "ts": 2, "value": "z", "part": "q"}], partition="q", file_id="f3-0")
    writer.commit(at(2))
    assert ids(frame) == ["a", "b"]
    assert ids(open_frame(spark, str(writer.folder))) == ["a", "b", "c"]


def test_time_travel_and_incremental_queries(spark: SparkSession, tmp_path: Path) -> None:
    writer = two_partitions(tmp_path)
    added = [{"id": "c", "ts": 2, "value": "z", "part": "q"}]
    writer.commit(at(2), wrote=[writer.base_file(at(2), added, partition="q", file_id="f3-0")])
    path = str(writer.folder)
    assert ids(load(spark, path, **{"as.of.instant": at(1)})) == ["a", "b"]
    incremental = {"hoodie.datasource.query.type": "incremental"}
    after = {"hoodie.datasource.read.begin.instanttime": str(int(at(1)) + 50)}
    assert ids(load(spark, path, **incremental, **after).where("id > 'a'")) == ["c"]
    assert ids(read(spark, path, query_type="incremental", options=after)) == ["c"]
    with pytest.raises(PySparkException, match=r"begin\.instanttime"):
        load(spark, path, **incremental).collect()


def test_the_plan_is_a_frame_and_tasks_are_packed_by_size(spark: SparkSession) -> None:
    path = str(golden_table(STORY))
    plan = read(spark, path, query_type="splits")
    facts = {tuple(row) for row in plan.select("file_id", "base_path", "log_size_bytes").collect()}
    assert facts == {(split.file_id, split.base_path, split.log_size_bytes) for split in HudiTable.open(path).splits()}
    assert load(spark, path).rdd.getNumPartitions() == 1
    assert load(spark, path, maxPartitionBytes="1").rdd.getNumPartitions() == 5
    assert load(spark, path, maxPartitionBytes="1").count() == 65
    assert read(spark, path, query_type="splits", columns=["file_id"], filter="log_size_bytes = 0").count() == sum(
        split.log_size_bytes == 0 for split in HudiTable.open(path).splits()
    )


def test_sql_reads_temporary_views(spark: SparkSession) -> None:
    path = golden_table(STORY)
    options = f"path '{path}', 'as.of.instant' '20261121133031439'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW trips USING hudi_bridge OPTIONS ({options})")
    assert spark.sql("SELECT count(*) AS n FROM trips").collect()[0].n == 60


def test_tables_of_a_catalog_are_refused(spark: SparkSession) -> None:
    location = f"USING hudi_bridge LOCATION '{golden_table(STORY)}'"
    with pytest.raises(PySparkException, match="temporary view"):
        spark.sql(f"CREATE TABLE trips_in_catalog {location}")
    spark.sql(f"CREATE TABLE trips_in_catalog (id STRING) {location}")
    try:
        with pytest.raises(PySparkException, match="temporary view"):
            spark.sql("SELECT count(*) FROM trips_in_catalog").collect()
    finally:
        spark.sql("DROP TABLE trips_in_catalog")


def test_rows_of_read_are_those_of_the_format(spark: SparkSession) -> None:
    path = str(golden_table("f_types_120"))
    assert differences(load(spark, path).toArrow(), read(spark, path).toArrow()) == []


def test_what_cannot_be_read(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as missing:
        load(spark, tmp_path / "nowhere")
    assert isinstance(cause_of(missing.value), TableNotFoundError)
    with pytest.raises(TableNotFoundError):
        read(spark, str(tmp_path / "nowhere"))
    path = str(golden_table(STORY))
    with pytest.raises(PySparkException) as unknown:
        load(spark, path, columns="id,nope")
    assert isinstance(cause_of(unknown.value), QueryError)
    with pytest.raises(QueryError, match="nope"):
        read(spark, path, columns=["nope"])
    with pytest.raises(PySparkException, match="type of column id"):
        spark.read.format("hudi_bridge").schema("id INT").load(path).collect()
    with pytest.raises(PySparkException, match="as_of"):
        load(spark, path, as_of="2026")


INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
REFUSED: dict[str, Callable[[SparkSession, str], object]] = {
    "no table": lambda spark, path: load(spark, f"{path}/nowhere"),
    "unknown option": lambda spark, path: load(spark, path, as_of="2026"),
    "no begin": lambda spark, path: load(spark, path, **INCREMENTAL).collect(),
    "another type": lambda spark, path: spark.read.format("hudi_bridge").schema("id INT").load(path).collect(),
    "stream of no table": lambda spark, path: spark.readStream.format("hudi_bridge").load(f"{path}/nowhere"),
    "view of no table": lambda spark, path: spark.sql(
        f"CREATE TEMPORARY VIEW nowhere USING hudi_bridge OPTIONS (path '{path}/nowhere')"
    ),
}


@pytest.mark.parametrize("act", REFUSED.values(), ids=REFUSED)
def test_an_error_of_the_format_begins_with_its_message(
    spark: SparkSession, act: Callable[[SparkSession, str], object]
) -> None:
    with pytest.raises(PySparkException) as caught:
        act(spark, str(golden_table(STORY)))
    cause = cause_of(caught.value)
    first = str(caught.value).splitlines()[0]
    assert first.startswith("[PYTHON_DATA_SOURCE_ERROR] Failed to ")
    assert first.endswith(f": hudi_bridge.errors.{type(cause).__name__}: {cause}")
    assert "Traceback" not in str(caught.value)


def test_an_empty_table_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(golden_table("i_empty_120"), tmp_path / "table")
    assert load(spark, tmp_path / "table").count() == 0
    assert read(spark, str(tmp_path / "table")).count() == 0


def test_hudis_own_columns_can_be_left_out(spark: SparkSession) -> None:
    path = golden_table(STORY)
    expected = HudiTable.open(path).snapshot().to_table(meta_columns=False)
    for frame in (load(spark, path, metaColumns="false"), read(spark, path, meta_columns=False)):
        assert frame.columns == expected.column_names
        assert frame.count() == expected.num_rows
    assert read(spark, path, ["_hoodie_record_key"], meta_columns=False).columns == ["_hoodie_record_key"]


def times(frame: DataFrame) -> dict[str, str]:
    return {row["id"]: row[COMPLETION_TIME_COLUMN] for row in frame.select("id", COMPLETION_TIME_COLUMN).collect()}


def test_rows_have_completion_times_if_asked(spark: SparkSession, tmp_path: Path) -> None:
    path = str(overlapping(tmp_path / "t", 9).folder)
    late = f"{COMPLETION_TIME_COLUMN} > '{at(30)}'"
    frame = read(spark, path, options=ON)
    assert slice_routes(frame).native == 0
    for rows in (frame, load(spark, path, **ON), load(spark, path, pushFilters="true", **ON)):
        assert times(rows) == EXPECTED
        assert times(rows.where(late)) == {"b": at(40)}
    assert times(read(spark, path, options=ON, filter=late)) == {"b": at(40)}
    assert set(times(load(spark, path, **ON, **{QUERY_TYPE_KEY: "read_optimized"})).values()) == {at(2)}
    of_range = {QUERY_TYPE_KEY: "incremental", BEGIN: at(5)}
    assert times(load(spark, path, **ON, **of_range)) == {"b": at(40), "c": at(30)}
    changes = load(spark, path, **ON, **of_range, **{INCREMENTAL_FORMAT: "cdc"})
    assert {row[COMPLETION_TIME_COLUMN] for row in changes.collect()} == {at(30), at(40)}


@pytest.mark.parametrize("open_frame", BOTH)
def test_a_shredded_variant_is_what_spark_reads_from_the_file(
    spark: SparkSession, tmp_path: Path, open_frame: Load
) -> None:
    names = [name for name in NAMES if name.startswith("spark")]
    assert names
    for name in names:
        frame = open_frame(spark, str(with_base(tmp_path / name, name).folder))
        assert dict(frame.dtypes)["v"] == "variant"
        actual = frame.selectExpr("id", "to_json(v) AS json", "schema_of_variant(v) AS type").collect()
        assert {row["id"]: [row["json"], row["type"]] for row in actual} == seen(name, "spark")
    passing = open_frame(spark, str(tmp_path / "spark_object")).where(
        "variant_get(v, '$.nest.q[1].z', 'string') = 'two'"
    )
    assert ids(passing) == ["all"]


def test_paths_of_a_shredded_variant_are_those_of_variant_get(spark: SparkSession, tmp_path: Path) -> None:
    paths: dict[str, tuple[str | int, ...]] = {
        "$.a": ("a",),
        "$.nest": ("nest",),
        "$.nest.p": ("nest", "p"),
        "$.nest.r": ("nest", "r"),
        "$.nest.q[1].z": ("nest", "q", 1, "z"),
        "$.nest.q[1].more[0]": ("nest", "q", 1, "more", 0),
        "$.arr": ("arr",),
        "$.arr[1]": ("arr", 1),
        "$.zz.a[1]": ("zz", "a", 1),
        "$[1]": (1,),
        "$[0][0]": (0, 0),
        "$": (),
    }
    columns = {path: variant_path("v", *steps) for path, steps in paths.items()} | {"id": pc.field("id")}
    for name in (name for name in NAMES if name.startswith("spark")):
        values = [f"to_json(variant_get(v, '{path}', 'variant')) AS `c{number}`" for number, path in enumerate(paths)]
        by_spark = spark.read.parquet(str(FILES / f"{name}.parquet")).selectExpr("id", *values).collect()
        expected = {row["id"]: row[1:] for row in by_spark if "types" not in row["id"] and row["id"][:5] != "plain"}
        rows = HudiTable.open(str(with_base(tmp_path / name, name).folder)).snapshot().to_table(columns).to_pylist()
        actual = {row["id"]: [None if row[path] is None else (decoded(**row[path]),) for path in paths] for row in rows}
        for key, texts in expected.items():
            of_spark = [None if text is None else (json.loads(text),) for text in texts]
            assert [value and (in_json(value[0]),) for value in actual[key]] == of_spark, (name, key)
