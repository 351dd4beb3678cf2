"""Ordering values as integers that compare alike.

Numbers, dates and timestamps rank by value, text and binary by their bytes. A missing value ranks below all, except that
Hudi 1.x puts 0 in the place of a missing number.

Source: ``OrderingValues`` and ``HoodieRecord.DEFAULT_ORDERING_VALUE`` of Hudi 1.x, ``DefaultHoodieRecordPayload`` of 0.x.
"""

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranks = npt.NDArray[np.int64]

_INT32_BITS = 32


def ordering_ranks(columns: Sequence[pa.Array], rows: int, *, nulls_as_zero: bool) -> Ranks:
    """One integer a row, such that comparing two rows' integers compares their ordering values field by field.

    Ranks of different calls are not comparable.
    """
    ranks = np.zeros(rows, dtype=np.int64)
    for position, column in enumerate(columns):
        of_column = _column_ranks(column, nulls_as_zero=nulls_as_zero)
        ranks = of_column if position == 0 else _dense(ranks) * (int(_dense(of_column).max(initial=0)) + 1) + _dense(of_column)
    return ranks


def _column_ranks(column: pa.Array, *, nulls_as_zero: bool) -> Ranks:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _column_ranks(column.dictionary_decode(), nulls_as_zero=nulls_as_zero)
    if pa.types.is_decimal(kind):
        return _ranked(column.fill_null(pa.scalar(Decimal(0), kind)) if nulls_as_zero else column)
    if pa.types.is_floating(kind):
        return _with_nulls(column, _float_ranks(column.cast(pa.float64()).fill_null(0.0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_integer(kind):
        return _with_nulls(column, _values(column.cast(pa.int64()).fill_null(0)), nulls_as_zero=nulls_as_zero)
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind.bit_width == _INT32_BITS else pa.int64()
        return _with_nulls(column, _values(column.cast(width).cast(pa.int64()).fill_null(0)), nulls_as_zero=False)
    return _ranked(column)


def _with_nulls(column: pa.Array, ranks: Ranks, *, nulls_as_zero: bool) -> Ranks:
    if nulls_as_zero or not column.null_count:
        return ranks
    return np.where(column.is_valid().to_numpy(zero_copy_only=False), ranks, np.iinfo(np.int64).min)


def _ranked(column: pa.Array) -> Ranks:
    encoded = column.dictionary_encode()
    rank_of = np.empty(len(encoded.dictionary) + 1, dtype=np.int64)
    rank_of[pc.array_sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(encoded.dictionary))
    rank_of[-1] = -1
    return rank_of[_values(encoded.indices.fill_null(-1))]


def _values(column: pa.Array) -> Ranks:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def _float_ranks(column: pa.Array) -> Ranks:
    # Java's total order of doubles: -0.0 below 0.0, NaN above infinity. The bits of a positive double order as integers,
    # those of a negative one backwards.
    values = column.to_numpy(zero_copy_only=False)
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


def _dense(ranks: Ranks) -> Ranks:
    return np.unique(ranks, return_inverse=True)[1].astype(np.int64)
