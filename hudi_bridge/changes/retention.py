"""The writes of a range's commits, and checks that the files with its changes still exist.

A cleaner keeps the slices of retained commits and the newest slice before them in each file group.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.splits.current_files import CurrentFiles
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.timeline.commit_metadata import CommitMetadata, WriteStat
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time, read_range_metadata
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.time_travel import earliest_readable_instant

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
    return tuple(
        CommitWrites(
            time=commit.requested_time,
            ordering_time=ordering_time(commit, state.config),
            metadata=metadata[commit.requested_time],
        )
        for commit in instants.commits
        if commit.requested_time in metadata
    )


class FilesOfChanges:
    """Checks that all changes of a range can still be read."""

    def __init__(
        self, state: TableState, instants: InstantRange, archived: tuple[Instant, ...], files: CurrentFiles
    ) -> None:
        """Checks for a range; ``archived`` are the archived commits after its beginning."""
        self._state = state
        self._instants = instants
        self._archived = archived
        self._files = files

    def require_metadata(self, writes: Collection[CommitWrites]) -> None:
        """Raises unless the metadata of every commit of the range is known.

        Raises:
            InstantNotReadableError: the metadata of a commit is lost.
        """
        known = {commit.time for commit in writes}
        lost = [commit for commit in self._instants.commits if commit.requested_time not in known]
        if lost:
            reason = f"what the commit {lost[-1].requested_time} has written is no longer known"
            raise self._not_readable(reason, ordering_time(lost[-1], self._state.config))

    def require_files(self, commit: CommitWrites, paths: Iterable[str]) -> None:
        """Raises unless the files written by a commit exist.

        Raises:
            InstantNotReadableError: one of them has been cleaned.
        """
        wanted = tuple(paths)
        self._files.expect(wanted)
        for path in wanted:
            if not self._exists(path):
                raise self._not_readable(f"files of the commit {commit.time} have been cleaned", commit.ordering_time)

    def require_end(self) -> None:
        """Raises unless the state at the end of the range can be read.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        end = self._instants.next_after
        if end < self._first_state:
            raise InstantNotReadableError(end, "files of that time have been cleaned", self._first_state, "up_to")

    def require_state_before(
        self, commit: CommitWrites, groups: Iterable[GroupId], slices: Mapping[GroupId, RealtimeFileSplit]
    ) -> None:
        """Raises unless ``slices`` are the complete state of the file groups before a commit.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        wanted = tuple(groups)
        written = (stat for group in wanted for stat in commit.groups.get(group, ()) if stat.base_file)
        self._files.expect(_base_path(stat) for stat in written)
        for group in wanted:
            stats = commit.groups.get(group, ())
            if stats and not any(stat.prev_commit for stat in stats):
                continue
            if commit.ordering_time <= self._first_state:
                raise self._cleaned_before(commit, self._first_state)
            # In a file group of logs alone, every write is recorded as the first.
            if stats and all(stat.prev_commit == commit.time for stat in stats):
                continue
            # Slices are cleaned as a whole, so the logs exist if the base file does.
            bases = [_base_path(stat) for stat in stats if stat.base_file]
            if not all(map(self._exists, bases)) or (stats and group not in slices):
                raise self._cleaned_before(commit, commit.ordering_time)

    @cached_property
    def _first_state(self) -> str:
        """The ordering time of the last commit that is not retained; the state after it is the first to be readable."""
        retained = earliest_readable_instant(self._state)
        commits = (*self._archived, *self._state.timeline.commits())
        times = (
            ordering_time(commit, self._state.config) for commit in commits if commit.requested_time < (retained or "")
        )
        return max(times, default="")

    def _exists(self, path: str) -> bool:
        return self._files.get(path) is not None

    def _cleaned_before(self, commit: CommitWrites, earliest: str) -> InstantNotReadableError:
        return self._not_readable(f"files before the commit {commit.time} have been cleaned", earliest)

    def _not_readable(self, reason: str, earliest: str) -> InstantNotReadableError:
        return InstantNotReadableError(self._instants.after, reason, earliest, "after")


def _base_path(stat: WriteStat) -> str:
    return f"{stat.partition_path}/{stat.base_file}".lstrip("/")
