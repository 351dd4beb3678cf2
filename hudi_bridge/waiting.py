"""Calls with a timeout, which Ctrl-C can interrupt.

The client of a store may block in C++, where signals are not handled. So a thread of its own calls it, and is abandoned
if the call does not return in time.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar
from weakref import WeakSet

from hudi_bridge.environment import number_in

_TIMEOUT_VARIABLE = "HUDI_BRIDGE_STORE_TIMEOUT"
_DEFAULT_TIMEOUT_SECONDS = 120.0
_POLL_SECONDS = 0.2
_THREAD_NAME = "hudi-bridge-store"

Result = TypeVar("Result")

_abandoned_waiters: "WeakSet[threading.Thread]" = WeakSet()


def timeout_seconds() -> float:
    """The timeout of one request to a store: HUDI_BRIDGE_STORE_TIMEOUT, or 120 seconds."""
    return number_in(_TIMEOUT_VARIABLE, _DEFAULT_TIMEOUT_SECONDS, least=0.001)


class HelperThread(threading.Thread):
    """A daemon thread that works for the thread that makes it, and stops waiting whenever that one does.

    ``is_stopped`` tells whether its work is not needed any more.
    """

    def __init__(self, target: Callable[[], object], name: str, is_stopped: Callable[[], bool]) -> None:
        super().__init__(target=target, name=name, daemon=True)
        self.works_for = threading.current_thread()
        self.is_stopped = is_stopped


def _helpers_of_this() -> Iterator[threading.Thread]:
    """The current thread, the one that it works for, and so on."""
    thread = threading.current_thread()
    yield thread
    while isinstance(thread, HelperThread):
        thread = thread.works_for
        yield thread


def _is_abandoned() -> bool:
    return any(thread in _abandoned_waiters for thread in _helpers_of_this())


def _is_stopped() -> bool:
    return any(isinstance(thread, HelperThread) and thread.is_stopped() for thread in _helpers_of_this())


def pause(seconds: float) -> bool:
    """Wait; False, at once, if the work of this thread is not needed any more."""
    end = time.monotonic() + seconds
    while not _is_abandoned() and not _is_stopped():
        left = end - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(left, _POLL_SECONDS))
    return False


def abandon_waiting(threads: Iterable[threading.Thread]) -> None:
    """Make these threads and their helpers stop waiting, as their results are not needed any more."""
    _abandoned_waiters.update(threads)


def has_abandoned_call() -> bool:
    """Whether a call that timed out or was interrupted is still running."""
    return any(thread.name == _THREAD_NAME for thread in threading.enumerate())


def call_with_timeout(seconds: float, call: Callable[[], Result]) -> Result:
    """The result of the call.

    Raises:
        TimeoutError: the call has not returned in time.
        Exception: what the call raises.
    """
    returned: list[Result] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            returned.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            failed.append(error)

    thread = threading.Thread(target=work, name=_THREAD_NAME, daemon=True)
    thread.start()
    end = time.monotonic() + seconds
    while thread.is_alive() and (left := end - time.monotonic()) > 0 and not _is_abandoned():
        thread.join(min(left, _POLL_SECONDS))
    if failed:
        raise failed[0]
    if not returned:
        raise TimeoutError(f"no answer within {seconds:g} seconds")
    return returned[0]
