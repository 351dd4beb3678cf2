import random
import re
import shutil
from collections.abc import Iterator
from datetime import date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge import CorruptLogFileError, HudiTable, InstantNotReadableError, QueryError, TableNotFoundError
from hudi_bridge.connectors.duckdb import Attached, attach, attach_all, quote_identifier
from hudi_bridge.inspection import VIEWS
from tests.connectors.predicates import random_condition, terms_of
from tests.support.compare import differences
from tests.support.golden_cases import golden_history, golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

STORY = "a_story_v9_120"
CONDITIONS_PER_TABLE = 25


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture
def in_file(tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(tmp_path / "some.duckdb") as connection:
        yield connection


def count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    [(number,)] = connection.execute(f"SELECT count(*) FROM {quote_identifier(name)}").fetchall()
    return int(number)


def to_arrow(connection: duckdb.DuckDBPyConnection, query: str) -> pa.Table:
    return pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()


def test_views_show_what_hudi_returned(connection: duckdb.DuckDBPyConnection) -> None:
    attached = attach(connection, golden_table(STORY), "trips")
    answers = golden_table(STORY).parent / "expected"
    for name, answer in (("trips", "snapshot"), ("trips_ro", "read_optimized")):
        expected = to_arrow(connection, f"FROM read_parquet('{answers / answer}.parquet')")
        assert differences(expected, to_arrow(connection, f"FROM {name}")) == []
    assert attached.instant == "20261121133045879"


def test_facts_describe_the_files_of_the_snapshot(connection: duckdb.DuckDBPyConnection) -> None:
    table = golden_table(STORY)
    attach(connection, table, "trips")
    (written,) = connection.execute("SELECT sum(files_written) FROM trips_commits").fetchall()
    assert written[0] > 0
    timeline = connection.execute("SELECT action, state, completion_time FROM trips_timeline").fetchall()
    assert [row[0] for row in timeline] == ["commit"] + 4 * ["deltacommit"]
    assert {row[1] for row in timeline} == {"completed"}
    assert timeline[0][2] == "20261121133035774"
    files = connection.execute("SELECT path, size_bytes FROM trips_files").fetchall()
    assert {(path, (table / path).stat().st_size) for path, _ in files} == set(files)
    slices = connection.execute(
        "SELECT file_id, base_size_bytes, log_files, log_size_bytes FROM trips_file_slices ORDER BY file_id"
    ).fetchall()
    counted = connection.execute(
        "SELECT file_id, sum(size_bytes) FILTER (kind = 'base'), count(*) FILTER (kind = 'log'), "
        "coalesce(sum(size_bytes) FILTER (kind = 'log'), 0) FROM trips_files GROUP BY file_id ORDER BY file_id"
    ).fetchall()
    assert slices == counted
    assert len(slices) == 5


def test_all_that_is_known_of_a_table_are_views_when_asked_for(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(golden_table(STORY))
    attached = attach(connection, table, "trips", metadata_views=True)
    assert attached.names == ("trips", "trips_ro", *(f"trips{suffix}" for suffix in VIEWS))
    for suffix, view in VIEWS.items():
        expected = view.rows(table, None)
        shown = to_arrow(connection, f"FROM trips{suffix}")
        assert (shown.schema.names, shown.num_rows) == (expected.schema.names, expected.num_rows)
        assert shown.to_pylist() == expected.to_pylist() or suffix == "_log_records"
    query = "SELECT sum(rows) FROM trips_log_blocks WHERE counts AND kind LIKE 'rows%'"
    blocks = [row for row in VIEWS["_log_blocks"].rows(table, None).to_pylist() if row["rows"] and row["counts"]]
    assert connection.execute(query).fetchall() == [(sum(row["rows"] for row in blocks),)]
    attached.detach()
    assert connection.execute("SHOW TABLES").fetchall() == []


def test_a_range_of_commits_is_a_view(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(str(golden_table(STORY)))
    first, *_, last = table.timeline.commits()
    attached = attach(connection, table, "trips", after=first.completion_time)
    assert attached.names[-2:] == ("trips_incremental", "trips_changes")
    expected = table.incremental(first.completion_time or "")
    assert differences(expected.to_table(), to_arrow(connection, "FROM trips_incremental")) == []
    assert attached.next_after == last.completion_time
    some = attach(connection, table, "some", after="earliest", up_to=first.completion_time)
    assert count(connection, "some_incremental") == 60
    assert some.next_after == first.completion_time
    some.detach()
    with pytest.raises(duckdb.CatalogException):
        count(connection, "some_incremental")


def test_a_range_needs_a_begin(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(QueryError, match="up_to"):
        attach(connection, golden_table(STORY), "trips", up_to="20261121133045879")
    assert attach(connection, golden_table(STORY), "trips").next_after is None


def test_a_range_without_an_end_grows(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "t").create()
    for number in (1, 2):
        path = table.base_file(at(number), [{"id": f"k{number}", "ts": 1, "value": "v"}], file_id=f"f{number}-0")
        table.commit(at(number), wrote=[path])
        if number == 1:
            attached = attach(connection, tmp_path / "t", "trips", after="000")
    assert count(connection, "trips_incremental") == 1
    attached.refresh()
    assert count(connection, "trips_incremental") == 2


def test_changes_are_asked_with_sql(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(str(golden_table("i_cdc_120")))
    attach(connection, table, "trips", after="20261121142429993", up_to="20261121142439809")
    changes = table.changes("20261121142429993", "20261121142439809")
    assert differences(changes.to_table(), to_arrow(connection, "FROM trips_changes")) == []
    counts = connection.execute("SELECT op, count(*) FROM trips_changes GROUP BY op ORDER BY op").fetchall()
    assert counts == [("d", 5), ("i", 2), ("u", 8)]
    raised = "SELECT after.id FROM trips_changes WHERE op = 'u' AND after.price > before.price AND after.part = 'a'"
    expected = [
        row["after"]["id"]
        for row in changes.to_table().to_pylist()
        if row["op"] == "u" and row["after"]["part"] == "a"
        if (row["after"]["price"] or 0) > (row["before"]["price"] or 1e9)
    ]
    assert sorted(key for (key,) in connection.execute(raised).fetchall()) == sorted(expected)
    deleted = connection.execute("SELECT count(*) FROM trips_changes WHERE after IS NULL").fetchall()
    assert deleted == [(5,)]


def test_changes_that_cannot_be_told_leave_the_other_views_as_they_are(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    folder = golden_history("mor_v9_cleaned")
    attached = attach(connection, folder / "table", "trips", after="20261121192031748")
    assert count(connection, "trips_incremental") > 0
    with pytest.raises(duckdb.Error) as caught:
        count(connection, "trips_changes")
    assert isinstance(attached.cause_of(caught.value), InstantNotReadableError)


@pytest.mark.parametrize("name", one_in(5, ["trips", 'qu"ote', "a.b", "select", "ünï cødé", "Mixed"]))
def test_any_name_is_a_name(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    attached = attach(connection, golden_table(STORY), name)
    assert [count(connection, view) for view in attached.names] == [65, 69, 5, 5, 5, 15]
    attached.detach()
    with pytest.raises(duckdb.CatalogException):
        count(connection, name)


def test_cursors_see_the_views_of_a_database_in_memory(connection: duckdb.DuckDBPyConnection) -> None:
    attach(connection, golden_table(STORY), "trips")
    with connection.cursor() as cursor:
        assert count(cursor, "trips") == 65


def test_nothing_gets_into_a_database_file(in_file: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    attached = attach(in_file, golden_table(STORY), "trips")
    assert count(in_file, "trips") == 65
    with in_file.cursor() as cursor, pytest.raises(duckdb.CatalogException):
        count(cursor, "trips")
    attached.detach()
    with pytest.raises(duckdb.CatalogException):
        count(in_file, "trips")
    attach(in_file, golden_table(STORY), "trips")
    in_file.close()
    with duckdb.connect(tmp_path / "some.duckdb") as again:
        assert again.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


@pytest.mark.parametrize("kind", ["TABLE", "TEMP TABLE"])
def test_a_table_of_the_same_name_is_neither_replaced_nor_hidden(
    connection: duckdb.DuckDBPyConnection, in_file: duckdb.DuckDBPyConnection, kind: str
) -> None:
    for item in (connection, in_file):
        item.execute(f"CREATE {kind} Trips_Files AS SELECT 7 AS x")
        with pytest.raises(QueryError, match="Trips_Files"):
            attach(item, golden_table(STORY), "trips")
        assert item.execute("FROM trips_files").fetchall() == [(7,)]
        assert item.execute("SELECT count(*) FROM duckdb_views() WHERE view_name = 'trips'").fetchall() == [(0,)]


def test_attaching_again_replaces_the_views(connection: duckdb.DuckDBPyConnection) -> None:
    attach(connection, golden_table("i_empty_120"), "trips")
    assert count(connection, "trips") == 0
    attach(connection, golden_table(STORY), "trips")
    assert count(connection, "trips") == 65


def test_views_stay_at_their_instant_until_refresh(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = tmp_path / "table"
    shutil.copytree(golden_table(STORY), table)
    last = next((table / ".hoodie" / "timeline").glob("20261121133045879_*.deltacommit"))
    held_back = last.rename(tmp_path / last.name)
    attached = attach(connection, str(table), "trips")
    connection.execute("ATTACH ':memory:' AS elsewhere")
    connection.execute("USE elsewhere")
    assert attached.instant == "20261121133043567"
    before = connection.execute("SELECT count(*) FROM memory.trips").fetchall()
    held_back.rename(last)
    assert connection.execute("SELECT count(*) FROM memory.trips").fetchall() == before == [(60,)]
    attached.refresh()
    assert connection.execute("SELECT current_database()").fetchall() == [("elsewhere",)]
    assert connection.execute("SELECT count(*) FROM memory.trips").fetchall() == [(65,)]
    assert attached.instant == "20261121133045879"
    attached.detach()
    assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_time_travel_stays_where_it_is(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(str(golden_table(STORY)))
    attached = attach(connection, table, "trips", as_of="20261121133031439")
    attached.refresh()
    assert count(connection, "trips") == 60
    assert connection.execute("SELECT DISTINCT kind FROM trips_files").fetchall() == [("base",)]


def test_instants_may_be_datetimes(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(golden_table(STORY))
    first, second, *_ = table.timeline.commits()
    moments = [datetime.strptime(item.requested_time, "%Y%m%d%H%M%S%f") for item in (first, second)]  # noqa: DTZ007
    as_text = attach(connection, table, "texts", as_of=second.requested_time, after=first.requested_time)
    as_moments = attach(connection, table, "moments", as_of=moments[1], after=moments[0], up_to=date(2100, 1, 1))
    assert as_moments.instant == as_text.instant == second.requested_time
    for one, other in zip(as_text.names, as_moments.names, strict=True):
        assert differences(to_arrow(connection, f"FROM {one}"), to_arrow(connection, f"FROM {other}")) == []


def test_columns_and_conditions_reach_the_files(
    connection: duckdb.DuckDBPyConnection, columns_read: list[set[str]]
) -> None:
    table = HudiTable.open(str(golden_table("h_column_stats_120")))
    attach(connection, table, "trips")
    query = "SELECT sum(qty) FROM trips WHERE id = 'k00002' AND name LIKE 'base%'"
    plan = "\n".join(row[1] for row in connection.execute(f"EXPLAIN {query}").fetchall())
    assert "READ_PARQUET" in plan
    # Of base files, and of other rows.
    assert re.sub('[ "]', "", plan).count("id='k00002'") == 2
    assert "qty" in plan
    assert "price" not in plan
    assert connection.execute(query).fetchall() == [(1734786117,)]
    # Keys and ordering values of every file may meet the log; DuckDB reads the rest.
    assert set().union(*columns_read) <= {"_hoodie_record_key", "ts"}


@pytest.mark.parametrize(
    "case",
    one_in(
        4,
        [
            STORY,
            "f_types_120",
            "f_types_ntz_120",
            "f_case_names_120",
            "e_null_part_120",
            "e_ts_keygen_120",
            "g_sor_mixed_120",
            "h_stats_of_nan_120",
        ],
    ),
)
def test_pushed_down_conditions_mean_what_they_mean_to_duckdb(connection: duckdb.DuckDBPyConnection, case: str) -> None:
    table = HudiTable.open(str(golden_table(case)))
    attach(connection, table, "live")
    rows = table.snapshot().to_table()
    connection.register("rows", rows)
    connection.execute("CREATE TABLE copy AS FROM rows")
    terms, choice = terms_of(rows), random.Random(case)
    matched = set()
    for _ in range(CONDITIONS_PER_TABLE):
        condition = random_condition(terms, choice)
        actual, expected = (
            connection.execute(f"SELECT _hoodie_record_key FROM {name} WHERE {condition} ORDER BY ALL").fetchall()
            for name in ("live", "copy")
        )
        assert actual == expected, condition
        matched.add(len(expected))
    assert len(matched) > 3


def test_a_damaged_log_is_named_whatever_duckdb_wraps_it_in(
    connection: duckdb.DuckDBPyConnection, damaged_table: Path
) -> None:
    attached = attach(connection, damaged_table, "trips")
    with pytest.raises(duckdb.Error) as caught:
        connection.execute("SELECT count(*), max(name) FROM trips").fetchall()
    cause = attached.cause_of(caught.value)
    assert isinstance(cause, CorruptLogFileError)
    assert str(cause) in str(caught.value)
    assert cause.path.startswith(("a/.", "b/.", "c/."))
    with pytest.raises(duckdb.Error) as other:
        connection.execute("SELECT nope FROM trips")
    assert attached.cause_of(other.value) is None


def test_a_query_may_end_early(connection: duckdb.DuckDBPyConnection) -> None:
    attach(connection, golden_table("h_column_stats_120"), "trips")
    for _ in range(5):
        assert len(connection.execute("FROM trips LIMIT 1").fetchall()) == 1


def test_what_cannot_be_attached(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        attach(connection, tmp_path / "nowhere")
    with pytest.raises(QueryError, match="no columns"):
        attach(connection, golden_table("i_only_inflight_120"))
    with pytest.raises(QueryError, match="as_of"):
        attach(connection, golden_table(STORY), as_of="yesterday")
    assert connection.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_attached_is_what_attach_returns(connection: duckdb.DuckDBPyConnection) -> None:
    attached = attach(connection, golden_table(STORY))
    assert isinstance(attached, Attached)
    assert attached.names == (
        "trips",
        "trips_ro",
        "trips_timeline",
        "trips_commits",
        "trips_file_slices",
        "trips_files",
    )


OF_ROWS = ("trips", "trips_ro", "trips_incremental")
OF_HUDI = "SELECT count(*) FROM (DESCRIBE {}) WHERE column_name LIKE '%hoodie%' OR column_type LIKE '%hoodie%'"


def test_views_can_lack_hudis_own_columns(connection: duckdb.DuckDBPyConnection) -> None:
    table = HudiTable.open(golden_table("i_cdc_120"))
    attach(connection, table, "trips", after="earliest", meta_columns=False)
    attach(connection, table, "whole", after="earliest")
    for name in (*OF_ROWS, "trips_changes"):
        assert connection.sql(OF_HUDI.format(name)).fetchall() == [(0,)]
        assert connection.sql(OF_HUDI.format(name.replace("trips", "whole"))).fetchall() != [(0,)]
    names = ", ".join(name for name in table.schema.names if not name.startswith("_hoodie_"))
    for name in OF_ROWS:
        whole = name.replace("trips", "whole")
        assert connection.sql(f"FROM {name} EXCEPT ALL SELECT {names} FROM {whole}").fetchall() == []
        assert connection.sql(f"SELECT {names} FROM {whole} EXCEPT ALL FROM {name}").fetchall() == []
    counted = "SELECT op, before.id, after.id, count(*) FROM {} WHERE op <> 'd' GROUP BY ALL ORDER BY ALL"
    assert connection.sql(counted.format("trips_changes")).fetchall() == (
        connection.sql(counted.format("whole_changes")).fetchall()
    )
    total = "SELECT count(*) FROM {}"
    assert connection.sql(total.format("trips_changes")).fetchall() == (
        connection.sql(total.format("whole_changes")).fetchall()
    )
    by_field = "SELECT op FROM {} WHERE before.id IS NOT NULL AND after IS NULL"
    assert connection.sql(by_field.format("trips_changes")).fetchall() == (
        connection.sql(by_field.format("whole_changes")).fetchall()
    )


def test_a_database_of_tables_can_lack_hudis_own_columns(connection: duckdb.DuckDBPyConnection) -> None:
    lake = attach_all(connection, golden_table("i_cdc_120").parent, "lake", meta_columns=False)
    rows = lake.sql('FROM lake."table"')
    assert rows is not None
    assert not any(name.startswith("_hoodie_") for name in rows.columns)
