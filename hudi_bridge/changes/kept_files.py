"""Whether the files of an earlier state are still there.

A cleaner removes slices as a whole, and file groups that were replaced. What it has removed shows by the next write to
a file group: it tells whether there was a slice before it, and of what base file.
"""

from collections.abc import Collection, Iterable

from hudi_bridge.changes.commit_writes import CommitWrites
from hudi_bridge.splits.current_files import CurrentFiles
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.table_files import TableFiles
from hudi_bridge.timeline.commit_metadata import WriteStat
from hudi_bridge.timeline.plans import GroupId


class KeptFiles:
    """Finds out whether file groups of a state have been cleaned.

    ``state`` has the files of the state, ``whole`` are the file groups with a slice in it, ``files`` those that exist.
    """

    def __init__(self, state: TableFiles, whole: Collection[GroupId], files: CurrentFiles) -> None:
        self._state = state
        self._whole = whole
        self._files = files

    def are_missed(self, commit: CommitWrites, groups: Iterable[GroupId]) -> bool:
        """Whether one of the file groups, which the commit has written to or replaced, lacks its slice before that."""
        stats = {group: commit.groups.get(group, ()) for group in groups}
        # In a file group of logs alone, every write is recorded as the first.
        written = {
            group: of_group
            for group, of_group in stats.items()
            if not of_group or any(stat.prev_commit not in (None, commit.time) for stat in of_group)
        }
        bases = [_base_path(stat) for of_group in written.values() for stat in of_group if stat.base_file]
        self._files.expect(bases)
        # The logs of a slice exist if its base file does.
        if any(self._files.get(path) is None for path in bases):
            return True
        return any(group not in self._whole and not self._state.is_replaced(group) for group in written)

    def first_that_misses(
        self, later: Iterable[CommitWrites], groups: Collection[GroupId] | None = None
    ) -> CommitWrites | None:
        """The first of the commits after the state that misses something of it; None if there is none.

        With ``groups``, only those file groups count.
        """
        seen: set[GroupId] = set()
        for commit in later:
            new = [group for group in commit.touched if group not in seen and (groups is None or group in groups)]
            if self.are_missed(commit, (group for group in new if not commit.creates(group))):
                return commit
            seen.update(new)
        return None


def whole_groups(state: TableFiles, slices: Iterable[FileSlice]) -> set[GroupId]:
    """The file groups of slices of a state, without those of which a cleaner left only what came after a compaction."""
    return {(piece.partition_path, piece.file_id) for piece in slices if state.has_input(piece)}


def _base_path(stat: WriteStat) -> str:
    return f"{stat.partition_path}/{stat.base_file}".lstrip("/")
