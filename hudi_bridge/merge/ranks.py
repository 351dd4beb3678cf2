"""Ordering values as integers that compare alike.

Numbers, dates and timestamps rank by value, text and binary by their bytes. A missing number ranks as 0, which is what
Hudi puts in its place; any other missing value ranks below all.

Source: ``OrderingValues`` and ``HoodieRecord.DEFAULT_ORDERING_VALUE`` of Hudi.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ranks = npt.NDArray[np.int64]


def ordering_ranks(columns: Sequence[pa.Array | pa.ChunkedArray], rows: int) -> Ranks:
    """One integer a row, such that comparing two rows' integers compares their ordering values field by field.

    Ranks of different calls are not comparable.
    """
    ranks = np.zeros(rows, dtype=np.int64)
    for position, column in enumerate(columns):
        of_column = _column_ranks(column)
        ranks = of_column if position == 0 else _dense(ranks) * (int(_dense(of_column).max(initial=0)) + 1) + _dense(of_column)
    return ranks


def _column_ranks(column: pa.Array | pa.ChunkedArray) -> Ranks:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _column_ranks(column.dictionary_decode())
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64)
    if pa.types.is_integer(kind):
        return _values(column.cast(pa.int64()).fill_null(0))
    if pa.types.is_boolean(kind):
        return _values(column.cast(pa.int64()).fill_null(-1))
    if pa.types.is_floating(kind):
        return _float_ranks(column.cast(pa.float64()).fill_null(0.0))
    if pa.types.is_decimal(kind):
        column = column.fill_null(pa.scalar(0).cast(kind))
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return _values(column.cast(pa.int32()).cast(pa.int64()).fill_null(np.iinfo(np.int64).min))
    elif pa.types.is_temporal(kind):
        return _values(column.cast(pa.int64()).fill_null(np.iinfo(np.int64).min))
    return _values(pc.rank(column, sort_keys="ascending", null_placement="at_start", tiebreaker="dense").cast(pa.int64()))


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
