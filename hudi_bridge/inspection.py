"""The metadata of a table as Arrow tables: timeline, file slices, files, splits and columns.

Times are instants, paths are relative to the table, sizes are in bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from hudi_bridge.config import QueryType
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike


def _schema(**types: Any) -> pa.Schema:  # noqa: ANN401 - pyarrow has no common class in its stubs
    return pa.schema(types)


TIMELINE_SCHEMA = _schema(
    requested_time=pa.string(),
    action=pa.string(),
    state=pa.string(),
    completion_time=pa.string(),
)
FILE_SLICES_SCHEMA = _schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_instant_time=pa.string(),
    base_size_bytes=pa.int64(),
    log_files=pa.int64(),
    log_size_bytes=pa.int64(),
)
FILES_SCHEMA = _schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    kind=pa.string(),
    instant_time=pa.string(),
    size_bytes=pa.int64(),
    path=pa.string(),
)
SPLITS_SCHEMA = _schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_path=pa.string(),
    log_paths=pa.list_(pa.string()),
    base_size_bytes=pa.int64(),
    log_size_bytes=pa.int64(),
)
COLUMNS_SCHEMA = _schema(name=pa.string(), type=pa.string(), nullable=pa.bool_())
TABLE_SCHEMA = _schema(
    name=pa.string(),
    path=pa.string(),
    table_type=pa.string(),
    table_version=pa.int32(),
    merge_mode=pa.string(),
    payload_class=pa.string(),
    record_key_fields=pa.list_(pa.string()),
    ordering_fields=pa.list_(pa.string()),
    partition_fields=pa.list_(pa.string()),
    columns=pa.int64(),
    latest_instant=pa.string(),
    file_slices=pa.int64(),
    base_files=pa.int64(),
    base_size_bytes=pa.int64(),
    log_files=pa.int64(),
    log_size_bytes=pa.int64(),
)


def inspect_timeline(table: HudiTable) -> pa.Table:
    """One row per instant of the active timeline, oldest first; ``completion_time`` is null if Hudi records none."""
    return _table(
        TIMELINE_SCHEMA,
        (
            {
                "requested_time": instant.requested_time,
                "action": str(instant.action),
                "state": instant.state.name.lower(),
                "completion_time": instant.completion_time,
            }
            for instant in table.timeline.instants
        ),
    )


def inspect_file_slices(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per file slice of a snapshot, by partition and file id; ``as_of`` as for ``HudiTable.snapshot``.

    ``base_size_bytes`` is null without a base file.
    """
    return _table(
        FILE_SLICES_SCHEMA,
        (
            {
                "partition_path": piece.partition_path,
                "file_id": piece.file_id,
                "base_instant_time": piece.base_instant_time,
                "base_size_bytes": piece.base_file.size_bytes if piece.base_file else None,
                "log_files": len(piece.log_files),
                "log_size_bytes": piece.log_size_bytes,
            }
            for piece in table.file_slices(as_of)
        ),
    )


def inspect_files(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per file that a snapshot reads: base files, and log files in merge order."""
    return _table(FILES_SCHEMA, _iter_files(table, as_of))


def inspect_splits(
    table: HudiTable, as_of: InstantLike | None = None, query_type: QueryType = QueryType.SNAPSHOT
) -> pa.Table:
    """One row per split of a query; ``as_of`` as for ``HudiTable.snapshot``."""
    return splits_to_table(table.splits(as_of, query_type))


def splits_to_table(splits: Iterable[RealtimeFileSplit]) -> pa.Table:
    """One row per split."""
    return _table(
        SPLITS_SCHEMA,
        (
            {
                "partition_path": split.partition_path,
                "file_id": split.file_id,
                "base_path": split.base_path,
                "log_paths": list(split.log_paths),
                "base_size_bytes": split.base_size_bytes,
                "log_size_bytes": split.log_size_bytes,
            }
            for split in splits
        ),
    )


def inspect_columns(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per column, in the table's order, with its Arrow type."""
    return _table(
        COLUMNS_SCHEMA,
        (
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in table.read_context(as_of).schema
        ),
    )


def inspect_table(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row that describes the table; ``latest_instant`` is null before the first commit."""
    return _table(TABLE_SCHEMA, [table_facts(table, as_of)])


def table_facts(table: HudiTable, as_of: InstantLike | None = None) -> Mapping[str, Any]:
    """The row of ``inspect_table`` by column."""
    config = table.config
    slices = table.file_slices(as_of)
    return {
        "name": config.name,
        "path": table.path,
        "table_type": str(config.table_type),
        "table_version": config.table_version,
        "merge_mode": str(infer_merge_mode(config)),
        "payload_class": config.payload_class,
        "record_key_fields": list(config.record_key_fields),
        "ordering_fields": list(config.ordering_fields),
        "partition_fields": list(config.partition_fields),
        "columns": len(table.read_context(as_of).schema),
        "latest_instant": table.latest_instant,
        "file_slices": len(slices),
        "base_files": sum(piece.base_file is not None for piece in slices),
        "base_size_bytes": sum(piece.base_size_bytes for piece in slices),
        "log_files": sum(len(piece.log_files) for piece in slices),
        "log_size_bytes": sum(piece.log_size_bytes for piece in slices),
    }


def _iter_files(table: HudiTable, as_of: InstantLike | None) -> Iterable[Mapping[str, Any]]:
    for piece in table.file_slices(as_of):
        files = [("log", log.name.instant_time, log.size_bytes, log.path) for log in piece.log_files]
        if piece.base_file is not None:
            base = piece.base_file
            files.insert(0, ("base", base.instant_time, base.size_bytes, base.path))
        for kind, instant_time, size_bytes, path in files:
            yield {
                "partition_path": piece.partition_path,
                "file_id": piece.file_id,
                "kind": kind,
                "instant_time": instant_time,
                "size_bytes": size_bytes,
                "path": path,
            }


def _table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
