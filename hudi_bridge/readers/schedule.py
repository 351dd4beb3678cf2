"""Reads several splits in parallel, in order of arrival, or one split ahead of its consumer.

Worker threads fill a queue of a limited number of batches and of bytes, so memory does not grow with the number of
splits, nor with the size of row groups.
"""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain, islice

import pyarrow as pa

from hudi_bridge.common.threads import Item, Source, Turns, Workers

_BYTES_IN_QUEUE = 1 << 24
_BATCHES_IN_QUEUE = 4
_BYTES_OF_HELD = 1 << 26
_FIRST_ALONE_SECONDS = 0.2

BatchSource = Source[pa.RecordBatch]


@cache
def turns_of_process() -> Turns:
    """Those of all reads of several splits: a program may have many at the same time."""
    return Turns(os.cpu_count() or 1)


# A fork has none of the threads that had taken turns.
os.register_at_fork(after_in_child=turns_of_process.cache_clear)


def most_at_once(sources: int) -> int:
    """The number of sources that are read at the same time."""
    return max(1, min(sources, os.cpu_count() or 1))


def iter_parallel(
    sources: Sequence[BatchSource],
    *,
    use_threads: bool = True,
    at_once: int | None = None,
    first_alone: bool = False,
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all sources, ``at_once`` of them read at the same time; an error in one of them stops all.

    With ``first_alone``, the first batch is read alone, if it comes soon: the others begin when the consumer asks for
    more. Sources that share the cores and Python's lock would each have their first batch later.

    If the consumer stops early, the workers stop at their next batch. All reads of the process together keep no more
    workers busy than there are cores.
    """
    at_once = most_at_once(len(sources)) if at_once is None else at_once
    if not use_threads or at_once == 1:
        for source in sources:
            yield from source()
        return
    alone_seconds = _FIRST_ALONE_SECONDS if first_alone else 0.0
    yield from _from_workers(
        Workers(sources, at_once, _BYTES_IN_QUEUE, _size_in_queue, turns_of_process(), alone_seconds)
    )


def iter_ahead(source: Source[Item]) -> Generator[Item, None, None]:
    """The items of a source, read one item ahead by a background thread."""
    return _from_workers(Workers([source], 1, 1))


@contextmanager
def begun(
    batches: Iterator[pa.RecordBatch], most: int | None = None, *, are_held: bool = False
) -> Iterator[Iterator[pa.RecordBatch]]:
    """The same batches; a background thread starts to read them at once, as far as there is room in its queue.

    It reads ``most`` of them, by default all. The queue has more room for batches that ``are_held`` by the consumer.
    """
    room = _BYTES_OF_HELD if are_held else _BYTES_IN_QUEUE
    workers = Workers([lambda: islice(batches, most)], 1, room, _size_in_queue)
    try:
        workers.start()
        yield chain(workers.items(), batches)
    finally:
        workers.stopped = True
        workers.end()


def _from_workers(workers: Workers[Item]) -> Generator[Item, None, None]:
    try:
        workers.start()
        yield from workers.items()
    finally:
        workers.stopped = True
        workers.end()


def _size_in_queue(batch: pa.RecordBatch) -> int:
    """The bytes of a batch; a small one counts as a part of the queue, for the number of batches is limited as well."""
    return max(batch.nbytes, _BYTES_IN_QUEUE // _BATCHES_IN_QUEUE)
