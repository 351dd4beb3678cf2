"""Reads small Parquet base files: each is read at once, and decoded from memory.

Hudi stores a Bloom filter of several hundred kilobytes in each footer, which would take most of the time for a small
file. It is cut out before the footer is decoded.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.parquet import END_BYTES, footer_mismatch, require_not_encrypted
from hudi_bridge.logformat.parquet_dictionaries import BATCH_BYTES, DictionaryValues, may_expand
from hudi_bridge.readers.base_file import OpenBaseFile, open_stored
from hudi_bridge.readers.base_formats.footers import check_origin, chunks_of, without_bloom_filter
from hudi_bridge.readers.base_formats.legacy_dates import LegacyDates
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_MAGIC = b"PAR1"
_HEAD_BYTES = 1 << 14
"""The bytes of the footer that are read together with the data before it."""
_TAIL_BYTES = 1 << 12
_MAX_DECODED_BYTES = 1 << 26
"""The most bytes of decoded rows: usual ones take a few megabytes, but rows can share large dictionary values."""


class SmallParquetFile(OpenBaseFile):
    """A Parquet base file in memory."""

    def __init__(self, storage: Storage, split: RealtimeFileSplit, path: str) -> None:
        """Reads the file.

        Raises:
            CorruptBaseFileError: the file has no footer, or the parts of the footer do not agree.
            UnsupportedTableError: a column is encrypted.
            FileNotFoundError: the file does not exist.
            PARQUET_ERRORS: the footer cannot be decoded.
            StorageError: the file cannot be read.
        """
        content = _content(storage, split, path)
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
        """The uncompressed size of all columns."""
        self._is_bounded_by_size = self.size_bytes * self.num_rows <= BATCH_BYTES
        # A row has any number of the values of lists.
        has_lists = any(map(pa.types.is_nested, self.arrow_schema.types)) and any(
            self.footer.schema.column(leaf).max_repetition_level for leaf in range(self.footer.num_columns)
        )
        self.is_bounded = self._is_bounded_by_size or not has_lists or self._is_bounded(content)
        """Whether ``rows`` takes little memory, even if many rows share large dictionary values."""

    def _max_rows(self, columns: Sequence[str]) -> int:
        """The number of rows that fit into a batch, whatever values of dictionaries they share."""
        if self._is_bounded_by_size:
            return max(1, self.num_rows)
        row_bytes = max(
            sum(
                # The size in a damaged footer may be negative.
                max(0, chunk.total_uncompressed_size)
                for chunk in chunks_of(self.footer, number, columns)
                if may_expand(chunk)
            )
            for number in self.row_groups
        )
        return max(1, min(self.num_rows, BATCH_BYTES // max(1, row_bytes)))

    def _is_bounded(self, content: bytes) -> bool:
        for number in self.row_groups:
            group, rows = self.footer.row_group(number), self.rows_of(number)
            values = DictionaryValues(
                file=pa.BufferReader(content), footer=self.footer, row_group=number, path=self.path
            )
            if values.max_rows(list(map(group.column, range(group.num_columns))), rows) < rows:
                return False
        return True

    def close(self) -> None:
        """Releases the content."""
        self._file.close(force=True)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of top-level columns in a row group, in bytes."""
        return sum(chunk.total_compressed_size for chunk in chunks_of(self.footer, row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterator[int]:
        """The uncompressed size, in bytes, of each leaf of top-level columns in a row group."""
        return (chunk.total_uncompressed_size for chunk in chunks_of(self.footer, row_group, columns))

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - all is in memory
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group; raises like ``rows``."""
        batches = self._file.iter_batches(
            min(rows_per_batch, self._max_rows(columns)),
            row_groups=[row_group],
            columns=list(columns),
            use_threads=False,
        )
        return batches if self._legacy_dates is None else map(self._legacy_dates.rebased, batches)

    def rows(self, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """All rows with some top-level columns, with dates of the Gregorian calendar.

        Raises:
            CorruptBaseFileError: the number of rows differs from the footer's.
            PARQUET_ERRORS: the data cannot be decoded, or many rows share large dictionary values.
            UnsupportedTableError: times are in an unknown time zone.
        """
        rows_at_once = self._max_rows(columns)
        batches: list[pa.RecordBatch] = []
        size_bytes = 0
        for batch in self._file.iter_batches(rows_at_once, columns=list(columns), use_threads=False):
            batches.append(batch)
            # Of usual files, what they take is known to be little; asking a batch for its size takes time.
            size_bytes += batch.get_total_buffer_size() if rows_at_once < self.num_rows else 0
            if size_bytes > _MAX_DECODED_BYTES:
                raise pa.ArrowCapacityError(f"rows of {self.path} take more than {_MAX_DECODED_BYTES} bytes")
        rows = sum(batch.num_rows for batch in batches)
        # A damaged page may end a column early without an error.
        if rows != self.num_rows:
            raise CorruptBaseFileError(self.path, None, f"{rows} rows", f"{self.num_rows}, as the footer says")
        return batches if self._legacy_dates is None else list(map(self._legacy_dates.rebased, batches))


def _content(storage: Storage, split: RealtimeFileSplit, path: str) -> bytes:
    """The content of a Parquet file, without the content of a large Bloom filter."""
    with open_stored(storage, split, path)[0] as opened:
        file: Any = opened  # the stubs lack read_at's second argument
        size: int = file.size()
        tail: bytes = file.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
        start = size - END_BYTES - int.from_bytes(tail[-END_BYTES : -len(_MAGIC)], "little")
        if start < len(_MAGIC) or not tail.endswith(_MAGIC):
            raise CorruptBaseFileError(path, None, "no footer", "a readable Parquet file")
        # In the footer, columns and row groups come first; the Bloom filter follows.
        head: bytes = file.read_at(min(size, start + _HEAD_BYTES), 0)
        shorter = without_bloom_filter(head, start, tail, size)
        if shorter is not None or len(head) == size:
            return shorter or head
        rest: bytes = file.read_at(size - len(head), len(head))
        return head + rest
