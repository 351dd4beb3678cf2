"""Parses one block of a log file, as ``HoodieLogFileReader.readBlock`` does.

The layout of a block is described in ``layout``. ``scan`` has checked that the block is complete, so parts that do not
fill it are an error, as in Hudi. The bytes come from memory, or from a file that is read in parts: ``ByteSource``.
"""

import base64
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.kinds import BLOCK_KINDS, AvroRows, BlockKind
from hudi_bridge.logformat.layout import (
    BLOCK_START,
    COUNT_FIELD,
    HEADER_ENTRY,
    LOG_FORMAT_VERSION,
    MAGIC,
    SIZE_FIELD,
    UNCOUNTED_SIZE,
    BlockType,
    CommandType,
    HeaderKey,
)
from hudi_bridge.schema.evolve import StoredAs

# A regular expression searches any buffer in place; ``bytes.find`` would need a copy.
_NEXT_MAGIC = re.compile(re.escape(MAGIC))
_CONTINUATION = 0x80
_MAX_VARINT_BYTES = 9
"""Nine groups of seven bits are all of a number that is not negative."""


class ByteSource(Protocol):
    """The bytes of one file."""

    size: int

    def at(self, start: int, length: int) -> bytes:
        """The bytes at an offset; fewer at the end of the file."""

    def content(self, start: int, length: int) -> pa.Buffer:
        """The content of a block, or as much of it as the source reads."""

    def next_magic(self, start: int) -> int:
        """The offset of the next possible block, or the end of the file."""


class BytesInMemory:
    """A whole file in memory, or mapped; contents of blocks are slices of it."""

    def __init__(self, data: bytes | memoryview | pa.Buffer) -> None:
        self._buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
        self._view = memoryview(self._buffer)
        self.size = len(self._view)

    def at(self, start: int, length: int) -> bytes:
        """The bytes at an offset; fewer at the end of the file."""
        return self._view[start : start + length].tobytes()

    def content(self, start: int, length: int) -> pa.Buffer:
        """The whole content of a block."""
        return self._buffer.slice(start, length)

    def next_magic(self, start: int) -> int:
        """The offset of the next possible block, or the end of the file."""
        match = _NEXT_MAGIC.search(self._view, start)
        return self.size if match is None else match.start()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBlock:
    """A block of a log file.

    ``content`` is a slice of the file's bytes, not a copy. ``header`` and ``footer`` also keep keys that are not in
    ``HeaderKey``. ``offset`` is the position of the magic, ``content_offset`` that position for the content;
    ``size_bytes`` includes the magic. ``native_kind`` is how the block is read if it is a file of its own. With
    ``read_into``, ``content`` has only its first bytes; it fills a buffer with the content from a position on.
    """

    block_type: BlockType
    version: int
    header: Mapping[int, str]
    content: pa.Buffer
    footer: Mapping[int, str]
    path: str
    offset: int
    content_offset: int
    size_bytes: int
    native_kind: BlockKind | None = None
    read_into: Callable[[int, memoryview], None] | None = None

    @property
    def kind(self) -> BlockKind:
        """How the block is read."""
        return self.native_kind or BLOCK_KINDS[self.block_type]

    @property
    def content_bytes(self) -> int:
        """The size of the content, even if ``content`` has only its first bytes."""
        if self.native_kind is not None:
            return self.size_bytes
        footer = sum(HEADER_ENTRY.size + len(text.encode()) for text in self.footer.values())
        return self.offset + self.size_bytes - self.content_offset - COUNT_FIELD.size - footer - SIZE_FIELD.size

    def whole(self) -> "LogBlock":
        """The block with all of its content."""
        if self.read_into is None:
            return self
        content = pa.allocate_buffer(self.content_bytes)
        self.read_into(0, memoryview(content))
        return replace(self, content=content, read_into=None)

    @property
    def is_data(self) -> bool:
        """Whether the block holds rows."""
        return self.kind.rows is not None

    @property
    def stored_as(self) -> StoredAs:
        """The format of the values in a block of rows."""
        if self.kind.rows is None:
            raise ValueError(f"a {self.block_type.name} block has no rows")
        return self.kind.rows.stored_as

    @property
    def holds_records(self) -> bool:
        """Whether the block holds rows or deletes, which are merged."""
        return self.is_data or self.kind.holds_deletes

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block; None in the archived timeline."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def target_instant_time(self) -> str | None:
        """The instant that a rollback block rolls back."""
        return self.header.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema_text(self) -> str | None:
        """The writer's Avro schema, as JSON."""
        return self.header.get(HeaderKey.SCHEMA)

    @property
    def is_partial(self) -> bool:
        """Whether the rows hold only the columns that were updated."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def has_defaults(self) -> bool:
        """Whether missing fields get their defaults, because Avro decodes the rows into the schema of the table.

        Partial updates are decoded into the schema of the block instead (``HoodieDataBlock``).
        """
        return isinstance(self.kind.rows, AvroRows) and not self.is_partial

    @property
    def compacted_block_times(self) -> tuple[str, ...]:
        """The instants whose blocks this block replaces; empty unless a log compaction wrote it."""
        times = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        return () if times is None else tuple(times.split(","))

    @property
    def record_positions(self) -> str | None:
        """The positions, still encoded, of the base file rows that the block's records replace."""
        return self.header.get(HeaderKey.RECORD_POSITIONS)

    @property
    def base_file_instant_of_positions(self) -> str | None:
        """The instant of the base file that ``record_positions`` refer to."""
        return self.header.get(HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)

    @property
    def is_rollback(self) -> bool:
        """Whether the block is the command to roll back ``target_instant_time``."""
        command = self.header.get(HeaderKey.COMMAND_BLOCK_TYPE)
        return self.block_type is BlockType.COMMAND and command == str(CommandType.ROLLBACK.value)


def parse_block(source: ByteSource, offset: int, path: str) -> LogBlock:
    """The block whose magic is at ``offset``; the caller has checked its size field.

    Raises:
        CorruptLogFileError: the parts of the block do not add up to its size.
        UnsupportedTableError: the log format version or the block type is unknown.
    """
    block_type, version, header, position, end = _parse_start(source, offset, path)
    content_offset = position + SIZE_FIELD.size
    _require(content_offset <= end, position, path)
    (content_length,) = SIZE_FIELD.unpack(source.at(position, SIZE_FIELD.size))
    footer_offset = content_offset + content_length
    _require(content_length >= 0 and footer_offset + COUNT_FIELD.size <= end, position, path)
    content = source.content(content_offset, content_length)
    (entries,) = COUNT_FIELD.unpack(source.at(footer_offset, COUNT_FIELD.size))
    footer, position = _parse_entries(source, footer_offset + COUNT_FIELD.size, entries, end, path)
    _require(position + SIZE_FIELD.size == end, position, path)
    return LogBlock(
        block_type=block_type,
        version=version,
        header=header,
        content=content,
        footer=footer,
        path=path,
        offset=offset,
        content_offset=content_offset,
        size_bytes=end - offset,
    )


def schema_at(source: ByteSource, offset: int, path: str) -> str | None:
    """The schema in the header of the block whose magic is at ``offset``; None if it is no data block.

    Nothing behind the header is read or checked. Raises like ``parse_block``.
    """
    block_type, _, header, _, _ = _parse_start(source, offset, path)
    return None if BLOCK_KINDS[block_type].rows is None else header.get(HeaderKey.SCHEMA)


def _parse_start(source: ByteSource, offset: int, path: str) -> tuple[BlockType, int, Mapping[int, str], int, int]:
    """The type, format version and header of a block, and where its header and the block end."""
    start = offset + len(MAGIC)
    size, version, type_number, entries = BLOCK_START.unpack(source.at(start, BLOCK_START.size))
    end = min(offset + UNCOUNTED_SIZE + size, source.size)
    if version != LOG_FORMAT_VERSION:
        raise UnsupportedTableError(
            "log format version", f"{version} in {path} at byte {offset}", str(LOG_FORMAT_VERSION)
        )
    block_type = _block_type(type_number, offset, path)
    header, position = _parse_entries(source, start + BLOCK_START.size, entries, end, path)
    return block_type, version, header, position, end


def parse_record_positions(block: LogBlock, base_instant_time: str, records: int) -> npt.NDArray[np.int64] | None:
    """The row number of each record of the block in the base file of an instant.

    None if the block has no positions, or has them for another base file or another number of records. Writers sort the
    records of a block by position, so the i-th position belongs to the i-th record; native log files have positions in
    the order of their records (``HoodieLogBlock.getRecordPositions``, ``PositionBasedFileGroupRecordBuffer``).

    Raises:
        CorruptLogFileError: the header is neither a bitmap nor a list.
    """
    if block.record_positions is None or block.base_file_instant_of_positions != base_instant_time:
        return None
    positions = positions_of(block)
    return positions if len(positions) == records and (not records or positions.min() >= 0) else None


def positions_of(block: LogBlock) -> npt.NDArray[np.int64]:
    """The row numbers in the header of a block that has them; numbers beyond 63 bits are negative.

    Raises:
        CorruptLogFileError: the header is neither a bitmap nor a list.
    """
    stored = stored_positions(block)
    return stored if isinstance(stored, np.ndarray) else np.asarray(stored.to_array(), np.uint64).view(np.int64)


def stored_positions(block: LogBlock) -> BitMap64 | npt.NDArray[np.int64]:
    """The row numbers in the header of a block that has them, as stored: few bytes of a bitmap may hold many.

    The header is a portable 64-bit Roaring bitmap in Base64; that of a native log file is the number of positions and
    the positions themselves, each in the groups of seven bits of a varint.

    Source: ``LogReaderUtils.decodeRecordPositionsHeader``, ``decodeRecordPositionsLongList``.

    Raises:
        CorruptLogFileError: the header is neither of them.
    """
    expected = "a portable Roaring bitmap" if block.native_kind is None else "a list of varints"
    try:
        data = base64.b64decode(block.record_positions or "", validate=True)
        return BitMap64.deserialize(data) if block.native_kind is None else _listed_positions(data)
    except (ValueError, IndexError, struct.error) as error:
        actual = f"RECORD_POSITIONS that cannot be read: {error}"
        raise CorruptLogFileError(block.path, block.offset, actual, expected) from error


def _listed_positions(data: bytes) -> npt.NDArray[np.int64]:
    (count,) = COUNT_FIELD.unpack_from(data)
    encoded = np.frombuffer(data, np.uint8, offset=COUNT_FIELD.size)
    ends = np.flatnonzero(encoded < _CONTINUATION) + 1
    if count != len(ends) or (ends[-1] if count else 0) != len(encoded):
        raise ValueError(f"{count} positions in {len(encoded)} bytes with {len(ends)} ends")
    starts = np.concatenate(([0], ends[:-1])) if count else ends
    widths = ends - starts
    if count and widths.max() > _MAX_VARINT_BYTES:
        raise ValueError(f"a position of {widths.max()} bytes")
    within = np.arange(len(encoded)) - np.repeat(starts, widths)
    groups = (encoded & (_CONTINUATION - 1)).astype(np.int64) << (7 * within)
    return np.add.reduceat(groups, starts) if count else groups


def _block_type(number: int, offset: int, path: str) -> BlockType:
    supported = {block_type.value: block_type for block_type in BlockType if block_type is not BlockType.CORRUPT}
    if number not in supported:
        names = ", ".join(block_type.name for block_type in supported.values())
        raise UnsupportedTableError("log block type", f"{number} in {path} at byte {offset}", names)
    return supported[number]


def _parse_entries(source: ByteSource, position: int, count: int, end: int, path: str) -> tuple[Mapping[int, str], int]:
    _require(count >= 0, position, path)
    entries: dict[int, str] = {}
    for _ in range(count):
        _require(position + HEADER_ENTRY.size <= end, position, path)
        key, length = HEADER_ENTRY.unpack(source.at(position, HEADER_ENTRY.size))
        position += HEADER_ENTRY.size
        _require(0 <= length <= end - position, position, path)
        try:
            entries[key] = source.at(position, length).decode()
        except UnicodeDecodeError as error:
            raise CorruptLogFileError(
                path, position, f"a header entry that is not text: {error.reason}", "UTF-8"
            ) from error
        position += length
    return MappingProxyType(entries), position


def _require(fits: bool, position: int, path: str) -> None:  # noqa: FBT001 - a condition, not an option
    if not fits:
        raise CorruptLogFileError(path, position, "a length that leaves the log block", "parts that fill the log block")
