"""A lock on the scratch folder: a second service would remove files that clients of the first one need.

On a local disk it is a lock of the operating system. Object stores have no locks: there, the holder rewrites a file
every few seconds, and the lock is free when that stops. Clocks are not compared.
"""

import errno
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from uuid import uuid4

from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.errors import QueryError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_NAME = ".hudi-bridge.lock"
_RENEWAL_SECONDS = 5.0
_STALE_SECONDS = 15.0
_POLL_SECONDS = 0.5
_LOG = logging.getLogger(__name__)


@contextmanager
def locked(scratch: Scratch, on_loss: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on a folder; ``on_loss`` is called if another process takes it nevertheless.

    Raises:
        QueryError: another process holds the lock, or the folder is not writable.
    """
    with ExitStack() as stack:
        try:
            if not (scratch.storage.is_local and stack.enter_context(_locked_by_system(scratch))):
                stack.enter_context(_Lease(scratch, on_loss).held())
        except OSError as error:
            found = f"{scratch.storage.shown_path}, where nothing can be written: {error.strerror or error}"
            raise QueryError("--scratch", found, "a folder to write to") from error
        yield


@contextmanager
def _locked_by_system(scratch: Scratch) -> Iterator[bool]:
    """Whether the operating system holds the lock; some systems and file systems have no locks."""
    path = scratch.storage.resolve(_NAME)
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - a path of the storage's file system
    with open(path, "a+b") as file:  # noqa: PTH123
        if fcntl is None:
            yield False
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise _already_held(scratch, file.read()) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            yield False
            return
        file.truncate(0)
        file.write(_new_content())
        file.flush()
        yield True


class _Lease:
    """A lock file that its holder rewrites while it lives."""

    def __init__(self, scratch: Scratch, on_loss: Callable[[], None]) -> None:
        self._scratch = scratch
        self._on_loss = on_loss
        self._written = b""
        self._ended = Event()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._wait_until_free()
        self._renew()
        # If two processes found it free at the same time, the later one has overwritten the file.
        self._ended.wait(_POLL_SECONDS)
        found = self._scratch.read(_NAME)
        if found != self._written:
            raise _already_held(self._scratch, found or b"")
        thread = Thread(target=self._keep_renewing, name="hudi-bridge-lock", daemon=True)
        try:
            thread.start()
            yield
        finally:
            self._ended.set()
            thread.join()
            if self._scratch.read(_NAME) == self._written:
                self._scratch.remove(_NAME)

    def _wait_until_free(self) -> None:
        first, deadline = self._scratch.read(_NAME), time.monotonic() + _STALE_SECONDS
        if first is not None:
            _LOG.info("the scratch folder has a lock of %s; waiting whether it is alive", _holder(first))
        while first is not None and time.monotonic() < deadline:
            self._ended.wait(_POLL_SECONDS)
            found = self._scratch.read(_NAME)
            if found is None:
                return
            if found != first:
                raise _already_held(self._scratch, found)

    def _renew(self) -> None:
        written = _new_content()
        self._scratch.write(_NAME, written)
        self._written = written

    def _keep_renewing(self) -> None:
        while not self._ended.wait(_RENEWAL_SECONDS):
            try:
                found = self._scratch.read(_NAME)
                if found is not None and found != self._written:
                    _LOG.error("%s has taken the scratch folder; this service ends", _holder(found))
                    self._on_loss()
                    return
                self._renew()
            except OSError as error:
                _LOG.warning("the lock of the scratch folder cannot be renewed: %s", error)


def _new_content() -> bytes:
    return json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "nonce": uuid4().hex}).encode()


def _holder(content: bytes) -> str:
    try:
        holder = json.loads(content)
        return ascii(f"process {holder['pid']} on {holder['host']}")
    except (ValueError, KeyError, TypeError):
        return "another process"


def _already_held(scratch: Scratch, content: bytes) -> QueryError:
    found = f"{scratch.storage.shown_path}, which {_holder(content)} writes to"
    return QueryError("--scratch", found, "a folder of its own for each service")
