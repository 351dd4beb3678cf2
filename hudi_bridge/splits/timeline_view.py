"""The state of a table -> what slicing needs to know of its timeline."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from hudi_bridge.config import FIRST_VERSION_OF_1X
from hudi_bridge.timeline.archived import load_archived_instants
from hudi_bridge.timeline.commit_metadata import CommitMetadata, read_commit_metadata
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.plans import GroupId, read_pending_compactions
from hudi_bridge.timeline.table_state import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineView:
    """A timeline up to the query's instant.

    ``pending_compactions`` holds the instant of the pending compaction of a file group, ``replaced`` the instant that
    replaced it (clustering, insert overwrite, delete partition).
    """

    logs_name_their_own_instant: bool
    query_instant: str
    is_committed: Callable[[str], bool]
    completion_time_of: Callable[[str], str | None]
    pending_compactions: Mapping[GroupId, str]
    replaced: Mapping[GroupId, str]


def view_timeline(state: TableState) -> TimelineView:
    """The view as of the state's instant; reads the plans of pending compactions and the commits that replace groups.

    Raises:
        CorruptTableError: one of those files is gone or damaged.
    """
    # The first commit that replaces a group decides.
    replacing = (one for one in reversed(state.timeline.commits()) if one.action is Action.REPLACE_COMMIT)
    return TimelineView(
        logs_name_their_own_instant=state.config.table_version >= FIRST_VERSION_OF_1X,
        query_instant=state.instant,
        is_committed=state.timeline.is_committed,
        completion_time_of=_CompletionTimes(state).of,
        pending_compactions=read_pending_compactions(state),
        replaced=_replaced_groups({one.requested_time: read_commit_metadata(state, one) for one in replacing}),
    )


def view_range(
    state: TableState,
    query_instant: str,
    completion_times: Mapping[str, str | None],
    metadata: Mapping[str, CommitMetadata],
) -> TimelineView:
    """The view of the files of some commits alone, of which the completion times and what they wrote are known.

    Raises:
        CorruptTableError: the plan of a pending compaction is gone or damaged.
    """
    return TimelineView(
        logs_name_their_own_instant=state.config.table_version >= FIRST_VERSION_OF_1X,
        query_instant=query_instant,
        is_committed=state.timeline.is_committed,
        completion_time_of=completion_times.get,
        pending_compactions=read_pending_compactions(state),
        replaced=_replaced_groups(metadata),
    )


def _replaced_groups(metadata: Mapping[str, CommitMetadata]) -> dict[GroupId, str]:
    """The commit that replaced each file group, the last one of those given by requested time."""
    return {
        (partition_path, file_id): time
        for time, commit in metadata.items()
        for partition_path, file_ids in commit.replaced_file_ids
        for file_id in file_ids
    }


class _CompletionTimes:
    """When writes completed; the archived timeline is read when it is first asked for."""

    def __init__(self, state: TableState) -> None:
        self._state = state

    def of(self, instant_time: str) -> str | None:
        return self._state.timeline.completion_time_of(instant_time) or self._archived.get(instant_time)

    @cached_property
    def _archived(self) -> Mapping[str, str]:
        instants = load_archived_instants(self._state)
        return {one.requested_time: one.completion_time for one in instants if one.completion_time}
