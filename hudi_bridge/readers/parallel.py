"""Reads several splits in parallel, in order of arrival, or one split ahead of its consumer.

Worker threads fill a bounded queue, so memory does not grow with the number of splits.
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
    """The number of sources that are read at the same time."""
    return max(1, min(sources, os.cpu_count() or 1))


def iter_parallel(
    sources: Sequence[BatchSource], *, use_threads: bool = True, at_once: int | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all sources, ``at_once`` of them read at the same time; an error in one of them stops all.

    If the consumer stops early, the workers stop at their next batch.
    """
    at_once = most_at_once(len(sources)) if at_once is None else at_once
    if not use_threads or at_once == 1:
        for source in sources:
            yield from source()
        return
    yield from _iter_from_workers(sources, at_once, _BATCHES_IN_QUEUE)


def iter_ahead(source: Source[Item]) -> Generator[Item, None, None]:
    """The items of a source, read one item ahead by a background thread."""
    return _iter_from_workers([source], 1, 1)


def _iter_from_workers(sources: Sequence[Source[Item]], at_once: int, max_waiting: int) -> Generator[Item, None, None]:
    workers = Workers(sources, at_once, max_waiting)
    try:
        workers.start()
        yield from workers.items()
    finally:
        workers.stopped = True
        workers.end()


@contextmanager
def begun(items: Iterator[Item]) -> Iterator[Iterator[Item]]:
    """The same items; a background thread starts to read the first one at once."""
    workers = Workers([lambda: islice(items, 1)], 1, 1)
    try:
        workers.start()
        yield chain(workers.items(), items)
    finally:
        workers.stopped = True
        workers.end()
