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

Then the cursors of all records read one value of each column together, into an Arrow array. Logical types need no
conversion: Arrow stores timestamps, dates and times as the same numbers as Avro.
"""

from array import array
from collections.abc import Callable, Collection, Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812 - the struct module names its error in lower case
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_cursors import (
    Bools,
    Bytes,
    Cursors,
    DatumBytes,
    Ints,
    step_into_items,
    step_over,
)
from hudi_bridge.schema.avro_types import (
    NULL,
    VECTOR,
    AvroArray,
    AvroEnum,
    AvroFixed,
    AvroMap,
    AvroPrimitive,
    AvroRecord,
    AvroType,
    AvroUnion,
    arrow_schema,
    arrow_type,
)

Array: TypeAlias = "pa.Array[Any]"
_TOP_BIT = 0x80
_UNITS_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000}
_STRING = AvroPrimitive(kind="string")
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
_CONTENT_HEAD = Struct(">ii")
_CONTENT_VERSIONS = range(1, 4)
_PIECE_BYTES = 1 << 23
"""How much of a content that is not in memory is read at a time."""
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


def content_bounds(buffer: pa.Buffer, path: str, offset: int) -> tuple[Ints, Ints]:
    """The start and end of each record in the content of an Avro data block.

    Raises:
        CorruptLogFileError: the records do not fill the content.
        UnsupportedTableError: the version of the content is not supported.
    """
    return record_bounds(buffer, _CONTENT_HEAD.size, _count_in_head(buffer, path, offset), path, offset)


def _count_in_head(content: pa.Buffer, path: str, offset: int) -> int:
    if content.size < _CONTENT_HEAD.size:
        raise CorruptLogFileError(path, offset, f"an Avro block of {content.size} bytes", "a version and a count")
    version, count = _CONTENT_HEAD.unpack_from(content)
    if version not in _CONTENT_VERSIONS:
        raise UnsupportedTableError("version of Avro log block content", f"{version} in {path}", "1 to 3")
    return int(count)


def bounds_in_pieces(
    head: pa.Buffer, size_bytes: int, read_into: Callable[[int, memoryview], None], path: str, offset: int
) -> Iterator[tuple[pa.Buffer, Ints, Ints]]:
    """As ``content_bounds``, for a content that is read in pieces of whole records: yields each with its bounds.

    All pieces are in the same memory, one after another: it takes Linux longer to find a page than to fill it. ``head``
    has the first bytes of the content; ``read_into`` fills a buffer from a position on. Errors may come after some
    pieces, and tell no positions: those of ``content_bounds`` do.
    """
    left, position = _count_in_head(head, path, offset), _CONTENT_HEAD.size
    buffer = pa.allocate_buffer(min(_PIECE_BYTES, size_bytes))
    while left > 0 and position < size_bytes:
        view = memoryview(buffer)[: size_bytes - position]
        read_into(position, view)
        offsets = _offsets_in_piece(view)
        if len(offsets) > 1:
            yield buffer, offsets[:-1] + _LENGTH.size, offsets[1:]
            position += int(offsets[-1])
            left -= len(offsets) - 1
        elif buffer.size == size_bytes:
            break
        else:
            buffer = pa.allocate_buffer(min(2 * buffer.size, size_bytes))
    if left or position != size_bytes:
        raise CorruptLogFileError(path, offset, "records that do not fill the block", "records that fill the block")


def _offsets_in_piece(view: memoryview) -> Ints:
    """The position of the length of each record that is whole, and the end of the last one."""
    offsets = _offsets_by_chains(view, 0, None)
    if offsets is not None:
        return offsets[offsets <= len(view)]
    in_turn, position = array("q", [0]), 0
    while position + _LENGTH.size <= len(view):
        (length,) = _LENGTH.unpack_from(view, position)
        position += _LENGTH.size + length
        if length < 0 or position > len(view):
            break
        in_turn.append(position)
    return np.frombuffer(in_turn, np.int64)


def stated_records(content: pa.Buffer, size_bytes: int | None = None) -> int:
    """The number of records that the content of an Avro data block states, limited to as many as could fit.

    ``size_bytes`` is its size, if ``content`` has only its first bytes.
    """
    if content.size < _CONTENT_HEAD.size:
        return 0
    _, count = _CONTENT_HEAD.unpack_from(content)
    return max(0, min(int(count), (size_bytes or content.size) // _MIN_RECORD_BYTES))


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


def _offsets_by_chains(view: memoryview, offset: int, count: int | None) -> Ints | None:
    """As ``_offsets_in_turn``; None if the guessed starts turn out wrong.

    Without a ``count``, the view may end in a record, whose end is then beyond it.
    """
    first = _first_lengths(view, offset)
    low, high = max(1, min(first, default=0) // 2), max(0, max(first, default=0) * 2)
    is_piece = count is None
    if count is None:
        count = len(view) * len(first) // max(1, sum(first) + _LENGTH.size * len(first))
    if count < _MIN_CHAINS * _RECORDS_OF_CHAIN:
        return None
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
    if (records == len(steps)).any():
        return None
    ends = by_chain[np.arange(starts.size), records]
    exact = starts.size - is_piece
    if (ends[:exact] != stops[:exact]).any():
        return None
    offsets = np.append(by_chain[by_chain < stops[:, None]], ends[-1])
    return offsets if is_piece or offsets.size == count + 1 else None


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


def read_array(avro: AvroType, cursors: Cursors) -> Array:
    """One value for each cursor; moves the cursors past it.

    Raises:
        CorruptLogFileError: the bytes are not values of the type.
        UnsupportedTableError: a time of day is before midnight.
    """
    match avro:
        case AvroPrimitive():
            return _PRIMITIVE_READERS[avro.kind](avro, cursors)
        case AvroFixed():
            if avro.logical is not None and avro.logical.name == VECTOR:
                return _vectors(avro, cursors)
            return _from_bytes(avro, cursors, avro.size_bytes)
        case AvroEnum():
            return _enums(avro, cursors)
        case AvroArray():
            return _lists(avro, cursors)
        case AvroMap():
            return _maps(avro, cursors)
        case AvroUnion():
            return _union(avro, cursors)
        case AvroRecord():
            children = [read_array(field.type, cursors) for field in avro.fields]
            return nested_array(arrow_type(avro), len(cursors), [None], children)


def nested_array(arrow: pa.DataType, length: int, buffers: list[pa.Buffer | None], children: list[Array]) -> Array:
    """A struct, list or map array of these children."""
    return pa.Array.from_buffers(arrow, length, buffers, children=children)


def _nulls(_avro: AvroPrimitive, cursors: Cursors) -> Array:
    return pa.nulls(len(cursors))


def _booleans(_avro: AvroPrimitive, cursors: Cursors) -> Array:
    first = cursors.pos
    values = cursors.fixed(1, "a boolean").reshape(-1)
    if values.max(initial=0) > 1:
        raise cursors.source.corrupt(int(first[(values > 1).argmax()]), "a byte that is no boolean", "0 or 1")
    return pa.array(values.astype(np.bool_))


def _integers(avro: AvroPrimitive, cursors: Cursors) -> Array:
    first = cursors.pos
    numbers = cursors.varints(avro.kind)
    arrow = arrow_type(avro)
    low, high = -(2**63), 2**63 - 1
    if pa.types.is_time(arrow):
        low, high = 0, _UNITS_PER_DAY[arrow.unit] - 1
    elif avro.kind == "int":
        low, high = -(2**31), 2**31 - 1
    is_outside = (numbers < low) | (numbers > high)
    if is_outside.any():
        row = int(is_outside.argmax())
        if pa.types.is_time(arrow) and -high <= numbers[row] < low:
            # Flink writes such times for moments before 1970.
            actual = f"{numbers[row]} {arrow.unit} in {cursors.source.path}"
            raise UnsupportedTableError("time of day", actual, f"{low} to {high}")
        raise cursors.source.corrupt(int(first[row]), f"the number {numbers[row]}", f"{arrow}: {low} to {high}")
    values = numbers.astype(np.int32) if avro.kind == "int" else numbers
    return pa.Array.from_buffers(arrow, values.size, [None, arrow_buffer(values)])


def _floats(avro: AvroPrimitive, cursors: Cursors) -> Array:
    arrow = arrow_type(avro)
    values = cursors.fixed(arrow.bit_width // 8, avro.kind)
    return pa.Array.from_buffers(arrow, len(cursors), [None, arrow_buffer(values)])


def _strings(avro: AvroPrimitive, cursors: Cursors) -> Array:
    return _from_bytes(avro, cursors, cursors.lengths(avro.kind))


def _from_bytes(avro: AvroPrimitive | AvroFixed, cursors: Cursors, lengths: Ints | int) -> Array:
    arrow = arrow_type(avro)
    starts = cursors.skip(lengths, f"a value of {arrow}")
    if pa.types.is_decimal(arrow):
        return decimal_array(cursors.source, starts, np.broadcast_to(lengths, starts.shape), arrow)
    read = string_array if pa.types.is_string(arrow) else binary_array
    return read(cursors.source, starts, lengths)


def _vectors(avro: AvroFixed, cursors: Cursors) -> Array:
    """Vectors, stored as little-endian numbers (``VectorConversionUtils``)."""
    values = cursors.fixed(avro.size_bytes, "a vector")
    vectors: Any = arrow_type(avro)
    numbers = pa.Array.from_buffers(vectors.value_type, len(cursors) * vectors.list_size, [None, arrow_buffer(values)])
    return nested_array(vectors, len(cursors), [None], [numbers])


def _enums(avro: AvroEnum, cursors: Cursors) -> Array:
    first = cursors.pos
    symbols = cursors.varints("an enum")
    unknown = (symbols < 0) | (symbols >= len(avro.symbols))
    if unknown.any():
        row = int(unknown.argmax())
        raise cursors.source.corrupt(
            int(first[row]),
            f"symbol {symbols[row]} of {avro.name}",
            f"one of {len(avro.symbols)} symbols",
        )
    return pa.array(avro.symbols, pa.string()).take(symbols)


def _lists(avro: AvroArray, cursors: Cursors) -> Array:
    counts, item_cursors = step_into_items(avro.items, cursors)
    items = read_array(avro.items, item_cursors)
    return nested_array(arrow_type(avro), counts.size, [None, _offsets(counts)], [items])


def _maps(avro: AvroMap, cursors: Cursors) -> Array:
    counts, entry_cursors = step_into_items(avro.entry, cursors)
    children = [read_array(_STRING, entry_cursors), read_array(avro.values, entry_cursors)]
    entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", children[1].type)])
    entries = nested_array(entry, len(entry_cursors), [None], children)
    return nested_array(arrow_type(avro), counts.size, [None, _offsets(counts)], [entries])


def _offsets(counts: Ints) -> pa.Buffer:
    return arrow_buffer(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _union(avro: AvroUnion, cursors: Cursors) -> Array:
    common = cursors.common_number(len(avro.branches) - 1)
    if common is not None and len(avro.members) == 1 and avro.branches[common] != NULL:
        return read_array(avro.branches[common], cursors)
    branches = cursors.branches(len(avro.branches)) if common is None else np.full(len(cursors), common)
    widened = avro.widened
    members = []
    for index, branch in enumerate(avro.branches):
        if branch == NULL:
            continue
        member = AvroPrimitive(kind=branch.kind) if widened and isinstance(branch, AvroPrimitive) else branch
        members.append(_member(member, cursors, branches == index))
    if not members:
        return pa.nulls(len(cursors))
    if len(members) == 1:
        return members[0]
    if widened is not None:
        return pc.coalesce(*[values.cast(arrow_type(widened)) for values in members])
    is_set = np.array([branch != NULL for branch in avro.branches])[branches]
    validity = pa.array(is_set).buffers()[1]
    return nested_array(arrow_type(avro), len(cursors), [validity], members)


def _member(avro: AvroType, cursors: Cursors, mask: Bools) -> Array:
    """The values of one branch of a union; null where ``mask`` is false."""
    number = np.count_nonzero(mask)
    if not number:
        arrow: Any = arrow_type(avro)
        nulls: Array = pa.nulls(mask.size, arrow)
        return nulls
    if number == mask.size:
        return read_array(avro, cursors)
    index = np.flatnonzero(mask)
    moving = cursors.select(index)
    values = read_array(avro, moving)
    cursors.resume(index, moving)
    return values.take(pa.array(np.cumsum(mask) - 1, mask=~mask))


_PRIMITIVE_READERS: dict[str, Callable[[AvroPrimitive, Cursors], Array]] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _integers,
    "long": _integers,
    "float": _floats,
    "double": _floats,
    "bytes": _strings,
    "string": _strings,
}


def arrow_buffer(values: npt.NDArray[Any]) -> pa.Buffer:
    """A buffer that shares the memory of a contiguous array."""
    return pa.py_buffer(values.data)


def binary_array(source: DatumBytes, starts: Ints, lengths: Ints | int) -> Array:
    """A binary array of the byte ranges, which ascend and do not overlap; all may have one length."""
    count = starts.size
    if not count:
        return pa.array([], pa.binary())
    width = lengths if isinstance(lengths, int) else int(lengths[0])
    if isinstance(lengths, int) or (lengths == width).all():
        # Keys and instants mostly have one length, so that whole windows can be copied at once.
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        values = source.windows(starts, width)
        return pa.Array.from_buffers(pa.binary(), count, [None, arrow_buffer(offsets), arrow_buffer(values)])
    # An array over the source whose values alternate between a range and the gap after it; the ranges are taken.
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + lengths
    ranges_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, arrow_buffer(edges), source.buffer])
    return ranges_and_gaps.take(np.arange(0, 2 * count, 2, dtype=np.int32))


def string_array(source: DatumBytes, starts: Ints, lengths: Ints | int) -> Array:
    """A string array of the byte ranges, which ascend and do not overlap; all may have one length.

    Raises:
        CorruptLogFileError: a range is not UTF-8.
    """
    binary = binary_array(source, starts, lengths)
    _, offsets, values = binary.buffers()
    total = lengths * starts.size if isinstance(lengths, int) else int(lengths.sum())
    if values is not None and total and np.frombuffer(memoryview(values), np.uint8, total).max() >= _TOP_BIT:
        try:
            binary.cast(pa.string())
        except pa.ArrowInvalid as error:
            row = next(row for row, value in enumerate(binary) if not _is_utf8(value.as_py()))
            raise source.corrupt(int(starts[row]), "bytes that are not UTF-8", "a string") from error
    # The cast may return a validity bitmap, and Arrow aborts the process if keys of a map have one.
    return pa.Array.from_buffers(pa.string(), len(binary), [None, offsets, values])


def decimal_array(source: DatumBytes, starts: Ints, lengths: Ints, arrow: pa.DataType) -> Array:
    """A decimal array of the byte ranges, which hold unscaled values, big-endian in two's complement.

    Raises:
        CorruptLogFileError: a range is empty, or its number has more digits than the type.
    """
    width = arrow.bit_width // 8
    numbers = np.empty((starts.size, width), np.uint8)
    for length in np.unique(lengths).tolist():
        rows = lengths == length
        numbers[rows] = _sign_extended(source, starts[rows], length, width)
    words = numbers.view(">u8")[:, ::-1].astype(np.uint64)
    decimals = pa.Array.from_buffers(arrow, starts.size, [None, arrow_buffer(words)])
    try:
        decimals.validate(full=True)
    except pa.ArrowInvalid as error:
        row = next(row for row in range(starts.size) if not _is_valid(decimals[row : row + 1]))
        raise source.corrupt(int(starts[row]), "a decimal with too many digits", str(arrow)) from error
    return decimals


def _sign_extended(source: DatumBytes, starts: Ints, length: int, width: int) -> Bytes:
    """The big-endian numbers of ``length`` bytes, extended or cut to ``width`` bytes."""
    if not length:
        raise source.corrupt(int(starts[0]), "a decimal of no bytes", "at least one byte")
    raw = source.windows(starts, length)
    extra = max(length - width, 0)
    sign = np.where(raw[:, extra : extra + 1] < _TOP_BIT, 0, 0xFF).astype(np.uint8)
    is_too_large = (raw[:, :extra] != sign).any(axis=1)
    if is_too_large.any():
        actual = f"a decimal of {length} significant bytes"
        raise source.corrupt(int(starts[is_too_large.argmax()]), actual, f"at most {width} bytes")
    numbers = np.empty((starts.size, width), np.uint8)
    numbers[:, : width - length + extra] = sign
    numbers[:, width - length + extra :] = raw[:, extra:]
    return numbers


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_valid(decimal: Array) -> bool:
    try:
        decimal.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
