"""What commits have done as Arrow tables: of each commit, and of each file that one has written.

Times are instants, paths are relative to the table, sizes are in bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from hudi_bridge.errors import QueryError
from hudi_bridge.splits.file_names import parse_log_file_name
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.archived import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, seconds_between


def _schema(**types: Any) -> pa.Schema:  # noqa: ANN401 - pyarrow has no common class in its stubs
    return pa.schema(types)


COMMITS_SCHEMA = _schema(
    requested_time=pa.string(),
    action=pa.string(),
    state=pa.string(),
    completion_time=pa.string(),
    duration_seconds=pa.float64(),
    operation=pa.string(),
    rows_inserted=pa.int64(),
    rows_updated=pa.int64(),
    rows_deleted=pa.int64(),
    rows_written=pa.int64(),
    bytes_written=pa.int64(),
    files_written=pa.int64(),
    file_groups_replaced=pa.int64(),
    partitions=pa.list_(pa.string()),
    extra_metadata=pa.map_(pa.string(), pa.string()),
)
COMMIT_FILES_SCHEMA = _schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    kind=pa.string(),
    path=pa.string(),
    rows_inserted=pa.int64(),
    rows_updated=pa.int64(),
    rows_deleted=pa.int64(),
    rows_written=pa.int64(),
    bytes_written=pa.int64(),
)
_SCHEMAS = ("schema", "latest_schema")


def inspect_commits(table: HudiTable) -> pa.Table:
    """One row per instant of the active timeline, oldest first; what only completed commits have is otherwise null.

    ``duration_seconds`` is from the request to the completion, null where Hudi records none. Of an upsert into a base
    file, ``rows_written`` counts the rows that were copied, too. ``extra_metadata`` is the writer's, without schemas.

    Raises:
        CorruptTimelineError: the file of a commit is damaged.
    """
    return _table(COMMITS_SCHEMA, (_row(table, instant) for instant in table.timeline.instants))


def inspect_commit(table: HudiTable, instant: str) -> pa.Table:
    """The row of ``inspect_commits`` of one commit, also of an archived one; ``instant`` is its requested time.

    Raises:
        QueryError: there is no completed commit of that instant.
        CorruptTimelineError: its file, or one of the archive, is damaged.
    """
    found, metadata = _find(table, instant)
    return _table(COMMITS_SCHEMA, [_instant_row(found) | _commit_row(metadata)])


def inspect_commit_files(table: HudiTable, instant: str) -> pa.Table:
    """One row per file that a commit has written, also an archived one; raises like ``inspect_commit``.

    Files of change data have no numbers of rows.
    """
    _, metadata = _find(table, instant)
    return _table(COMMIT_FILES_SCHEMA, (row for stat in metadata.write_stats for row in _file_rows(stat)))


def _find(table: HudiTable, instant: str) -> tuple[Instant, CommitMetadata]:
    state = table._state  # noqa: SLF001 - users get the values alone
    active = next((one for one in table.timeline.commits() if one.requested_time == instant), None)
    if active is not None:
        return active, read_commit_metadata(state, active)
    archived = read_archived_commits(state, [instant])
    if instant not in archived:
        raise QueryError("instant", repr(instant), "the requested time of a completed commit, as the timeline has it")
    known = load_archived_instants(state, instant)
    return (
        next(one for one in known if one.requested_time == instant and one.action in COMMIT_ACTIONS),
        archived[instant],
    )


def _row(table: HudiTable, instant: Instant) -> Mapping[str, Any]:
    row = _instant_row(instant)
    if instant.is_completed and instant.action in COMMIT_ACTIONS:
        row |= _commit_row(read_commit_metadata(table._state, instant))  # noqa: SLF001 - as above
    return row


def _instant_row(instant: Instant) -> dict[str, Any]:
    completed = instant.completion_time
    return {
        "requested_time": instant.requested_time,
        "action": str(instant.action),
        "state": instant.state.name.lower(),
        "completion_time": completed,
        "duration_seconds": None if completed is None else seconds_between(instant.requested_time, completed),
    }


def _commit_row(metadata: CommitMetadata) -> dict[str, Any]:
    stats = metadata.write_stats
    return {
        "operation": metadata.operation_type or None,
        "rows_inserted": sum(stat.num_inserts for stat in stats),
        "rows_updated": sum(stat.num_update_writes for stat in stats),
        "rows_deleted": sum(stat.num_deletes for stat in stats),
        "rows_written": sum(stat.num_writes for stat in stats),
        "bytes_written": sum(_bytes(stat) for stat in stats),
        "files_written": sum(bool(stat.path) + len(stat.cdc_stats) for stat in stats),
        "file_groups_replaced": sum(len(file_ids) for _, file_ids in metadata.replaced_file_ids),
        "partitions": sorted(
            {stat.partition_path for stat in stats} | {path for path, _ in metadata.replaced_file_ids}
        ),
        "extra_metadata": [(key, text) for key, text in metadata.extra if key not in _SCHEMAS],
    }


def _file_rows(stat: WriteStat) -> Iterable[Mapping[str, Any]]:
    common = {"partition_path": stat.partition_path, "file_id": stat.file_id}
    if stat.path:
        is_log = parse_log_file_name(stat.path.rpartition("/")[2]) is not None
        yield common | {
            "kind": "log" if is_log else "base",
            "path": stat.path,
            "rows_inserted": stat.num_inserts,
            "rows_updated": stat.num_update_writes,
            "rows_deleted": stat.num_deletes,
            "rows_written": stat.num_writes,
            "bytes_written": stat.file_size_bytes - stat.log_offset,
        }
    for path, size_bytes in stat.cdc_stats:
        yield common | {"kind": "change data", "path": path, "bytes_written": size_bytes}


def _bytes(stat: WriteStat) -> int:
    """The bytes that were written; a log file that was appended to had ``log_offset`` before."""
    return stat.file_size_bytes - stat.log_offset + sum(size_bytes for _, size_bytes in stat.cdc_stats)


def _table(schema: pa.Schema, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)
