"""Writes scalar values as JSON, as Jackson does for Spark rows and Avro for its records."""

import base64
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.schema.avro_types import AvroFixed, AvroPrimitive, AvroType
from hudi_bridge.schema.java_text import floating_text

Array: TypeAlias = "pa.Array[Any]"
ScalarText: TypeAlias = Callable[[Array, AvroType | None], Array]

_JACKSON_ESCAPED = r'["\\\x00-\x1f]'
_AVRO_ESCAPED = r'["\\\x00-\x1f\x7f-\x{9f}\x{2000}-\x{20ff}]'
_AVRO_ESCAPED_IN_PYTHON = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2000-\u20ff]')
_JACKSON_ESCAPED_IN_PYTHON = re.compile('["\\\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DECIMAL128_BYTES = 16


def jackson_quoted(text: str) -> str:
    """A string as Jackson writes it."""
    return f'"{_JACKSON_ESCAPED_IN_PYTHON.sub(_escape, text)}"'


def avro_quoted(text: str) -> str:
    """A string as Avro writes it."""
    return f'"{_AVRO_ESCAPED_IN_PYTHON.sub(_escape, text)}"'


def jackson_scalar(array: Array, avro: AvroType | None) -> Array:
    """The JSON of each value, as Jackson writes values of Spark's internal rows; null for null.

    Dates are in days, times in microseconds, bytes in base64, NaN and infinities are strings. A decimal is written as
    its only bean property, ``{"zero":false}``, without its digits.
    """
    if types.is_decimal(array.type):
        is_zero = pc.equal(array, pa.scalar(Decimal(0), array.type)).cast(pa.string())
        objects: Array = joined('{"zero":', is_zero, "}")
        return objects
    return jackson_digits(array, avro)


def jackson_digits(array: Array, avro: AvroType | None) -> Array:
    """As ``jackson_scalar``, but with the digits of decimals, which Hudi loses."""
    kind = array.type
    if _is_text(kind):
        return _quoted_text(array, _JACKSON_ESCAPED, jackson_quoted)
    if _is_bytes(kind):
        texts = [None if value is None else f'"{base64.b64encode(value).decode()}"' for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    if types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz), safe=False)
    elif types.is_decimal(kind):
        texts = [None if value is None else format(value, "f") for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    return _number_text(array, avro)


def avro_scalar(array: Array, avro: AvroType | None) -> Array:
    """The JSON of each value, as Avro's ``GenericData.toString`` writes values of records; null for null.

    Times are in the unit of their Avro type. Bytes are Latin-1 text. Fixed values, Spark's decimals among them, are
    lists of signed bytes.
    """
    kind = array.type
    if _is_text(kind):
        return _quoted_text(array, _AVRO_ESCAPED, avro_quoted)
    if types.is_decimal(kind):
        return _avro_decimal(array, avro)
    if _is_bytes(kind):
        write = _byte_list if isinstance(avro, AvroFixed) else _latin_text
        return pa.array([None if value is None else write(value) for value in array.to_pylist()], pa.string())
    return _number_text(array, avro)


def _number_text(array: Array, _: AvroType | None) -> Array:
    kind = array.type
    if types.is_float16(kind):
        array, kind = array.cast(pa.float32()), pa.float32()
    if types.is_floating(kind):
        texts = floating_text(array)
        numbers: Array = pc.if_else(pc.is_finite(array), texts, joined('"', texts, '"'))
        return numbers
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_date64(kind):
        array = array.cast(pa.int64())
    elif types.is_date(kind) or types.is_time32(kind):
        array = array.cast(pa.int32())
    return array.cast(pa.string())


def _avro_decimal(array: Array, avro: AvroType | None) -> Array:
    if isinstance(avro, AvroPrimitive):
        texts = [None if value is None else _latin_text(_signed_bytes(value)) for value in array.to_pylist()]
        return pa.array(texts, pa.string())
    size = avro.size_bytes if isinstance(avro, AvroFixed) else _spark_decimal_bytes(array.type.precision)
    if size > _DECIMAL128_BYTES or not types.is_decimal128(array.type):
        texts = [
            None if one is None else _byte_list(_unscaled(one).to_bytes(size, signed=True)) for one in array.to_pylist()
        ]
        return pa.array(texts, pa.string())
    words = np.frombuffer(memoryview(array.buffers()[1] or b""), np.int8).reshape(-1, _DECIMAL128_BYTES)
    words = words[array.offset : array.offset + len(array), :size][:, ::-1]
    offsets = np.arange(len(array) + 1, dtype=np.int32) * size
    lists: Any = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(words.ravel()).cast(pa.string()))
    listed: Array = joined("[", pc.binary_join(lists, ", "), "]")
    if array.null_count:
        listed = pc.if_else(array.is_valid(), listed, pa.scalar(None, pa.string()))
    return listed


def _spark_decimal_bytes(precision: int) -> int:
    """The size of a decimal in Spark's Avro writer: the fewest bytes that hold its precision."""
    return (int("9" * precision).bit_length() + 8) // 8


def _unscaled(value: Any) -> int:  # noqa: ANN401 - a Decimal
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return -number if sign else number


def _signed_bytes(value: Any) -> bytes:  # noqa: ANN401 - a Decimal
    number = _unscaled(value)
    return number.to_bytes(((number + (number < 0)).bit_length() + 8) // 8, signed=True)


def _latin_text(value: bytes) -> str:
    return avro_quoted(value.decode("latin-1"))


def _byte_list(value: bytes) -> str:
    return "[" + ", ".join(str(byte - (byte >> 7 << 8)) for byte in value) + "]"


def _quoted_text(array: Array, pattern: str, quoted: Callable[[str], str]) -> Array:
    texts: Array = joined('"', array.cast(pa.string()), '"')
    rare: Any = pc.match_substring_regex(array, pattern).fill_null(False)  # noqa: FBT003 - a value
    if pc.any(rare).as_py():
        escaped = pa.array([quoted(str(value)) for value in array.filter(rare).to_pylist()], pa.string())
        texts = pc.replace_with_mask(texts, rare, escaped)
    return texts


def joined(*parts: Any) -> Any:  # noqa: ANN401 - texts and columns of texts
    """The concatenated parts of each row; null if a part is null."""
    return pc.binary_join_element_wise(*parts, "")


def _is_text(kind: pa.DataType) -> bool:
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def _is_bytes(kind: pa.DataType) -> bool:
    return types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)


def _escape(match: "re.Match[str]") -> str:
    return _SHORT_ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"
