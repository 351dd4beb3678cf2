"""Readers that are asked in processes of their own, so that a crash or a hang is an answer like another."""

import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

ROOT = Path(__file__).parents[3]
RUST_PANIC = 101
"""The exit status of a Rust program that panics."""
NOT_OFFERED = 3
"""The exit status of a program that has no such kind of query."""
NOT_STARTED = (126, 127)
"""The exit statuses of a shell that cannot run, or not find, a command."""
DIED = 128
"""A shell adds the number of the signal that ended a program."""
SECONDS = 60
MEBIBYTES = 4096
_SECONDS_TO_END = 10
_SECONDS_TO_START = 60
"""At the least: what is imported first takes long on a busy machine, and says nothing of the reader."""


class Verdict(StrEnum):
    """What came of a query."""

    EQUAL = "equal"
    WRONG = "wrong"
    REFUSED = "refused"
    NOT_OFFERED = "not offered"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"


@dataclass(frozen=True, slots=True)
class NoRows:
    """Why a reader has not answered: it refused, has no such query, crashed, or took too long."""

    verdict: Verdict
    detail: str


Answer = pa.Table | NoRows


class ReaderNotStartedError(Exception):
    """Raised if a reader cannot even be asked: there is no such module, function or command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long a query may take, and how much memory the process may have; no bound for 0 MiB."""

    seconds: float = SECONDS
    mebibytes: int = MEBIBYTES

    def bounded(self, command: Sequence[str]) -> list[str]:
        """The command under the bound on memory, for a shell of POSIX.

        What counts is written memory (``ulimit -d``), as allocators and threads reserve far more addresses.
        """
        if not self.mebibytes:
            return list(command)
        return ["sh", "-c", f'ulimit -d {self.mebibytes << 10} && exec "$@"', "sh", *command]


class Reader(Protocol):
    """A reader of Hudi tables."""

    name: str

    def answer(self, table: Path, kind: str, options: Mapping[str, Any]) -> Answer:
        """The rows of a query, or why there are none."""
        ...

    def close(self) -> None:
        """Ends the processes of the reader."""
        ...


class FunctionReader:
    """A function of Python, in one process for all queries, which is replaced if it dies or takes too long."""

    def __init__(self, function: str, limits: Limits, *, python: str = sys.executable) -> None:
        """Raises ReaderNotStartedError: the function cannot be imported."""
        self._function = function
        self._limits = limits
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="conformance-")
        self._errors = Path(self._folder.name) / "stderr"
        self._worker: _Worker | None = self._started()
        self.name = self._worker.name

    def answer(self, table: Path, kind: str, options: Mapping[str, Any]) -> Answer:
        """The rows of a query, or why there are none."""
        worker = self._worker = self._worker or self._started()
        path = Path(self._folder.name) / "answer.arrow"
        request = {"table": str(table), "kind": kind, "options": dict(options), "answer": str(path)}
        try:
            reply = worker.reply_to(json.dumps(request), self._limits.seconds)
        except queue.Empty:
            self._worker = None
            worker.kill()
            return NoRows(Verdict.TIMED_OUT, f"no answer after {self._limits.seconds:g} s")
        if reply is None:
            self._worker = None
            return NoRows(Verdict.CRASHED, _how_it_ended(worker.end(), self._errors))
        if "verdict" in reply:
            return NoRows(Verdict(reply["verdict"]), reply["detail"])
        rows = _read_stream(path)
        path.unlink()
        return rows

    def close(self) -> None:
        """Ends the process."""
        if self._worker is not None:
            self._worker.end()
        self._folder.cleanup()

    def _started(self) -> "_Worker":
        command = [self._python, "-m", "tests.golden.conformance.worker", self._function]
        worker = _Worker(self._limits.bounded(command), self._errors)
        try:
            seconds = max(self._limits.seconds, _SECONDS_TO_START)
            reply = worker.reply_to(None, seconds) or {"failed": _last_line(self._errors)}
        except queue.Empty:
            worker.kill()
            reply = {"failed": f"not imported after {seconds:g} s"}
        if "failed" in reply:
            worker.end()
            self._folder.cleanup()
            raise ReaderNotStartedError(f"{self._function}: {reply['failed']}")
        worker.name = reply["name"]
        return worker


class _Worker:
    """A process of ``worker.py``."""

    def __init__(self, command: Sequence[str], errors: Path) -> None:
        self.name = ""
        paths = [str(ROOT), str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])]
        with errors.open("w") as stderr:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
                start_new_session=True,
            )
        self._replies: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    def _forward(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._replies.put(line)
        self._replies.put("")

    def reply_to(self, request: str | None, seconds: float) -> dict[str, str] | None:
        """The next reply, None if the process ends before; raises queue.Empty after so many seconds."""
        assert self._process.stdin is not None
        if request is not None:
            try:
                print(request, file=self._process.stdin, flush=True)
            except BrokenPipeError:
                return None
        line = self._replies.get(timeout=seconds)
        return json.loads(line) if line else None

    def end(self) -> int:
        """Lets the process end, or kills it if it does not; returns its exit status."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            status = self._process.wait(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            return self.kill()
        self._thread.join()
        return status

    def kill(self) -> int:
        """Kills the process; returns its exit status."""
        assert self._process.stdin is not None
        status = _killed(self._process)
        self._thread.join()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        return status


class CommandReader:
    """A program that is run once for each query, with ``TABLE KIND OPTIONS``, and prints an Arrow IPC stream."""

    def __init__(self, command: str, limits: Limits, *, name: str | None = None) -> None:
        self._command = shlex.split(command)
        self._limits = limits
        self.name = name or command

    def answer(self, table: Path, kind: str, options: Mapping[str, Any]) -> Answer:
        """The rows of a query, or why there are none.

        Raises:
            ReaderNotStartedError: there is no such program.
        """
        command = self._limits.bounded([*self._command, str(table), kind, json.dumps(dict(options))])
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            output, errors = Path(folder) / "answer.arrow", Path(folder) / "stderr"
            with output.open("wb") as stdout, errors.open("wb") as stderr:
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True
                )
                try:
                    status = process.wait(timeout=self._limits.seconds)
                except subprocess.TimeoutExpired:
                    _killed(process)
                    return NoRows(Verdict.TIMED_OUT, f"no answer after {self._limits.seconds:g} s")
            if status in NOT_STARTED:
                raise ReaderNotStartedError(_last_line(errors))
            if status < 0 or status == RUST_PANIC or status >= DIED:
                return NoRows(Verdict.CRASHED, _how_it_ended(status, errors))
            if status:
                verdict = Verdict.NOT_OFFERED if status == NOT_OFFERED else Verdict.REFUSED
                return NoRows(verdict, _last_line(errors))
            try:
                return _read_stream(output)
            except pa.ArrowInvalid as error:
                return NoRows(Verdict.CRASHED, f"prints no Arrow IPC stream: {error}")

    def close(self) -> None:
        """Nothing is left to end."""


def _read_stream(path: Path) -> pa.Table:
    with pa.OSFile(str(path), "rb") as file:
        return pa.ipc.open_stream(file).read_all()


def _killed(process: "subprocess.Popen[Any]") -> int:
    """Kills a process with all that it started, which are in its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def _how_it_ended(status: int, errors: Path) -> str:
    number = -status if status < 0 else status - DIED
    if number in set(signal.Signals):
        how = signal.Signals(number).name
    else:
        how = "panic" if status == RUST_PANIC else f"exit status {status}"
    return f"{how}: {_last_line(errors)}"


def _last_line(errors: Path) -> str:
    """The last line of what a process printed as errors."""
    lines = [line.strip() for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said"
