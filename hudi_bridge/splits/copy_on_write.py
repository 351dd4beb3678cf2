"""What the type COPY_ON_WRITE rules out: delta commits, and log files with rows or deletes.

Log files of commands alone are left out. Hudi 0.x leaves them when it rolls back a failed write with change data: the
markers of its change data files are those of log files, so the rollback appends a block to a log file of the same name,
without ``.cdc``. Rollbacks of 1.x delete the files. Hudi reads such tables from their base files; once the write that
was rolled back is older than the active timeline, 0.x takes the log file for a newer slice of the file group, and loses
the rows of its base file, which 1.x and this reader return.

Source: ``MarkerBasedRollbackStrategy.getRollbackRequestForAppend``, ``BaseRollbackHelper``;
``HoodieFileGroup.addLogFile``, ``isFileSliceCommitted``.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import TableType
from hudi_bridge.errors import HudiReadError, UnsupportedTableError
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.splits.file_slice import FileSlice, parse_log_file_name
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.timeline import TableState

_Key = TypeVar("_Key")
_MOST_COMMAND_BYTES = 4096
"""A rollback block has about 100 bytes, and each attempt of a rollback may append one."""


class CommandLogs:
    """Finds log files of a copy-on-write table that hold commands alone; reads each small log file once."""

    def __init__(self, state: TableState) -> None:
        """The log files of any state of the table."""
        self._storage = state.storage
        self._is_copy_on_write = state.config.table_type is TableType.COPY_ON_WRITE
        self._known: dict[FileInfo, bool] = {}

    def left_out_of(self, files: Mapping[_Key, Sequence[FileInfo]]) -> Mapping[_Key, Sequence[FileInfo]]:
        """The same files without log files of commands; in tables of other types, all of them.

        A log file that cannot be read, or that is damaged, may hold rows, and is not left out.
        """
        if not self._is_copy_on_write:
            return files
        small = {key: of_key for key, infos in files.items() if (of_key := list(filter(_is_small_log, infos)))}
        unknown = [info for of_key in small.values() for info in of_key if info not in self._known]
        read = map_in_threads(partial(_holds_commands_alone, self._storage), unknown, REQUESTS_AT_ONCE)
        self._known.update(zip(unknown, read, strict=True))
        left_out = {key: {info for info in of_key if self._known[info]} for key, of_key in small.items()}
        return {
            key: [info for info in infos if info not in left_out[key]] if left_out.get(key) else infos
            for key, infos in files.items()
        }


def _is_small_log(info: FileInfo) -> bool:
    if info.is_dir or info.size_bytes > _MOST_COMMAND_BYTES or not info.name.startswith("."):
        return False
    name = parse_log_file_name(info.name)
    return name is not None and not name.is_cdc


def _holds_commands_alone(storage: Storage, info: FileInfo) -> bool:
    try:
        scan = scan_blocks(storage.read_buffer(info.path, info.size_bytes), info.path)
    except (HudiReadError, FileNotFoundError):
        return False
    return (
        bool(scan.blocks) and not scan.corrupt and all(block.block_type is BlockType.COMMAND for block in scan.blocks)
    )


class TypeCheck:
    """Checks that the files of a table fit its type; log files of commands have been left out."""

    def __init__(self, state: TableState) -> None:
        """The check for slices of a state."""
        self._state = state

    def require(self, file_slice: FileSlice) -> None:
        """Refuses delta commits and logs in a copy-on-write table.

        Hudi ignores them there, and so loses rows without an error. If the type of a table was changed after everything
        had been compacted, slices that are read have neither.

        Raises:
            UnsupportedTableError: the slice has one of them.
        """
        deltas = self._delta_commits
        if deltas is None or not (file_slice.log_files or file_slice.base_instant_time in deltas):
            return
        kind = "the log file" if file_slice.log_files else "the file of a delta commit,"
        paths = [file.path for file in (*file_slice.log_files, file_slice.base_file) if file is not None]
        actual = f"COPY_ON_WRITE, and {kind} {paths[0]}"
        raise UnsupportedTableError("table type", actual, "hoodie.table.type as the writer has it, MERGE_ON_READ")

    @cached_property
    def _delta_commits(self) -> frozenset[str] | None:
        """The delta commits of a copy-on-write table, which should have none; None for other tables."""
        if self._state.config.table_type is not TableType.COPY_ON_WRITE:
            return None
        commits = self._state.timeline.commits()
        return frozenset(commit.requested_time for commit in commits if commit.action is Action.DELTA_COMMIT)
