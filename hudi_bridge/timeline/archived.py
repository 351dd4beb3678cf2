"""The archived timeline: the instants that writers have moved off the active one; all are completed.

They are needed for a range that begins before the active timeline, and for the completion times of old log
files. Nothing is kept: each call reads the files anew.

Source: ``ArchivedTimelineV1`` and ``ArchivedTimelineV2``.
"""

from collections.abc import Collection

from hudi_bridge.timeline import archived_log, archived_lsm
from hudi_bridge.timeline.commit_metadata import CommitMetadata
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.table_state import TableState
from hudi_bridge.timeline.timeline import latest_states


def load_archived_instants(state: TableState, since: str = "") -> tuple[Instant, ...]:
    """The archived instants, ordered by requested time, from ``since`` on.

    In layout 1 all files are read, and the completion time is that of the file before it was
    archived, None in tables of Hudi 0.12. In layout 2 three columns are read of the files that reach up to
    ``since``.

    Raises:
        CorruptTimelineError: a file of the archived timeline is gone or damaged.
        CorruptLogFileError: one of its log files is no log file.
    """
    reader = archived_log if state.config.timeline_layout == 1 else archived_lsm
    return latest_states(reader.iter_instants(state, since))


def read_archived_commits(state: TableState, instant_times: Collection[str]) -> dict[str, CommitMetadata]:
    """The metadata of archived commits by requested time; instants that are none are left out.

    Raises:
        CorruptTimelineError: a file of the archived timeline is gone or damaged.
        CorruptLogFileError: one of its log files is no log file.
    """
    if not instant_times:
        return {}
    reader = archived_log if state.config.timeline_layout == 1 else archived_lsm
    return dict(reader.iter_commits(state, frozenset(instant_times)))
