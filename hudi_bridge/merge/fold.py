"""The versions of every key at once: which of them survives, and where each field of the survivor comes from.

Keys without a delete among their versions are decided by one sort. The others, and all where fields are merged, are
folded in rounds: the n-th round sets the n-th version of all keys against the survivor so far. When few keys have
versions left, those few are folded one by one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans, Positions, Ranks

_NARROW_ROUND = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """All log versions of a file slice, in the order of their arrival.

    ``codes`` numbers the key of each version from 0 to ``keys`` - 1. ``ranks`` compare as the ordering values do.
    """

    codes: Positions
    keys: int
    ranks: Ranks
    is_delete: Booleans
    always_deletes: Booleans

    def at(self, position: int) -> ordering.Version:
        """One version as the plain rules take it."""
        return (int(self.ranks[position]),), bool(self.is_delete[position]), bool(self.always_deletes[position])


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMerging:
    """The fields that are merged: for each, which versions lack it. Those of ``newest`` follow the later version."""

    lacks: Mapping[str, Booleans]
    newest: frozenset[str] = frozenset()

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return (*self.lacks, *self.newest)


def fold_versions(rule: str, versions: Versions) -> Positions:
    """The position of the surviving version of each key, keys in the order of their codes."""
    positions = np.arange(len(versions.codes))
    survivors = np.empty(versions.keys, dtype=np.int64)
    if rule == ordering.COMMIT_TIME:
        survivors[versions.codes] = positions
        return survivors
    key_has_delete = np.zeros(versions.keys, dtype=np.bool_)
    key_has_delete[versions.codes[versions.is_delete]] = True
    with_delete = key_has_delete[versions.codes]
    plain = positions[~with_delete]
    if rule != ordering.LATEST_OF_10:
        plain = plain[np.argsort(versions.ranks[plain], kind="stable")]
    survivors[versions.codes[plain]] = plain
    if with_delete.any():
        rounds = _Rounds(rule, versions, positions[with_delete], FieldMerging(lacks={}))
        survivors[rounds.codes] = rounds.survivors
    return survivors


def fold_fields(rule: str, versions: Versions, merging: FieldMerging) -> tuple[Positions, dict[str, Positions]]:
    """As ``fold_versions``, and for each field that is merged the version it comes from, by key."""
    rounds = _Rounds(rule, versions, np.arange(len(versions.codes)), merging)
    survivors = np.empty(versions.keys, dtype=np.int64)
    survivors[rounds.codes] = rounds.survivors
    sources = {}
    for name, of_field in rounds.sources.items():
        sources[name] = np.empty(versions.keys, dtype=np.int64)
        sources[name][rounds.codes] = of_field
    return survivors, sources


class _Rounds:
    """Folds the versions of some keys; afterwards, one entry a key in ``codes``, ``survivors`` and ``sources``."""

    def __init__(self, rule: str, versions: Versions, positions: Positions, merging: FieldMerging) -> None:
        self._rule = rule
        self._versions = versions
        self._merging = merging
        self._order = positions[np.argsort(versions.codes[positions], kind="stable")]
        codes = versions.codes[self._order]
        self._starts = np.flatnonzero(np.r_[np.ones(min(len(codes), 1), dtype=np.bool_), np.diff(codes) != 0])
        self._counts = np.diff(np.r_[self._starts, len(codes)])
        self.codes = codes[self._starts]
        self.survivors = self._order[self._starts]
        self.sources = {name: self.survivors.copy() for name in merging.fields}
        self._fold()

    def _fold(self) -> None:
        active = np.flatnonzero(self._counts > 1)
        turn = 1
        while len(active) > _NARROW_ROUND:
            self._round(active, self._order[self._starts[active] + turn])
            turn += 1
            active = active[self._counts[active] > turn]
        for key in active:
            self._fold_one(int(key), turn)

    def _round(self, keys: Positions, later: Positions) -> None:
        versions = self._versions
        earlier = self.survivors[keys]
        replaces = _later_replaces(self._rule, versions, earlier, later)
        mergeable = ~(versions.is_delete[earlier] | versions.is_delete[later])
        for name, source in self.sources.items():
            current = source[keys]
            if name in self._merging.newest:
                takes_later = replaces | mergeable
            else:
                lacks = self._merging.lacks[name]
                filled = np.where(replaces, ~lacks[later], lacks[current])
                takes_later = np.where(mergeable, filled, replaces)
            source[keys] = np.where(takes_later, later, current)
        self.survivors[keys] = np.where(replaces, later, earlier)

    def _fold_one(self, key: int, turn: int) -> None:
        left = self._order[self._starts[key] + turn : self._starts[key] + self._counts[key]]
        kept = int(self.survivors[key])
        sources = {name: int(source[key]) for name, source in self.sources.items()}
        for later in left.tolist():
            one, other = self._versions.at(kept), self._versions.at(later)
            replaces = ordering.later_replaces(self._rule, one, other)
            for name, source in sources.items():
                if one[1] or other[1]:
                    takes_later = replaces
                elif name in self._merging.newest:
                    takes_later = True
                else:
                    lacks = self._merging.lacks[name]
                    takes_later = bool(not lacks[later] if replaces else lacks[source])
                sources[name] = later if takes_later else source
            kept = later if replaces else kept
        self.survivors[key] = kept
        for name, source in sources.items():
            self.sources[name][key] = source


def _later_replaces(rule: str, versions: Versions, earlier: Positions, later: Positions) -> Booleans:
    """``ordering.later_replaces`` for many pairs."""
    if rule == ordering.COMMIT_TIME:
        return np.ones(len(later), dtype=np.bool_)
    not_lower = versions.ranks[later] >= versions.ranks[earlier]
    if rule in (ordering.EVENT_TIME, ordering.LATEST_OF_10):
        undecided = np.where(versions.always_deletes[earlier], ~versions.is_delete[later], not_lower)
        if rule == ordering.LATEST_OF_10:
            undecided |= ~versions.is_delete[later]
    else:
        undecided = not_lower | (versions.is_delete[earlier] & ~versions.is_delete[later])
        if rule == ordering.PAYLOAD_OF_11:
            undecided |= versions.is_delete[later]
    return np.asarray(versions.always_deletes[later] | undecided)
