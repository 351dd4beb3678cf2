"""The process that answers for a reader: ``with reader_process("benchmarks.reader_hudi_bridge") as process``."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from benchmarks.scenarios import Read

ROOT = Path(__file__).parent.parent


class ReadFailedError(Exception):
    """Raised when a reader gives no answer; the message says why."""


class ReaderProcess:
    """A running process that answers questions, one at a time."""

    def __init__(self, questions: IO[str], answers: IO[str]) -> None:
        self._questions, self._answers = questions, answers

    def ask(self, **question: object) -> dict[str, Any]:
        """The answer to a question.

        Raises:
            ReadFailedError: the reader has failed, or its process has ended.
        """
        try:
            print(json.dumps(question), file=self._questions, flush=True)
        except BrokenPipeError as error:
            raise ReadFailedError("the process has ended") from error
        for line in self._answers:
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                if "error" in answer:
                    raise ReadFailedError(answer["error"])
                return answer
        raise ReadFailedError("the process has ended")

    def read(self, task: str, path: str, read: Read) -> dict[str, Any]:
        """The answer of ``measurement``: ``time`` or ``check`` of a read."""
        return self.ask(task=task, path=path, read=read.to_json())


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[ReaderProcess]:
    """A process that answers, until the end of the context."""
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdin
        assert process.stdout
        yield ReaderProcess(process.stdin, process.stdout)
        process.stdin.close()


@contextmanager
def reader_process(module: str, *arguments: str) -> Iterator[ReaderProcess]:
    """The process of a module that calls ``measurement.serve``."""
    environment = os.environ | {
        # What threads hold is lost in a fork, so none may start before it.
        "OPENBLAS_NUM_THREADS": "1",
        # The allocator that `hudi` has as well; otherwise, memory says what Arrow's own keeps.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    with running([sys.executable, "-m", module, *arguments], environment) as process:
        yield process
