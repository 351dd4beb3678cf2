"""The states that a table went through -> planners of their file slices: just before and just after a commit.

Up to table version 7, a state is a snapshot as of an instant. Since version 8 commits count in the order in which they
completed: a commit that was requested earlier, but completed later, is not part of a state. It is taken for pending,
and so is a compaction, whose input is then read in place of its output.
"""

from collections.abc import Mapping
from dataclasses import replace

from hudi_bridge.config import TableType
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.timeline.commit_metadata import read_commit_metadata
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.timeline.table_state import TableState


class EarlierStates:
    """Planners of the states around the commits of a range; each folder is listed once for all of them."""

    def __init__(self, newest: TableState, archived: tuple[Instant, ...]) -> None:
        """The states before a table's newest; ``archived`` are the archived commits after the first of them."""
        self._newest = newest
        self._archived = archived
        self._listings = FolderListings(newest.storage)
        self._planners: dict[tuple[str, frozenset[str]], SplitPlanner] = {}
        self._actions: dict[str, Action] = {}

    def before(self, time: str) -> SplitPlanner:
        """The state that the commit of an ordering time has changed."""
        return self.up_to(_predecessor(time))

    def up_to(self, last_time: str) -> SplitPlanner:
        """The state made by all commits up to an ordering time, that of the time among them."""
        timeline, config = self._newest.timeline, self._newest.config
        if config.timeline_layout == 1:
            return self._planner(last_time, {})
        hidden = {one.requested_time: one for one in timeline.commits() if ordering_time(one, config) > last_time}
        actions = {time: self._pending_action(one) for time, one in hidden.items()}
        archived = (one for one in self._archived if ordering_time(one, config) > last_time)
        actions |= {one.requested_time: one.action for one in archived}
        visible = [one.requested_time for one in timeline.commits() if one.requested_time not in hidden]
        instant = max(visible) if visible else _predecessor(min(actions, default=last_time))
        return self._planner(instant, actions)

    def _planner(self, instant: str, hidden: Mapping[str, Action]) -> SplitPlanner:
        key = (instant, frozenset(hidden))
        if key not in self._planners:
            timeline = self._newest.timeline.without(hidden) if hidden else self._newest.timeline
            state = replace(self._newest, timeline=timeline, instant=instant)
            self._planners[key] = SplitPlanner(state, self._listings)
        return self._planners[key]

    def _pending_action(self, commit: Instant) -> Action:
        """What a commit was while it was pending: the plan of a compaction is looked up by its action."""
        if commit.action is not Action.COMMIT or self._newest.config.table_type is TableType.COPY_ON_WRITE:
            return commit.action
        if commit.requested_time not in self._actions:
            metadata = read_commit_metadata(self._newest, commit)
            self._actions[commit.requested_time] = Action.COMPACTION if metadata.is_compaction else commit.action
        return self._actions[commit.requested_time]


def _predecessor(instant: str) -> str:
    """A time before an instant and after each instant before it."""
    return str(int(instant) - 1).zfill(len(instant)) if instant.strip("0") else instant
