"""Options through the entrances that need a session, and tables of version 10 through all of them."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import HudiTable, QueryError, UnsupportedTableError
from hudi_bridge.connectors.spark import attach_all, cause_of, read, register_functions
from hudi_bridge.connectors.spark.options import (
    AS_OF,
    BEGIN,
    END,
    INCREMENTAL_FORMAT,
    MAX_INSTANTS_PER_TRIGGER,
    START_OFFSET,
)
from hudi_bridge.options import QUERY_TYPE_KEY, VIEW_TYPE_KEY
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at
from tests.support.version_10 import UNRELEASED, Version10

pytestmark = pytest.mark.jvm


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    writer = TableWriter(folder=tmp_path_factory.mktemp("tables") / "trips").create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}])])
    log = writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "new"}])])
    writer.commit(at(2), wrote=[log])
    return writer.folder


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "new"),
        ({QUERY_TYPE_KEY.upper(): "read_optimized"}, "old"),
        ({VIEW_TYPE_KEY: "read_optimized"}, "new"),
    ],
)
def test_the_query_type_of_a_folder_is_that_of_names_that_say_none(
    spark: SparkSession, table: Path, options: Mapping[str, str], expected: str
) -> None:
    lake = attach_all(spark, table.parent, "typed_", options=options)
    names = ("typed_trips", "typed_trips_ro", f"typed_trips__at_{at(2)}", "typed_trips_incremental__after_earliest")
    try:
        actual = {name: lake.sql(f"SELECT value FROM `{name}`").collect()[0].value for name in names}
        assert actual == dict(zip(names, (expected, "old", expected, "new"), strict=True))
        assert lake.read("typed_trips").collect()[0].value == expected
    finally:
        lake.detach()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (AS_OF, at(1)),
        (BEGIN, "earliest"),
        (INCREMENTAL_FORMAT, "cdc"),
        (START_OFFSET, "latest"),
        (MAX_INSTANTS_PER_TRIGGER, "1"),
        (QUERY_TYPE_KEY, "incremental"),
        ("hoodie.datasource.merge.type", "skip_merge"),
        ("hoodie.metadata.enable", "maybe"),
    ],
)
def test_an_option_of_one_query_is_refused_for_many_tables(
    spark: SparkSession, table: Path, name: str, value: str
) -> None:
    with pytest.raises(QueryError, match=name):
        attach_all(spark, table.parent, "refused_", options={name: value})
    with pytest.raises(QueryError, match=name):
        register_functions(spark, {"trips": table}, options={name: value})


def test_functions_say_what_they_read(spark: SparkSession, table: Path) -> None:
    with pytest.raises(QueryError, match="found 'read_optimized', expected snapshot"):
        register_functions(spark, {"trips": table}, options={QUERY_TYPE_KEY: "read_optimized"})


def of_format(spark: SparkSession, path: Path, options: Mapping[str, str]) -> None:
    spark.read.format("hudi_bridge").options(**options).load(str(path)).collect()


def of_stream(spark: SparkSession, path: Path, options: Mapping[str, str]) -> None:
    frame = spark.readStream.format("hudi_bridge").options(**options).load(str(path))
    with TemporaryDirectory() as checkpoint:
        stream = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        stream.trigger(availableNow=True).start().awaitTermination()


@pytest.mark.parametrize(
    ("act", "options", "name"),
    [
        (of_format, {BEGIN: "000"}, BEGIN),
        (of_format, {START_OFFSET: "latest"}, START_OFFSET),
        (of_format, {MAX_INSTANTS_PER_TRIGGER: "1"}, MAX_INSTANTS_PER_TRIGGER),
        (of_stream, {AS_OF: at(1)}, AS_OF),
        (of_stream, {QUERY_TYPE_KEY: "incremental", BEGIN: at(1)}, BEGIN),
        (of_stream, {QUERY_TYPE_KEY: "incremental", END: at(1)}, END),
        (of_stream, {QUERY_TYPE_KEY: "read_optimized"}, QUERY_TYPE_KEY),
    ],
)
def test_an_option_of_the_other_kind_of_query_is_refused(
    spark: SparkSession,
    table: Path,
    act: Callable[[SparkSession, Path, Mapping[str, str]], None],
    options: Mapping[str, str],
    name: str,
) -> None:
    with pytest.raises(PySparkException) as caught:
        act(spark, table, options)
    cause = cause_of(caught.value)
    assert isinstance(cause, QueryError)
    assert name in str(cause)


def test_read_refuses_options_of_streams(spark: SparkSession, table: Path) -> None:
    with pytest.raises(QueryError, match=START_OFFSET):
        read(spark, table, options={START_OFFSET: "latest"})


CASES = [("a_story_v9_120", "hfile"), ("i_cdc_120", "parquet")]


@pytest.fixture(params=CASES, ids=[case for case, _ in CASES])
def version_10(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    case, file_format = request.param
    folder = tmp_path / "lake" / case
    shutil.copytree(golden_table(case), folder)
    changed = Version10(folder, file_format).change()
    assert changed.renamed
    assert isinstance(folder, Path)
    return folder


def test_a_table_of_version_10_is_refused_by_each_entrance(spark: SparkSession, version_10: Path) -> None:
    with pytest.raises(UnsupportedTableError, match=r"table version: found 10, .* hudi_bridge\.read\.unreleased"):
        read(spark, version_10)
    with pytest.raises(PySparkException) as caught:
        spark.read.format("hudi_bridge").load(str(version_10)).collect()
    assert isinstance(cause_of(caught.value), UnsupportedTableError)
    lake = attach_all(spark, version_10.parent, "ten_")
    assert [type(error) for error in lake.failed.values()] == [UnsupportedTableError]
    register_functions(spark, lake)
    for call in ("hudi_query_timeline('{}')", "hudi_table_changes('{}', 'latest_state', 'earliest')"):
        with pytest.raises(PySparkException) as caught:
            spark.sql(f"SELECT * FROM {call.format(version_10)}").collect()
        assert isinstance(cause_of(caught.value), UnsupportedTableError)


def test_a_table_of_version_10_has_the_same_rows_through_each_entrance(spark: SparkSession, version_10: Path) -> None:
    table = HudiTable.open(str(version_10), options=UNRELEASED)
    commits = table.timeline.commits()
    first = commits[0]
    assert first.completion_time is not None
    after = first.completion_time
    key = str(table.snapshot().to_table(["_hoodie_record_key"])["_hoodie_record_key"][0])
    of_key = pc.field("_hoodie_record_key") == key
    rows = {
        "snapshot": table.snapshot().to_table(),
        "of a key": table.snapshot().to_table(filter=of_key),
        "read optimized": table.read_optimized().to_table(),
        "time travel": table.snapshot(first.requested_time).to_table(),
        "range": table.incremental(after).to_table(),
    }
    of_range = {QUERY_TYPE_KEY: "incremental", BEGIN: after}
    queries: Mapping[str, Mapping[str, str]] = {
        "snapshot": {},
        "read optimized": {QUERY_TYPE_KEY: "read_optimized"},
        "time travel": {AS_OF: first.requested_time},
        "range": of_range,
    }
    wrong = {}
    for name, options in queries.items():
        given = {**UNRELEASED, **options}
        by_format = spark.read.format("hudi_bridge").options(**given).load(str(version_10))
        wrong[f"format: {name}"] = differences(rows[name], by_format.toArrow())
        wrong[f"read: {name}"] = differences(rows[name], read(spark, version_10, options=given).toArrow())
    condition = f"_hoodie_record_key = '{key}'"
    wrong["read: of a key"] = differences(
        rows["of a key"], read(spark, version_10, filter=condition, options=UNRELEASED).toArrow()
    )
    lake = attach_all(spark, version_10.parent, "ten_", options=UNRELEASED)
    name = f"ten_{version_10.name}"
    try:
        views = {
            "snapshot": name,
            "read optimized": f"{name}_ro",
            "time travel": f"{name}__at_{first.requested_time}",
            "range": f"{name}_incremental__after_{after}",
        }
        for query, view in views.items():
            wrong[f"view: {query}"] = differences(rows[query], lake.sql(f"SELECT * FROM `{view}`").toArrow())
        session = spark.newSession()
        register_functions(session, lake, options=UNRELEASED)
        changes = session.sql(f"SELECT * FROM hudi_table_changes('{name}', 'latest_state', '{after}')")
        wrong["function"] = differences(rows["range"], changes.toArrow())
        counts = {
            "timeline": session.sql(f"SELECT * FROM hudi_query_timeline('{name}')").count(),
            "slices": session.sql(f"SELECT * FROM hudi_filesystem_view('{name}', '*')").count(),
        }
        assert counts["timeline"] >= len(commits)
        assert counts["slices"] > 0
    finally:
        lake.detach()
    assert {query: difference for query, difference in wrong.items() if difference} == {}


def test_a_stream_of_version_10_delivers_all_commits(spark: SparkSession, version_10: Path, tmp_path: Path) -> None:
    seen: list[int] = []
    frame = spark.readStream.format("hudi_bridge").options(**UNRELEASED).load(str(version_10))
    query = (
        frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda rows, _: seen.append(rows.count()))
        .start()
    )
    query.awaitTermination()
    table = HudiTable.open(str(version_10), options=UNRELEASED)
    assert sum(seen) == table.incremental("earliest").count_rows()
