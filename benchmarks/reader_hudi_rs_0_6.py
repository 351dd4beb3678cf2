"""The reads with hudi-rs 0.6, in its fastest way, by the program ``hudi_rs_0_6``: a new process for each.

It has nothing to import, so that its clock starts in a new process as that of others does in a fork. Streams of the
file slices, so many at once as there are cores, are its fastest way to a table, as they are of 0.5.
"""

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measurement import TIMEOUT_SECONDS, checksum
from benchmarks.reader_process import ReadFailedError
from benchmarks.scenarios import Read
from benchmarks.store import as_object_store


class RustReads:
    """What ``ReaderProcess`` is for other readers."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def read(self, task: str, path: str, read: Read) -> dict[str, Any]:
        """The answer of ``measurement``: ``time`` or ``check`` of a read.

        Raises:
            ReadFailedError: the reader has failed.
        """
        table, storage = as_object_store(path) if "://" in path else (path, {})
        question = {
            "table": table,
            "storage": storage,
            "columns": read.columns,
            "filters": [] if read.where is None else [read.where],
            "delivery": read.delivery.value,
        }
        if task == "time":
            return self._answer(question)
        with tempfile.TemporaryDirectory(prefix="hudi-bridge-") as folder:
            rows = Path(folder) / "rows.arrow"
            self._answer({**question, "into": str(rows)})
            with pa.OSFile(str(rows), "rb") as file:
                return checksum(pa.ipc.open_stream(file))

    def _answer(self, question: Mapping[str, Any]) -> dict[str, Any]:
        command = [str(self._program), "measure", json.dumps(question)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)
        except subprocess.TimeoutExpired as error:
            raise ReadFailedError(f"no answer in {TIMEOUT_SECONDS} s") from error
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"]
            raise ReadFailedError(said[-1])
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer
