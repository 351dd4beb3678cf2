"""Pairs rows whose record key is there more than once: first those with equal values, so that order does not matter."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.row_differences import Keys, RowPairs, pair_rows
from hudi_bridge.merge.arrays import Booleans, Positions

Numbered: TypeAlias = Callable[[Positions, Positions], Positions]
"""Numbers for rows of one state, then for rows of the other, by their positions; the same where values are equal."""


def pair_equal_rows_first(before: Keys, after: Keys, numbered: Numbered) -> RowPairs:
    """As ``pair_rows``; of rows with one key, those with equal values are paired first."""
    pairs = pair_rows(before, after)
    distinct = pc.unique(pa.chunked_array([*before.chunks, *after.chunks], pa.string()))
    codes, later = (np.asarray(pc.index_in(keys, value_set=distinct).to_numpy()) for keys in (before, after))
    counts = [np.bincount(some, minlength=len(distinct)) for some in (codes, later)]
    repeated = (np.minimum(*counts) > 0) & (np.maximum(*counts) > 1)
    if not repeated.any():
        return pairs
    alike, alike_later = _equal_pairs(codes, later, repeated, numbered)
    rest = np.setdiff1d(np.arange(len(before)), alike)
    rest_later = np.setdiff1d(np.arange(len(after)), alike_later)
    others = pair_rows(before.take(pa.array(rest, pa.int64())), after.take(pa.array(rest_later, pa.int64())))
    return RowPairs(
        before=np.concatenate([alike, rest[others.before]]),
        after=np.concatenate([alike_later, rest_later[others.after]]),
        only_before=rest[others.only_before],
        only_after=rest_later[others.only_after],
    )


def _equal_pairs(
    codes: Positions, later: Positions, wanted: Booleans, numbered: Numbered
) -> tuple[Positions, Positions]:
    """Pairs of rows with one of the wanted keys and equal values: the first rows of these, then the second ones."""
    rows, others = (np.flatnonzero(wanted[some]) for some in (codes, later))
    values = numbered(rows, others)
    keys = np.concatenate([codes[rows], later[others]]).astype(np.int64)
    both = pa.array(keys * (values.max(initial=0) + 1) + values)
    pairs = pair_rows(pa.chunked_array([both[: len(rows)]]), pa.chunked_array([both[len(rows) :]]))
    return rows[pairs.before], others[pairs.after]
