"""What the commits of a range have written."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hudi_bridge.caching import cached_property
from hudi_bridge.timeline.commit_metadata import CommitMetadata, WriteStat, read_all_commit_metadata
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time, read_range_metadata
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.table_state import TableState

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
        """Whether the commit has written to a file group in which there was nothing before."""
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
    known = [commit for commit in instants.commits if commit.requested_time in metadata]
    return tuple(_writes(state, commit, metadata[commit.requested_time]) for commit in known)


def later_writes(state: TableState, commits: Iterable[Instant]) -> tuple[CommitWrites, ...]:
    """The writes of commits on the active timeline, in their order.

    Raises:
        CorruptTableError: a file of the timeline is missing or damaged.
    """
    wanted = list(commits)
    metadata = read_all_commit_metadata(state, wanted)
    return tuple(_writes(state, commit, one) for commit, one in zip(wanted, metadata, strict=True))


def _writes(state: TableState, commit: Instant, metadata: CommitMetadata) -> CommitWrites:
    time = commit.requested_time
    return CommitWrites(time=time, ordering_time=ordering_time(commit, state.config), metadata=metadata)
