"""Hudi's table-valued functions as macros of DuckDB over attached tables, with ``attach(…, sql_functions=True)``.

    hudi_query_timeline(name [, include_archived])     the instants, with what commits have written
    hudi_filesystem_view(name [, sub_path])            the file slices in the folders that a pattern names
    hudi_metadata(name)                                the records of the metadata table

A macro is SQL over views of the attached table ``name``, so these have columns and values of Hudi, but show no table
that is not attached. The pattern is one of DuckDB's GLOB. ``hudi_table_changes`` plans its range in Python, which no
macro can call: attach the table with ``after``.
"""

from collections.abc import Callable, Mapping

import duckdb
import pyarrow as pa

from hudi_bridge.inspection import (
    FILESYSTEM_VIEW_SCHEMA,
    METADATA_RECORDS_SCHEMA,
    QUERY_TIMELINE_SCHEMA,
    filesystem_view,
    metadata_records,
    query_timeline,
)
from hudi_bridge.table import HudiTable

_ACTIVE, _ALL = "_hudi_query_timeline", "_hudi_query_timeline_all"
_SLICES, _RECORDS = "_hudi_filesystem_view", "_hudi_metadata"


SHOWN: Mapping[str, tuple[pa.Schema, Callable[[HudiTable, object], pa.Table]]] = {
    _ACTIVE: (QUERY_TIMELINE_SCHEMA, lambda table, _: query_timeline(table)),
    _ALL: (QUERY_TIMELINE_SCHEMA, lambda table, _: query_timeline(table, include_archived=True)),
    _SLICES: (FILESYSTEM_VIEW_SCHEMA, lambda table, _: filesystem_view(table, None)),
    _RECORDS: (
        METADATA_RECORDS_SCHEMA,
        lambda table, _: pa.Table.from_batches(metadata_records(table), METADATA_RECORDS_SCHEMA),
    ),
}
"""The columns and the rows of the views that the macros read, by the suffix of their names. They ignore the filter."""

_TIMELINE_MACRO = (
    "hudi_query_timeline(name, include_archived := false) AS TABLE FROM query_table("
    f"name || if(include_archived::VARCHAR IN ('true', 'TRUE'), '{_ALL}', '{_ACTIVE}'))"
)
# With as many slashes in the path as in the pattern, no star stands for a slash. Nor does one stand for the table.
_SLICES_MACRO = (
    f"hudi_filesystem_view(name, sub_path := '') AS TABLE FROM query_table(name || '{_SLICES}') "
    "WHERE Partition_Path GLOB trim(sub_path, '/') "
    "AND len(string_split(Partition_Path, '/')) = len(string_split(trim(sub_path, '/'), '/')) "
    "AND (Partition_Path = '') = (trim(sub_path, '/') = '')"
)
_METADATA_MACRO = f"hudi_metadata(name) AS TABLE FROM query_table(name || '{_RECORDS}')"


def create_macros(connection: duckdb.DuckDBPyConnection, *, is_temporary: bool) -> None:
    """Creates the macros; replaces those with the same names."""
    for macro in (_TIMELINE_MACRO, _SLICES_MACRO, _METADATA_MACRO):
        connection.execute(f"CREATE OR REPLACE {'TEMP ' if is_temporary else ''}MACRO {macro}")
