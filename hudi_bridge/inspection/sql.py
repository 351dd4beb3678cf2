"""What SQL engines show of a table besides its rows: views by name, and Hudi's table-valued functions.

``VIEWS`` has the views, by the suffixes of their names. Hudi's functions of Spark SQL return the columns of Hudi:
``hudi_query_timeline`` is ``query_timeline``, ``hudi_filesystem_view`` is ``filesystem_view``, and ``hudi_metadata`` is
``metadata_records``. The rows of ``hudi_table_changes`` are those of ``HudiTable.incremental`` and ``changes``.

Source: ``TimelineRelation`` and ``FileSystemRelation`` of Hudi, and ``TimelineUtils.getTimeline``.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import CorruptTableError, QueryError, TableNotFoundError
from hudi_bridge.indexes.metadata_table import METADATA_FOLDER
from hudi_bridge.indexes.whole_records import WHOLE_RECORD
from hudi_bridge.inspection import file_groups, log_files, overview, services, statistics
from hudi_bridge.inspection.rows import arrow_schema, rows_to_table
from hudi_bridge.readers.filters import allowed_values
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import build_file_groups, view_timeline
from hudi_bridge.splits.partitions import QueryColumns
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.history import load_archived_states
from hudi_bridge.timeline.instant import Instant, InstantLike, instant_at, instant_file_name
from hudi_bridge.timeline.instant_files import read_timeline_file
from hudi_bridge.timeline.records import map_field, number_field, parse_record, records_field, text_field
from hudi_bridge.timeline.timeline import TableState


class MetadataView(NamedTuple):
    """The columns of a view, and the function that makes its rows as of an instant.

    Attributes:
        schema: the columns; None if they are the table's, as ``schema_of`` tells.
        rows: the rows of a table as of an instant, as for ``HudiTable.snapshot``.
        is_usual: whether engines make the view without being asked for it.
        has_instants: whether the rows differ from instant to instant.
        rows_of_group: the rows with one ``file_id``, for which less is read; raises QueryError if there are none.
    """

    schema: pa.Schema | None
    rows: Callable[[HudiTable, InstantLike | None], pa.Table]
    is_usual: bool = False
    has_instants: bool = True
    rows_of_group: Callable[[HudiTable, InstantLike | None, str], pa.Table] | None = None

    def schema_of(self, table: HudiTable, as_of: InstantLike | None = None) -> pa.Schema:
        """The columns of the view of a table."""
        if self.schema is not None:
            return self.schema
        return log_files.inspect_log_records(table, as_of=as_of).schema

    def passing(self, table: HudiTable, as_of: InstantLike | None, row_filter: pc.Expression | None) -> pa.Table:
        """Rows among which are all that pass a filter; those of some file groups if the filter names these alone."""
        groups = None if row_filter is None or self.rows_of_group is None else allowed_values(row_filter, "file_id")
        if groups is None or self.rows_of_group is None:
            return self.rows(table, as_of)
        parts = []
        for file_id in groups.to_pylist():
            with suppress(QueryError):
                parts.append(self.rows_of_group(table, as_of, str(file_id)))
        return pa.concat_tables(parts) if parts else self.schema_of(table, as_of).empty_table()


def _archived(schema: pa.Schema, inspect: Callable[..., pa.Table]) -> MetadataView:
    """The view of what ``inspect`` returns of the archived timeline."""
    return MetadataView(
        schema, lambda table, _: inspect(table, archived=True).filter(pc.field("archived")), has_instants=False
    )


VIEWS: Mapping[str, MetadataView] = {
    "_timeline": MetadataView(
        overview.TIMELINE_SCHEMA, lambda table, _: overview.inspect_timeline(table), is_usual=True, has_instants=False
    ),
    "_commits": MetadataView(
        overview.COMMITS_SCHEMA, lambda table, _: overview.inspect_commits(table), is_usual=True, has_instants=False
    ),
    "_file_slices": MetadataView(overview.FILE_SLICES_SCHEMA, overview.inspect_file_slices, is_usual=True),
    "_files": MetadataView(overview.FILES_SCHEMA, overview.inspect_files, is_usual=True),
    "_all_slices": MetadataView(file_groups.ALL_SLICES_SCHEMA, file_groups.inspect_all_slices),
    "_all_files": MetadataView(
        file_groups.FILE_GROUP_SCHEMA,
        lambda table, as_of: file_groups.inspect_file_group(table, as_of=as_of),
    ),
    "_partitions": MetadataView(statistics.PARTITIONS_SCHEMA, statistics.inspect_partitions),
    "_log_blocks": MetadataView(
        log_files.LOG_BLOCKS_SCHEMA,
        lambda table, as_of: log_files.inspect_log_blocks(table, as_of=as_of),
        rows_of_group=lambda table, as_of, file_id: log_files.inspect_log_blocks(table, file_id=file_id, as_of=as_of),
    ),
    "_log_records": MetadataView(
        None,
        lambda table, as_of: log_files.inspect_log_records(table, as_of=as_of).read_all(),
        rows_of_group=lambda table, as_of, file_id: log_files.inspect_log_records(
            table, file_id=file_id, as_of=as_of
        ).read_all(),
    ),
    "_commit_files": MetadataView(
        overview.COMMIT_FILES_SCHEMA,
        lambda table, _: overview.inspect_commit_files(table),
        has_instants=False,
    ),
    "_services": MetadataView(
        services.SERVICES_SCHEMA, lambda table, _: services.inspect_services(table), has_instants=False
    ),
    "_service_files": MetadataView(
        services.SERVICE_FILES_SCHEMA,
        lambda table, _: services.inspect_service_files(table),
        has_instants=False,
    ),
    "_archived_timeline": _archived(overview.TIMELINE_SCHEMA, overview.inspect_timeline),
    "_archived_commits": _archived(overview.COMMITS_SCHEMA, overview.inspect_commits),
    "_archived_services": _archived(services.SERVICES_SCHEMA, services.inspect_services),
    "_write_amplification": MetadataView(
        statistics.WRITE_AMPLIFICATION_SCHEMA,
        lambda table, _: statistics.inspect_write_amplification(table),
        has_instants=False,
    ),
    "_file_sizes": MetadataView(statistics.FILE_SIZES_SCHEMA, statistics.inspect_file_sizes),
    "_overlap": MetadataView(
        statistics.OVERLAP_SCHEMA, lambda table, as_of: statistics.inspect_overlap(table, as_of=as_of)
    ),
    "_key_filters": MetadataView(statistics.KEY_FILTERS_SCHEMA, statistics.inspect_key_filters),
    "_bootstrap": MetadataView(
        statistics.BOOTSTRAP_SCHEMA, lambda table, _: statistics.inspect_bootstrap(table), has_instants=False
    ),
    "_properties": MetadataView(
        statistics.PROPERTIES_SCHEMA, lambda table, _: statistics.inspect_properties(table), has_instants=False
    ),
}
"""The views by suffix, the usual ones first. Rows are made when a query reads the view."""


QUERY_TIMELINE_SCHEMA = arrow_schema(
    Timestamp=pa.string(),
    Action=pa.string(),
    State=pa.string(),
    Completion_Time=pa.string(),
    File_Name=pa.string(),
    Total_Bytes_Written=pa.int64(),
    Total_Files_Updated=pa.int64(),
    Total_Partitions_Written=pa.int64(),
    Total_Records_Written=pa.int64(),
    Total_Updated_Records_Written=pa.int64(),
    Total_Write_Errors=pa.int64(),
)
FILESYSTEM_VIEW_SCHEMA = arrow_schema(
    File_ID=pa.string(),
    Partition_Path=pa.string(),
    Base_Instant_Time=pa.string(),
    Base_File_Path=pa.string(),
    Base_File_Size=pa.int64(),
    Log_File_Count=pa.int64(),
    Log_File_Size=pa.int64(),
    Log_File_Scheduled=pa.int64(),
    Log_File_Unscheduled=pa.int64(),
)
METADATA_RECORDS_SCHEMA = WHOLE_RECORD
_TOTALS = tuple(name for name in QUERY_TIMELINE_SCHEMA.names if name.startswith("Total_"))
_NONE_WRITTEN, _UNKNOWN = dict.fromkeys(_TOTALS, 0), dict.fromkeys(_TOTALS, -1)
_NO_COMMIT = "null"
"""What Hudi writes as the commit before the first one of a file group."""


def query_timeline(table: HudiTable, *, include_archived: bool = False) -> pa.Table:
    """The instants of the active timeline in their latest state, with totals of what writes have written.

    Totals are -1 where the file of the instant is not one of a write, or is damaged. With ``include_archived``,
    archived instants come first, whose totals are all 0, as in Hudi; up to table version 7 they have a row for each
    state. In these versions the completion time is that of the file's last change, in the time zone of this machine
    unless the timeline is in UTC.

    Raises:
        CorruptTimelineError: a file of the archived timeline is damaged.
        DataFileGoneError: a file of the timeline has been removed since it was listed.
        StorageError: a file cannot be read.
    """
    state = table.planner().state
    active = list(_active_rows(table, state))
    archived = load_archived_states(state) if include_archived else ()
    seen = {(row["Timestamp"], row["Action"], row["State"]) for row in active}
    rows = (_instant_row(state, instant, instant.completion_time) | _NONE_WRITTEN for instant in archived)
    others = [row for row in rows if (row["Timestamp"], row["Action"], row["State"]) not in seen]
    return rows_to_table(QUERY_TIMELINE_SCHEMA, [*others, *active])


def _active_rows(table: HudiTable, state: TableState) -> Iterator[dict[str, Any]]:
    folder = state.config.timeline_path
    has_times = state.config.layout.has_completion_times
    changed: Mapping[str, datetime] = {} if has_times else state.storage.modification_times(folder)
    instants = table.timeline.instants
    contents = map_in_threads(
        lambda instant: read_timeline_file(state.storage, f"{folder}/{instant_file_name(instant)}"),
        instants,
        REQUESTS_AT_ONCE,
    )
    for instant, content in zip(instants, contents, strict=True):
        name = instant_file_name(instant)
        moment = changed.get(name)
        completed = instant.completion_time if moment is None else instant_at(moment, state.config.timeline_timezone)
        yield _instant_row(state, instant, completed) | _totals(content, f"{folder}/{name}")


def _instant_row(state: TableState, instant: Instant, completed: str | None) -> dict[str, Any]:
    named = instant if state.config.layout.has_completion_times else replace(instant, completion_time=None)
    return {
        "Timestamp": instant.requested_time,
        "Action": str(instant.action),
        "State": instant.state.name,
        "Completion_Time": completed,
        "File_Name": instant_file_name(named),
    }


def _totals(content: bytes, path: str) -> dict[str, int]:
    if not content:
        return _NONE_WRITTEN
    try:
        record = parse_record(content, path)
    except CorruptTableError:
        # The files of actions of table services need not be records.
        return _UNKNOWN
    if "partitionToWriteStats" not in record:
        return _UNKNOWN
    by_partition = map_field(record, "partitionToWriteStats", path)
    stats = [stat for name in by_partition for stat in records_field(by_partition, name, path)]
    earlier = (text_field(stat, "prevCommit", path) for stat in stats)
    return {
        "Total_Bytes_Written": sum(number_field(stat, "totalWriteBytes", path) for stat in stats),
        "Total_Files_Updated": sum(time.lower() not in ("", _NO_COMMIT) for time in earlier),
        "Total_Partitions_Written": len(by_partition),
        "Total_Records_Written": sum(number_field(stat, "numWrites", path) for stat in stats),
        "Total_Updated_Records_Written": sum(number_field(stat, "numUpdateWrites", path) for stat in stats),
        "Total_Write_Errors": sum(number_field(stat, "totalWriteErrors", path) for stat in stats),
    }


def filesystem_view(table: HudiTable, sub_path: str | None = "") -> pa.Table:
    """The file slices of all times in some folders, as far as the timeline has their writes, completed or not.

    ``sub_path`` is a glob pattern of Hadoop for the folders below the table: ``*`` stands for one level, and nothing
    for the table's own folder. None is for all partitions. A slice without a base file has the size -1 and no path.
    ``Log_File_Scheduled`` is the size of the log files with the instant of the slice. Files of change data count as log
    files.

    Raises:
        CorruptTableError: the plan of a pending compaction is damaged.
        QueryError: the pattern has brackets that are not closed.
        StorageError: a folder cannot be listed.
    """
    state = table.planner().state
    instants = {instant.requested_time for instant in state.timeline.instants}

    def is_there(time: str) -> bool:
        return time in instants or state.timeline.is_archived(time)

    view = replace(view_timeline(state), is_committed=is_there)
    return rows_to_table(
        FILESYSTEM_VIEW_SCHEMA,
        (
            _slice_row(table, part)
            for folder in (_partitions(table) if sub_path is None else _folders(state, sub_path))
            for group in build_file_groups(folder, state.storage.list_directory(folder), view, with_changes=True)
            for part in group.slices
            if is_there(part.base_instant_time)
        ),
    )


def _slice_row(table: HudiTable, part: FileSlice) -> dict[str, Any]:
    own = [log.size_bytes for log in part.log_files if log.name.instant_time == part.base_instant_time]
    base = part.base_file
    return {
        "File_ID": part.file_id,
        "Partition_Path": part.partition_path,
        "Base_Instant_Time": part.base_instant_time,
        "Base_File_Path": "" if base is None else _address(table, base.path),
        "Base_File_Size": -1 if base is None else base.size_bytes,
        "Log_File_Count": len(part.log_files),
        "Log_File_Size": part.log_size_bytes,
        "Log_File_Scheduled": sum(own),
        "Log_File_Unscheduled": part.log_size_bytes - sum(own),
    }


def _address(table: HudiTable, path: str) -> str:
    """The URI of a file as Hadoop writes it."""
    storage = table.storage
    return f"file:{storage.resolve(path)}" if storage.is_local else storage.location(path)


def _partitions(table: HudiTable) -> Iterable[str]:
    return table.planner().files.partitions(QueryColumns(pa.schema([]), ()), None)


def _folders(state: TableState, sub_path: str) -> Iterable[str]:
    """The folders that match a pattern, each once, without Hudi's own."""
    matching: dict[str, None] = {}
    for pattern in _alternatives(sub_path):
        folders = [""]
        for level in filter(None, pattern.split("/")):
            matches = re.compile(_level_pattern(level, sub_path), re.DOTALL)
            folders = [
                info.path
                for folder in folders
                for info in state.storage.list_directory(folder)
                if info.is_dir and matches.fullmatch(info.name) and HOODIE_FOLDER not in info.path
            ]
        matching |= dict.fromkeys(folders)
    return matching


def _alternatives(pattern: str) -> Iterator[str]:
    """The patterns that one with ``{a,b}`` stands for."""
    match = re.search(r"(?<!\\)\{([^{}]*)\}", pattern)
    if match is None:
        yield pattern
        return
    for alternative in match[1].split(","):
        yield from _alternatives(pattern[: match.start()] + alternative + pattern[match.end() :])


def _level_pattern(level: str, sub_path: str) -> str:
    """The regular expression of one level of a pattern."""
    parts = re.findall(r"\\.|\[[^\]]+\]|.", level, re.DOTALL)
    if "[" in parts or "{" in parts or "}" in parts:
        raise QueryError("sub_path", repr(sub_path), "a glob pattern whose brackets are closed")
    return "".join(_GLOB.get(part) or _glob_part(part) for part in parts)


_GLOB = {"*": ".*", "?": "."}


def _glob_part(part: str) -> str:
    if part.startswith("[") and len(part) > 1:
        start = "^" if part[1] in "^!" else ""
        return f"[{start}{part[1 + len(start) : -1].replace(chr(92), chr(92) * 2).replace('[', chr(92) + '[')}]"
    return re.escape(part.removeprefix("\\") or part)


def metadata_records(table: HudiTable) -> Iterator[pa.RecordBatch]:
    """The records of all partitions of the metadata table, merged, in the columns ``METADATA_RECORDS_SCHEMA``.

    Raises:
        CorruptTableError: a file is damaged or missing.
        QueryError: a partition is of a kind that Hudi 1.2 does not have.
        StorageError: a file cannot be read.
        TableNotFoundError: the table has no metadata table.
    """
    if not table.storage.exists(METADATA_FOLDER):
        raise TableNotFoundError(table.storage.location(METADATA_FOLDER), "the table has no metadata table")
    for part in table._metadata_table.whole_records():  # noqa: SLF001 - users get its records alone
        yield from part.to_batches()
