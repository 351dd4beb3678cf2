"""Converts Arrow columns to Python values that JSON can represent.

Times become text such as ``2026-01-31 12:00:00.000000``, with a ``Z`` if the type has a time zone; decimals text with
all digits, bytes hexadecimal text, maps objects.
"""

import datetime as dt
import json
import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Array: TypeAlias = "pa.Array[Any]"
ArrowType: TypeAlias = Any

_Convert = Callable[[Any], Any]


def values_as_text(column: Array) -> list[Any]:
    """The values of a column as JSON types; NaN and infinities stay floats."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        storage: Array = column.cast(kind.storage_type)
        return values_as_text(storage)
    if types.is_decimal(kind) or _is_cast_to_text(kind):
        return pc.cast(column, pa.string()).to_pylist()
    if types.is_float32(kind):
        return [None if text is None else float(text) for text in pc.cast(column, pa.string()).to_pylist()]
    convert = _converter(kind)
    values = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def to_json(value: object) -> str:
    """A value of ``values_as_text`` as JSON; NaN and infinities become strings."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def is_nested(kind: ArrowType) -> bool:
    """Whether values of the type contain other values."""
    return types.is_nested(kind)


def _is_cast_to_text(kind: ArrowType) -> bool:
    if types.is_timestamp(kind):
        return kind.tz in (None, "UTC")
    return types.is_date(kind) or types.is_time(kind)


def _converter(kind: ArrowType) -> _Convert | None:
    """The function that converts values of a type; None if they need no conversion."""
    if types.is_dictionary(kind):
        return _converter(kind.value_type)
    if types.is_map(kind):
        return _map_converter(kind)
    if types.is_struct(kind):
        return _struct_converter(kind)
    if is_nested(kind):
        inner = _converter(kind.value_type)
        return None if inner is None else lambda values: [None if one is None else inner(one) for one in values]
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or _is_view(kind):
        return bytes.hex
    if types.is_timestamp(kind):
        return _timestamp_text
    if types.is_float32(kind):
        return _shortest_float32
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or _is_text(kind):
        return None
    return str


def _struct_converter(kind: ArrowType) -> _Convert:
    fields = [(field.name, _converter(field.type) or _same) for field in kind]
    return lambda row: {name: None if row[name] is None else convert(row[name]) for name, convert in fields}


def _map_converter(kind: ArrowType) -> _Convert:
    key, item = _converter(kind.key_type) or _same, _converter(kind.item_type) or _same
    return lambda pairs: {str(key(name)): None if value is None else item(value) for name, value in pairs}


def _timestamp_text(moment: dt.datetime) -> str:
    if moment.tzinfo is None:
        return moment.isoformat(" ", "microseconds")
    return moment.astimezone(dt.UTC).replace(tzinfo=None).isoformat(" ", "microseconds") + "Z"


def _shortest_float32(value: float) -> float:
    """The number with the fewest digits that rounds to the same single-precision float."""
    return float(str(np.float32(value)))


def _is_view(kind: ArrowType) -> bool:
    return types.is_binary_view(kind)


def _is_text(kind: ArrowType) -> bool:
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def _same(value: object) -> object:
    return value


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
