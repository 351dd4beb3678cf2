"""Checks that an instant can be read: that its files are not cleaned and no earlier write is still running.

Source: ``TimelineUtils.validateTimestampAsOf`` of Hudi 0.15 to 1.2.
"""

from hudi_bridge.errors import InstantNotReadableError
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.plans import read_clean_metadata, read_clustering_plan
from hudi_bridge.timeline.table_state import TableState


def validate_time_travel(state: TableState) -> None:
    """Raises unless the table can be read as of the state's instant.

    Reads the files of the last clean and of pending replace commits.

    Raises:
        InstantNotReadableError: its files have been cleaned, or a write before it has not completed.
        CorruptTimelineError: a file of the timeline is missing or damaged.
    """
    instant = state.instant
    earliest = earliest_readable_instant(state)
    if earliest is not None and instant < earliest:
        raise InstantNotReadableError(instant, "its files have been cleaned", earliest)
    incomplete = first_incomplete_commit(state)
    if incomplete is not None and instant >= incomplete.requested_time:
        reason = f"it is not before the first incomplete commit, {incomplete.requested_time}"
        raise InstantNotReadableError(instant, reason, None)


def earliest_readable_instant(state: TableState) -> str | None:
    """The first instant whose files the cleaner has retained, None if nothing was cleaned; reads the last clean.

    A cleaner that counts file versions does not record that instant; then it is the first completed write on the
    active timeline.

    Raises:
        CorruptTimelineError: the file of the clean is missing or damaged.
    """
    clean = state.timeline.latest_completed(Action.CLEAN)
    if clean is None:
        return None
    retained = read_clean_metadata(state, clean).earliest_commit_to_retain
    if retained is not None:
        return retained
    commits = state.timeline.commits()
    return commits[0].requested_time if commits else None


def validate_not_cleaned(then: TableState, now: TableState) -> None:
    """Raises unless the state ``now`` still has every file that a read of the state ``then`` needs.

    Raises:
        InstantNotReadableError: a file may have been removed. A cleaner that counts file versions does not say which.
        CorruptTimelineError: the file of a clean is missing or damaged.
    """
    known = {(instant.requested_time, instant.action) for instant in then.timeline.completed()}
    for later in now.timeline.completed():
        if (later.requested_time, later.action) in known or later.action not in (Action.CLEAN, Action.RESTORE):
            continue
        retained = None
        if later.action is Action.CLEAN:
            retained = read_clean_metadata(now, later).earliest_commit_to_retain
        if retained is None or then.instant < retained:
            reason = f"files may have been removed by the {later.action} {later.requested_time} since it was chosen"
            raise InstantNotReadableError(then.instant, reason, earliest_readable_instant(now))


def first_incomplete_commit(state: TableState) -> Instant | None:
    """The first write that is requested or inflight, without table services, whose input stays readable.

    Raises:
        CorruptTimelineError: the file of a replace commit is missing or damaged.
    """
    return next((instant for instant in state.timeline.pending_commits() if not _is_clustering(state, instant)), None)


def _is_clustering(state: TableState, instant: Instant) -> bool:
    # In layout 1 only the plan distinguishes a clustering from an insert overwrite.
    if instant.action is not Action.REPLACE_COMMIT:
        return False
    return read_clustering_plan(state, instant) is not None
