"""What the servers of the tests have in common: they are waited for, shared by processes, and run until interrupted."""

import fcntl
import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TextIO, TypeVar

from tests.integration.server_download import DownloadError
from tests.support.jdks import JdkMissingError

LOOPBACK = "127.0.0.1"
TIMEOUT_SECONDS = 240
LOG_LINES_SHOWN = 40


class Server(Protocol):
    """A server of SQL; ``pid`` is that of its process, None if that is not known."""

    @property
    def port(self) -> int: ...

    @property
    def pid(self) -> int | None: ...

    def query(self, sql: str) -> list[Any]:
        """The rows of one statement."""


AnyServer = TypeVar("AnyServer", bound=Server)


class ServerNotStartedError(Exception):
    """Raised when a server cannot be started, ends, or is not ready in time; the message has the end of its log."""


@contextmanager
def shared(
    folder: Path,
    start: Callable[[Path], AbstractContextManager[AnyServer]],
    join: Callable[[int, int | None], AnyServer],
) -> Iterator[AnyServer]:
    """A server for all processes that pass the same folder; the folder is removed at the end.

    The first process starts it, and stops it once the others have finished; these join it by its port and process.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "server.json"
    with (folder / "start").open("w") as starting, (folder / "users").open("w") as users:
        fcntl.flock(starting, fcntl.LOCK_EX)
        if state.exists():
            fcntl.flock(users, fcntl.LOCK_SH)
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield join(*json.loads(state.read_text(encoding="utf-8")))
            return
        with start(folder) as server:
            state.write_text(json.dumps([server.port, server.pid]), encoding="utf-8")
            fcntl.flock(starting, fcntl.LOCK_UN)
            yield server
            _wait_for_others(starting, users)
            state.unlink()
        shutil.rmtree(folder)


def _wait_for_others(starting: TextIO, users: TextIO) -> None:
    """Let no further process join, and wait until those that have joined are done."""
    fcntl.flock(starting, fcntl.LOCK_EX)
    fcntl.flock(users, fcntl.LOCK_EX)


def wait_until_ready(name: str, process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Return once a server answers.

    Raises:
        ServerNotStartedError: it ends, or is not ready in time.
    """
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerNotStartedError(f"{name} ended with status {process.returncode}:\n{_last_lines(log)}")
        if _is_ready(port):
            return
        time.sleep(0.25)
    raise ServerNotStartedError(f"{name} was not ready after {TIMEOUT_SECONDS} s:\n{_last_lines(log)}")


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/v1/info", timeout=5) as answer:
            return not json.load(answer)["starting"]
    except OSError:
        return False


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End a server at once; nothing of it outlives it, and its orderly end takes many seconds."""
    process.kill()
    process.wait()
    if process.stdin:
        process.stdin.close()


def run_until_interrupted(
    name: str,
    start: Callable[[Path, int], AbstractContextManager[AnyServer]],
    port: int,
    about: Callable[[AnyServer], str],
) -> None:
    """Run a server in a temporary folder until Ctrl-C, or a request to end; ``about`` is said once it has started.

    Raises:
        SystemExit: it cannot be started; the message says what is missing.
    """
    # Otherwise, the server would outlive this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with TemporaryDirectory(prefix=f"hudi-bridge-{name.lower()}-") as folder, start(Path(folder), port) as server:
            sys.stderr.write(
                f"{name} listens on http://{LOOPBACK}:{server.port}; end it with Ctrl-C. Log: {folder}/server.log\n"
                f"{about(server)}"
            )
            _wait_for_interrupt()
            sys.stderr.write(f"{name} stops.\n")
    except (DownloadError, JdkMissingError, ServerNotStartedError) as error:
        raise SystemExit(str(error)) from error


def _wait_for_interrupt() -> None:
    with suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)
