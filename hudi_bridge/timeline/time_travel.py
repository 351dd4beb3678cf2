"""Checks that an instant can be read: that its files are not cleaned and no earlier write is still running.

Source: ``TimelineUtils.validateTimestampAsOf`` of Hudi 0.15 to 1.2.
"""

from collections.abc import Callable, Collection

from hudi_bridge.errors import CorruptTimelineError, DataFileGoneError, InstantNotReadableError
from hudi_bridge.timeline.instant import Action, Instant
from hudi_bridge.timeline.instant_files import (
    CleanMetadata,
    read_clean_metadata,
    read_clean_plan,
    read_clustering_plan,
    read_files_to_clean,
)
from hudi_bridge.timeline.timeline import TableState


def validate_time_travel(state: TableState) -> None:
    """Requires that the table can be read as of the state's instant.

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
    clean = _newest_clean(state)
    if clean is None:
        return None
    if clean.earliest_commit_to_retain is not None:
        return clean.earliest_commit_to_retain
    commits = state.timeline.commits()
    return commits[0].requested_time if commits else None


def keeps_file_versions(state: TableState) -> bool:
    """Whether the table is cleaned by the number of file versions; reads the last clean.

    Then files of any instant but the newest may be gone, and files of replaced file groups are removed at once.

    Raises:
        CorruptTimelineError: the file of the clean is missing or damaged.
    """
    clean = _newest_clean(state)
    return clean is not None and clean.earliest_commit_to_retain is None


def _newest_clean(state: TableState) -> CleanMetadata | None:
    clean = state.timeline.latest_completed(Action.CLEAN)
    return None if clean is None else read_clean_metadata(state, clean)


def validate_not_cleaned(then: TableState, now: TableState, needs: Callable[[Collection[str]], bool]) -> None:
    """Requires that the state ``now`` still has every file that a read of the state ``then`` needs.

    A clean removes files before it completes, so cleans that have not completed count as well. ``needs`` tells whether
    a read of ``then`` needs any of the files with the given paths, existing or not.

    Raises:
        InstantNotReadableError: a file may have been removed.
        CorruptTimelineError: the file of a clean is missing or damaged.
    """
    for later in _removals_since(then, now):
        if _may_remove_files_of(then.instant, now, later, needs):
            reason = f"files may have been removed by the {later.action} {later.requested_time} since it was chosen"
            raise InstantNotReadableError(then.instant, reason, earliest_readable_instant(now))
    for commit in then.timeline.commits():
        if commit.requested_time <= then.instant and not now.timeline.is_committed(commit.requested_time):
            reason = f"the {commit.action} {commit.requested_time} was rolled back since it was chosen"
            raise InstantNotReadableError(then.instant, reason, earliest_readable_instant(now))


def _removals_since(then: TableState, now: TableState) -> list[Instant]:
    """The cleans and restores that may have removed files since a state was loaded, completed or under way."""
    newest = then.timeline.latest_commit()
    is_newest = not then.timeline.is_earlier and (newest is None or then.instant >= newest.requested_time)
    # A clean that was planned before keeps what the newest commit needs.
    before = {
        (instant.requested_time, instant.action)
        for instant in then.timeline.instants
        if instant.is_completed or is_newest
    }
    return [
        instant
        for instant in now.timeline.instants
        if instant.action in (Action.CLEAN, Action.RESTORE) and (instant.requested_time, instant.action) not in before
    ]


def _may_remove_files_of(
    instant: str, state: TableState, removal: Instant, needs: Callable[[Collection[str]], bool]
) -> bool:
    if removal.action is not Action.CLEAN:
        return True
    read = read_clean_metadata if removal.is_completed else read_clean_plan
    clean = read(state, removal)
    if clean is None:
        return False
    retained = clean.earliest_commit_to_retain
    if retained is not None and instant >= retained:
        return False
    # A cleaner that counts commits also keeps the slices before the first of these, so that a read of the commit before
    # it can end (``CleanPlanner.getFilesToCleanKeepingLatestCommits``).
    try:
        files = read_files_to_clean(state, removal)
    except (CorruptTimelineError, DataFileGoneError):
        # Only what the clean has done is needed once it has completed.
        return True
    return files is None or needs(files)


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
