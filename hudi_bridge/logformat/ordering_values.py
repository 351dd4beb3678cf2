"""Casts the ordering values of deletes to the types of the table's ordering fields.

As in Hudi 1.x, numbers compare whatever their width, an Integer with a long column too, but never with a String.
Dates, times and timestamps may also be stored as the int or long of their Avro encoding, in the column's unit.
What Hudi 0.x compares, ``of_other_classes`` tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.logformat.layout import OrderingKind

Column: TypeAlias = "pa.Array[Any]"

DEFAULT = -1
"""In place of the number of ordering values: the delete has the default ordering value."""

_STORED_TYPES: dict[OrderingKind, pa.DataType] = {
    OrderingKind.NULL: pa.null(),
    OrderingKind.BOOLEAN: pa.bool_(),
    OrderingKind.INT: pa.int32(),
    OrderingKind.LONG: pa.int64(),
    OrderingKind.FLOAT: pa.float32(),
    OrderingKind.DOUBLE: pa.float64(),
    OrderingKind.BYTES: pa.binary(),
    OrderingKind.STRING: pa.string(),
    OrderingKind.UTF8: pa.string(),
    OrderingKind.DATE: pa.int32(),
    OrderingKind.LOCAL_DATE: pa.int32(),
    OrderingKind.TIME_MICROS: pa.int64(),
    OrderingKind.TIMESTAMP_MICROS: pa.int64(),
}
_INT_BITS = 32
_WHOLE_NUMBERS = frozenset({OrderingKind.INT, OrderingKind.LONG})
_NUMBERS = frozenset({OrderingKind.FLOAT, OrderingKind.DOUBLE}) | _WHOLE_NUMBERS
_DATES = frozenset({OrderingKind.DATE, OrderingKind.LOCAL_DATE}) | _WHOLE_NUMBERS


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderingGroup:
    """The values of one kind for one ordering field; ``positions`` are their record numbers, ascending.

    Dates are numbers of days, times numbers of microseconds. Decimals have a type that holds all of them.
    """

    field_index: int
    kind: OrderingKind
    positions: npt.NDArray[np.int64]
    values: Column

    @classmethod
    def of(cls, *, field_index: int, kind: OrderingKind, positions: list[int], values: list[Any]) -> Self:
        """A group of Python values.

        Raises:
            pa.ArrowInvalid, OverflowError: a value is out of the range of its kind.
        """
        return cls(
            field_index=field_index,
            kind=kind,
            positions=np.array(positions, dtype=np.int64),
            values=pa.array(values, _STORED_TYPES.get(kind)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Orderings:
    """Ordering values as columns, one per ordering field.

    ``comparable`` is false, and every column null, for a default ordering value and for one that does not compare
    with the fields: it has another number of values, or a value of another kind. A null among several values does
    compare; its column is null in that row.
    """

    columns: tuple[Column, ...]
    comparable: pa.BooleanArray


def cast_orderings(
    groups: Sequence[OrderingGroup], field_counts: npt.NDArray[np.int32], types: Sequence[pa.DataType]
) -> Orderings:
    """The values of all records as columns of these types; ``field_counts`` has the number of values of each record."""
    comparable = (field_counts == len(types)) & (field_counts > 0)
    fields: list[tuple[npt.NDArray[np.int64], Column]] = []
    for index, data_type in enumerate(types):
        rows, values, compares = _cast_field(
            [group for group in groups if group.field_index == index], data_type, len(field_counts)
        )
        comparable &= compares
        fields.append((rows, values))
    columns: list[Column] = []
    for rows, values in fields:
        indices: pa.Int64Array = pa.array(rows, pa.int64(), mask=(rows < 0) | ~comparable)
        columns.append(values.take(indices))
    return Orderings(columns=tuple(columns), comparable=pa.array(comparable))


def of_other_classes(
    groups: Sequence[OrderingGroup], records: int, types: Sequence[pa.DataType]
) -> npt.NDArray[np.bool_]:
    """Which of the records have values of other Java classes than those that Hudi 0.x reads from rows of these types.

    0.x compares a delete with a row only if their classes are equal. It takes the value of a row as Avro has it, such
    as a date as an Integer. It unwraps that of a delete, as a LocalDate.

    Source: ``HoodieMergedLogRecordScanner.processNextDeletedRecord``, ``SpillableMapUtils.getPreCombineVal`` and
    ``HoodieAvroUtils.unwrapAvroValueWrapper`` of 0.x.
    """
    others = np.zeros(records, dtype=np.bool_)
    in_rows = list(map(_kind_in_rows, types))
    for group in groups:
        if group.field_index >= len(in_rows) or group.kind is not in_rows[group.field_index]:
            others[group.positions] = True
    return others


def _kind_in_rows(data_type: pa.DataType) -> OrderingKind | None:
    """The kind of a delete's value whose class is that of the Avro value; None for decimals, which no kind has."""
    types = pa.types
    if types.is_integer(data_type) or types.is_temporal(data_type):
        return OrderingKind.INT if data_type.bit_width <= _INT_BITS else OrderingKind.LONG
    if types.is_floating(data_type):
        return OrderingKind.FLOAT if types.is_float32(data_type) else OrderingKind.DOUBLE
    if types.is_boolean(data_type):
        return OrderingKind.BOOLEAN
    if types.is_string(data_type) or types.is_large_string(data_type):
        return OrderingKind.UTF8
    return OrderingKind.BYTES if types.is_binary(data_type) or types.is_large_binary(data_type) else None


def _cast_field(
    groups: Sequence[OrderingGroup], data_type: pa.DataType, length: int
) -> tuple[npt.NDArray[np.int64], Column, npt.NDArray[np.bool_]]:
    """The values of one field, as (index into the values or -1, values, whether the value compares).

    The indices and the flags have one entry per record.
    """
    rows = np.full(length, -1, dtype=np.int64)
    compares = np.zeros(length, dtype=np.bool_)
    pieces: list[Column] = [pa.array([], data_type)]
    filled = 0
    for group in groups:
        if group.kind is OrderingKind.NULL:
            compares[group.positions] = True
            continue
        cast = _cast(group, data_type)
        if cast is None:
            continue
        compares[group.positions] = cast.is_valid().to_numpy(zero_copy_only=False)
        rows[group.positions] = np.arange(filled, filled + len(cast))
        filled += len(cast)
        pieces.append(cast)
    return rows, pa.concat_arrays(pieces), compares


def _cast(group: OrderingGroup, data_type: pa.DataType) -> "Column | None":
    """The values cast to the type, null where one does not fit; None if the kind does not compare with the type."""
    via = _intermediate_type(group.kind, data_type)
    if via is None:
        return None
    values = group.values
    if pa.types.is_floating(data_type):
        # An integer beyond a float's precision is rounded, as in Java's comparison.
        return values.cast(via, safe=False).cast(data_type, safe=False)
    try:
        return values.cast(via).cast(data_type)
    except pa.ArrowInvalid:
        return pa.concat_arrays([_cast_one(values.slice(row, 1), via, data_type) for row in range(len(values))])


def _cast_one(value: Column, via: pa.DataType, data_type: pa.DataType) -> Column:
    try:
        return value.cast(via).cast(data_type)
    except pa.ArrowInvalid:
        return pa.array([None], data_type)


def _intermediate_type(kind: OrderingKind, data_type: pa.DataType) -> pa.DataType | None:
    """The type to cast to before the column's type; None if the kind does not compare with the column."""
    types = pa.types
    if types.is_timestamp(data_type):
        if kind is OrderingKind.TIMESTAMP_MICROS:
            return pa.timestamp("us", data_type.tz)
        return pa.int64() if kind in _WHOLE_NUMBERS else None
    if types.is_date32(data_type):
        return pa.int32() if kind in _DATES else None
    if types.is_time(data_type):
        if kind is OrderingKind.TIME_MICROS:
            return pa.time64("us")
        width = pa.int32() if types.is_time32(data_type) else pa.int64()
        return width if kind in _WHOLE_NUMBERS else None
    if types.is_integer(data_type):
        return data_type if kind in _WHOLE_NUMBERS else None
    if types.is_floating(data_type):
        return pa.float64() if kind in _NUMBERS else None
    return data_type if _is_same_kind(kind, data_type) else None


def _is_same_kind(kind: OrderingKind, data_type: pa.DataType) -> bool:
    types = pa.types
    match kind:
        case OrderingKind.BOOLEAN:
            return types.is_boolean(data_type)
        case OrderingKind.STRING | OrderingKind.UTF8:
            return types.is_string(data_type) or types.is_large_string(data_type)
        case OrderingKind.BYTES:
            return types.is_binary(data_type) or types.is_large_binary(data_type)
        case OrderingKind.DECIMAL:
            return types.is_decimal(data_type)
    return False
