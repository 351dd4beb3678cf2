"""Parses the trailer and the blocks of HFiles of version 3, and decompresses blocks up to a limit.

The trailer is the last 4096 bytes: a magic, a Protocol Buffers message after its length, zeros, the version. A block:

    offset  width  meaning
    0       8      magic of the kind of block
    8       4      size on disk without this header, checksums included
    12      4      size of the data before compression
    16      8      offset of the previous block of the kind, or -1
    24      1      checksum type
    25      4      bytes per checksum
    29      4      size on disk of header and data, without checksums
    33      ...    data, then checksums (which Hudi does not verify either)

Source: ``hudi-io/hfile_format.md`` and ``org.apache.hudi.io.hfile``.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import pyarrow as pa

from hudi_bridge.errors import CorruptTableError, UnsupportedTableError

# Hudi's log blocks hold up to 256 MiB (hoodie.logfile.data.block.max.size), however well they compress.
_ALWAYS_ALLOWED_BYTES = 1 << 28
_MAX_RATIO = 64
GZIP = 16 + zlib.MAX_WBITS
RAW_DEFLATE = -zlib.MAX_WBITS
TRAILER_SIZE = 4096
"""The size of the trailer in bytes."""
_TRAILER_MAGIC = b'TRABLK"$'
_MAJOR_VERSION = 3
# The last four bytes of the trailer: one byte of minor version, three of major version.
_MAJOR_VERSION_MASK = 0xFFFFFF
_VERSION = struct.Struct(">i")
_BLOCK_HEADER = struct.Struct(">8siiqbii")
DATA_MAGIC = b"DATABLK*"
# Field numbers of the trailer's message.
_FILE_INFO_OFFSET = 1
_LOAD_ON_OPEN_OFFSET = 2
_DATA_INDEX_COUNT = 5
_ENTRY_COUNT = 7
_INDEX_LEVELS = 8
_FIRST_DATA_OFFSET = 9
_LAST_DATA_OFFSET = 10
_CODEC = 12
# Offsets are signed longs in unsigned fields: an HFile without data has its first block at -1.
_MAX_SIGNED_LONG = (1 << 63) - 1
_UNSIGNED_LONGS = 1 << 64
# Protocol Buffers: the length of the longest varint, and wire types.
_MAX_VARINT_BYTES = 10
_CONTINUATION_BIT = 0x80
_FIXED_WIDTHS = {1: 8, 5: 4}
_VARINT, _BYTES = 0, 2


class Codec(IntEnum):
    """The compression of blocks: HBase's ``Compression.Algorithm``."""

    LZO = 0
    GZ = 1
    NONE = 2
    SNAPPY = 3
    LZ4 = 4
    BZIP2 = 5
    ZSTD = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class HFileTrailer:
    """The trailer of an HFile; offsets count from the HFile's first byte."""

    file_info_offset: int
    load_on_open_offset: int
    data_index_count: int
    entry_count: int
    index_levels: int
    first_data_offset: int
    last_data_offset: int
    codec: Codec


@dataclass(frozen=True, slots=True, kw_only=True)
class HFileSource:
    """The bytes of one HFile that begins at ``offset`` in the file ``path``, or a part of them.

    A part has the ``buffer`` from ``start`` on, of an HFile of ``total_bytes``; by default the buffer is all of it.
    """

    buffer: pa.Buffer
    path: str
    offset: int
    start: int = 0
    total_bytes: int = -1

    @property
    def size_bytes(self) -> int:
        """The size of the whole HFile."""
        return self.buffer.size if self.total_bytes < 0 else self.total_bytes

    def slice(self, start: int, end: int) -> pa.Buffer:
        """The bytes between two positions of the HFile, which must be in the buffer."""
        return self.buffer.slice(start - self.start, end - start)

    def corrupt(self, position: int, actual: str, expected: str) -> CorruptTableError:
        """The error for the bytes at a position of the HFile."""
        return CorruptTableError(self.path, self.offset + position, actual, expected)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of an HFile; its data, maybe compressed, lies between ``data_start`` and ``data_end`` of the HFile."""

    magic: bytes
    position: int
    data_start: int
    data_end: int
    uncompressed_size: int
    next_position: int


def parse_trailer(source: HFileSource) -> HFileTrailer:
    """The trailer of an HFile.

    Raises:
        CorruptTableError: the trailer is missing or cannot be parsed.
        UnsupportedTableError: the version or the compression is not supported.
    """
    size = source.size_bytes
    position = size - TRAILER_SIZE
    if position < source.start:
        raise source.corrupt(0, f"{size} bytes", f"an HFile, whose trailer alone has {TRAILER_SIZE}")
    trailer = source.slice(position, size).to_pybytes()
    if not trailer.startswith(_TRAILER_MAGIC):
        raise source.corrupt(position, repr(trailer[: len(_TRAILER_MAGIC)]), f"the HFile trailer {_TRAILER_MAGIC!r}")
    version = _VERSION.unpack_from(trailer, TRAILER_SIZE - _VERSION.size)[0] & _MAJOR_VERSION_MASK
    if version != _MAJOR_VERSION:
        raise UnsupportedTableError("HFile version", f"{version} in {source.path}", str(_MAJOR_VERSION))
    try:
        fields = dict(iter_fields(parse_delimited(trailer[len(_TRAILER_MAGIC) : -_VERSION.size])))
    except ValueError as error:
        raise source.corrupt(position, str(error), "a Protocol Buffers message") from error

    def number(field: int) -> int:
        value = fields.get(field, 0)
        if not isinstance(value, int):
            raise source.corrupt(position, f"{value!r} as field {field} of the trailer", "a number")
        return value if value <= _MAX_SIGNED_LONG else value - _UNSIGNED_LONGS

    return HFileTrailer(
        file_info_offset=number(_FILE_INFO_OFFSET),
        load_on_open_offset=number(_LOAD_ON_OPEN_OFFSET),
        data_index_count=number(_DATA_INDEX_COUNT),
        entry_count=number(_ENTRY_COUNT),
        index_levels=number(_INDEX_LEVELS),
        first_data_offset=number(_FIRST_DATA_OFFSET),
        last_data_offset=number(_LAST_DATA_OFFSET),
        codec=_codec(number(_CODEC), source),
    )


def _codec(number: int, source: HFileSource) -> Codec:
    codecs = {codec.value: codec for codec in Codec}
    codec = codecs.get(number)
    if codec not in {Codec.NONE, Codec.GZ}:
        name = str(number) if codec is None else codec.name
        raise UnsupportedTableError("HFile compression", f"{name} in {source.path}", "NONE, GZ")
    return codecs[number]


def block_at(source: HFileSource, position: int, magic: bytes | None = None) -> Block:
    """The block whose header is at the position.

    Raises:
        CorruptTableError: the block does not fit into the HFile, or does not have the given ``magic``.
    """
    end = min(source.start + source.buffer.size, source.size_bytes - TRAILER_SIZE)
    if not source.start <= position <= end - _BLOCK_HEADER.size:
        raise source.corrupt(0, f"a block at byte {position}", f"one from byte {source.start} to {end}")
    start = position - source.start
    block_magic, on_disk, uncompressed, _, _, _, with_header = _BLOCK_HEADER.unpack_from(source.buffer, start)
    if magic is not None and block_magic != magic:
        raise source.corrupt(position, repr(block_magic), repr(magic))
    data_start = position + _BLOCK_HEADER.size
    next_position = data_start + on_disk
    if on_disk < 0 or next_position > end or not _BLOCK_HEADER.size <= with_header <= _BLOCK_HEADER.size + on_disk:
        raise source.corrupt(position, f"a block of {on_disk} bytes", f"at most {end - data_start}")
    return Block(
        magic=block_magic,
        position=position,
        data_start=data_start,
        data_end=position + with_header,
        uncompressed_size=uncompressed,
        next_position=next_position,
    )


def block_data(source: HFileSource, block: Block, codec: Codec) -> bytes:
    """The data of a block, decompressed."""
    stored = source.slice(block.data_start, block.data_end)
    if codec is Codec.NONE:
        return stored.to_pybytes()
    size = block.uncompressed_size
    if not 0 <= size <= max_inflated_bytes(source.buffer.size):
        raise source.corrupt(block.position, f"a block of {size} inflated bytes", "a size that fits the HFile")
    try:
        data = inflate(memoryview(stored), GZIP, size)
    except ValueError as error:
        raise source.corrupt(block.data_start, str(error), f"{size} inflated bytes") from error
    if len(data) != size:
        raise source.corrupt(block.data_start, f"{len(data)} bytes", f"{size} inflated bytes")
    return data


def iter_data_blocks(source: HFileSource, trailer: HFileTrailer) -> Iterator[Block]:
    """The data blocks in order, without the index and Bloom blocks between them."""
    if trailer.data_index_count == 0:
        return
    position = trailer.first_data_offset
    while position <= trailer.last_data_offset:
        block = block_at(source, position)
        if block.magic == DATA_MAGIC:
            yield block
        position = block.next_position


def parse_varint(data: bytes, position: int) -> tuple[int, int]:
    """The unsigned varint (little-endian base-128) at the position, and the position after it.

    Raises:
        ValueError: the data ends within the varint, or it is longer than ten bytes.
    """
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << 7 * index
        if byte < _CONTINUATION_BIT:
            return value, position + index + 1
    raise ValueError(f"a varint without an end at byte {position}")


def iter_fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a Protocol Buffers message, in order: number and value, an int for a varint and otherwise bytes.

    Raises:
        ValueError: the data is not a message.
    """
    position = 0
    while position < len(data):
        tag, position = parse_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == _VARINT:
            value, position = parse_varint(data, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            length, position = parse_varint(data, position)
        elif wire_type in _FIXED_WIDTHS:
            length = _FIXED_WIDTHS[wire_type]
        else:
            raise ValueError(f"wire type {wire_type} at byte {position}")
        if length > len(data) - position:
            raise ValueError(f"a field of {length} bytes at byte {position}, {len(data) - position} are left")
        yield number, data[position : position + length]
        position += length


def parse_delimited(data: bytes) -> bytes:
    """The message after its length, a varint; bytes after the message are ignored.

    Raises:
        ValueError: the data ends within the message.
    """
    length, position = parse_varint(data, 0)
    if length > len(data) - position:
        raise ValueError(f"a message of {length} bytes, {len(data) - position} are left")
    return data[position : position + length]


def max_inflated_bytes(compressed_bytes: int) -> int:
    """The most bytes that compressed bytes may inflate to, as a guard against decompression bombs."""
    return max(_ALWAYS_ALLOWED_BYTES, _MAX_RATIO * compressed_bytes)


def inflate(compressed: bytes | memoryview, window_bits: int, limit: int) -> bytes:
    """The decompressed data of one deflate stream, at most ``limit`` bytes.

    Raises:
        ValueError: the bytes are not one complete stream, or decompress to more than the limit.
    """
    stream = zlib.decompressobj(window_bits)
    try:
        # One byte above the limit shows that it is exceeded, without inflating all.
        data = stream.decompress(compressed, limit + 1)
    except zlib.error as error:
        raise ValueError(f"bytes that do not inflate ({error})") from error
    if len(data) > limit:
        raise ValueError(f"a stream of more than {limit} inflated bytes")
    if not stream.eof:
        raise ValueError("a stream without its end")
    return data
