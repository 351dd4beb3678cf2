"""Reads Avro values of one type, one per cursor, into an Arrow array.

Logical types need no conversion: Arrow stores timestamps, dates and times as the same numbers as Avro.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.logformat.avro_cursors import Bools, Bytes, Cursors, DatumBytes, Ints, step_into_items
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
    arrow_type,
)

Array: TypeAlias = "pa.Array[Any]"

_TOP_BIT = 0x80
_UNITS_PER_DAY = {"ms": 86_400_000, "us": 86_400_000_000}
_STRING = AvroPrimitive(kind="string")


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
            return _from_bytes(avro, cursors, np.full(len(cursors), avro.size_bytes, np.int64))
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


def _from_bytes(avro: AvroPrimitive | AvroFixed, cursors: Cursors, lengths: Ints) -> Array:
    arrow = arrow_type(avro)
    starts = cursors.skip(lengths, f"a value of {arrow}")
    if pa.types.is_decimal(arrow):
        return decimal_array(cursors.source, starts, lengths, arrow)
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


def binary_array(source: DatumBytes, starts: Ints, lengths: Ints) -> Array:
    """A binary array of the byte ranges, which ascend and do not overlap."""
    count = starts.size
    if not count:
        return pa.array([], pa.binary())
    width = int(lengths[0])
    if (lengths == width).all():
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


def string_array(source: DatumBytes, starts: Ints, lengths: Ints) -> Array:
    """A string array of the byte ranges, which ascend and do not overlap.

    Raises:
        CorruptLogFileError: a range is not UTF-8.
    """
    binary = binary_array(source, starts, lengths)
    _, offsets, values = binary.buffers()
    total = int(lengths.sum())
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
