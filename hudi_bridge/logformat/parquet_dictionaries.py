"""The memory that values of Parquet dictionaries take once they are decoded.

A dictionary stores each value once, so that a file of two kilobytes can have any number of rows with a text of a
megabyte. Footers do not have the lengths of values, so dictionaries are read if rows could take too much memory.

Source: ``PageHeader`` and ``DictionaryPageHeader`` of Parquet's Thrift definition.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import UnsupportedTableError

BATCH_BYTES = 1 << 28
"""The most memory for the values of a batch; usual batches take a hundredth of it."""
_CUT_BATCH_BYTES = 1 << 25
"""The size of batches that could exceed it: Arrow takes twice as much while decoding, and some are read ahead."""
_MAX_COLUMN_BYTES = (1 << 31) - 1
"""The largest column of a batch in Arrow."""
_ROWS_AT_ONCE = 256
_LENGTH_BYTES = 4
_CONTINUATION_BIT = 0x80
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
# The header of a dictionary page in Thrift's compact protocol: the uncompressed and the stored size, an optional
# checksum, and the number of values, which have either of the two plain encodings.
_DICTIONARY_HEADER = re.compile(
    rb"\x15\x04\x15%b\x15%b(?:\x4c|\x15%b\x3c)\x15%b\x15[\x00\x04][\x11\x12]?\x00\x00" % ((_VARINT,) * 4)
)
_MAX_HEADER_BYTES = 64
_MAGIC = b"PAR1"
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
_LZ4_OF_HADOOP = 5
"""The codec for which Arrow has no name."""


class DictionaryPage(NamedTuple):
    """The header of a dictionary page; the values begin at ``start``."""

    start: int
    stored_bytes: int
    size_bytes: int
    values: int

    @property
    def max_bytes(self) -> int:
        """The most bytes of one value. Each value is stored after its length, even if all others are empty."""
        return max(0, self.size_bytes - _LENGTH_BYTES * self.values)

    @classmethod
    def parse(cls, stored: bytes, start: int) -> "DictionaryPage | None":
        """The page whose header starts at ``start`` with these bytes; None if they are not of the usual form."""
        header = _DICTIONARY_HEADER.match(stored)
        if header is None:
            return None
        size_bytes, stored_bytes, values = (_number(header[group]) for group in (1, 2, 4))
        if min(size_bytes, stored_bytes, values) < 0:
            return None
        return cls(start + header.end(), stored_bytes, size_bytes, values)


class StoredPage(NamedTuple):
    """A dictionary page as it is stored, with the name of its compression."""

    page: DictionaryPage
    stored: bytes
    compression: str

    @property
    def is_whole(self) -> bool:
        """Whether the header may be true."""
        page = self.page
        return len(self.stored) == page.stored_bytes and _LENGTH_BYTES * page.values <= page.size_bytes

    @property
    def codec(self) -> int:
        """The number of the compression in a footer."""
        return _CODECS.get(self.compression, _LZ4_OF_HADOOP)


def longest_values(pages: Sequence[StoredPage]) -> list[int]:
    """The bytes of the longest value of each dictionary page, or of the whole page if it is damaged.

    The pages are read as the only data pages of row groups of one column, because Arrow decodes plain pages without
    storing distinct values.
    """
    if len(pages) == 1 or not all(stored.is_whole and stored.page.values for stored in pages):
        return [_longest_value(stored) for stored in pages]
    lengths = _lengths(pages)
    if lengths is None:
        return [_longest_value(stored) for stored in pages]
    starts = accumulate((stored.page.values for stored in pages[:-1]), initial=0)
    return [int(longest) for longest in np.maximum.reduceat(lengths, list(starts))]


def _longest_value(stored: StoredPage) -> int:
    lengths = _lengths([stored]) if stored.is_whole else None
    return stored.page.size_bytes if lengths is None else int(lengths.max(initial=0))


def _lengths(pages: Sequence[StoredPage]) -> np.ndarray | None:
    """The bytes of all values of dictionary pages, one page after the other; None if a page is damaged."""
    try:
        file = pq.ParquetFile(pa.BufferReader(_file_of(pages)))
        lengths = pc.binary_length(file.read(use_threads=False).column(0))
    except (pa.ArrowException, OSError):
        # Reading the rows raises the error.
        return None
    is_whole = len(lengths) == sum(stored.page.values for stored in pages)
    return lengths.to_numpy() if is_whole else None


def _file_of(pages: Sequence[StoredPage]) -> bytes:
    """A Parquet file whose only column ``v`` has a row group with the values of each page."""
    parts, groups, start = [_MAGIC], [], len(_MAGIC)
    for stored in pages:
        page = stored.page
        values, offset = _varint(page.values), _varint(start)
        # The header of a data page with plain values that are neither optional nor repeated.
        sizes = b"\x15" + _varint(page.size_bytes) + b"\x15" + _varint(page.stored_bytes)
        header = b"\x15\x00" + sizes + b"\x2c\x15" + values + b"\x15\x00\x15\x06\x15\x06\x00\x00"
        size, stored_size = _varint(len(header) + page.size_bytes), _varint(len(header) + page.stored_bytes)
        groups += [
            # A row group of a column chunk with its type, encoding, path, codec, number of values, sizes and offset.
            *(b"\x19\x1c\x26", offset, b"\x1c\x15\x0c\x19\x15\x00\x19\x18\x01v\x15", _varint(stored.codec)),
            *(b"\x16", values, b"\x16", size, b"\x16", stored_size, b"\x26", offset, b"\x00\x00"),
            *(b"\x16", size, b"\x16", values, b"\x00"),
        ]
        parts += [header, stored.stored]
        start += len(header) + len(stored.stored)
    # Version 1; a schema of a root and the byte array; the number of rows and the list of row groups.
    rows = _varint(sum(stored.page.values for stored in pages))
    schema = b"\x15\x02\x19\x2c\x48\x01r\x15\x02\x00\x15\x0c\x25\x00\x18\x01v\x00"
    footer = b"".join((schema, b"\x16", rows, b"\x19\xfc", _unsigned(len(pages)), *groups, b"\x00"))
    return b"".join((*parts, footer, len(footer).to_bytes(_LENGTH_BYTES, "little"), _MAGIC))


@dataclass(slots=True)
class _Values:
    """Values that rows, or lists in them, may take from a dictionary: their number and the longest."""

    chunk: pq.ColumnChunkMetaData
    count: int
    longest: int
    """The most bytes of one value, as far as it is known."""

    @property
    def size_bytes(self) -> int:
        return self.count * self.longest


_size_bytes = attrgetter("size_bytes")


@dataclass(frozen=True, kw_only=True)
class DictionaryValues:
    """The values of dictionaries in one row group of an open Parquet file; ``path`` is for errors.

    Parquet for Java writes a dictionary only if values repeat, so that it is small compared to the data.
    """

    file: pa.NativeFile
    footer: pq.FileMetaData
    row_group: int
    path: str
    _pages: dict[str, DictionaryPage | None] = field(default_factory=dict)
    _longest: dict[str, int] = field(default_factory=dict)

    def max_rows(self, chunks: Sequence[pq.ColumnChunkMetaData], rows: int) -> int:
        """The number of rows, up to ``rows``, that a batch of some column chunks may have.

        If ``rows`` could take more than 256 MiB, a batch takes up to 32 MiB, or is a single row.

        Raises:
            PARQUET_ERRORS: a dictionary cannot be decoded.
            UnsupportedTableError: the values of 256 rows with lists do not fit into a batch.
        """
        at_once = max(1, min(rows, self.footer.row_group(self.row_group).num_rows))
        suspects = [
            self._values(chunk, chunk.num_values if self._is_repeated(chunk) else at_once)
            for chunk in chunks
            if self._leaf(chunk) and may_expand(chunk)
        ]
        if self._fit(suspects):
            return rows
        row_bytes = sum(self._bytes_of_row(values, at_once) for values in suspects)
        return rows if at_once * row_bytes <= BATCH_BYTES else max(1, min(rows, _CUT_BATCH_BYTES // row_bytes))

    def size_bytes(self, chunks: Sequence[pq.ColumnChunkMetaData]) -> int:
        """The memory that dictionary values in some column chunks take; 0 if it cannot be much."""
        suspects = [self._values(chunk, chunk.num_values) for chunk in chunks if may_expand(chunk)]
        if self._fit(suspects):
            return 0
        return sum(sum(map(_decoded_bytes, self._batches(values.chunk, _ROWS_AT_ONCE))) for values in suspects)

    def _values(self, chunk: pq.ColumnChunkMetaData, count: int) -> _Values:
        """Values with the greatest length that the footer allows."""
        is_fixed = chunk.physical_type == "FIXED_LEN_BYTE_ARRAY"
        return _Values(
            chunk, count, int(self._leaf(chunk).length) if is_fixed else max(0, chunk.total_uncompressed_size)
        )

    def _fit(self, suspects: Sequence[_Values]) -> bool:
        """Whether values fit into a batch, however often each is referenced.

        Reads as little as possible: first the headers of dictionaries, then the lengths in them, starting with the
        columns that could take most. If they do not fit, the longest value of each column is known afterwards.
        """
        total = sum(values.size_bytes for values in suspects)
        variable = [values for values in suspects if values.chunk.physical_type == "BYTE_ARRAY"]
        for values in sorted(variable, key=_size_bytes, reverse=True):
            if total <= BATCH_BYTES:
                return True
            total -= values.size_bytes
            values.longest = self._max_bytes(values.chunk)
            total += values.size_bytes
        # Many columns are seldom harmless by their headers: reading the lengths of several together takes less.
        waiting, at_once = deque(sorted(variable, key=_size_bytes, reverse=True)), 1
        while total > BATCH_BYTES and waiting:
            some = [waiting.popleft() for _ in range(min(at_once, len(waiting)))]
            total -= sum(map(_size_bytes, some))
            for values, longest in zip(some, self._longest_bytes([values.chunk for values in some]), strict=True):
                values.longest = longest
            total += sum(map(_size_bytes, some))
            at_once *= 2
        return total <= BATCH_BYTES

    def _bytes_of_row(self, values: _Values, rows: int) -> int:
        """The most bytes of a row, once the longest value is known."""
        chunk = values.chunk
        if not self._is_repeated(chunk):
            return values.longest
        if values.size_bytes <= BATCH_BYTES:
            return values.size_bytes // rows
        largest = max(map(_decoded_bytes, self._batches(chunk, _ROWS_AT_ONCE)), default=0)
        if largest > _MAX_COLUMN_BYTES:
            actual = f"{largest} bytes of {chunk.path_in_schema} in {_ROWS_AT_ONCE} rows of {self.path}"
            raise UnsupportedTableError("size of rows", actual, f"{_MAX_COLUMN_BYTES} bytes")
        return largest // _ROWS_AT_ONCE if largest <= BATCH_BYTES else BATCH_BYTES

    def _max_bytes(self, chunk: pq.ColumnChunkMetaData) -> int:
        """An upper bound for the bytes of a dictionary value, by the header of its page."""
        page = self._page(chunk)
        return max(0, chunk.total_uncompressed_size) if page is None else page.max_bytes

    def _longest_bytes(self, chunks: Sequence[pq.ColumnChunkMetaData]) -> list[int]:
        """The bytes of the longest value of each dictionary, or upper bounds."""
        wanted: dict[str, StoredPage] = {}
        for chunk in chunks:
            page, name = self._readable_page(chunk), chunk.path_in_schema
            if name in self._longest:
                continue
            if page is None:
                self._longest[name] = self._max_bytes(chunk)
            else:
                wanted[name] = StoredPage(page, _read_at(self.file, page.stored_bytes, page.start), chunk.compression)
        if wanted:
            self._longest.update(zip(wanted, longest_values(list(wanted.values())), strict=True))
        return [self._longest[chunk.path_in_schema] for chunk in chunks]

    def _readable_page(self, chunk: pq.ColumnChunkMetaData) -> DictionaryPage | None:
        """The dictionary page of a column chunk; None without one, or if the page is larger than the chunk.

        Then one of the two sizes is wrong, so nothing is allocated by them.
        """
        page = self._page(chunk)
        if page is None or page.stored_bytes > chunk.total_compressed_size:
            return None
        return page if page.size_bytes <= chunk.total_uncompressed_size else None

    def _page(self, chunk: pq.ColumnChunkMetaData) -> DictionaryPage | None:
        """The dictionary page at the start of a column chunk; None if there is none, or its header has another form."""
        name = chunk.path_in_schema
        if name not in self._pages:
            starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
            start = min((offset for offset in starts if offset and offset > 0), default=0)
            self._pages[name] = DictionaryPage.parse(_read_at(self.file, _MAX_HEADER_BYTES, start), start)
        return self._pages[name]

    def _is_repeated(self, chunk: pq.ColumnChunkMetaData) -> bool:
        return bool(self._leaf(chunk).max_repetition_level)

    def _leaf(self, chunk: pq.ColumnChunkMetaData) -> Any:  # noqa: ANN401 - the stubs lack the class
        """The leaf of a column chunk; raises Arrow's error for a damaged footer that names an unknown one."""
        leaf = self._leaves.get(chunk.path_in_schema)
        if leaf is None:
            raise pa.ArrowInvalid(f"a column chunk of {chunk.path_in_schema!r}, which is no column")
        return leaf

    @cached_property
    def _leaves(self) -> dict[str, Any]:
        """The leaves of the schema by their paths."""
        leaves = map(self.footer.schema.column, range(self.footer.num_columns))
        return {leaf.path: leaf for leaf in leaves}

    def _batches(self, chunk: pq.ColumnChunkMetaData, rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of a column chunk, with dictionaries."""
        name = chunk.path_in_schema
        file = pq.ParquetFile(self.file, metadata=self.footer, read_dictionary=[name], pre_buffer=False)
        return file.iter_batches(rows, row_groups=[self.row_group], columns=[name], use_threads=False)


def may_expand(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether a column chunk may have a dictionary of values with their own bytes.

    Footers of Parquet for Java before 1.12 lack the offset of dictionaries, so their encodings are checked too.
    """
    if chunk.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return False
    return chunk.has_dictionary_page or any("DICTIONARY" in encoding for encoding in chunk.encodings)


def _read_at(file: Any, size: int, start: int) -> bytes:  # noqa: ANN401 - the stubs lack the second argument
    content: bytes = file.read_at(size, start)
    return content


def _number(varint: bytes) -> int:
    """A number as Thrift stores it: seven bits in each byte, the lowest first, zigzag-encoded."""
    zigzag = sum((byte & ~_CONTINUATION_BIT) << (7 * position) for position, byte in enumerate(varint))
    return -(zigzag + 1 >> 1) if zigzag & 1 else zigzag >> 1


def _varint(number: int) -> bytes:
    """A nonnegative number as Thrift stores it."""
    return _unsigned(number << 1)


def _unsigned(number: int) -> bytes:
    """A nonnegative number in seven bits of each byte, the lowest first, as Thrift stores lengths."""
    encoded = bytearray()
    while number >= _CONTINUATION_BIT:
        encoded.append(number % _CONTINUATION_BIT | _CONTINUATION_BIT)
        number >>= 7
    return bytes((*encoded, number))


def _decoded_bytes(batch: pa.RecordBatch) -> int:
    """The bytes of dictionary values in a batch once they are decoded."""
    lengths = [
        pc.sum(pc.binary_length(values.dictionary).take(values.indices)).as_py() or 0
        for column in batch.columns
        for values in _dictionaries(column)
    ]
    return int(sum(lengths))


def _dictionaries(array: Any) -> Iterator[Any]:  # noqa: ANN401 - of any type
    """The arrays with dictionaries within an array."""
    if pa.types.is_dictionary(array.type):
        yield array
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _dictionaries(part)
    elif pa.types.is_map(array.type):
        yield from _dictionaries(array.keys)
        yield from _dictionaries(array.items)
    elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _dictionaries(array.flatten())
