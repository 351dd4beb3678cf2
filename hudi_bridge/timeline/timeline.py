"""The active timeline of a table, and the state of a table at one moment, from which every read is planned.

The timeline comes from one listing of its folder. Only completed instants are archived. So a file of instant T belongs
to the table if T is completed on the active timeline or lies before its start.

Source: ``BaseHoodieTimeline``, ``TimelineLayout``, ``BaseHoodieLogRecordReader``; ``HoodieTableMetaClient`` with an
active timeline and an instant to read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from hudi_bridge.common.display import html_of_properties, html_of_rows
from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.options import ReadOptions
from hudi_bridge.storage.storage import FileInfo, Storage
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

_BEFORE_ALL_INSTANTS = "0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The active instants of a table, each once in its latest state, ordered by requested time.

    ``start`` is the first completed write that is not kept on the timeline by a savepoint; everything before it is
    archived. It is None if no write has completed. ``is_earlier`` is whether completed writes were made pending, to
    restore an earlier state of the timeline. Source: ``BaseHoodieTimeline`` of Hudi.

    Made by ``HudiTable.timeline``.
    """

    instants: tuple[Instant, ...]
    start: str | None = field(init=False)
    is_earlier: bool = field(init=False, default=False, compare=False)
    _commits: tuple[Instant, ...] = field(init=False, repr=False, compare=False)
    _completion_times: dict[str, str | None] = field(init=False, repr=False, compare=False)
    _pending_times: frozenset[str] = field(init=False, repr=False, compare=False)
    _newest: dict[Action, Instant] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        commits = tuple(
            instant for instant in self.instants if instant.is_completed and instant.action in COMMIT_ACTIONS
        )
        pending = (instant for instant in self.instants if not instant.is_completed)
        savepoints = {instant.requested_time for instant in self.instants if instant.action is Action.SAVEPOINT}
        times = [instant.requested_time for instant in commits]
        start = next((time for time in times if time not in savepoints), times[0] if times else None)
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "_commits", commits)
        newest = {instant.action: instant for instant in self.instants if instant.is_completed}
        object.__setattr__(self, "_newest", newest)
        object.__setattr__(
            self, "_completion_times", {instant.requested_time: instant.completion_time for instant in commits}
        )
        object.__setattr__(
            self,
            "_pending_times",
            frozenset(instant.requested_time for instant in pending if instant.comparable_action in COMMIT_ACTIONS),
        )

    def _repr_html_(self) -> str:
        properties = (
            ("instants", f"{len(self.instants):,}"),
            ("commits", f"{len(self._commits):,}"),
            ("begins with", self.start),
        )
        newest_first = (
            (instant.requested_time, instant.action, instant.state.name.lower(), instant.completion_time)
            for instant in reversed(self.instants)
        )
        header = ("requested", "action", "state", "completed")
        return html_of_properties("Timeline", properties) + html_of_rows("The newest first", header, newest_first)

    def completed(self) -> tuple[Instant, ...]:
        """The completed instants of all actions."""
        return tuple(instant for instant in self.instants if instant.is_completed)

    def commits(self) -> tuple[Instant, ...]:
        """The completed writes: commits, delta commits and replace commits."""
        return self._commits

    def pending_commits(self) -> tuple[Instant, ...]:
        """The writes that are requested or inflight; in layout 1 they include pending clusterings."""
        return tuple(
            instant for instant in self.instants if not instant.is_completed and instant.action in COMMIT_ACTIONS
        )

    def pending_times(self) -> frozenset[str]:
        """The requested times of all instants that are requested or inflight, whatever their action."""
        return frozenset(instant.requested_time for instant in self.instants if not instant.is_completed)

    def pending(self, action: Action) -> tuple[Instant, ...]:
        """The instants of one action that are requested or inflight."""
        return tuple(instant for instant in self.instants if not instant.is_completed and instant.action is action)

    def latest_commit(self, as_of: str | None = None) -> Instant | None:
        """The last completed write, or the last one requested at or before ``as_of``; None if there is none."""
        if as_of is None:
            return self._commits[-1] if self._commits else None
        return next((instant for instant in reversed(self._commits) if instant.requested_time <= as_of), None)

    def latest_completed(self, action: Action) -> Instant | None:
        """The last completed instant of one action, None if there is none."""
        return self._newest.get(action)

    def contains(self, requested_time: str) -> bool:
        """Whether the active timeline has a completed write of that instant."""
        return self._active_time(requested_time) in self._completion_times

    def is_archived(self, requested_time: str) -> bool:
        """Whether the instant lies before the active timeline, and so is archived."""
        time = self._active_time(requested_time)
        if self.start is None or time in self._completion_times or time in self._pending_times:
            return False
        return time < self.start

    def is_committed(self, requested_time: str) -> bool:
        """Whether files and log blocks of that instant belong to the table."""
        return self.contains(requested_time) or self.is_archived(requested_time)

    def completion_time_of(self, requested_time: str) -> str | None:
        """The completion time of an active write; None for other instants, and in layout 1, which has none."""
        return self._completion_times.get(self._active_time(requested_time))

    def without(self, hidden: Mapping[str, Action]) -> "Timeline":
        """The timeline with some completed writes, active or archived, made pending as the given actions.

        ``start`` does not change.
        """
        others = (
            instant
            for instant in self.instants
            if not (instant.requested_time in hidden and instant.action in COMMIT_ACTIONS)
        )
        pending = (
            Instant(requested_time=time, action=action, state=InstantState.INFLIGHT) for time, action in hidden.items()
        )
        earlier = Timeline(instants=latest_states((*others, *pending)))
        object.__setattr__(earlier, "start", self.start)
        object.__setattr__(earlier, "is_earlier", bool(hidden))
        return earlier

    def _active_time(self, requested_time: str) -> str:
        """The instant as the timeline spells it: Hudi sometimes adds milliseconds to an instant of seconds."""
        if len(requested_time) == MILLIS_LENGTH and requested_time.endswith(MISSING_MILLIS):
            shorter = requested_time[:SECONDS_LENGTH]
            if shorter in self._completion_times or shorter in self._pending_times:
                return shorter
        return requested_time


def load_timeline(storage: Storage, config: TableConfig) -> Timeline:
    """The current active timeline; lists one folder and opens no file.

    Raises:
        CorruptTimelineError: a folder has the name of an instant.
        StorageError: the folder cannot be listed.
    """
    instants = []
    for info in _list_timeline(storage, config.timeline_path):
        instant = parse_instant_file_name(info.name, config.timeline_layout)
        if instant is None:
            continue
        if info.is_dir:
            raise CorruptTimelineError(info.path, None, "a folder", "a file of an instant, as its name says")
        instants.append(instant)
    return Timeline(instants=latest_states(instants))


def _list_timeline(storage: Storage, path: str) -> tuple[FileInfo, ...]:
    listing = storage.list_directory(path)
    folder = path.rpartition("/")[0]
    # Object stores show no timeline folder before its first file; only a folder shown in its parent must exist.
    if not listing and (
        not folder or any(info.path == path for info in storage.list_directory(folder, must_exist=True))
    ):
        return storage.list_directory(path, must_exist=True)
    return listing


def latest_states(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """Each instant once, in its latest state, ordered by requested time and action."""
    latest: dict[tuple[str, Action], Instant] = {}
    for instant in instants:
        key = (instant.requested_time, instant.comparable_action)
        latest_state = latest.get(key)
        if latest_state is None or latest_state.state < instant.state:
            latest[key] = instant
    return tuple(latest[key] for key in sorted(latest))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableState:
    """A table's storage, properties and timeline, with the options and the instant of a read.

    ``instant`` defaults to the newest commit, and to a time before every instant if the table has no commit;
    ``is_time_travel`` is whether the query names it.
    """

    storage: Storage
    config: TableConfig
    timeline: Timeline
    options: ReadOptions = field(default_factory=ReadOptions)
    instant: str = ""
    is_time_travel: bool = False

    def __post_init__(self) -> None:
        if not self.instant:
            latest = self.timeline.latest_commit()
            object.__setattr__(self, "instant", latest.requested_time if latest else _BEFORE_ALL_INSTANTS)

    @classmethod
    def load(cls, storage: Storage, config: TableConfig, options: ReadOptions | None = None) -> Self:
        """The current state of a table; lists one folder.

        Raises:
            StorageError: the folder of the timeline cannot be listed.
        """
        return cls(
            storage=storage, config=config, timeline=load_timeline(storage, config), options=options or ReadOptions()
        )

    def as_of(self, instant: str) -> Self:
        """The same table, read as of an instant that the query names."""
        return replace(self, instant=instant, is_time_travel=True)

    @property
    def timeline_start(self) -> str:
        """The start of the active timeline; instants before it are archived and completed."""
        return self.timeline.start or _BEFORE_ALL_INSTANTS
