"""The metadata of a table as Arrow tables: timeline, commits, file slices, files, splits, columns, the metadata table.

Times are instants, paths are relative to the table, sizes are in bytes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError, QueryError, StorageError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_index import locations_of
from hudi_bridge.indexes.record_kinds import RECORD_INDEX, VALUE, values_as_text
from hudi_bridge.inspection.rows import (
    Archive,
    ReadInstant,
    active_commits,
    arrow_schema,
    commits_of_archive,
    read_archive,
    rows_to_table,
)
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.splits.file_slice import parse_log_file_name
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.history import load_archived_instants, read_archived_contents
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant, InstantLike, instant_file_name, seconds_between
from hudi_bridge.timeline.instant_files import (
    CommitMetadata,
    WriteStat,
    commit_metadata_of_record,
    read_timeline_file,
)
from hudi_bridge.timeline.records import Record, map_field, parse_record, records_field
from hudi_bridge.timeline.timeline import TableState

_SCHEMAS = ("schema", "latest_schema")


TIMELINE_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    action=pa.string(),
    state=pa.string(),
    completion_time=pa.string(),
    archived=pa.bool_(),
    problem=pa.string(),
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


def inspect_timeline(table: HudiTable, *, archived: bool = False) -> pa.Table:
    """One row per instant of the active timeline, oldest first; ``completion_time`` is null if Hudi records none.

    With ``archived``, the instants of the archived timeline as well, which are all completed; if it cannot be read, a
    row with the ``problem``.

    Raises:
        StorageError: a file of the archived timeline cannot be read.
    """
    state = table.planner().state
    active = {(instant.requested_time, instant.comparable_action) for instant in table.timeline.instants}
    problem: list[Mapping[str, Any]] = []
    older: list[Instant] = []
    try:
        archive = load_archived_instants(state) if archived else ()
        older = [entry for entry in archive if (entry.requested_time, entry.comparable_action) not in active]
    except StorageError:
        raise
    except HudiReadError as error:
        problem = [{"archived": True, "problem": str(error)}]
    rows = [(instant, True) for instant in older] + [(instant, False) for instant in table.timeline.instants]
    rows.sort(key=lambda row: row[0].requested_time)
    shown = (
        {
            "requested_time": instant.requested_time,
            "action": str(instant.action),
            "state": instant.state.name.lower(),
            "completion_time": instant.completion_time,
            "archived": is_archived,
        }
        for instant, is_archived in rows
    )
    return rows_to_table(TIMELINE_SCHEMA, (*problem, *shown))


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
            for field in table.planner(as_of).schema(QueryType.SNAPSHOT)
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
        "columns": len(table.planner(as_of).schema(QueryType.SNAPSHOT)),
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
    files_added=pa.int64(),
    files_updated=pa.int64(),
    file_groups_replaced=pa.int64(),
    partitions=pa.list_(pa.string()),
    extra_metadata=pa.map_(pa.string(), pa.string()),
    archived=pa.bool_(),
    problem=pa.string(),
)
COMMIT_FILES_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    action=pa.string(),
    partition_path=pa.string(),
    file_id=pa.string(),
    kind=pa.string(),
    path=pa.string(),
    previous_instant=pa.string(),
    rows_inserted=pa.int64(),
    rows_updated=pa.int64(),
    rows_deleted=pa.int64(),
    rows_written=pa.int64(),
    bytes_written=pa.int64(),
    file_size_bytes=pa.int64(),
    details=pa.map_(pa.string(), pa.string()),
    problem=pa.string(),
)
_SHOWN_OF_STAT = frozenset(
    (
        "fileId", "partitionPath", "path", "prevCommit", "numInserts", "numUpdateWrites", "numDeletes", "numWrites",
        "fileSizeInBytes",
    )
)  # fmt: skip
"""What ``COMMIT_FILES_SCHEMA`` has columns of; the rest are ``details``."""


def inspect_commits(table: HudiTable, *, archived: bool = False) -> pa.Table:
    """One row per instant of the active timeline, oldest first; what only completed commits have is otherwise null.

    ``duration_seconds`` is from the request to the completion, null where Hudi records none. Of an upsert into a base
    file, ``rows_written`` counts the rows that were copied, too. ``files_added`` are the files of new file groups.
    ``extra_metadata`` is the writer's, without schemas. With ``archived``, instants of the archived timeline as well. A
    commit, or an archive, that cannot be read is a row with the ``problem``.

    Raises:
        StorageError: a file cannot be read.
    """
    state = table.planner().state
    archive = read_archive(state) if archived else Archive()
    read = [(entry, True) for entry in commits_of_archive(archive)]
    read += [(entry, False) for entry in active_commits(state, table.timeline.instants)]
    read.sort(key=lambda row: row[0].instant.requested_time)
    rows = [_row(entry) | {"archived": is_archived} for entry, is_archived in read]
    problem = [] if archive.problem is None else [{"archived": True, "problem": archive.problem}]
    return rows_to_table(COMMITS_SCHEMA, (*problem, *rows))


def inspect_commit(table: HudiTable, instant: str) -> pa.Table:
    """The row of ``inspect_commits`` of one commit, also of an archived one; ``instant`` is its requested time.

    Raises:
        QueryError: there is no completed commit of that instant.
        CorruptTimelineError: its file, or one of the archive, is damaged.
    """
    commit, record, name, is_archived = _find(table, instant)
    metadata = commit_metadata_of_record(record, name)
    return rows_to_table(COMMITS_SCHEMA, [_instant_row(commit) | _commit_row(metadata) | {"archived": is_archived}])


def inspect_commit_files(table: HudiTable, instant: str | None = None) -> pa.Table:
    """One row per file that commits have written, in ``COMMIT_FILES_SCHEMA``.

    ``previous_instant`` is that of the slice before, null for a new file group. ``details`` are what else the writer
    has noted, by Hudi's names: errors, times, numbers of log blocks. Files of change data have no numbers of rows. Of
    all commits, one that cannot be read is a row with the ``problem``.

    Args:
        table: the table.
        instant: the requested time of a commit, also of an archived one; by default all on the active timeline.

    Raises:
        QueryError, CorruptTimelineError: as for ``inspect_commit``.
        StorageError: a file cannot be read.
    """
    state = table.planner().state
    if instant is not None:
        commit, record, name, _ = _find(table, instant)
        return rows_to_table(COMMIT_FILES_SCHEMA, _rows_of_commit(commit, record, name))
    read = map_in_threads(partial(_try_to_read, state), state.timeline.commits(), REQUESTS_AT_ONCE)
    return rows_to_table(COMMIT_FILES_SCHEMA, (row for rows in read for row in rows))


def _try_to_read(state: TableState, commit: Instant) -> list[Mapping[str, Any]]:
    name = f"{state.config.timeline_path}/{instant_file_name(commit)}"
    try:
        return list(_rows_of_commit(commit, _record(state, name), name))
    except StorageError:
        raise
    except HudiReadError as error:
        return [{"requested_time": commit.requested_time, "action": str(commit.action), "problem": str(error)}]


def _record(state: TableState, name: str) -> Record:
    data = read_timeline_file(state.storage, name)
    return parse_record(data, name) if data else {}


def _rows_of_commit(commit: Instant, record: Record, name: str) -> Iterator[Mapping[str, Any]]:
    of_commit = {"requested_time": commit.requested_time, "action": str(commit.action)}
    by_partition = map_field(record, "partitionToWriteStats", name)
    written = (stat for key in by_partition for stat in records_field(by_partition, key, name))
    for stat, fields in zip(commit_metadata_of_record(record, name).write_stats, written, strict=True):
        yield from (of_commit | row for row in _file_rows(stat, _details(fields)))


def _details(stat: Record) -> list[tuple[str, str]]:
    """What a writer has noted of a file that no column shows, by Hudi's names."""
    nested = stat.get("runtimeStats")
    times = {f"runtimeStats.{name}": value for name, value in nested.items()} if isinstance(nested, dict) else {}
    flat = {name: value for name, value in stat.items() if name not in _SHOWN_OF_STAT} | times
    return [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in flat.items()
        if isinstance(value, str | int | float)
    ]


def _find(table: HudiTable, instant: str) -> tuple[Instant, Record, str, bool]:
    """A commit with the contents and the name of its file, and whether it is archived."""
    state = table.planner().state
    active = next((commit for commit in table.timeline.commits() if commit.requested_time == instant), None)
    if active is not None:
        name = f"{state.config.timeline_path}/{instant_file_name(active)}"
        return active, _record(state, name), name, False
    for entry in read_archived_contents(state, instant):
        if entry.instant.action in COMMIT_ACTIONS:
            return entry.instant, entry.result, entry.name, True
    raise QueryError("instant", repr(instant), "the requested time of a completed commit, as the timeline has it")


def _row(read: ReadInstant) -> dict[str, Any]:
    row = _instant_row(read.instant) | {"problem": read.problem}
    return row if read.metadata is None else row | _commit_row(read.metadata)


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
        "files_added": sum(stat.prev_commit is None for stat in stats),
        "files_updated": sum(stat.prev_commit is not None for stat in stats),
        "file_groups_replaced": sum(len(file_ids) for _, file_ids in metadata.replaced_file_ids),
        "partitions": sorted(
            {stat.partition_path for stat in stats} | {path for path, _ in metadata.replaced_file_ids}
        ),
        "extra_metadata": [(key, text) for key, text in metadata.extra if key not in _SCHEMAS],
    }


def _file_rows(stat: WriteStat, details: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    common: dict[str, Any] = {"partition_path": stat.partition_path, "file_id": stat.file_id}
    if stat.path:
        is_log = parse_log_file_name(stat.path.rpartition("/")[2]) is not None
        yield common | {
            "kind": "log" if is_log else "base",
            "path": stat.path,
            "previous_instant": stat.prev_commit,
            "rows_inserted": stat.num_inserts,
            "rows_updated": stat.num_update_writes,
            "rows_deleted": stat.num_deletes,
            "rows_written": stat.num_writes,
            "bytes_written": stat.file_size_bytes - stat.log_offset,
            "file_size_bytes": stat.file_size_bytes,
            "details": details,
        }
    for path, size_bytes in stat.cdc_stats:
        yield common | {"kind": "change data", "path": path, "bytes_written": size_bytes, "file_size_bytes": size_bytes}


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
