"""DuckDB's iceberg extension as a client of the service; run by ``make duckdb`` in the environment that has it."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge import HudiTable
from tests.service.iceberg_service import running, service_options
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

EXTENSIONS = ("avro", "httpfs", "iceberg")
GOLDEN_TABLES = ("a_story_v9_120", "b_default_payload_0150", "h_stats_of_nan_120")


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name in EXTENSIONS:
            package = import_module(f"duckdb_extension_{name}")
            (file,) = Path(str(package.__file__)).parent.rglob("*.duckdb_extension")
            connection.execute(f"LOAD '{file}'")
        yield connection


def attach(connection: duckdb.DuckDBPyConnection, url: str) -> None:
    connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{url}', AUTHORIZATION_TYPE 'none')")


def values(connection: duckdb.DuckDBPyConnection, moment: str = "") -> list[tuple[str, ...]]:
    return connection.execute(f'SELECT id, value FROM lake."default".trips {moment} ORDER BY id').fetchall()


def at_time(millis: int) -> str:
    return f"AT (TIMESTAMP => TIMESTAMP '2026-01-01 00:00:00.{millis:03}')"


def add(table: TableWriter, number: int) -> None:
    block = table.data_block(at(number), [{"id": "a", "ts": number, "value": f"by {number}"}])
    table.commit(at(number), wrote=[table.log_file(at(number), [block], number=number)])


def test_time_travel_has_the_rows_of_the_instant_or_is_an_error(
    connection: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    table = TableWriter(folder=tmp_path / "lake" / "trips").create()
    rows = [{"id": "a", "ts": 1, "value": "old"}, {"id": "b", "ts": 1, "value": "old"}]
    table.commit(at(1), wrote=[table.base_file(at(1), rows)])
    (tmp_path / "scratch").mkdir()
    with running(service_options(tmp_path / "scratch", [tmp_path / "lake"])) as service:
        attach(connection, service.url)
        first = [("a", "old"), ("b", "old")]
        assert values(connection) == first
        add(table, 2)
        add(table, 3)
        connection.execute("DETACH lake")
        attach(connection, service.url)
        assert values(connection) == [("a", "by 3"), ("b", "old")]
        assert values(connection, at_time(150)) == first
        assert values(connection, f"AT (VERSION => {at(1)})") == first
        # What there was before the second commit is not the answer.
        for moment in (at_time(200), at_time(250), f"AT (VERSION => {at(2)})"):
            with pytest.raises(duckdb.Error, match=f"snapshot-{at(2)}-is-not-built-yet"):
                values(connection, moment)
        query = f'SELECT value FROM lake."default".trips__at_{at(2)} ORDER BY id'
        assert connection.execute(query).fetchall() == [("by 2",), ("old",)]
        assert values(connection, at_time(250)) == [("a", "by 2"), ("b", "old")]
        assert values(connection, at_time(50)) == []


def test_times_that_the_cleaner_has_passed_are_an_error(connection: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    folder = golden_table("d_cleaned_120")
    earliest = HudiTable.open(folder).earliest_readable_instant
    assert earliest is not None
    with running(service_options(tmp_path / "scratch", [], [f"trips={folder}"])) as service:
        attach(connection, service.url)
        query = "SELECT count(*) FROM lake.\"default\".trips AT (TIMESTAMP => TIMESTAMP '2020-01-01 00:00:00')"
        with pytest.raises(duckdb.Error, match="times-before-the-first-readable-instant"):
            connection.execute(query)


@pytest.mark.parametrize("case", GOLDEN_TABLES)
def test_golden_tables_have_the_rows_of_hudi(connection: duckdb.DuckDBPyConnection, tmp_path: Path, case: str) -> None:
    (tmp_path / "scratch").mkdir()
    folder = golden_table(case)
    with running(service_options(tmp_path / "scratch", [], [f"trips={folder}"])) as service:
        attach(connection, service.url)
        actual: pa.Table = connection.sql('FROM lake."default".trips').to_arrow_table()
        assert differences(HudiTable.open(folder).snapshot().to_table(), actual) == []
