"""Parquet base files: column chunks in a store are fetched with few requests; encrypted files are read with keys.

Encrypted files are read without statistics. Their footers are not cached, and their columns are not fetched ahead.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import accumulate
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.imports import ds
from hudi_bridge.common.threads import Workers, map_in_threads
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.logformat.parquet_dictionaries import BATCH_BYTES, DictionaryValues
from hudi_bridge.readers.base_file import (
    DICTIONARY_COLUMNS,
    ROWS_PER_BATCH,
    OpenBaseFile,
    cause_of,
    data_file_gone,
    decoded_schema,
    open_stored,
)
from hudi_bridge.readers.base_formats.footers import (
    BaseFooter,
    base_fragment,
    cached_footer,
    check_origin,
    chunks_of,
    leaf_paths,
    text_range,
)
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.readers.column_ranges import Range, ranges_of_row_groups
from hudi_bridge.readers.request import referenced_columns
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.splits.decryption import decrypting, open_decrypted, properties_of
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.ranges import FileOfRanges
from hudi_bridge.storage.storage import DecryptionProperties, Storage

_REQUESTS_AT_ONCE = 4
_REQUEST_BYTES = 1 << 23
_MAX_GAP_BYTES = 1 << 20
"""Smaller gaps between column chunks are fetched with them, because another request would take longer."""
_MAX_AHEAD_BYTES = 1 << 26
"""The most bytes of a row group to fetch while the previous one is decoded."""
_MAX_FETCHED_BYTES = 1 << 28
"""Larger column chunks of a row group are read page by page while they are decoded, instead of being fetched before."""
ByteRange = tuple[int, int]
"""The offset of the first byte, and the offset after the last one."""
_ChunkRequest = tuple[int, tuple[str, ...]]
"""A row group, and top-level columns of it."""
_KIND = "Parquet"
_LOCAL_BUFFER_BYTES, _FETCHED_BUFFER_BYTES = 1 << 16, 1 << 20
"""The bytes of each column that are read at a time if columns are not read as a whole; larger pages are read at once.

A read of a local disk takes no longer for being small. With 1 MiB there, 13 columns took 5 to 20 MB more.
"""


def open_parquet(
    storage: Storage,
    split: RealtimeFileSplit,
    path: str,
    *,
    use_threads: bool,
    keep_footer: bool = False,
    dictionaries: Sequence[str] = DICTIONARY_COLUMNS,
) -> OpenBaseFile:
    """Opens a Parquet file, with decryption keys if there are any.

    Arguments are as for ``ParquetBaseFile.open``; raises like ``open_base_file``.
    """
    properties = properties_of(storage, path)
    if properties is not None:
        return EncryptedParquetFile(storage, split, path, properties, use_threads=use_threads)
    return ParquetBaseFile.open(
        storage, split, path, use_threads=use_threads, keep_footer=keep_footer, dictionaries=dictionaries
    )


class ParquetBaseFile(OpenBaseFile):
    """An open Parquet base file."""

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        path: str,
        footer: BaseFooter,
        *,
        use_threads: bool,
        dictionaries: Sequence[str] = DICTIONARY_COLUMNS,
    ) -> None:
        """Takes a decoded footer; ``dictionaries`` are columns of the file to read as dictionaries."""
        metadata = footer.fragment.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        super().__init__(split, path, decoded_schema(footer.arrow_schema), rows)
        self._storage = storage
        self._chunks: ColumnChunks | None = None
        self._use_threads = use_threads
        self._dictionaries = dictionaries
        self._base_footer = footer
        self._opened: pa.NativeFile | None = None
        self._readers: dict[tuple[int, int], pq.ParquetFile] = {}
        self._values: dict[int, DictionaryValues] = {}

    @classmethod
    def open(
        cls,
        storage: Storage,
        split: RealtimeFileSplit,
        path: str,
        *,
        use_threads: bool,
        keep_footer: bool = False,
        dictionaries: Sequence[str] = DICTIONARY_COLUMNS,
    ) -> Self:
        """Opens the file; ``dictionaries`` are as for the class, other arguments and errors as for ``open_base_file``.

        With a cached footer, the file itself is opened only when rows are read.
        """
        footer_of_cache = cached_footer(storage, split, path)
        if footer_of_cache is not None:
            return cls(storage, split, path, footer_of_cache, use_threads=use_threads, dictionaries=dictionaries)
        try:
            opened, ranges = open_stored(storage, split, path)
            fragment = base_fragment(storage, split, path, opened)
            buffer_bytes = _LOCAL_BUFFER_BYTES if storage.is_local else 0
            file = _parquet_file(opened, fragment, dictionaries, buffer_bytes)
            footer = BaseFooter(fragment, file.schema_arrow)
            check_origin(fragment.metadata, split, path)
            if keep_footer:
                footer.keep(storage, split, path)
        except PARQUET_ERRORS as error:
            raise cause_of(storage, split, path, error, pq.ParquetFile, _KIND) from error
        base = cls(storage, split, path, footer, use_threads=use_threads, dictionaries=dictionaries)
        base._readers[ROWS_PER_BATCH, buffer_bytes] = file
        base._take(opened, ranges)
        return base

    def _reader(self, rows_per_batch: int, row_group: int, columns: Sequence[str]) -> pq.ParquetFile:
        """A reader for top-level columns of a row group in batches of this size; raises like ``open``.

        All iterations of one reader share the batch size, so there is a reader for each size.
        """
        storage, split, path = self._storage, self._split, self.path
        try:
            opened = self._opened or self._take(*open_stored(storage, split, path))
            is_large = self._chunks is not None and self._chunks.are_large(row_group, columns)
            buffer_bytes = _LOCAL_BUFFER_BYTES if storage.is_local else _FETCHED_BUFFER_BYTES if is_large else 0
            key = rows_per_batch, buffer_bytes
            if key not in self._readers:
                self._readers[key] = _parquet_file(opened, self._base_footer.fragment, self._dictionaries, buffer_bytes)
        except PARQUET_ERRORS as error:
            raise cause_of(storage, split, path, error, pq.ParquetFile, _KIND) from error
        return self._readers[key]

    def _take(self, opened: pa.NativeFile, ranges: FileOfRanges | None) -> pa.NativeFile:
        self._opened = opened
        self._chunks = None if ranges is None else ColumnChunks(ranges, self._footer)
        return opened

    def close(self) -> None:
        """Closes the file."""
        if self._chunks is not None:
            self._chunks.close()
        for reader in self._readers.values():
            reader.close(force=True)
        if self._opened is not None:
            self._opened.close()

    @property
    def parquet_footer(self) -> pq.FileMetaData | None:
        """The footer of the file."""
        return self._footer

    @property
    def _footer(self) -> pq.FileMetaData:
        return self._base_footer.fragment.metadata

    @cached_property
    def _legacy_dates(self) -> LegacyDates | None:
        return LegacyDates.of(self._footer, self.arrow_schema, self.path)

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:
        """The row groups whose statistics do not rule out that a row passes the filter."""
        dates = self._legacy_dates
        if dates is not None and not dates.columns.isdisjoint(referenced_columns(row_filter, schema)):
            return list(self.row_groups)
        return [group.id for group in self._base_footer.fragment.subset(row_filter, schema=schema).row_groups]  # type: ignore[attr-defined]

    def ranges(self, column: str) -> Sequence[Range | bool]:
        """The range of a column of the query in each row group; False if it is unknown."""
        return ranges_of_row_groups(self._footer, self.arrow_schema, self._split, column)

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:
        """The least and greatest text of a top-level column in a row group; None if the statistics lack them."""
        if column not in self.arrow_schema.names or not pa.types.is_string(self.arrow_schema.field(column).type):
            return None
        return text_range(self._footer, row_group, column)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of top-level columns in a row group, in bytes."""
        return sum(chunk.total_compressed_size for chunk in chunks_of(self._footer, row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterator[int]:
        """The uncompressed size, in bytes, of each leaf of top-level columns in a row group."""
        return (chunk.total_uncompressed_size for chunk in chunks_of(self._footer, row_group, columns))

    def leaf_columns(self, column: str) -> Sequence[str]:
        """The paths of the leaves of a top-level column; none where a path is ambiguous, or dates in it are rebased."""
        if self._legacy_dates is not None and column in self._legacy_dates.columns:
            return ()
        return leaf_paths(self._footer, self.arrow_schema, column)

    @property
    def is_fetched(self) -> bool:
        """Whether columns are fetched as a whole; a file on a local disk is read page by page."""
        return self._chunks is not None

    def batches(
        self, row_group: int, columns: Sequence[str], rows_per_batch: int, then: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group in top-level columns of the file, with dates of the Gregorian calendar.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
            UnsupportedTableError: times are in an unknown time zone.
        """
        names, legacy_dates = list(columns), self._legacy_dates
        if legacy_dates is not None:
            legacy_dates.require_known(names)
        if self.rows_of(row_group) <= min(rows_per_batch, ROWS_PER_BATCH):
            # All small row groups share one reader.
            rows_per_batch = ROWS_PER_BATCH

        def batches(file: pq.ParquetFile, rows: int) -> Iterator[pa.RecordBatch]:
            return file.iter_batches(rows, row_groups=[row_group], columns=names, use_threads=self._use_threads)

        def stored() -> Iterator[pa.RecordBatch]:
            file = self._reader(rows_per_batch, row_group, names)
            try:
                with self._fetched(row_group, names, then):
                    max_rows = self._max_rows(row_group, names, rows_per_batch)
                    if max_rows == rows_per_batch:
                        yield from batches(file, max_rows)
                    else:
                        yield from _then_released(batches(self._reader(max_rows, row_group, names), max_rows))
            except PARQUET_ERRORS as error:
                raise cause_of(
                    self._storage,
                    self._split,
                    self.path,
                    error,
                    lambda file: deque(batches(pq.ParquetFile(file), 1), 0),
                    _KIND,
                ) from error

        # Values are converted outside of ``stored``, because errors of the conversion are not damage of the file.
        yield from stored() if legacy_dates is None else map(legacy_dates.rebased, stored())

    def _max_rows(self, row_group: int, columns: Sequence[str], rows: int) -> int:
        """The number of rows, up to ``rows``, that can be decoded at a time with bounded memory,
        given the dictionaries.
        """
        file = self._opened
        if file is None or rows * self._footer.row_group(row_group).total_byte_size <= BATCH_BYTES:
            return rows
        if row_group not in self._values:
            self._values[row_group] = DictionaryValues(
                file=file, footer=self._footer, row_group=row_group, path=self.path
            )
        max_rows = self._values[row_group].max_rows(list(chunks_of(self._footer, row_group, columns)), rows)
        return rows if max_rows >= self.rows_of(row_group) else max_rows

    def _fetched(self, row_group: int, columns: Sequence[str], then: int | None) -> AbstractContextManager[None]:
        """A context in which top-level columns of a row group are in memory, if the file is in a store and they are not
        large.

        The same columns of the row group ``then`` may be fetched meanwhile.
        """
        if self._chunks is None or self._chunks.are_large(row_group, columns):
            return nullcontext()
        return self._chunks.fetched(row_group, columns, then)


class EncryptedParquetFile(OpenBaseFile):
    """An open Parquet base file with its decryption keys."""

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        path: str,
        properties: DecryptionProperties,
        *,
        use_threads: bool,
    ) -> None:
        """Opens the file; raises like ``open_base_file``.

        Raises:
            QueryError: the decryption properties are not for this file.
        """
        self._storage, self._properties, self._use_threads = storage, properties, use_threads
        try:
            self._opened, _ = open_stored(storage, split, path)
            first = open_decrypted(storage, path, self._opened, properties)
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        footer = self._footer = first.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        rows, self._sizes = [group.num_rows for group in groups], [group.total_byte_size for group in groups]
        super().__init__(split, path, decoded_schema(first.schema_arrow), rows)
        if sum(rows) != footer.num_rows:
            raise CorruptBaseFileError(path, None, f"row groups of {sum(rows)} rows", f"{footer.num_rows}")
        self._legacy_dates = LegacyDates.of(footer, self.arrow_schema, path, has_statistics=False)
        self._readers = {ROWS_PER_BATCH: first}

    def close(self) -> None:
        """Closes the file."""
        for reader in self._readers.values():
            reader.close(force=True)
        self._opened.close()

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - nothing is fetched ahead
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group in top-level columns of the file, with dates of the Gregorian calendar.

        Raises:
            CorruptBaseFileError: the data of a file that is not encrypted cannot be decoded.
            QueryError: the properties lack the key of a column.
            UnsupportedTableError: times are in an unknown time zone.
        """
        rows = self._stored(row_group, list(columns), rows_per_batch)
        return rows if self._legacy_dates is None else map(self._legacy_dates.rebased, rows)

    def _stored(self, row_group: int, columns: list[str], rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        storage, path = self._storage, self.path

        def iter_batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
            return file.iter_batches(
                rows_per_batch, row_groups=[row_group], columns=columns, use_threads=self._use_threads
            )

        def decode(opened: pa.NativeFile) -> None:
            for _ in iter_batches(pq.ParquetFile(opened, decryption_properties=self._properties)):
                pass

        # All iterations of one reader share the batch size, so there is a reader for each size.
        if rows_per_batch not in self._readers:
            self._readers[rows_per_batch] = open_decrypted(storage, path, self._opened, self._properties, self._footer)
        try:
            with decrypting(storage, path, decode):
                batches = iter_batches(self._readers[rows_per_batch])
            while True:
                with decrypting(storage, path, decode):
                    batch = next(batches, None)
                if batch is None:
                    return
                yield batch
        except FileNotFoundError as error:
            raise data_file_gone(storage, self._split, path) from error

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:
        """The least and greatest commit time in a row group, computed from its rows; None for other columns.

        Commit times decide which rows are merged; ranges of other columns would only save reading.
        """
        if column != COMMIT_TIME_COLUMN or column not in self.arrow_schema.names:
            return None
        least, greatest = None, None
        for batch in self.batches(row_group, [column], ROWS_PER_BATCH):
            ends: Any = pc.min_max(batch.column(0)).as_py()
            if ends["min"] is not None:
                least = min(least or ends["min"], ends["min"])
                greatest = max(greatest or ends["max"], ends["max"])
        return None if least is None or greatest is None else (least, greatest)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """About the stored size of top-level columns in a row group, as if all columns were equally large."""
        return sum(self.leaf_bytes(row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """About the size of each top-level column in a row group: only their sum is known."""
        column_bytes = self._sizes[row_group] // max(1, len(self.arrow_schema.names))
        return [column_bytes for _ in columns]


def _parquet_file(
    opened: pa.NativeFile, fragment: "ds.ParquetFileFragment", dictionaries: Sequence[str], buffer_bytes: int
) -> pq.ParquetFile:
    """Opens a file with a known footer; column chunks are read in pieces of ``buffer_bytes``, or as a whole if it is 0.

    ``dictionaries`` that the file lacks are ignored: in a table without meta columns, Hudi's Avro writer writes them
    all the same, and its row writer does not.
    """
    names = fragment.physical_schema.names if dictionaries else ()
    return pq.ParquetFile(
        opened,
        metadata=fragment.metadata,
        coerce_int96_timestamp_unit="us",
        # Pages are read on demand from a local disk, where seeks are cheap. Elsewhere, columns are fetched before.
        pre_buffer=False,
        buffer_size=buffer_bytes,
        read_dictionary=[name for name in dictionaries if name in names],
        page_checksum_verification=True,
    )


class ColumnChunks:
    """Fetches the column chunks of one base file, and keeps them in memory while they are decoded."""

    def __init__(self, file: FileOfRanges, footer: pq.FileMetaData) -> None:
        self._file = file
        self._footer = footer
        self._ahead: tuple[_ChunkRequest, Workers[list[int]]] | None = None

    def are_large(self, row_group: int, columns: Iterable[str]) -> bool:
        """Whether these columns of a row group are too large to be fetched before they are decoded."""
        return sum(end - start for start, end in _chunks(self._footer, row_group, columns)) > _MAX_FETCHED_BYTES

    @contextmanager
    def fetched(self, row_group: int, columns: Iterable[str], then: int | None = None) -> Iterator[None]:
        """A context in which top-level columns of a row group are in memory.

        A background thread fetches the same columns of the row group ``then``, which is read next.
        """
        names = tuple(columns)
        buffers = [*self._take_ahead((row_group, names)), *self._file.take_first()]
        try:
            buffers += self.fetch(row_group, names)
            if then is not None:
                self._fetch_ahead((then, names))
            yield
        finally:
            for number in buffers:
                self._file.release(number)

    def close(self) -> None:
        """Stops the background thread."""
        if self._ahead is not None:
            _, workers = self._ahead
            workers.stopped = True
            workers.end()

    def _fetch_ahead(self, request: _ChunkRequest) -> None:
        self.close()
        workers = Workers([lambda: iter([self.fetch(*request, _MAX_AHEAD_BYTES)])], 1, 1)
        self._ahead = (request, workers)
        workers.start()

    def _take_ahead(self, request: _ChunkRequest) -> list[int]:
        """The buffers that were fetched in the background, if they are for this request."""
        if self._ahead is None or self._ahead[0] != request:
            return []
        [buffers] = self._ahead[1].items()
        self.close()
        self._ahead = None
        return buffers

    def fetch(self, row_group: int, columns: Iterable[str], max_bytes: int | None = None) -> list[int]:
        """Fetches top-level columns of a row group into memory; returns the numbers by which to release new buffers.

        With ``max_bytes``, only the chunks that come first in the file are fetched, up to that size.
        """
        chunks = sorted(self._within_file(_chunks(self._footer, row_group, columns)))
        new = [chunk for chunk in chunks if not self._file.holds(chunk[0], chunk[1] - chunk[0])]
        if max_bytes is not None:
            sizes = accumulate(end - start for start, end in new)
            new = [chunk for chunk, size in zip(new, sizes, strict=True) if size <= max_bytes]
        missing = merged_ranges(new)
        contents = [pa.allocate_buffer(end - start) for start, end in missing]
        parts = [
            part for chunk, content in zip(missing, contents, strict=True) for part in _request_parts(chunk, content)
        ]
        map_in_threads(lambda part: self._file.read_into(*part), parts, _REQUESTS_AT_ONCE)
        return [self._file.hold(start, content) for (start, _), content in zip(missing, contents, strict=True)]

    def _within_file(self, ranges: Iterable[ByteRange]) -> Iterator[ByteRange]:
        """The ranges, cut off at the end of the file; a damaged footer may exceed it."""
        for start, end in ranges:
            if 0 <= start < min(end, self._file.size_bytes):
                yield start, min(end, self._file.size_bytes)


def _chunks(footer: pq.FileMetaData, row_group: int, columns: Iterable[str]) -> list[ByteRange]:
    """The byte ranges of the chunks of top-level columns; columns that the file lacks are left out."""
    names = set(columns)
    group = footer.row_group(row_group)
    ranges = []
    for number in range(group.num_columns):
        chunk = group.column(number)
        path = chunk.path_in_schema
        # Names may contain dots, so each prefix is compared.
        if path in names or any(path[:index] in names for index, character in enumerate(path) if character == "."):
            starts = [offset for offset in (chunk.dictionary_page_offset, chunk.data_page_offset) if offset]
            start = min(starts, default=0)
            ranges.append((start, start + chunk.total_compressed_size))
    return ranges


def merged_ranges(ranges: Iterable[ByteRange]) -> list[ByteRange]:
    """The ranges in ascending order, joined where they overlap or have small gaps."""
    merged: list[ByteRange] = []
    for start, end in sorted(ranges):
        if merged and start - merged[-1][1] <= _MAX_GAP_BYTES:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _request_parts(byte_range: ByteRange, content: pa.Buffer) -> Iterator[tuple[memoryview, int]]:
    """Yields the parts of a buffer to fill with one request each, with their offsets in the file."""
    view = memoryview(content).cast("B")
    for start in range(0, len(view), _REQUEST_BYTES):
        yield view[start : start + _REQUEST_BYTES], byte_range[0] + start


def _then_released(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of values so long that the C library would keep the memory of several, in pieces, for later ones."""
    for batch in batches:
        yield batch
        pa.default_memory_pool().release_unused()
