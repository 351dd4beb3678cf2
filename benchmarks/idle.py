"""Waits until a process is almost idle: after a query, a JVM goes on compiling, and collects garbage."""

import time
from collections.abc import Callable

_WAIT_SECONDS, _MAX_WAITS, _IDLE_SHARE = 0.1, 30, 0.1


def wait_until_idle(cpu_seconds: Callable[[], float]) -> None:
    """Wait until hardly any CPU time is used, some seconds at most; ``cpu_seconds`` tells what was used so far."""
    for _ in range(_MAX_WAITS):
        before = cpu_seconds()
        time.sleep(_WAIT_SECONDS)
        if cpu_seconds() - before <= _IDLE_SHARE * _WAIT_SECONDS:
            return
