"""Reads splits from a store: enough of them at the same time to hide that each request takes a while.

Threads fetch the files of splits ahead, up to a number of bytes; as many as there are cores decode what has arrived.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue

import pyarrow as pa

from hudi_bridge.dispatch import read_rows
from hudi_bridge.environment import number_in
from hudi_bridge.operations import current_context
from hudi_bridge.readers.fetch_ahead import FetchingMuch, FilesOfSlice
from hudi_bridge.readers.parallel import BatchSource, most_at_once
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.query_plan import Split
from hudi_bridge.storage import Storage
from hudi_bridge.system_memory import memory_bytes
from hudi_bridge.threads import Workers, map_in_threads

_AT_ONCE_VARIABLE = "HUDI_BRIDGE_STORE_SLICES"
_BYTES_VARIABLE = "HUDI_BRIDGE_STORE_BYTES"
_DEFAULT_AT_ONCE = 32
_DEFAULT_BYTES = 256 << 20
_SHARE_OF_MEMORY = 8
_FEW_ROWS_AT_ONCE = 16
_QUEUE_BYTES = 32 << 20
_LARGE_BYTES = 32 << 20
"""Columns of this size fill the line: they are fetched one after the other, so that the first can be read early."""
_POLL_SECONDS = 0.2


def slices_at_once() -> int:
    """How many splits are fetched or read at the same time: HUDI_BRIDGE_STORE_SLICES, or 32."""
    return number_in(_AT_ONCE_VARIABLE, _DEFAULT_AT_ONCE, least=1)


def bytes_ahead() -> int:
    """How many bytes are fetched ahead: HUDI_BRIDGE_STORE_BYTES, or 256 MiB, but no more than 1/8 of the memory."""
    return number_in(_BYTES_VARIABLE, min(_DEFAULT_BYTES, memory_bytes() // _SHARE_OF_MEMORY), least=1)


def iter_from_store(
    storage: Storage, splits: Sequence[Split], request: RowRequest
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all splits; an error in one of them stops all.

    If the consumer stops early, the threads stop at their next batch or request.
    """
    fetching = min(len(splits), slices_at_once())
    # Where few rows are wanted, each split needs further requests and little time of a core.
    is_selective = any(_is_selective(request, split) for split in splits[:1])
    reading = max(1, min(len(splits), _FEW_ROWS_AT_ONCE)) if is_selective else most_at_once(len(splits))
    read = partial(read_rows, request=request, use_threads=len(splits) == 1, at_once=reading, context=current_context())
    # Few splits leave room for the files of each.
    files_at_once = max(1, slices_at_once() // max(1, fetching))
    parts = (_part(storage, split, request, read, at_once=reading, files_at_once=files_at_once) for split in splits)
    ahead = _Ahead(fetching, reading, bytes_ahead())
    workers = Workers(ahead.sources(parts), fetching, _QUEUE_BYTES, pa.RecordBatch.get_total_buffer_size)
    try:
        workers.start()
        yield from workers.items()
    finally:
        workers.stopped = True
        ahead.stop()
        workers.end()


def _is_selective(request: RowRequest, split: Split) -> bool:
    return any(request.is_selective(dict(piece.partition_values)) for piece in split.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What is read of one split: ``fetch`` does requests, and returns what yields the batches."""

    size_bytes: int
    fetch: Callable[[FetchingMuch], BatchSource]


def _part(
    storage: Storage,
    split: Split,
    request: RowRequest,
    read: Callable[[Storage, Split], Iterator[pa.RecordBatch]],
    *,
    at_once: int,
    files_at_once: int,
) -> _Part:
    slices = [FilesOfSlice(storage, piece, request, at_once) for piece in split.slices]

    def fetch(fetching_much: FetchingMuch) -> BatchSource:
        wanted = {path: file for piece in slices for path, file in piece.to_fetch(fetching_much)}
        fetched = map_in_threads(lambda fetch_file: fetch_file(), wanted.values(), files_at_once)
        return partial(read, storage.fetched_ahead(dict(zip(wanted, fetched, strict=True))), split)

    return _Part(size_bytes=sum(piece.size_bytes for piece in slices), fetch=fetch)


class _Ahead:
    """Lets workers fetch parts as long as there is room for their bytes, and some of them read what they have fetched.

    Only workers wait here; the consumer tells them to stop by a flag.
    """

    def __init__(self, fetching: int, reading: int, most_bytes: int) -> None:
        self._fetching = fetching
        self._most_bytes = most_bytes
        self._bytes = 0
        self._freed: SimpleQueue[int] = SimpleQueue()
        self._is_stopped = False
        self._to_read, self._to_fetch_much = _Turns(reading), _Turns(1)

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopped = True
        self._freed.put(0)
        for turns in (self._to_read, self._to_fetch_much):
            turns.stop(self._fetching)

    def sources(self, parts: Iterable[_Part]) -> Iterator[BatchSource]:
        """What the workers iterate over; waits for room before each."""
        for part in parts:
            while not self._is_stopped and not self._has_room_for(part.size_bytes):
                with suppress(Empty):
                    self._bytes -= self._freed.get(timeout=_POLL_SECONDS)
            if self._is_stopped:
                return
            self._bytes += part.size_bytes
            yield partial(self._batches, part)

    def _has_room_for(self, size: int) -> bool:
        return not self._bytes or self._bytes + size <= self._most_bytes

    def _batches(self, part: _Part) -> Iterator[pa.RecordBatch]:
        try:
            read = part.fetch(self._fetching_much)
            with self._to_read.taken() as has_turn:
                if has_turn:
                    yield from read()
        finally:
            self._freed.put(part.size_bytes)

    def _fetching_much(self, size: int) -> AbstractContextManager[object]:
        """A context in which columns of this size are fetched."""
        return nullcontext() if size < _LARGE_BYTES else self._to_fetch_much.taken()


class _Turns:
    """Lets a limited number of workers do something at the same time."""

    def __init__(self, at_once: int) -> None:
        self._free: SimpleQueue[None] = SimpleQueue()
        self._is_stopped = False
        for _ in range(at_once):
            self._free.put(None)

    def stop(self, waiting: int) -> None:
        """Let nobody wait any more, of this number of workers at most."""
        self._is_stopped = True
        for _ in range(waiting):
            self._free.put(None)

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """A context in which one worker has its turn; False if nobody needs what it would do."""
        while not self._is_stopped:
            # The timeout is for a consumer that was interrupted before it could end the waiting.
            with suppress(Empty):
                self._free.get(timeout=_POLL_SECONDS)
                break
        try:
            yield not self._is_stopped
        finally:
            self._free.put(None)
