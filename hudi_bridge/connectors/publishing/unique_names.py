"""Names of files that are written once, by one process, and tell when: a name that was removed never comes back.

So any number of processes may write to one folder, and remove what they know to be needed by none of them.
"""

import re
import time
from uuid import uuid4

_MARK = re.compile(r"(?:^|-)t([0-9a-f]{8})[0-9a-f]{8}(?=[-.]|$)")
_PERIOD = re.compile(r"(?:^|-)p([0-9]{1,12})(?=[-.]|$)")
_SHORTEST_PERIOD = 3600.0


def new_mark() -> str:
    """A part of a name, to be put between hyphens: the time in seconds, and what no other process has."""
    return f"t{int(time.time()):08x}{uuid4().hex[:8]}"


def marked_at(name: str) -> int | None:
    """The time of the last mark in a name, in seconds since the epoch; None if there is none."""
    found = _MARK.findall(name)
    return int(found[-1], 16) if found else None


def period_seconds(keep_seconds: float) -> float:
    """The length of the periods into which time is divided: at least as long as running queries need files."""
    return max(keep_seconds, _SHORTEST_PERIOD)


def current_period(keep_seconds: float) -> int:
    """The number of the period that it is now; ``p`` and this number are part of the names of its files."""
    return int(time.time() // period_seconds(keep_seconds))


def period_of(name: str) -> int | None:
    """The period in a name; None if there is none."""
    found = _PERIOD.search(name)
    return int(found[1]) if found else None


def is_past(name: str, keep_seconds: float) -> bool:
    """Whether a name has a period in which nobody begins to use it, nor does a query run that has used it.

    A file of a period is given out in that period. One more is for queries, and one for clocks that differ.
    """
    period = period_of(name)
    return period is not None and period < current_period(keep_seconds) - 2
