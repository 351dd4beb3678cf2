"""The metadata of a table as Arrow tables: timeline, commits, file slices, files, splits, columns, the metadata table.

Times are instants, paths are relative to the table, sizes are in bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_index import locations_of
from hudi_bridge.indexes.record_kinds import RECORD_INDEX, VALUE, values_as_text
from hudi_bridge.inspection.rows import arrow_schema, rows_to_table
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.splits.file_slice import parse_log_file_name
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, InstantLike, seconds_between
from hudi_bridge.timeline.instant_files import CommitMetadata, WriteStat, read_commit_metadata

_SCHEMAS = ("schema", "latest_schema")


TIMELINE_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    action=pa.string(),
    state=pa.string(),
    completion_time=pa.string(),
)
FILE_SLICES_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_instant_time=pa.string(),
    base_size_bytes=pa.int64(),
    log_files=pa.int64(),
    log_size_bytes=pa.int64(),
)
FILES_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    kind=pa.string(),
    instant_time=pa.string(),
    size_bytes=pa.int64(),
    path=pa.string(),
)
SPLITS_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_path=pa.string(),
    log_paths=pa.list_(pa.string()),
    base_size_bytes=pa.int64(),
    log_size_bytes=pa.int64(),
)
COLUMNS_SCHEMA = arrow_schema(name=pa.string(), type=pa.string(), nullable=pa.bool_())
TABLE_SCHEMA = arrow_schema(
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
    return rows_to_table(
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
    return rows_to_table(
        FILE_SLICES_SCHEMA,
        (
            {
                "partition_path": file_slice.partition_path,
                "file_id": file_slice.file_id,
                "base_instant_time": file_slice.base_instant_time,
                "base_size_bytes": file_slice.base_file.size_bytes if file_slice.base_file else None,
                "log_files": len(file_slice.log_files),
                "log_size_bytes": file_slice.log_size_bytes,
            }
            for file_slice in table.file_slices(as_of)
        ),
    )


def inspect_files(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row per file that a snapshot reads: base files, and log files in merge order."""
    return rows_to_table(FILES_SCHEMA, _iter_files(table, as_of))


def inspect_splits(
    table: HudiTable, as_of: InstantLike | None = None, query_type: QueryType = QueryType.SNAPSHOT
) -> pa.Table:
    """One row per split of a query; ``as_of`` as for ``HudiTable.snapshot``."""
    return splits_to_table(table.splits(as_of, query_type))


def splits_to_table(splits: Iterable[RealtimeFileSplit]) -> pa.Table:
    """One row per split."""
    return rows_to_table(
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
    return rows_to_table(
        COLUMNS_SCHEMA,
        (
            {"name": field.name, "type": str(field.type), "nullable": field.nullable}
            for field in table.read_context(as_of).schema
        ),
    )


def inspect_table(table: HudiTable, as_of: InstantLike | None = None) -> pa.Table:
    """One row that describes the table; ``latest_instant`` is null before the first commit."""
    return rows_to_table(TABLE_SCHEMA, [table_facts(table, as_of)])


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
        "base_files": sum(file_slice.base_file is not None for file_slice in slices),
        "base_size_bytes": sum(file_slice.base_size_bytes for file_slice in slices),
        "log_files": sum(len(file_slice.log_files) for file_slice in slices),
        "log_size_bytes": sum(file_slice.log_size_bytes for file_slice in slices),
    }


def _iter_files(table: HudiTable, as_of: InstantLike | None) -> Iterable[Mapping[str, Any]]:
    for file_slice in table.file_slices(as_of):
        files = [("log", log.name.instant_time, log.size_bytes, log.path) for log in file_slice.log_files]
        if file_slice.base_file is not None:
            base = file_slice.base_file
            files.insert(0, ("base", base.instant_time, base.size_bytes, base.path))
        for kind, instant_time, size_bytes, path in files:
            yield {
                "partition_path": file_slice.partition_path,
                "file_id": file_slice.file_id,
                "kind": kind,
                "instant_time": instant_time,
                "size_bytes": size_bytes,
                "path": path,
            }


COMMITS_SCHEMA = arrow_schema(
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
COMMIT_FILES_SCHEMA = arrow_schema(
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


def inspect_commits(table: HudiTable) -> pa.Table:
    """One row per instant of the active timeline, oldest first; what only completed commits have is otherwise null.

    ``duration_seconds`` is from the request to the completion, null where Hudi records none. Of an upsert into a base
    file, ``rows_written`` counts the rows that were copied, too. ``extra_metadata`` is the writer's, without schemas.

    Raises:
        CorruptTimelineError: the file of a commit is damaged.
    """
    return rows_to_table(COMMITS_SCHEMA, (_row(table, instant) for instant in table.timeline.instants))


def inspect_commit(table: HudiTable, instant: str) -> pa.Table:
    """The row of ``inspect_commits`` of one commit, also of an archived one; ``instant`` is its requested time.

    Raises:
        QueryError: there is no completed commit of that instant.
        CorruptTimelineError: its file, or one of the archive, is damaged.
    """
    commit, metadata = _find(table, instant)
    return rows_to_table(COMMITS_SCHEMA, [_instant_row(commit) | _commit_row(metadata)])


def inspect_commit_files(table: HudiTable, instant: str) -> pa.Table:
    """One row per file that a commit has written, also an archived one; raises like ``inspect_commit``.

    Files of change data have no numbers of rows.
    """
    _, metadata = _find(table, instant)
    return rows_to_table(COMMIT_FILES_SCHEMA, (row for stat in metadata.write_stats for row in _file_rows(stat)))


def _find(table: HudiTable, instant: str) -> tuple[Instant, CommitMetadata]:
    state = table.planner().state
    active = next((commit for commit in table.timeline.commits() if commit.requested_time == instant), None)
    if active is not None:
        return active, read_commit_metadata(state, active)
    archived = read_archived_commits(state, [instant])
    if instant not in archived:
        raise QueryError("instant", repr(instant), "the requested time of a completed commit, as the timeline has it")
    instants = load_archived_instants(state, instant)
    return (
        next(commit for commit in instants if commit.requested_time == instant and commit.action in COMMIT_ACTIONS),
        archived[instant],
    )


def _row(table: HudiTable, instant: Instant) -> Mapping[str, Any]:
    row = _instant_row(instant)
    if instant.is_completed and instant.action in COMMIT_ACTIONS:
        row |= _commit_row(read_commit_metadata(table.planner().state, instant))
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


METADATA_PARTITIONS_SCHEMA = arrow_schema(
    partition=pa.string(),
    file_groups=pa.int64(),
    base_records=pa.int64(),
    log_records=pa.int64(),
    latest_instant=pa.string(),
    usable=pa.bool_(),
    why_not=pa.string(),
)


def inspect_metadata_table(table: HudiTable) -> pa.Table:
    """The partitions of the metadata table, complete or being built; none if the table has no metadata table.

    ``base_records`` and ``log_records`` count what is stored, before they are merged; a record of files has a row for
    each file in logs. Both are null where a partition cannot be read, and ``why_not`` says why.

    Raises:
        StorageError: the timeline of the metadata table cannot be listed.
    """
    config = table.config
    names = (*config.metadata_partitions, *config.metadata_partitions_inflight)
    if not names:
        return METADATA_PARTITIONS_SCHEMA.empty_table()
    metadata = table._metadata_table  # noqa: SLF001 - users get its records alone
    return pa.Table.from_pylist([_partition(metadata, name) for name in sorted(names)], METADATA_PARTITIONS_SCHEMA)


def _partition(metadata: MetadataTable, name: str) -> dict[str, object]:
    commit = metadata.own.timeline.latest_commit()
    row: dict[str, object] = {"partition": name, "latest_instant": None if commit is None else commit.requested_time}
    try:
        groups = [group for scope in metadata.file_groups(name).values() for group in scope]
        row |= {
            "file_groups": len(groups),
            "base_records": sum(group.base.entries for group in groups if group.base is not None),
            "log_records": sum(len(group.logs) for group in groups),
        }
        why_not = metadata.why_not(name)
    except HudiReadError as error:
        why_not = str(error)
    return row | {"usable": why_not is None, "why_not": why_not}


def inspect_metadata_records(
    table: HudiTable, partition: str, keys: Sequence[str] | None = None
) -> pa.RecordBatchReader:
    """The records in a partition of the metadata table, all or those of some keys, by file group and key.

    A record of files has a row for each file, one of the record index is shown as a location. Values of statistics are
    text.

    Raises:
        QueryError: there is no such partition.
        UnsupportedTableError: the partition is incomplete, or lacks a commit.
    """
    partitions = (*table.config.metadata_partitions, *table.config.metadata_partitions_inflight)
    if partition not in partitions:
        raise QueryError("partition", repr(partition), ", ".join(partitions) or "none: the table has no metadata table")
    metadata = table._metadata_table  # noqa: SLF001 - users get its records alone
    metadata.require(partition)
    kind = metadata.kind(partition)
    parts = metadata.all(partition) if keys is None else iter([metadata.of_keys(partition, keys)])
    empty = _shown(partition, kind.schema.empty_table().drop_columns("is_deleted"))
    return pa.RecordBatchReader.from_batches(empty.schema, _batches(partition, parts))


def _batches(partition: str, parts: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    for part in parts:
        yield from _shown(partition, part).to_batches()


def _shown(partition: str, records: pa.Table) -> pa.Table:
    if partition == RECORD_INDEX:
        return locations_of(records)
    for number, field in enumerate(records.schema):
        if field.type == VALUE:
            text = values_as_text(records.column(number))
            records = records.set_column(number, pa.field(field.name, pa.string()), text)
    return records
