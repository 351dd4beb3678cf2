"""Plans a change query: the splits with the changes of a range of commits.

With change data capture, changes are found for each commit and file group, as in Hudi: in the change data files of the
writer, or else by comparing the slices before and after the commit. Comparing covers every ``HoodieCDCInferenceCase``.

Without it, file groups are compared once, before and after the range, so several changes to a record appear as one.
File groups of a partition are compared together, because a record may have moved between them.

``EarlierStates`` has the states just before and just after a commit. Up to table version 7, a state is a snapshot as of
an instant. From version 8 on, commits that completed after the state are pending in it; if one is a compaction, its
input is read, not its output.

Source: ``HoodieCDCExtractor``.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.split import INSTANT, ChangeFormat, ChangeSplit, GroupChange, change_context
from hudi_bridge.changes.writes import CommitWrites, FilesOfChanges, range_writes, whole_groups
from hudi_bridge.common.caching import cached_property
from hudi_bridge.config import CdcMode, QueryType, TableType
from hudi_bridge.splits.file_system_view import ViewFiles
from hudi_bridge.splits.notes import COMMITS, FileSource, PlanNotes
from hudi_bridge.splits.partitions import matching_partitions
from hudi_bridge.splits.planner import SplitPlanner, build_read_context
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit, with_completion_times
from hudi_bridge.splits.table_files import CurrentFiles, FolderListings
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.history import completion_times
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.instant_files import GroupId, read_commit_metadata
from hudi_bridge.timeline.instant_range import InstantRange, archived_commits, ordering_time
from hudi_bridge.timeline.timeline import TableState

_CACHED_PLANNERS = 2
"""The state after a commit is mostly the state before the next one. Each has its own timeline."""


class EarlierStates:
    """Planners of the states around the commits of a range; shared metadata and listings are read once."""

    def __init__(self, newest: TableState, archived: tuple[Instant, ...], listings: FolderListings) -> None:
        """Prepares states before ``newest``; ``archived`` are the archived commits after the earliest of them.

        ``listings`` of the newest state serve earlier states too, because they contain their files that were not
        removed.
        """
        self._newest = newest
        self._archived = archived
        self._listings = listings
        self._view_files = ViewFiles()
        self._planners: dict[str | int, SplitPlanner] = {}
        self._actions: dict[str, Action] = {}

    def before(self, time: str) -> SplitPlanner:
        """The state before the commit with the given ordering time."""
        return self.up_to(_predecessor(time))

    def up_to(self, last_time: str) -> SplitPlanner:
        """The state after all commits up to and including an ordering time."""
        if not self._newest.config.layout.has_completion_times:
            return self._cached(last_time, lambda: self._planner(last_time, {}))
        return self._cached(bisect_right(self._times, last_time), lambda: self._planner_up_to(last_time))

    def _cached(self, key: str | int, made: Callable[[], SplitPlanner]) -> SplitPlanner:
        if key not in self._planners:
            while len(self._planners) >= _CACHED_PLANNERS:
                del self._planners[next(iter(self._planners))]
            self._planners[key] = made()
        return self._planners[key]

    @cached_property
    def _times(self) -> list[str]:
        """The ordering times of all commits, ascending. States with the same number of earlier commits are equal."""
        commits = (*self._newest.timeline.commits(), *self._archived)
        return sorted(ordering_time(commit, self._newest.config) for commit in commits)

    def _planner_up_to(self, last_time: str) -> SplitPlanner:
        timeline, config = self._newest.timeline, self._newest.config
        hidden = {
            commit.requested_time: commit for commit in timeline.commits() if ordering_time(commit, config) > last_time
        }
        actions = {time: self._pending_action(hidden_instant) for time, hidden_instant in hidden.items()}
        archived = (commit for commit in self._archived if ordering_time(commit, config) > last_time)
        actions |= {commit.requested_time: commit.action for commit in archived}
        visible = [commit.requested_time for commit in timeline.commits() if commit.requested_time not in hidden]
        instant = max(visible) if visible else _predecessor(min(actions, default=last_time))
        return self._planner(instant, actions)

    def _planner(self, instant: str, hidden: Mapping[str, Action]) -> SplitPlanner:
        timeline = self._newest.timeline.without(hidden) if hidden else self._newest.timeline
        state = replace(self._newest, timeline=timeline, instant=instant)
        return SplitPlanner(state, self._listings, view_files=self._view_files)

    def _pending_action(self, commit: Instant) -> Action:
        """The action of a commit while it was pending, by which the plan of a compaction is looked up."""
        if commit.action is not Action.COMMIT or self._newest.config.table_type is TableType.COPY_ON_WRITE:
            return commit.action
        if commit.requested_time not in self._actions:
            metadata = read_commit_metadata(self._newest, commit)
            self._actions[commit.requested_time] = Action.COMPACTION if metadata.is_compaction else commit.action
        return self._actions[commit.requested_time]


def _predecessor(instant: str) -> str:
    """The latest possible time before an instant."""
    return str(int(instant) - 1).zfill(len(instant)) if instant.strip("0") else instant


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePlan:
    """The plan of a change query; ``image`` is the context with which the slices are read."""

    storage: Storage
    instants: InstantRange
    image: ReadContext
    change_format: ChangeFormat
    changes: tuple[ChangeSplit, ...]

    @property
    def query_type(self) -> QueryType:
        """The kind of query."""
        return QueryType.CHANGES

    @property
    def instant(self) -> str:
        """The newest instant whose changes are returned."""
        return self.instants.last_requested or self.instants.after

    @property
    def schema(self) -> pa.Schema:
        """The columns of changes; images have the columns of the table as of its newest commit, for every range."""
        return change_context(self.image, self.change_format).schema

    @property
    def context(self) -> ReadContext:
        """The context with which the slices are read."""
        return self.image

    @property
    def next_after(self) -> str:
        """The ``after`` of the following range."""
        return self.instants.next_after

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found."""
        return FileSource(name=COMMITS, why_not_metadata_table=None)

    def splits(self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None) -> Iterator[ChangeSplit]:
        """The splits whose changes may pass the filter, by their instants; ``notes`` are not used."""
        del notes
        instants = {
            time: ((INSTANT, pa.scalar(time, pa.string())),)
            for split in self.changes
            if split.commit_times is not None and len(split.commit_times) == 1
            for time in split.commit_times
        }
        ruled_out = set(instants).difference(matching_partitions(self.storage, self.schema, row_filter, instants))
        return (
            split
            for split in self.changes
            if split.commit_times is None or not ruled_out.issuperset(split.commit_times)
        )

    def left_out_log_files(self) -> int:
        """Always 0: the logs of the range are merged in."""
        return 0


def plan_changes(planner: SplitPlanner, instants: InstantRange, change_format: ChangeFormat) -> ChangePlan:
    """Plans a range with the ``planner`` of the newest instant; lists the partitions that the range has written to.

    Raises:
        InstantNotReadableError: files of the range, or of the state before it, no longer exist.
        UnsupportedTableError: the table's records cannot be merged correctly.
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    state = planner.state
    image = _as_images(planner.context(QueryType.CHANGES), planner, change_format)
    if state.options.completion_times:
        times = completion_times(state, instants.commits)
        image = replace(with_completion_times(image, times), schema=image.schema)
    if not image.populates_meta_fields and not image.record_key_fields:
        # Rows are compared by record key; this raises.
        _ = image.key_columns
    archived = archived_commits(state, instants.after)
    # Each folder is listed once.
    listings = planner.files.listings.anew()
    planning = _Planning(
        newest=planner,
        instants=instants,
        image=image,
        change_format=change_format,
        states=EarlierStates(state, archived, listings),
        files=FilesOfChanges(state, instants, archived, CurrentFiles(listings)),
    )
    if state.config.cdc_enabled:
        writes = range_writes(state, instants)
        planning.files.require_metadata(writes)
        changes = tuple(split for commit in writes if commit.changes_records for split in planning.step(commit))
    elif instants.begins_with_table:
        changes = tuple(planning.first_rows())
    else:
        writes = range_writes(state, instants)
        planning.files.require_metadata(writes)
        changes = tuple(planning.compared(writes))
    return ChangePlan(
        storage=state.storage, instants=instants, image=image, change_format=change_format, changes=changes
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planning:
    """Makes the splits of a range; ``newest`` plans the state as of the newest commit.

    ``contexts`` has the contexts of the states whose planners are cached.
    """

    newest: SplitPlanner
    instants: InstantRange
    image: ReadContext
    change_format: ChangeFormat
    states: EarlierStates
    files: FilesOfChanges
    contexts: WeakKeyDictionary[SplitPlanner, ReadContext] = field(default_factory=WeakKeyDictionary)

    def step(self, commit: CommitWrites) -> Iterator[ChangeSplit]:
        """The changes of one commit to a table with change data capture."""
        logged = {group: paths for group in commit.groups if (paths := commit.cdc_paths(group))}
        self.files.require_files(commit, [path for paths in logged.values() for path in paths])
        compared = [group for group in commit.touched if group not in logged]
        before_of = [*compared, *(logged if self.newest.state.config.cdc_mode is CdcMode.OP_KEY_ONLY else ())]
        after_of = [*compared, *(logged if self.newest.state.config.cdc_mode is not CdcMode.DATA_BEFORE_AFTER else ())]
        earlier, later = self.states.before(commit.ordering_time), self.states.up_to(commit.ordering_time)
        before = self._slices(earlier, before_of) if before_of else {}
        after = self._slices(later, after_of) if after_of else {}
        self.files.require_state_before(commit, before_of, earlier.files, before)
        self.files.require_files(commit, [path for group in after_of for path in commit.paths(group)])
        for group in commit.touched:
            change = GroupChange(
                instant=commit.time,
                before=before.get(group),
                after=after.get(group),
                cdc_paths=logged.get(group, ()),
            )
            if change.cdc_paths or change.slices:
                yield self._split((change,), frozenset([commit.time]))

    def compared(self, writes: tuple[CommitWrites, ...]) -> Iterator[ChangeSplit]:
        """The net changes of all commits."""
        touched = _touched_groups(writes)
        if not touched:
            return
        earlier, later = self.states.up_to(self.instants.after), self.states.up_to(self.instants.next_after)
        before, after = self._slices(earlier, touched), self._slices(later, touched)
        self.files.require_end(later.files, after, touched)
        seen: set[GroupId] = set()
        for commit in writes:
            new = [group for group in commit.touched if group in touched and group not in seen]
            self.files.require_state_before(commit, new, earlier.files, before)
            seen.update(new)
        changing = [commit for commit in writes if commit.changes_records]
        instants = dict.fromkeys(touched, changing[-1].time)
        instants |= {group: commit.time for commit in changing for group in commit.touched}
        groups = (
            GroupChange(instant=instants[group], before=before.get(group), after=after.get(group))
            for group in sorted(touched)
        )
        # In older releases a clustering sets the commit time of the records that it moves, which is not a change.
        yield from self._by_partition(groups, frozenset(commit.time for commit in changing))

    def first_rows(self) -> Iterator[ChangeSplit]:
        """The changes of a range that starts with the table: every row at its end is an insert.

        Rows name their commits, of which the archive may have lost some.
        """
        if not self.instants.commits:
            return
        planner = self.states.up_to(self.instants.next_after)
        last = self.instants.commits[-1].requested_time
        context = self._context(planner)
        slices = list(planner.file_slices(QueryType.SNAPSHOT))
        self.files.require_end(planner.files, whole_groups(planner.files, slices))
        groups = (
            GroupChange(instant=last, before=None, after=planner.split(file_slice, context)) for file_slice in slices
        )
        yield from self._by_partition(groups, None)

    def _slices(self, planner: SplitPlanner, groups: Iterable[GroupId]) -> Mapping[GroupId, RealtimeFileSplit]:
        context = self._context(planner)
        slices = planner.files.slices_of(groups)
        whole = whole_groups(planner.files, slices.values())
        splits = {group: planner.split(slices[group], context) for group in slices if group in whole}
        return {group: split for group, split in splits.items() if split.base_path or split.log_paths}

    def _context(self, planner: SplitPlanner) -> ReadContext:
        """The context for slices of a state; images of all states have the newest columns."""
        context = self.contexts.get(planner)
        if context is None:
            state = self.newest.state
            context = build_read_context(state, self.newest.query_schema, QueryType.CHANGES, visible=planner.state)
            context = self.contexts[planner] = _as_images(context, self.newest, self.change_format)
        return context

    def _by_partition(
        self, groups: Iterable[GroupChange], commit_times: frozenset[str] | None
    ) -> Iterator[ChangeSplit]:
        partitions: dict[str, list[GroupChange]] = defaultdict(list)
        for group in groups:
            if group.slices:
                partitions[group.slices[0].partition_path].append(group)
        for path in sorted(partitions):
            yield self._split(tuple(partitions[path]), commit_times)

    def _split(self, groups: tuple[GroupChange, ...], commit_times: frozenset[str] | None) -> ChangeSplit:
        return ChangeSplit(
            image=self.image,
            change_format=self.change_format,
            commit_times=commit_times,
            digits=not self.newest.state.config.cdc_enabled,
            groups=groups,
        )


def _as_images(context: ReadContext, newest: SplitPlanner, change_format: ChangeFormat) -> ReadContext:
    """The context for images in JSON: Hudi reads partition columns from the files, where inserts may have dropped them.

    They have the table's types there, also those that other queries return as text. Files that a table was
    bootstrapped from may lack them, and Hudi has no images of tables without change data.

    Source: ``CDCFileGroupIterator``, which opens files without partition values.
    """
    config = newest.state.config
    reads_files = change_format is ChangeFormat.CDC and config.cdc_enabled and config.bootstrap_base_path is None
    return replace(context, path_columns=(), schema=newest.query_schema.arrow) if reads_files else context


def _touched_groups(writes: tuple[CommitWrites, ...]) -> set[GroupId]:
    """The file groups that writes have changed, and file groups that clusterings connect with them."""
    touched = {group for commit in writes if commit.changes_records for group in commit.touched}
    clusterings = [set(commit.touched) for commit in writes if commit.is_clustering]
    while connected := [groups for groups in clusterings if not groups.isdisjoint(touched)]:
        touched.update(*connected)
        clusterings = [groups for groups in clusterings if groups not in connected]
    return touched
