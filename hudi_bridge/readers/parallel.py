"""The batches of many readers at once, in the order of their arrival, or of one that runs ahead of its consumer.

Each worker thread reads one split after another and hands its batches over through a queue that holds few, so that
memory does not grow with the number of splits and a slow consumer slows the workers down.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice

import pyarrow as pa

from hudi_bridge.threads import Item, Source, Workers

_BATCHES_IN_QUEUE = 4

BatchSource = Source[pa.RecordBatch]


def most_at_once(sources: int) -> int:
    """How many of some sources are read at the same time."""
    return max(1, min(sources, os.cpu_count() or 1))


def iter_parallel(sources: Sequence[BatchSource], *, use_threads: bool = True) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all sources; an error in one of them ends all.

    When the consumer stops early, the workers stop at their next batch.
    """
    at_once = most_at_once(len(sources))
    if not use_threads or at_once == 1:
        for source in sources:
            yield from source()
        return
    yield from _iter_worked(sources, at_once, _BATCHES_IN_QUEUE)


def iter_ahead(source: Source[Item]) -> Generator[Item, None, None]:
    """The items of a source, which a thread of its own makes one ahead of the consumer."""
    return _iter_worked([source], 1, 1)


def _iter_worked(sources: Sequence[Source[Item]], at_once: int, max_waiting: int) -> Generator[Item, None, None]:
    workers = Workers(sources, at_once, max_waiting)
    try:
        workers.start()
        yield from workers.items()
    finally:
        workers.stopped = True
        workers.end()


@contextmanager
def begun(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The same items, of which a thread makes the first while the consumer does something else."""
    workers = Workers([lambda: islice(items, 1)], 1, 1)
    try:
        workers.start()
        yield chain(workers.items(), items)
    finally:
        workers.stopped = True
        workers.end()
