"""The archived timeline: completed instants that writers have moved off the active timeline.

Nothing is cached: each call reads the files again.

Source: ``ArchivedTimelineV1`` and ``ArchivedTimelineV2``.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

from hudi_bridge.imported_later import LaterModule
from hudi_bridge.timeline import archived_lsm
from hudi_bridge.timeline.commit_metadata import CommitMetadata
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.timeline import latest_states

if TYPE_CHECKING:
    from hudi_bridge.timeline import archived_log
else:
    archived_log = LaterModule("hudi_bridge.timeline.archived_log")


def load_archived_instants(state: TableState, since: str = "") -> tuple[Instant, ...]:
    """The archived instants, ordered by requested time, from ``since`` on.

    Layout 1: reads all files; the completion time is ``stateTransitionTime``, None in tables of Hudi 0.12.
    Layout 2: reads three columns of the files with instants from ``since`` on.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    reader = archived_log if state.config.timeline_layout == 1 else archived_lsm
    return latest_states(reader.iter_instants(state, since))


def read_archived_commits(state: TableState, instant_times: Collection[str]) -> dict[str, CommitMetadata]:
    """The metadata of archived commits by requested time, without instants that are not archived commits.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    if not instant_times:
        return {}
    reader = archived_log if state.config.timeline_layout == 1 else archived_lsm
    return dict(reader.iter_commits(state, frozenset(instant_times)))
