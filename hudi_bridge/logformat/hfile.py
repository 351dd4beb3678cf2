"""Reads HFiles, from the metadata table and HFile data blocks: their keys, and the bounds of their values.

    data block   cells: 4-byte key length, 4-byte value length, key, value, 1 byte of MVCC version
    key          2-byte row length, row (record key), 1-byte family length, 8 bytes of timestamp, 1 byte of type
    value        the Avro datum of the record, with its key field empty
    index block  entries: 8-byte block offset, 4-byte block size, VInt length, key of a cell or name of a meta block
    file info    ``PBUF`` and a Protocol Buffers message of name-value pairs

The root index begins at the trailer's "load on open" offset; the meta index follows.

A cell begins where the previous one ends, so cells are read one after another. In a larger block, the ends of all keys
are searched first, because writers give every cell the same timestamp and type. From each, the start of its cell is
guessed by the few lengths that keys have. If every guessed cell ends at the start of the next one, all guesses were
right.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.logformat.avro_cursors import Ints, windows_at
from hudi_bridge.logformat.hfile_blocks import (
    Block,
    Codec,
    HFileSource,
    HFileTrailer,
    block_at,
    block_data,
    iter_data_blocks,
    iter_fields,
    max_inflated_bytes,
    parse_delimited,
    parse_trailer,
)

CELL_LENGTHS_SIZE = 8
CELL_FIELDS = np.dtype([("key length", ">i4"), ("value length", ">i4"), ("row length", ">i2")])
ROW_LENGTH = struct.Struct(">h")
_CELL_LENGTHS = struct.Struct(">ii")
_MVCC_SIZE = 1
_END_OF_KEY = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""No family, ``HConstants.LATEST_TIMESTAMP``, and the type Put: the bytes after the row in each
key that Hudi writes.
"""
_WORD = np.dtype("<u8")
# In smaller blocks, reading cells one after another takes less time.
_MIN_GUESSED_BYTES = 1 << 14
# With more lengths of record keys, cells are read one after another.
_MAX_KEY_LENGTHS = 16
_NO_CELLS = np.empty(0, np.int64)
_ROOT_INDEX_MAGIC = b"IDXROOT2"
_LOWER_INDEX_MAGICS = (b"IDXINTE2", b"IDXLEAF2")
_COUNT = struct.Struct(">i")
_FILE_INFO_MAGIC = b"FILEINF2"
_FILE_INFO_PREFIX = b"PBUF"
_INDEX_ENTRY = struct.Struct(">qi")
_MAX_ROW_BYTES = (1 << 15) - 1
# The first byte of a VInt, as a signed number, is the value itself from this number on,
_MIN_VINT_VALUE = -112
# and the number of bytes of a positive value that follow from this number on.
_MIN_POSITIVE_VINT = -120


def cell_starts(data: pa.Buffer, source: HFileSource, block: Block, until: int | None = None) -> Ints:
    """The starts of the cells of a data block; at least of the cells before the position ``until``.

    Raises:
        CorruptTableError: the cells do not fill the block.
    """
    starts = _by_ends_of_keys(data) if data.size >= _MIN_GUESSED_BYTES else None
    return _in_turn(data, source, block, data.size if until is None else until) if starts is None else starts


def cell_fields(data: pa.Buffer, starts: Ints) -> tuple[Ints, Ints, Ints]:
    """The lengths of the key, the value and the row of the cells at some positions."""
    content = np.frombuffer(memoryview(data), np.uint8)
    fields = windows_at(content, starts, CELL_FIELDS.itemsize).view(CELL_FIELDS)
    key_lengths, value_lengths, row_lengths = (fields[name].astype(np.int64) for name in CELL_FIELDS.names or ())
    return key_lengths, value_lengths, row_lengths


def not_filling(source: HFileSource, block: Block, key_length: int, value_length: int) -> CorruptTableError:
    """The error for a cell that does not fit its block."""
    actual = f"a cell with a key of {key_length} and a value of {value_length} bytes"
    return source.corrupt(block.position, actual, "cells that fill the data block")


def _by_ends_of_keys(data: pa.Buffer) -> Ints | None:
    """The starts of all cells; None if a guess is wrong."""
    ends = _ends_of_rows(data)
    if not ends.size:
        return None
    starts, next_starts = np.full(ends.size, -1, np.int64), np.empty(ends.size, np.int64)
    unknown = np.arange(ends.size)
    first_start = 0
    for _ in range(_MAX_KEY_LENGTHS):
        row_length = int(ends[unknown[0]]) - first_start - CELL_FIELDS.itemsize
        guessed = ends[unknown] - row_length - CELL_FIELDS.itemsize
        if row_length < 0:
            return None
        inside = guessed >= 0
        key_lengths, value_lengths, row_lengths = cell_fields(data, np.where(inside, guessed, 0))
        fits = inside & (row_lengths == row_length) & (value_lengths >= 0)
        fits &= key_lengths == ROW_LENGTH.size + row_length + len(_END_OF_KEY)
        starts[unknown[fits]] = guessed[fits]
        next_starts[unknown[fits]] = ends[unknown[fits]] + len(_END_OF_KEY) + value_lengths[fits] + _MVCC_SIZE
        unknown = unknown[~fits]
        if not unknown.size:
            break
        if starts[unknown[0] - 1] < 0:
            return None
        first_start = int(next_starts[unknown[0] - 1])
    is_tiled = not unknown.size and starts[0] == 0 and next_starts[-1] == data.size
    return starts if is_tiled and np.array_equal(starts[1:], next_starts[:-1]) else None


def _ends_of_rows(data: pa.Buffer) -> Ints:
    """Positions at which a row may end, because the bytes that end a key follow."""
    content = np.frombuffer(memoryview(data), np.uint8)
    last = content.size - len(_END_OF_KEY) + 1
    # Few bytes are 0x7f, and most of these are in the end of a key.
    positions = np.flatnonzero(content[1 : last + 1] == _END_OF_KEY[1])
    # Compares all ten bytes as two overlapping words.
    for offset in (0, len(_END_OF_KEY) - _WORD.itemsize):
        word = np.frombuffer(_END_OF_KEY, _WORD, 1, offset)
        positions = positions[windows_at(content, positions + offset, _WORD.itemsize).view(_WORD) == word]
    return positions.astype(np.int64)


def _in_turn(data: pa.Buffer, source: HFileSource, block: Block, until: int) -> Ints:
    view, end, position = memoryview(data), data.size, 0
    unpack, least = _CELL_LENGTHS.unpack_from, CELL_FIELDS.itemsize
    positions: list[int] = []
    while position < until:
        if end - position < least:
            raise source.corrupt(block.position, f"{end - position} bytes after the last cell", "a cell")
        key_length, value_length = unpack(view, position)
        positions.append(position)
        position += CELL_LENGTHS_SIZE + key_length + value_length + _MVCC_SIZE
        if key_length < ROW_LENGTH.size or value_length < 0 or position > end:
            raise not_filling(source, block, key_length, value_length)
    return np.array(positions, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class HFileCells:
    """Cells in key order; value ``i`` is ``values[value_starts[i]:value_ends[i]]``.

    Without compression, ``values`` is the buffer that was read, not a copy.
    """

    keys: pa.StringArray
    values: pa.Buffer
    value_starts: npt.NDArray[np.int64]
    value_ends: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class HFile(HFileCells):
    """All cells of an HFile, and its file info."""

    file_info: Mapping[str, bytes]


def read_hfile(data: bytes | memoryview | pa.Buffer, path: str, offset: int = 0) -> HFile:
    """All cells of an HFile that begins at ``offset`` in the file ``path``, which are for errors.

    Raises:
        CorruptTableError: the bytes are not an HFile, or its parts do not agree.
        UnsupportedTableError: the version or the compression is not supported.
    """
    source = HFileSource(buffer=data if isinstance(data, pa.Buffer) else pa.py_buffer(data), path=path, offset=offset)
    trailer = parse_trailer(source)
    file_info = read_file_info(source, trailer)
    cells = read_cells(source, trailer, iter_data_blocks(source, trailer))
    if len(cells.keys) != trailer.entry_count:
        raise source.corrupt(0, f"{len(cells.keys)} entries", f"{trailer.entry_count}, as the trailer says")
    return HFile(
        keys=cells.keys,
        values=cells.values,
        value_starts=cells.value_starts,
        value_ends=cells.value_ends,
        file_info=file_info,
    )


def read_cells(source: HFileSource, trailer: HFileTrailer, data_blocks: Iterable[Block]) -> HFileCells:
    """The cells of some data blocks of the source, in the order of the blocks.

    Raises:
        CorruptTableError: the cells do not fill the blocks, or a key is not text.
    """
    cells_of_blocks: list[HFileCells] = []
    if trailer.codec is Codec.NONE:
        values = source.buffer
        for block in data_blocks:
            data = source.slice(block.data_start, block.data_end)
            cells_of_blocks.append(_all_cells(data, source, block, block.data_start - source.start))
    else:
        blocks = list(data_blocks)
        stated_bytes = sum(max(block.uncompressed_size, 0) for block in blocks)
        limit = max_inflated_bytes(source.buffer.size)
        if stated_bytes > limit:
            raise source.corrupt(
                0, f"blocks of {stated_bytes} inflated bytes", f"up to {limit} from {source.buffer.size}"
            )
        contents: list[bytes] = []
        start = 0
        for block in blocks:
            content = block_data(source, block, trailer.codec)
            cells_of_blocks.append(_all_cells(pa.py_buffer(content), source, block, start))
            contents.append(content)
            start += len(content)
        values = pa.py_buffer(b"".join(contents))
    return HFileCells(
        keys=pa.concat_arrays([pa.array([], pa.string()), *(cells.keys for cells in cells_of_blocks)]),
        values=values,
        value_starts=np.concatenate([_NO_CELLS, *(cells.value_starts for cells in cells_of_blocks)]),
        value_ends=np.concatenate([_NO_CELLS, *(cells.value_ends for cells in cells_of_blocks)]),
    )


def find_cells(source: HFileSource, trailer: HFileTrailer, block: Block, keys: Iterable[bytes]) -> HFileCells:
    """The cells of a data block that have one of some keys, in the order of the block; raises as ``read_cells`` does.

    This is for few keys: their bytes are searched first, and cells are read only up to the last match.
    """
    data = block_data(source, block, trailer.codec)
    rows = {ROW_LENGTH.pack(len(key)) + key for key in keys if len(key) <= _MAX_ROW_BYTES}
    positions = np.array(sorted(position for row in rows for position in _occurrences(data, row)), np.int64)
    buffer = pa.py_buffer(data)
    starts_with_keys = _NO_CELLS
    if positions.size:
        starts = cell_starts(buffer, source, block, int(positions[-1]))
        starts_with_keys = _intersection(starts, positions - CELL_LENGTHS_SIZE)
    return _cells_at(starts_with_keys, buffer, source, block, 0)


def _intersection(starts: Ints, candidates: Ints) -> Ints:
    """The candidates that are in ``starts``; both are sorted."""
    if not starts.size:
        return starts
    found_starts: Ints = candidates[starts[np.searchsorted(starts, candidates, side="right") - 1] == candidates]
    return found_starts


def _occurrences(data: bytes, text: bytes) -> Iterator[int]:
    position = data.find(text)
    while position >= 0:
        yield position
        position = data.find(text, position + 1)


def _all_cells(data: pa.Buffer, source: HFileSource, block: Block, shift: int) -> HFileCells:
    return _cells_at(cell_starts(data, source, block), data, source, block, shift)


def _cells_at(starts: Ints, data: pa.Buffer, source: HFileSource, block: Block, shift: int) -> HFileCells:
    """The cells at some positions of a block's data; value bounds are increased by ``shift``."""
    key_lengths, value_lengths, row_lengths = cell_fields(data, starts)
    rows, values = starts + CELL_FIELDS.itemsize, starts + CELL_LENGTHS_SIZE + key_lengths
    wrong = np.flatnonzero((row_lengths < 0) | (rows + row_lengths > values))
    if wrong.size:
        raise not_filling(source, block, int(key_lengths[wrong[0]]), int(value_lengths[wrong[0]]))
    return HFileCells(
        keys=_key_array(data, rows, row_lengths, source),
        values=data,
        value_starts=values + shift,
        value_ends=values + value_lengths + shift,
    )


def _key_array(
    data: pa.Buffer, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], source: HFileSource
) -> pa.StringArray:
    if not starts.size:
        return pa.array([], pa.string())
    # An array that alternates between keys and the gaps after them; the keys are taken.
    edges = np.empty(2 * starts.size, np.int32)
    edges[0::2], edges[1::2] = starts, starts + lengths
    keys_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * starts.size - 1, [None, pa.py_buffer(edges.data), data])
    try:
        keys: pa.StringArray = keys_and_gaps.take(np.arange(0, 2 * starts.size, 2)).cast(pa.string())  # type: ignore[assignment]
    except pa.ArrowInvalid as error:
        raise source.corrupt(0, f"a key that is not text ({error})", "UTF-8") from error
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """An entry of an index: a block, and a key that is greater than all keys before the block and not above its first
    one.

    In the meta index, ``key`` is the name of the block.
    """

    key: bytes
    offset: int
    size_bytes: int


def read_root_index(source: HFileSource, trailer: HFileTrailer) -> tuple[IndexEntry, ...]:
    """The root index, in key order; it lists the data blocks if the file has one index level."""
    block = block_at(source, trailer.load_on_open_offset, _ROOT_INDEX_MAGIC)
    entries = _index_entries(block_data(source, block, trailer.codec), trailer.data_index_count, source, block.position)
    return _with_row_keys(entries, source, block.position)


def read_lower_index(source: HFileSource, trailer: HFileTrailer, position: int) -> tuple[IndexEntry, ...]:
    """The intermediate or leaf index block at a position, in key order.

    Unlike the root index, it has the number of its entries, the offset of each from the first, and the end of the last;
    the entries have no lengths.
    """
    block = block_at(source, position)
    if block.magic not in _LOWER_INDEX_MAGICS:
        raise source.corrupt(position, repr(block.magic), " or ".join(map(repr, _LOWER_INDEX_MAGICS)))
    data = block_data(source, block, trailer.codec)
    count = int.from_bytes(data[: _COUNT.size], signed=True)
    first = _COUNT.size * (count + 2)
    if not count >= 0 or first > len(data):
        raise source.corrupt(position, f"{count} index entries", f"as many as fit {len(data)} bytes")
    offsets = [offset for (offset,) in _COUNT.iter_unpack(data[_COUNT.size : first])]
    entries = []
    for start, end in pairwise(offsets):
        if not 0 <= start <= end - _INDEX_ENTRY.size or first + end > len(data):
            raise source.corrupt(position, f"an index entry from {start} to {end}", "entries that fit the index block")
        offset, size = _INDEX_ENTRY.unpack_from(data, first + start)
        key = data[first + start + _INDEX_ENTRY.size : first + end]
        entries.append(IndexEntry(key=key, offset=offset, size_bytes=size))
    return _with_row_keys(entries, source, position)


def _with_row_keys(entries: Iterable[IndexEntry], source: HFileSource, position: int) -> tuple[IndexEntry, ...]:
    return tuple(
        IndexEntry(key=_row_key(entry.key, source, position), offset=entry.offset, size_bytes=entry.size_bytes)
        for entry in entries
    )


def read_file_info(source: HFileSource, trailer: HFileTrailer) -> Mapping[str, bytes]:
    """The key-value pairs of the writer, such as ``schema``, ``minRecordKey`` and ``maxRecordKey``."""
    block = block_at(source, trailer.file_info_offset, _FILE_INFO_MAGIC)
    data = block_data(source, block, trailer.codec)
    if not data.startswith(_FILE_INFO_PREFIX):
        raise source.corrupt(block.data_start, repr(data[: len(_FILE_INFO_PREFIX)]), repr(_FILE_INFO_PREFIX))
    info: dict[str, bytes] = {}
    try:
        for number, entry in iter_fields(parse_delimited(data[len(_FILE_INFO_PREFIX) :])):
            if number == 1 and isinstance(entry, bytes):
                pair = {field: value for field, value in iter_fields(entry) if isinstance(value, bytes)}
                info[pair.get(1, b"").decode()] = pair.get(2, b"")
    except ValueError as error:
        raise source.corrupt(block.data_start, str(error), "file info as a Protocol Buffers message") from error
    return MappingProxyType(info)


def _index_entries(data: bytes, count: int, source: HFileSource, position: int) -> tuple[IndexEntry, ...]:
    if count < 0:
        raise source.corrupt(position, f"{count} index entries", "0 or more")
    entries: list[IndexEntry] = []
    entry_end = 0
    for _ in range(count):
        entry_start = entry_end
        key_start = entry_start + _INDEX_ENTRY.size
        if key_start >= len(data):
            raise source.corrupt(position, f"{len(entries)} index entries", str(count))
        offset, size = _INDEX_ENTRY.unpack_from(data, entry_start)
        length, key_start = _parse_vint(data, key_start)
        entry_end = key_start + length
        if length < 0 or entry_end > len(data):
            raise source.corrupt(position, f"an index key of {length} bytes", "keys that fit the index block")
        entries.append(IndexEntry(key=data[key_start:entry_end], offset=offset, size_bytes=size))
    return tuple(entries)


def _parse_vint(data: bytes, position: int) -> tuple[int, int]:
    """A number written by Hadoop's ``WritableUtils.writeVInt``, -1 for any negative one, and the position after it."""
    first = int.from_bytes(data[position : position + 1], signed=True)
    if first >= _MIN_VINT_VALUE:
        return first, position + 1
    if first < _MIN_POSITIVE_VINT:
        return -1, position + 1
    end = position + 1 + _MIN_VINT_VALUE - first
    return int.from_bytes(data[position + 1 : end], "big"), end


def _row_key(key: bytes, source: HFileSource, position: int) -> bytes:
    if len(key) < ROW_LENGTH.size:
        raise source.corrupt(position, f"an index key of {len(key)} bytes", "a key with a row")
    (length,) = ROW_LENGTH.unpack_from(key)
    return key[ROW_LENGTH.size : ROW_LENGTH.size + max(length, 0)]
