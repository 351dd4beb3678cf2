"""Instants and their file names on the timeline.

    layout 1 (table versions up to 7)       layout 2 (version 8 on)                state
    T.action.requested                      T.action.requested                     requested
    T.action.inflight, T.inflight (commit)  T.action.inflight, T.inflight          inflight
    T.action                                T_C.action                             completed at C

A compaction completes as a commit, a log compaction as a delta commit, a clustering as a replace commit. In
layout 1, a pending clustering is a replace commit, too. Instants are ``yyyyMMddHHmmssSSS`` (without ``SSS`` before
Hudi 0.10), and are ordered as strings.

Source: ``InstantFileNameParserV1``, ``InstantFileNameParserV2``, ``HoodieInstantTimeGenerator``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.arrays import Column

MILLIS_LENGTH = 17
SECONDS_LENGTH = 14
MISSING_MILLIS = "999"
"""What Hudi appends to an instant without milliseconds, so that it covers the whole second."""

EARLIEST = "earliest"
"""Hudi's word for the time before every instant."""

BOOTSTRAP_OF_METADATA, BOOTSTRAP_OF_RECORDS = "00000000000001", "00000000000002"
"""The instants of the two kinds of a bootstrap, which are not times."""

_FILE_NAME = re.compile(r"([0-9]{1,32})(?:_([0-9]{1,32}))?(?:\.([a-z]+))?(?:\.(requested|inflight))?")
TIMES_OF_PYTHON = ", a date or a datetime"
_EXPECTED_INSTANT = f"yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS], yyyyMMddHHmmss, yyyyMMddHHmmssSSS{TIMES_OF_PYTHON}"
_DATE_AND_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{3})(?:\d{3})?)?(Z|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)
_ISO_MARKS = str.maketrans("", "", "-T:")
_DIGITS = re.compile(r"[0-9]{14}(?:[0-9]{3})?")


InstantLike: TypeAlias = str | date
"""An instant as a user gives it: a string in one of Hudi's formats, a date or a datetime."""


class Action(StrEnum):
    """What an instant does, as file names spell it. Source: ``HoodieTimeline`` of Hudi."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    SAVEPOINT = "savepoint"
    RESTORE = "restore"
    INDEXING = "indexing"
    SCHEMA_COMMIT = "schemacommit"


class InstantState(IntEnum):
    """The progress of an instant; the file of a later state supersedes the files of earlier states."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


_ACTIONS = {str(action): action for action in Action}
_COMPLETES_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}


COMMIT_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The completed actions that write data files."""


def parse_action(text: str | None) -> Action | None:
    """The action with that name, or None."""
    return _ACTIONS.get(text or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """One action on the timeline; ``completion_time`` is None unless the file name records it (layout 2).

    Times are ``yyyyMMddHHmmssSSS``, without ``SSS`` before Hudi 0.10, in the time zone of the timeline.

    Part of a ``Timeline``.
    """

    requested_time: str
    action: Action
    state: InstantState
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        """Whether the action has completed."""
        return self.state is InstantState.COMPLETED

    @property
    def comparable_action(self) -> Action:
        """The action under which the instant completes, the same for all of its files."""
        return _COMPLETES_AS.get(self.action, self.action)


def parse_instant_file_name(name: str, layout: int) -> Instant | None:
    """The instant of a file in the timeline folder, None for files of other kinds."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    requested_time, completion_time, word, suffix = match.groups()
    if word in ("requested", "inflight") and suffix is None:
        word, suffix = None, word
    if word is None:
        # Only the inflight file of a commit leaves out its action.
        if suffix != "inflight":
            return None
        word = Action.COMMIT
    action = parse_action(word)
    if action is None or (completion_time is not None and (layout == 1 or suffix is not None)):
        return None
    return Instant(
        requested_time=requested_time,
        action=action,
        state=InstantState[suffix.upper()] if suffix else InstantState.COMPLETED,
        completion_time=completion_time,
    )


def instant_file_name(instant: Instant) -> str:
    """The file name of an instant, the inverse of ``parse_instant_file_name``."""
    time = instant.requested_time
    if instant.state is InstantState.COMPLETED:
        if instant.completion_time is not None:
            time = f"{time}_{instant.completion_time}"
        return f"{time}.{instant.action}"
    if instant.state is InstantState.INFLIGHT and instant.action is Action.COMMIT:
        return f"{time}.inflight"
    return f"{time}.{instant.action}.{instant.state.name.lower()}"


def parse_query_instant(moment: InstantLike, timezone: TimelineTimezone, argument: str = "as_of") -> str:
    """The instant, of 17 digits, for a time given by a user; ``argument`` names it in errors.

    As in Hudi, a date means its first millisecond, and a string without milliseconds the last millisecond of its
    second. That includes 14 digits, where Hudi itself compares the digits and so finds no instant of that second. A
    ``datetime`` means exactly its own millisecond. Dates and times are in the timeline's time zone. A string that ends
    in ``Z`` or ``+hh:mm``, or a ``datetime`` with a time zone, is converted if the timeline is known to be in UTC.
    The instants of a bootstrap stay as they are.

    Raises:
        QueryError: it is not a time, or its zone cannot be converted to the timeline's.
    """
    try:
        text = _spelling(moment)
    except (OverflowError, ValueError) as error:
        raise QueryError(argument, str(moment), _EXPECTED_INSTANT) from error
    if not isinstance(text, str):
        raise QueryError(argument, repr(text), _EXPECTED_INSTANT)
    if text in (BOOTSTRAP_OF_METADATA, BOOTSTRAP_OF_RECORDS):
        return text
    if _DIGITS.fullmatch(text):
        instant = text if len(text) == MILLIS_LENGTH else text + MISSING_MILLIS
        zone = None
    elif match := _DATE_AND_TIME.fullmatch(text):
        year, month, day, hour, minute, second, millis, zone = match.groups()
        time = f"{hour}{minute}{second}{millis or MISSING_MILLIS}" if hour else "000000000"
        instant = f"{year}{month}{day}{time}"
    else:
        raise QueryError(argument, repr(text), _EXPECTED_INSTANT)
    if zone is not None and timezone is not TimelineTimezone.UTC:
        raise QueryError(argument, repr(text), "a time without a zone: the timeline is in its writers' local time")
    try:
        return _in_utc(instant, zone or "Z")
    except (ValueError, OverflowError) as error:
        raise QueryError(argument, repr(text), _EXPECTED_INSTANT) from error


def parse_begin_instant(moment: InstantLike, timezone: TimelineTimezone, argument: str = "after") -> str:
    """As ``parse_query_instant``, but returns zeros for Hudi's names of the time before every instant.

    Raises:
        QueryError: it is neither.
    """
    if isinstance(moment, str) and (moment.lower() == EARLIEST or (moment and not moment.strip("0"))):
        return "0" * MILLIS_LENGTH
    return parse_query_instant(moment, timezone, argument)


def time_of(instant: str) -> datetime | None:
    """The time of an instant of 14 or 17 digits, in UTC whatever the timeline's zone is; None if it is not a time."""
    if _DIGITS.fullmatch(instant) is None:
        return None
    padded = instant.ljust(MILLIS_LENGTH, "0")
    try:
        seconds = datetime.strptime(f"{padded[:SECONDS_LENGTH]}+0000", "%Y%m%d%H%M%S%z")
    except ValueError:
        return None
    return seconds + timedelta(milliseconds=int(padded[SECONDS_LENGTH:]))


def clock(timezone: TimelineTimezone) -> str:
    """The current time as an instant of a timeline. For an unknown time zone of writers, this machine's is used."""
    return instant_at(datetime.now(UTC), timezone)


def instant_at(moment: datetime, timezone: TimelineTimezone) -> str:
    """A moment as an instant of a timeline. For an unknown time zone of writers, this machine's is used, as in Hudi."""
    in_zone = moment.astimezone(UTC if timezone is TimelineTimezone.UTC else None)
    return in_zone.strftime("%Y%m%d%H%M%S") + f"{in_zone.microsecond // 1000:03d}"


def seconds_between(earlier: str, later: str) -> float | None:
    """The seconds from one instant to another; None if one of them is not a time."""
    first, second = time_of(earlier), time_of(later)
    return None if first is None or second is None else (second - first).total_seconds()


def _spelling(moment: InstantLike) -> str:
    """The moment as a string in one of Hudi's formats, with a time zone if it has one."""
    if isinstance(moment, datetime):
        in_zone = moment if moment.utcoffset() is None else moment.astimezone(UTC)
        return in_zone.isoformat(timespec="milliseconds")
    return moment.isoformat() if isinstance(moment, date) else moment


def _in_utc(instant: str, zone: str) -> str:
    seconds, millis = instant[:SECONDS_LENGTH], instant[SECONDS_LENGTH:]
    moment = datetime.strptime(seconds + zone, "%Y%m%d%H%M%S%z").astimezone(UTC)
    return moment.isoformat()[:19].translate(_ISO_MARKS) + millis


@dataclass(frozen=True, slots=True)
class CompletionTimes:
    """When commits completed, by their requested time, in the time zone of the timeline."""

    by_request: Mapping[str, str]

    def of(self, requested: Column) -> Column:
        """The completion times of a column of requested times; null where none is known."""
        encoded: Any = requested.dictionary_encode()
        times = pa.array([self.of_commit(time) for time in encoded.dictionary.to_pylist()], pa.string())
        completed: Column = times.take(encoded.indices)
        return completed

    def of_commit(self, requested: str | None) -> str | None:
        """The completion time of one commit; None if it is not known."""
        time = requested or ""
        if time in self.by_request or not (len(time) == MILLIS_LENGTH and time.endswith(MISSING_MILLIS)):
            return self.by_request.get(time)
        # Hudi sometimes adds milliseconds to an instant of seconds.
        return self.by_request.get(time[:SECONDS_LENGTH])
