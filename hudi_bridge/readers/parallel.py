"""The batches of many readers at once, in the order of their arrival.

Each worker thread reads one split after another and hands its batches over through a queue that holds few, so that
memory does not grow with the number of splits and a slow consumer slows the workers down.
"""

import os
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import Queue

import pyarrow as pa

_BATCHES_IN_QUEUE = 4

BatchSource = Callable[[], Iterator[pa.RecordBatch]]


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
    shared = _Shared(sources, workers)
    threads = [
        threading.Thread(target=shared.work, name=f"hudi-bridge-{number}", daemon=True) for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield from shared.batches()
    finally:
        shared.stop()
        for thread in threads:
            thread.join()


class _Shared:
    """What the workers and the consumer of one scan share; a worker that has ended hands over None."""

    def __init__(self, sources: Sequence[BatchSource], workers: int) -> None:
        self._stopped = threading.Event()
        self._sources = iter(sources)
        self._sources_lock = threading.Lock()
        self._workers = workers
        self._queue: Queue[pa.RecordBatch | BaseException | None] = Queue(_BATCHES_IN_QUEUE)

    def work(self) -> None:
        """Read sources until none is left."""
        try:
            while (source := self._next_source()) is not None:
                for batch in source():
                    self._queue.put(batch)
                    if self._stopped.is_set():
                        return
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._queue.put(error)
        finally:
            self._queue.put(None)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """What the workers hand over, until all have ended."""
        while self._workers:
            item = self._queue.get()
            if item is None:
                self._workers -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                yield item

    def stop(self) -> None:
        """Let the workers end at their next batch, and take what they still hand over."""
        self._stopped.set()
        while self._workers:
            self._workers -= self._queue.get() is None

    def _next_source(self) -> BatchSource | None:
        with self._sources_lock:
            return None if self._stopped.is_set() else next(self._sources, None)
