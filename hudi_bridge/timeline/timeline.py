"""One listing of the timeline folder to a ``Timeline``: the active instants in order, and what they imply.

A file of instant T belongs to the table if T is completed on the active timeline, or lies before its start:
older instants are archived, and only completed ones are.

Source: ``BaseHoodieTimeline``, ``TimelineLayout``, ``BaseHoodieLogRecordReader``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hudi_bridge.config import TableConfig
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.timeline.instant import (
    COMMIT_ACTIONS,
    MILLIS_LENGTH,
    MISSING_MILLIS,
    SECONDS_LENGTH,
    Action,
    Instant,
    InstantState,
    parse_instant_file_name,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The active instants of a table, one entry each in its furthest state, ordered by requested time.

    ``start`` is the first completed write that no savepoint keeps on the timeline; what lies before it is
    archived. None means that nothing has been completed.

    Made by ``HudiTable.timeline``.
    """

    instants: tuple[Instant, ...]
    start: str | None = field(init=False)
    _commits: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    _completion_times: dict[str, str | None] = field(init=False, repr=False, compare=False)
    _pending_times: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        commits = tuple(one for one in self.instants if one.is_completed and one.action in COMMIT_ACTIONS)
        pending = (one for one in self.instants if not one.is_completed)
        savepoints = {one.requested_time for one in self.instants if one.action is Action.SAVEPOINT}
        times = [one.requested_time for one in commits]
        start = next((time for time in times if time not in savepoints), times[0] if times else None)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "_commits", commits)
        object.__setattr__(self, "_completion_times", {one.requested_time: one.completion_time for one in commits})
        object.__setattr__(
            self,
            "_pending_times",
            frozenset(one.requested_time for one in pending if one.comparable_action in COMMIT_ACTIONS),
        )

    def completed(self) -> tuple[Instant, ...]:
        """The completed instants of all actions."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    def commits(self) -> tuple[Instant, ...]:
        """The completed instants that made data files: commits, delta commits and replace commits."""
        return self._commits

    def pending_commits(self) -> tuple[Instant, ...]:
        """The writes that are requested or inflight; in layout 1 the pending clusterings are among them."""
        return tuple(one for one in self.instants if not one.is_completed and one.action in COMMIT_ACTIONS)

    def pending(self, action: Action) -> tuple[Instant, ...]:
        """The instants of one action that are requested or inflight."""
        return tuple(one for one in self.instants if not one.is_completed and one.action is action)

    def latest_commit(self, as_of: str | None = None) -> Instant | None:
        """The last completed write, or the last one requested at or before ``as_of``; None without one."""
        if as_of is None:
            return self._commits[-1] if self._commits else None
        return next((one for one in reversed(self._commits) if one.requested_time <= as_of), None)

    def latest_completed(self, action: Action) -> Instant | None:
        """The last completed instant of one action, None without one."""
        return next((one for one in reversed(self.instants) if one.is_completed and one.action is action), None)

    def contains(self, requested_time: str) -> bool:
        """Whether there is a completed write of that instant on the active timeline."""
        return self._active_time(requested_time) in self._completion_times

    def is_archived(self, requested_time: str) -> bool:
        """Whether the instant lies before the active timeline, and only the archived timeline knows more of it."""
        time = self._active_time(requested_time)
        if self.start is None or time in self._completion_times or time in self._pending_times:
            return False
        return time < self.start

    def is_committed(self, requested_time: str) -> bool:
        """Whether files and log blocks of that instant belong to the table."""
        return self.contains(requested_time) or self.is_archived(requested_time)

    def completion_time_of(self, requested_time: str) -> str | None:
        """When an active write completed; None for other instants, and in layout 1, which keeps no record."""
        return self._completion_times.get(self._active_time(requested_time))

    def without(self, hidden: Mapping[str, Action]) -> "Timeline":
        """The timeline as it was before some writes completed, which are pending in it as the actions given.

        They may be archived ones, too. ``start`` stays what it is.
        """
        others = (one for one in self.instants if not (one.requested_time in hidden and one.action in COMMIT_ACTIONS))
        pending = (
            Instant(requested_time=time, action=action, state=InstantState.INFLIGHT) for time, action in hidden.items()
        )
        earlier = Timeline(instants=latest_states((*others, *pending)))
        object.__setattr__(earlier, "start", self.start)
        return earlier

    def _active_time(self, requested_time: str) -> str:
        """The spelling of the instant on the timeline: Hudi lengthens instants of seconds here and there."""
        if len(requested_time) == MILLIS_LENGTH and requested_time.endswith(MISSING_MILLIS):
            shorter = requested_time[:SECONDS_LENGTH]
            if shorter in self._completion_times or shorter in self._pending_times:
                return shorter
        return requested_time


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The active timeline as of now; one folder is listed, no file is opened.

    Raises:
        StorageError: the folder cannot be listed.
    """
    names = (info.name for info in _list_timeline(storage, config.timeline_path) if not info.is_dir)
    parsed = (parse_instant_file_name(name, config.timeline_layout) for name in names)
    return Timeline(instants=latest_states(instant for instant in parsed if instant is not None))


def _list_timeline(storage: Storage, path: str) -> tuple[FileInfo, ...]:
    listing = storage.list_directory(path)
    folder = path.rpartition("/")[0]
    # Stores without folders have no timeline before its first file. What the folder above shows is known to exist.
    if not listing and (
        not folder or any(info.path == path for info in storage.list_directory(folder, must_exist=True))
    ):
        return storage.list_directory(path, must_exist=True)
    return listing


def latest_states(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """Each instant once, in the furthest of its states, ordered by requested time and action."""
    latest: dict[tuple[str, Action], Instant] = {}
    for instant in instants:
        key = (instant.requested_time, instant.comparable_action)
        known = latest.get(key)
        if known is None or known.state < instant.state:
            latest[key] = instant
    return tuple(latest[key] for key in sorted(latest))
