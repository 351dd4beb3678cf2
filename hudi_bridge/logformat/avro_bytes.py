"""Spans of a block's bytes -> Arrow strings, binary values and decimals."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.logformat.avro_cursors import Bytes, DatumBytes, Ints

Array: TypeAlias = "pa.Array[Any]"

_TOP_BIT = 0x80


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
