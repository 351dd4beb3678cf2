"""Compares two tables exactly, ignoring the order of rows.

Floats are equal if their bits are, or if both are NaN; decimals if their values are; timestamps if their instants are;
maps whatever the order of their entries. A null equals only a null.

Each column of both tables is converted to a comparable form (numbers of one width, bits of floats, timestamps of one
unit, nested values as text) and then to codes of its distinct values. The sorted rows of codes are compared.
"""

from decimal import Context, Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "pa.Array[Any]"
Codes = npt.NDArray[np.int64]

_EXACT = Context(prec=80)
_EXAMPLES = 5
_UNITS = ("s", "ms", "us", "ns")


def differences(expected: pa.Table, found: pa.Table) -> list[str]:
    """The differences, in words; none for tables with the same columns and rows in any order."""
    for table in (expected, found):
        if len(set(table.column_names)) != table.num_columns:
            return [f"columns of one name among {table.column_names}"]
    missing = [name for name in expected.column_names if name not in found.column_names]
    extra = [name for name in found.column_names if name not in expected.column_names]
    if missing or extra:
        return [f"missing columns {missing}, extra columns {extra}"]
    codes: list[Codes] = []
    for name in expected.column_names:
        one, other = comparable(expected[name]), comparable(found[name])
        if one.type != other.type:
            one, other = _common(one, other)
        if one.type != other.type:
            return [f"column {name}: expected {expected[name].type}, found {found[name].type}"]
        codes.append(_codes(one, other))
    if not codes:
        same = expected.num_rows == found.num_rows
        return [] if same else [f"expected {expected.num_rows} rows, found {found.num_rows}"]
    rows = np.stack(codes, axis=1)
    return _row_differences(expected, found, rows[: expected.num_rows], rows[expected.num_rows :])


def comparable(column: "pa.ChunkedArray[Any]") -> Array:
    """The column in a form in which equal values have equal bits or equal texts."""
    array: Any = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_floating(array.type):
        return _float_bits(array.cast(pa.float64()))
    if pa.types.is_nested(array.type):
        return pa.array(_texts(array), pa.large_string())
    target = _comparable_type(array.type)
    if pa.types.is_timestamp(target):
        array = array.cast(pa.int64())
    converted: Array = array.cast(target)
    return converted


def _comparable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    return kind


def _float_bits(array: Array) -> Array:
    values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return pa.array(bits, mask=array.is_null().to_numpy(zero_copy_only=False)).view(pa.duration("ns"))


def _common(one: Array, other: Array) -> tuple[Array, Array]:
    """Both arrays in a common type, if there is one that holds the values of both exactly."""
    if pa.types.is_null(one.type) or pa.types.is_null(other.type):
        kind = other.type if pa.types.is_null(one.type) else one.type
    elif pa.types.is_timestamp(one.type) and pa.types.is_timestamp(other.type):
        kind = pa.timestamp(max(one.type.unit, other.type.unit, key=_UNITS.index))
    elif pa.types.is_decimal(one.type) and pa.types.is_decimal(other.type):
        scale = max(one.type.scale, other.type.scale)
        kind = pa.decimal256(
            max(one.type.precision - one.type.scale, other.type.precision - other.type.scale) + scale, scale
        )
    else:
        return one, other
    return one.cast(kind), other.cast(kind)


def _codes(one: Array, other: Array) -> Codes:
    encoded = pa.concat_arrays([one, other]).dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _row_differences(expected: pa.Table, found: pa.Table, wanted: Codes, got: Codes) -> list[str]:
    if wanted.shape == got.shape and bool((_sorted(wanted) == _sorted(got)).all()):
        return []
    both, numbers = np.unique(np.concatenate([wanted, got]), axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    wanted_counts = np.bincount(numbers[: len(wanted)], minlength=len(both))
    got_counts = np.bincount(numbers[len(wanted) :], minlength=len(both))
    lines = [f"expected {len(wanted)} rows, found {len(got)}"]
    missing = np.flatnonzero(np.isin(numbers[: len(wanted)], np.flatnonzero(wanted_counts > got_counts)))
    extra = np.flatnonzero(np.isin(numbers[len(wanted) :], np.flatnonzero(got_counts > wanted_counts)))
    lines += [f"only expected: {row}" for row in _shown(expected.take(missing[:_EXAMPLES]))]
    lines += [f"only found: {row}" for row in _shown(found.take(extra[:_EXAMPLES]))]
    return lines


def _shown(rows: pa.Table) -> list[Any]:
    try:
        return rows.to_pylist()
    except (OverflowError, UnicodeDecodeError):  # What an engine misread: Python has no such dates and texts.
        return [rows.slice(number, 1).to_string(preview_cols=rows.num_columns) for number in range(len(rows))]


def _sorted(rows: Codes) -> Codes:
    return rows[np.lexsort(rows.T)]


def _texts(array: Any) -> list[str]:
    """A text for each value of an array; texts are equal if and only if values are."""
    return [
        text if valid else "null" for text, valid in zip(_value_texts(array), array.is_valid().to_pylist(), strict=True)
    ]


def _value_texts(array: Any) -> list[str]:
    kind = array.type
    if pa.types.is_map(kind):
        entries = array.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        return [f"map{sorted(items)}" for items in _item_texts(entries)]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        rows = zip(*map(_texts, array.flatten()), strict=True)
        return [f"struct{sorted(zip(names, row, strict=True))}" for row in rows]
    if pa.types.is_nested(kind):
        return [f"list{items}" for items in _item_texts(array)]
    if pa.types.is_decimal(kind):
        return [f"decimal {_EXACT.normalize(value or Decimal(0)):f}" for value in array.to_pylist()]
    if pa.types.is_timestamp(kind):
        nanoseconds = 1000 ** (len(_UNITS) - 1 - _UNITS.index(kind.unit))
        return [f"instant {(value or 0) * nanoseconds}" for value in array.cast(pa.int64()).to_pylist()]
    if pa.types.is_null(kind):
        return ["null"] * len(array)
    flat = comparable(pa.chunked_array([array]))
    # The bits of floats are durations of nanoseconds, whose values only pandas shows.
    values = flat.cast(pa.int64()) if pa.types.is_duration(flat.type) else flat
    return [f"{flat.type} {value!r}" for value in values.to_pylist()]


def _item_texts(array: Any) -> list[list[str]]:
    """The texts of the items of each list."""
    texts = _texts(array.flatten())
    ends = np.cumsum(pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)).tolist()
    return [texts[start:end] for start, end in zip([0, *ends], ends, strict=False)]
