"""Which routes to Trino or Presto fit a table, and what each would cost.

Nothing is written. The counts are those of a first publication, which reads the log files and the record keys of their
base files. File slices that SQL cannot read or merge would be published whole.

What Presto's own connectors for Hive and Hudi show of a table is as seen on Presto 0.287; both read with Hudi 0.14. A
table is registered in a Hive metastore, and the input formats of the table and of each partition decide whether log
files are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_bridge.config import TableType
from hudi_bridge.connectors.trino.blocks import Blocks
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.conditions import log_wins, why_not_in_plain_sql
from hudi_bridge.connectors.trino.functions import row_type
from hudi_bridge.connectors.trino.payload_columns import payload_text
from hudi_bridge.connectors.trino.slice_content import SliceContent, slice_content, unmerged_content
from hudi_bridge.connectors.trino.sql_types import (
    Dialect,
    Engine,
    check_column_names,
    shown_type,
    stored_type,
    types_within,
)
from hudi_bridge.connectors.trino.unmerged_view import check_mergeable
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.table import HudiTable

NEWEST_VERSION = 6
"""The newest table version that Hudi 0.14 knows."""
_FRESHNESS = "the newest commit"
_REALTIME = (
    "the snapshot where partitions have the input format HoodieParquetRealtimeInputFormat, else base files alone"
)
_BASE_FILES = "the snapshot, where the table and its partitions have the input format HoodieParquetInputFormat"
_ROUTES: Mapping[str, pa.DataType] = {
    "route": pa.string(),
    "command": pa.string(),
    "fits": pa.bool_(),
    "reason": pa.string(),
    "freshness": pa.string(),
    "log_files": pa.int64(),
    "log_size_bytes": pa.int64(),
    "log_records": pa.int64(),
    "contested_rows": pa.int64(),
    "function_seconds": pa.float64(),
    "whole_slices": pa.int64(),
    "whole_size_bytes": pa.int64(),
    "why_whole": pa.string(),
    "other_types": pa.list_(pa.string()),
}
ROUTES_SCHEMA = pa.schema(_ROUTES)
_SECONDS_PER_ROW = 0.0002
"""The time of a payload that gets all columns, for each contested row of 13, on one core, as measured on Trino 476."""
_SECONDS_PER_RECORD = 0.0004
"""The time of a log record of 13 columns that Trino decodes and merges by itself, in each query, measured likewise."""
_PUBLISHED = "the last publication"
_UNMERGED = "publish log-records --unmerged, then trino sql"
_ICEBERG_SERVICE: Mapping[str, Any] = {
    "route": "iceberg",
    "command": "serve iceberg",
    "fits": True,
    "reason": "rows are merged when a snapshot is built; Trino reads files and calls no function",
    "freshness": "the newest commit, on each load of the table",
    "other_types": [],
}
_SQL_COMMANDS: Mapping[Dialect, str] = {
    Dialect.TRINO: "publish log-records, then trino sql",
    Dialect.PRESTO: "publish log-records --for presto, then trino sql",
    Dialect.ANSI: "publish log-records, then trino sql --dialect ansi",
}


def connector_routes(table: HudiTable, splits: Sequence[RealtimeFileSplit]) -> list[Mapping[str, Any]]:
    """The routes of the two connectors, with whether they show the snapshot of the table and why."""
    refusal = _presto_refusal(table)
    shown = _REALTIME if table.config.table_type is TableType.MERGE_ON_READ else _BASE_FILES
    wrong = _wrong_order(splits)
    return [
        _route("hive", "hive-hadoop2", fits=refusal is None, reason=refusal or shown),
        _route("hudi", "hudi", fits=refusal is None and wrong is None, reason=refusal or wrong or shown),
    ]


def _route(name: str, connector: str, *, fits: bool, reason: str) -> Mapping[str, Any]:
    return {
        "route": f"{name} connector",
        "command": f"none: a catalog with connector.name={connector}",
        "fits": fits,
        "reason": reason,
        "freshness": _FRESHNESS,
        "other_types": [],
    }


def _presto_refusal(table: HudiTable) -> str | None:
    """Why queries fail; None if they do not."""
    version = table.config.table_version
    if version > NEWEST_VERSION:
        return f"an error: it reads table versions up to {NEWEST_VERSION}, this is version {version}"
    if table.config.table_type is not TableType.MERGE_ON_READ:
        return None
    if not table.config.populates_meta_fields:
        return "an error: it merges no log files of a table without meta columns"
    names = [field.name for field in table.schema if _has_dates(field.type)]
    if names:
        return f"an error where dates and timestamps of a merge-on-read table are read: {', '.join(names)}"
    return None


def _wrong_order(splits: Iterable[RealtimeFileSplit]) -> str | None:
    """Why the rows can be wrong in the Hudi connector, which does not sort log files (prestodb/presto#18583)."""
    several = sum(len(split.log_paths) > 1 for split in splits)
    if not several:
        return None
    return f"rows can be wrong: it merges log files newest first, and {several} file slices have several"


def _has_dates(kind: Any) -> bool:  # noqa: ANN401 - a type of Arrow
    return any(pa.types.is_date(inner) or pa.types.is_timestamp(inner) for inner in types_within(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    log_files: int
    log_size_bytes: int
    log_records: int
    contested: int
    merges_fields: bool
    whole: int
    whole_size_bytes: int
    why_whole: str | None


def explain_routes(table: HudiTable, *, dialect: Dialect = Dialect.TRINO) -> pa.Table:
    """One row for each route to the engine of a dialect; Presto's own connectors are among them.

    Raises:
        HudiReadError: the table cannot be read.
        QueryError: the table was opened with keys.
    """
    table.storage.require_no_keys("Trino and Presto")
    splits, context = table.splits(), table.read_context()
    context.require_no_completion_times("Trino and Presto")
    if not len(context.schema):
        raise UnsupportedTableError("table", "no columns: nothing has been committed yet", "a table with columns")
    columns = LogColumns.of(context, Engine.PRESTO if dialect is Dialect.PRESTO else Engine.TRINO)
    counts = _counts((split, slice_content(table.storage, split, columns)) for split in splits)
    routes = [_sql(dialect, context, columns, counts)]
    if dialect is Dialect.TRINO:
        routes = [_ICEBERG_SERVICE, *routes, _unmerged(table, splits, context, columns)]
    if dialect is Dialect.PRESTO:
        routes = [_published_iceberg(context), *routes, *connector_routes(table, splits)]
    of_logs = {
        "log_files": counts.log_files,
        "log_size_bytes": counts.log_size_bytes,
        "log_records": counts.log_records,
    }
    return pa.Table.from_pylist([{**of_logs, **route} for route in routes], schema=ROUTES_SCHEMA)


def _sql(dialect: Dialect, context: ReadContext, columns: LogColumns, counts: _Counts) -> Mapping[str, Any]:
    reason = why_not_in_plain_sql(context.merge_rule, merges_fields=counts.merges_fields)
    refusal = _refusal(dialect, context, columns, counts, reason)
    has_payload = context.merge_rule is not None and context.merge_rule.payload is not None
    calls_function = dialect is Dialect.TRINO and has_payload
    how = "SQL compares, no function is called"
    if calls_function:
        how = f"a function for {reason}"
    elif reason is not None and not has_payload:
        how = f"SQL compares and merges, no function is called: {reason}"
    return {
        "route": f"sql ({dialect})",
        "command": _SQL_COMMANDS[dialect],
        "fits": refusal is None,
        "reason": refusal or how,
        "freshness": _PUBLISHED,
        "contested_rows": counts.contested,
        "function_seconds": counts.contested * _SECONDS_PER_ROW if calls_function else 0.0,
        "whole_slices": counts.whole,
        "whole_size_bytes": counts.whole_size_bytes,
        "why_whole": counts.why_whole,
        "other_types": [] if refusal else _other_types(context, dialect),
    }


def _unmerged(
    table: HudiTable, splits: Sequence[RealtimeFileSplit], context: ReadContext, columns: LogColumns
) -> Mapping[str, Any]:
    """The route on which Trino decodes log blocks and merges them; to refuse it, the log files are read again."""
    refusal, decoded = None, 0
    try:
        check_column_names(columns.schema.names)
        check_mergeable(context)
        for split in splits:
            unmerged_content(table.storage, split, columns)
        blocks = Blocks.of(table.storage, context, columns, publication="", for_merging=True)
        decoded = sum(blocks.records_to_decode(splits))
    except UnsupportedTableError as error:
        refusal = str(error)
    return {
        "route": f"sql ({Dialect.TRINO}), log blocks",
        "command": _UNMERGED,
        "fits": refusal is None,
        "reason": refusal or "a function decodes all log records in each query, and SQL merges them",
        "freshness": _PUBLISHED,
        "function_seconds": None if refusal else decoded * _SECONDS_PER_RECORD,
        "other_types": [] if refusal else _other_types(context, Dialect.TRINO),
    }


def _published_iceberg(context: ReadContext) -> Mapping[str, Any]:
    return {
        "route": "iceberg",
        "command": "publish iceberg --for presto",
        "fits": True,
        "reason": "rows are merged when it is published; files that Presto would misread are written anew",
        "freshness": _PUBLISHED,
        "other_types": _other_types(context, Dialect.PRESTO),
    }


def _counts(slices: Iterable[tuple[RealtimeFileSplit, SliceContent]]) -> _Counts:
    every = list(slices)
    whole = [(split, content) for split, content in every if content.why_whole and split.base_path is not None]
    return _Counts(
        log_files=sum(len(split.log_paths) for split, _ in every),
        log_size_bytes=sum(split.log_size_bytes for split, _ in every),
        log_records=sum(content.records for _, content in every),
        contested=sum(content.contested for _, content in every),
        merges_fields=any(content.merges_fields for _, content in every),
        whole=len(whole),
        whole_size_bytes=sum(split.base_size_bytes + split.log_size_bytes for split, _ in whole),
        why_whole=whole[0][1].why_whole if whole else None,
    )


def _refusal(
    dialect: Dialect, context: ReadContext, columns: LogColumns, counts: _Counts, reason: str | None
) -> str | None:
    """Why a dialect cannot show the table; None if it can."""
    rule = context.merge_rule
    try:
        check_column_names(columns.schema.names)
        row_type(context.schema)
        for field in columns.schema:
            stored_type(field.type, dialect, field.name)
        if dialect is Dialect.TRINO and rule is not None and rule.payload is not None:
            payload_text(rule.payload)
        if rule is not None and reason is None:
            log_wins(rule, columns, dialect, ["" for _ in columns.ordering], ["" for _ in columns.ordering])
    except UnsupportedTableError as error:
        return str(error)
    if dialect is Dialect.ANSI and reason is not None:
        return f"no functions for {reason}"
    if dialect is Dialect.ANSI and counts.whole:
        return f"{counts.whole} file slices would be published whole"
    return None


def _other_types(context: ReadContext, dialect: Dialect) -> list[str]:
    """The columns that a view shows in another type than the table's."""
    reasons = []
    for field in context.schema:
        kind = field.type
        if pa.types.is_fixed_size_binary(kind):
            reasons.append(f"{field.name}: {kind} as varbinary")
        elif pa.types.is_time(kind) and dialect is not Dialect.TRINO:
            reasons.append(f"{field.name}: {kind} as bigint, in microseconds")
        elif pa.types.is_timestamp(kind) and dialect is Dialect.PRESTO and kind.unit == "us":
            reasons.append(f"{field.name}: {kind} as bigint, in microseconds since 1970")
        elif pa.types.is_timestamp(kind) and dialect is not Dialect.TRINO and kind.tz is not None:
            reasons.append(f"{field.name}: {kind} as timestamp, in UTC")
        elif (pa.types.is_time(kind) or pa.types.is_timestamp(kind)) and kind.unit == "ms":
            reasons.append(f"{field.name}: {kind} as {shown_type(kind, field.name)}")
    return reasons
