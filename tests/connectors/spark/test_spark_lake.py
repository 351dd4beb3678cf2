"""All tables of a folder or a database as temporary views."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import boto3
import pyarrow.compute as pc
import pytest
from moto import mock_aws
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import (
    HudiTable,
    InstantNotReadableError,
    QueryError,
    RecordPayload,
    TableNotFoundError,
    UnsupportedTableError,
)
from hudi_bridge.connectors.spark import Lake, attach_all, cause_of
from hudi_bridge.inspection import (
    VIEWS,
    inspect_commits,
    inspect_file_slices,
    inspect_files,
    inspect_log_records,
    inspect_timeline,
)
from tests.catalogs.glue_tables import glue_entry
from tests.catalogs.metastore import Metastore, of_trips, served
from tests.support.compare import differences
from tests.support.deviations import ANSWERED
from tests.support.golden_cases import GoldenQuery, golden_table, golden_trips
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at
from tests.timeline.timeline_files import clean

pytestmark = pytest.mark.jvm

GROUPS = ("a_story_v9_120", "i_cow_120")
"""Cases whose groups are read; each group is a folder with a table below the folder of each case."""
CASES = ("a_story_v6_0150", "a_story_v9_120", "i_cow_120")


def golden_of(cases: tuple[str, ...]) -> list[GoldenQuery]:
    """A query of each kind to each case, but changes."""
    keys = [key for key in sorted(ANSWERED) if key[0] in cases]
    of_kind = {(key[0], QUERIES[key].kind, QUERIES[key].as_of is None): QUERIES[key] for key in keys}
    return [query for query in of_kind.values() if query.kind in ("snapshot", "read_optimized", "incremental")]


def name_of(query: GoldenQuery) -> str:
    name = f"{query.case}__table"
    match query.kind:
        case "read_optimized":
            return f"{name}_ro"
        case "incremental":
            end = "" if query.up_to is None else f"__up_to_{query.up_to}"
            return f"{name}_incremental__after_{query.after}{end}"
        case _:
            return name if query.as_of is None else f"{name}__at_{query.as_of}"


@pytest.fixture(scope="module")
def lakes(spark: SparkSession) -> Iterator[dict[str, Lake]]:
    attached = {case[0]: attach_all(spark, golden_table(case).parents[1]) for case in GROUPS}
    yield attached
    for lake in attached.values():
        lake.detach()


@pytest.mark.parametrize("query", golden_of(CASES), ids=lambda query: query.name)
def test_a_name_has_the_rows_that_hudi_answers(lakes: dict[str, Lake], query: GoldenQuery) -> None:
    statement = f"SELECT * FROM `{name_of(query)}` WHERE {query.where_in_spark}"
    assert differences(answer_of(query), lakes[query.case[0]].sql(statement).toArrow()) == []


def test_every_table_has_its_views_and_any_statement_sees_them(lakes: dict[str, Lake], spark: SparkSession) -> None:
    lake = lakes["i"]
    assert "i_cow_120__table" in lake.tables()
    assert {f"{name}{suffix}" for name in lake.tables() for suffix in ("", "_ro")} <= {*lake.names, *lake.failed}
    rows = HudiTable.open(str(golden_table("i_cow_120"))).snapshot().count_rows()
    assert spark.sql("SELECT count(*) FROM I_COW_120__table").first() == (rows,)


def test_changes_are_those_of_the_table(lakes: dict[str, Lake]) -> None:
    table = HudiTable.open(str(golden_table("a_story_v9_120")))
    after = table.timeline.completed()[1].completion_time
    assert after is not None
    expected = table.changes(after).to_table()
    rows = lakes["a"].attach(f"a_story_v9_120__table_changes__after_{after}")
    assert differences(expected, rows.toArrow()) == []
    assert expected.num_rows > 0


def writer_of(folder: Path, name: str) -> TableWriter:
    writer = TableWriter(folder=folder / name, fields=KEY_AND_VALUE).create()
    path = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": name}])
    writer.commit(at(1), wrote=[path])
    return writer


def views_of(name: str) -> tuple[str, ...]:
    return tuple(
        sorted(
            f"{name}{suffix}" for suffix in ("", "_ro", *(suffix for suffix, view in VIEWS.items() if view.is_usual))
        )
    )


def values(lake: Lake, name: str) -> list[str]:
    return sorted(row["value"] for row in lake.sql(f"SELECT value FROM {name}").collect())


def test_tables_in_folders_a_prefix_a_refresh_and_an_end(spark: SparkSession, tmp_path: Path) -> None:
    trips, _ = writer_of(tmp_path, "trips"), writer_of(tmp_path / "sales", "orders")
    lake = attach_all(spark, tmp_path, "lake_", after=str(int(at(1)) + 50))
    tables = ("lake_sales__orders", "lake_trips")
    of_range = [f"{name}{view}" for name in tables for view in ("_changes", "_incremental")]
    assert lake.names == tuple(sorted([*of_range, *(view for name in tables for view in views_of(name))]))
    assert values(lake, "lake_sales__orders") == ["orders"]
    assert values(lake, "lake_trips__at_" + at(1)) == ["trips"]
    trips.commit(at(2), wrote=[trips.base_file(at(2), [{"id": "b", "ts": 2, "value": "new"}], file_id="f2-0")])
    writer_of(tmp_path, "later")
    assert values(lake, "lake_trips") == ["trips"]
    lake.refresh()
    assert values(lake, "lake_trips") == ["new", "trips"]
    assert values(lake, "lake_trips_incremental") == ["new"]
    assert values(lake, "lake_later") == ["later"]
    assert [row["value"] for row in lake.read("lake_trips", columns=["value"], filter="id = 'b'").collect()] == ["new"]
    assert f"lake_trips__at_{at(1)}" in lake.names
    lake.detach()
    with pytest.raises(AnalysisException):
        spark.table("lake_trips")


def test_a_query_is_planned_when_its_view_is_asked(spark: SparkSession, tmp_path: Path) -> None:
    writer = writer_of(tmp_path, "planned")
    lake = attach_all(spark, tmp_path)
    (file,) = writer.folder.glob("*.parquet")
    file.unlink()
    (writer.timeline_folder / f"{at(3)}_{at(4)}.clean").write_bytes(clean(at(2)))
    with pytest.raises(PySparkException) as caught:
        lake.sql("SELECT * FROM planned").collect()
    assert isinstance(cause_of(caught.value), InstantNotReadableError)
    lake.detach()


def test_a_table_that_cannot_be_opened_leaves_the_others_alone(spark: SparkSession, tmp_path: Path) -> None:
    writer_of(tmp_path, "fine")
    broken = writer_of(tmp_path, "broken")
    (broken.folder / ".hoodie" / "hoodie.properties").write_text("hoodie.table.version=99\n")
    lake = attach_all(spark, tmp_path)
    assert lake.names == views_of("fine")
    assert values(lake, "fine") == ["fine"]
    with pytest.raises(type(lake.failed["broken"])):
        lake.sql("SELECT * FROM broken")
    assert lake.sql("SELECT 'broken' AS value FROM fine").first() == ("broken",)
    with pytest.raises(QueryError, match="fine"):
        lake.attach("nowhere")
    with pytest.raises(AnalysisException):
        lake.sql("SELECT * FROM nowhere")
    lake.detach()


def test_metadata_of_a_table_has_views(lakes: dict[str, Lake], spark: SparkSession) -> None:
    name, table = "a_story_v9_120__table", HudiTable.open(str(golden_table("a_story_v9_120")))
    first = table.timeline.completed()[0].requested_time
    expected = {
        "_timeline": inspect_timeline(table),
        "_commits": inspect_commits(table),
        "_file_slices": inspect_file_slices(table),
        "_files": inspect_files(table),
        f"_files__at_{first}": inspect_files(table, first),
        f"_file_slices__at_{first}": inspect_file_slices(table, first),
        f"_log_records__at_{first}": inspect_log_records(table, as_of=first).read_all(),
        "_log_records": inspect_log_records(table).read_all(),
    }
    assert expected["_files"] != expected[f"_files__at_{first}"]
    for suffix, rows in expected.items():
        assert differences(rows, lakes["a"].sql(f"SELECT * FROM {name}{suffix}").toArrow()) == [], suffix
    # Without a statement of the lake, as those of other programs of the session.
    (bytes_of_base_files,) = spark.sql(f"SELECT sum(base_size_bytes) FROM {name}_file_slices").collect()[0]
    assert bytes_of_base_files == pc.sum(expected["_file_slices"]["base_size_bytes"]).as_py() > 0
    narrow = lakes["a"].read(f"{name}_files", columns=["kind"], filter="kind = 'log'").collect()
    assert [tuple(row) for row in narrow] == [("log",)] * expected["_files"]["kind"].to_pylist().count("log")
    with pytest.raises(QueryError, match="a_story_v9_120__table"):
        lakes["a"].attach(f"{name}_timeline__at_{first}")


def test_a_table_comes_before_a_view_of_its_name(spark: SparkSession, tmp_path: Path) -> None:
    writer_of(tmp_path, "trips"), writer_of(tmp_path, "trips_files")
    lake = attach_all(spark, tmp_path)
    assert values(lake, "trips_files") == ["trips_files"]
    assert lake.sql("SELECT kind FROM trips__files").first() == ("base",)
    lake.detach()


def test_files_that_were_removed_since_are_not_left_out_of_a_view(spark: SparkSession, tmp_path: Path) -> None:
    writer = writer_of(tmp_path, "cleaned")
    lake = attach_all(spark, tmp_path)
    (file,) = writer.folder.glob("*.parquet")
    file.unlink()
    (writer.timeline_folder / f"{at(3)}_{at(4)}.clean").write_bytes(clean(at(2)))
    for view in ("cleaned_files", "cleaned_file_slices"):
        with pytest.raises(PySparkException) as caught:
            lake.sql(f"SELECT * FROM {view}").collect()
        assert isinstance(cause_of(caught.value), InstantNotReadableError)
    assert lake.sql("SELECT action FROM cleaned_timeline").first() == ("deltacommit",)
    lake.detach()


def test_payloads_and_the_memory_for_logs_are_those_of_read(spark: SparkSession, tmp_path: Path) -> None:
    class Adding(RecordPayload):
        """Of no module, as in a notebook."""

        def combine_and_get_update_value(self, current: Mapping[str, Any], incoming: Mapping[str, Any]) -> Any:
            return {**incoming, "count": current["count"] + incoming["count"]}

    name = "com.acme.AddingPayload"
    options = {"hoodie.compaction.payload.class": name, "hoodie.record.merge.mode": "CUSTOM"}
    fields = (("id", "string"), ("ts", "long"), ("count", "long"))
    writer = TableWriter(folder=tmp_path / "counts", fields=fields, options=options).create()
    writer.base_file(at(1), [{"id": key, "ts": 1, "count": 1} for key in "ab"])
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "count": 10}])], base_instant=at(1))
    for number in (1, 2):
        writer.commit(at(number))
    lake = attach_all(spark, tmp_path, payloads={name: Adding()}, log_memory_bytes=100)
    expected = [("a", 11), ("b", 1)]
    assert [tuple(row) for row in lake.sql("SELECT id, count FROM counts ORDER BY id").collect()] == expected
    assert [tuple(row) for row in lake.read("counts", ["id", "count"]).orderBy("id").collect()] == expected
    lake.detach()
    without_payload = attach_all(spark, tmp_path)
    with pytest.raises(PySparkException) as caught:
        without_payload.sql("SELECT * FROM counts").collect()
    assert isinstance(cause_of(caught.value), UnsupportedTableError)
    without_payload.detach()
    with pytest.raises(QueryError, match="logMemoryBytes"):
        attach_all(spark, tmp_path, log_memory_bytes=0)


def test_names_that_differ_in_case_alone_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("twins", "Twins", "other"):
        writer_of(tmp_path, name)
    lake = attach_all(spark, tmp_path)
    assert lake.names == views_of("other")
    with pytest.raises(QueryError, match="only one table"):
        lake.sql("SELECT * FROM twins")
    lake.detach()


def test_a_table_of_the_session_is_not_hidden(spark: SparkSession, tmp_path: Path) -> None:
    writer_of(tmp_path, "mine")
    spark.sql("CREATE TABLE mine (id STRING) USING parquet")
    try:
        with pytest.raises(QueryError, match=r"hide the table default\.mine"):
            attach_all(spark, tmp_path)
        lake = attach_all(spark, tmp_path, "their_")
        assert values(lake, "their_mine") == ["mine"]
        lake.detach()
    finally:
        spark.sql("DROP TABLE mine")


def test_the_database_of_a_metastore(spark: SparkSession) -> None:
    trips = golden_trips() / "trips"
    with served(Metastore(databases={"sales": of_trips(trips), "empty": []})) as metastore:
        lake = attach_all(spark, f"{metastore.uri}/sales")
        assert {"trips", "trips_ro"} <= set(lake.names)
        whole = attach_all(spark, metastore.uri, "hive_")
        assert "hive_sales__trips" in whole.names
        with pytest.raises(TableNotFoundError, match="no database 'nowhere'"):
            attach_all(spark, f"{metastore.uri}/nowhere")
    table = HudiTable.open(str(trips))
    for name, expected in (("trips", table.snapshot()), ("trips_ro", table.read_optimized())):
        assert lake.sql(f"SELECT count(*) FROM {name}").first() == (expected.count_rows(),)
        assert whole.sql(f"SELECT count(*) FROM hive_sales__{name}").first() == (expected.count_rows(),)
    lake.detach()
    whole.detach()


def test_a_database_of_glue(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    trips = golden_trips() / "trips"
    with mock_aws():
        client = boto3.client("glue", region_name="eu-west-1")
        for database in ("sales", "empty"):
            client.create_database(DatabaseInput={"Name": database})
        for entry in (glue_entry("orders", trips, "false"), glue_entry("base", trips, "true")):
            client.create_table(DatabaseName="sales", TableInput=entry)
        client.create_table(DatabaseName="sales", TableInput=glue_entry("plain", trips, None))
        lake = attach_all(spark, "glue://eu-west-1/sales")
        whole = attach_all(spark, "glue://eu-west-1", "glue_")
        with pytest.raises(TableNotFoundError, match="no database 'nowhere'"):
            attach_all(spark, "glue://eu-west-1/nowhere")
    assert lake.tables() == ["base", "orders"]
    assert whole.tables() == ["glue_sales__base", "glue_sales__orders"]
    table = HudiTable.open(str(trips))
    for name, rows in (("orders", table.snapshot()), ("base", table.read_optimized())):
        assert lake.sql(f"SELECT count(*) FROM {name}").first() == (rows.count_rows(),)
        assert differences(rows.to_table(), whole.sql(f"SELECT * FROM glue_sales__{name}").toArrow()) == []
        assert differences(rows.to_table(), whole.read(f"glue_sales__{name}").toArrow()) == []
    lake.detach()
    whole.detach()


def test_what_is_refused_before_anything_is_made(spark: SparkSession, tmp_path: Path) -> None:
    writer_of(tmp_path, "trips")
    with pytest.raises(TableNotFoundError):
        attach_all(spark, tmp_path / "nowhere")
    with pytest.raises(QueryError, match="a folder of tables"):
        attach_all(spark, tmp_path / "trips")
    with pytest.raises(QueryError, match="an after as well"):
        attach_all(spark, tmp_path, up_to=at(1))
    with pytest.raises(QueryError, match="as_of"):
        attach_all(spark, tmp_path, options={"as_of": at(1)})
    shutil.rmtree(tmp_path / "trips")
    assert attach_all(spark, tmp_path).names == ()
