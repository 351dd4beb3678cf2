"""The golden tables through DuckDB against the answers of Hudi: some of each group, with ``--matrix`` all."""

from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from hudi_bridge.connectors.duckdb import INCREMENTAL, READ_OPTIMIZED, attach
from tests.support.compare import differences
from tests.support.deviations import ANSWERED, WITHOUT_COLUMNS
from tests.support.golden_cases import CHANGE_KINDS, GoldenQuery
from tests.support.golden_queries import QUERIES, Key, answer_of, dataset_of, open_table, parametrize_keys

CASES_PER_GROUP = 6


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    parametrize_keys(metafunc, ANSWERED - WITHOUT_COLUMNS, CASES_PER_GROUP)


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.engine("duckdb")
def test_duckdb_rows_are_those_of_hudi(key: Key, connection: duckdb.DuckDBPyConnection) -> None:
    query = QUERIES[key]
    assert differences(answer_of(query), rows_through_duckdb(connection, query)) == []


def rows_through_duckdb(connection: duckdb.DuckDBPyConnection, query: GoldenQuery) -> pa.Table:
    table, name = open_table(query.table), "hudi_rows"
    if query.kind in CHANGE_KINDS:
        name = "hudi_changes"
        connection.register(name, dataset_of(query))
    elif query.kind == "incremental":
        name = attach(connection, table, name, after=query.after, up_to=query.up_to).name + INCREMENTAL
    else:
        name = attach(connection, table, name, as_of=query.as_of).name
        name += READ_OPTIMIZED if query.kind == "read_optimized" else ""
    rows: pa.Table = connection.sql(f"SELECT * FROM {name} WHERE {query.where_in_duckdb}").to_arrow_table()
    return rows
