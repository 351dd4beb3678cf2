"""Reads small Parquet base files: each is read at once, and decoded from memory.

Hudi keeps a bloom filter of several hundred kilobytes in each footer, which would be most of what a small file costs.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.logformat.parquet import footer_mismatch
from hudi_bridge.storage import Storage

_MAGIC = b"PAR1"
_LENGTH_BYTES = 4
# A KeyValue in Thrift's compact protocol: a field with the key, its length before it, and a field with the value, which
# begins with its length.
_BLOOM_FILTER = b"\x18\x1borg.apache.hudi.bloomfilter\x18"
_CONTINUATION_BIT = 0x80
_MAX_LENGTH_BYTES = 5


class SmallBaseFile:
    """A base file in memory."""

    def __init__(self, storage: Storage, path: str) -> None:
        """Reads the file.

        Raises:
            CorruptBaseFileError: the file has no footer, or one whose parts do not agree.
            FileNotFoundError: there is no such file.
            PARQUET_ERRORS: the footer cannot be decoded.
            StorageError: the file cannot be read.
        """
        self._path = path
        self._file = pq.ParquetFile(
            pa.BufferReader(_without_bloom_filter(storage.read_buffer(path), path)),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        )
        self._footer = self._file.metadata
        if wrong := footer_mismatch(self._footer):
            raise CorruptBaseFileError(path, None, *wrong)
        groups = map(self._footer.row_group, range(self._footer.num_row_groups))
        self.size_bytes = sum(group.total_byte_size for group in groups)
        """The bytes of all columns, decompressed."""
        self.footer_bytes: int = self._footer.serialized_size
        self.num_rows = self._footer.num_rows
        self.arrow_schema: pa.Schema = self._file.schema_arrow.remove_metadata()

    def batches(self, columns: Sequence[str]) -> list[pa.RecordBatch]:
        """The rows with some of the top-level columns, as stored.

        Raises:
            CorruptBaseFileError: the number of rows is not that of the footer.
            PARQUET_ERRORS: the data cannot be decoded.
        """
        found = list(self._file.iter_batches(max(1, self.num_rows), columns=list(columns), use_threads=False))
        rows = sum(batch.num_rows for batch in found)
        # A damaged page may end a column early without an error.
        if rows != self.num_rows:
            raise CorruptBaseFileError(self._path, None, f"{rows} rows", f"{self.num_rows}, as the footer says")
        return found


def _without_bloom_filter(content: pa.Buffer, path: str) -> pa.Buffer:
    """The same Parquet file with an empty bloom filter; as it is if there is not exactly one."""
    view = memoryview(content)
    end = len(view) - _LENGTH_BYTES - len(_MAGIC)
    length = int.from_bytes(view[max(0, end) : end + _LENGTH_BYTES], "little")
    start = end - length
    if start < len(_MAGIC) or view[-len(_MAGIC) :] != _MAGIC:
        raise CorruptBaseFileError(path, None, "no footer", "a readable Parquet file")
    footer = bytes(view[start:end])
    value = footer.find(_BLOOM_FILTER) + len(_BLOOM_FILTER)
    if value < len(_BLOOM_FILTER) or footer.find(_BLOOM_FILTER, value) >= 0:
        return content
    after = _end_of_text(footer, value)
    if after > len(footer):
        return content
    shorter = footer[:value] + b"\0" + footer[after:]
    ending = (shorter, len(shorter).to_bytes(_LENGTH_BYTES, "little"), _MAGIC)
    return pa.py_buffer(b"".join((view[:start], *ending)))


def _end_of_text(footer: bytes, position: int) -> int:
    """Where a text ends that begins with its length, as a varint."""
    length = shift = 0
    for byte in footer[position : position + _MAX_LENGTH_BYTES]:
        length |= (byte & ~_CONTINUATION_BIT) << shift
        position, shift = position + 1, shift + 7
        if byte < _CONTINUATION_BIT:
            break
    return position + length
