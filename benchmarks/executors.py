"""The executors that a driver has started on its machine: their memory, and the sudden death of one.

An executor is a JVM, and the Python workers that it has started. In ``local-cluster``, the master and the workers of
Spark are threads of the driver's JVM, which starts the executors.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.process_tree import children_of_all, resident_bytes, tree_of

_EXECUTOR = b"CoarseGrainedExecutorBackend"
_PAUSE_SECONDS = 0.2
# Of a stage that reads files, other than those that join the results of such.
_LEAST_TASKS = 4


@dataclass(slots=True, kw_only=True)
class Memory:
    """The most resident bytes of a JVM, of the Python processes beside it, and of all of them at one time.

    Pages that Python processes share count once for each.
    """

    jvm: int = 0
    python: int = 0
    both: int = 0

    def note(self, jvm: int, python: int) -> None:
        """Note what is resident now."""
        self.jvm, self.python = max(self.jvm, jvm), max(self.python, python)
        self.both = max(self.both, jvm + python)


@dataclass(slots=True, kw_only=True)
class ClusterMemory:
    """The peaks of the driver, and of each executor by its process."""

    driver: Memory = field(default_factory=Memory)
    executors: dict[int, Memory] = field(default_factory=dict)

    @property
    def worst(self) -> Memory:
        """The greatest peaks among the executors, which may be of several."""
        every = self.executors.values()
        return Memory(
            jvm=max((one.jvm for one in every), default=0),
            python=max((one.python for one in every), default=0),
            both=max((one.both for one in every), default=0),
        )

    def note(self, driver: int) -> None:
        """Note what is resident now in the tree of a driver's Python process."""
        children = children_of_all()
        executors = {one: set(tree_of(one, children)) for one in tree_of(driver, children) if _is_executor(one)}
        for one, tree in executors.items():
            # Until it runs its own program, a new JVM is a copy of the one that starts it.
            memory = self.executors.setdefault(one, Memory())
            memory.note(resident_bytes(one), sum(resident_bytes(process) for process in tree - {one}))
        others = set(tree_of(driver, children)).difference(*executors.values()) - {driver}
        self.driver.note(sum(map(resident_bytes, others)), resident_bytes(driver))


@contextmanager
def watched_memory() -> Iterator[ClusterMemory]:
    """The peaks of this process, as the driver, and of its executors until the context ends."""
    found, ended = ClusterMemory(), threading.Event()

    def watch() -> None:
        while not ended.wait(_PAUSE_SECONDS):
            found.note(os.getpid())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        ended.set()
        watcher.join()


@dataclass(slots=True, kw_only=True)
class Death:
    """When an executor was killed: after how many tasks of how many of a stage; none of 0 if it was not."""

    completed: int = 0
    tasks: int = 0


@contextmanager
def one_killed_in_the_middle(context: Any) -> Iterator[Death]:  # noqa: ANN401 - PySpark's is another in each release
    """Kills an executor once half of the tasks of a stage have completed, if a stage is seen then."""
    death, ended = Death(), threading.Event()
    tracker = context.statusTracker()

    def watch() -> None:
        while not ended.wait(_PAUSE_SECONDS / 4):
            for number in tracker.getActiveStageIds():
                stage = tracker.getStageInfo(number)
                if stage is None or stage.numTasks < _LEAST_TASKS:
                    continue
                if 2 * stage.numCompletedTasks >= stage.numTasks > stage.numCompletedTasks:
                    death.completed, death.tasks = stage.numCompletedTasks, stage.numTasks
                    os.kill(executors_of(os.getpid())[0], signal.SIGKILL)
                    return

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield death
    finally:
        ended.set()
        watcher.join()


def executors_of(driver: int) -> list[int]:
    """The JVMs of the executors below a process."""
    return [one for one in tree_of(driver, children_of_all()) if _is_executor(one)]


def wait_for_executors(driver: int, number: int, most_seconds: float = 120) -> None:
    """Return when a driver has that many executors.

    Raises:
        TimeoutError: it has not after some time.
    """
    until = time.monotonic() + most_seconds
    while len(executors_of(driver)) < number:
        if time.monotonic() > until:
            raise TimeoutError(f"fewer than {number} executors after {most_seconds:g} s")
        time.sleep(_PAUSE_SECONDS)


def _is_executor(process: int) -> bool:
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    # The launcher of an executor names its class, too, but is no JVM of that name.
    return any(part.endswith(_EXECUTOR) for part in command) and command[0].endswith(b"java")
