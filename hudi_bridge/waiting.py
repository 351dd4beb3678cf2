"""Waiting for what may never answer: with a limit, and so that Ctrl-C ends it.

A call into a store's client may block in C++, where no signal reaches it. It is made in a thread of its own, which is
left behind if it does not come back; the process can end without it.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar
from weakref import WeakSet

_LIMIT_VARIABLE = "HUDI_BRIDGE_STORE_TIMEOUT"
_LIMIT_SECONDS = 120.0
_LOOKING_SECONDS = 0.2
_NAME = "hudi-bridge-store"

Answer = TypeVar("Answer")

_given_up: "WeakSet[threading.Thread]" = WeakSet()


def limit_seconds() -> float:
    """How long one answer of a store is waited for: 120 seconds, or what HUDI_BRIDGE_STORE_TIMEOUT says."""
    try:
        return max(0.001, float(os.environ[_LIMIT_VARIABLE]))
    except (KeyError, ValueError):
        return _LIMIT_SECONDS


def give_up(threads: Iterable[threading.Thread]) -> None:
    """Have threads that wait in ``within`` wait no longer, since nobody waits for what they are doing."""
    _given_up.update(threads)


def is_left_behind() -> bool:
    """Whether a call is still under way that nobody waits for."""
    return any(thread.name == _NAME for thread in threading.enumerate())


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """What the call returns or raises.

    Raises:
        TimeoutError: it has not returned in time.
    """
    answered: list[Answer] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            answered.append(call())
        except BaseException as error:  # noqa: BLE001 - raised by the one who waits
            failed.append(error)

    thread = threading.Thread(target=work, name=_NAME, daemon=True)
    thread.start()
    end, waiter = time.monotonic() + seconds, threading.current_thread()
    while thread.is_alive() and (left := end - time.monotonic()) > 0 and waiter not in _given_up:
        thread.join(min(left, _LOOKING_SECONDS))
    if failed:
        raise failed[0]
    if not answered:
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return answered[0]
