"""Which instants can still, or already, be read: a query as of another one would return part of the rows.

Source: ``TimelineUtils.validateTimestampAsOf`` of Hudi 0.15 to 1.2.
"""

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.plans import read_clean_metadata, read_clustering_plan
from hudi_bridge.timeline.timeline import Timeline


def validate_time_travel(storage: Storage, config: TableConfig, timeline: Timeline, instant: str) -> None:
    """Return only if the table can be read as of the instant; reads the last clean, pending replace commits.

    Raises:
        InstantNotReadableError: its files have been cleaned, or a write before it has not completed.
        CorruptTimelineError: a file of the timeline is gone or damaged.
    """
    earliest = earliest_readable_instant(storage, config, timeline)
    if earliest is not None and instant < earliest:
        raise InstantNotReadableError(instant, "its files have been cleaned", earliest)
    incomplete = first_incomplete_commit(storage, config, timeline)
    if incomplete is not None and instant >= incomplete.requested_time:
        reason = f"it is not before the first incomplete commit, {incomplete.requested_time}"
        raise InstantNotReadableError(instant, reason, None)


def earliest_readable_instant(storage: Storage, config: TableConfig, timeline: Timeline) -> str | None:
    """The first instant whose files the cleaner has left, None if nothing was cleaned; reads the last clean.

    A cleaner that counts file versions records no such instant: then the first completed write on the
    active timeline stands in for it.

    Raises:
        CorruptTimelineError: the file of the clean is gone or damaged.
    """
    clean = timeline.latest_completed(Action.CLEAN)
    if clean is None:
        return None
    retained = read_clean_metadata(storage, config, clean).earliest_commit_to_retain
    if retained is not None:
        return retained
    commits = timeline.commits()
    return commits[0].requested_time if commits else None


def validate_not_cleaned(storage: Storage, config: TableConfig, then: Timeline, now: Timeline, instant: str) -> None:
    """Return only if no file that a read as of the instant needs was removed between two states of the timeline.

    Raises:
        InstantNotReadableError: one may have been. A cleaner that counts file versions does not say which.
        CorruptTimelineError: the file of a clean is gone or damaged.
    """
    known = {(one.requested_time, one.action) for one in then.completed()}
    for later in now.completed():
        if (later.requested_time, later.action) in known or later.action not in (Action.CLEAN, Action.RESTORE):
            continue
        retained = None
        if later.action is Action.CLEAN:
            retained = read_clean_metadata(storage, config, later).earliest_commit_to_retain
        if retained is None or instant < retained:
            reason = f"files may have been removed by the {later.action} {later.requested_time} since it was chosen"
            raise InstantNotReadableError(instant, reason, earliest_readable_instant(storage, config, now))


def first_incomplete_commit(storage: Storage, config: TableConfig, timeline: Timeline) -> Instant | None:
    """The first write that is requested or inflight; table services do not count, their input stays readable.

    Raises:
        CorruptTimelineError: the file of a replace commit is gone or damaged.
    """
    return next((one for one in timeline.pending_commits() if not _is_clustering(storage, config, one)), None)


def _is_clustering(storage: Storage, config: TableConfig, instant: Instant) -> bool:
    # In layout 1 only the plan tells a clustering from an insert overwrite.
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    return read_clustering_plan(storage, config, instant) is not None
