"""The archived instants of a table, which writers have moved off the active timeline; all are completed.

They are needed for a range that begins before the active timeline, and for the completion times of old log
files. Nothing is kept: each call reads the history anew.

Source: ``ArchivedTimelineV1`` and ``ArchivedTimelineV2``.
"""

from collections.abc import Collection

from hudi_bridge.config import TableConfig
from hudi_bridge.storage import Storage
from hudi_bridge.timeline import history_log, history_lsm
from hudi_bridge.timeline.commit_metadata import CommitMetadata
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.timeline import latest_states


def load_history(storage: Storage, config: TableConfig, since: str = "") -> tuple[Instant, ...]:
    """The completed instants of the history, ordered by requested time, from ``since`` on.

    In layout 1 all files of the history are read, and the completion time is that of the file before it was
    archived, None in tables of Hudi 0.12. In layout 2 three columns are read of the files that reach up to
    ``since``.

    Raises:
        CorruptTimelineError: a file of the history is gone or damaged.
        CorruptLogFileError: a log file of the history is no log file.
    """
    reader = history_log if config.timeline_layout == 1 else history_lsm
    return latest_states(reader.iter_instants(storage, config, since))


def read_archived_commits(
    storage: Storage, config: TableConfig, instant_times: Collection[str]
) -> dict[str, CommitMetadata]:
    """The metadata of archived commits by requested time; instants that are none are left out.

    Raises:
        CorruptTimelineError: a file of the history is gone or damaged.
        CorruptLogFileError: a log file of the history is no log file.
    """
    if not instant_times:
        return {}
    reader = history_log if config.timeline_layout == 1 else history_lsm
    return dict(reader.iter_commits(storage, config, frozenset(instant_times)))


def read_archived_commit_metadata(storage: Storage, config: TableConfig, instant_time: str) -> CommitMetadata | None:
    """The metadata of one archived commit, None if the history has no such commit.

    Raises:
        CorruptTimelineError: a file of the history is gone or damaged.
        CorruptLogFileError: a log file of the history is no log file.
    """
    return read_archived_commits(storage, config, (instant_time,)).get(instant_time)
