"""What the values of Parquet's dictionaries take once they are decoded.

A dictionary has each value once, so that a file of two kilobytes can have any number of rows that refer to a text of a
megabyte. Footers do not tell how long values are; dictionaries do, and are read only where rows could take too much.

Source: ``PageHeader`` and ``DictionaryPageHeader`` of Parquet's Thrift definition.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

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
_HARMLESS_SHARE = 64
_ROWS_AT_ONCE = 256
# A page of the type dictionary, and the field that its uncompressed size follows in, in Thrift's compact protocol.
_DICTIONARY_PAGE = b"\x15\x04\x15"
_MOST_VARINT_BYTES = 5
_CONTINUATION_BIT = 0x80
_LENGTH_BYTES = 4


@dataclass(frozen=True, kw_only=True)
class DictionaryValues:
    """The values of dictionaries of one row group of a Parquet file that is open; ``path`` is for errors.

    Files of Parquet for Java have a dictionary only for columns whose values repeat, so that it is small or worth it.
    """

    file: pa.NativeFile
    footer: pq.FileMetaData
    row_group: int
    path: str
    _longest: dict[str, int] = field(default_factory=dict)

    def most_rows(self, chunks: Sequence[pq.ColumnChunkMetaData], rows: int) -> int:
        """How many rows a batch of some column chunks may have, at most ``rows``.

        If so many rows could take more than 256 MiB, a batch takes 32 MiB at most, or is a single row.

        Raises:
            PARQUET_ERRORS: a dictionary cannot be decoded.
            UnsupportedTableError: the values of 256 rows, which have lists, do not fit into a batch.
        """
        rows = min(rows, self.footer.row_group(self.row_group).num_rows)
        suspects = [chunk for chunk in chunks if self._leaf(chunk) and _may_expand(chunk)]
        if sum(rows * chunk.total_uncompressed_size for chunk in suspects if chunk.num_values <= rows) <= BATCH_BYTES:
            suspects = [chunk for chunk in suspects if chunk.num_values > rows]
        row_bytes = sum(self._bytes_of_row(chunk, rows) for chunk in suspects)
        return rows if rows * row_bytes <= BATCH_BYTES else max(1, min(rows, _CUT_BATCH_BYTES // row_bytes))

    def size_bytes(self, chunks: Sequence[pq.ColumnChunkMetaData]) -> int:
        """What the values of dictionaries in some column chunks take; 0 if it cannot be much."""
        suspects = [chunk for chunk in chunks if _may_expand(chunk)]
        if sum(chunk.num_values * chunk.total_uncompressed_size for chunk in suspects) <= BATCH_BYTES:
            return 0
        return sum(sum(map(_decoded_bytes, self._batches(chunk, _ROWS_AT_ONCE))) for chunk in suspects)

    def _bytes_of_row(self, chunk: pq.ColumnChunkMetaData, rows: int) -> int:
        """The most bytes of a row; an upper bound where rows cannot take much."""
        is_repeated = bool(self._leaf(chunk).max_repetition_level)
        values = chunk.num_values if is_repeated else rows
        if values * chunk.total_uncompressed_size <= BATCH_BYTES // _HARMLESS_SHARE:
            return chunk.total_uncompressed_size * values // rows
        name = chunk.path_in_schema
        if name not in self._longest:
            self._longest[name] = self._read_longest(chunk)
        longest = self._longest[name]
        if not is_repeated:
            return longest
        if chunk.num_values * longest <= BATCH_BYTES:
            return chunk.num_values * longest // rows
        most = max(map(_decoded_bytes, self._batches(chunk, _ROWS_AT_ONCE)), default=0)
        if most > _LARGEST_BYTES:
            found = f"{most} bytes of {chunk.path_in_schema} in {_ROWS_AT_ONCE} rows of {self.path}"
            raise UnsupportedTableError("size of rows", found, f"{_LARGEST_BYTES} bytes")
        return most // _ROWS_AT_ONCE if most <= BATCH_BYTES else BATCH_BYTES

    def _read_longest(self, chunk: pq.ColumnChunkMetaData) -> int:
        """The bytes of the longest value of a dictionary, or a bound of it."""
        if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
            return int(self._leaf(chunk).length)
        stored = self._stored_bytes(chunk)
        texts = [
            pc.binary_length(values.dictionary)
            for batch in islice(self._batches(chunk, 1), 1)
            for column in batch.columns
            for values in _dictionaries(column)
        ]
        total = sum(_LENGTH_BYTES * len(lengths) + (pc.sum(lengths).as_py() or 0) for lengths in texts)
        if total != stored:
            # The first page does not refer to the dictionary, so that Arrow has not read it.
            return stored or int(chunk.total_uncompressed_size)
        return max((pc.max(lengths).as_py() or 0 for lengths in texts), default=0)

    def _stored_bytes(self, chunk: pq.ColumnChunkMetaData) -> int:
        """The bytes of the dictionary page of a column chunk, decompressed; 0 if its header is of another form."""
        self.file.seek(chunk.dictionary_page_offset or 0)
        header = self.file.read(len(_DICTIONARY_PAGE) + _MOST_VARINT_BYTES)
        if not header.startswith(_DICTIONARY_PAGE):
            return 0
        number = 0
        for position, byte in enumerate(header[len(_DICTIONARY_PAGE) :]):
            number |= (byte & ~_CONTINUATION_BIT) << (7 * position)
            if not byte & _CONTINUATION_BIT:
                return number >> 1
        return 0

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
    return chunk.has_dictionary_page and chunk.physical_type in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")


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
