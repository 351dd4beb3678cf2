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
from hudi_bridge.options import ReadOptions
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import TimelineFacts, build_file_groups, latest_snapshot_slice
from hudi_bridge.splits.partitions import matching_partitions
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.threads import map_in_threads
from hudi_bridge.timeline.commit_metadata import CommitMetadata
from hudi_bridge.timeline.instant_range import InstantRange, place_of, read_range_metadata
from hudi_bridge.timeline.plans import read_pending_compactions
from hudi_bridge.timeline.timeline import Timeline

_LISTING_THREADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalPlan:
    """The rows of a table whose commits lie in a range: ``slices`` hold them; ``planner`` is of the newest instant."""

    storage: Storage
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

    def splits(self, row_filter: pc.Expression | None = None) -> tuple[RealtimeFileSplit, ...]:
        """The splits whose rows may pass the filter."""
        paths = dict.fromkeys(piece.partition_path for piece in self.slices)
        values = {path: self.planner.partition_values(path, self.context) for path in paths}
        kept = set(matching_partitions(self.storage, self.schema, row_filter, values))
        return tuple(self.planner.split(piece, self.context) for piece in self.slices if piece.partition_path in kept)

    def iter_splits(self, row_filter: pc.Expression | None = None) -> Iterator[RealtimeFileSplit]:
        """The same splits, one after another."""
        return iter(self.splits(row_filter))

    def left_out_log_files(self) -> int:
        """None: the logs of the range are merged in."""
        return 0


def plan_incremental(
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    planner: SplitPlanner,
    instants: InstantRange,
    options: ReadOptions,
) -> IncrementalPlan:
    """The plan of a range; ``planner`` is that of the newest instant. Lists the partitions that the range has touched.

    Raises:
        InstantNotReadableError: files that hold rows of the range are gone, and the options refuse a full scan.
        UnsupportedTableError: the table's rows do not tell their commits.
        CorruptTableError: a file of the timeline is gone or damaged.
    """
    if not config.populates_meta_fields:
        raise UnsupportedTableError("incremental query", "a table without meta columns", "tables with commit times")
    metadata = read_range_metadata(storage, config, instants)
    written = _written_files(instants, metadata)
    there = _there(storage, written)
    written = {path: replace(one, file=there.get(path, one.file)) for path, one in written.items()}
    slices = _slices(storage, config, timeline, instants, metadata, written)
    context = replace(
        planner.context(QueryType.INCREMENTAL),
        commit_times=instants.commit_times,
        # Hudi 1.x leaves out older base rows when it reads them, releases before only after merging.
        meets_commit_times_only=config.written_by_1x,
    )
    gone = {path: one for path, one in written.items() if path not in there}
    falls_back = options.full_scan_fallback
    if falls_back is None:
        falls_back = config.table_version >= FIRST_VERSION_OF_1X
    if falls_back and (gone or instants.archived):
        slices = planner.file_slices(QueryType.INCREMENTAL)
    else:
        if gone:
            slices = _without_later_logs(storage, config, instants, slices, gone)
            _refuse_gone_files(config, instants, slices, gone)
        context = replace(context, latest_instant=instants.last_requested or planner.query_instant)
    return IncrementalPlan(storage=storage, planner=planner, instants=instants, context=context, slices=slices)


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
    storage: Storage,
    config: TableConfig,
    timeline: Timeline,
    instants: InstantRange,
    metadata: Mapping[str, CommitMetadata],
    written: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The newest slice of each file group that the range has touched and not replaced, made of files of the range."""
    completion_times = {commit.requested_time: commit.completion_time for commit in instants.commits}
    facts = TimelineFacts(
        logs_name_their_own_instant=config.table_version >= FIRST_VERSION_OF_1X,
        query_instant=instants.last_requested or "",
        is_committed=timeline.is_committed,
        completion_time_of=completion_times.get,
        pending_compactions=read_pending_compactions(storage, config, timeline),
        replaced={
            (partition_path, file_id): commit_time
            for commit_time, commit in metadata.items()
            for partition_path, file_ids in commit.replaced_file_ids
            for file_id in file_ids
        },
    )
    files: dict[str, list[FileInfo]] = defaultdict(list)
    for one in written.values():
        files[one.partition_path].append(one.file)
    groups = (group for path in sorted(files) for group in build_file_groups(path, files[path], facts))
    latest = (latest_snapshot_slice(group, facts) for group in groups)
    return tuple(piece for piece in latest if piece is not None)


def _there(storage: Storage, written: Mapping[str, _Written]) -> dict[str, FileInfo]:
    """The files in the folders that were written to, by their paths, as they are now: logs may have grown since."""
    folders = sorted({path.rpartition("/")[0] for path in written})
    listings = map_in_threads(storage.list_directory, folders, _LISTING_THREADS)
    return {info.path: info for listing in listings for info in listing}


def _without_later_logs(
    storage: Storage,
    config: TableConfig,
    instants: InstantRange,
    slices: tuple[FileSlice, ...],
    gone: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The slices without log files that Hudi does not come to: releases before 1.0 end at a block of a later write."""
    if config.written_by_1x:
        return slices
    end = instants.last_requested or ""
    return tuple(
        replace(piece, log_files=piece.log_files[: _count_up_to(storage, piece, end, gone)])
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
        # The commits are in the order of their places.
        last = [commit for commit in instants.commits if commit.requested_time in missing][-1]
        reason = f"files of the commit {last.requested_time} are gone"
        raise InstantNotReadableError(instants.after, reason, place_of(last, config), "after")


def _paths(piece: FileSlice) -> Iterator[str]:
    if piece.base_file is not None:
        yield piece.base_file.path
    for log in piece.log_files:
        yield log.path
