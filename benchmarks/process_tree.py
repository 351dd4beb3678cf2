"""CPU time and memory of a process with all that it has started, from Linux's ``/proc``."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAUSE_SECONDS = 0.1
# Places in ``stat``, after the name of the process.
_PARENT, _TIMES, _PAGES = 1, slice(11, 15), 21


@dataclass(kw_only=True)
class Usage:
    """What a process tree has used so far, and its resident bytes now, in which shared pages count repeatedly.

    Reads are system calls that read files, pipes or sockets.
    """

    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    read_bytes: int = 0
    read_calls: int = 0


def usage(root: int) -> Usage:
    """The usage of a process and its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    facts: dict[int, list[str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            facts[int(folder.name)] = fields = stat[stat.rindex(")") + 2 :].split()
            children[int(fields[_PARENT])].append(int(folder.name))
    total, todo = Usage(), [root]
    while todo:
        process = todo.pop()
        todo += children[process]
        if process in facts:
            total.cpu_seconds += sum(map(int, facts[process][_TIMES])) / _TICKS_PER_SECOND
            total.resident_bytes += int(facts[process][_PAGES]) * _PAGE_BYTES
            read_bytes, read_calls = file_reads(process)
            total.read_bytes += read_bytes
            total.read_calls += read_calls
    return total


def file_reads(process: int) -> tuple[int, int]:
    """The bytes that a process has read by system calls so far, and the number of these calls; 0 if it has ended."""
    try:
        text = Path(f"/proc/{process}/io").read_text()
    except OSError:
        return 0, 0
    counts = dict(line.split(": ") for line in text.splitlines())
    return int(counts["rchar"]), int(counts["syscr"])


@contextmanager
def peak_memory(root: int) -> Iterator[Usage]:
    """Watches a process tree; the ``resident_bytes`` of what it yields are the peak until the end."""
    peak, ended = Usage(), threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            peak.resident_bytes = max(peak.resident_bytes, usage(root).resident_bytes)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()
