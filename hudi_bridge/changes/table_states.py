"""The states that a table went through -> the file slices of each: those just before and just after a commit.

Up to table version 7, a state is a snapshot as of an instant. Since version 8 commits count in the order in which they
completed: a commit that was requested earlier, but completed later, is not part of a state. It is taken for pending,
and so is a compaction, whose input is then read in place of its output.
"""

from collections.abc import Mapping

from hudi_bridge.config import TableConfig, TableType
from hudi_bridge.options import ReadOptions
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.timeline.commit_metadata import read_commit_metadata
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.instant_range import place_of
from hudi_bridge.timeline.timeline import Timeline


class TableStates:
    """Plans the states around the commits of a range; each folder is listed once for all of them."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        options: ReadOptions,
        archived: tuple[Instant, ...],
    ) -> None:
        """States of a table; ``archived`` are the commits after the first state that only the history knows."""
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._options = options
        self._archived = archived
        self._listings: dict[str, tuple[FileInfo, ...]] = {}
        self._planners: dict[tuple[str, frozenset[str]], SplitPlanner] = {}
        self._actions: dict[str, Action] = {}

    def before(self, place: str) -> SplitPlanner:
        """The state that the commit of a place in the range has changed."""
        return self._state(_predecessor(place))

    def up_to(self, place: str) -> SplitPlanner:
        """The state made by all commits up to a place, that of the place among them."""
        return self._state(place)

    def _state(self, last_place: str) -> SplitPlanner:
        if self._config.timeline_layout == 1:
            return self._planner(last_place, {})
        active = self._timeline.commits()
        hidden = {one.requested_time: one for one in active if place_of(one, self._config) > last_place}
        actions = {time: self._pending_action(one) for time, one in hidden.items()}
        archived = (one for one in self._archived if place_of(one, self._config) > last_place)
        actions |= {one.requested_time: one.action for one in archived}
        visible = [one.requested_time for one in active if one.requested_time not in hidden]
        instant = max(visible) if visible else _predecessor(min(actions, default=last_place))
        return self._planner(instant, actions)

    def _planner(self, instant: str, hidden: Mapping[str, Action]) -> SplitPlanner:
        key = (instant, frozenset(hidden))
        if key not in self._planners:
            timeline = self._timeline.without(hidden) if hidden else self._timeline
            self._planners[key] = SplitPlanner(
                self._storage, self._config, timeline, instant, self._options, self._listings
            )
        return self._planners[key]

    def _pending_action(self, commit: Instant) -> Action:
        """What a commit was while it was pending: the plan of a compaction is looked up by its action."""
        if commit.action is not Action.COMMIT or self._config.table_type is TableType.COPY_ON_WRITE:
            return commit.action
        if commit.requested_time not in self._actions:
            metadata = read_commit_metadata(self._storage, self._config, commit)
            self._actions[commit.requested_time] = Action.COMPACTION if metadata.is_compaction else commit.action
        return self._actions[commit.requested_time]


def _predecessor(instant: str) -> str:
    """A time before an instant and after each instant before it."""
    return str(int(instant) - 1).zfill(len(instant)) if instant.strip("0") else instant
