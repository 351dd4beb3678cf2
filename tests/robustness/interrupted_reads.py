"""Reads tables repeatedly, and interrupts each read at another moment. A program, as an interrupt hits its process.

    python -m tests.robustness.interrupted_reads COUNT FOLDER...

Prints how many reads were interrupted, which other errors they raised, and which threads are left.
"""

import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable

from hudi_bridge import HudiTable

_MOST_SECONDS_TO_END = 10


def main(count: int, folders: list[str]) -> None:
    """Interrupt ``count`` reads."""
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    chance, interrupted, errors = random.Random(12), 0, []
    seconds = {(read, folder): _seconds(read, folder) for read in _READS for folder in folders}
    while interrupted < count:
        read, folder = chance.choice(list(seconds))
        try:
            _read_interrupted(read, folder, chance.uniform(0.0001, seconds[read, folder]))
        except KeyboardInterrupt:
            interrupted += 1
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no interrupt
            errors.append(repr(error))
            interrupted += 1
    deadline = time.monotonic() + _MOST_SECONDS_TO_END
    while threading.active_count() > 1 and time.monotonic() < deadline:
        time.sleep(0.05)
    left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    sys.stdout.write(json.dumps({"interrupted": interrupted, "errors": errors, "threads": left}))


def _read_interrupted(read: Callable[[HudiTable], object], folder: str, after: float) -> None:
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        read(HudiTable.open(folder))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _seconds(read: Callable[[HudiTable], object], folder: str) -> float:
    read(HudiTable.open(folder))
    start = time.perf_counter()
    read(HudiTable.open(folder))
    return time.perf_counter() - start


_READS: tuple[Callable[[HudiTable], object], ...] = (
    lambda table: table.snapshot().to_table(),
    lambda table: table.snapshot().head(3),
    lambda table: next(table.snapshot().to_batches()),
    lambda table: table.incremental("earliest").to_table(),
    lambda table: table.changes("earliest").to_table(),
)

if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
