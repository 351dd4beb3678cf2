"""Decodes the Avro records of a log block, column by column, into a RecordBatch in the writer's schema.

The content of an Avro data block (``HoodieAvroDataBlock``), big-endian:

    offset  width    meaning
    0       4        content version, 1 to 3; the layout is the same
    4       4        number of records
    8       4 + len  length of a record, the record as one Avro datum

The bytes of columns that are not requested are still checked.

A length leads to the next one, so they are read one after another. In a large block, many chains of lengths are read at
once, each from a guessed start: a position followed by lengths similar to the first ones. If every chain ends at
the start of the next one, all guesses were right. Otherwise, lengths are read from the first one on.
"""

from array import array
from collections.abc import Collection
from struct import Struct
from struct import error as StructError  # noqa: N812 - the struct module names its error in lower case
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_arrays import nested_array, read_array
from hudi_bridge.logformat.avro_cursors import Cursors, DatumBytes, Ints, step_over
from hudi_bridge.schema.avro_types import AvroRecord, arrow_schema

_LENGTH = Struct(">i")
# With fewer chains, reading the lengths one after another takes less time.
_MIN_CHAINS = 32
_MAX_CHAINS = 1024
_RECORDS_OF_CHAIN = 64
_STEPS_AT_ONCE = 8
# If the longest chain has so many times the average, the array of all chains would take much memory.
_MAX_STEPS_RATIO = 16
_FIRST_RECORDS = 64
# The number of likely lengths in a row that make a start.
_LIKELY_LENGTHS = 8
# Blocks with longer records have few of them, so their lengths are soon read.
_MAX_LIKELY_LENGTH = (1 << 16) - 1


def record_bounds(
    buffer: pa.Buffer | bytes | memoryview, offset: int, count: int, path: str, block_offset: int
) -> tuple[Ints, Ints]:
    """The start and end of each of ``count`` records; the length of the first one is at ``offset``.

    Raises:
        CorruptLogFileError: the records do not end where the buffer does.
    """
    view = memoryview(buffer)
    if not 0 <= count <= (len(view) - offset) // _LENGTH.size:
        raise CorruptLogFileError(path, block_offset, f"a count of {count} records", "records that fit the block")
    length_offsets = _offsets_by_chains(view, offset, count)
    if length_offsets is None:
        length_offsets = _offsets_in_turn(view, offset, count, path, block_offset)
    starts = length_offsets[:-1] + _LENGTH.size
    # A record ends where the length of the next one begins.
    ends = length_offsets[1:]
    negative = ends < starts
    if negative.any():
        actual = f"a negative length for record {negative.argmax()} of {count}"
        raise CorruptLogFileError(path, block_offset, actual, "a length before each record")
    position = int(length_offsets[-1])
    if position != len(view):
        actual = f"{count} records that end at byte {position} of {len(view)}"
        raise CorruptLogFileError(path, block_offset, actual, "records that fill the block")
    return starts, ends


def _offsets_in_turn(view: memoryview, offset: int, count: int, path: str, block_offset: int) -> Ints:
    """The position of each record's length, and of the end of the last record."""
    offsets = array("q", [offset])
    position, unpack, append, width = offset, _LENGTH.unpack_from, offsets.append, _LENGTH.size
    try:
        for _ in range(count):
            (length,) = unpack(view, position)
            position += width + length
            append(position)
    except StructError as error:
        actual = f"no length for record {len(offsets) - 1} of {count}"
        raise CorruptLogFileError(path, block_offset, actual, "a length before each record") from error
    return np.frombuffer(offsets, np.int64)


def _offsets_by_chains(view: memoryview, offset: int, count: int) -> Ints | None:
    """As ``_offsets_in_turn``; None if the guessed starts turn out wrong."""
    if count < _MIN_CHAINS * _RECORDS_OF_CHAIN:
        return None
    first = _first_lengths(view, offset)
    low, high = max(1, min(first, default=0) // 2), max(0, max(first, default=0) * 2)
    chains = min(count // _RECORDS_OF_CHAIN, (len(view) - offset) // (2 * (high + _LENGTH.size)), _MAX_CHAINS)
    if high > _MAX_LIKELY_LENGTH or chains < _MIN_CHAINS:
        return None
    words = _words(view)
    starts = _chain_starts(words, offset, chains, low, high)
    # Each chain ends where the next one starts, and the last one with the block.
    stops = np.append(starts[1:], len(view))
    steps, position = [starts], starts
    max_steps = _MAX_STEPS_RATIO * count // chains
    while (position < stops).any() and len(steps) <= max_steps:
        # Chains continue beyond their ends, which costs less than selecting the others.
        for _ in range(_STEPS_AT_ONCE):
            position = position + words[np.minimum(position, words.size - 1)] + _LENGTH.size
            steps.append(position)
    by_chain = np.stack(steps, axis=1)
    records = (by_chain < stops[:, None]).sum(axis=1)
    if (records == len(steps)).any() or (by_chain[np.arange(starts.size), records] != stops).any():
        return None
    offsets = np.append(by_chain[by_chain < stops[:, None]], len(view))
    return offsets if offsets.size == count + 1 else None


def _first_lengths(view: memoryview, offset: int) -> list[int]:
    lengths: list[int] = []
    position = offset
    while len(lengths) < _FIRST_RECORDS and 0 <= position <= len(view) - _LENGTH.size:
        lengths.append(_LENGTH.unpack_from(view, position)[0])
        position += _LENGTH.size + lengths[-1]
    return lengths


def _words(view: memoryview) -> npt.NDArray[np.uint32]:
    """The unsigned 32-bit numbers at every byte."""
    return np.ndarray((len(view) - _LENGTH.size + 1,), ">u4", view, strides=(1,))


def _chain_starts(words: npt.NDArray[np.uint32], offset: int, chains: int, low: int, high: int) -> Ints:
    """Guessed positions of lengths, up to one in each part of the block; the first is ``offset``.

    Bytes that look like lengths by chance mostly lead to the start of a record after a few steps.
    """
    part = (words.size - offset) // chains
    width = min(high + _LENGTH.size, part - 1)
    data = np.ndarray((words.size,), np.uint8, words.base)
    windows = np.lib.stride_tricks.as_strided(data[offset:], (chains, width + 1), (part, 1))
    # Likely lengths begin with two zeros; few other places do.
    candidates = np.flatnonzero((windows[1:, :-1] | windows[1:, 1:]) == 0)
    chain, index = np.divmod(candidates, width)
    position = offset + (chain + 1) * part + index
    for _ in range(_LIKELY_LENGTHS):
        # At the end of the block, fewer lengths are left.
        lengths = words[np.minimum(position, words.size - 1)].astype(np.int64)
        likely = (position < words.size) & (lengths >= low) & (lengths <= high)
        chain, position = chain[likely], position[likely] + _LENGTH.size + lengths[likely]
    _, firsts = np.unique(chain, return_index=True)
    return np.unique(np.append(offset, position[firsts]))


_CONTENT_HEAD = Struct(">ii")
_CONTENT_VERSIONS = range(1, 4)
_MIN_RECORD_BYTES = 4
"""Each record is preceded by its length."""

# Each field is read in a pass of its own over the records, over as many at a time as fit a CPU cache.
_CACHED_BYTES = 2**23
_MIN_ROWS = 1024


def decode_avro_block(
    content: pa.Buffer | bytes | memoryview,
    writer: AvroRecord,
    columns: Collection[str] | None,
    path: str,
    offset: int,
) -> pa.RecordBatch:
    """The records of an Avro data block.

    Args:
        content: the content of the block.
        writer: the schema of the block.
        columns: the columns to read, in the writer's order; None for all. Unknown columns are ignored.
        path: the log file, for errors.
        offset: the start of the block, for errors.

    Raises:
        CorruptLogFileError: the content is not whole records of the writer's schema.
        UnsupportedTableError: the version or size of the content, or the type of a column, is not supported.
    """
    buffer = pa.py_buffer(content)
    starts, ends = content_bounds(buffer, path, offset)
    return decode_avro_records(buffer, starts, ends, writer, columns, path, offset)


def content_bounds(buffer: pa.Buffer, path: str, offset: int) -> tuple[Ints, Ints]:
    """The start and end of each record in the content of an Avro data block.

    Raises:
        CorruptLogFileError: the records do not fill the content.
        UnsupportedTableError: the version of the content is not supported.
    """
    if buffer.size < _CONTENT_HEAD.size:
        raise CorruptLogFileError(path, offset, f"an Avro block of {buffer.size} bytes", "a version and a count")
    version, count = _CONTENT_HEAD.unpack_from(buffer)
    if version not in _CONTENT_VERSIONS:
        raise UnsupportedTableError("version of Avro log block content", f"{version} in {path}", "1 to 3")
    return record_bounds(buffer, _CONTENT_HEAD.size, count, path, offset)


def stated_records(content: pa.Buffer) -> int:
    """The number of records that the content of an Avro data block states, limited to as many as could fit."""
    if content.size < _CONTENT_HEAD.size:
        return 0
    _, count = _CONTENT_HEAD.unpack_from(content)
    return max(0, min(int(count), content.size // _MIN_RECORD_BYTES))


def decode_avro_records(
    buffer: pa.Buffer | bytes | memoryview,
    starts: Ints,
    ends: Ints,
    writer: AvroRecord,
    columns: Collection[str] | None,
    path: str,
    block_offset: int,
) -> pa.RecordBatch:
    """One row for each of the datums at ``[starts[i], ends[i])``, which ascend and do not overlap.

    ``columns``, ``path`` and ``block_offset`` are as for ``decode_avro_block``.

    Raises:
        CorruptLogFileError: a datum is not exactly one record of the writer's schema.
        UnsupportedTableError: the size of the buffer, or the type of a column, is not supported.
    """
    source = DatumBytes.of(pa.py_buffer(buffer), starts, path, block_offset)
    edges = np.stack([starts, ends], axis=1).ravel()
    if edges.size and (edges[0] < 0 or edges[-1] > source.data.size or (np.diff(edges) < 0).any()):
        raise CorruptLogFileError(path, block_offset, "records that overlap or leave their block", "whole records")
    fields = arrow_schema(writer)
    names = None if columns is None else frozenset(columns)
    schema = pa.schema([field for field in fields if names is None or field.name in names])
    rows = max(_MIN_ROWS, _CACHED_BYTES * starts.size // max(int((ends - starts).sum()), 1))
    parts = []
    for first in range(0, max(starts.size, 1), rows):
        cursors = Cursors(source, starts[first : first + rows], ends[first : first + rows])
        parts.append(_read_rows(writer, schema, cursors))
    # Structs keep their number of rows even without columns.
    return pa.RecordBatch.from_struct_array(parts[0] if len(parts) == 1 else pa.concat_arrays(parts))


def _read_rows(writer: AvroRecord, schema: pa.Schema, cursors: Cursors) -> pa.StructArray:
    """One struct for each cursor, with the fields of ``schema``."""
    names = frozenset(schema.names)
    arrays = []
    for field in writer.fields:
        if field.name in names:
            arrays.append(read_array(field.type, cursors))
        else:
            step_over(field.type, cursors)
    cursors.refuse(cursors.pos != cursors.end, "bytes after the last field", "the end of the record")
    return cast("pa.StructArray", nested_array(pa.struct(list(schema)), len(cursors), [None], arrays))
