"""Ranks ordering values: integers that compare like the values.

Text and binary compare by their bytes. Missing values rank below all others, except that missing numbers count as 0 in
Hudi 1.x. Hudi 0.x compares the bytes of binary as signed numbers; and decimals among log versions by the bytes that
Avro stores of them, so that those below 0 are above all others.

Source: ``OrderingValues`` and ``HoodieRecord.DEFAULT_ORDERING_VALUE`` of Hudi 1.x, ``DefaultHoodieRecordPayload`` of
0.x, whose values are a ``ByteBuffer`` and a ``GenericData.Fixed`` of Avro.
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.arrays import Column, Ranks
from hudi_bridge.merge.rules import MergeRule

_INT32_BITS = 32
_SIGN_BIT = np.uint8(0x80)


def ordering_ranks(columns: Sequence[Column], rows: int, rule: MergeRule, *, against_base: bool) -> Ranks:
    """One integer per row; the integers of two rows compare like their ordering values, field by field.

    Ranks of different calls are not comparable. With ``against_base``, the first half of the rows are log versions and
    the second half the base rows to compare them with.
    """
    if rule.sequences_against_base if against_base else rule.sequences_in_logs:
        columns = [part for column in columns for part in _sequence_parts(column)]
        if against_base:
            columns.append(pa.array(np.arange(rows) >= rows // 2).cast(pa.int8()))
    if against_base:
        columns = [column for column in columns if rule.compares_with_base(column.type)]
    if rule.precedence.orders_as_0x:
        columns = [part for column in columns for part in _parts_in_0x(column, against_base=against_base)]
    ranks = np.zeros(rows, dtype=np.int64)
    for position, column in enumerate(columns):
        of_column = _column_ranks(column, nulls_as_zero=rule.precedence.nulls_as_zero)
        if position == 0:
            ranks = of_column
        else:
            lower = _dense(of_column)
            ranks = _dense(ranks) * (int(lower.max(initial=0)) + 1) + lower
    return ranks


def _sequence_parts(column: Column) -> tuple[Column, Column]:
    """The file numbers and the positions of texts like ``000005.1234``; null for a text of another form."""
    parts = pc.extract_regex(column.cast(pa.string()), r"^(?P<file>[0-9]{1,18})\.(?P<position>[0-9]{1,18})$")
    return tuple(pc.struct_field(parts, name).cast(pa.int64()) for name in ("file", "position"))


def _parts_in_0x(column: Column, *, against_base: bool) -> tuple[Column, ...]:
    """The columns by which 0.x compares the values of one, one after the other."""
    if pa.types.is_dictionary(column.type):
        return _parts_in_0x(column.cast(column.type.value_type), against_base=against_base)
    if pa.types.is_decimal(column.type) and not against_base:
        return pc.less(column, pa.scalar(Decimal(0), column.type)), column
    return (_with_signed_bytes(column) if pa.types.is_binary(column.type) else column,)


def _with_signed_bytes(column: Column) -> Column:
    """Values whose unsigned bytes compare like the signed ones of these."""
    validity, offsets, data = column.buffers()
    flipped = np.frombuffer(memoryview(data or b""), dtype=np.uint8) ^ _SIGN_BIT
    buffers = [validity, offsets, pa.py_buffer(flipped.tobytes())]
    return pa.Array.from_buffers(column.type, len(column), buffers, offset=column.offset)


def _column_ranks(column: Column, *, nulls_as_zero: bool) -> Ranks:
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        return _column_ranks(column.cast(data_type.value_type), nulls_as_zero=nulls_as_zero)
    if pa.types.is_decimal(data_type):
        return _ranks_by_sorting(column.fill_null(pa.scalar(Decimal(0), data_type)) if nulls_as_zero else column)
    if pa.types.is_floating(data_type):
        return _with_nulls(column, _float_ranks(column.cast(pa.float64()).fill_null(0.0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_integer(data_type):
        return _with_nulls(column, _values(column.cast(pa.int64()).fill_null(0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_temporal(data_type):
        width = pa.int32() if data_type.bit_width == _INT32_BITS else pa.int64()
        return _with_nulls(column, _values(column.cast(width).cast(pa.int64()).fill_null(0)), nulls_as_zero=False)
    if pa.types.is_nested(data_type):
        raise UnsupportedTableError(
            "ordering field", f"a column of type {data_type}", "plain types, which have an order"
        )
    return _ranks_by_sorting(column)


def _with_nulls(column: Column, ranks: Ranks, *, nulls_as_zero: bool) -> Ranks:
    if nulls_as_zero or not column.null_count:
        return ranks
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), _dense(ranks), -1)


def _ranks_by_sorting(column: Column) -> Ranks:
    encoded = column.dictionary_encode()
    rank_of = np.empty(len(encoded.dictionary) + 1, dtype=np.int64)
    rank_of[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    rank_of[-1] = -1
    return rank_of[_values(encoded.indices.fill_null(-1))]


def _values(column: Column) -> Ranks:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _float_ranks(column: Column) -> Ranks:
    # Java's total order of doubles: -0.0 below 0.0, NaN above infinity. The bits of a positive double order as
    # integers, those of a negative one backwards.
    values = column.to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def _dense(ranks: Ranks) -> Ranks:
    return np.unique(ranks, return_inverse=True)[1].astype(np.int64)
