"""The view of the ANSI dialect in DuckDB: the same text but for functions, without a server."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge.connectors.trino.publication import Publication
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.sql_types import Dialect, Engine, identifier, literal
from hudi_bridge.connectors.trino.views import statements
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, nested_ordering_table

BASE_TABLE = "hive.hudi.read_optimized"


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS hive; CREATE SCHEMA hive.hudi; SET TimeZone = 'UTC'")
        yield connection


def rows_through_sql(connection: duckdb.DuckDBPyConnection, table: HudiTable, folder: Path) -> pa.Table:
    """The rows of the view, over the tables that an engine would have."""
    publication = publish_log_records(table, str(folder)).publication
    load_tables(connection, table, publication, folder)
    (create_view,) = ansi(publication)
    connection.execute(create_view)
    rows: pa.Table = connection.sql('SELECT * FROM "hive"."hudi"."v"').to_arrow_table()
    return rows


def ansi(publication: Publication) -> tuple[str, ...]:
    return statements(publication, catalog="hive", schema="hudi", view="v", dialect=Dialect.ANSI, base_table=BASE_TABLE)


def load_tables(
    connection: duckdb.DuckDBPyConnection, table: HudiTable, publication: Publication, folder: Path
) -> None:
    for part in ("log", "slices"):
        name = f'"hive"."hudi".{identifier(f"v__{part}_{publication.folder}")}'
        files = literal(f"{folder}/{publication.folder}/{part}/*.parquet")
        connection.execute(f"CREATE TABLE {name} AS FROM read_parquet({files})")
    read_optimized = table.read_optimized().to_table()
    connection.register("read_optimized", read_optimized)
    connection.execute(f"CREATE TABLE {BASE_TABLE} AS FROM read_optimized")


@pytest.mark.parametrize(
    "case",
    one_in(
        5,
        [
            "a_story_v5_0122",
            "a_story_v6_0150",
            "a_story_v8_102",
            "a_story_v9_120",
            "b_commit_time_120",
            "b_default_payload_0150",
            "b_default_payload_string_0150",
            "b_delete_marker_120",
            "b_event_time_120",
            "b_event_time_decimal_120",
            "b_event_time_string_120",
            "b_event_time_timestamp_120",
            "b_multi_ordering_120",
            "b_null_ordering_0150",
            "b_overwrite_latest_0150",
            "c_parquet_blocks_120",
            "c_rollback_120",
            "d_compacted_then_logs_120",
            "e_hive_style_120",
            "e_nonpart_120",
            "f_types_120",
            "h_record_index_120",
        ],
    ),
)
def test_the_view_has_the_rows_of_hudi(case: str, connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    actual = rows_through_sql(connection, HudiTable.open(str(golden_table(case))), tmp_path)
    assert differences(answer_of(QUERIES[case, 0]), actual) == []


@pytest.mark.parametrize("version", [6, 9])
def test_missing_values_order_as_in_hudi(version: int, connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = ordered_table(tmp_path / "table", version, [None, 0, -1, 1], "long")
    actual = rows_through_sql(connection, table, tmp_path / "own")
    assert differences(table.snapshot().to_table(), actual) == []


def ordered_table(folder: Path, version: int, values: list[float | None], kind: str) -> HudiTable:
    """A record for each pair of ordering values, one in the base file and one in the log."""
    writer = TableWriter(folder=folder, version=version, fields=(("id", "string"), ("ts", kind))).create()
    pairs = [(f"{value}/{other}", value, other) for value in values for other in values]
    writer.base_file(at(1), [{"id": key, "ts": one} for key, one, _ in pairs])
    block = writer.data_block(at(2), [{"id": key, "ts": other} for key, _, other in pairs])
    writer.log_file(at(2), [block], base_instant=at(1))
    writer.commit(at(1))
    writer.commit(at(2))
    return writer.open()


@pytest.mark.parametrize("version", [6, 9])
def test_fields_of_structs_order(version: int, connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    table = nested_ordering_table(tmp_path / "table", version).open()
    actual = rows_through_sql(connection, table, tmp_path / "own")
    assert differences(table.snapshot().to_table(), actual) == []


@pytest.mark.parametrize(
    ("case", "message"),
    [
        ("b_partial_update_payload_120", "merging of fields, identical defaults taken"),
        ("b_postgres_debezium_120", "unavailable"),
        ("b_mysql_debezium_0150", "a file number, a dot and a position"),
        ("g_widen_120", "published whole: i_f: cast int to float"),
        ("e_virtual_keys_120", "no meta columns"),
    ],
)
def test_what_plain_sql_cannot_say_is_refused_by_name(case: str, message: str, tmp_path: Path) -> None:
    publication = publish_log_records(HudiTable.open(str(golden_table(case))), str(tmp_path)).publication
    with pytest.raises(UnsupportedTableError, match=message):
        ansi(publication)


def test_partial_updates_are_refused_where_there_are_no_functions(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "v"}])
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2}], only=("id", "ts"))])
    writer.commit(at(1))
    writer.commit(at(2))
    publication = publish_log_records(writer.open(), tmp_path / "own").publication
    with pytest.raises(UnsupportedTableError, match="of partial updates in the logs"):
        ansi(publication)


def test_floats_are_not_compared_in_ansi_sql(tmp_path: Path) -> None:
    publication = publish_log_records(
        ordered_table(tmp_path / "table", 9, [1.0, 2.0], "double"), str(tmp_path / "own")
    ).publication
    with pytest.raises(UnsupportedTableError, match="floating-point"):
        ansi(publication)


def test_the_base_table_is_for_ansi_alone_and_needed_there(tmp_path: Path) -> None:
    publication = publish_log_records(HudiTable.open(str(golden_table("b_event_time_120"))), str(tmp_path)).publication
    for dialect, base_table in ((Dialect.ANSI, None), (Dialect.TRINO, "x")):
        with pytest.raises(QueryError, match="base table"):
            statements(publication, catalog="c", schema="s", view="v", dialect=dialect, base_table=base_table)


def test_a_view_for_presto_needs_the_slices(tmp_path: Path) -> None:
    table = HudiTable.open(str(golden_table("b_event_time_120")))
    publication = publish_log_records(table, tmp_path, engine=Engine.PRESTO).publication
    with pytest.raises(QueryError, match=f"found 0 slices, expected all {publication.slices}"):
        statements(publication, catalog="c", schema="s", view="v")


@pytest.mark.parametrize(
    ("engine", "dialect"),
    [(Engine.TRINO, Dialect.PRESTO), (Engine.PRESTO, Dialect.TRINO), (Engine.PRESTO, Dialect.ANSI)],
)
def test_a_dialect_is_that_of_the_engine_that_was_published_for(
    engine: Engine, dialect: Dialect, tmp_path: Path
) -> None:
    table = HudiTable.open(str(golden_table("b_event_time_120")))
    publication = publish_log_records(table, tmp_path, engine=engine).publication
    base_table = BASE_TABLE if dialect is Dialect.ANSI else None
    with pytest.raises(QueryError, match=f"found one for {engine}"):
        statements(publication, catalog="c", schema="s", view="v", dialect=dialect, base_table=base_table)
