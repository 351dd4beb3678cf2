"""The writes of the commits of a range, and checks that the files with their changes still exist.

A cleaner removes whole slices, and replaced file groups. It leaves the slices of retained commits and the newest slice
before them in each file group; a cleaner that counts file versions does not record which commits it has retained.
Removed slices are detected by the next write to the file group, which records whether there was a slice before, and its
base file.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.incremental import require_commits_of_files
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.splits.table_files import CurrentFiles, TableFiles
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.instant_files import CommitMetadata, GroupId, WriteStat, read_all_commit_metadata
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time, read_range_metadata
from hudi_bridge.timeline.time_travel import earliest_readable_instant, keeps_file_versions
from hudi_bridge.timeline.timeline import TableState

_CLUSTERING = "CLUSTER"
_TABLE_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA", _CLUSTERING})
"""The operations that change no record."""


@dataclass(frozen=True, kw_only=True)
class CommitWrites:
    """The writes of one commit: its requested time, ordering time and metadata."""

    time: str
    ordering_time: str
    metadata: CommitMetadata

    @property
    def is_clustering(self) -> bool:
        """Whether the commit is a clustering, which only moves records between file groups."""
        return self.metadata.operation_type == _CLUSTERING

    @property
    def changes_records(self) -> bool:
        """Whether the commit is by a writer rather than a table service."""
        return not (self.metadata.is_compaction or self.metadata.operation_type in _TABLE_SERVICES)

    @cached_property
    def groups(self) -> Mapping[GroupId, tuple[WriteStat, ...]]:
        """The file groups that the commit has written to."""
        groups: dict[GroupId, tuple[WriteStat, ...]] = defaultdict(tuple)
        for stat in self.metadata.write_stats:
            groups[stat.partition_path, stat.file_id] += (stat,)
        return dict(groups)

    @cached_property
    def touched(self) -> tuple[GroupId, ...]:
        """The file groups that the commit has written to or replaced."""
        replaced = ((path, file_id) for path, file_ids in self.metadata.replaced_file_ids for file_id in file_ids)
        return tuple(dict.fromkeys((*self.groups, *replaced)))

    def creates(self, group: GroupId) -> bool:
        """Whether the commit has written to a file group that was empty before."""
        stats = self.groups.get(group, ())
        return bool(stats) and not any(stat.prev_commit for stat in stats)

    def paths(self, group: GroupId) -> tuple[str, ...]:
        """The base and log files that the commit has written in a file group."""
        return tuple(stat.path for stat in self.groups.get(group, ()) if stat.path)

    def cdc_paths(self, group: GroupId) -> tuple[str, ...]:
        """The change data files that the commit has written in a file group."""
        return tuple(path for stat in self.groups.get(group, ()) for path, _ in stat.cdc_stats)


def range_writes(state: TableState, instants: InstantRange) -> tuple[CommitWrites, ...]:
    """The writes of a range's commits, in the order of the range, without commits whose metadata is lost.

    Raises:
        CorruptTableError: a file of the active or archived timeline is missing or damaged.
    """
    metadata = read_range_metadata(state, instants)
    active = [commit for commit in instants.commits if commit.requested_time in metadata]
    return tuple(_writes(state, commit, metadata[commit.requested_time]) for commit in active)


def later_writes(state: TableState, commits: Iterable[Instant]) -> tuple[CommitWrites, ...]:
    """The writes of commits on the active timeline, in their order.

    Raises:
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    listed = list(commits)
    metadata = read_all_commit_metadata(state, listed)
    return tuple(
        _writes(state, commit, commit_metadata) for commit, commit_metadata in zip(listed, metadata, strict=True)
    )


def _writes(state: TableState, commit: Instant, metadata: CommitMetadata) -> CommitWrites:
    time = commit.requested_time
    return CommitWrites(time=time, ordering_time=ordering_time(commit, state.config), metadata=metadata)


class CleanedFiles:
    """Detects file groups of a state that have been cleaned.

    ``state`` has the files of the state, ``whole`` its file groups with a complete slice, ``files`` the existing files.
    """

    def __init__(self, state: TableFiles, whole: Collection[GroupId], files: CurrentFiles) -> None:
        self._state = state
        self._whole = whole
        self._files = files

    def are_missed(self, commit: CommitWrites, groups: Iterable[GroupId]) -> bool:
        """Whether a file group that the commit has written to or replaced lacks the slice from before the commit."""
        stats = {group: commit.groups.get(group, ()) for group in groups}
        # In a file group of logs alone, every write is recorded as the first.
        written = {
            group: group_stats
            for group, group_stats in stats.items()
            if not group_stats or any(stat.prev_commit not in (None, commit.time) for stat in group_stats)
        }
        bases = [_base_path(stat) for group_stats in written.values() for stat in group_stats if stat.base_file]
        self._files.expect(bases)
        # The logs of a slice exist if its base file does.
        if any(self._files.get(path) is None for path in bases):
            return True
        return any(group not in self._whole and not self._state.is_replaced(group) for group in written)

    def first_that_misses(
        self, later: Iterable[CommitWrites], groups: Collection[GroupId] | None = None
    ) -> CommitWrites | None:
        """The first commit after the state that depends on a missing file; None if there is none.

        With ``groups``, only these file groups count.
        """
        seen: set[GroupId] = set()
        for commit in later:
            new = [group for group in commit.touched if group not in seen and (groups is None or group in groups)]
            if self.are_missed(commit, (group for group in new if not commit.creates(group))):
                return commit
            seen.update(new)
        return None


def whole_groups(state: TableFiles, slices: Iterable[FileSlice]) -> set[GroupId]:
    """The file groups of the slices, without groups whose input of a compaction was completely cleaned."""
    return {(file_slice.partition_path, file_slice.file_id) for file_slice in slices if state.has_input(file_slice)}


def _base_path(stat: WriteStat) -> str:
    return f"{stat.partition_path}/{stat.base_file}".lstrip("/")


class FilesOfChanges:
    """Checks that all changes of a range can still be read."""

    def __init__(
        self, state: TableState, instants: InstantRange, archived: tuple[Instant, ...], files: CurrentFiles
    ) -> None:
        """Checks a range; ``archived`` are the archived commits after its start."""
        self._state = state
        self._instants = instants
        self._archived = archived
        self._files = files

    def require_metadata(self, writes: Collection[CommitWrites]) -> None:
        """Requires the metadata of every commit of the range, and that the archive has not lost all of its own.

        Raises:
            InstantNotReadableError: a commit, or its metadata, is lost.
            CorruptTableError: the archived timeline is damaged.
        """
        times = {commit.time for commit in writes}
        missing = [commit for commit in self._instants.commits if commit.requested_time not in times]
        if missing:
            reason = f"what the commit {missing[-1].requested_time} has written is no longer known"
            raise self._not_readable(reason, ordering_time(missing[-1], self._state.config))
        self._files.expect(stat.path for commit in writes for stat in commit.metadata.write_stats if stat.path)
        require_commits_of_files(self._state, self._instants, self._files)

    def require_files(self, commit: CommitWrites, paths: Iterable[str]) -> None:
        """Requires that the files written by a commit exist.

        Raises:
            InstantNotReadableError: one of them has been cleaned.
        """
        required = tuple(paths)
        self._files.expect(required)
        for path in required:
            if self._files.get(path) is None:
                raise self._not_readable(f"files of the commit {commit.time} have been cleaned", commit.ordering_time)

    def require_end(
        self, state: TableFiles, whole: Collection[GroupId], groups: Collection[GroupId] | None = None
    ) -> None:
        """Requires that ``whole`` has all file groups, or all of ``groups``, of the state at the end of the range.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        end, reason = self._instants.next_after, "files of that time have been cleaned"
        if end < self._first_state:
            raise InstantNotReadableError(end, reason, self._first_state, "up_to")
        time_of = partial(ordering_time, config=self._state.config)
        later = sorted((commit for commit in self._state.timeline.commits() if time_of(commit) > end), key=time_of)
        if not later or not keeps_file_versions(self._state):
            return
        missing = CleanedFiles(state, whole, self._files).first_that_misses(later_writes(self._state, later), groups)
        if missing is not None:
            raise InstantNotReadableError(end, reason, missing.ordering_time, "up_to")

    def require_state_before(
        self,
        commit: CommitWrites,
        groups: Iterable[GroupId],
        state: TableFiles,
        whole: Mapping[GroupId, RealtimeFileSplit],
    ) -> None:
        """Requires that the file groups are ``whole`` in the state before a commit.

        The newest slice before the retained commits is kept, so the state of a file group may be older than them.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        earlier = [group for group in groups if not commit.creates(group)]
        if commit.ordering_time <= self._first_state and not all(
            self._is_kept(commit, group, whole.get(group)) for group in earlier
        ):
            raise self._cleaned_before(commit, self._first_state)
        if CleanedFiles(state, whole, self._files).are_missed(commit, earlier):
            raise self._cleaned_before(commit, commit.ordering_time)

    def _is_kept(self, commit: CommitWrites, group: GroupId, before: RealtimeFileSplit | None) -> bool:
        """Whether ``before`` is the whole slice that a commit has written to, by the commit's own metadata.

        It does not name the slice of a file group without a base file, or of one that it has only replaced.
        """
        if before is None or before.base_path is None:
            return False
        stats = commit.groups.get(group, ())
        logs = {f"{stat.partition_path}/{name}".lstrip("/") for stat in stats for name in stat.log_files}
        self._files.expect(logs)
        return (
            bool(stats)
            and all(stat.prev_commit == before.base_instant_time for stat in stats)
            and all(self._files.get(path) is not None for path in logs)
        )

    @cached_property
    def _first_state(self) -> str:
        """The ordering time of the last commit that is not retained; the state after it is the first readable one."""
        retained = earliest_readable_instant(self._state)
        commits = (*self._archived, *self._state.timeline.commits())
        times = (
            ordering_time(commit, self._state.config) for commit in commits if commit.requested_time < (retained or "")
        )
        return max(times, default="")

    def _cleaned_before(self, commit: CommitWrites, earliest: str) -> InstantNotReadableError:
        return self._not_readable(f"files before the commit {commit.time} have been cleaned", earliest)

    def _not_readable(self, reason: str, earliest: str) -> InstantNotReadableError:
        return InstantNotReadableError(self._instants.after, reason, earliest, "after")
