"""Begins scans and walks away from each. A program, as memory, files and threads are counted by process.

    python -m tests.robustness.abandoned_scans HOW SCANS LOG_MEMORY_BYTES FOLDER

Prints what the scans left behind, as JSON: open ``files``, ``threads``, ``scratch`` files, ``allocated`` and
``resident`` bytes, each beyond what there was after the first scans.
"""

import gc
import json
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from hudi_bridge import HudiTable, open_reader

# Arrow's thread pools and Python's allocator settle in the first scans.
_SHARE_OF_FIRST = 10


def _leave_batches(table: HudiTable) -> None:
    next(table.snapshot().to_batches())


def _leave_reader(table: HudiTable) -> None:
    next(open_reader(table.splits()[0]).batches())


WAYS: Mapping[str, Callable[[HudiTable], None]] = {"batches": _leave_batches, "reader": _leave_reader}


def main(how: str, scans: int, log_memory_bytes: int, folder: str) -> None:
    """Begin ``scans`` scans of the table in ``folder``, after a tenth as many to settle."""
    table = HudiTable.open(folder, log_memory_bytes=log_memory_bytes)
    for _ in range(scans // _SHARE_OF_FIRST):
        WAYS[how](table)
    before = _state()
    for _ in range(scans):
        WAYS[how](table)
    left = {name: count - before[name] for name, count in _state().items()}
    sys.stdout.write(json.dumps(left))


def _state() -> dict[str, int]:
    gc.collect()
    return {
        "files": len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - of this process
        "threads": threading.active_count(),
        "scratch": len(list(Path(tempfile.gettempdir()).iterdir())),
        "allocated": pa.total_allocated_bytes(),
        "resident": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"),
    }


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
