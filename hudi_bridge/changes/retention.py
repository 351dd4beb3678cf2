"""Checks that the files with the changes of a range, and those of the states around it, still exist.

A cleaner keeps the slices of retained commits and the newest slice before them in each file group. One that counts file
versions does not say which commits it has retained.
"""

from collections.abc import Collection, Iterable
from functools import partial

from hudi_bridge.caching import cached_property
from hudi_bridge.changes.commit_writes import CommitWrites, later_writes
from hudi_bridge.changes.kept_files import KeptFiles
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.splits.current_files import CurrentFiles
from hudi_bridge.splits.table_files import TableFiles
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.instant_range import InstantRange, ordering_time
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.time_travel import earliest_readable_instant, keeps_file_versions


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
            if self._files.get(path) is None:
                raise self._not_readable(f"files of the commit {commit.time} have been cleaned", commit.ordering_time)

    def require_end(
        self, state: TableFiles, whole: Collection[GroupId], groups: Collection[GroupId] | None = None
    ) -> None:
        """Raises unless ``whole`` are all file groups of the state at the end of the range, of ``groups`` if given.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        end, reason = self._instants.next_after, "files of that time have been cleaned"
        if end < self._first_state:
            raise InstantNotReadableError(end, reason, self._first_state, "up_to")
        time_of = partial(ordering_time, config=self._state.config)
        later = sorted((one for one in self._state.timeline.commits() if time_of(one) > end), key=time_of)
        if not later or not keeps_file_versions(self._state):
            return
        missing = KeptFiles(state, whole, self._files).first_that_misses(later_writes(self._state, later), groups)
        if missing is not None:
            raise InstantNotReadableError(end, reason, missing.ordering_time, "up_to")

    def require_state_before(
        self, commit: CommitWrites, groups: Iterable[GroupId], state: TableFiles, whole: Collection[GroupId]
    ) -> None:
        """Raises unless the file groups are ``whole`` in the state before a commit.

        Raises:
            InstantNotReadableError: some of it has been cleaned.
        """
        earlier = [group for group in groups if not commit.creates(group)]
        if earlier and commit.ordering_time <= self._first_state:
            raise self._cleaned_before(commit, self._first_state)
        if KeptFiles(state, whole, self._files).are_missed(commit, earlier):
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

    def _cleaned_before(self, commit: CommitWrites, earliest: str) -> InstantNotReadableError:
        return self._not_readable(f"files before the commit {commit.time} have been cleaned", earliest)

    def _not_readable(self, reason: str, earliest: str) -> InstantNotReadableError:
        return InstantNotReadableError(self._instants.after, reason, earliest, "after")
