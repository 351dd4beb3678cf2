"""The file slices of a partition that a query sees, from the partition's files and the timeline.

A base file opens a slice at its instant, a pending compaction an empty one at its own. Up to table version 7, a log
file joins the slice of the base instant in its name. From version 8 on, the completion time of its delta commit
decides: a log completed after a compaction was planned is not part of that compaction.

Most groups of a large table have nothing but base files. ``newest_plain_slices`` picks their newest files for many
partitions at once, in Arrow, without an object for each file.

Source: ``HoodieFileGroup`` and ``AbstractTableFileSystemView``.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.file_slice import (
    ASCII_BASE_FILE,
    BaseFile,
    FileGroup,
    FileSlice,
    LogFile,
    LogFileName,
    is_external,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.notes import warn_of_log_of_compaction
from hudi_bridge.storage.storage import FileInfo
from hudi_bridge.timeline.history import load_archived_instants
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_files import (
    GroupId,
    ReplacedFileIds,
    read_all_commit_metadata,
    read_pending_compactions,
)
from hudi_bridge.timeline.timeline import TableState

# Each of a million files asks about the instant in its name, and a table has some thousands of instants at most.
_CACHED_INSTANTS = 4096
_FORMATS = {"parquet": "Parquet", "orc": "ORC", "hfile": "HFile", "lance": "Lance"}
PARTITION, NAME, SIZE = "partition", "name", "size_bytes"
_FIELDS: list[Any] = [pa.field(PARTITION, pa.string()), pa.field(NAME, pa.string()), pa.field(SIZE, pa.int64())]
FILES = pa.schema(_FIELDS)
"""The columns of files: the path of the partition, the name without it, and the size."""
Column: TypeAlias = Any
_Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """A timeline up to the query's instant.

    Attributes:
        pending_compactions: the instant of the pending compaction of a file group.
        replaced: the instant that replaced a file group (clustering, insert overwrite, delete partition).
        base_extension: the extension of base files.
        native_log_formats: the formats of native log files, in Hudi's words.
        registers_external: whether a replace commit registered external files.
    """

    logs_name_their_own_instant: bool
    query_instant: str
    is_committed: Callable[[str], bool]
    completion_time_of: Callable[[str], str | None]
    pending_compactions: Mapping[GroupId, str]
    replaced: Mapping[GroupId, str]
    base_extension: str = "parquet"
    native_log_formats: tuple[str, ...] = ()
    registers_external: bool = False


class ViewFiles:
    """The replace commits and compaction plans of a table, each read once for all states that share this object."""

    def __init__(self) -> None:
        self._replaced: dict[str, ReplacedFileIds] = {}
        self._registering: set[str] = set()
        self._compacted: dict[str, tuple[GroupId, ...]] = {}

    def replaced(self, state: TableState) -> Mapping[GroupId, str]:
        """The instant that replaced each file group.

        Raises:
            CorruptTableError: a replace commit is missing or damaged.
        """
        # If several commits replaced a group, the first one counts.
        replacing = [commit for commit in reversed(state.timeline.commits()) if commit.action is Action.REPLACE_COMMIT]
        unknown = [commit for commit in replacing if commit.requested_time not in self._replaced]
        for instant, metadata in zip(unknown, read_all_commit_metadata(state, unknown), strict=True):
            self._replaced[instant.requested_time] = metadata.replaced_file_ids
            if any(is_external(stat.path) for stat in metadata.write_stats):
                self._registering.add(instant.requested_time)
        return _replaced_groups({commit.requested_time: self._replaced[commit.requested_time] for commit in replacing})

    def registers_external(self, state: TableState) -> bool:
        """Whether a replace commit registered external files, after ``replaced`` has read them."""
        return any(state.timeline.is_committed(time) for time in self._registering)

    def pending_compactions(self, state: TableState) -> Mapping[GroupId, str]:
        """The instant of the pending compaction by file group.

        Raises:
            CorruptTableError: a plan is missing or damaged.
        """
        return read_pending_compactions(state, self._compacted)


def view_timeline(state: TableState, files: ViewFiles | None = None) -> TimelineView:
    """The timeline up to the state's instant; reads the plans of pending compactions and the replace commits.

    Raises:
        CorruptTableError: one of these files is missing or damaged.
    """
    files = files or ViewFiles()
    replaced = files.replaced(state)
    return TimelineView(
        logs_name_their_own_instant=state.config.layout.logs_name_their_own_instant,
        native_log_formats=state.config.layout.native_log_formats,
        query_instant=state.instant,
        is_committed=lru_cache(_CACHED_INSTANTS)(state.timeline.is_committed),
        completion_time_of=_CompletionTimes(state).of,
        pending_compactions=files.pending_compactions(state),
        replaced=replaced,
        base_extension=state.config.base_file_format.lower(),
        registers_external=files.registers_external(state),
    )


def view_range(
    state: TableState,
    query_instant: str,
    completion_times: Mapping[str, str | None],
    replaced: Mapping[str, ReplacedFileIds],
) -> TimelineView:
    """The timeline for the files of some commits only, given their completion times and the replaced file groups.

    Raises:
        CorruptTableError: the plan of a pending compaction is missing or damaged.
    """
    return TimelineView(
        logs_name_their_own_instant=state.config.layout.logs_name_their_own_instant,
        native_log_formats=state.config.layout.native_log_formats,
        query_instant=query_instant,
        is_committed=state.timeline.is_committed,
        completion_time_of=completion_times.get,
        pending_compactions=read_pending_compactions(state),
        replaced=_replaced_groups(replaced),
        base_extension=state.config.base_file_format.lower(),
    )


def _replaced_groups(replaced: Mapping[str, ReplacedFileIds]) -> dict[GroupId, str]:
    """The instant that replaced each file group; of several, the last in ``replaced``."""
    return {
        (partition_path, file_id): time
        for time, by_partition in replaced.items()
        for partition_path, file_ids in by_partition
        for file_id in file_ids
    }


class _CompletionTimes:
    """Completion times of writes; reads the archived timeline when it is first needed."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def of(self, instant_time: str) -> str | None:
        return self._state.timeline.completion_time_of(instant_time) or self._archived.get(instant_time)

    @cached_property
    def _archived(self) -> Mapping[str, str]:
        instants = load_archived_instants(self._state)
        return {instant.requested_time: instant.completion_time for instant in instants if instant.completion_time}


def build_file_groups(
    partition_path: str, files: Iterable[FileInfo], timeline: TimelineView, *, with_changes: bool = False
) -> tuple[FileGroup, ...]:
    """The file groups of a partition's files, with slices after the query's instant too; skips files of other kinds.

    External files have the names that commits and the metadata table give them. ``with_changes`` counts files of change
    data as log files.

    Raises:
        CorruptTableError: the name of an external file has no instant, or other folders than its path.
        UnsupportedTableError: a base file has another extension, or a log file is in a format that such tables lack.
    """
    base_files: dict[str, dict[str, BaseFile]] = defaultdict(dict)
    log_files: dict[str, list[LogFile]] = defaultdict(list)
    for info in files:
        if info.is_dir or info.name.endswith(".crc"):
            continue
        base_name = None if info.name.startswith(".") else parse_base_file_name(info.name)
        if base_name is None:
            log_name = parse_log_file_name(info.name)
            if log_name is not None and (with_changes or not log_name.is_cdc):
                _require_log_format(info.path, log_name, timeline)
                log_files[log_name.file_id].append(LogFile(path=info.path, name=log_name, size_bytes=info.size_bytes))
            continue
        if base_name.extension != timeline.base_extension:
            raise UnsupportedTableError(
                "base file format", info.path, f"{_FORMATS[timeline.base_extension]} base files"
            )
        base_files[base_name.file_id][base_name.instant_time] = BaseFile(
            path=stored_path(info.path), instant_time=base_name.instant_time, size_bytes=info.size_bytes
        )
    return tuple(
        _build_file_group((partition_path, file_id), base_files.get(file_id, {}), log_files.get(file_id, []), timeline)
        for file_id in sorted(base_files.keys() | log_files.keys())
    )


def _require_log_format(path: str, name: LogFileName, timeline: TimelineView) -> None:
    formats = timeline.native_log_formats
    if name.file_format and name.file_format.upper() not in formats:
        supported = ", ".join(["log files named .{fileId}_{instant}.log.N", *formats])
        raise UnsupportedTableError("log file", f"native log file {path}", supported)


def _build_file_group(
    group: GroupId, base_files: Mapping[str, BaseFile], log_files: list[LogFile], timeline: TimelineView
) -> FileGroup:
    # From version 8 on, a log must not join a base file whose write never completed.
    opened = {
        instant for instant in base_files if not timeline.logs_name_their_own_instant or timeline.is_committed(instant)
    }
    pending = timeline.pending_compactions.get(group)
    if pending is not None:
        opened.add(pending)
    joinable = sorted(opened)
    if not timeline.logs_name_their_own_instant:
        joinable = [instant for instant in joinable if instant == pending or timeline.is_committed(instant)]
    logs: dict[str, list[LogFile]] = defaultdict(list)
    for log in sorted(log_files, key=lambda log: log.name.sort_key):
        if timeline.logs_name_their_own_instant and not timeline.is_committed(log.name.instant_time):
            # The compaction may have failed after it wrote changes of its own.
            if log.name.instant_time == pending and not log.name.is_cdc:
                warn_of_log_of_compaction(log.path, pending)
            continue
        logs[_slice_key(log, opened, joinable, timeline)].append(log)
    slices = tuple(
        FileSlice(
            partition_path=group[0],
            file_id=group[1],
            base_instant_time=key,
            base_file=base_files.get(key),
            log_files=tuple(logs.get(key, ())),
        )
        for key in sorted(opened | logs.keys())
    )
    return FileGroup(partition_path=group[0], file_id=group[1], slices=slices)


def _slice_key(log: LogFile, opened: AbstractSet[str], joinable: list[str], timeline: TimelineView) -> str:
    """The instant of the slice that a log joins: an existing one, or a new one, which is added to ``joinable``."""
    instant = log.name.instant_time
    if not timeline.logs_name_their_own_instant and instant in opened:
        return instant
    # A downgrade to table version 6 leaves logs that name their own instant, but removes its completion time. Such logs
    # join the newest slice that begins at or before it.
    began_before = bisect_right(joinable, instant)
    if timeline.logs_name_their_own_instant and began_before < len(joinable):
        # The completion time is later than the requested time, so it matters only if a slice begins after the latter.
        # It is looked up only then, since for archived instants that reads the archived timeline.
        began_before = bisect_right(joinable, timeline.completion_time_of(instant) or instant)
    if began_before:
        return joinable[began_before - 1]
    # In a group that began with logs, later logs join the first one until a compaction opens a slice.
    if timeline.is_committed(instant):
        joinable.insert(0, instant)
    return instant


def latest_snapshot_slice(group: FileGroup, timeline: TimelineView) -> FileSlice | None:
    """The slice that a snapshot at the query's instant reads; None if the group is not part of the snapshot.

    A slice opened by a pending compaction is merged with the slice before it: the older base file, and the logs of both
    in the order of their names. So overlapping writes are merged by requested time until the compaction has run, and by
    completion time after it.
    """
    visible = visible_slices(group, timeline)
    if not visible:
        return None
    latest = visible[-1]
    pending = timeline.pending_compactions.get((group.partition_path, group.file_id))
    if latest.base_instant_time == pending:
        before = visible[-2] if len(visible) > 1 else replace(latest, base_file=None, log_files=())
        latest = replace(before, log_files=_merged_in_order(before, latest))
    if timeline.logs_name_their_own_instant and latest.log_files:
        latest = replace(latest, log_files=_logs_up_to_query(latest.log_files, timeline))
    if latest.base_file is None and not latest.log_files:
        return None
    return latest


def latest_read_optimized_slice(group: FileGroup, timeline: TimelineView) -> FileSlice | None:
    """The slice with the newest committed base file at the query's instant, None if there is none.

    The slice keeps its log files, so that a caller can report what a read of the base file leaves out.
    """
    pending = timeline.pending_compactions.get((group.partition_path, group.file_id))
    visible = visible_slices(group, timeline)
    for position in range(len(visible) - 1, -1, -1):
        base = visible[position].base_file
        if base is not None and base.instant_time != pending:
            later = _merged_in_order(*visible[position:])
            if timeline.logs_name_their_own_instant:
                later = _logs_up_to_query(later, timeline)
            return replace(visible[position], log_files=later)
    return None


def visible_slices(group: FileGroup, timeline: TimelineView) -> list[FileSlice]:
    """The slices that were committed by the query's instant, with the one of a pending compaction; none if replaced."""
    replaced = timeline.replaced.get((group.partition_path, group.file_id))
    if replaced is not None and replaced <= timeline.query_instant:
        return []
    pending = timeline.pending_compactions.get((group.partition_path, group.file_id))
    return [
        file_slice
        for file_slice in group.slices
        # A compaction requested after the query's instant may still have logs from before that instant, if their delta
        # commit was requested earlier and completed later.
        if file_slice.base_instant_time == pending
        or (
            file_slice.base_instant_time <= timeline.query_instant
            and timeline.is_committed(file_slice.base_instant_time)
        )
    ]


def _merged_in_order(*slices: FileSlice) -> tuple[LogFile, ...]:
    return tuple(
        sorted((log for file_slice in slices for log in file_slice.log_files), key=lambda log: log.name.sort_key)
    )


def _logs_up_to_query(logs: tuple[LogFile, ...], timeline: TimelineView) -> tuple[LogFile, ...]:
    return tuple(log for log in logs if log.name.instant_time <= timeline.query_instant)


class PlainSlices:
    """File slices that consist of a base file only; the objects are made on demand."""

    def __init__(self, files: pa.Table) -> None:
        """Takes base files that are grouped by partition, and ordered by file id within each."""
        lists: list[list[Any]] = [column.to_pylist() for column in files.columns]
        paths, *columns = lists
        self._columns = columns
        self._rows = {path: slice(start, end) for path, start, end in _adjacent_groups(paths)}

    def of(self, path: str) -> list[FileSlice]:
        """The slices of a partition, ordered by file id."""
        rows = self._rows.get(path)
        if rows is None:
            return []
        prefix = f"{path}/" if path else ""
        return [
            FileSlice(
                partition_path=path,
                file_id=file_id,
                base_instant_time=instant,
                base_file=BaseFile(path=prefix + name, instant_time=instant, size_bytes=size),
                log_files=(),
            )
            for file_id, instant, name, size in zip(*(column[rows] for column in self._columns), strict=True)
        ]


def _adjacent_groups(values: list[str]) -> Iterator[tuple[str, int, int]]:
    """Yields (value, start, end) for each run of equal values."""
    end = 0
    for value, run in groupby(values):
        start, end = end, end + sum(1 for _ in run)
        yield value, start, end


def newest_plain_slices(files: pa.Table, timeline: TimelineView) -> tuple[PlainSlices, pa.Table]:
    """The slices that queries see of groups with only base files, and the files of all other groups.

    ``files`` have the columns of ``FILES`` and are grouped by partition. Groups that were replaced, or have a pending
    compaction, count as others.

    Raises:
        UnsupportedTableError: a log file was written by a later Hudi.
    """
    files = files.combine_chunks()
    parts = pc.extract_regex(files.column(NAME), ASCII_BASE_FILE)
    is_base = pc.equal(pc.struct_field(parts, "extension"), pa.scalar(timeline.base_extension)).fill_null(
        fill_value=False
    )
    is_plain = _flags(is_base)
    marked = {
        *timeline.pending_compactions,
        *timeline.replaced,
        *_groups_of(files.filter(pc.invert(is_base))),
    }
    if marked:
        groups = _joined(files.column(PARTITION), pc.struct_field(parts, "file_id"))
        others = pa.array([f"{path}/{file_id}" for path, file_id in marked], pa.string())
        is_plain &= ~_flags(pc.is_in(groups, value_set=others))
    rest = files.filter(pa.array(~is_plain))
    plain = files
    if len(rest):
        plain, parts = files.filter(pa.array(is_plain)), parts.filter(pa.array(is_plain))
    instants = pc.struct_field(parts, "instant")
    ranks = _ranks_of_visible(instants, timeline)
    columns = pa.table(
        {
            PARTITION: plain.column(PARTITION),
            "file_id": pc.struct_field(parts, "file_id"),
            "instant": instants,
            NAME: plain.column(NAME),
            SIZE: plain.column(SIZE),
        }
    )
    if (ranks < 0).any():
        columns, ranks = columns.filter(pa.array(ranks >= 0)), ranks[ranks >= 0]
    return PlainSlices(_newest(columns, ranks)), rest


def _groups_of(others: pa.Table) -> Iterable[tuple[str, str]]:
    """The groups of the given files, which are not plain base files; files without a group are left out."""
    paths, names = (map(str, others.column(field).to_pylist()) for field in (PARTITION, NAME))
    for path, name in zip(paths, names, strict=True):
        if not name.endswith(".crc"):
            parsed = parse_base_file_name(name) or parse_log_file_name(name)
            if parsed is not None:
                yield path, parsed.file_id


def _ranks_of_visible(instants: Column, timeline: TimelineView) -> npt.NDArray[np.int64]:
    """The rank of each instant in the order of all; -1 if the query does not see it."""
    texts = pc.unique(instants)
    ordered = texts.take(pc.sort_indices(texts))
    visible = [instant <= timeline.query_instant and timeline.is_committed(instant) for instant in ordered.to_pylist()]
    ranks = np.where(np.array(visible, dtype=np.bool_), np.arange(len(ordered)), -1)
    positions: Column = pc.index_in(instants, value_set=ordered)
    ranks_of_instants: npt.NDArray[np.int64] = ranks[positions.to_numpy()]
    return ranks_of_instants


def _newest(files: pa.Table, ranks: npt.NDArray[np.int64]) -> pa.Table:
    """The file of each group with the greatest rank, the last of several, in the order of the groups."""
    if len(files) <= 1:
        return files
    paths, ids = files.column(PARTITION), files.column("file_id")
    same_path = _flags(pc.equal(paths[1:], paths[:-1]))
    if (same_path & _flags(pc.less(ids[1:], ids[:-1]))).any():
        # Names are not always in the order of the ids that they begin with.
        order = pc.sort_indices(files, [(PARTITION, "ascending"), ("file_id", "ascending")])
        files, ranks = files.take(order), ranks[order.to_numpy()]
        paths, ids = files.column(PARTITION), files.column("file_id")
        same_path = _flags(pc.equal(paths[1:], paths[:-1]))
    is_next = same_path & _flags(pc.equal(ids[1:], ids[:-1]))
    if not is_next.any():
        return files
    starts = np.flatnonzero(np.concatenate([[True], ~is_next]))
    greatest = np.maximum.reduceat(ranks * len(files) + np.arange(len(files)), starts)
    return files.take(pa.array(greatest % len(files)))


def _joined(paths: Column, ids: Column) -> Column:
    return pc.binary_join_element_wise(paths, ids, "/")


def _flags(values: Column) -> _Flags:
    flags: _Flags = np.asarray(values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values)
    return flags.astype(np.bool_, copy=False)
