"""Opens the reader of a split, and reads many splits from a store.

In a store, enough splits are read at the same time to hide that each request takes a while: threads fetch the files of
splits ahead, up to a number of bytes; as many as there are cores decode what has arrived.
"""

import logging
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any, Self, TypeVar
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.reader import ChangeReader
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.common.caching import memory_bytes
from hudi_bridge.common.operations import current_context, operation, watched_work
from hudi_bridge.common.threads import (
    BatchSource,
    Source,
    Turns,
    Workers,
    iter_parallel,
    most_at_once,
    number_in,
)
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.readers.base_file import ReadExtent
from hudi_bridge.readers.blobs import BatchReader, with_blobs
from hudi_bridge.readers.completion_times import (
    stored_read,
    stored_slice_read,
    with_commits_of_filter,
    with_completion_times,
)
from hudi_bridge.readers.fetch_ahead import FetchFile, FilesOfSlice
from hudi_bridge.readers.realtime_compacted import slice_reader
from hudi_bridge.readers.request import RowRequest, SplitRead
from hudi_bridge.readers.small_slices import (
    MAX_SLICES,
    SmallSlices,
    SmallSlicesReader,
    are_read_together,
    is_small,
    small_groups,
)
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.splits.planner import Split
from hudi_bridge.splits.split import RealtimeFileSplit, sizes_of
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import Storage

_LOG = logging.getLogger(__name__)
_FEWEST_LOOKED_INTO = 4
"""Fewer small slices in which record keys are looked up are read one by one, with the footers that are kept."""
_SMALL_SLICE_BYTES = 1 << 21
"""The bytes of a slice, on average, up to which some keys are looked up by one thread; all rows, up to half of it."""
_FEW_SMALL_BYTES = 1 << 23
"""The bytes of all small slices up to which all rows are read by one thread."""
_RELEASED_BYTES = 1 << 22
"""Reads of smaller files leave little behind; giving it back takes a millisecond or more."""
_AT_ONCE_VARIABLE = "HUDI_BRIDGE_STORE_SLICES"
_BYTES_VARIABLE = "HUDI_BRIDGE_STORE_BYTES"
_DEFAULT_AT_ONCE = 64
_DEFAULT_BYTES = 256 << 20
_SHARE_OF_MEMORY = 8
_FEW_ROWS_AT_ONCE = 16
_QUEUE_BYTES = 32 << 20
_LARGE_BYTES = 32 << 20
"""Columns of this size fill the line: they are fetched one after the other, so that the first can be read early."""
_POLL_SECONDS = 0.2


_Split = TypeVar("_Split", Split, Split | SmallSlices)


class RealtimeCompactedReader:
    """The rows of one split, with log files merged in; made by ``open_reader``.

    Reads nothing until rows are requested; each method that returns rows reads them again, as Arrow record batches with
    the columns of ``schema``. Rows come in no particular order. Holds the log records of
    the split, up to the ``log_memory_bytes`` of ``HudiTable.open``, and a few batches of about 2 MiB in memory; further
    log records are in temporary files. A context manager: leaving it, like ``close``, releases open files and threads,
    even if not all rows have been read.
    """

    def __init__(self, reader: BatchReader) -> None:
        self._reader: BatchReader | None = reader
        self._schema = reader.schema
        self._iterations: WeakSet[Generator[pa.RecordBatch, None, None]] = WeakSet()

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches, read as they are consumed, in no particular order.

        Raises:
            QueryError: the reader is closed, before or during the iteration.
            HudiReadError: a file cannot be read.
        """
        if self._reader is None:
            raise _closed()
        return self._until_closed(_batches_of(self._reader))

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches()

    def to_table(self) -> pa.Table:
        """All rows; raises the same errors as ``batches``."""
        return pa.Table.from_batches(self.batches(), self._schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """The rows as an Arrow reader, read as they are consumed; raises the same errors as ``batches``."""
        return pa.RecordBatchReader.from_batches(self._schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:  # noqa: ANN401 - as Arrow has it
        """The rows as an Arrow C stream."""
        return self.to_reader().__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Releases files, threads and log records; the reader cannot be used afterwards.

        Must not be called while another thread waits for a batch.
        """
        self._reader = None
        for batches in tuple(self._iterations):
            batches.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _until_closed(self, batches: Generator[pa.RecordBatch, None, None]) -> Iterator[pa.RecordBatch]:
        self._iterations.add(batches)
        yield from batches
        # The consumer must not take a part of the rows for all of them.
        if self._reader is None:
            raise _closed()


def open_reader(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    row_filter: pc.Expression | None = None,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    meta_columns: bool = True,
) -> RealtimeCompactedReader:
    """Opens a reader for a split; the split is all it needs.

    ``columns`` are the columns to read, by default all, without Hudi's own unless ``meta_columns``; ``row_filter`` is
    applied exactly. ``filesystem`` is as for ``HudiTable.open``.

    Raises:
        QueryError: a column or the filter does not fit the table, or the images of changes are to lack columns.
    """
    if columns is None and not meta_columns:
        if isinstance(split, ChangeSplit):
            raise QueryError("meta_columns", "False for a split of changes", "a dataset, or the columns of its images")
        columns = own_columns(split.context.schema.names)
    return open_reader_in(split.context.open_storage(filesystem), split, columns, row_filter)


def open_reader_in(
    storage: Storage,
    split: Split,
    columns: Sequence[str] | None = None,
    row_filter: pc.Expression | None = None,
    *,
    use_threads: bool = True,
    at_once: int = 1,
) -> RealtimeCompactedReader:
    """As ``open_reader``, with an open storage; ``use_threads`` and ``at_once`` are as for ``SplitRead``.

    Raises:
        QueryError: a column or the filter does not fit the table.
    """
    request = with_commits_of_filter(RowRequest.of(split.context.schema, columns, row_filter), storage, split.context)
    read = SplitRead(storage=storage, split=split, request=request, use_threads=use_threads, at_once=at_once)
    return RealtimeCompactedReader(reader_for(read))


def reading_error(storage: Storage, split: Split) -> HudiReadError | None:
    """What is wrong with the files of a split, which are read for it; None if they can be read."""
    try:
        deque(open_reader_in(storage, split).batches(), 0)
    except HudiReadError as error:
        return error
    return None


def with_small_ones_together(
    storage: Storage, splits: Sequence[Split], request: RowRequest, at_once: int
) -> list[Split | SmallSlices]:
    """The same slices, with local small ones grouped; ``at_once`` of the results are read at the same time.

    Files with keys are read one by one.
    """
    is_apart = not storage.is_local or storage.decryption is not None
    if is_apart or not splits or not are_read_together(request, splits[0].context):
        return list(splits)
    small = [split for split in splits if isinstance(split, RealtimeFileSplit) and is_small(split)]
    if request.record_keys is not None and len(small) < _FEWEST_LOOKED_INTO:
        return list(splits)
    others = [split for split in splits if not isinstance(split, RealtimeFileSplit) or not is_small(split)]
    pieces = iter(small)
    sizes = small_groups(len(small), at_once, materialized=request.is_materialized)
    groups = [SmallSlices(slices=tuple(islice(pieces, size))) for size in sizes]
    return [*groups, *others]


def reader_for(read: SplitRead[Split | SmallSlices]) -> BatchReader:
    """The reader of a split.

    Raises:
        QueryError: the split is not one of a plan.
    """
    split = read.split
    if (widened := _with_a_column(read)) is not read:
        return _RowsOfNoColumns(reader_for(widened))
    if isinstance(split, ChangeSplit):
        # Images of changes are as they were stored.
        return ChangeReader(read.of(split))
    if isinstance(split, SmallSlices | RealtimeFileSplit) and split.context.completion_times is not None:
        whole = read.of(split)
        return with_completion_times(reader_for(stored_read(whole)), whole)
    if isinstance(split, SmallSlices):
        return with_blobs(SmallSlicesReader(read.of(split)), read.storage, split.context)
    if not isinstance(split, RealtimeFileSplit):
        raise QueryError("split", type(split).__name__, "a split of a plan")
    return with_blobs(slice_reader(read.of_slice(split)), read.storage, split.context)


def _with_a_column(read: SplitRead[_Split]) -> SplitRead[_Split]:
    """The read with a column if it has none and rows are made, not only read: Arrow loses the number of such rows."""
    split = read.split
    if read.request.columns or not isinstance(split, ChangeSplit | RealtimeFileSplit | SmallSlices):
        return read
    if not isinstance(split, ChangeSplit) and not any(part.log_paths for part in split.slices):
        return read
    columns = (read.request.filter_columns or split.context.schema.names)[:1]
    return replace(read, request=replace(read.request, columns=tuple(columns)))


class _RowsOfNoColumns:
    """The rows of a reader, without their columns."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader
        self.schema = pa.schema([])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows."""
        return (batch.select([]) for batch in self._reader.batches())


def read_rows(
    read: SplitRead[Split | SmallSlices],
    context: Any = None,  # noqa: ANN401 - of OpenTelemetry
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, as its ``reader_for`` has them; ``context`` is that of its span.

    The reader lives no longer than this, so that the log records of the split are released once it has been read.
    """
    with operation(_LOG, "read", logging.DEBUG, context, table=read.storage.shown_path) as reading:
        if reading.is_heard:
            reading.note(slices=", ".join(f"{part.partition_path}/{part.file_id}" for part in read.split.slices))
        with closing(_batches_of(reader_for(read))) as batches:
            rows = 0
            for batch in batches:
                rows += batch.num_rows
                yield batch
            reading.note(rows=rows)
            if (work := watched_work()) is not None:
                work.finish(sizes_of(read.split.slices))


def read_extent(storage: Storage, split: RealtimeFileSplit, request: RowRequest) -> ReadExtent:
    """What a read of a slice needs of its base file, at most; the footer is read.

    Raises:
        HudiReadError: the footer cannot be read.
    """
    read = SplitRead(storage=storage, split=split, request=request, use_threads=False)
    return slice_reader(stored_slice_read(read, split)).extent()


def _batches_of(reader: BatchReader) -> Generator[pa.RecordBatch, None, None]:
    yield from reader.batches()


def _closed() -> QueryError:
    return QueryError("reader", "one that has been closed", "an open one; open_reader makes another")


def slices_at_once() -> int:
    """How many files of splits are fetched at the same time: HUDI_BRIDGE_STORE_SLICES, or 64."""
    return number_in(_AT_ONCE_VARIABLE, _DEFAULT_AT_ONCE, least=1)


def bytes_ahead() -> int:
    """How many bytes are fetched ahead: HUDI_BRIDGE_STORE_BYTES, or 256 MiB, but no more than 1/8 of the memory."""
    return number_in(_BYTES_VARIABLE, min(_DEFAULT_BYTES, memory_bytes() // _SHARE_OF_MEMORY), least=1)


def iter_splits(
    storage: Storage, splits: Sequence[Split], request: RowRequest, *, use_threads: bool
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all splits; an error in one of them stops all.

    At the end of a large read, Arrow's allocator gives back what it keeps, which is up to several times the rows.
    """
    slices = (file_slice for split in splits for file_slice in split.slices)
    size = sum(file_slice.base_size_bytes + file_slice.log_size_bytes for file_slice in slices)
    if use_threads and not storage.is_local:
        batches = _iter_from_store(storage, splits, request)
    else:
        batches = _iter_local(storage, splits, request, size, use_threads=use_threads)
    return batches if size < _RELEASED_BYTES else _then_released(batches)


def _then_released(batches: Generator[pa.RecordBatch, None, None]) -> Generator[pa.RecordBatch, None, None]:
    try:
        with closing(batches):
            yield from batches
    finally:
        pa.default_memory_pool().release_unused()


def _iter_local(
    storage: Storage, splits: Sequence[Split], request: RowRequest, size: int, *, use_threads: bool
) -> Generator[pa.RecordBatch, None, None]:
    # Several splits are read in parallel and keep the cores busy.
    alone = use_threads and len(splits) == 1
    most_small = _SMALL_SLICE_BYTES * len(splits)
    if request.record_keys is None:
        most_small = min(_FEW_SMALL_BYTES, most_small // 2)
    # Of small files, little of the time is decoding, and threads only wait for each other.
    at_once = most_at_once(len(splits)) if use_threads and size > most_small else 1
    context = current_context()
    reads = [
        SplitRead(storage=storage, split=split, request=request, use_threads=alone, at_once=at_once)
        for split in with_small_ones_together(storage, splits, request, at_once)
    ]
    sources = [partial(read_rows, read, context) for read in reads]
    return iter_parallel(sources, use_threads=use_threads, at_once=at_once, first_alone=not request.is_materialized)


def _iter_from_store(
    storage: Storage, splits: Sequence[Split], request: RowRequest
) -> Generator[pa.RecordBatch, None, None]:
    """The batches of all splits: some threads fetch files, others read splits whose files have arrived.

    If the consumer stops early, the threads stop at their next batch or request.
    """
    # Where few rows are wanted, each split needs further requests and little time of a core.
    is_selective = any(_is_selective(request, split) for split in splits[:1])
    reading = max(1, min(len(splits), _FEW_ROWS_AT_ONCE)) if is_selective else most_at_once(len(splits))
    reads = (
        SplitRead(storage=storage, split=split, request=request, use_threads=len(splits) == 1, at_once=reading)
        for split in splits
    )
    files = sum(1 + len(part.log_paths) for split in splits for part in split.slices)
    fetching = min(files, slices_at_once())
    is_together = all(not is_selective and are_read_together(request, split.context) for split in splits[:1])
    is_together = is_together and storage.decryption is None
    ahead = _Ahead(bytes_ahead(), current_context(), is_together=is_together)
    fetchers = Workers(ahead.sources(reads), fetching, fetching)
    readers = Workers(ahead.readable(fetchers), reading, _QUEUE_BYTES, pa.RecordBatch.get_total_buffer_size)
    try:
        fetchers.start()
        readers.start()
        yield from readers.items()
    finally:
        readers.stopped = fetchers.stopped = True
        ahead.stop()
        # Readers wait for what is fetched, so fetchers end first.
        fetchers.end()
        readers.end()


def _is_selective(request: RowRequest, split: Split) -> bool:
    return any(request.is_selective(dict(part.partition_values)) for part in split.slices)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Fetched:
    """A split with the files that are fetched before it is read, ``files`` of them; complete once all have arrived."""

    read: SplitRead[Split]
    size_bytes: int
    files: int
    arrived: "count[int]" = field(default_factory=partial(count, 1))
    content: dict[str, pa.Buffer | FileOfRanges] = field(default_factory=dict)

    @property
    def small_slice(self) -> RealtimeFileSplit | None:
        """The split if it may be read together with others."""
        split = self.read.split
        return split if isinstance(split, RealtimeFileSplit) and is_small(split) else None


class _Ahead:
    """Lets workers fetch the files of splits as long as there is room for their bytes, and others read these splits.

    Small splits that have arrived meanwhile are read together. Only workers wait here; the consumer tells them to stop
    by a flag.
    """

    def __init__(self, most_bytes: int, context: Any, *, is_together: bool) -> None:  # noqa: ANN401 - of OpenTelemetry
        self._most_bytes = most_bytes
        self._context = context
        self._is_together = is_together
        self._bytes = 0
        self._freed: SimpleQueue[int] = SimpleQueue()
        self._is_stopped = False
        self._to_fetch_much = Turns(1)

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopped = True
        self._freed.put(0)
        self._to_fetch_much.add(slices_at_once())

    def sources(self, reads: Iterable[SplitRead[Split]]) -> Iterator[Source[_Fetched]]:
        """What fetches the files, one after another; waits for room before those of each split."""
        for read in reads:
            slices = [FilesOfSlice(stored_slice_read(_with_a_column(read), part)) for part in read.split.slices]
            size = sum(files.size_bytes for files in slices)
            while not self._is_stopped and not self._has_room_for(size):
                with suppress(Empty):
                    self._bytes -= self._freed.get(timeout=_POLL_SECONDS)
            if self._is_stopped:
                return
            self._bytes += size
            requests = {path: file for files in slices for path, file in files.to_fetch(self._large_fetch_slot)}
            fetched = _Fetched(read=read, size_bytes=size, files=len(requests))
            if not requests:
                yield partial(iter, (fetched,))
            for path, fetch in requests.items():
                yield partial(self._fetch, fetched, path, fetch)

    def _has_room_for(self, size: int) -> bool:
        return not self._bytes or self._bytes + size <= self._most_bytes

    @staticmethod
    def _fetch(fetched: _Fetched, path: str, fetch: FetchFile) -> Iterator[_Fetched]:
        """Fetches a file; yields the split if it was the last."""
        fetched.content[path] = fetch()
        if next(fetched.arrived) == fetched.files:
            yield fetched

    def readable(self, fetchers: Workers[_Fetched]) -> Iterator[BatchSource]:
        """What reads the splits, as they arrive; waits for them."""
        for group in fetchers.item_groups(MAX_SLICES):
            small = [fetched for fetched in group if fetched.small_slice] if self._is_together else []
            together = small if len(small) > 1 else []
            if together:
                slices = tuple(fetched.small_slice for fetched in together if fetched.small_slice)
                yield partial(self._batches, SmallSlices(slices=slices), together)
            for fetched in group:
                if fetched not in together:
                    yield partial(self._batches, fetched.read.split, [fetched])

    def _batches(self, split: Split | SmallSlices, group: Sequence[_Fetched]) -> Iterator[pa.RecordBatch]:
        content = {path: file for fetched in group for path, file in fetched.content.items()}
        for fetched in group:
            # The reader lets go of files while it reads.
            fetched.content.clear()
        read = group[0].read
        storage = read.storage.with_prefetched(content)
        del content
        try:
            yield from read_rows(replace(read.of(split), storage=storage), self._context)
        finally:
            self._freed.put(sum(fetched.size_bytes for fetched in group))

    def _large_fetch_slot(self, size: int) -> AbstractContextManager[object]:
        """A context in which columns of this size are fetched."""
        return nullcontext() if size < _LARGE_BYTES else self._to_fetch_much.taken(lambda: self._is_stopped)
