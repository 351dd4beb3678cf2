"""Durations and times for people."""

from hudi_bridge.timeline.instant import time_of

_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"))


def duration_text(seconds: float) -> str:
    """A duration: ``0.8 s``, ``4.5 min``, ``3.0 h``, ``2.1 days``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def time_text(instant: str) -> str:
    """An instant to the second, as it is if it is no time."""
    moment = time_of(instant)
    return instant if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"
