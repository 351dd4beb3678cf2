"""DuckDB's community extension ``hudi``, which is built on hudi-rs.

``HUDI_DUCKDB_EXTENSION`` names a file of it; otherwise DuckDB fetches it from its own repository of extensions.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from tests.support.golden_cases import GoldenQuery


@cache
def connection() -> duckdb.DuckDBPyConnection:
    connected = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    path = os.environ.get("HUDI_DUCKDB_EXTENSION")
    connected.execute(f"LOAD '{path}'" if path else "INSTALL hudi FROM community")
    connected.execute("SELECT 1" if path else "LOAD hudi")
    return connected


def version() -> str:
    (row,) = (
        connection()
        .execute("SELECT extension_version FROM duckdb_extensions() WHERE extension_name = 'hudi'")
        .fetchall()
    )
    return str(row[0])


# Where the extension cannot be had, this module fails to be imported, and the suite says why.
READER = f"DuckDB {duckdb.__version__}, hudi {version()}"


def read(table: str, kind: str, options: Mapping[str, Any]) -> pa.Table:
    if kind in ("cdc", "read_optimized"):
        raise NotImplementedError("no such query")
    query = GoldenQuery.of(Path(table), kind, options)
    arguments: dict[str, str] = {}
    if query.as_of is not None:
        arguments["as_of"] = query.as_of
    if kind == "incremental":
        arguments["start"] = query.after
        if query.up_to is not None:
            arguments['"end"'] = query.up_to
    named = "".join(f", {name} => '{value}'" for name, value in arguments.items())
    relation = connection().sql(f"FROM read_hudi('{table}'{named}) WHERE {query.where_in_duckdb}")
    rows: pa.Table = relation.to_arrow_table()
    return rows
