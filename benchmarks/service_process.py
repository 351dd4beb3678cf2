"""The Iceberg service as a process of its own, and the CPU time of a process."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAM = "from hudi_bridge.cli.main import main; main()"


class ServiceFailedError(Exception):
    """Raised when the catalog service does not print its URL; the message is what it prints instead."""


@contextmanager
def iceberg_service(table: Path, scratch: Path, options: Sequence[str]) -> Iterator[tuple[str, int]]:
    """A running ``hudi-bridge serve iceberg``: its URL and process id."""
    command = [sys.executable, "-c", PROGRAM, "serve", "iceberg", "--table", f"trades={table}"]
    command += ["--scratch", str(scratch), "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        try:
            first_line = process.stderr.readline() if process.stderr is not None else ""
            url = re.search(r"http://[\w.]+:\d+", first_line)
            if url is None:
                raise ServiceFailedError(first_line)
            yield url.group(), process.pid
        finally:
            process.terminate()


def cpu_seconds(process: int | None) -> float:
    """The CPU time of a process and all its threads since its start; 0 for None."""
    if process is None:
        return 0.0
    # The name of the program, in parentheses, may have spaces.
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
