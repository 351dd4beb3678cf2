"""The blocks of a log file without their contents: a log file is read in parts, as far as headers and footers need it.

The rules are those of ``logformat.scan``, which holds a whole file in memory.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.layout import (
    BLOCK_START,
    COUNT_FIELD,
    HEADER_ENTRY,
    LOG_FORMAT_VERSION,
    MAGIC,
    MIN_BLOCK_SIZE,
    SIZE_FIELD,
    UNCOUNTED_SIZE,
    BlockType,
)
from hudi_bridge.logformat.scan import CorruptBlock, ScanResult
from hudi_bridge.storage import Storage

_PART_BYTES = 1 << 16
_KEPT_BYTES = 8
"""The version of an Avro or delete block, and the number of records of an Avro block."""


def scan_heads(storage: Storage, path: str, size_bytes: int) -> ScanResult:
    """All blocks of a log file, of whose contents only the first bytes are there.

    Raises:
        CorruptLogFileError: the file does not start with a block, or the parts of a block do not add up.
        UnsupportedTableError: a block is of an unknown version or type.
        StorageError: the file cannot be read.
    """
    with storage.open_input(path, size_bytes or None) as file:
        size = file.size()
        parts = _Parts(lambda start, length: storage.read_range(file, path, start, length).to_pybytes(), size)
        return _scan(parts, path)


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
        read = self._read(start, min(max(length, _PART_BYTES), self.size - start))
        self._held = [*self._held[-1:], (start, read)]
        return read[:length]

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


def _scan(parts: _Parts, path: str) -> ScanResult:
    blocks: list[LogBlock] = []
    corrupt: list[CorruptBlock] = []
    offset = 0
    while parts.size - offset >= len(MAGIC):
        magic = parts.at(offset, len(MAGIC))
        if magic != MAGIC:
            raise CorruptLogFileError(path, offset, repr(magic), repr(MAGIC))
        damage = _damage(parts, offset)
        if damage is None:
            block = _head(parts, offset, path)
            blocks.append(block)
            offset += block.size_bytes
            continue
        corrupt.append(CorruptBlock(path=path, offset=offset, reason=damage))
        offset = parts.next_magic(offset + len(MAGIC))
    return ScanResult(blocks=tuple(blocks), corrupt=tuple(corrupt))


def _damage(parts: _Parts, offset: int) -> str | None:
    body = offset + UNCOUNTED_SIZE
    if body > parts.size:
        return "the file ends in the block's size field"
    (size,) = SIZE_FIELD.unpack(parts.at(offset + len(MAGIC), SIZE_FIELD.size))
    end = body + size
    if size < MIN_BLOCK_SIZE:
        return f"size {size} is too small for a block"
    if end > parts.size:
        return f"the block ends at byte {end}, the file at {parts.size}"
    # The end of the block and the next magic in one read.
    tail = parts.at(end - SIZE_FIELD.size, SIZE_FIELD.size + len(MAGIC))
    (trailing,) = SIZE_FIELD.unpack(tail[: SIZE_FIELD.size])
    if trailing != size + len(MAGIC):
        return f"the size field says {size}, the trailing length {trailing}"
    following = tail[SIZE_FIELD.size :]
    if len(following) == len(MAGIC) and following != MAGIC:
        return "neither a block nor the end of the file follows"
    return None


def _head(parts: _Parts, offset: int, path: str) -> LogBlock:
    start = offset + len(MAGIC)
    size, version, type_number, entries = BLOCK_START.unpack(parts.at(start, BLOCK_START.size))
    end = offset + UNCOUNTED_SIZE + size
    if version != LOG_FORMAT_VERSION:
        found = f"{version} in {path} at byte {offset}"
        raise UnsupportedTableError("log format version", found, str(LOG_FORMAT_VERSION))
    supported = {known.value: known for known in BlockType if known is not BlockType.CORRUPT}
    if type_number not in supported:
        names = ", ".join(known.name for known in supported.values())
        raise UnsupportedTableError("log block type", f"{type_number} in {path} at byte {offset}", names)
    header, position = _entries(parts, start + BLOCK_START.size, entries, end, path)
    content_offset = position + SIZE_FIELD.size
    _require(content_offset <= end, position, path)
    (content_length,) = SIZE_FIELD.unpack(parts.at(position, SIZE_FIELD.size))
    footer_offset = content_offset + content_length
    _require(content_length >= 0 and footer_offset + COUNT_FIELD.size <= end, position, path)
    kept = parts.at(content_offset, min(_KEPT_BYTES, content_length))
    (entries,) = COUNT_FIELD.unpack(parts.at(footer_offset, COUNT_FIELD.size))
    footer, position = _entries(parts, footer_offset + COUNT_FIELD.size, entries, end, path)
    _require(position + SIZE_FIELD.size == end, position, path)
    return LogBlock(
        block_type=supported[type_number],
        version=version,
        header=header,
        content=pa.py_buffer(kept),
        footer=footer,
        path=path,
        offset=offset,
        content_offset=content_offset,
        size_bytes=end - offset,
    )


def _entries(parts: _Parts, position: int, count: int, end: int, path: str) -> tuple[Mapping[int, str], int]:
    _require(count >= 0, position, path)
    entries: dict[int, str] = {}
    for _ in range(count):
        _require(position + HEADER_ENTRY.size <= end, position, path)
        key, length = HEADER_ENTRY.unpack(parts.at(position, HEADER_ENTRY.size))
        position += HEADER_ENTRY.size
        _require(0 <= length <= end - position, position, path)
        try:
            entries[key] = parts.at(position, length).decode()
        except UnicodeDecodeError as error:
            found = f"a header entry that is not text: {error.reason}"
            raise CorruptLogFileError(path, position, found, "UTF-8") from error
        position += length
    return MappingProxyType(entries), position


def _require(fits: bool, position: int, path: str) -> None:  # noqa: FBT001 - a condition, not an option
    if not fits:
        raise CorruptLogFileError(path, position, "a length that leaves the log block", "parts that fill the log block")
