"""The writer of Hudi in a process group of its own, which can be killed in the middle of a write."""

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.hudi_bundle import hudi_bundle
from tests.connectors.spark.processes import PYTHON35, environment

_PROGRAM = Path(__file__).parent / "hudi_writer.py"


class WriterProcess:
    """A writer, started when it is first needed and again after it was killed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None

    def send(self, command: dict[str, Any]) -> None:
        """Let it begin a command."""
        if self._process is None:
            self._process = subprocess.Popen(
                [str(PYTHON35), str(_PROGRAM), str(hudi_bundle())],
                env=environment(PYTHON35),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=self._folder,
                text=True,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self) -> list[str | None]:
        """Wait for a command: what each of its writes failed with, or None."""
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Hudi prints, too.
            if line.startswith("DONE"):
                answer: list[str | None] = json.loads(line.removeprefix("DONE"))
                return answer
        raise AssertionError("the writer has ended")

    def kill(self) -> None:
        """End it, whatever it does."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._process = None
