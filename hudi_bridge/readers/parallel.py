"""The batches of many readers at once, in the order of their arrival.

Each worker thread reads one split after another and hands its batches over through a queue that holds few, so that
memory does not grow with the number of splits and a slow consumer slows the workers down.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, Full, Queue

import pyarrow as pa

_BATCHES_IN_QUEUE = 4
_SECONDS_BETWEEN_CHECKS = 0.1

BatchSource = Callable[[], Iterator[pa.RecordBatch]]


def iter_parallel(sources: Sequence[BatchSource], *, use_threads: bool = True) -> Iterator[pa.RecordBatch]:
    """The batches of all sources; an error in one of them ends all.

    When the consumer stops early, the workers stop at their next batch.
    """
    workers = min(len(sources), os.cpu_count() or 1)
    if not use_threads or workers <= 1:
        for source in sources:
            yield from source()
        return
    shared = _Shared(sources)
    threads = [
        threading.Thread(target=shared.work, name=f"hudi-bridge-{number}", daemon=True) for number in range(workers)
    ]
    for thread in threads:
        thread.start()
    try:
        yield from shared.batches(threads)
    finally:
        shared.stop.set()
        for thread in threads:
            thread.join()


class _Shared:
    """What the workers and the consumer of one scan share."""

    def __init__(self, sources: Sequence[BatchSource]) -> None:
        self.stop = threading.Event()
        self._sources = iter(sources)
        self._sources_lock = threading.Lock()
        self._queue: Queue[pa.RecordBatch | BaseException] = Queue(_BATCHES_IN_QUEUE)

    def work(self) -> None:
        """Read sources until none is left."""
        try:
            while (source := self._next_source()) is not None:
                for batch in source():
                    if not self._put(batch):
                        return
        except BaseException as error:  # noqa: BLE001 - handed over to the consumer, who raises it
            self._put(error)

    def batches(self, threads: Sequence[threading.Thread]) -> Iterator[pa.RecordBatch]:
        """What the workers hand over, until all have ended."""
        while True:
            alive = any(thread.is_alive() for thread in threads)
            try:
                item = self._queue.get(timeout=_SECONDS_BETWEEN_CHECKS if alive else 0.0)
            except Empty:
                if not alive:
                    return
                continue
            if isinstance(item, BaseException):
                raise item
            yield item

    def _next_source(self) -> BatchSource | None:
        with self._sources_lock:
            return None if self.stop.is_set() else next(self._sources, None)

    def _put(self, item: pa.RecordBatch | BaseException) -> bool:
        while not self.stop.is_set():
            try:
                self._queue.put(item, timeout=_SECONDS_BETWEEN_CHECKS)
            except Full:
                continue
            return True
        return False
