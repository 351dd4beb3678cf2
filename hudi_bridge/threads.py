"""Threads that work for one consumer, and end with it however it ends.

The consumer may be interrupted anywhere: Ctrl-C raises between any two of its steps, also within Python code that holds
a lock or has just taken something out of a queue. So it shares nothing with its workers but a flag and two queues that
are written in C, and nobody waits for a count that an interrupt could have made wrong. To stop, the flag is set, which
no interrupt can come before, and each worker gets leave to go on, finds the flag, and ends. ``Thread.start`` holds
locks, too: a thread that nothing interrupts, as interrupts are raised in the main thread alone, calls it.
"""

import _thread
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from hudi_bridge.waiting import give_up

_STARTING_SECONDS = 0.001
_URGE_SECONDS = 0.2
_LOOKING_SECONDS = 1.0

Item = TypeVar("Item")
Result = TypeVar("Result")
Source = Callable[[], Iterator[Item]]


class Workers(Generic[Item]):
    """Threads that go through sources, each one after another, and hand over the items of all in order of arrival.

    To be used as ``try: workers.start() ... finally: workers.stopped = True; workers.end()``: threads are started
    within the block, and nothing lies between its end, for whatever reason, and the flag.
    """

    def __init__(self, sources: Sequence[Source[Item]], workers: int, most_waiting: int) -> None:
        """Workers that have not begun; the items that wait for the consumer are ``most_waiting``, or few more."""
        self.stopped = False
        self._is_starting = False
        self._sources = iter(sources)
        self._sources_lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._work, name=f"hudi-bridge-{number}", daemon=True) for number in range(workers)
        ]
        # A worker that has ended hands over None.
        self._handed_over: SimpleQueue[tuple[Item] | BaseException | None] = SimpleQueue()
        self._room: SimpleQueue[None] = SimpleQueue()
        self._give_room(most_waiting)

    def start(self) -> None:
        """Have all begin."""
        try:
            self._is_starting = True
            _thread.start_new_thread(self._start, ())
        except BaseException:
            # If it was an interrupt after all had begun, they end by themselves.
            self._is_starting = False
            raise

    def items(self) -> Iterator[Item]:
        """What the sources have; an error in one of them ends all."""
        working = len(self._threads)
        while working:
            handed_over = self._handed_over.get()
            if handed_over is None:
                working -= 1
            elif isinstance(handed_over, BaseException):
                raise handed_over
            else:
                self._room.put(None)
                [item] = handed_over
                del handed_over
                yield item
                del item

    def end(self, urge: Callable[[], object] = bool) -> None:
        """Wait until all have ended, at their next items; an interrupt ends the waiting, and they end by themselves.

        ``urge`` is called again and again while one is at work.
        """
        if isinstance(sys.exc_info()[1], KeyboardInterrupt):
            give_up(self._threads)
        self._give_room(len(self._threads))
        while self._is_starting:
            time.sleep(_STARTING_SECONDS)
        for thread in self._threads:
            while thread.is_alive():
                urge()
                thread.join(_URGE_SECONDS)

    def _give_room(self, items: int) -> None:
        for _ in range(items):
            self._room.put(None)

    def _start(self) -> None:
        try:
            for thread in self._threads:
                thread.start()
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._handed_over.put(error)
        finally:
            self._is_starting = False

    def _work(self) -> None:
        try:
            while (source := self._next_source()) is not None:
                for item in source():
                    if not self._waited_for_room():
                        return
                    self._handed_over.put((item,))
                    del item
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._handed_over.put(error)
        finally:
            self._handed_over.put(None)

    def _waited_for_room(self) -> bool:
        """Whether there is room for one more item; False once stopped."""
        while not self.stopped:
            # An interrupt may have kept the consumer from giving the room that ends the waiting.
            with suppress(Empty):
                self._room.get(timeout=_LOOKING_SECONDS)
                return not self.stopped
        return False

    def _next_source(self) -> Source[Item] | None:
        with self._sources_lock:
            return None if self.stopped else next(self._sources, None)


def map_in_threads(function: Callable[[Item], Result], items: Iterable[Item], most: int) -> list[Result]:
    """The results for all items, in their order, with so many threads at most; an error ends all."""
    sources = [partial(_numbered, function, number, item) for number, item in enumerate(items)]
    if len(sources) == 1:
        return [result for _, result in sources[0]()]
    results: dict[int, Result] = {}
    workers = Workers(sources, min(most, len(sources)), len(sources))
    try:
        workers.start()
        results.update(workers.items())
    finally:
        workers.stopped = True
        workers.end()
    return [results[number] for number in range(len(sources))]


def _numbered(function: Callable[[Item], Result], number: int, item: Item) -> Iterator[tuple[int, Result]]:
    yield number, function(item)
