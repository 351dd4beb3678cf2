"""Pairs rows whose record key is there more than once: first those with equal values, so that order does not matter."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.row_differences import Keys, RowPairs, pair_rows
from hudi_bridge.merge.arrays import Booleans, Positions

Equal: TypeAlias = Callable[[Positions, Positions], Booleans]
"""Whether the values of rows of the one state equal those of rows of the other, by their positions."""


def pair_equal_rows_first(before: Keys, after: Keys, equal: Equal) -> RowPairs:
    """As ``pair_rows``; of rows with one key, those with equal values are paired first."""
    pairs = pair_rows(before, after)
    distinct = pc.unique(pa.chunked_array([*before.chunks, *after.chunks], pa.string()))
    codes, later = (np.asarray(pc.index_in(keys, value_set=distinct).to_numpy()) for keys in (before, after))
    counts = (np.bincount(some, minlength=len(distinct)) for some in (codes, later))
    repeated = np.logical_or(*(count > 1 for count in counts))
    if not repeated.any():
        return pairs
    alike, alike_later = _equal_pairs(codes, later, repeated, equal)
    rest = np.setdiff1d(np.arange(len(before)), alike)
    rest_later = np.setdiff1d(np.arange(len(after)), alike_later)
    others = pair_rows(before.take(pa.array(rest, pa.int64())), after.take(pa.array(rest_later, pa.int64())))
    return RowPairs(
        before=np.concatenate([alike, rest[others.before]]),
        after=np.concatenate([alike_later, rest_later[others.after]]),
        only_before=rest[others.only_before],
        only_after=rest_later[others.only_after],
    )


def _equal_pairs(codes: Positions, later: Positions, repeated: Booleans, equal: Equal) -> tuple[Positions, Positions]:
    """Pairs of rows with a repeated key and equal values; in each round, one row of each key is compared with all."""
    found: list[tuple[Positions, Positions]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    rest, rest_later = (np.flatnonzero(repeated[some]) for some in (codes, later))
    while len(rest) and len(rest_later):
        keys, first = np.unique(codes[rest], return_index=True)
        places = np.minimum(np.searchsorted(keys, later[rest_later]), len(keys) - 1)
        candidates = np.flatnonzero(keys[places] == later[rest_later])
        ones, others = rest[first][places[candidates]], rest_later[candidates]
        same = equal(ones, others)
        _, chosen = np.unique(ones[same], return_index=True)
        found.append((ones[same][chosen], others[same][chosen]))
        rest = np.delete(rest, first)
        rest_later = np.setdiff1d(rest_later, found[-1][1])
    before, after = (np.concatenate(some) for some in zip(*found, strict=True))
    return before, after
