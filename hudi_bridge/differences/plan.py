"""Plans a comparison of two states of a table: the file groups of which rows may differ.

A file group that has the same files in both states has the same rows, unless a commit between the states has written to
its logs: log files of older releases grow, and a slice may have log files of which a state sees no block.
"""

from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

from hudi_bridge.caching import cached_property
from hudi_bridge.changes.commit_writes import later_writes
from hudi_bridge.changes.kept_files import KeptFiles, whole_groups
from hudi_bridge.changes.split import GroupChange
from hudi_bridge.config import QueryType
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.splits.current_files import CurrentFiles
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.read_context import build_read_context
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.time_travel import keeps_file_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferencePlan:
    """The file groups to compare, with their slices in both states.

    ``image`` is the context with the columns of the newer state, by which the slices of both are read.
    """

    image: ReadContext
    groups: tuple[GroupChange, ...]
    unchanged: int
    """The number of file groups that have the same rows in both states."""


def plan_difference(listings: FolderListings, first: TableState, second: TableState) -> DifferencePlan:
    """Plans the comparison of two states of one table; ``listings`` have the files of its newest state.

    Raises:
        InstantNotReadableError: files of one of the states have been cleaned.
        UnsupportedTableError: the table's records cannot be merged correctly.
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    planners = [SplitPlanner(state, listings) for state in (first, second)]
    older, newer = sorted(planners, key=lambda planner: planner.state.instant)
    context_of = partial(build_read_context, newer.state, newer.query_schema, QueryType.SNAPSHOT)
    contexts = [context_of(visible=planner.state) for planner in planners]
    slices = [{(one.partition_path, one.file_id): one for one in _slices(planner)} for planner in planners]
    for planner, known in zip(planners, slices, strict=True):
        _require_all_files(planner, whole_groups(planner.files, known.values()))
    written = _WrittenBetween(older.state, newer.state)
    groups, unchanged = [], 0
    for group in sorted(slices[0].keys() | slices[1].keys()):
        before, after = (known.get(group) for known in slices)
        if before is not None and after is not None and _is_same(before, after, written):
            unchanged += 1
            continue
        splits = [
            _split(planner, piece, context)
            for planner, piece, context in zip(planners, (before, after), contexts, strict=True)
        ]
        if any(splits):
            groups.append(GroupChange(instant=newer.state.instant, before=splits[0], after=splits[1]))
    return DifferencePlan(image=context_of(), groups=tuple(groups), unchanged=unchanged)


def _slices(planner: SplitPlanner) -> Iterator[FileSlice]:
    return planner.file_slices(QueryType.SNAPSHOT)


def _require_all_files(planner: SplitPlanner, whole: Collection[GroupId]) -> None:
    """Raises unless ``whole`` are all file groups of a state."""
    state = planner.state
    later = [commit for commit in state.timeline.commits() if commit.requested_time > state.instant]
    if not later or not keeps_file_versions(state):
        return
    kept = KeptFiles(planner.files, whole, CurrentFiles(planner.files.listings))
    missing = kept.first_that_misses(later_writes(state, later))
    if missing is not None:
        raise InstantNotReadableError(state.instant, "files of that time have been cleaned", missing.time)


def _split(planner: SplitPlanner, piece: FileSlice | None, context: ReadContext) -> RealtimeFileSplit | None:
    if piece is None:
        return None
    split = planner.split(piece, context)
    return split if split.base_path or split.log_paths else None


def _is_same(before: FileSlice, after: FileSlice, written: "_WrittenBetween") -> bool:
    if _files(before) != _files(after):
        return False
    if not before.log_files:
        return True
    return written.groups is not None and (after.partition_path, after.file_id) not in written.groups


def _files(piece: FileSlice) -> tuple[str | None, ...]:
    return (piece.base_file.path if piece.base_file else None, *(log.path for log in piece.log_files))


class _WrittenBetween:
    """The file groups that the commits after one state, but not after the other, have written to."""

    def __init__(self, older: TableState, newer: TableState) -> None:
        self._older = older
        self._newer = newer

    @cached_property
    def groups(self) -> AbstractSet[GroupId] | None:
        """The file groups; None if they are not known, since some of the commits may be archived."""
        older, newer = self._older.instant, self._newer
        if older < newer.timeline_start:
            return None
        commits = [one for one in newer.timeline.commits() if older < one.requested_time <= newer.instant]
        return {group for writes in later_writes(newer, commits) for group in writes.groups}
