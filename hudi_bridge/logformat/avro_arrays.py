"""Cursors in front of a value of one Avro type -> the Arrow array of those values.

Every value on the wire takes one of a few forms; the Arrow type then says what its bits mean, so that
timestamps, dates and times are their numbers as they stand.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.logformat.avro_cursors import Bools, Bytes, Cursors, DatumBytes, Ints
from hudi_bridge.logformat.avro_items import step_into_items
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
_PARTS_OF_A_DAY = {"ms": 86_400_000, "us": 86_400_000_000}
_STRING = AvroPrimitive(kind="string")


def read_array(avro: AvroType, cursors: Cursors) -> Array:
    """One value for each cursor; moves the cursors past it.

    Raises:
        CorruptLogFileError: the bytes are not values of the type.
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
        low, high = 0, _PARTS_OF_A_DAY[arrow.unit] - 1
    elif avro.kind == "int":
        low, high = -(2**31), 2**31 - 1
    beyond = (numbers < low) | (numbers > high)
    if beyond.any():
        place = int(beyond.argmax())
        raise cursors.source.corrupt(int(first[place]), f"the number {numbers[place]}", f"{arrow}: {low} to {high}")
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
    """Little-endian numbers side by side (``VectorConversionUtils``)."""
    values = cursors.fixed(avro.size_bytes, "a vector")
    vectors: Any = arrow_type(avro)
    numbers = pa.Array.from_buffers(vectors.value_type, len(cursors) * vectors.list_size, [None, arrow_buffer(values)])
    return nested_array(vectors, len(cursors), [None], [numbers])


def _enums(avro: AvroEnum, cursors: Cursors) -> Array:
    first = cursors.pos
    symbols = cursors.varints("an enum")
    unknown = (symbols < 0) | (symbols >= len(avro.symbols))
    if unknown.any():
        place = int(unknown.argmax())
        raise cursors.source.corrupt(
            int(first[place]),
            f"symbol {symbols[place]} of {avro.name}",
            f"one of {len(avro.symbols)} symbols",
        )
    return pa.array(avro.symbols, pa.string()).take(symbols)


def _lists(avro: AvroArray, cursors: Cursors) -> Array:
    counts, at_items = step_into_items(avro.items, cursors)
    items = read_array(avro.items, at_items)
    return nested_array(arrow_type(avro), counts.size, [None, _offsets(counts)], [items])


def _maps(avro: AvroMap, cursors: Cursors) -> Array:
    counts, at_entries = step_into_items(avro.entry, cursors)
    children = [read_array(_STRING, at_entries), read_array(avro.values, at_entries)]
    entry = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", children[1].type)])
    entries = nested_array(entry, len(at_entries), [None], children)
    return nested_array(arrow_type(avro), counts.size, [None, _offsets(counts)], [entries])


def _offsets(counts: Ints) -> pa.Buffer:
    return arrow_buffer(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def _union(avro: AvroUnion, cursors: Cursors) -> Array:
    branches = cursors.branches(len(avro.branches))
    widened = avro.widened
    members = []
    for place, branch in enumerate(avro.branches):
        if branch == NULL:
            continue
        wire = AvroPrimitive(kind=branch.kind) if widened and isinstance(branch, AvroPrimitive) else branch
        members.append(_member(wire, cursors, branches == place))
    if not members:
        return pa.nulls(len(cursors))
    if len(members) == 1:
        return members[0]
    if widened is not None:
        return pc.coalesce(*[member.cast(arrow_type(widened)) for member in members])
    chosen = np.array([branch != NULL for branch in avro.branches])[branches]
    validity = pa.array(chosen).buffers()[1]
    return nested_array(arrow_type(avro), len(cursors), [validity], members)


def _member(avro: AvroType, cursors: Cursors, chosen: Bools) -> Array:
    """The values of one branch of a union, null where another branch was chosen."""
    if chosen.all():
        return read_array(avro, cursors)
    index = np.flatnonzero(chosen)
    moving = cursors.select(index)
    values = read_array(avro, moving)
    cursors.resume(index, moving)
    return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen))


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
    """The memory of a contiguous array, not a copy."""
    return pa.py_buffer(values.data)


def binary_array(source: DatumBytes, starts: Ints, lengths: Ints) -> Array:
    """A binary array of the spans, which ascend and do not overlap."""
    count = starts.size
    if not count:
        return pa.array([], pa.binary())
    width = int(lengths[0])
    if (lengths == width).all():
        # Keys and instants of one length are the rule: whole windows are copied at once.
        offsets = np.arange(count + 1, dtype=np.int32) * np.int32(width)
        values = source.windows(starts, width)
        return pa.Array.from_buffers(pa.binary(), count, [None, arrow_buffer(offsets), arrow_buffer(values)])
    # The source itself holds the values of an array of spans and gaps; every second value is a span.
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = starts
    edges[1::2] = starts + lengths
    spans_and_gaps = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, arrow_buffer(edges), source.buffer])
    return spans_and_gaps.take(np.arange(0, 2 * count, 2, dtype=np.int32))


def string_array(source: DatumBytes, starts: Ints, lengths: Ints) -> Array:
    """A string array of the spans.

    Raises:
        CorruptLogFileError: a span is not UTF-8.
    """
    binary = binary_array(source, starts, lengths)
    _, offsets, values = binary.buffers()
    total = int(lengths.sum())
    if values is None or not total or np.frombuffer(memoryview(values), np.uint8, total).max() < _TOP_BIT:
        return pa.Array.from_buffers(pa.string(), len(binary), [None, offsets, values])
    try:
        return binary.cast(pa.string())
    except pa.ArrowInvalid as error:
        place = next(place for place, value in enumerate(binary) if not _is_utf8(value.as_py()))
        raise source.corrupt(int(starts[place]), "bytes that are not UTF-8", "a string") from error


def decimal_array(source: DatumBytes, starts: Ints, lengths: Ints, arrow: pa.DataType) -> Array:
    """An array of the decimals whose unscaled values the spans hold, big-endian in two's complement.

    Raises:
        CorruptLogFileError: a span is empty, or its number has more digits than the type.
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
        place = next(place for place in range(starts.size) if not _is_valid(decimals[place : place + 1]))
        raise source.corrupt(int(starts[place]), "a decimal with too many digits", str(arrow)) from error
    return decimals


def _sign_extended(source: DatumBytes, starts: Ints, length: int, width: int) -> Bytes:
    """Big-endian numbers of ``length`` bytes in ``width`` bytes."""
    if not length:
        raise source.corrupt(int(starts[0]), "a decimal of no bytes", "at least one byte")
    raw = source.windows(starts, length)
    extra = max(length - width, 0)
    sign = np.where(raw[:, extra : extra + 1] < _TOP_BIT, 0, 0xFF).astype(np.uint8)
    beyond = (raw[:, :extra] != sign).any(axis=1)
    if beyond.any():
        found = f"a decimal of {length} significant bytes"
        raise source.corrupt(int(starts[beyond.argmax()]), found, f"at most {width} bytes")
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
