"""Finds the surviving log version of all keys at once, and the version that each merged field comes from.

Keys without deletes need one sort. Other keys, and all keys if fields are merged, are folded in rounds: round n
compares the n-th version of each key with the survivor so far.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import MergeError
from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans, Column, Positions, Ranks
from hudi_bridge.merge.custom_payload import RecordMerger, RecordPayload, Row, ask_payload, rows_of_payload
from hudi_bridge.merge.ordering import InLogs
from hudi_bridge.merge.rules import CUSTOM_MERGER, CUSTOM_PAYLOAD

_NARROW_ROUND = 64


@dataclass(frozen=True, kw_only=True)
class Versions:
    """All log versions of a file slice, in order of arrival.

    ``codes`` numbers the key of each version from 0 to ``keys`` - 1. ``ranks`` compare like the ordering values.
    """

    codes: Positions
    keys: int
    ranks: Ranks
    is_delete: Booleans
    always_deletes: Booleans

    @cached_property
    def what(self) -> npt.NDArray[np.int8]:
        """What each version is, as in ``ordering.what_is``."""
        return what_versions_are(self.is_delete, self.always_deletes)

    def at(self, position: int) -> ordering.Version:
        """One version, as the functions of ``merge.ordering`` take it."""
        return (int(self.ranks[position]),), bool(self.is_delete[position]), bool(self.always_deletes[position])


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldMerging:
    """The fields that are merged.

    ``unset`` marks the versions in which a field is unset. Fields in ``newest`` come from the later version.
    """

    unset: Mapping[str, Booleans]
    newest: frozenset[str] = frozenset()

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields."""
        return (*self.unset, *self.newest)


def what_versions_are(is_delete: Booleans, always_deletes: Booleans) -> npt.NDArray[np.int8]:
    """``ordering.what_is`` for many versions."""
    of_ordered = np.where(is_delete, np.int8(ordering.DELETE), np.int8(ordering.ROW))
    return np.where(always_deletes, np.int8(ordering.UNORDERED_DELETE), of_ordered)


def fold_versions(in_logs: InLogs, versions: Versions) -> Positions:
    """The position of the surviving version of each key, by key code.

    ``in_logs`` gives the outcome for two versions, as in ``merge.ordering``.
    """
    positions = np.arange(len(versions.codes))
    survivors = np.empty(versions.keys, dtype=np.int64)
    if all(outcome == ordering.LATER for outcomes in in_logs for outcome in outcomes):
        survivors[versions.codes] = positions
        return survivors
    key_has_delete = np.zeros(versions.keys, dtype=np.bool_)
    key_has_delete[versions.codes[versions.is_delete]] = True
    with_delete = key_has_delete[versions.codes]
    rows = positions[~with_delete]
    match in_logs[ordering.ROW][ordering.ROW]:
        case ordering.HIGHER:
            rows = rows[np.argsort(versions.ranks[rows], kind="stable")]
        case ordering.EARLIER:
            rows = rows[::-1]
    survivors[versions.codes[rows]] = rows
    if with_delete.any():
        rounds = _Rounds(in_logs, versions, positions[with_delete], FieldMerging(unset={}))
        survivors[rounds.codes] = rounds.survivors
    return survivors


def fold_fields(in_logs: InLogs, versions: Versions, merging: FieldMerging) -> tuple[Positions, dict[str, Positions]]:
    """As ``fold_versions``, with the position of the version that each merged field comes from, by key code."""
    rounds = _Rounds(in_logs, versions, np.arange(len(versions.codes)), merging)
    survivors = np.empty(versions.keys, dtype=np.int64)
    survivors[rounds.codes] = rounds.survivors
    sources = {}
    for name, of_field in rounds.sources.items():
        sources[name] = np.empty(versions.keys, dtype=np.int64)
        sources[name][rounds.codes] = of_field
    return survivors, sources


class _Rounds:
    """Folds the versions of some keys; ``codes``, ``survivors`` and ``sources`` then have one entry per key."""

    def __init__(self, in_logs: InLogs, versions: Versions, positions: Positions, merging: FieldMerging) -> None:
        self._in_logs = in_logs
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
        round_number = 1
        while len(active) > _NARROW_ROUND:
            self._round(active, self._order[self._starts[active] + round_number])
            round_number += 1
            active = active[self._counts[active] > round_number]
        for key in active:
            self._fold_one(int(key), round_number)

    def _round(self, keys: Positions, later: Positions) -> None:
        versions = self._versions
        earlier = self.survivors[keys]
        replaces = _later_replaces(self._in_logs, versions, earlier, later)
        mergeable = ~(versions.is_delete[earlier] | versions.is_delete[later])
        for name, source in self.sources.items():
            current = source[keys]
            if name in self._merging.newest:
                takes_later = replaces | mergeable
            else:
                unset = self._merging.unset[name]
                filled = np.where(replaces, ~unset[later], unset[current])
                takes_later = np.where(mergeable, filled, replaces)
            source[keys] = np.where(takes_later, later, current)
        self.survivors[keys] = np.where(replaces, later, earlier)

    def _fold_one(self, key: int, round_number: int) -> None:
        left = self._order[self._starts[key] + round_number : self._starts[key] + self._counts[key]]
        kept = int(self.survivors[key])
        sources = {name: int(source[key]) for name, source in self.sources.items()}
        for later in left.tolist():
            one, other = self._versions.at(kept), self._versions.at(later)
            replaces = ordering.later_replaces(self._in_logs, one, other)
            for name, source in sources.items():
                if one[1] or other[1]:
                    takes_later = replaces
                elif name in self._merging.newest:
                    takes_later = True
                else:
                    unset = self._merging.unset[name]
                    takes_later = bool(not unset[later] if replaces else unset[source])
                sources[name] = later if takes_later else source
            kept = later if replaces else kept
        self.survivors[key] = kept
        for name, source in sources.items():
            self.sources[name][key] = source


def _later_replaces(in_logs: InLogs, versions: Versions, earlier: Positions, later: Positions) -> Booleans:
    """``ordering.later_replaces`` for many pairs."""
    outcomes = np.array(in_logs, dtype=np.int8)[versions.what[earlier], versions.what[later]]
    not_lower = versions.ranks[later] >= versions.ranks[earlier]
    return np.asarray(np.where(outcomes == ordering.HIGHER, not_lower, outcomes == ordering.LATER))


def combine_versions(
    payload: RecordPayload, versions: Versions, keys: Column, row_of_version: Positions, rows: pa.Table
) -> tuple[Positions, Booleans, Positions, pa.Table]:
    """The surviving version of each key and whether it is a delete; the row of each version; the rows.

    Combined rows are appended to the rows. A delete replaces an earlier row, for a payload unless its ordering value is
    lower, and a row replaces an earlier delete. Two rows are combined; the later one survives, for a payload the one
    with the higher ordering value, with the combined row.

    Raises:
        MergeError: the payload failed.
    """
    order = np.argsort(versions.codes, kind="stable")
    bounds = np.flatnonzero(np.diff(versions.codes[order])) + 1
    survivors = np.empty(versions.keys, dtype=np.int64)
    deletes = np.zeros(versions.keys, dtype=np.bool_)
    row_of_version = row_of_version.copy()
    combined: list[Row] = []
    for group in np.split(order, bounds) if len(order) else []:
        code = versions.codes[group[0]]
        if len(group) == 1:
            survivors[code], deletes[code] = group[0], versions.is_delete[group[0]]
            continue
        kept, is_delete, row = _combine_one(payload, versions, group, str(keys[int(group[0])]), rows, row_of_version)
        survivors[code], deletes[code] = kept, is_delete
        if row is not None:
            row_of_version[kept] = rows.num_rows + len(combined)
            combined.append(row)
    if combined:
        rows = pa.concat_tables([rows, pa.Table.from_batches([rows_of_payload(payload, combined, rows.schema)])])
    return survivors, deletes, row_of_version, rows


def _combine_one(
    payload: RecordPayload,
    versions: Versions,
    group: Positions,
    record_key: str,
    rows: pa.Table,
    row_of_version: Positions,
) -> tuple[int, bool, Row | None]:
    """The surviving version of a key, whether it is a delete, and its combined row, if there is one."""
    is_merger = isinstance(payload, RecordMerger)
    in_logs = (CUSTOM_MERGER if is_merger else CUSTOM_PAYLOAD).in_logs
    kept, row = int(group[0]), None
    is_delete = bool(versions.is_delete[kept])
    for later in group[1:].tolist():
        if is_delete or versions.is_delete[later]:
            if ordering.later_replaces(in_logs, versions.at(kept), versions.at(later)):
                kept, row, is_delete = later, None, bool(versions.is_delete[later])
            continue
        if row is None:
            row = _row(rows, row_of_version[kept])
        method = "merge" if is_merger else "pre_combine"
        row = ask_payload(payload, method, record_key, row, _row(rows, row_of_version[later]))
        if row is None and not is_merger:
            raise MergeError(type(payload).__name__, record_key, "pre_combine returned None, expected a row")
        is_delete = row is None
        if is_merger or versions.ranks[later] >= versions.ranks[kept]:
            kept = later
    return kept, is_delete, row


def _row(rows: pa.Table, position: int) -> Row:
    found: Row = rows.slice(position, 1).to_pylist()[0]
    return found
