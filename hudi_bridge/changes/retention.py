"""What the commits of a range have written, and whether the files that tell of its changes are still there.

A cleaner keeps, of each file group, the slices of the commits that it retains and the newest slice before them. So the
state before a retained commit can be read, and no older one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.splits.file_system_view import GroupId
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.commit_metadata import CommitMetadata, WriteStat
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.instant_range import InstantRange, place_of, read_range_metadata
from hudi_bridge.timeline.time_travel import earliest_readable_instant
from hudi_bridge.timeline.timeline import Timeline

_CLUSTERING = "CLUSTER"
_TABLE_SERVICES = frozenset({"COMPACT", "LOG_COMPACT", "INDEX", "ALTER_SCHEMA", _CLUSTERING})
"""The operations that change no record."""


@dataclass(frozen=True, kw_only=True)
class CommitWrites:
    """What one commit has written: its requested time, its place among the commits, and its metadata."""

    time: str
    place: str
    metadata: CommitMetadata

    @property
    def is_clustering(self) -> bool:
        """Whether the commit has only moved records between file groups."""
        return self.metadata.operation_type == _CLUSTERING

    @property
    def changes_records(self) -> bool:
        """Whether the commit is one of a writer, not of a table service."""
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


def range_writes(storage: Storage, config: TableConfig, instants: InstantRange) -> tuple[CommitWrites, ...]:
    """The commits of a range, in its order; those of which the history has lost what they wrote are left out.

    Raises:
        CorruptTableError: a file of the timeline or the history is gone or damaged.
    """
    metadata = read_range_metadata(storage, config, instants)
    return tuple(
        CommitWrites(
            time=commit.requested_time, place=place_of(commit, config), metadata=metadata[commit.requested_time]
        )
        for commit in instants.commits
        if commit.requested_time in metadata
    )


class FilesOfChanges:
    """Refuses what can no longer be told in full; each folder is listed once."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        instants: InstantRange,
        archived: tuple[Instant, ...],
    ) -> None:
        """The files of a range; ``archived`` are the commits after its begin that only the history knows."""
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._instants = instants
        self._archived = archived
        self._listings: dict[str, frozenset[str]] = {}

    def require_history(self, writes: Collection[CommitWrites]) -> None:
        """Return only if it is known of each commit of the range what it has written.

        Raises:
            InstantNotReadableError: it is not.
        """
        known = {commit.time for commit in writes}
        lost = [one for one in self._instants.commits if one.requested_time not in known]
        if lost:
            reason = f"what the commit {lost[-1].requested_time} has written is no longer known"
            raise self._not_readable(reason, place_of(lost[-1], self._config))

    def require_files(self, commit: CommitWrites, paths: Iterable[str]) -> None:
        """Return only if files that a commit has written are there.

        Raises:
            InstantNotReadableError: one of them has been cleaned.
        """
        for path in paths:
            if not self._exists(path):
                raise self._not_readable(f"files of the commit {commit.time} have been cleaned", commit.place)

    def require_end(self) -> None:
        """Return only if the state at the end of the range can be read.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        end = self._instants.next_after
        if end < self._first_state:
            raise InstantNotReadableError(end, "files of that time have been cleaned", self._first_state, "up_to")

    def require_state_before(
        self, commit: CommitWrites, groups: Iterable[GroupId], slices: Mapping[GroupId, RealtimeFileSplit]
    ) -> None:
        """Return only if ``slices`` are all that there was of some file groups before a commit.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        for group in groups:
            stats = commit.groups.get(group, ())
            if stats and not any(stat.prev_commit for stat in stats):
                continue
            if commit.place <= self._first_state:
                raise self._cleaned_before(commit, self._first_state)
            # Of a file group of logs alone, each write claims to be the first.
            if stats and all(stat.prev_commit == commit.time for stat in stats):
                continue
            # Slices are cleaned as a whole, so that the base file tells of the logs as well.
            bases = [f"{group[0]}/{stat.base_file}".lstrip("/") for stat in stats if stat.base_file]
            if not all(map(self._exists, bases)) or (stats and group not in slices):
                raise self._cleaned_before(commit, commit.place)

    @cached_property
    def _first_state(self) -> str:
        """The place of the first commit after which the table can be read: the last one that is not retained."""
        retained = earliest_readable_instant(self._storage, self._config, self._timeline)
        commits = (*self._archived, *self._timeline.commits())
        places = (place_of(one, self._config) for one in commits if one.requested_time < (retained or ""))
        return max(places, default="")

    def _exists(self, path: str) -> bool:
        folder = path.rpartition("/")[0]
        if folder not in self._listings:
            self._listings[folder] = frozenset(info.path for info in self._storage.list_directory(folder))
        return path in self._listings[folder]

    def _cleaned_before(self, commit: CommitWrites, earliest: str) -> InstantNotReadableError:
        return self._not_readable(f"files before the commit {commit.time} have been cleaned", earliest)

    def _not_readable(self, reason: str, earliest: str) -> InstantNotReadableError:
        return InstantNotReadableError(self._instants.after, reason, earliest, "after")
