"""A range of commits -> the splits that hold the rows which it changed, in their latest state.

Only files that commits of the range have written are read: they are merged with each other as the files of a snapshot
are, and of what results, the rows count whose commit time lies in the range. Compactions and clusterings of the range
bring no rows of their own, since they keep commit times, but they may hold those of the files that they replaced.

What was written before the range takes no part in merging. So a late record is returned although an older row beats it
in a snapshot, and a partial update is returned without the fields that it left out, both as in Hudi.

Where files of the range have been cleaned, or its commits archived, the table as a whole is searched for rows of the
range instead, if the options say so; a row that has changed again since is then not found.

Source: ``MergeOnReadIncrementalRelationV1`` and ``V2``, ``HoodieIncrementalFileIndex``, ``HoodieInputFormatUtils``.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import FIRST_VERSION_OF_1X, QueryType, TableConfig
from hudi_bridge.errors import DataFileGoneError, InstantNotReadableError, UnsupportedTableError
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import build_file_groups, latest_snapshot_slice, view_range
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.read_context import build_read_context
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.threads import map_in_threads
from hudi_bridge.timeline.commit_metadata import CommitMetadata
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time, read_range_metadata
from hudi_bridge.timeline.table_state import TableState

_LISTING_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalPlan:
    """The rows of a table whose commits lie in a range: ``slices`` hold them; ``planner`` is of the newest instant."""

    planner: SplitPlanner
    instants: InstantRange
    context: ReadContext
    slices: tuple[FileSlice, ...]

    @property
    def query_type(self) -> QueryType:
        """The kind of query."""
        return self.context.query_type

    @property
    def instant(self) -> str:
        """The instant as of which the slices are read."""
        return self.context.latest_instant

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as of its newest commit, whatever the range."""
        return self.context.schema

    @property
    def next_after(self) -> str:
        """The ``after`` of the range that begins where this one ends."""
        return self.instants.next_after

    def splits(self, row_filter: pc.Expression | None = None) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass the filter, made one after another."""
        return self.planner.splits_of(self.slices, self.context, row_filter)

    def left_out_log_files(self) -> int:
        """None: the logs of the range are merged in."""
        return 0


def plan_incremental(planner: SplitPlanner, instants: InstantRange) -> IncrementalPlan:
    """The plan of a range; ``planner`` is that of the newest instant. Lists the partitions that the range has touched.

    Raises:
        InstantNotReadableError: files that hold rows of the range are gone, and the options refuse a full scan.
        UnsupportedTableError: the table's rows do not tell their commits.
        CorruptTableError: a file of the timeline is gone or damaged.
    """
    state, config = planner.state, planner.state.config
    if not config.populates_meta_fields:
        raise UnsupportedTableError("incremental query", "a table without meta columns", "tables with commit times")
    metadata = read_range_metadata(state, instants)
    written = _written_files(instants, metadata)
    there = _there(state.storage, written)
    written = {path: replace(one, file=there.get(path, one.file)) for path, one in written.items()}
    slices = _slices(state, instants, metadata, written)
    gone = {path: one for path, one in written.items() if path not in there}
    falls_back = state.options.full_scan_fallback
    if falls_back is None:
        falls_back = config.table_version >= FIRST_VERSION_OF_1X
    if falls_back and (gone or instants.archived):
        visible, slices = state, tuple(planner.file_slices(QueryType.INCREMENTAL))
    else:
        if gone:
            slices = _without_later_logs(state, instants, slices, gone)
            _refuse_gone_files(config, instants, slices, gone)
        visible = state.as_of(instants.last_requested or state.instant)
    context = build_read_context(
        state,
        planner.query_schema,
        QueryType.INCREMENTAL,
        visible=visible,
        commit_times=instants.commit_times,
    )
    return IncrementalPlan(planner=planner, instants=instants, context=context, slices=slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A file of the range, and the commit that wrote to it last."""

    partition_path: str
    file: FileInfo
    commit_time: str


def _written_files(instants: InstantRange, metadata: Mapping[str, CommitMetadata]) -> dict[str, _Written]:
    return {
        stat.path: _Written(
            partition_path=stat.partition_path,
            file=FileInfo(path=stat.path, size_bytes=stat.file_size_bytes, is_dir=False),
            commit_time=commit.requested_time,
        )
        for commit in instants.commits
        if commit.requested_time in metadata
        for stat in metadata[commit.requested_time].write_stats
        if stat.path
    }


def _slices(
    state: TableState,
    instants: InstantRange,
    metadata: Mapping[str, CommitMetadata],
    written: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The newest slice of each file group that the range has touched and not replaced, made of files of the range."""
    completion_times = {commit.requested_time: commit.completion_time for commit in instants.commits}
    timeline = view_range(state, instants.last_requested or "", completion_times, metadata)
    files: dict[str, list[FileInfo]] = defaultdict(list)
    for one in written.values():
        files[one.partition_path].append(one.file)
    groups = (group for path in sorted(files) for group in build_file_groups(path, files[path], timeline))
    latest = (latest_snapshot_slice(group, timeline) for group in groups)
    return tuple(piece for piece in latest if piece is not None)


def _there(storage: Storage, written: Mapping[str, _Written]) -> dict[str, FileInfo]:
    """The files in the folders that were written to, by their paths, as they are now: logs may have grown since."""
    folders = sorted({path.rpartition("/")[0] for path in written})
    listings = map_in_threads(storage.list_directory, folders, _LISTING_THREADS)
    return {info.path: info for listing in listings for info in listing}


def _without_later_logs(
    state: TableState,
    instants: InstantRange,
    slices: tuple[FileSlice, ...],
    gone: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The slices without log files that Hudi does not come to: releases before 1.0 end at a block of a later write."""
    if state.config.written_by_1x:
        return slices
    end = instants.last_requested or ""
    return tuple(
        replace(piece, log_files=piece.log_files[: _count_up_to(state.storage, piece, end, gone)])
        if any(log.path in gone for log in piece.log_files)
        else piece
        for piece in slices
    )


def _count_up_to(storage: Storage, piece: FileSlice, end: str, gone: Mapping[str, _Written]) -> int:
    for count, log in enumerate(piece.log_files, start=1):
        if log.path in gone:
            break
        try:
            blocks = scan_blocks(storage.read_buffer(log.path), log.path).blocks
        except FileNotFoundError as error:
            raise DataFileGoneError(log.path, end, None) from error
        if any((block.instant_time or "") > end for block in blocks):
            return count
    return len(piece.log_files)


def _refuse_gone_files(
    config: TableConfig, instants: InstantRange, slices: tuple[FileSlice, ...], gone: Mapping[str, _Written]
) -> None:
    missing = {gone[path].commit_time for piece in slices for path in _paths(piece) if path in gone}
    if missing:
        # The commits of a range are in its order.
        last = [commit for commit in instants.commits if commit.requested_time in missing][-1]
        reason = f"files of the commit {last.requested_time} are gone"
        raise InstantNotReadableError(instants.after, reason, ordering_time(last, config), "after")


def _paths(piece: FileSlice) -> Iterator[str]:
    if piece.base_file is not None:
        yield piece.base_file.path
    for log in piece.log_files:
        yield log.path
