"""Converts Arrow structs to JSON texts, byte for byte as in Hudi's ``cdc`` format.

Hudi has two styles:

* ``JACKSON``, for images from base files and logs (``InternalRowToJsonStringConverter``): no white space, no nulls at
  any depth. Map entries and struct fields are in the order of Scala's immutable maps, columns in the table's order.
* ``AVRO``, for images stored by the writer (``HoodieCDCUtils.recordToJson``): a space after ``:`` and ``,``. Nulls
  are written, and map entries are in the order of Java's hash maps.

So the iteration orders of both kinds of hash maps are computed here, and scalars are written as Jackson or Avro do.
"""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from hudi_bridge.schema.avro_types import AvroArray, AvroFixed, AvroMap, AvroPrimitive, AvroRecord, AvroType, AvroUnion
from hudi_bridge.schema.casts import as_lists
from hudi_bridge.schema.java_text import INT32, floating_text, string_hash

Positions = npt.NDArray[np.int64]

_SCALA_SMALL_MAP = 4
_SCALA_BITS = 5
_SCALA_LEVELS = 7
Array: TypeAlias = "pa.Array[Any]"
ScalarText: TypeAlias = Callable[[Array, AvroType | None], Array]
_JACKSON_ESCAPED = r'["\\\x00-\x1f]'
_AVRO_ESCAPED = r'["\\\x00-\x1f\x7f-\x{9f}\x{2000}-\x{20ff}]'
_AVRO_ESCAPED_IN_PYTHON = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2000-\u20ff]')
_JACKSON_ESCAPED_IN_PYTHON = re.compile('["\\\\\x00-\x1f]')
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_DECIMAL128_BYTES = 16
_ROWS_AT_ONCE = 1 << 14
"""Bounds the memory, because the texts of nested columns are many times as large as the rows."""


def java_map_order(keys: "pa.Array[Any]", lengths: Positions) -> Positions:
    """The positions of the entries of concatenated maps with these ``lengths``, in the order of ``java.util.HashMap``.

    The order is by bucket, then by insertion. The bucket is the low bits of the key's hash, mixed with its high half.
    Keys are Avro's ``Utf8``, which hashes the UTF-8 bytes as signed numbers.
    """
    capacities = np.maximum(1, 2 ** np.ceil(np.log2(np.maximum(lengths, 1)))).astype(np.int64)
    # Java doubles the capacity of a map when it is more than three quarters full.
    capacities = np.where(lengths > capacities * 3 // 4, capacities * 2, capacities)
    hashes = _by_distinct(keys, _utf8_hash)
    buckets = (hashes ^ (hashes >> 16)) & (np.repeat(capacities, lengths) - 1)
    return np.lexsort((np.arange(len(keys)), buckets, np.repeat(np.arange(len(lengths)), lengths)))


def scala_map_order(keys: "pa.Array[Any]", lengths: Positions) -> Positions:
    """The positions of the entries of concatenated maps with these ``lengths``, in the order of Scala's immutable maps.

    The order of ``HashMap`` in Scala 2.12 is by the improved hash of the key, five bits at a time from the lowest on.
    Maps of up to four entries are of another class, which keeps the order of insertion.
    """
    ranks = _by_distinct(keys, _scala_rank)
    ranks = np.where(np.repeat(lengths, lengths) > _SCALA_SMALL_MAP, ranks, 0)
    return np.lexsort((np.arange(len(keys)), ranks, np.repeat(np.arange(len(lengths)), lengths)))


def _by_distinct(keys: "pa.Array[Any]", number_of: Callable[[str], int]) -> Positions:
    distinct: Any = keys.dictionary_encode()
    numbers = np.array([number_of(key) for key in distinct.dictionary.to_pylist()], dtype=np.int64)
    return numbers[distinct.indices.to_numpy(zero_copy_only=False)] if len(keys) else np.zeros(0, dtype=np.int64)


def _utf8_hash(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (31 * value + byte - (byte >= 1 << 7) * 256) & INT32
    return value


def _scala_rank(text: str) -> int:
    value = string_hash(text)
    value = (value + ~(value << 9)) & INT32
    value ^= value >> 14
    value = (value + (value << 4)) & INT32
    value ^= value >> 10
    rank = 0
    for level in range(_SCALA_LEVELS):
        rank = rank << _SCALA_BITS | (value >> level * _SCALA_BITS) & ((1 << _SCALA_BITS) - 1)
    return rank


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
            None if number is None else _byte_list(_unscaled(number).to_bytes(size, signed=True))
            for number in array.to_pylist()
        ]
        return pa.array(texts, pa.string())
    # Arrow may have more memory than its values need, and any amount of it.
    stored = memoryview(array.buffers()[1] or b"")
    own = slice(array.offset * _DECIMAL128_BYTES, (array.offset + len(array)) * _DECIMAL128_BYTES)
    words = np.frombuffer(stored[own], np.int8).reshape(-1, _DECIMAL128_BYTES)[:, size - 1 :: -1]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonStyle:
    """The JSON style of one Java library."""

    colon: str
    comma: str
    keeps_nulls: bool
    quoted: Callable[[str], str]
    scalar: ScalarText
    entry_order: Callable[[Array, Positions], Positions]
    structs_are_maps: bool


JACKSON = JsonStyle(
    colon=":",
    comma=",",
    keeps_nulls=False,
    quoted=jackson_quoted,
    scalar=jackson_scalar,
    entry_order=scala_map_order,
    structs_are_maps=True,
)
JACKSON_WITH_DIGITS = replace(JACKSON, scalar=jackson_digits)
AVRO = JsonStyle(
    colon=": ",
    comma=", ",
    keeps_nulls=True,
    quoted=avro_quoted,
    scalar=avro_scalar,
    entry_order=java_map_order,
    structs_are_maps=False,
)


def json_texts(rows: pa.StructArray, style: JsonStyle, avro: AvroRecord | None = None) -> Array:
    """The JSON object of each row, null for null; ``avro`` is the type of the rows, if the style needs it."""
    parts = [
        _struct_texts(rows.slice(start, _ROWS_AT_ONCE), style, avro, in_order=True)
        for start in range(0, len(rows), _ROWS_AT_ONCE)
    ]
    return pa.concat_arrays(parts) if parts else pa.array([], pa.string())


def _texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    kind = array.type
    if isinstance(avro, AvroUnion):
        members = avro.members
        if types.is_struct(kind) and len(members) > 1:
            return _union_texts(cast("pa.StructArray", array), style, members)
        avro = members[0] if members else None
    if types.is_null(kind):
        return pa.nulls(len(array), pa.string())
    if types.is_struct(kind):
        record = avro if isinstance(avro, AvroRecord) else None
        return _struct_texts(cast("pa.StructArray", array), style, record, in_order=not style.structs_are_maps)
    if types.is_map(kind):
        return _map_texts(array, style, avro.values if isinstance(avro, AvroMap) else None)
    if types.is_list(kind) or types.is_large_list(kind):
        return _list_texts(array, style, avro.items if isinstance(avro, AvroArray) else None)
    if types.is_fixed_size_list(kind):
        return _list_texts(as_lists(array), style, None)
    return style.scalar(array, avro)


def _struct_texts(array: pa.StructArray, style: JsonStyle, avro: AvroRecord | None, *, in_order: bool) -> Array:
    children = array.flatten()
    names = [array.type.field(index).name for index in range(array.type.num_fields)]
    types = {} if avro is None else {field.name: field.type for field in avro.fields}
    order = range(len(names)) if in_order else scala_map_order(pa.array(names, pa.string()), np.array([len(names)]))
    fields: list[Any] = []
    for index in order:
        text: Array = _texts(children[index], style, types.get(names[index]))
        text = text.fill_null("null") if style.keeps_nulls else text
        fields.append(joined(style.comma + style.quoted(names[index]) + style.colon, text).fill_null(""))
    texts = joined(pa.repeat("", len(array)), *fields)
    # The first field has no comma before it.
    return _wrapped(array, "", pc.binary_replace_slice(texts, 0, len(style.comma), "{"), "}")


def _union_texts(array: pa.StructArray, style: JsonStyle, members: tuple[AvroType, ...]) -> Array:
    """The texts of a union of several types: a struct with a field for each type, where one field has the value."""
    texts = [_texts(child, style, member) for child, member in zip(array.flatten(), members, strict=True)]
    joined: Array = pc.coalesce(*texts)
    return joined


def _list_texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    lengths = pc.list_value_length(array).fill_null(0).to_numpy().astype(np.int64)
    values: Array = cast("pa.ListArray[Any]", array).flatten()
    return _wrapped(array, "[", _joined_by_row(_texts(values, style, avro).fill_null("null"), lengths, style), "]")


def _map_texts(array: Array, style: JsonStyle, avro: AvroType | None) -> Array:
    maps = cast("pa.MapArray[Any, Any]", array)
    offsets = np.asarray(maps.offsets.to_numpy(), dtype=np.int64)
    lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), 0)
    entries = np.arange(int(lengths.sum())) + np.repeat(offsets[:-1] - (np.cumsum(lengths) - lengths), lengths)
    keys: Array = maps.keys.take(pa.array(entries, pa.int64())).cast(pa.string())
    order = style.entry_order(keys, lengths)
    keys, items = keys.take(pa.array(order, pa.int64())), maps.items.take(pa.array(entries[order], pa.int64()))
    values: Array = _texts(items, style, avro)
    values = values.fill_null("null") if style.keeps_nulls else values
    texts = joined(style.scalar(keys, None), style.colon, values)
    if texts.null_count:
        rows = np.repeat(np.arange(len(array)), lengths)
        is_valid = texts.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.bincount(rows[is_valid], minlength=len(array))
        texts = texts.drop_null()
    return _wrapped(array, "{", _joined_by_row(texts, lengths, style), "}")


def _joined_by_row(texts: Array, lengths: Positions, style: JsonStyle) -> Array:
    """For each row its texts, as many as its length, joined by commas."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    lists: Any = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), texts)
    by_row: Any = pc.binary_join(lists, style.comma)
    return cast("Array", by_row)


def _wrapped(array: Array, before: str, texts: Array, after: str) -> Array:
    """The texts in brackets; null where the array is null."""
    whole: Array = joined(before, texts, after)
    return whole if array.null_count == 0 else pc.if_else(array.is_valid(), whole, pa.scalar(None, pa.string()))
