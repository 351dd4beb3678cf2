"""Times one query of DuckDB in a process of its own; prints JSON: ``duckdb_view_reader WAY TABLE QUERY CACHE``.

WAY is how DuckDB gets the rows: see ``WAYS``. The first query counts from attaching the table to the last row. Then the
query is repeated.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from benchmarks.scenarios import QTY_VALUES, row_key
from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import attach

QUERIES = {
    "aggregate of four columns": "SELECT max(name), sum(price::DECIMAL(20, 2)), sum(qty), max(updated) FROM trips",
    "count(*)": "SELECT count(*) FROM trips",
    "one key, all columns": f"SELECT * FROM trips WHERE id = '{row_key(123_450)}'",
    "filter, 1 % of rows": f"SELECT count(*), sum(price::DECIMAL(20, 2)) FROM trips WHERE qty < {QTY_VALUES // 100}",
}
REPETITIONS = 15


def base_files(connection: duckdb.DuckDBPyConnection, table: str, _: str) -> None:
    """The base files alone, which is what DuckDB would read without a connector; the answer is stale."""
    paths = [str(path) for path in sorted(Path(table).rglob("*.parquet")) if ".hoodie" not in path.parts]
    connection.sql(f"FROM read_parquet({paths})").create_view("trips")


def dataset(connection: duckdb.DuckDBPyConnection, table: str, _: str) -> None:
    """All rows through the reader of hudi-bridge."""
    connection.register("trips", HudiTable.open(table).snapshot())


def view(connection: duckdb.DuckDBPyConnection, table: str, _: str) -> None:
    """The view of ``attach``: DuckDB scans base files itself."""
    attach(connection, table, "trips")


def view_with_cache(connection: duckdb.DuckDBPyConnection, table: str, cache: str) -> None:
    """The same view, with merges that an earlier process has left in a folder."""
    attach(connection, table, "trips", cache=cache)


WAYS: dict[str, Callable[[duckdb.DuckDBPyConnection, str, str], None]] = {
    "base files alone": base_files,
    "dataset": dataset,
    "view": view,
    "view, cache folder": view_with_cache,
}


def main(way: str, table: str, query: str, cache: str) -> None:
    """Times a query on a table."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    start = time.perf_counter()
    WAYS[way](connection, table, cache)
    seconds = []
    for _ in range(1 + REPETITIONS):
        answer = connection.sql(QUERIES[query]).to_arrow_table()
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    measured = {"first": seconds[0], "warm": sorted(seconds[1:])[REPETITIONS // 2], "peak_bytes": peak_bytes}
    print(json.dumps({**measured, "answer": str(answer.to_pylist())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
