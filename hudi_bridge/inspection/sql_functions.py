"""What Hudi's table-valued functions of Spark SQL show of a table, with the columns of Hudi.

``hudi_query_timeline`` is ``query_timeline``, ``hudi_filesystem_view`` is ``filesystem_view``, and ``hudi_metadata`` is
``metadata_records``. The rows of ``hudi_table_changes`` are those of ``HudiTable.incremental`` and ``changes``.

Source: ``TimelineRelation`` and ``FileSystemRelation`` of Hudi, and ``TimelineUtils.getTimeline``.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import CorruptTableError, QueryError, TableNotFoundError
from hudi_bridge.indexes.metadata_table import METADATA_FOLDER
from hudi_bridge.indexes.whole_records import WHOLE_RECORD
from hudi_bridge.inspection.rows import arrow_schema, rows_to_table
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import build_file_groups, view_timeline
from hudi_bridge.splits.partitions import QueryColumns
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.history import load_archived_states
from hudi_bridge.timeline.instant import Instant, instant_at, instant_file_name
from hudi_bridge.timeline.instant_files import read_timeline_file
from hudi_bridge.timeline.records import map_field, number_field, parse_record, records_field, text_field
from hudi_bridge.timeline.timeline import TableState

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
