"""The commits in the range of an incremental or change query, oldest first.

The range ``(after, up_to]`` compares completion times in timeline layout 2, and requested times in layout 1. In
layout 1, a write that is still running can lie before the ``after`` of a later query (a *hollow* commit). So no range
extends past it.

Source: ``IncrementalQueryAnalyzer``, ``CompletionTimeQueryView``, ``TimelineUtils.handleHollowCommitIfNeeded``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import InstantNotReadableError, QueryError
from hudi_bridge.options import HOLLOW_COMMITS_KEY, RANGE_VERSION_KEY, HollowCommitPolicy
from hudi_bridge.releases import FIRST_VERSION_WITH_COMPLETION_TIMES
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import (
    COMMIT_ACTIONS,
    MILLIS_LENGTH,
    Instant,
    InstantLike,
    parse_begin_instant,
    parse_query_instant,
)
from hudi_bridge.timeline.instant_files import CommitMetadata, read_all_commit_metadata
from hudi_bridge.timeline.time_travel import first_incomplete_commit
from hudi_bridge.timeline.timeline import TableState

_BEFORE_ALL_INSTANTS = "0" * MILLIS_LENGTH
_BEFORE_HUDI = "1971"
_LONGEST_WRITE = timedelta(days=1)
"""The longest assumed time between the request and the completion of archived commits."""
_INSTANT_FORMAT = "%Y%m%d%H%M%S%f"


@dataclass(frozen=True, slots=True, kw_only=True)
class InstantRange:
    """The completed commits in ``(after, up_to]``, in the order in which they became visible.

    Attributes:
        after: the start of the range, which it does not include.
        up_to: the end of the range; None if it has none.
        commits: the commits, including compactions, clusterings and other replace commits.
        ordering_times: the distinct times by which they lie in the range, ascending.
        archived: the requested times of the archived ones.
        next_after: the ``after`` of the following range.

    Times are those of ``Instant``. Source: ``IncrementalQueryAnalyzer`` of Hudi.

    Made by ``HudiTable.instant_range``.
    """

    after: str
    up_to: str | None
    commits: tuple[Instant, ...]
    ordering_times: tuple[str, ...]
    archived: frozenset[str]
    next_after: str

    @property
    def commit_times(self) -> frozenset[str]:
        """The possible values of ``_hoodie_commit_time`` in rows of the range."""
        return frozenset(commit.requested_time for commit in self.commits)

    @property
    def begins_with_table(self) -> bool:
        """Whether the range begins before the table's first commit."""
        return self.after == _BEFORE_ALL_INSTANTS

    @property
    def last_requested(self) -> str | None:
        """The greatest requested time in the range, None if it is empty."""
        return max((commit.requested_time for commit in self.commits), default=None)


def resolve_range(state: TableState, after: InstantLike, up_to: InstantLike | None = None) -> InstantRange:
    """The range between two instants given by a user; ``after`` may be ``earliest`` or zeros, for all commits.

    Raises:
        QueryError: a bound is not in one of Hudi's formats, or an option asks for completion times that are not there.
        InstantNotReadableError: in layout 1, a write requested before a completed one is still running.
        CorruptTableError: the archived timeline is damaged.
    """
    config, version = state.config, state.options.range_version
    first = FIRST_VERSION_WITH_COMPLETION_TIMES
    if not config.layout.has_completion_times and version is not None and version >= first:
        expected = f"a version below {first}, as the table has no completion times"
        raise QueryError(f"options: {RANGE_VERSION_KEY}", str(version), expected)
    start = parse_begin_instant(after, config.timeline_timezone, "after")
    end = None if up_to is None else parse_query_instant(up_to, config.timeline_timezone, "up_to")
    active = _before_hollow_commits(state, state.options.hollow_commits)
    archived = archived_commits(state, start)
    chosen = sorted(
        (ordering_time(commit, config), commit.requested_time, commit)
        for commit in (*archived, *active)
        if start < ordering_time(commit, config) and (end is None or ordering_time(commit, config) <= end)
    )
    archived_times = {commit.requested_time for commit in archived}
    commits = tuple(commit for _, _, commit in chosen)
    return InstantRange(
        after=start,
        up_to=end,
        commits=commits,
        ordering_times=tuple(dict.fromkeys(time for time, _, _ in chosen)),
        archived=frozenset(commit.requested_time for commit in commits if commit.requested_time in archived_times),
        next_after=max(start, chosen[-1][0]) if chosen else start,
    )


def next_after_snapshot(state: TableState) -> str:
    """The ``after`` of the range that follows the snapshot of a state.

    If commits overlap, that range may repeat rows of the snapshot, but never misses one.

    Raises:
        CorruptTableError: the file of a replace commit is missing or damaged.
    """
    instant, config = state.instant, state.config
    active = _before_hollow_commits(state, HollowCommitPolicy.BLOCK)
    later = min((ordering_time(commit, config) for commit in active if commit.requested_time > instant), default=None)
    times = (ordering_time(commit, config) for commit in active if commit.requested_time <= instant)
    return max((time for time in times if later is None or time < later), default=_BEFORE_ALL_INSTANTS)


def ordering_time(commit: Instant, config: TableConfig) -> str:
    """The time by which commits are ordered and lie in ranges: the completion time, or the requested time.

    Layout 1 has no completion times, and an option may ask for the requested times of layout 2.
    """
    if config.ranges_by_request:
        return commit.requested_time
    return commit.completion_time or commit.requested_time


def read_range_metadata(state: TableState, instants: InstantRange) -> Mapping[str, CommitMetadata]:
    """The metadata of the commits of a range by requested time, without commits lost from the archived timeline.

    Raises:
        CorruptTableError: a file of the active or archived timeline is missing or damaged.
        InstantNotReadableError: a commit has written after one of the range that the archived timeline has lost.
    """
    by_time = read_archived_commits(state, instants.archived)
    active = [commit for commit in instants.commits if commit.requested_time not in instants.archived]
    metadata = read_all_commit_metadata(state, active)
    by_time |= {
        commit.requested_time: commit_metadata for commit, commit_metadata in zip(active, metadata, strict=True)
    }
    earlier = (
        (stat.prev_commit, f"after which the commit {time} has written")
        for time, commit_metadata in by_time.items()
        for stat in commit_metadata.write_stats
        if stat.prev_commit is not None
    )
    require_archived(state, instants, earlier)
    return by_time


def require_archived(state: TableState, instants: InstantRange, named: Iterable[tuple[str, str]]) -> None:
    """Requires that the archived timeline has the commits of a range that commits or files name, with what names each.

    An archive that is gone reads as one that never was: the rows of its commits would be missed.

    Raises:
        InstantNotReadableError: it lacks one.
        CorruptTableError: the archived timeline is damaged.
    """
    timeline, by_time = state.timeline, instants.commit_times
    lost = {
        time: reason
        for time, reason in named
        if instants.after < time and time not in by_time and timeline.is_archived(time)
    }
    if not lost:
        return
    for archived in load_archived_instants(state, min(lost)):
        lost.pop(archived.requested_time, None)
    if lost:
        last = max(lost)
        reason = f"the commit {last}, {lost[last]}, is neither on the active nor on the archived timeline"
        # Where it would lie in a range by its completion is not known.
        earliest = last if state.config.ranges_by_request else timeline.start
        raise InstantNotReadableError(instants.after, reason, earliest, "after")


def _before_hollow_commits(state: TableState, policy: HollowCommitPolicy) -> Sequence[Instant]:
    commits = state.timeline.commits()
    if not state.config.ranges_by_request:
        return commits
    incomplete = first_incomplete_commit(state)
    if incomplete is None or not commits or commits[-1].requested_time < incomplete.requested_time:
        return commits
    if policy is HollowCommitPolicy.FAIL:
        reason = (
            f"the write {incomplete.requested_time} is still running while later ones have completed, and would be "
            f"missed; the option {HOLLOW_COMMITS_KEY}=BLOCK reads up to it"
        )
        raise InstantNotReadableError(commits[-1].requested_time, reason, None, "up_to")
    return [commit for commit in commits if commit.requested_time < incomplete.requested_time]


def archived_commits(state: TableState, start: str) -> tuple[Instant, ...]:
    """The archived commits that may lie after an instant and are not on the active timeline as well.

    Raises:
        CorruptTableError: the archived timeline is damaged.
    """
    timeline = state.timeline
    since = start if state.config.ranges_by_request else _a_day_before(start)
    if timeline.start is None or since >= timeline.start:
        return ()
    archived = load_archived_instants(state, since)
    return tuple(
        commit
        for commit in archived
        if commit.action in COMMIT_ACTIONS and not timeline.contains(commit.requested_time)
    )


def _a_day_before(instant: str) -> str:
    """The earliest requested time that Hudi assumes for a write completed at the instant."""
    if instant < _BEFORE_HUDI:
        return _BEFORE_ALL_INSTANTS
    moment = datetime.strptime(instant, _INSTANT_FORMAT).replace(tzinfo=UTC) - _LONGEST_WRITE
    return moment.strftime(_INSTANT_FORMAT)[:MILLIS_LENGTH]
