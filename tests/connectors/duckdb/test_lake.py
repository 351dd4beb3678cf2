import logging
import re
import shutil
from collections.abc import Iterator
from itertools import starmap
from pathlib import Path

import duckdb
import fsspec
import pyarrow as pa
import pytest

from hudi_bridge import CorruptLogFileError, HudiTable, QueryError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.connectors.duckdb import Lake, attach_all
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.engines import merged_slices
from hudi_bridge.inspection import VIEWS, log_files
from hudi_bridge.logformat.scan import ScanResult
from hudi_bridge.splits.file_slice import LogFile
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

STORY = "a_story_v9_120"
FIRST = "20261121133031439"
ROWS, FIRST_ROWS = 65, 60


def write_table(folder: Path, *keys: str, **options: str) -> TableWriter:
    """A table with one commit, of one row for each key."""
    writer = TableWriter(folder=folder, options=options).create()
    path = writer.base_file(at(1), [{"id": key, "ts": 1, "value": "v"} for key in keys])
    writer.commit(at(1), wrote=[path])
    return writer


def write_unreadable(folder: Path) -> None:
    """A table of a version that there is not."""
    write_table(folder, "a")
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(re.sub(r"(hoodie\.table\.version)=\d+", r"\1=99", properties.read_text()))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    shutil.copytree(golden_table(STORY), folder / "trips")
    write_table(folder / "sales" / "orders", "a", "b")
    write_table(folder / "a" / "b" / "c", "a")
    return folder


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.fixture
def lake(connection: duckdb.DuckDBPyConnection, root: Path) -> Lake:
    """One whose tables are opened when they are named."""
    return attach_all(connection, root, eager_tables=0)


def count(lake: Lake, name: str) -> int:
    relation = lake.sql(f"SELECT count(*) FROM {name}")
    assert relation is not None
    [(number,)] = relation.fetchall()
    return int(number)


def views(connection: duckdb.DuckDBPyConnection) -> list[str]:
    rows = connection.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal ORDER BY ALL").fetchall()
    return [name for (name,) in rows]


def test_all_tables_below_a_folder_are_listed_and_none_is_opened(lake: Lake) -> None:
    assert lake.tables() == ['"a.b".c', "sales.orders", "trips"]
    assert lake.instants == {}
    assert views(lake.connection) == []


def test_any_statement_of_the_connection_finds_the_tables_of_a_lake_of_few(
    connection: duckdb.DuckDBPyConnection, root: Path
) -> None:
    lake = attach_all(connection, root)
    assert lake.instants == {'"a.b".c': at(1), "sales.orders": at(1), "trips": "20261121133045879"}
    assert connection.sql("SELECT count(*) FROM lake.trips").fetchall() == [(ROWS,)]
    assert connection.execute("SELECT count(*) FROM lake.sales.orders WHERE id = ?", ["a"]).fetchall() == [(1,)]
    with connection.cursor() as cursor:
        cursor.execute("USE lake")
        assert cursor.execute('SELECT count(*) FROM trips, "a.b".c').fetchall() == [(ROWS,)]
    assert count(lake, f"lake.trips__at_{FIRST}") == FIRST_ROWS


@pytest.mark.parametrize(("eager_tables", "opened"), [(0, 0), (2, 0), (3, 3)])
def test_tables_of_a_lake_of_many_are_opened_when_they_are_named(
    connection: duckdb.DuckDBPyConnection, root: Path, eager_tables: int, opened: int
) -> None:
    lake = attach_all(connection, root, eager_tables=eager_tables)
    assert len(lake.instants) == opened
    assert count(lake, "lake.trips") == ROWS


def test_new_tables_of_a_lake_of_few_are_opened_by_refresh(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    lake = attach_all(connection, root, eager_tables=4)
    write_table(root / "sales" / "returns", "a")
    lake.refresh()
    assert connection.sql("SELECT id FROM lake.sales.returns").fetchall() == [("a",)]
    write_table(root / "sales" / "more", "a")
    lake.refresh()
    assert sorted(lake.instants) == ['"a.b".c', "sales.orders", "sales.returns", "trips"]
    assert count(lake, "lake.sales.more") == 1


def test_a_table_that_cannot_be_opened_with_the_lake_is_told_where_it_is_missed(
    connection: duckdb.DuckDBPyConnection, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_unreadable(root / "sales" / "counters")
    for name in ("Twin", "twin"):
        write_table(root / name, "a")
    lake = attach_all(connection, root)
    assert len(lake.instants) == 3
    assert "'sales.counters' cannot be opened: " in caplog.text
    with pytest.raises(duckdb.CatalogException) as caught:
        connection.sql("FROM lake.sales.counters")
    assert isinstance(lake.cause_of(caught.value), UnsupportedTableError)
    with pytest.raises(duckdb.CatalogException) as caught:
        connection.sql("FROM lake.twin")
    assert isinstance(lake.cause_of(caught.value), QueryError)
    with pytest.raises(UnsupportedTableError):
        lake.sql("FROM lake.sales.counters")


def test_tables_that_are_views_of_others_are_opened_with_the_lake(
    connection: duckdb.DuckDBPyConnection, root: Path
) -> None:
    write_table(root / "trips_files", "a", "b", "c")
    write_table(root / "trip", "a")
    lake = attach_all(connection, root)
    assert connection.sql("SELECT count(*) FROM lake.trips_files").fetchall() == [(3,)]
    lake.refresh()
    assert connection.sql("SELECT count(*) FROM lake.trips_files").fetchall() == [(3,)]
    assert connection.sql("SELECT count(*) FROM lake.trips_ro").fetchall() == [(69,)]


def test_tables_are_joined_whatever_duckdb_passes_on(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    """DuckDB 1.5 makes Bloom filters of such tables, which rows from Arrow do not take."""
    shutil.copytree(golden_table("i_cdc_120"), root / "few")
    connection.execute("SET disabled_optimizers = 'unnest_rewriter'")
    attach_all(connection, root)
    query = "SELECT count(*) FROM lake.trips JOIN lake.few USING (id)"
    assert connection.sql(query).fetchall() == [(22,)]
    assert "unnest_rewriter" in connection.sql("SELECT current_setting('disabled_optimizers')").fetchall()[0][0]


@pytest.mark.parametrize("name", one_in(3, ["select", "two words", 'qu"ote', "Mixed", "ünï", "a.b"]))
def test_names_are_listed_as_sql_has_them(lake: Lake, root: Path, name: str) -> None:
    write_table(root / name / name, "a")
    [listed] = set(lake.tables()) - {'"a.b".c', "sales.orders", "trips"}
    assert count(lake, f"lake.{listed}") == 1
    assert lake.attach(listed) == at(1)


def test_rows_are_those_of_the_table(lake: Lake, root: Path) -> None:
    relation = lake.sql("FROM lake.trips")
    assert relation is not None
    rows = pa.RecordBatchReader.from_stream(relation).read_all()
    assert differences(HudiTable.open(root / "trips").snapshot().to_table(), rows) == []


def test_a_statement_opens_the_tables_that_it_names(lake: Lake) -> None:
    assert count(lake, 'lake.sales.orders o JOIN lake."a.b".c USING (id)') == 1
    assert lake.instants == {"sales.orders": at(1), '"a.b".c': at(1)}
    assert count(lake, "lake.trips") == ROWS
    assert lake.instants["trips"] == "20261121133045879"


@pytest.mark.parametrize(
    ("statement", "answer"),
    one_in(
        3,
        starmap(
            pytest.param,
            [
                ("WITH few AS (FROM lake.sales.orders LIMIT 1) SELECT count(*) FROM few", [(1,)]),
                ("SELECT 1 WHERE EXISTS (FROM lake.sales.orders WHERE id = 'b')", [(1,)]),
                ("SELECT lake.sales.orders.id FROM lake.sales.orders ORDER BY ALL", [("a",), ("b",)]),
                ("PIVOT lake.sales.orders ON id USING count(*) GROUP BY value", [("v", 1, 1)]),
                ("SELECT column_name FROM (DESCRIBE lake.sales.orders) WHERE column_name = 'id'", [("id",)]),
                ("CREATE TABLE copied AS FROM lake.sales.orders; SELECT count(*) FROM copied", [(2,)]),
                ("CREATE VIEW seen AS FROM lake.sales.orders; SELECT count(*) FROM seen", [(2,)]),
                (
                    "CREATE TABLE ids (id VARCHAR); INSERT INTO ids SELECT id FROM lake.sales.orders; FROM ids",
                    [("a",), ("b",)],
                ),
                ("SELECT count(*) FROM LAKE.Sales.ORDERS", [(2,)]),
                ("SELECT count(*) FROM lake.sales.orders WHERE id = $1", [(1,)]),
            ],
        ),
    ),
)
def test_statements_of_all_kinds_find_their_tables(lake: Lake, statement: str, answer: list[tuple[object]]) -> None:
    relation = lake.sql(statement, params=["a"] if "$1" in statement else None)
    assert relation is not None
    assert relation.fetchall() == answer


def test_short_names_are_found_where_the_lake_is_used(lake: Lake) -> None:
    with pytest.raises(duckdb.CatalogException):
        lake.sql("FROM trips")
    assert lake.instants == {}
    lake.sql("USE lake")
    assert count(lake, "trips") == ROWS
    assert count(lake, "sales.orders") == 2
    assert count(lake, '"a.b".c') == 1
    lake.sql("USE lake.sales")
    assert count(lake, "orders") == 2
    lake.connection.execute("SET search_path = 'memory.main,lake.main'")
    assert count(lake, "trips") == ROWS


def test_a_schema_is_there_as_soon_as_it_is_named(lake: Lake) -> None:
    lake.sql("USE lake.sales")
    assert lake.instants == {}
    with pytest.raises(duckdb.CatalogException):
        lake.sql("USE lake.nothing")


@pytest.mark.parametrize(
    ("name", "rows"),
    one_in(
        5,
        starmap(
            pytest.param,
            [
                ("trips_ro", 69),
                ("trips__ro", 69),
                ('"trips$ro"', 69),
                ("trips_timeline", 5),
                ("trips_commits", 5),
                ("trips_file_slices", 5),
                ("trips_files", 15),
                (f"trips__at_{FIRST}", FIRST_ROWS),
                (f'"trips@{FIRST}"', FIRST_ROWS),
                ('"trips@2026-11-21 13:30:31.439"', FIRST_ROWS),
                (f"trips__ro__at_{FIRST}", FIRST_ROWS),
                (f"trips__at_{FIRST}_timeline", 5),
                (f'"trips@{FIRST}_files"', 3),
            ],
        ),
    ),
)
def test_names_tell_what_of_a_table_is_read(lake: Lake, name: str, rows: int) -> None:
    assert count(lake, f"lake.{name}") == rows
    # As often as it is asked, and with the other names beside it.
    assert count(lake, f"lake.{name}") == rows
    assert count(lake, "lake.trips") == ROWS


def rows_in(lake: Lake, statement: str) -> pa.Table:
    relation = lake.sql(statement)
    assert relation is not None
    rows: pa.Table = relation.to_arrow_table()
    return rows


@pytest.mark.parametrize("suffix", one_in(5, sorted(VIEWS)))
def test_views_of_metadata_are_made_when_they_are_named(lake: Lake, root: Path, suffix: str) -> None:
    view, table = VIEWS[suffix], HudiTable.open(str(root / "trips"))
    shown = rows_in(lake, f"SELECT * FROM lake.trips{suffix}")
    expected = view.rows(table, None)
    assert (shown.schema.names, shown.num_rows) == (expected.schema.names, expected.num_rows)
    if view.has_instants:
        earlier = rows_in(lake, f'FROM lake."trips@{FIRST}{suffix}"')
        assert earlier.num_rows == view.rows(table, FIRST).num_rows


def test_views_of_metadata_are_those_of_the_newest_instant_after_refresh(lake: Lake, root: Path) -> None:
    writer = write_table(root / "growing", "a")
    assert rows_in(lake, "FROM lake.growing_all_slices").num_rows == 1
    writer.commit(at(2), wrote=[writer.base_file(at(2), [{"id": "b", "ts": 1, "value": "v"}])])
    assert rows_in(lake, "FROM lake.growing_all_slices").num_rows == 1
    lake.refresh()
    # Any statement of the connection finds them then.
    assert lake.connection.execute("SELECT count(*) FROM lake.growing_all_slices").fetchall() == [(2,)]


def test_a_view_of_metadata_is_that_of_the_longest_name(lake: Lake, root: Path) -> None:
    write_table(root / "trips_commit", "a")
    assert rows_in(lake, "FROM lake.trips_commit_files").column("kind").to_pylist() == ["base"]
    assert rows_in(lake, "FROM lake.trips_service_files").num_rows == 0


def test_only_the_logs_of_the_file_groups_that_are_asked_for_are_read(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = rows_in(lake, "FROM lake.trips_log_records")
    groups = [str(file_id) for file_id in every.column("file_id").unique().to_pylist()]
    opened: list[str] = []
    scan = log_files._scan

    def noted(storage: Storage, log: LogFile) -> ScanResult:
        opened.append(log.path)
        return scan(storage, log)

    monkeypatch.setattr(log_files, "_scan", noted)
    some = rows_in(lake, f"FROM lake.trips_log_records WHERE file_id IN ('{groups[0]}', 'nowhere')")
    assert some.num_rows == every.column("file_id").to_pylist().count(groups[0]) > 0
    assert opened
    assert all(groups[0] in path for path in opened)


def test_all_tables_may_be_shown_as_of_an_instant(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    lake = attach_all(connection, root, "past", as_of="2026-11-21 13:30:31.439")
    assert count(lake, "past.trips") == FIRST_ROWS
    assert count(lake, 'past."trips@20261121133045879"') == ROWS
    lake.refresh()
    assert count(lake, "past.trips") == FIRST_ROWS


def test_options_and_payloads_are_for_all_tables(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    with pytest.raises(QueryError, match="hoodie"):
        attach_all(connection, root, "wrong", options={"hoodie.nothing": "1"}).attach("trips")


def test_tables_whose_names_are_those_of_views_of_others(lake: Lake, root: Path) -> None:
    write_table(root / "trips_files", "a", "b", "c")
    write_table(root / "trips__ro", "a", "b", "c", "d")
    assert count(lake, "lake.trips_files") == 3
    assert count(lake, "lake.trips") == ROWS
    assert count(lake, "lake.trips_files") == 3
    assert count(lake, "lake.trips__ro") == 4
    lake.refresh()
    assert count(lake, "lake.trips_files") == 3
    assert count(lake, "lake.trips_ro") == 69


def test_names_that_differ_in_case_alone_are_refused(lake: Lake, root: Path) -> None:
    write_table(root / "Trips", "a")
    with pytest.raises(QueryError, match=r"default/Trips.*default/trips"):
        lake.attach("trips")
    with pytest.raises(QueryError, match=r"default/Trips.*default/trips"):
        lake.sql("FROM lake.Trips")
    assert count(lake, "lake.sales.orders") == 2


def test_namespaces_that_are_one_schema_to_duckdb(lake: Lake, root: Path) -> None:
    write_table(root / "a.b" / "c", "a")
    write_table(root / "A" / "b" / "d", "a")
    with pytest.raises(QueryError, match=r"a/b/c.*a\.b/c|a\.b/c.*a/b/c"):
        lake.attach('"a.b".c')
    assert count(lake, 'lake."a.b".d') == 1


def test_the_folders_main_and_default_are_the_main_schema(lake: Lake, root: Path) -> None:
    write_table(root / "main" / "one", "a")
    write_table(root / "default" / "two", "a", "b")
    write_table(root / "main" / "sales" / "three", "a")
    assert lake.tables() == ['"a.b".c', '"main.sales".three', "one", "sales.orders", "trips", "two"]
    assert count(lake, "lake.one") == 1
    assert count(lake, "lake.main.two") == 2
    assert count(lake, 'lake."main.sales".three') == 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("lake.tripz", "'tripz', expected a table such as trips"),
        ("lake.sales.order", "'order', expected a table such as sales.orders"),
        ("lake.a.b.c", """'a.b.c', expected a table such as "a.b".c"""),
        ("lake.nowhere.orders", "orders', expected a table of "),
        ('lake."no such"', "'no such', expected a table of "),
        ('lake."trips@nowhere"."x"', "expected a table of "),
    ],
)
def test_names_of_no_table_are_answered_with_names_like_them(lake: Lake, name: str, expected: str) -> None:
    with pytest.raises(QueryError) as caught:
        lake.sql(f"SELECT * FROM {name} JOIN lake.sales.orders USING (id)")
    assert expected in str(caught.value)


def test_a_table_that_is_not_there_cannot_be_attached(lake: Lake) -> None:
    with pytest.raises(QueryError, match=r"'lake\.sales\.order', expected a table such as sales\.orders"):
        lake.attach("lake.sales.order")
    assert lake.attach("lake.sales.orders") == at(1)
    assert lake.attach("a.b.c") == at(1)


@pytest.mark.parametrize("name", ["trips@2026-11-21", "two words", "", "a-b"])
def test_what_is_no_name_is_refused(lake: Lake, name: str) -> None:
    with pytest.raises(QueryError, match="name as in SQL"):
        lake.attach(name)


def test_errors_that_are_of_no_table_are_those_of_duckdb(lake: Lake) -> None:
    with pytest.raises(duckdb.BinderException, match="nope"):
        lake.sql("SELECT nope FROM lake.trips")
    with pytest.raises(duckdb.CatalogException, match="other"):
        lake.sql("SELECT id AS lake FROM other")
    with pytest.raises(duckdb.ParserException):
        lake.sql("SELECT FROM lake.trips")
    with pytest.raises(QueryError, match="yesterday"):
        lake.sql('FROM lake."trips@yesterday"')


def test_a_table_that_cannot_be_read_does_not_break_others(lake: Lake, root: Path) -> None:
    write_unreadable(root / "sales" / "counters")
    assert "sales.counters" in lake.tables()
    with pytest.raises(UnsupportedTableError):
        lake.sql("SELECT count(*) FROM lake.sales.counters JOIN lake.sales.orders USING (id)")
    with pytest.raises(UnsupportedTableError):
        lake.attach("sales.counters")
    assert count(lake, "lake.sales.orders") == 2
    lake.sql("USE lake.sales")
    assert lake.sql("SELECT count(*) AS counters FROM orders").fetchall() == [(2,)]  # type: ignore[union-attr]
    with pytest.raises(UnsupportedTableError):
        lake.sql("FROM counters")


def test_an_error_while_rows_are_read_has_its_cause(lake: Lake, root: Path, damaged_table: Path) -> None:
    shutil.copytree(damaged_table, root / "damaged")
    lake.attach_named_in("SELECT max(name) FROM lake.damaged, lake.sales.orders")
    with pytest.raises(duckdb.Error) as caught:
        lake.connection.execute("SELECT max(name) FROM lake.damaged").fetchall()
    assert isinstance(lake.cause_of(caught.value), CorruptLogFileError)
    with pytest.raises(duckdb.Error) as other:
        lake.connection.execute("SELECT nope FROM lake.sales.orders")
    assert lake.cause_of(other.value) is None


def test_new_tables_are_found_and_new_commits_after_refresh(lake: Lake, root: Path) -> None:
    assert count(lake, "lake.sales.orders") == 2
    pinned = f"lake.sales.orders__at_{at(1)}"
    assert count(lake, pinned) == 2
    write_table(root / "sales" / "returns", "a")
    assert count(lake, "lake.sales.returns") == 1
    writer = TableWriter(folder=root / "sales" / "orders")
    path = writer.base_file(at(2), [{"id": "c", "ts": 1, "value": "v"}], file_id="f2-0")
    writer.commit(at(2), wrote=[path])
    assert count(lake, "lake.sales.orders") == 2
    lake.refresh()
    assert count(lake, "lake.sales.orders") == 3
    assert count(lake, pinned) == 2
    assert lake.instants["sales.orders"] == at(2)


def test_a_table_that_is_gone_is_closed_by_refresh(lake: Lake, root: Path) -> None:
    assert count(lake, "lake.trips__ro") == 69
    assert count(lake, "lake.sales.orders") == 2
    shutil.rmtree(root / "trips")
    lake.refresh()
    assert list(lake.instants) == ["sales.orders"]
    assert [name for name in views(lake.connection) if name.startswith("trips")] == []
    with pytest.raises(QueryError, match="trips__ro"):
        lake.sql("FROM lake.trips__ro")


def test_nothing_gets_into_a_database_file(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.duckdb"
    with duckdb.connect(path) as connection:
        lake = attach_all(connection, root)
        lake.sql("CREATE TABLE copied AS FROM lake.trips")
        with connection.cursor() as cursor:
            assert cursor.execute("SELECT count(*) FROM lake.trips").fetchall() == [(ROWS,)]
    with duckdb.connect(path, read_only=True) as again:
        assert views(again) == []
        assert again.execute("SELECT count(*) FROM copied").fetchall() == [(ROWS,)]
        assert count(attach_all(again, root), "lake.trips") == ROWS


def test_a_name_of_a_database_is_not_taken_over(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    for name in ("memory", "Temp"):
        with pytest.raises(QueryError, match=f"name: found the database '{name.lower()}'"):
            attach_all(connection, root, name)
    lake = attach_all(connection, root, 'my "lake"')
    assert count(lake, '"my ""lake""".trips') == ROWS
    lake.detach()
    assert lake.instants == {}
    assert count(attach_all(connection, root, 'my "lake"'), '"my ""lake""".trips') == ROWS


def test_what_was_opened_after_a_transaction_began_is_explained(lake: Lake) -> None:
    lake.sql("USE lake")
    assert count(lake, "trips") == ROWS
    lake.sql("BEGIN")
    assert count(lake, "trips") == ROWS
    with pytest.raises(QueryError, match=r"one that began before sales\.orders was opened"):
        lake.sql("FROM sales.orders")
    lake.sql("ROLLBACK")
    assert count(lake, "sales.orders") == 2


def test_a_transaction_that_writes_may_read_tables(lake: Lake) -> None:
    lake.sql("BEGIN")
    lake.sql("CREATE TABLE copied AS FROM lake.sales.orders")
    lake.sql("INSERT INTO copied FROM lake.sales.orders")
    lake.sql("COMMIT")
    assert count(lake, "copied") == 4


def test_a_file_system_may_be_given(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    lake = attach_all(connection, str(root), filesystem=fsspec.filesystem("file"))
    assert count(lake, "lake.sales.orders") == 2


def test_tables_may_be_in_a_store(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    store = fsspec.filesystem("memory")
    store.put(str(root), "/lake", recursive=True)
    try:
        lake = attach_all(connection, "/lake", filesystem=store)
        assert lake.tables() == ['"a.b".c', "sales.orders", "trips"]
        assert count(lake, "lake.trips") == ROWS
        assert count(lake, "lake.sales.orders") == 2
        with pytest.raises(QueryError, match="such as trips"):
            lake.sql("FROM lake.tripz")
        given = connection.list_filesystems()
        lake.refresh()
        assert count(lake, "lake.trips") == ROWS
        assert len(connection.list_filesystems()) == len(given) == 2
        lake.detach()
        assert connection.list_filesystems() == []
    finally:
        store.rm("/lake", recursive=True)


def test_merges_of_all_tables_are_kept_together(
    connection: duckdb.DuckDBPyConnection, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(root / "trips", root / "more" / "trips")

    def newest(lake: Lake) -> list[tuple[int]]:
        query = f"SELECT max(ts) FROM {lake.name}.{{}}"
        relations = [lake.sql(query.format(table)) for table in ("trips", "more.trips")]
        return [row for relation in relations if relation is not None for row in relation.fetchall()]

    first = attach_all(connection, root, "first", cache=tmp_path / "kept")
    expected = newest(first)
    assert len(set(expected)) == 1
    assert any((tmp_path / "kept").iterdir())

    def refuse(*_: object, **__: object) -> object:
        raise AssertionError

    monkeypatch.setattr(merged_slices, "slice_delta_in", refuse)
    first.refresh()
    assert newest(first) == expected
    assert newest(attach_all(connection, root, "second", cache=tmp_path / "kept")) == expected


def test_what_cannot_be_attached(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    with pytest.raises(TableNotFoundError, match="no such folder"):
        attach_all(connection, root / "nowhere")
    with pytest.raises(QueryError, match="attach takes a table"):
        attach_all(connection, root / "trips")
    assert connection.execute("SELECT count(*) FROM duckdb_databases() WHERE NOT internal").fetchall() == [(1,)]


def test_links_out_of_the_folder_are_not_followed(lake: Lake, root: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "outside", "a")
    (root / "linked").symlink_to(tmp_path / "outside")
    assert "linked" not in lake.tables()
    with pytest.raises(QueryError):
        lake.attach("linked")


def test_folders_that_cannot_be_listed_are_logged(
    lake: Lake, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    list_directory = Storage.list_directory

    def refuse(storage: Storage, path: str) -> object:
        if storage.root.endswith("/sales"):
            raise PermissionError(13, "Permission denied")
        return list_directory(storage, path)

    monkeypatch.setattr(Storage, "list_directory", refuse)
    with caplog.at_level(logging.WARNING):
        assert lake.tables() == ['"a.b".c', "trips"]
    assert "'sales' cannot be listed: [Errno 13] Permission denied" in caplog.text


def test_how_tables_are_read_is_told_of_those_that_are_open(lake: Lake) -> None:
    assert lake.plan() == {}
    lake.attach("sales.orders")
    assert list(lake.plan()) == ["sales.orders", "sales.orders_ro"]
    assert lake.opened["sales.orders"].latest_instant == at(1)


def test_it_is_shown_in_notebooks(lake: Lake, root: Path) -> None:
    lake.attach("sales.orders")
    assert repr(lake) == f"<Lake 'lake': 1 tables of '{root}' open>"
    assert "sales.orders" in lake._repr_html_()


def test_folders_are_listed_once_however_links_lead_back(root: Path) -> None:
    for number in range(8):
        (root / f"back{number}").symlink_to(".")
    roots, failed = Roots.of([str(root)], []), list[str]()
    tables = list(roots.walk(lambda name, _: failed.append(name)))
    assert (sorted(tables), failed) == ([(("a", "b"), "c"), (("default",), "trips"), (("sales",), "orders")], [])
    assert roots.namespaces(()) == [("a",), ("default",), ("sales",)]


def test_a_timeline_of_another_table_is_not_shown(root: Path) -> None:
    (root / "borrowed").mkdir()
    (root / "borrowed" / ".hoodie").symlink_to(next(root.rglob(".hoodie")))
    assert Roots.of([str(root)], []).find(("default",), "borrowed") is None
