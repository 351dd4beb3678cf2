"""The states of a table just before and just after a commit, as planners of their file slices.

Up to table version 7, a state is a snapshot as of an instant. From version 8 on, commits that completed after the state
are pending in it. If one is a compaction, its input is read, not its output.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace

from hudi_bridge.caching import cached_property
from hudi_bridge.config import TableType
from hudi_bridge.splits.file_system_view import ViewFiles
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.timeline.commit_metadata import read_commit_metadata
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.timeline.table_state import TableState

_KEPT_PLANNERS = 2
"""The state after a commit is mostly that before the next one. Each has a timeline of its own."""


class EarlierStates:
    """Planners of the states around the commits of a range; what they have in common is read and listed once."""

    def __init__(self, newest: TableState, archived: tuple[Instant, ...], listings: FolderListings) -> None:
        """The states before ``newest``; ``archived`` are the archived commits after the earliest of them.

        ``listings`` have the files of the newest state, and with them those of earlier ones that were not removed.
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
        if self._newest.config.timeline_layout == 1:
            return self._kept(last_time, lambda: self._planner(last_time, {}))
        return self._kept(bisect_right(self._times, last_time), lambda: self._planner_up_to(last_time))

    def _kept(self, key: str | int, made: Callable[[], SplitPlanner]) -> SplitPlanner:
        if key not in self._planners:
            while len(self._planners) >= _KEPT_PLANNERS:
                del self._planners[next(iter(self._planners))]
            self._planners[key] = made()
        return self._planners[key]

    @cached_property
    def _times(self) -> list[str]:
        """The ordering times of all commits, ascending: no commit lies between two states of the same commits."""
        commits = (*self._newest.timeline.commits(), *self._archived)
        return sorted(ordering_time(commit, self._newest.config) for commit in commits)

    def _planner_up_to(self, last_time: str) -> SplitPlanner:
        timeline, config = self._newest.timeline, self._newest.config
        hidden = {
            commit.requested_time: commit for commit in timeline.commits() if ordering_time(commit, config) > last_time
        }
        actions = {time: self._pending_action(one) for time, one in hidden.items()}
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
    """The greatest time before an instant."""
    return str(int(instant) - 1).zfill(len(instant)) if instant.strip("0") else instant
