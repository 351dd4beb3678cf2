"""Runs workers: one process of Spark at a time, for the release that is asked for."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.connectors.spark.processes import PYTHON35, ROOT, environment
from tests.golden.generate.releases import RELEASES
from tests.random.draw import Draw

WRITTEN, CONTINUED, REFUSED, FAILED = "written", "continued", "refused", "failed"
"""What becomes of a job: a table with answers, one for the next release, none as its first write fails, an error."""

_LAST_LINES = 2000


class WorkerError(Exception):
    """Raised when a process of Spark has ended early; the message has what it said."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a worker says of a job."""

    state: str
    detail: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Session:
    """A running worker."""

    release: str
    process: "subprocess.Popen[str]"
    errors: Path

    def run(self, table: Draw, folder: Path) -> Result:
        """Runs the steps of a table that are of this release."""
        job = {"drawn": table.as_json(), "folder": str(folder)}
        jobs, results = _pipes(self.process)
        try:
            jobs.write(json.dumps(job) + "\n")
            jobs.flush()
            line = results.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise WorkerError(self.errors.read_text(errors="replace")[-_LAST_LINES:])
        return Result(**json.loads(line))


@contextmanager
def session(release: str, folder: Path) -> Iterator[Session]:
    """A worker for a release, whose messages go into a file of the folder."""
    errors = folder / f"worker_{release}.txt"
    command = [str(PYTHON35), "-m", "tests.random.worker", release, str(RELEASES[release].bundle.fetched())]
    variables = environment(PYTHON35) | {"TZ": "UTC"}
    with errors.open("w") as file:
        process = subprocess.Popen(
            command, env=variables, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file
        )
    try:
        yield Session(release, process, errors)
    finally:
        for pipe in _pipes(process):
            pipe.close()
        process.wait()


def _pipes(process: "subprocess.Popen[str]") -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout
