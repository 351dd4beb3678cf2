"""Plans an incremental query: the rows changed by a range of commits, in their latest state.

Only files written by the range are read. They are merged as in a snapshot; then rows with a commit time outside the
range are dropped. Compactions and clusterings keep commit times, so their files may hold rows of the range.

As in Hudi, rows from before the range are not merged in. So a late record is returned even if an older row wins over
it in a snapshot, and a partial update lacks the fields that it left out.

Source: ``MergeOnReadIncrementalRelationV1`` and ``V2``, ``HoodieIncrementalFileIndex``, ``HoodieInputFormatUtils``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType, TableConfig, TableType
from hudi_bridge.errors import (
    CorruptTimelineError,
    DataFileGoneError,
    InstantNotReadableError,
    UnsupportedTableError,
)
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.splits.committed_files import NamedFile, is_log, paths_in, refuse_lacking
from hudi_bridge.splits.file_slice import FileSlice, instant_of, is_data_file
from hudi_bridge.splits.file_system_view import build_file_groups, latest_snapshot_slice, view_range
from hudi_bridge.splits.notes import COMMITS, FileSource, PlanNotes
from hudi_bridge.splits.planner import SplitPlanner, build_read_context
from hudi_bridge.splits.query_schema import QuerySchema, read_query_schema
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit, with_completion_times
from hudi_bridge.splits.table_files import CurrentFiles
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.history import completion_times
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_files import CommitMetadata, read_all_commit_metadata
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time, read_range_metadata, require_archived
from hudi_bridge.timeline.timeline import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalPlan:
    """The plan of an incremental query; ``slices`` hold its rows, ``planner`` is for the newest instant."""

    planner: SplitPlanner
    instants: InstantRange
    context: ReadContext
    slices: tuple[FileSlice, ...]
    found_by: FileSource

    @property
    def query_type(self) -> QueryType:
        """The kind of query."""
        return self.context.query_type

    @property
    def instant(self) -> str:
        """The instant at which the slices are read."""
        return self.context.latest_instant

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as of its newest commit or, if an option is set, as of the end of the range."""
        return self.context.schema

    @property
    def next_after(self) -> str:
        """The ``after`` of the following range."""
        return self.instants.next_after

    def splits(
        self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass the filter, made one at a time."""
        return self.planner.splits_of(self.slices, self.context, row_filter, notes)

    def left_out_log_files(self) -> int:
        """Always 0: the logs of the range are merged in."""
        return 0


def plan_incremental(planner: SplitPlanner, instants: InstantRange) -> IncrementalPlan:
    """Plans a range with the ``planner`` of the newest instant; finds the files of partitions that it has written to.

    A full scan, if the options allow it, finds no rows that have changed again since the range.

    Raises:
        InstantNotReadableError: files with rows of the range no longer exist, and the options do not allow a full scan.
        UnsupportedTableError: the table has no meta columns, so its rows have no commit times.
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    state, config = planner.state, planner.state.config
    _require_table_with_commit_times(config)
    metadata = read_range_metadata(state, instants)
    written = _written_files(instants, metadata)
    _require_names_of_data_files(written)
    files = CurrentFiles(planner.files.listings.anew())
    files.expect(written)
    require_commits_of_files(state, instants, files)
    # Logs may have grown since.
    current = {path: info for path in written if (info := files.get(path)) is not None}
    named = {path: NamedFile(file.file.size_bytes, file.commit_time) for path, file in written.items()}
    written = {path: replace(file, file=current.get(path, file.file)) for path, file in written.items()}
    slices = _slices(state, instants, metadata, written)
    missing = {path: file for path, file in written.items() if path not in current}
    found_by = FileSource(name=COMMITS, why_not_metadata_table=None)
    falls_back = state.options.full_scan_fallback
    if falls_back is None:
        falls_back = not config.ranges_by_request
    if falls_back and (missing or instants.archived):
        visible, slices = state, tuple(planner.file_slices(QueryType.INCREMENTAL))
        found_by = planner.files.found_by
    else:
        if missing:
            slices = _without_later_logs(state, instants, slices, missing)
            _require_files(config, instants, slices, missing)
        _require_sizes(state, slices, named, current)
        visible = state.as_of(instants.last_requested or state.instant)
    _require_commit_times(slices)
    context = build_read_context(
        state,
        _query_schema(planner, instants),
        QueryType.INCREMENTAL,
        visible=visible,
        commit_times=instants.commit_times,
    )
    if state.options.completion_times:
        context = with_completion_times(context, completion_times(state, instants.commits))
    return IncrementalPlan(planner=planner, instants=instants, context=context, slices=slices, found_by=found_by)


def _query_schema(planner: SplitPlanner, instants: InstantRange) -> QuerySchema:
    """The columns of the newest commit, or of the range's last one if an option is set and the release supports it."""
    state, config = planner.state, planner.state.config
    follows = config.table_type is TableType.COPY_ON_WRITE and config.rules.cow_ranges_may_end_in_old_schema
    if state.options.end_schema and follows and instants.last_requested is not None:
        return read_query_schema(state.as_of(instants.last_requested))
    return planner.query_schema


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    """A file written by the range, and the last commit that wrote to it."""

    partition_path: str
    file: FileInfo
    commit_time: str


def _require_table_with_commit_times(config: TableConfig) -> None:
    if config.rows_tell_commits:
        return
    actual = "a table without meta columns"
    if config.meta_fields.is_selective:
        actual = f"a {config.table_type} table of hoodie.meta.fields.mode={config.meta_fields}"
    raise UnsupportedTableError("incremental query", actual, "tables with commit times")


def _require_commit_times(slices: Iterable[FileSlice]) -> None:
    external = next((file_slice.base_file for file_slice in slices if file_slice.is_external), None)
    if external is not None:
        actual = f"the external file {external.path}, whose rows have no commit times"
        raise UnsupportedTableError("incremental query", actual, "files that Hudi has written")


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


def _require_names_of_data_files(written: Mapping[str, _Written]) -> None:
    # Files of other kinds are left out of slices, and a file that a commit has written must not be.
    for path, entry in written.items():
        if not is_data_file(path):
            path_of_commit, expected = f"commit {entry.commit_time}", "the path of a base file or a log file"
            raise CorruptTimelineError(path_of_commit, None, f"the path {path!r} of a file that it wrote", expected)


def _slices(
    state: TableState,
    instants: InstantRange,
    metadata: Mapping[str, CommitMetadata],
    written: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The newest slice, of files of the range, of each file group that the range wrote to and did not replace."""
    completion_times = {commit.requested_time: commit.completion_time for commit in instants.commits}
    by_time = {**_replacing_before(state, instants), **metadata}
    replaced = {time: replace_commit.replaced_file_ids for time, replace_commit in by_time.items()}
    timeline = view_range(state, instants.last_requested or "", completion_times, replaced)
    files: dict[str, list[FileInfo]] = defaultdict(list)
    for entry in written.values():
        files[entry.partition_path].append(entry.file)
    groups = (group for path in sorted(files) for group in build_file_groups(path, files[path], timeline))
    latest = (latest_snapshot_slice(group, timeline) for group in groups)
    return tuple(file_slice for file_slice in latest if file_slice is not None)


def _replacing_before(state: TableState, instants: InstantRange) -> dict[str, CommitMetadata]:
    """The metadata of the replace commits before the range: writers may still have written into replaced file groups.

    Ranges of requested times ignore them in all releases (``MergeOnReadIncrementalRelationV1``).
    """
    has_all = not state.config.ranges_by_request and state.config.rules.ranges_know_earlier_replacements
    if not instants.commits or not has_all:
        return {}
    begin = instants.ordering_times[0]
    commits = [commit for commit in state.timeline.commits() if commit.action is Action.REPLACE_COMMIT]
    earlier = [commit for commit in commits if ordering_time(commit, state.config) < begin]
    metadata = read_all_commit_metadata(state, earlier)
    return {commit.requested_time: replacing for commit, replacing in zip(earlier, metadata, strict=True)}


def require_commits_of_files(state: TableState, instants: InstantRange, files: Iterable[str]) -> None:
    """Requires that an archive knows the commits of files, if it should have any of the range.

    Raises:
        InstantNotReadableError: it knows none of the range, and files name one.
        CorruptTableError: the archived timeline is damaged.
    """
    start = state.timeline.start
    if start is None or instants.after >= start or instants.archived:
        return
    named = ((instant_of(path), f"which wrote {path}") for path in files)
    require_archived(state, instants, ((time, reason) for time, reason in named if time is not None))


def _without_later_logs(
    state: TableState,
    instants: InstantRange,
    slices: tuple[FileSlice, ...],
    missing: Mapping[str, _Written],
) -> tuple[FileSlice, ...]:
    """The slices without log files that the release does not read if it stops at the first block of a later write."""
    if not state.config.rules.ranges_stop_at_later_blocks:
        return slices
    end = instants.last_requested or ""
    return tuple(
        replace(file_slice, log_files=file_slice.log_files[: _log_count_up_to(state.storage, file_slice, end, missing)])
        if any(log.path in missing for log in file_slice.log_files)
        else file_slice
        for file_slice in slices
    )


def _log_count_up_to(storage: Storage, file_slice: FileSlice, end: str, missing: Mapping[str, _Written]) -> int:
    for count, log in enumerate(file_slice.log_files, start=1):
        if log.path in missing:
            break
        try:
            blocks = scan_blocks(storage.read_buffer(log.path), log.path).blocks
        except FileNotFoundError as error:
            raise DataFileGoneError(log.path, end, None) from error
        if any((block.instant_time or "") > end for block in blocks):
            return count
    return len(file_slice.log_files)


def _require_files(
    config: TableConfig, instants: InstantRange, slices: tuple[FileSlice, ...], missing: Mapping[str, _Written]
) -> None:
    commit_times = {
        missing[path].commit_time for file_slice in slices for path in paths_in(file_slice) if path in missing
    }
    if commit_times:
        last = [commit for commit in instants.commits if commit.requested_time in commit_times][-1]
        reason = f"files of the commit {last.requested_time} are gone"
        raise InstantNotReadableError(instants.after, reason, ordering_time(last, config), "after")


def _require_sizes(
    state: TableState,
    slices: Iterable[FileSlice],
    named: Mapping[str, NamedFile],
    current: Mapping[str, FileInfo],
) -> None:
    for path in (path for file_slice in slices for path in paths_in(file_slice)):
        info = current.get(path)
        if info is not None and info.size_bytes < named[path].size_bytes and is_log(path):
            refuse_lacking(state, path, named[path], info)
