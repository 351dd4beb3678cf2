"""All versions of the file groups of a table: their slices and files, with what became of each.

Unlike a query, this lists the folders of all partitions, so that files of failed writes are seen too.

Source: ``ShowFileSystemViewProcedure`` (``show_fsview_all``), ``HoodieFileGroup.getAllFileSlices``; what waits for the
cleaner follows ``CleanPlanner.getFilesToCleanKeepingLatestCommits``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import HudiReadError, QueryError, StorageError
from hudi_bridge.inspection.rows import (
    ReadInstant,
    active_commits,
    arrow_schema,
    commits_of_archive,
    read_archive,
    rows_to_table,
)
from hudi_bridge.splits.file_slice import (
    BaseFile,
    FileGroup,
    FileSlice,
    LogFile,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.file_system_view import (
    TimelineView,
    build_file_groups,
    latest_snapshot_slice,
    view_timeline,
    visible_slices,
)
from hudi_bridge.splits.partitions import QueryColumns
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.storage.storage import FileInfo
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import Action, Instant, InstantLike
from hudi_bridge.timeline.instant_files import WriteStat, read_clean_metadata
from hudi_bridge.timeline.timeline import TableState

_PARTITIONS_AT_ONCE = 256


class SliceState(StrEnum):
    """What became of a file slice, or of a file in it."""

    CURRENT = "current"
    SUPERSEDED = "superseded"
    REPLACED = "replaced"
    LATER = "later"
    PENDING = "pending"
    FAILED = "failed"
    UNKNOWN = "unknown"


_ENDED = (SliceState.SUPERSEDED, SliceState.REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceVersion:
    """A file slice with its state.

    ``ended_by`` is the instant that superseded or replaced it. ``waits_for_cleaner`` is whether the last clean would
    not keep it: it was ended before the earliest commit that this clean retained, and is still there.
    """

    file_slice: FileSlice
    state: SliceState
    ended_by: str | None = None
    waits_for_cleaner: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHistory:
    """All slices of a file group, oldest first, and its files of change data.

    Files that cannot be told apart are a group with a ``problem`` and no slices. If a replace commit or a plan cannot
    be read, each group has the ``problem``, and the state of its slices is ``unknown``.
    """

    partition_path: str
    file_id: str
    versions: tuple[SliceVersion, ...] = ()
    change_files: tuple[LogFile, ...] = ()
    problem: str | None = None


class FileGroupHistories:
    """The file groups of a table, with all of their files, as of an instant."""

    def __init__(self, planner: SplitPlanner) -> None:
        """The file groups as of the planner's instant.

        Raises:
            StorageError: a file of the timeline cannot be read.
        """
        self._planner = planner
        self._state = planner.state
        self._problem: str | None = None
        try:
            self._view = view_timeline(planner.state)
        except StorageError:
            raise
        except HudiReadError as error:
            self._problem, self._view = str(error), _view_without_plans(planner.state)
        self._pending = planner.state.timeline.pending_times()

    def of_partitions(self, within: Iterable[str] | None = None) -> Iterator[GroupHistory]:
        """Yields the groups by partition and file id; with ``within``, of partitions with these paths alone.

        A partition whose files cannot be told apart is one group without a file id, with the reason.

        Raises:
            StorageError: a folder cannot be listed.
        """
        files = self._planner.files
        named = None if within is None else tuple(path.strip("/") for path in within)
        paths = files.partitions(QueryColumns(pa.schema([]), ()), None, within=named)
        for start in range(0, len(paths), _PARTITIONS_AT_ONCE):
            part = paths[start : start + _PARTITIONS_AT_ONCE]
            files.listings.fetch(part, must_exist=False)
            for path in part:
                try:
                    yield from self._groups(path, files.in_partition(path, must_exist=False))
                except HudiReadError as error:
                    yield GroupHistory(partition_path=path, file_id="", problem=str(error))

    def _groups(self, path: str, files: Iterable[FileInfo]) -> Iterator[GroupHistory]:
        stored = [info for info in files if not info.is_dir]
        committed = {group.file_id: group for group in build_file_groups(path, stored, self._view)}
        changes: dict[str, list[LogFile]] = defaultdict(list)
        others: dict[str, list[FileSlice]] = defaultdict(list)
        in_slices = {file for group in committed.values() for part in group.slices for file in paths_of(part)}
        for info in stored:
            log = parse_log_file_name(info.name)
            if log is not None and log.is_cdc:
                changes[log.file_id].append(LogFile(path=info.path, name=log, size_bytes=info.size_bytes))
            elif stored_path(info.path) not in in_slices and (part := _uncommitted(path, info, log)) is not None:
                others[part.file_id].append(part)
        for file_id in sorted(committed.keys() | changes.keys() | others.keys()):
            group = committed.get(file_id) or FileGroup(partition_path=path, file_id=file_id, slices=())
            versions = [*self._versions(group), *map(self._unfinished, others[file_id])]
            versions.sort(key=lambda version: version.file_slice.base_instant_time)
            yield GroupHistory(
                partition_path=path,
                file_id=file_id,
                versions=tuple(versions),
                change_files=tuple(changes[file_id]),
                problem=self._problem,
            )

    def _versions(self, group: FileGroup) -> Iterator[SliceVersion]:
        view = self._view
        if self._problem is not None:
            yield from (SliceVersion(file_slice=part, state=SliceState.UNKNOWN) for part in group.slices)
            return
        replaced = view.replaced.get((group.partition_path, group.file_id))
        if replaced is not None and replaced <= view.query_instant:
            for part in group.slices:
                yield self._ended(part, SliceState.REPLACED, replaced)
            return
        visible = visible_slices(group, view)
        latest = latest_snapshot_slice(group, view)
        read = set() if latest is None else paths_of(latest)
        for part in group.slices:
            if part not in visible:
                yield self._unfinished(part)
            elif part is visible[-1] or not read.isdisjoint(paths_of(part)):
                yield SliceVersion(file_slice=part, state=SliceState.CURRENT)
            else:
                following = visible[visible.index(part) + 1]
                yield self._ended(part, SliceState.SUPERSEDED, following.base_instant_time)

    def _ended(self, part: FileSlice, state: SliceState, instant: str) -> SliceVersion:
        retained = self._earliest_retained
        waits = retained is not None and instant < retained
        return SliceVersion(file_slice=part, state=state, ended_by=instant, waits_for_cleaner=waits)

    def _unfinished(self, part: FileSlice) -> SliceVersion:
        """A slice whose write is later than the instant, is under way, or has failed.

        A file of a committed instant that is in no slice was left by an attempt of a task that Spark has repeated.
        """
        instant, timeline = part.base_instant_time, self._state.timeline
        if timeline.is_committed(instant) and instant > self._view.query_instant:
            state = SliceState.LATER
        elif instant in self._pending:
            state = SliceState.PENDING
        else:
            state = SliceState.FAILED
        return SliceVersion(file_slice=part, state=state)

    @cached_property
    def _earliest_retained(self) -> str | None:
        clean = self._state.timeline.latest_completed(Action.CLEAN)
        try:
            return None if clean is None else read_clean_metadata(self._state, clean).earliest_commit_to_retain
        except HudiReadError:
            # The list of files does not need it; doctor tells of damaged cleans.
            return None


def _view_without_plans(state: TableState) -> TimelineView:
    """The timeline as if no compaction were pending and nothing had been replaced."""
    return TimelineView(
        logs_name_their_own_instant=state.config.layout.logs_name_their_own_instant,
        native_log_formats=state.config.layout.native_log_formats,
        query_instant=state.instant,
        is_committed=state.timeline.is_committed,
        completion_time_of=state.timeline.completion_time_of,
        pending_compactions={},
        replaced={},
        base_extension=state.config.base_file_format.lower(),
    )


def paths_of(file_slice: FileSlice) -> set[str]:
    """The paths of all files of a slice."""
    paths = {log.path for log in file_slice.log_files}
    return paths if file_slice.base_file is None else {file_slice.base_file.path, *paths}


def _uncommitted(path: str, info: FileInfo, log: Any) -> FileSlice | None:  # noqa: ANN401
    """A file that no slice has, as a slice of its own; None for files that Hudi does not know."""
    part = FileSlice(partition_path=path, file_id="", base_instant_time="", base_file=None, log_files=())
    if log is not None:
        log_file = LogFile(path=info.path, name=log, size_bytes=info.size_bytes)
        return replace(part, file_id=log.file_id, base_instant_time=log.instant_time, log_files=(log_file,))
    base = None if info.name.startswith(".") else parse_base_file_name(info.name)
    if base is None:
        return None
    file = BaseFile(path=stored_path(info.path), instant_time=base.instant_time, size_bytes=info.size_bytes)
    return replace(part, file_id=base.file_id, base_instant_time=base.instant_time, base_file=file)


ALL_SLICES_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_instant_time=pa.string(),
    state=pa.string(),
    ended_by=pa.string(),
    waits_for_cleaner=pa.bool_(),
    operation=pa.string(),
    base_path=pa.string(),
    base_size_bytes=pa.int64(),
    log_files=pa.int64(),
    log_size_bytes=pa.int64(),
    log_paths=pa.list_(pa.string()),
    rows_written=pa.int64(),
    committed_size_bytes=pa.int64(),
    problem=pa.string(),
)
FILE_GROUP_SCHEMA = arrow_schema(
    partition_path=pa.string(),
    file_id=pa.string(),
    base_instant_time=pa.string(),
    kind=pa.string(),
    path=pa.string(),
    instant_time=pa.string(),
    completion_time=pa.string(),
    state=pa.string(),
    ended_by=pa.string(),
    waits_for_cleaner=pa.bool_(),
    action=pa.string(),
    operation=pa.string(),
    size_bytes=pa.int64(),
    committed_size_bytes=pa.int64(),
    rows_written=pa.int64(),
    rows_inserted=pa.int64(),
    rows_updated=pa.int64(),
    rows_deleted=pa.int64(),
    problem=pa.string(),
)


def inspect_all_slices(
    table: HudiTable,
    as_of: InstantLike | None = None,
    partitions: Iterable[str] | None = None,
    *,
    archived: bool = False,
) -> pa.Table:
    """One row per file slice of all times, by partition, file id and instant, in ``ALL_SLICES_SCHEMA``.

    ``state`` is ``current`` (read by the snapshot), ``superseded`` by a later slice or ``replaced`` by a clustering or
    an overwrite (``ended_by`` names the instant), ``later`` than ``as_of``, ``pending`` or ``failed``, of a write that
    never completed. It is ``unknown`` if a replace commit, or the plan of a pending compaction, cannot be read.
    ``waits_for_cleaner`` is as in ``SliceVersion``. ``operation``, ``rows_written`` and
    ``committed_size_bytes`` are what commits on the active timeline say of the slice's files, null if none does.
    Where files cannot be told apart, or the commit of one cannot be read, a row has the ``problem``.

    Args:
        table: the table.
        as_of: as for ``HudiTable.snapshot``.
        partitions: the paths of the partitions to list, by default all.
        archived: whether archived commits tell of files, too.

    Raises:
        StorageError: a folder cannot be listed, or a file of the timeline cannot be read.
    """
    planner = table.planner(as_of)
    commits = FilesOfCommits(planner.state, archived=archived)
    return rows_to_table(
        ALL_SLICES_SCHEMA,
        (
            _slice_row(history, version, commits)
            for history in FileGroupHistories(planner).of_partitions(partitions)
            for version in history.versions or ((None,) if history.problem else ())
        ),
    )


def inspect_file_group(
    table: HudiTable, file_id: str | None = None, as_of: InstantLike | None = None, *, archived: bool = False
) -> pa.Table:
    """One row per file of a file group, of all times, by slice and in merge order, in ``FILE_GROUP_SCHEMA``.

    ``instant_time`` is that of the write, as far as commits on the active timeline or the name tell. The columns from
    ``action`` on are what the newest commit that names the file says of it.

    Args:
        table: the table.
        file_id: the file group, by default all.
        as_of: as for ``HudiTable.snapshot``.
        archived: whether archived commits tell of files, too.

    Raises:
        QueryError: no partition has such a file group.
        StorageError: as for ``inspect_all_slices``.
    """
    planner = table.planner(as_of)
    commits = FilesOfCommits(planner.state, archived=archived)
    groups = [group for group in FileGroupHistories(planner).of_partitions() if file_id in (None, group.file_id)]
    if not groups and file_id is not None:
        raise QueryError("file group", repr(file_id), "a file id that the table's slices have")
    return rows_to_table(FILE_GROUP_SCHEMA, (row for group in groups for row in _file_rows(group, commits)))


class _CommittedFile(NamedTuple):
    commit: Instant
    operation: str
    stat: WriteStat


class FilesOfCommits:
    """What the commits on the active timeline say of files, and with ``archived`` those of the archive; read once."""

    def __init__(self, state: TableState, *, archived: bool = False) -> None:
        self._state = state
        self._archived = archived

    @cached_property
    def _commits(self) -> Sequence[ReadInstant]:
        older = commits_of_archive(read_archive(self._state)) if self._archived else []
        return (*older, *active_commits(self._state, self._state.timeline.commits()))

    @cached_property
    def by_path(self) -> Mapping[str, _CommittedFile]:
        """The newest write to each file, as far as commits can be read.

        Raises:
            StorageError: the file of a commit cannot be read.
        """
        return {
            stored_path(stat.path): _CommittedFile(read.instant, read.metadata.operation_type, stat)
            for read in self._commits
            if read.metadata is not None
            for stat in read.metadata.write_stats
            if stat.path
        }

    def problem_of(self, times: Iterable[str]) -> str | None:
        """Why what a file's commit says of it is not known, for files of these instants; None if all is."""
        return next((self._problems[time] for time in times if time in self._problems), None)

    @cached_property
    def _problems(self) -> Mapping[str, str]:
        return {read.instant.requested_time: read.problem for read in self._commits if read.problem is not None}


def _slice_row(history: GroupHistory, version: SliceVersion | None, commits: FilesOfCommits) -> Mapping[str, Any]:
    row: dict[str, Any] = {"partition_path": history.partition_path, "file_id": history.file_id or None}
    if version is None:
        return row | {"problem": history.problem}
    part = version.file_slice
    written = [commits.by_path[path] for path in sorted(paths_of(part)) if path in commits.by_path]
    opening = None if part.base_file is None else commits.by_path.get(part.base_file.path)
    return row | {
        "base_instant_time": part.base_instant_time,
        "state": str(version.state),
        "ended_by": version.ended_by,
        "waits_for_cleaner": version.waits_for_cleaner,
        "operation": None if opening is None else opening.operation or None,
        "base_path": None if part.base_file is None else part.base_file.path,
        "base_size_bytes": None if part.base_file is None else part.base_file.size_bytes,
        "log_files": len(part.log_files),
        "log_size_bytes": part.log_size_bytes,
        "log_paths": [log.path for log in part.log_files],
        "rows_written": sum(file.stat.num_writes for file in written) if written else None,
        "committed_size_bytes": sum(file.stat.file_size_bytes for file in written) if written else None,
        "problem": history.problem
        or commits.problem_of((part.base_instant_time, *(log.name.instant_time for log in part.log_files))),
    }


def _file_rows(history: GroupHistory, commits: FilesOfCommits) -> Iterator[Mapping[str, Any]]:
    group: dict[str, Any] = {"partition_path": history.partition_path, "file_id": history.file_id or None}
    if history.problem is not None and not history.versions:
        yield group | {"problem": history.problem}
    for version in history.versions:
        part = version.file_slice
        of_slice = group | {
            "base_instant_time": part.base_instant_time,
            "state": str(version.state),
            "ended_by": version.ended_by,
            "waits_for_cleaner": version.waits_for_cleaner,
            "problem": history.problem,
        }
        if part.base_file is not None:
            base = part.base_file
            yield of_slice | _file_row("base", base.path, base.instant_time, base.size_bytes, commits)
        for log in part.log_files:
            yield of_slice | _file_row("log", log.path, log.name.instant_time, log.size_bytes, commits)
    for log in history.change_files:
        yield group | _file_row("change data", log.path, log.name.instant_time, log.size_bytes, commits)


def _file_row(kind: str, path: str, instant_time: str, size_bytes: int, commits: FilesOfCommits) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": kind, "path": path, "instant_time": instant_time, "size_bytes": size_bytes}
    committed = commits.by_path.get(path)
    if committed is None:
        problem = commits.problem_of((instant_time,))
        return row if problem is None else row | {"problem": problem}
    stat = committed.stat
    return row | {
        "instant_time": committed.commit.requested_time,
        "completion_time": committed.commit.completion_time,
        "action": str(committed.commit.action),
        "operation": committed.operation or None,
        "committed_size_bytes": stat.file_size_bytes,
        "rows_written": stat.num_writes,
        "rows_inserted": stat.num_inserts,
        "rows_updated": stat.num_update_writes,
        "rows_deleted": stat.num_deletes,
    }
