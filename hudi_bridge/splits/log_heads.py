"""The blocks of a log file without their contents: it is read in parts, as far as headers and footers need it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from hudi_bridge.logformat.layout import MAGIC
from hudi_bridge.logformat.native import is_native_name, native_block
from hudi_bridge.logformat.scan import ScanResult, block_before, scan_source
from hudi_bridge.storage import Storage

_PART_BYTES = 1 << 18
"""Has the header of a block of 100,000 records with their positions."""
_BEFORE_BYTES = 64
"""Of the end of a block, its length is looked at first, then the footer before it."""
_KEPT_BYTES = 8
"""The version of an Avro or delete block, and the number of records of an Avro block."""


def scan_heads(storage: Storage, path: str, size_bytes: int) -> ScanResult:
    """All blocks of a log file, of whose contents only the first bytes are there.

    Raises:
        CorruptLogFileError: the file does not start with a block, or the parts of a block do not add up.
        UnsupportedTableError: a block is of an unknown version or type.
        StorageError: the file cannot be read.
    """
    with _opened(storage, path, size_bytes) as parts:
        return _heads(parts, path)


def newest_schema(storage: Storage, path: str) -> str | None:
    """The schema of the last data block of a log file, which is read from its end on; None if there is none.

    Raises like ``scan_heads``. Source: ``HoodieLogFileReader.prev``, ``TableSchemaResolver.readSchemaFromLogFile``.
    """
    with _opened(storage, path) as parts:
        end = parts.size
        if not is_native_name(path):
            while end and (block := block_before(parts, end, path)) is not None:
                if block.is_data and block.schema_text:
                    return block.schema_text
                end = block.offset
            if not end:
                return None
        # It has no such blocks, or is damaged at its end.
        blocks = _heads(parts, path).blocks
        return next((block.schema_text for block in reversed(blocks) if block.is_data and block.schema_text), None)


@contextmanager
def _opened(storage: Storage, path: str, size_bytes: int = 0) -> "Iterator[_Parts]":
    """A context with the bytes of a log file; its size is asked for if it is not given."""
    with storage.open_input(path, size_bytes or None) as file:
        yield _Parts(lambda start, length: storage.read_range(file, path, start, length).to_pybytes(), file.size())


def _heads(parts: "_Parts", path: str) -> ScanResult:
    if is_native_name(path):
        return ScanResult(blocks=(native_block(pa.py_buffer(parts.at(0, parts.size)), path),), corrupt=())
    return scan_source(parts, path)


class _Parts:
    """The bytes of a file; the two parts that were read last are kept: the head of a block and its end."""

    def __init__(self, read: Callable[[int, int], bytes], size: int) -> None:
        self.size = size
        self._read = read
        self._held: list[tuple[int, bytes]] = []

    def at(self, start: int, length: int) -> bytes:
        """The bytes from an offset on, fewer at the end of the file."""
        length = max(0, min(length, self.size - start))
        if not length:
            return b""
        for first, held in self._held:
            if first <= start and start + length <= first + len(held):
                return held[start - first : start - first + length]
        first = max(0, min(start - _BEFORE_BYTES, self.size - _PART_BYTES))
        read = self._read(first, min(max(start - first + length, _PART_BYTES), self.size - first))
        self._held = [*self._held[-1:], (first, read)]
        return read[start - first : start - first + length]

    def content(self, start: int, length: int) -> pa.Buffer:
        """The first bytes of the content of a block."""
        return pa.py_buffer(self.at(start, min(_KEPT_BYTES, length)))

    def next_magic(self, start: int) -> int:
        """Where the next block may begin, the end of the file if nowhere."""
        while start < self.size:
            part = self.at(start, _PART_BYTES)
            place = part.find(MAGIC)
            if place >= 0:
                return start + place
            if start + len(part) >= self.size:
                break
            start += len(part) - len(MAGIC) + 1
        return self.size
