"""CPU time and memory of a process with all that it has started, from Linux's ``/proc``."""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_PAUSE_SECONDS = 0.1
# Places in ``stat``, from the name of the process on.
_NAME, _PARENT, _TIMES, _PAGES = 0, 2, slice(12, 16), 22


@dataclass(kw_only=True)
class Usage:
    """What a process tree has used so far, and its resident bytes now, in which shared pages count repeatedly.

    Of these, ``bytes_beside_jvm`` are those of processes that are no JVMs. Reads are system calls that read files,
    pipes or sockets.
    """

    cpu_seconds: float = 0.0
    resident_bytes: int = 0
    bytes_beside_jvm: int = 0
    read_bytes: int = 0
    read_calls: int = 0


def usage(root: int) -> Usage:
    """The usage of a process and its descendants."""
    total = Usage()
    for process in tree_of(root, children_of_all()):
        fields = _stat(process)
        if fields is not None:
            total.cpu_seconds += sum(map(int, fields[_TIMES])) / _TICKS_PER_SECOND
            resident = int(fields[_PAGES]) * _PAGE_BYTES
            total.resident_bytes += resident
            total.bytes_beside_jvm += 0 if fields[_NAME] == "java" else resident
            read_bytes, read_calls = file_reads(process)
            total.read_bytes += read_bytes
            total.read_calls += read_calls
    return total


def children_of_all() -> Mapping[int, Sequence[int]]:
    """The children of each process that has some."""
    children: dict[int, list[int]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))) is not None:
            children[int(fields[_PARENT])].append(int(folder.name))
    return children


def tree_of(root: int, children: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """A process and its descendants."""
    todo = [root]
    while todo:
        process = todo.pop()
        todo += children.get(process, ())
        yield process


def resident_bytes(process: int) -> int:
    """The resident bytes of a process, 0 if it has ended."""
    fields = _stat(process)
    return 0 if fields is None else int(fields[_PAGES]) * _PAGE_BYTES


def own_peak_bytes() -> int:
    """The most resident bytes of this process, of the program that it runs now.

    What ``getrusage`` has as the peak also counts the process that started this one, as a copy of it.
    """
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def _stat(process: int) -> list[str] | None:
    """The name and the fields after it, None if the process has ended."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    name, _, fields = stat.partition("(")[2].rpartition(")")
    return [name, *fields.split()]


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
    """Watches a process tree; both numbers of resident bytes of what it yields are peaks until the end."""
    peak, ended = Usage(), threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            now = usage(root)
            peak.resident_bytes = max(peak.resident_bytes, now.resident_bytes)
            peak.bytes_beside_jvm = max(peak.bytes_beside_jvm, now.bytes_beside_jvm)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()
