"""The check of Spark's private classes, and reads by the public API where it fails."""

import gc
import logging
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructField, StructType

from hudi_bridge import CorruptLogFileError
from hudi_bridge.connectors.spark import cause_of, jvm, read, slice_routes
from hudi_bridge.connectors.spark.conditions import parse_filter, simple_conditions
from hudi_bridge.connectors.spark.jvm import Jvm, jvm_of, reason_unavailable
from hudi_bridge.connectors.spark.types import spark_schema
from tests.connectors.spark.native_tables import MERGED, kept_in_spark, plan_of, values, written
from tests.connectors.spark.public_api import MISSING
from tests.support.table_writer import TableWriter, at


@pytest.fixture
def public_api(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "reason_unavailable", lambda _: "a test")


def test_the_classes_of_this_spark_are_as_expected(spark: SparkSession) -> None:
    assert reason_unavailable(spark) is None
    assert jvm_of(spark) == Jvm(spark)


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        (MISSING, "org.apache.spark.api.python.PythonRDD.valueOfPair(java.lang.String)"),
        (MISSING._replace(owner="org.apache.spark.NoSuchClass", method=None), "org.apache.spark.NoSuchClass(java"),
        (MISSING._replace(parameters=("org.apache.NoSuchClass",)), "(org.apache.NoSuchClass)"),
    ],
)
def test_a_class_that_is_not_as_expected_is_named_once_in_the_log(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    signature: Any,
    text: str,
) -> None:
    session = spark.newSession()
    monkeypatch.setattr(jvm, "_SIGNATURES", (*jvm._SIGNATURES, signature))
    with caplog.at_level(logging.INFO, logger=jvm.__name__):
        frame = read(session, str(written(tmp_path).folder))
        assert values(frame) == values(read(session, str(tmp_path / "table"))) == MERGED
    assert "LeftAnti" in plan_of(frame)
    (message,) = caplog.messages
    assert "public API" in message
    assert text in message
    assert reason_unavailable(spark) is None


def test_a_session_of_spark_connect_has_no_jvm() -> None:
    session: Any = type("Session", (SimpleNamespace,), {"__hash__": object.__hash__})()
    assert reason_unavailable(session) == "a session of Spark Connect has no JVM"


@pytest.mark.usefixtures("public_api")
def test_rows_filters_and_columns_by_the_public_api(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    frame = read(spark, path)
    assert values(frame) == MERGED
    assert slice_routes(frame).native == 1
    assert values(frame.where("value = 'new'")) == [("b", "new")]
    assert frame.alias("l").join(frame.where("value IS NULL").alias("r"), "id").count() == 2
    assert values(read(spark, path, filter="VALUE = 'x'")) == [("d", "x")]
    narrow = read(spark, path, columns=["id"], filter="length(value) = 3")
    assert [tuple(row) for row in narrow.collect()] == [("b",)]
    assert values(read(spark, path, query_type="read_optimized")) == [("a", "x"), ("b", "y"), ("c", None)]
    with pytest.raises(AnalysisException):
        read(spark, path, filter="nothing = 1")


@pytest.mark.usefixtures("public_api")
def test_logs_are_merged_once_by_the_public_api(spark: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    frame = read(spark, str(writer.folder))
    for log in writer.folder.glob("p/.*.log.*"):
        log.unlink()
    assert values(frame) == values(frame) == MERGED


@pytest.mark.usefixtures("public_api")
def test_what_the_public_api_keeps_is_freed_with_the_last_frame(spark: SparkSession, tmp_path: Path) -> None:
    path = str(written(tmp_path).folder)
    gc.collect()
    before = kept_in_spark(spark)
    frame = read(spark, path).where("value IS NOT NULL")
    assert frame.count() == 2
    own = kept_in_spark(spark) - before
    assert own
    del frame
    # An idle thread of Spark's pools, which ends after a minute, may hold what it ran last.
    deadline = time.monotonic() + 180
    while own & kept_in_spark(spark) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.1)
    assert not own & kept_in_spark(spark)


@pytest.mark.usefixtures("public_api")
def test_errors_by_the_public_api_have_their_cause(spark: SparkSession, tmp_path: Path) -> None:
    writer = written(tmp_path)
    (log,) = writer.folder.glob("p/.*.log.*")
    log.write_bytes(b"\0" + log.read_bytes()[1:])
    with pytest.raises(PySparkException) as caught:
        read(spark, str(writer.folder))
    assert isinstance(cause_of(caught.value), CorruptLogFileError)


@pytest.mark.usefixtures("public_api")
def test_deletes_alone_by_the_public_api(spark: SparkSession, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    writer.base_file(at(1), [{"id": key, "ts": 1, "value": "x"} for key in "abc"])
    writer.commit(at(1))
    writer.log_file(at(2), [writer.delete_block(at(2), [("b", 2)])])
    writer.commit(at(2))
    assert values(read(spark, str(writer.folder))) == [("a", "x"), ("c", "x")]
    before = read(spark, str(writer.folder), options={"as.of.instant": at(1)})
    assert values(before) == [("a", "x"), ("b", "x"), ("c", "x")]


@pytest.mark.usefixtures("public_api")
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("VALUE = 'x'", {"value"}),
        ("`part` > 'a' AND id IS NULL", {"part", "id"}),
        ("size(array(id)) = 1", {"id"}),
        ("to_json(struct(*)) = ''", None),
        ("identifier('i' || 'd') = 'x'", None),
        ("value = '\u00e9'", None),
    ],
)
def test_columns_that_a_condition_may_name(
    spark: SparkSession, tmp_path: Path, text: str, columns: set[str] | None
) -> None:
    schema = spark_schema(written(tmp_path).open().schema)
    parsed = parse_filter(spark, schema, text)
    assert set(parsed.columns) == (set(schema.names) if columns is None else columns)


COLUMNS = StructType(
    [
        StructField("id", StringType()),
        StructField("n", IntegerType()),
        StructField("a.b", LongType()),
        StructField("x", DoubleType()),
        StructField("Case", StringType()),
        StructField("case", StringType()),
    ]
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("id = 'x'", 1),
        (" ID=='é' AND n>=5 and n<\n-3 ", 3),
        ("`a.b` <> 3 AND `id` != ''", 2),
        ("id IN ('a','b') AND n in ( 1 , 2 )", 2),
        ("id is not null AND x IS NULL", 2),
        ("n > 1 AND n <= 9", 2),
    ],
)
def test_simple_conditions_mean_what_spark_says(spark: SparkSession, text: str, count: int) -> None:
    conditions = simple_conditions(COLUMNS, text)
    assert len(conditions) == count
    assert set(conditions) <= set(parse_filter(spark, COLUMNS, text).conditions)


@pytest.mark.parametrize(
    "text",
    [
        "id = 'x' OR n = 1",
        "id = 'x' AND n = 1 OR n = 2",
        "id = 'x' -- AND n = 1",
        "id = 'x' /* AND */ AND n = 1",
        "id = 'x' 'y'",
        "id = 'it''s'",
        "id = 'a\\\\b'",
        "id = '${x}'",
        'id = "x"',
        "id = 5",
        "n = '5'",
        "n = 5L",
        "n = 5.0",
        "n <=> 5",
        "n BETWEEN 1 AND 2",
        "x > 1",
        "NOT n = 1",
        "(n = 1)",
        "n = 1 AND lower(id) = 'x'",
        "lower(id) = 'x' AND n = 1",
        "`case` = 'x'",
        "n IN (1, NULL)",
        "n + 1 = 2",
        "n = n",
        "true",
    ],
)
def test_conditions_that_only_spark_understands(spark: SparkSession, text: str) -> None:
    assert simple_conditions(COLUMNS, text) == ()
    if "`case`" not in text:
        parse_filter(spark, COLUMNS, text)
