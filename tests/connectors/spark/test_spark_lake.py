"""All tables of a folder or a database as temporary views."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import HudiTable, InstantNotReadableError, QueryError, TableNotFoundError
from hudi_bridge.connectors.spark import Lake, attach_all, cause_of
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


def values(lake: Lake, name: str) -> list[str]:
    return sorted(row["value"] for row in lake.sql(f"SELECT value FROM {name}").collect())


def test_tables_in_folders_a_prefix_a_refresh_and_an_end(spark: SparkSession, tmp_path: Path) -> None:
    trips, _ = writer_of(tmp_path, "trips"), writer_of(tmp_path / "sales", "orders")
    lake = attach_all(spark, tmp_path, "lake_", after=str(int(at(1)) + 50))
    tables = ("lake_sales__orders", "lake_trips")
    assert lake.names == tuple(
        sorted(f"{name}{view}" for name in tables for view in ("", "_changes", "_incremental", "_ro"))
    )
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
    assert lake.names == ("fine", "fine_ro")
    assert values(lake, "fine") == ["fine"]
    with pytest.raises(type(lake.failed["broken"])):
        lake.sql("SELECT * FROM broken")
    assert lake.sql("SELECT 'broken' AS value FROM fine").first() == ("broken",)
    with pytest.raises(QueryError, match="fine"):
        lake.attach("nowhere")
    with pytest.raises(AnalysisException):
        lake.sql("SELECT * FROM nowhere")
    lake.detach()


def test_names_that_differ_in_case_alone_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("twins", "Twins", "other"):
        writer_of(tmp_path, name)
    lake = attach_all(spark, tmp_path)
    assert lake.names == ("other", "other_ro")
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
