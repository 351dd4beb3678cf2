"""What the values of Parquet's dictionaries take once they are decoded.

A dictionary has each value once, so that a file of two kilobytes can have any number of rows that refer to a text of a
megabyte. Footers do not tell how long values are; dictionaries do, and are read only where rows could take too much.

Source: ``PageHeader`` and ``DictionaryPageHeader`` of Parquet's Thrift definition.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import UnsupportedTableError

BATCH_BYTES = 1 << 28
"""What the values of a batch may take; usual batches take a hundredth of it."""
_CUT_BATCH_BYTES = 1 << 25
# Of batches that could take more: Arrow takes twice as much while it decodes, and some are ahead of their reader.
_LARGEST_BYTES = (1 << 31) - 1
"""What a column of a batch can hold in Arrow."""
_ROWS_AT_ONCE = 256
_LENGTH_BYTES = 4
_CONTINUATION_BIT = 0x80
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
# The header of a dictionary page in Thrift's compact protocol: its sizes without and with compression, a checksum that
# may be left out, and the number of values, whose encoding is plain by either of its names.
_DICTIONARY_HEADER = re.compile(
    rb"\x15\x04\x15%b\x15%b(?:\x4c|\x15%b\x3c)\x15%b\x15[\x00\x04][\x11\x12]?\x00\x00" % ((_VARINT,) * 4)
)
_MOST_HEADER_BYTES = 64
_MAGIC = b"PAR1"
_CODECS = {"UNCOMPRESSED": 0, "SNAPPY": 1, "GZIP": 2, "BROTLI": 4, "ZSTD": 6, "LZ4": 7}
_LZ4_OF_HADOOP = 5
"""The codec that Arrow has no name for."""


class DictionaryPage(NamedTuple):
    """What its header says of a dictionary page; ``start`` is where the values are, after the header."""

    start: int
    stored_bytes: int
    size_bytes: int
    values: int

    @property
    def most_bytes(self) -> int:
        """The bytes of a value at most: each has its length before it, also if all others are empty."""
        return max(0, self.size_bytes - _LENGTH_BYTES * self.values)

    @classmethod
    def parse(cls, stored: bytes, start: int) -> "DictionaryPage | None":
        """The page whose header begins at ``start``, with these bytes; None if they are not of the usual form."""
        header = _DICTIONARY_HEADER.match(stored)
        if header is None:
            return None
        size_bytes, stored_bytes, values = (_number(header[group]) for group in (1, 2, 4))
        if min(size_bytes, stored_bytes, values) < 0:
            return None
        return cls(start + header.end(), stored_bytes, size_bytes, values)

    def longest(self, stored: bytes, compression: str) -> int:
        """The bytes of the longest value; those of the page if it is damaged.

        Arrow's decoder of plain pages goes from length to length, without a memo of values: the page is read as the
        only data page of a file with one column.
        """
        lengths = None
        if len(stored) == self.stored_bytes and _LENGTH_BYTES * self.values <= self.size_bytes:
            content = pa.BufferReader(self._file_of(stored, _CODECS.get(compression, _LZ4_OF_HADOOP)))
            try:
                lengths = pc.binary_length(pq.ParquetFile(content).read(use_threads=False).column(0))
            except (pa.ArrowException, OSError):
                # Whoever reads the rows finds out what is wrong.
                lengths = None
        if lengths is None or len(lengths) != self.values:
            return self.size_bytes
        return int(pc.max(lengths).as_py() or 0)

    def _file_of(self, stored: bytes, codec: int) -> bytes:
        """A Parquet file of one row group, whose only column ``v`` has the values of this page."""
        values, start = _varint(self.values), _varint(len(_MAGIC))
        # A data page with plain values, which are neither optional nor repeated.
        sizes = b"\x15" + _varint(self.size_bytes) + b"\x15" + _varint(self.stored_bytes)
        header = b"\x15\x00" + sizes + b"\x2c\x15" + values + b"\x15\x00\x15\x06\x15\x06\x00\x00"
        size, stored_size = _varint(len(header) + self.size_bytes), _varint(len(header) + self.stored_bytes)
        parts = (
            # Version 1; a schema of a root and the byte array.
            *(b"\x15\x02\x19\x2c\x48\x01r\x15\x02\x00\x15\x0c\x25\x00\x18\x01v\x00\x16", values),
            # A row group of a column chunk with its type, encoding, path, codec, number of values, sizes and offset.
            *(b"\x19\x1c\x19\x1c\x26", start, b"\x1c\x15\x0c\x19\x15\x00\x19\x18\x01v\x15", _varint(codec)),
            *(b"\x16", values, b"\x16", size, b"\x16", stored_size, b"\x26", start, b"\x00\x00"),
            *(b"\x16", size, b"\x16", values, b"\x00\x00"),
        )
        footer = b"".join(parts)
        return b"".join((_MAGIC, header, stored, footer, len(footer).to_bytes(_LENGTH_BYTES, "little"), _MAGIC))


@dataclass(slots=True)
class _Values:
    """Values that a number of rows, or of lists in them, could take out of a dictionary."""

    chunk: pq.ColumnChunkMetaData
    count: int
    longest: int
    """The most bytes of one of them, as far as is known."""

    @property
    def size_bytes(self) -> int:
        return self.count * self.longest


@dataclass(frozen=True, kw_only=True)
class DictionaryValues:
    """The values of dictionaries of one row group of a Parquet file that is open; ``path`` is for errors.

    Files of Parquet for Java have a dictionary only for columns whose values repeat, so that it is small or worth it.
    """

    file: pa.NativeFile
    footer: pq.FileMetaData
    row_group: int
    path: str
    _pages: dict[str, DictionaryPage | None] = field(default_factory=dict)
    _longest: dict[str, int] = field(default_factory=dict)

    def most_rows(self, chunks: Sequence[pq.ColumnChunkMetaData], rows: int) -> int:
        """How many rows a batch of some column chunks may have, at most ``rows``.

        If so many rows could take more than 256 MiB, a batch takes 32 MiB at most, or is a single row.

        Raises:
            PARQUET_ERRORS: a dictionary cannot be decoded.
            UnsupportedTableError: the values of 256 rows, which have lists, do not fit into a batch.
        """
        at_once = max(1, min(rows, self.footer.row_group(self.row_group).num_rows))
        suspects = [
            self._values(chunk, chunk.num_values if self._is_repeated(chunk) else at_once)
            for chunk in chunks
            if self._leaf(chunk) and _may_expand(chunk)
        ]
        if self._fit(suspects):
            return rows
        row_bytes = sum(self._bytes_of_row(values, at_once) for values in suspects)
        return rows if at_once * row_bytes <= BATCH_BYTES else max(1, min(rows, _CUT_BATCH_BYTES // row_bytes))

    def size_bytes(self, chunks: Sequence[pq.ColumnChunkMetaData]) -> int:
        """What the values of dictionaries in some column chunks take; 0 if it cannot be much."""
        suspects = [self._values(chunk, chunk.num_values) for chunk in chunks if _may_expand(chunk)]
        if self._fit(suspects):
            return 0
        return sum(sum(map(_decoded_bytes, self._batches(values.chunk, _ROWS_AT_ONCE))) for values in suspects)

    def _values(self, chunk: pq.ColumnChunkMetaData, count: int) -> _Values:
        """Values as long as the footer allows."""
        is_fixed = chunk.physical_type == "FIXED_LEN_BYTE_ARRAY"
        return _Values(
            chunk, count, int(self._leaf(chunk).length) if is_fixed else max(0, chunk.total_uncompressed_size)
        )

    def _fit(self, suspects: Sequence[_Values]) -> bool:
        """Whether values fit into a batch, however often each is referred to.

        No more is read than it takes to know: first headers of dictionaries, then the lengths in them, and those first
        that could take the most. Unless they fit, the longest value of each is known in the end.
        """
        total = sum(values.size_bytes for values in suspects)
        variable = [values for values in suspects if values.chunk.physical_type == "BYTE_ARRAY"]
        for read in (self._most_bytes, self._longest_bytes):
            for values in sorted(variable, key=lambda values: values.size_bytes, reverse=True):
                if total <= BATCH_BYTES:
                    return True
                total -= values.size_bytes
                values.longest = read(values.chunk)
                total += values.size_bytes
        return total <= BATCH_BYTES

    def _bytes_of_row(self, values: _Values, rows: int) -> int:
        """The most bytes of a row, where the longest value is known."""
        chunk = values.chunk
        if not self._is_repeated(chunk):
            return values.longest
        if values.size_bytes <= BATCH_BYTES:
            return values.size_bytes // rows
        most = max(map(_decoded_bytes, self._batches(chunk, _ROWS_AT_ONCE)), default=0)
        if most > _LARGEST_BYTES:
            found = f"{most} bytes of {chunk.path_in_schema} in {_ROWS_AT_ONCE} rows of {self.path}"
            raise UnsupportedTableError("size of rows", found, f"{_LARGEST_BYTES} bytes")
        return most // _ROWS_AT_ONCE if most <= BATCH_BYTES else BATCH_BYTES

    def _most_bytes(self, chunk: pq.ColumnChunkMetaData) -> int:
        """A bound of the bytes of a dictionary's values, by the header of its page."""
        page = self._page(chunk)
        return max(0, chunk.total_uncompressed_size) if page is None else page.most_bytes

    def _longest_bytes(self, chunk: pq.ColumnChunkMetaData) -> int:
        """The bytes of the longest value of a dictionary, or a bound of it."""
        page, name = self._page(chunk), chunk.path_in_schema
        if page is None or not page.stored_bytes <= chunk.total_compressed_size:
            return self._most_bytes(chunk)
        if page.size_bytes > chunk.total_uncompressed_size:
            # One of the two is wrong: no memory is taken by what it says.
            return page.most_bytes
        if name not in self._longest:
            stored = _read_at(self.file, page.stored_bytes, page.start)
            self._longest[name] = page.longest(stored, chunk.compression)
        return self._longest[name]

    def _page(self, chunk: pq.ColumnChunkMetaData) -> DictionaryPage | None:
        """The page that a column chunk begins with; None if it is no dictionary, or its header of another form."""
        name = chunk.path_in_schema
        if name not in self._pages:
            starts = (chunk.dictionary_page_offset, chunk.data_page_offset)
            start = min((offset for offset in starts if offset and offset > 0), default=0)
            self._pages[name] = DictionaryPage.parse(_read_at(self.file, _MOST_HEADER_BYTES, start), start)
        return self._pages[name]

    def _is_repeated(self, chunk: pq.ColumnChunkMetaData) -> bool:
        return bool(self._leaf(chunk).max_repetition_level)

    def _leaf(self, chunk: pq.ColumnChunkMetaData) -> Any:  # noqa: ANN401 - the stubs lack the class
        """The leaf of a column chunk; raises as Arrow does for a damaged footer, which names none."""
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


def _may_expand(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether values of a column chunk could be those of a dictionary that take bytes of their own.

    Footers of Parquet for Java before 1.12 do not say where dictionaries are: only encodings tell that there is one.
    """
    if chunk.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return False
    return chunk.has_dictionary_page or any("DICTIONARY" in encoding for encoding in chunk.encodings)


def _read_at(file: Any, size: int, start: int) -> bytes:  # noqa: ANN401 - the stubs lack the second argument
    content: bytes = file.read_at(size, start)
    return content


def _number(varint: bytes) -> int:
    """A number as Thrift stores it: seven bits in each byte, the lowest first, and in those the sign as the lowest."""
    zigzag = sum((byte & ~_CONTINUATION_BIT) << (7 * position) for position, byte in enumerate(varint))
    return -(zigzag + 1 >> 1) if zigzag & 1 else zigzag >> 1


def _varint(number: int) -> bytes:
    """A number that is not negative, as Thrift stores it."""
    zigzag, encoded = number << 1, bytearray()
    while zigzag >= _CONTINUATION_BIT:
        encoded.append(zigzag % _CONTINUATION_BIT | _CONTINUATION_BIT)
        zigzag >>= 7
    return bytes((*encoded, zigzag))


def _decoded_bytes(batch: pa.RecordBatch) -> int:
    """What the values of dictionaries take in a batch without dictionaries."""
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
