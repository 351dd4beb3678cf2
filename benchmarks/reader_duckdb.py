"""The reads of base files alone by DuckDB, whose answer is stale."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from benchmarks import measurement
from benchmarks.base_files import NoBaseFilesError, is_base_file
from benchmarks.scenarios import Read

_BATCH_ROWS = 122_880


class UnreachableError(Exception):
    """Raised for a table in an object store: the client is an extension, which would have to be fetched."""


class DuckDbBaseFiles:
    """``read_parquet`` of DuckDB on the base files of a table."""

    def table(self, path: str, read: Read) -> pa.Table:
        """All rows, in memory."""
        rows: pa.Table = _rows(path, read).to_arrow_table()
        return rows

    def batches(self, path: str, read: Read) -> Iterator[pa.RecordBatch]:
        """The same rows, one batch after another."""
        return iter(_rows(path, read).to_arrow_reader(_BATCH_ROWS))


def _rows(path: str, read: Read) -> duckdb.DuckDBPyRelation:
    if "://" in path:
        raise UnreachableError("DuckDB needs its extension httpfs for a store")
    files = [str(file) for file in sorted(Path(path).rglob("*.parquet")) if is_base_file(str(file))]
    if not files:
        raise NoBaseFilesError
    columns = "*" if read.columns is None else ", ".join(f'"{name}"' for name in read.columns)
    where = "" if read.where is None else f" WHERE {read.where_sql}"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection.sql(f"SELECT {columns} FROM read_parquet({files}){where}")


if __name__ == "__main__":
    measurement.serve(DuckDbBaseFiles())
