"""Hudi's table-valued functions by name, compared with what Hudi on Spark 3.5 answers to them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType
from pyspark.sql.udtf import AnalyzeArgument
from pyspark.util import PythonEvalType

from hudi_bridge import DataFileGoneError, HudiReadError, HudiTable, QueryError, TableNotFoundError
from hudi_bridge.connectors.spark import attach_all, cause_of, functions, register_functions
from hudi_bridge.connectors.spark.functions import FunctionSettings
from tests.golden.sql_functions import AS_JSON
from tests.support.golden_cases import golden_table
from tests.support.sql_functions import Answer, answers, sorted_rows
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

pytestmark = pytest.mark.jvm

TABLES = (
    "a_story_v6_0150",
    "a_story_v9_120",
    "d_archived_120",
    "i_cdc_120",
    "i_cow_0150",
    "f_types_120",
    "f_types_ntz_120",
)
"""Tables whose answers are asked again; all others are compared as Arrow."""
COMMON = ("hudi_filesystem_view('{table}', '?')", "hudi_filesystem_view('{table}')", "hudi_query_timeline('{table}')")
"""Calls that only one of the tables is asked."""
CONNECT = "a_story_v9_120"


def asked(table: str) -> list[Answer]:
    return [
        answer
        for answer in answers()
        if answer.table == table and (answer.call not in COMMON or table == CONNECT) and answer.rows
    ]


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session of its own: another one would not see its functions."""
    session = spark.newSession()
    register_functions(session, {table: golden_table(table) for table in TABLES})
    return session


def rows_of(spark: SparkSession, call: str, table: Path) -> tuple[list[tuple[str, str]], list[Mapping[str, Any]]]:
    """The columns with their types, and the rows as JSON."""
    frame = spark.sql(f"SELECT * FROM {call.replace('{table}', str(table))}")
    rows = [json.loads(row["row"].replace(str(table), "{table}")) for row in frame.selectExpr(AS_JSON).collect()]
    return [(field.name, field.dataType.simpleString()) for field in frame.schema], sorted_rows(rows)


@pytest.mark.parametrize(
    "answer", [answer for table in TABLES for answer in asked(table)], ids=lambda answer: answer.name
)
def test_columns_and_rows_are_those_of_hudi(session: SparkSession, answer: Answer) -> None:
    columns, rows = rows_of(session, answer.call, golden_table(answer.table))
    assert columns == list(answer.columns)
    assert rows == sorted_rows(answer.rows)


def test_all_functions_are_asked() -> None:
    calls = {answer.function for table in TABLES for answer in asked(table)}
    assert calls == set(functions._FUNCTIONS)
    words = {word for table in TABLES for answer in asked(table) for word in answer.arguments}
    assert {"cdc", "latest_state"} <= words


def test_columns_and_rows_through_spark_connect(connect: SparkSession) -> None:
    register_functions(connect, {"Story": golden_table(CONNECT)})
    of_each = {answer.function: answer for answer in asked(CONNECT)}
    assert len(of_each) == len(functions._FUNCTIONS)
    for answer in of_each.values():
        assert rows_of(connect, answer.call, golden_table(CONNECT)) == (list(answer.columns), sorted_rows(answer.rows))
    assert connect.sql("SELECT * FROM hudi_query_timeline('story')").count() == 5
    with pytest.raises(PySparkException) as caught:
        connect.sql("SELECT * FROM hudi_metadata('nothing')").collect()
    assert isinstance(cause_of(caught.value), QueryError)


def test_a_table_is_found_by_name_and_its_arguments_by_name(session: SparkSession) -> None:
    call = "hudi_table_changes(`table` => '`A_Story_v9_120`', begin => 'earliest', format => 'latest_state')"
    after, up_to = (time for time in times(CONNECT)[1:3])
    assert session.sql(f"SELECT * FROM {call}").count() == 65
    in_range = session.sql(
        f"SELECT * FROM hudi_table_changes('{CONNECT}', 'latest_state', '{after}', end => '{up_to}')"
    )
    table = HudiTable.open(golden_table(CONNECT))
    assert in_range.count() == table.incremental(after, up_to).count_rows() > 0


def times(table: str) -> list[str]:
    return [str(instant.completion_time) for instant in HudiTable.open(golden_table(table)).timeline.commits()]


def write_files(folder: Path, count: int) -> list[Path]:
    """A table of so many base files, with a row each."""
    writer = TableWriter(folder=folder, fields=KEY_AND_VALUE).create()
    files = [
        writer.base_file(at(1), [{"id": f"k{number}", "ts": 1, "value": "v"}], file_id=f"f{number}-0")
        for number in range(count)
    ]
    writer.commit(at(1), wrote=files)
    return files


def test_tables_of_attach_all_have_their_names(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    write_files(tmp_path / "lake" / "trips", 1)
    lake = attach_all(session, tmp_path / "lake", "my_")
    register_functions(session, lake)
    assert session.sql("SELECT * FROM hudi_table_changes('my_trips', 'latest_state', 'earliest')").count() == 1
    assert lake.paths() == {"my_trips": str(tmp_path / "lake" / "trips")}
    lake.detach()


def test_parts_are_read_by_tasks_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    write_files(tmp_path / "trips", 5)
    register_functions(session, {"trips": tmp_path / "trips"}, options={"maxPartitionBytes": "1"})
    call = "hudi_table_changes('trips', 'latest_state', 'earliest'"
    parts = "TABLE(SELECT id AS part, 3 AS parts FROM range(0, 3, 1, 3))"
    rows = session.sql(f"SELECT *, spark_partition_id() AS task FROM {call}, parts => {parts})").collect()
    whole = session.sql(f"SELECT *, spark_partition_id() AS task FROM {call})").collect()
    assert {row["task"] for row in rows} == {0, 1, 2}
    assert {row["task"] for row in whole} == {0}
    assert sorted(tuple(row)[:-1] for row in rows) == sorted(tuple(row)[:-1] for row in whole)
    assert len(whole) == 5
    with pytest.raises(PySparkException) as caught:
        session.sql(f"SELECT * FROM {call}, parts => TABLE(SELECT 3 AS part, 3 AS parts))").collect()
    assert (
        str(cause_of(caught.value)) == "parts: found part 3 of 3, expected a number from 0 on, below that of the parts"
    )


def test_a_warning_beside_explain_says_that_a_large_range_is_one_task(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    write_files(tmp_path / "trips", 5)
    register_functions(session, {"trips": tmp_path / "trips"}, options={"maxPartitionBytes": "1"})
    call = "hudi_table_changes('trips', 'latest_state', 'earliest'"
    parts = "parts => TABLE(SELECT id AS part, 5 AS parts FROM range(0, 5, 1, 5))"

    def warnings() -> list[str]:
        rows = session.sql("SELECT level, msg FROM python_worker_logs()").collect()
        return [row["msg"] for row in rows if row["level"] == "WARNING"]

    session.sql(f"EXPLAIN SELECT * FROM {call}, {parts})")
    assert warnings() == []
    plan = session.sql(f"EXPLAIN SELECT * FROM {call})").collect()[0][0]
    assert "ArrowEvalPythonUDTF hudi_table_changes(trips, latest_state, earliest)" in plan
    assert warnings()
    assert all(f"for 5 tasks: {parts}" in warning for warning in warnings())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ("hudi_table_changes('{name}', 'cdc')", QueryError, "arguments: found missing a required argument: 'begin'"),
        ("hudi_table_changes('{name}', 'CDC', 'earliest')", QueryError, "format: found 'CDC', expected latest_state"),
        ("hudi_table_changes('{name}', 'cdc', NULL)", QueryError, "begin: found NULL"),
        ("hudi_table_changes('{name}', 'cdc', 'soon')", QueryError, "found 'soon'"),
        ("hudi_table_changes('{name}', 'cdc', 'earliest', parts => 3)", QueryError, "parts: found int"),
        ("hudi_table_changes('{name}', 'cdc', '0', parts => TABLE(SELECT 1 part))", QueryError, "parts: found struct"),
        ("hudi_query_timeline(concat('/', rand()))", QueryError, "table: found what is not a constant"),
        ("hudi_query_timeline('{name}', 'true', 1)", QueryError, "too many positional arguments"),
        ("hudi_filesystem_view('{name}', '[a')", QueryError, "brackets"),
        ("hudi_metadata('sales.trips')", QueryError, "which has a slash, or a name of a table: a_story"),
        ("hudi_metadata('/no/table')", TableNotFoundError, "/no/table"),
    ],
)  # fmt: skip
def test_what_is_refused(session: SparkSession, call: str, error: type[HudiReadError], message: str) -> None:
    with pytest.raises(PySparkException) as caught:
        session.sql(f"SELECT * FROM {call.replace('{name}', CONNECT)}").collect()
    cause = cause_of(caught.value)
    assert isinstance(cause, error)
    assert message in str(cause)


def test_functions_need_names_that_are_given(spark: SparkSession) -> None:
    session = spark.newSession()
    register_functions(session)
    with pytest.raises(AnalysisException, match="none are given to register_functions"):
        session.sql("SELECT * FROM hudi_metadata('trips')")
    with pytest.raises(QueryError, match="no_such_option"):
        register_functions(session, options={"no_such_option": "1"})


def test_options_hold_for_all_calls(spark: SparkSession) -> None:
    session = spark.newSession()
    register_functions(session, {"t": golden_table(CONNECT)}, options={"metaColumns": "false"})
    frame = session.sql("SELECT * FROM hudi_table_changes('t', 'latest_state', 'earliest')")
    assert frame.columns == ["id", "part", "ts", "name", "price", "qty"]


def test_a_file_that_is_gone_has_its_cause(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    [file] = write_files(tmp_path / "trips", 1)
    register_functions(session, {"trips": tmp_path / "trips"})
    frame = session.sql("SELECT * FROM hudi_table_changes('trips', 'latest_state', 'earliest')")
    file.unlink()
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert isinstance(cause_of(caught.value), DataFileGoneError)


def test_rows_come_one_batch_at_a_time(tmp_path: Path) -> None:
    """Before the second file is read, the rows of the first one are out: nothing holds all rows."""
    files = write_files(tmp_path / "trips", 2)
    settings = FunctionSettings(paths={}, options={"maxPartitionBytes": "1"}, payloads={}, parallelism=1)
    arguments = [str(tmp_path / "trips"), "latest_state", "earliest"]
    constants = [AnalyzeArgument(StringType(), text, isTable=False, isConstantExpression=True) for text in arguments]
    _, call = functions._analyze(functions._table_changes, settings, (tuple(constants), {}))
    rows = functions._run((call, []))
    first = next(rows)
    for file in files:
        file.unlink()
    assert first.num_rows == 1
    with pytest.raises(DataFileGoneError):
        list(rows)


def test_a_release_without_table_functions_of_arrow(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(PythonEvalType, "SQL_ARROW_UDTF")
    with pytest.raises(QueryError, match=r"PySpark 4\.1 or later; before it, read\(\)"):
        register_functions(spark)
