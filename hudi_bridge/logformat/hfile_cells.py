"""Finds where the cells of an HFile data block begin.

A cell begins where the one before it ends, so they are found one after another. Of a larger block, the ends of all keys
are found first, as writers give every cell the same timestamp and type. Each is taken for that of a cell, which begins
as far before it as keys are long. If each of these cells ends where the next one begins, they are the cells; otherwise,
all are read from the first one on.
"""

import struct

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.logformat.avro_cursors import Ints, windows_at
from hudi_bridge.logformat.hfile_blocks import Block, HFileSource

CELL_LENGTHS_SIZE = 8
CELL_FIELDS = np.dtype([("key length", ">i4"), ("value length", ">i4"), ("row length", ">i2")])
ROW_LENGTH = struct.Struct(">h")
_CELL_LENGTHS = struct.Struct(">ii")
_MVCC_SIZE = 1

_END_OF_KEY = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"
"""No family, ``HConstants.LATEST_TIMESTAMP``, and the type Put: what follows the row in each key that Hudi writes."""
_WORD = np.dtype("<u8")
# Of smaller blocks, walking takes less time.
_LEAST_BYTES = 1 << 14
# Record keys have so many lengths at most, or the cells are walked over.
_MOST_LENGTHS = 16


def cell_starts(data: pa.Buffer, source: HFileSource, block: Block, until: int | None = None) -> Ints:
    """Where the cells of a data block begin; at least those that begin before the position ``until``.

    Raises:
        CorruptTableError: the cells do not fill the block.
    """
    found = _by_ends_of_keys(data) if data.size >= _LEAST_BYTES else None
    return _one_after_another(data, source, block, data.size if until is None else until) if found is None else found


def cell_fields(data: pa.Buffer, starts: Ints) -> tuple[Ints, Ints, Ints]:
    """The lengths of the key, the value and the row of cells that begin at some positions."""
    content = np.frombuffer(memoryview(data), np.uint8)
    fields = windows_at(content, starts, CELL_FIELDS.itemsize).view(CELL_FIELDS)
    key_lengths, value_lengths, row_lengths = (fields[name].astype(np.int64) for name in CELL_FIELDS.names or ())
    return key_lengths, value_lengths, row_lengths


def not_filling(source: HFileSource, block: Block, key_length: int, value_length: int) -> CorruptTableError:
    """The error for a cell that does not fit its block."""
    found = f"a cell with a key of {key_length} and a value of {value_length} bytes"
    return source.corrupt(block.position, found, "cells that fill the data block")


def _by_ends_of_keys(data: pa.Buffer) -> Ints | None:
    """Where all cells begin; None if that is not sure."""
    ends = _ends_of_rows(data)
    if not ends.size:
        return None
    starts, next_starts = np.full(ends.size, -1, np.int64), np.empty(ends.size, np.int64)
    unknown = np.arange(ends.size)
    first_start = 0
    for _ in range(_MOST_LENGTHS):
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
    """Where rows may end: before the bytes that end a key."""
    content = np.frombuffer(memoryview(data), np.uint8)
    last = content.size - len(_END_OF_KEY) + 1
    # Few bytes are 0x7f, and of those few are not it.
    places = np.flatnonzero(content[1 : last + 1] == _END_OF_KEY[1])
    # All ten bytes, as two overlapping words.
    for position in (0, len(_END_OF_KEY) - _WORD.itemsize):
        word = np.frombuffer(_END_OF_KEY, _WORD, 1, position)
        places = places[windows_at(content, places + position, _WORD.itemsize).view(_WORD) == word]
    return places.astype(np.int64)


def _one_after_another(data: pa.Buffer, source: HFileSource, block: Block, until: int) -> Ints:
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
