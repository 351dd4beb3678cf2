"""Reads small Parquet base files: each is read at once, and decoded from memory.

Hudi keeps a bloom filter of several hundred kilobytes in each footer, which would be most of what a small file costs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.parquet import END_BYTES, footer_mismatch, require_not_encrypted
from hudi_bridge.logformat.parquet_dictionaries import BATCH_BYTES, DictionaryValues
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.footers import check_origin, chunks_of
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
_END_BYTES = _LENGTH_BYTES + len(_MAGIC)
# A KeyValue in Thrift's compact protocol: a field with the key, its length before it, and a field with the value, which
# begins with its length.
_BLOOM_FILTER = b"\x18\x1borg.apache.hudi.bloomfilter\x18"
_CONTINUATION_BIT = 0x80
_HEAD_BYTES = 1 << 14
"""Of the footer, what is read at once with the data before it."""
_TAIL_BYTES = 1 << 12
_MAX_LENGTH_BYTES = 5


class SmallParquetFile(OpenBaseFile):
    """A Parquet base file in memory."""

    def __init__(self, storage: Storage, split: RealtimeFileSplit, path: str) -> None:
        """Reads the file.

        Raises:
            CorruptBaseFileError: the file has no footer, or one whose parts do not agree.
            UnsupportedTableError: a column is encrypted.
            FileNotFoundError: there is no such file.
            PARQUET_ERRORS: the footer cannot be decoded.
            StorageError: the file cannot be read.
        """
        content = _content(storage, path)
        self._file = pq.ParquetFile(
            pa.BufferReader(content),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        self.footer = self._file.metadata
        require_not_encrypted(content[-END_BYTES:], path, self.footer)
        if wrong := footer_mismatch(self.footer):
            raise CorruptBaseFileError(path, None, *wrong)
        check_origin(self.footer, split, path)
        groups = [self.footer.row_group(number) for number in range(self.footer.num_row_groups)]
        super().__init__(split, path, self._file.schema_arrow, [group.num_rows for group in groups])
        self._legacy_dates = LegacyDates.of(self.footer, self.arrow_schema, path)
        self.size_bytes = sum(group.total_byte_size for group in groups)
        """The bytes of all columns, decompressed."""
        self.is_bounded = self.size_bytes * self.num_rows <= BATCH_BYTES or self._is_bounded(content)
        """Whether the rows take little memory at once, also if many refer to the same values."""

    def _is_bounded(self, content: bytes) -> bool:
        for number in self.row_groups:
            group, rows = self.footer.row_group(number), self.rows_of(number)
            values = DictionaryValues(
                file=pa.BufferReader(content), footer=self.footer, row_group=number, path=self.path
            )
            if values.most_rows(list(map(group.column, range(group.num_columns))), rows) < rows:
                return False
        return True

    def close(self) -> None:
        """Let go of the content."""
        self._file.close(force=True)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of some top-level columns in a row group."""
        return sum(chunk.total_compressed_size for chunk in chunks_of(self.footer, row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterator[int]:
        """The size without compression of each leaf of some top-level columns in a row group."""
        return (chunk.total_uncompressed_size for chunk in chunks_of(self.footer, row_group, columns))

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - all is in memory
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group; raises like ``rows``."""
        found = self._file.iter_batches(
            rows_per_batch, row_groups=[row_group], columns=list(columns), use_threads=False
        )
        return found if self._legacy_dates is None else map(self._legacy_dates.rebased, found)

    def rows(self, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """All rows with some of the top-level columns, with dates of the Gregorian calendar.

        Raises:
            CorruptBaseFileError: the number of rows is not that of the footer.
            PARQUET_ERRORS: the data cannot be decoded.
            UnsupportedTableError: times are of a time zone that is not known.
        """
        found = list(self._file.iter_batches(max(1, self.num_rows), columns=list(columns), use_threads=False))
        rows = sum(batch.num_rows for batch in found)
        # A damaged page may end a column early without an error.
        if rows != self.num_rows:
            raise CorruptBaseFileError(self.path, None, f"{rows} rows", f"{self.num_rows}, as the footer says")
        return found if self._legacy_dates is None else list(map(self._legacy_dates.rebased, found))


def _content(storage: Storage, path: str) -> bytes:
    """The content of a Parquet file without what its bloom filter holds, if that is large."""
    with storage.open_input(path) as opened:
        file: Any = opened  # the stubs lack read_at's second argument
        size: int = file.size()
        tail: bytes = file.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
        start = size - _END_BYTES - int.from_bytes(tail[-_END_BYTES : -len(_MAGIC)], "little")
        if start < len(_MAGIC) or not tail.endswith(_MAGIC):
            raise CorruptBaseFileError(path, None, "no footer", "a readable Parquet file")
        # What the footer says of columns and row groups comes first.
        head: bytes = file.read_at(min(size, start + _HEAD_BYTES), 0)
        shorter = _without_bloom_filter(head, start, tail, size)
        if shorter is not None or len(head) == size:
            return shorter or head
        rest: bytes = file.read_at(size - len(head), len(head))
        return head + rest


def _without_bloom_filter(head: bytes, footer_start: int, tail: bytes, size: int) -> bytes | None:
    """A file of a size with an empty bloom filter, from its head and tail; None unless one filter is all between them.

    The text by which it is found may be anywhere, such as in a record key. If it is in two places, none is changed.
    """
    value = head.find(_BLOOM_FILTER, footer_start) + len(_BLOOM_FILTER)
    if value < len(_BLOOM_FILTER):
        return None
    after = _end_of_text(head, value) - (size - len(tail))
    rest = tail[after:-_END_BYTES]
    if after < 0 or not rest or _BLOOM_FILTER in rest:
        return None
    footer = head[footer_start:value] + b"\0" + rest
    return b"".join((head[:footer_start], footer, len(footer).to_bytes(_LENGTH_BYTES, "little"), _MAGIC))


def _end_of_text(head: bytes, position: int) -> int:
    """Where a text ends that begins with its length, as a varint."""
    length = shift = 0
    for byte in head[position : position + _MAX_LENGTH_BYTES]:
        length |= (byte & ~_CONTINUATION_BIT) << shift
        position, shift = position + 1, shift + 7
        if byte < _CONTINUATION_BIT:
            break
    return position + length
