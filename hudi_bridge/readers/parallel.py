"""The batches of many readers at once, in the order of their arrival, or of one that runs ahead of its consumer.

Each worker thread reads one split after another and hands its batches over through a queue that holds few, so that
memory does not grow with the number of splits and a slow consumer slows the workers down.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from queue import Queue
from typing import Generic, TypeVar

import pyarrow as pa

_BATCHES_IN_QUEUE = 4

Item = TypeVar("Item")
Source = Callable[[], Iterator[Item]]
BatchSource = Source[pa.RecordBatch]


def most_at_once(sources: int) -> int:
    """How many of some sources are read at the same time."""
    return max(1, min(sources, os.cpu_count() or 1))


def iter_parallel(sources: Sequence[BatchSource], *, use_threads: bool = True) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all sources; an error in one of them ends all.

    When the consumer stops early, the workers stop at their next batch.
    """
    workers = most_at_once(len(sources))
    if not use_threads or workers == 1:
        for source in sources:
            yield from source()
        return
    yield from _Shared(sources, workers, _BATCHES_IN_QUEUE).items()


def iter_ahead(source: Source[Item]) -> Generator[Item, None, None]:
    """The items of a source, which a thread of its own makes one ahead of the consumer."""
    return _Shared([source], 1, 1).items()


@contextmanager
def begun(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The same items, of which a thread makes the first while the consumer does something else."""
    with ThreadPoolExecutor(1, "hudi-bridge") as pool:
        first = pool.submit(list, islice(items, 1))
        yield _first_and_rest(first, items)


def _first_and_rest(first: "Future[list[Item]]", items: Iterator[Item]) -> Iterator[Item]:
    yield from first.result()
    yield from items


class _Shared(Generic[Item]):
    """What the workers and the consumer of one scan share; a worker that has ended hands over None."""

    def __init__(self, sources: Sequence[Source[Item]], workers: int, most_in_queue: int) -> None:
        self._stopped = threading.Event()
        self._sources = iter(sources)
        self._sources_lock = threading.Lock()
        self._workers = workers
        self._queue: Queue[Item | BaseException | None] = Queue(most_in_queue)

    def items(self) -> Generator[Item, None, None]:
        """What the sources have, until all have ended or the consumer stops."""
        threads = [
            threading.Thread(target=self.work, name=f"hudi-bridge-{number}", daemon=True)
            for number in range(self._workers)
        ]
        for thread in threads:
            thread.start()
        try:
            yield from self._handed_over()
        finally:
            self._stop()
            for thread in threads:
                thread.join()

    def work(self) -> None:
        """Read sources until none is left."""
        try:
            while (source := self._next_source()) is not None:
                for item in source():
                    self._queue.put(item)
                    if self._stopped.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._queue.put(error)
        finally:
            self._queue.put(None)

    def _handed_over(self) -> Iterator[Item]:
        while self._workers:
            item = self._queue.get()
            if item is None:
                self._workers -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def _stop(self) -> None:
        # The workers end at their next item; what they still hand over is taken.
        self._stopped.set()
        while self._workers:
            self._workers -= self._queue.get() is None

    def _next_source(self) -> Source[Item] | None:
        with self._sources_lock:
            return None if self._stopped.is_set() else next(self._sources, None)
