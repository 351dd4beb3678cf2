"""The casts that Hudi allows for a column whose type has changed, with the results of Hudi on Spark.

As in Spark's CAST, a value that does not fit its new type becomes null: a decimal with too many digits before the
point, text that is not a number or a date, NaN as a decimal. Decimals round half up. Types that only Arrow
distinguishes (string and large string, dictionaries, narrow integers) are cast without loss.

``rebuild_struct`` and its siblings replace the children of nested arrays. Validity bitmaps and offsets are reused; of a
slice they are copied, so that values outside of it are not converted.

Source: ``SchemaChangeUtils.isTypeUpdateAllow``, Avro's schema resolution, ``HoodieParquetFileFormatHelper``,
``HoodieAvroUtils.rewritePrimaryType``.
"""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.schema.java_text import floating_text

# In pyarrow's stubs, unlike at run time, arrays are generic and parametric types have no attributes.
Array: TypeAlias = "pa.Array[Any]"
ArrowType: TypeAlias = Any

Cast: TypeAlias = Callable[[Array], Array]
_Convert: TypeAlias = Callable[[ArrowType, Array], Array]

_KINDS: tuple[tuple[str, Callable[[ArrowType], bool]], ...] = (
    ("null", pa.types.is_null),
    ("boolean", pa.types.is_boolean),
    ("int", lambda type_: type_ in (pa.int8(), pa.int16(), pa.int32())),
    ("long", pa.types.is_int64),
    ("float", pa.types.is_float32),
    ("double", pa.types.is_float64),
    ("decimal", pa.types.is_decimal),
    ("string", lambda type_: type_ in (pa.string(), pa.large_string(), pa.string_view())),
    ("binary", lambda type_: type_ in (pa.binary(), pa.large_binary(), pa.binary_view())),
    ("binary", pa.types.is_fixed_size_binary),
    ("date", pa.types.is_date),
    ("time", pa.types.is_time),
    ("timestamp", pa.types.is_timestamp),
)

_BITS_OF = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}

_UNITS_IN_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}

_JAVA_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")
_SPARK_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_SPARK_BLANKS = "".join(map(chr, range(33)))
# The conversion of a child array; None if it needs none.
ChildStep = Callable[[Array], Array] | None


def plan_cast(source: ArrowType, target: ArrowType, *, float_to_double_by_text: bool) -> Cast | None:
    """The cast of arrays from one flat type to another; None if Hudi does not allow it.

    Args:
        source: the type in the file.
        target: the type in the query.
        float_to_double_by_text: whether a float becomes a double, or a decimal, by way of its text (0.2) or with
            its exact value (0.20000000298).
    """
    if source == target:
        return _same
    if pa.types.is_dictionary(source):
        of_values = plan_cast(source.value_type, target, float_to_double_by_text=float_to_double_by_text)
        return of_values and partial(_cast_dictionary, of_values)
    if pa.types.is_dictionary(target):
        to_values = plan_cast(source, target.value_type, float_to_double_by_text=float_to_double_by_text)
        return to_values and partial(_cast_and_encode, to_values, target)
    from_kind, to_kind = _kind(source), _kind(target)
    if from_kind is None or to_kind is None:
        return None
    if from_kind == to_kind == "decimal" and not _holds_every(target, source):
        return None
    if (from_kind, to_kind) == ("long", "timestamp") and target.tz is not None:
        return None
    by_text = _BY_TEXT if float_to_double_by_text else {}
    cast = by_text.get((from_kind, to_kind)) or _CASTS.get((from_kind, to_kind))
    return cast and partial(cast, target)


def times_as_text(target: ArrowType, array: Array) -> Array:
    """Timestamps as Spark's CAST prints them in UTC: with no more digits of a fraction than it has."""
    return _on_distinct(_time_to_text, target, array)


def times_as_numbers(target: ArrowType, array: Array) -> Array:
    """Timestamps as the texts of their numbers in Avro."""
    return array.view(pa.int64()).cast(target)


def as_milliseconds(target: ArrowType, array: Array) -> Array:
    """The same numbers taken for milliseconds, whatever unit their type has; nothing is copied."""
    milliseconds: Array = array.view(target)
    return milliseconds


def _kind(type_: ArrowType) -> str | None:
    return next((kind for kind, matches in _KINDS if matches(type_)), None)


def _holds_every(target: ArrowType, source: ArrowType) -> bool:
    """Whether the target decimal has at least the source's digits on both sides of the point."""
    more_scale = target.scale - source.scale
    return bool(more_scale >= 0 and target.precision - source.precision >= more_scale)


def _same(array: Array) -> Array:
    return array


def _cast_dictionary(cast: Cast, array: "pa.DictionaryArray[Any, Any]") -> Array:
    return cast(array.dictionary).take(array.indices)


def _cast_and_encode(cast: Cast, target: ArrowType, array: Array) -> Array:
    return cast(array).cast(target)


def _on_distinct(convert: _Convert, target: ArrowType, array: Array) -> Array:
    """Converts an array; computes each distinct value once."""
    bits = _BITS_OF.get(array.type)
    # Floating-point numbers are distinguished by their bits: 0.0 and -0.0 are equal but have different texts.
    encoded = (array.view(bits) if bits else array).dictionary_encode()
    distinct = encoded.dictionary.view(array.type) if bits else encoded.dictionary
    return convert(target, distinct).take(encoded.indices)


def _all_null(target: ArrowType, array: Array) -> Array:
    return pa.nulls(len(array), target)


def _arrow_cast(target: ArrowType, array: Array) -> Array:
    """The array as Arrow casts it; raises if a value would change."""
    return array.cast(target)


def _nearest(target: ArrowType, array: Array) -> Array:
    """Integers as the nearest floating-point numbers."""
    return array.cast(target, safe=False)


def _whole_to_decimal(target: ArrowType, array: Array) -> Array:
    limit = 10 ** (target.precision - target.scale)
    wide = array.cast(pa.int64())
    if limit < 1 << 63:
        fits = pc.and_(pc.less(wide, limit), pc.greater(wide, -limit))
        wide = pc.if_else(fits, wide, pa.scalar(None, pa.int64()))
    # Arrow requires a type that holds any long, whatever the values are; 38 digits may be too few for that.
    return wide.cast(pa.decimal256(76, target.scale)).cast(target)


def _floating_to_text(target: ArrowType, array: Array) -> Array:
    return floating_text(array).cast(target)


def _float_to_double_by_text(target: ArrowType, array: Array) -> Array:
    return pa.array([None if text is None else float(text) for text in floating_text(array).to_pylist()], target)


def _floating_to_decimal(target: ArrowType, array: Array) -> Array:
    return _text_to_decimal(target, floating_text(array.cast(pa.float64())))


def _float_to_decimal_by_text(target: ArrowType, array: Array) -> Array:
    return _text_to_decimal(target, floating_text(array))


def _text_to_decimal(target: ArrowType, array: Array) -> Array:
    context = Context(prec=target.precision, rounding=ROUND_HALF_UP)
    unit = Decimal((0, (1,), -target.scale))
    return pa.array([_decimal(text, unit, context) for text in array.to_pylist()], target)


def _decimal(text: str | None, unit: Decimal, context: Context) -> Decimal | None:
    """The number as ``BigDecimal`` reads it, rounded to ``unit``; None for other text or too many digits."""
    if text is None or not _JAVA_DECIMAL.fullmatch(text := text.strip(_SPARK_BLANKS)):
        return None
    try:
        return Decimal(text).quantize(unit, context=context)
    except InvalidOperation:
        return None


def _text_to_date(target: ArrowType, array: Array) -> Array:
    return pa.array([_epoch_day(text) for text in array.to_pylist()], pa.int32()).view(pa.date32()).cast(target)


def _epoch_day(text: str | None) -> int | None:
    """The day of a date as Spark reads it: month and day may have one digit or be missing, a time may follow."""
    match = None if text is None else _SPARK_DATE.fullmatch(text.strip(_SPARK_BLANKS))
    if match is None:
        return None
    year, month, day = (int(part or 1) for part in match.groups())
    if not (1 <= month <= 12 and day > 0):  # noqa: PLR2004 - months of a year
        return None
    first = np.datetime64((year - 1970) * 12 + month - 1, "M")
    date = first.astype("datetime64[D]") + (day - 1)
    epoch_day = int(date.astype(np.int64))
    return epoch_day if date.astype("datetime64[M]") == first and abs(epoch_day) < 1 << 31 else None


def _time_to_text(target: ArrowType, array: Array) -> Array:
    # Without a zone, Arrow prints no zone; a unit of less than a second always has a fraction.
    local = array.view(pa.int64()).view(pa.timestamp(array.type.unit))
    text = local.cast(pa.string())
    if array.type.unit != "s":
        text = pc.utf8_rtrim(pc.utf8_rtrim(text, "0"), ".")
    # From the year 10000 on, Spark prints a sign.
    text = pc.replace_substring_regex(text, r"^([0-9]{5,}-)", r"+\1")
    return text.cast(target)


def _rescale_clock(target: ArrowType, array: Array) -> Array:
    """Times or timestamps in another unit; rounded down to a coarser one."""
    storage = pa.int32() if array.type.bit_width == pa.int32().bit_width else pa.int64()
    ticks = array.view(storage).cast(pa.int64())
    have, want = _UNITS_IN_SECOND[array.type.unit], _UNITS_IN_SECOND[target.unit]
    if want > have:
        ticks = pc.multiply_checked(ticks, want // have)
    elif want < have:
        quotient = pc.divide(ticks, have // want)
        overshoot = pc.greater(pc.multiply(quotient, have // want), ticks)
        ticks = pc.subtract(quotient, overshoot.cast(pa.int64()))
    return ticks.cast(pa.int32() if target.bit_width == pa.int32().bit_width else pa.int64()).view(target)


_CASTS: dict[tuple[str, str], _Convert] = {
    **{("null", kind): _all_null for kind, _ in _KINDS},
    **{(kind, kind): _arrow_cast for kind in ("int", "long", "decimal", "string", "binary", "date")},
    **{(kind, kind): _rescale_clock for kind in ("time", "timestamp")},
    ("int", "long"): _arrow_cast,
    ("int", "float"): _nearest,
    ("int", "double"): _arrow_cast,
    ("int", "decimal"): _whole_to_decimal,
    ("int", "string"): _arrow_cast,
    ("long", "float"): _nearest,
    ("long", "double"): _nearest,
    ("long", "decimal"): _whole_to_decimal,
    ("long", "string"): _arrow_cast,
    ("long", "timestamp"): _arrow_cast,
    ("float", "double"): _arrow_cast,
    ("float", "decimal"): partial(_on_distinct, _floating_to_decimal),
    ("float", "string"): partial(_on_distinct, _floating_to_text),
    ("double", "decimal"): partial(_on_distinct, _floating_to_decimal),
    ("double", "string"): partial(_on_distinct, _floating_to_text),
    ("decimal", "string"): _arrow_cast,
    ("date", "string"): _arrow_cast,
    ("string", "date"): partial(_on_distinct, _text_to_date),
    ("string", "decimal"): partial(_on_distinct, _text_to_decimal),
    ("string", "binary"): _arrow_cast,
    ("binary", "string"): _arrow_cast,
}

_BY_TEXT: dict[tuple[str, str], _Convert] = {
    ("float", "double"): partial(_on_distinct, _float_to_double_by_text),
    ("float", "decimal"): partial(_on_distinct, _float_to_decimal_by_text),
}


def rebuild_struct(
    target: ArrowType, children: tuple[tuple[int | None, ChildStep], ...], array: pa.StructArray
) -> Array:
    """The structs with one child for each field of ``target``.

    Args:
        target: the type of the result.
        children: for each field of the target, the index of the child to convert and the conversion; without an index,
            what makes the child of the structs, None for nulls.
        array: the structs.
    """
    fields = [target.field(i) for i in range(target.num_fields)]
    parts = [
        _new_child(field.type, step, array) if position is None else _converted_child(step, array, position)
        for field, (position, step) in zip(fields, children, strict=True)
    ]
    return _from_buffers(target, array, [_validity(array)], parts)


def rebuild_list(target: ArrowType, step: ChildStep, array: "pa.ListArray[Any]") -> Array:
    """The lists with converted elements; large lists become lists."""
    offsets, first, last = _offsets(array)
    values = _converted(step, array.values.slice(first, last - first))
    return _from_buffers(target, array, [_validity(array), offsets], [values])


def rebuild_map(target: ArrowType, key_step: ChildStep, item_step: ChildStep, array: "pa.MapArray[Any, Any]") -> Array:
    """The maps with converted keys and items."""
    offsets, first, last = _offsets(array)
    entries_type = pa.struct([target.key_field, target.item_field])
    keys = _converted(key_step, array.keys.slice(first, last - first))
    items = _converted(item_step, array.items.slice(first, last - first))
    entries: Array = pa.Array.from_buffers(entries_type, last - first, [None], 0, 0, [keys, items])
    return _from_buffers(target, array, [_validity(array), offsets], [entries])


def vectors_from_bytes(target: ArrowType, array: Array) -> Array:
    """Vectors from fixed-size binary values, which hold their numbers, little-endian."""
    width = array.type.byte_width
    numbers = array.buffers()[1] or pa.py_buffer(b"")
    numbers = numbers.slice(array.offset * width, len(array) * width)
    values: Array = pa.Array.from_buffers(target.value_type, len(array) * target.list_size, [None, numbers])
    return _from_buffers(target, array, [_validity(array)], [values])


def as_lists(vectors: Array) -> Array:
    """Fixed-size lists as lists."""
    kind: ArrowType = vectors.type
    return vectors.cast(pa.list_(kind.value_field))


def _new_child(kind: ArrowType, step: ChildStep, array: pa.StructArray) -> Array:
    if step is not None:
        return step(array)
    nulls: Array = pa.nulls(len(array), kind)
    return nulls


def _converted_child(step: ChildStep, array: pa.StructArray, position: int) -> Array:
    if step is None:
        return array.field(position)
    # Made null where the struct is null: the values there may be anything, and fail to convert.
    child: Array = pc.struct_field(array, [position])
    return step(child)


def _converted(step: ChildStep, child: Array) -> Array:
    return child if step is None else step(child)


def _from_buffers(target: ArrowType, array: Array, buffers: list[pa.Buffer | None], children: list[Array]) -> Array:
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, 0, children)


def _validity(array: Array) -> pa.Buffer | None:
    """The validity bitmap, beginning at its first bit; None if no row is null."""
    if array.null_count == 0:
        return None
    if array.offset == 0:
        return array.buffers()[0]
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())


def _offsets(array: "pa.ListArray[Any] | pa.MapArray[Any, Any]") -> tuple[pa.Buffer | None, int, int]:
    """32-bit offsets that begin at 0, and the range of children that they refer to."""
    offsets = array.offsets
    first, last = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
    if first == 0 and array.offset == 0 and offsets.type == pa.int32() and len(array):
        return array.buffers()[1], first, last
    return pa.py_buffer((offsets.to_numpy() - first).astype(np.int32).tobytes()), first, last
