"""The versions of every key at once: which of them survives.

Keys without a delete among their versions are decided by one sort. The others are folded in rounds, the n-th round
setting the n-th version of all keys against the survivor so far; when few keys have versions left, those few are folded
one by one.
"""

import numpy as np
import numpy.typing as npt

from hudi_bridge.merge import ordering
from hudi_bridge.merge.ranks import Ranks

Positions = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_NARROW_ROUND = 64


def fold_versions(
    rule: str, codes: Positions, distinct: int, ranks: Ranks, is_delete: BoolArray, always_deletes: BoolArray
) -> Positions:
    """The position of the surviving version of each key, keys in the order of their codes.

    ``codes`` numbers the key of each version from 0 to ``distinct`` - 1; versions stand in the order of their arrival.
    """
    positions = np.arange(len(codes))
    survivors = np.empty(distinct, dtype=np.int64)
    if rule == ordering.COMMIT_TIME:
        survivors[codes] = positions
        return survivors
    key_has_delete = np.zeros(distinct, dtype=np.bool_)
    key_has_delete[codes[is_delete]] = True
    with_delete = key_has_delete[codes]
    plain = positions[~with_delete]
    by_rank = plain[np.argsort(ranks[plain], kind="stable")]
    survivors[codes[by_rank]] = by_rank
    if with_delete.any():
        contested = positions[with_delete]
        contested = contested[np.argsort(codes[contested], kind="stable")]
        starts = np.flatnonzero(np.r_[True, np.diff(codes[contested]) != 0])
        survivors[codes[contested[starts]]] = _fold_rounds(rule, contested, starts, ranks, is_delete, always_deletes)
    return survivors


def _fold_rounds(
    rule: str, contested: Positions, starts: Positions, ranks: Ranks, is_delete: BoolArray, always_deletes: BoolArray
) -> Positions:
    counts = np.diff(np.r_[starts, len(contested)])
    survivors = contested[starts]
    active = np.flatnonzero(counts > 1)
    turn = 1
    while len(active) > _NARROW_ROUND:
        later = contested[starts[active] + turn]
        replaces = _later_replaces(rule, survivors[active], later, ranks, is_delete, always_deletes)
        survivors[active] = np.where(replaces, later, survivors[active])
        turn += 1
        active = active[counts[active] > turn]
    for group in active:
        left = contested[starts[group] + turn : starts[group] + counts[group]]
        candidates = np.r_[survivors[group], left]
        versions: list[ordering.Version] = [
            ((rank,), delete, always)
            for rank, delete, always in zip(
                ranks[candidates].tolist(), is_delete[candidates].tolist(), always_deletes[candidates].tolist(), strict=True
            )
        ]
        survivors[group] = candidates[ordering.survivor(rule, versions)]
    return survivors


def _later_replaces(
    rule: str, earlier: Positions, later: Positions, ranks: Ranks, is_delete: BoolArray, always_deletes: BoolArray
) -> BoolArray:
    """``ordering.later_replaces`` for many pairs."""
    not_lower = ranks[later] >= ranks[earlier]
    if rule == ordering.EVENT_TIME:
        undecided = np.where(always_deletes[earlier], ~is_delete[later], not_lower)
    else:
        undecided = np.where(is_delete[earlier] & ~is_delete[later], np.True_, not_lower)
    return np.asarray(always_deletes[later] | undecided)
