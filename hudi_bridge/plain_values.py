"""Converts Arrow columns to Python values that JSON can represent.

Times become text such as ``2026-01-31 12:00:00.000000``, with a ``Z`` if the type has a time zone; decimals text with
all digits, bytes hexadecimal text, maps objects.
"""

import json
import math
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Array: TypeAlias = "pa.Array[Any]"
ArrowType: TypeAlias = Any

_DAYS_OF_CYCLE = 146_097
"""The Gregorian calendar is the same again after 400 years."""
_YEARS_OF_CYCLE = 400
_FURTHEST_DAY = 365 * 30_000
"""Arrow writes years of 16 bits."""
_PER_DAY: dict[str, int] = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}


def values_as_text(column: Array) -> list[Any]:
    """The values of a column as JSON types; NaN and infinities stay floats."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return values_as_text(column.cast(kind.storage_type))
    if types.is_dictionary(kind):
        return values_as_text(column.cast(kind.value_type))
    if types.is_struct(kind):
        return list(_objects(column))
    if types.is_map(kind):
        return list(_maps(column))
    if is_nested(kind) and not types.is_union(kind):
        return list(_lists(column))
    return _flat_values(column)


def is_far(column: Array) -> bool:
    """Whether a column of dates or timestamps has years of more than 16 bits, which Arrow does not write."""
    return bool(np.any(np.abs(_days(column)) > _FURTHEST_DAY))


def to_json(value: object) -> str:
    """A value of ``values_as_text`` as JSON; NaN and infinities become strings."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def is_nested(kind: ArrowType) -> bool:
    """Whether values of the type contain other values."""
    return types.is_nested(kind)


def _flat_values(column: Array) -> list[Any]:
    kind = column.type
    if types.is_date(kind) or types.is_timestamp(kind):
        return _days_as_text(column)
    if types.is_decimal(kind) or types.is_time(kind):
        return pc.cast(column, pa.string()).to_pylist()
    if types.is_float32(kind):
        # The number with the fewest digits that rounds to the same single-precision float.
        return [None if text is None else float(text) for text in pc.cast(column, pa.string()).to_pylist()]
    values = column.to_pylist()
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or _is_text(kind):
        return values
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or _is_view(kind):
        return [None if value is None else value.hex() for value in values]
    return [None if value is None else str(value) for value in values]


def _objects(column: Any) -> Iterator[dict[str, Any] | None]:  # noqa: ANN401 - a struct array
    names = [field.name for field in column.type]
    fields = [values_as_text(field) for field in column.flatten()]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(column))
    for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True):
        yield dict(zip(names, row, strict=True)) if is_valid else None


def _lists(column: Any) -> Iterator[list[Any] | None]:  # noqa: ANN401 - an array of lists of any kind
    lengths = pc.list_value_length(column).to_pylist()
    items = values_as_text(column.flatten())
    ends = accumulate((length or 0 for length in lengths), initial=0)
    for length, (start, end) in zip(lengths, pairwise(ends), strict=True):
        yield None if length is None else items[start:end]


def _maps(column: Array) -> Iterator[dict[str, Any] | None]:
    kind = column.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    for entries in _lists(column.cast(pa.list_(entry))):
        yield None if entries is None else {_name(one["key"]): one["value"] for one in entries}


def _name(key: object) -> str:
    return key if isinstance(key, str) else to_json(key)


def _days_as_text(column: Array) -> list[str | None]:
    kind = column.type
    if types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if not is_far(column):
        return pc.cast(column, pa.string()).to_pylist()
    days = _days(column)
    cycles = np.where(np.abs(days) > _FURTHEST_DAY, days // _DAYS_OF_CYCLE, 0)
    near = _numbers(column) - cycles * _DAYS_OF_CYCLE * _per_day(column.type)
    moved = pa.array(near, mask=column.is_null().to_numpy(zero_copy_only=False))
    texts = pc.cast(moved.cast(_stored(column.type)).view(column.type), pa.string()).to_pylist()
    return [
        f"{int(text[:4]) + _YEARS_OF_CYCLE * cycle}{text[4:]}" if text is not None and cycle else text
        for text, cycle in zip(texts, cycles.tolist(), strict=True)
    ]


def _days(column: Array) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return _numbers(column) // _per_day(column.type)


def _numbers(column: Array) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The stored numbers of a column of dates or timestamps, 0 for null."""
    integers: Any = column.view(_stored(column.type))
    found: np.ndarray[Any, np.dtype[Any]] = pc.fill_null(integers, 0).to_numpy()
    return found.astype(np.int64, copy=False)


def _stored(kind: ArrowType) -> pa.DataType:
    return pa.int32() if types.is_date32(kind) else pa.int64()


def _per_day(kind: ArrowType) -> int:
    """The number that is stored for a day."""
    if types.is_date32(kind):
        return 1
    unit: str = "ms" if types.is_date64(kind) else kind.unit
    return _PER_DAY[unit]


def _is_view(kind: ArrowType) -> bool:
    return types.is_binary_view(kind)


def _is_text(kind: ArrowType) -> bool:
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
