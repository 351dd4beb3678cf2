"""Merges the rows of a base file with the surviving log records.

If a base file has several rows with the same key, only the first is merged by key, as in Hudi; by position, each is
merged with its own log record.

Source: ``KeyBasedFileGroupRecordBuffer`` and ``PositionBasedFileGroupRecordBuffer`` of Hudi.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import map_in_threads
from hudi_bridge.merge import ordering
from hudi_bridge.merge.arrays import Booleans, Column, Positions, Value, ordering_values
from hudi_bridge.merge.custom_payload import (
    RecordMerger,
    RecordPayload,
    ask_payload,
    merge_base_rows,
    rows_of_payload,
    value_at,
)
from hudi_bridge.merge.fold import fills_earlier, ordering_ranks, unset_fields, what_versions_are
from hudi_bridge.merge.record_map import LogRecordMap
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.schema.meta_columns import META_COLUMNS

_MIN_KEYS_PER_THREAD = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMatches:
    """The matches of ``base_rows`` base rows with log records of the same key or position.

    Each match has an ascending position in the base rows (``rows``), a position in the log records (``records``), and
    whether the log record wins.
    """

    base_rows: int
    rows: Positions
    records: Positions
    log_wins: Booleans

    def between(self, start: int, end: int) -> "KeyMatches":
        """The matches of the base rows from ``start`` up to ``end``, with positions counted from ``start``."""
        low, high = np.searchsorted(self.rows, [start, end])
        return KeyMatches(
            base_rows=end - start,
            rows=self.rows[low:high] - start,
            records=self.records[low:high],
            log_wins=self.log_wins[low:high],
        )

    def among(self, positions: Positions) -> "KeyMatches":
        """The matches of the base rows at ascending positions, with positions counted among those rows."""
        indices = np.searchsorted(positions, self.rows)
        inside = indices < len(positions)
        inside[inside] = positions[indices[inside]] == self.rows[inside]
        return KeyMatches(
            base_rows=len(positions),
            rows=indices[inside],
            records=self.records[inside],
            log_wins=self.log_wins[inside],
        )


def no_matches(base_rows: int = 0) -> KeyMatches:
    """No matches in a number of base rows."""
    nothing = np.empty(0, dtype=np.int64)
    return KeyMatches(base_rows=base_rows, rows=nothing, records=nothing, log_wins=nothing.astype(np.bool_))


def joined(matches: Sequence[KeyMatches]) -> KeyMatches:
    """Concatenates the matches of consecutive base rows."""
    starts = np.cumsum([0, *(part.base_rows for part in matches)])
    return KeyMatches(
        base_rows=int(starts[-1]),
        rows=np.concatenate([part.rows + start for part, start in zip(matches, starts[:-1], strict=True)]),
        records=np.concatenate([part.records for part in matches]),
        log_wins=np.concatenate([part.log_wins for part in matches]),
    )


def _indices(keys: Column, log_keys: Column, threads: int) -> Column:
    """The index of each key in the log keys; null if it is not among them."""
    find: Callable[[Column], Column] = partial(pc.index_in, value_set=log_keys)  # type: ignore[assignment]
    # Each thread hashes all log keys, so a part has at least as many keys.
    part_keys = max(len(keys) // threads, len(log_keys), _MIN_KEYS_PER_THREAD) + 1
    parts = [keys.slice(start, part_keys) for start in range(0, len(keys), part_keys)]
    if len(parts) <= 1:
        return find(keys)
    return pa.concat_arrays(map_in_threads(find, parts, threads))


class FileSliceMerger:
    """The merge of one file slice.

    Call ``match`` for all keys of the base file, then ``remaining_log_rows``. ``wins_always`` marks log records that
    win over any base row, ``compares_as_delete`` log records that the rule compares as deletes. ``merges_rows`` is
    whether the fields of a base row and a log record may be merged into a new row.
    """

    def __init__(
        self, log_records: LogRecordMap, rule: MergeRule, defaults: Mapping[str, Value], threads: int = 1
    ) -> None:
        """Prepares a merge whose keys are looked up by several ``threads``."""
        self._threads = threads
        self.log_records = self._log = log_records
        self._rule = rule
        self._defaults = defaults
        self._matched = np.zeros(len(log_records), dtype=np.bool_)
        self._beaten = np.zeros(len(log_records), dtype=np.bool_)
        self.merges_rows = rule.merges_fields or bool(log_records.unset)
        # Under some rules, a mark takes effect only after its version has survived; it is compared as a row.
        self._is_delete = self.compares_as_delete = log_records.is_delete
        if not rule.precedence.marked_in_logs:
            self.compares_as_delete = self._is_delete & ~log_records.marked
        versions = what_versions_are(self.compares_as_delete, log_records.always_deletes)
        self._outcomes = np.array(rule.precedence.over_base_row, dtype=np.int8)[versions]
        self.wins_always = self._outcomes == ordering.LATER

    def match(self, base_keys: Column, base_ordering: Sequence[Column]) -> KeyMatches:
        """Matches base rows with the log records of the same keys.

        Call it once for each batch of a base file, in order. ``base_ordering`` has their ordering values, or nothing if
        the rule does not compare them.
        """
        if not len(self._log):
            return no_matches(len(base_keys))
        indices = _indices(base_keys, self._log.keys, self._threads)
        rows = np.flatnonzero(indices.is_valid().to_numpy(zero_copy_only=False))
        records = indices.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        first = np.zeros(len(records), dtype=np.bool_)
        first[np.unique(records, return_index=True)[1]] = True
        first &= ~self._matched[records]
        return self._decide(len(base_keys), rows[first], records[first], base_ordering)

    def match_positions(
        self, start: int, base_rows: int, base_ordering: Sequence[Column], counted: Booleans | None = None
    ) -> KeyMatches:
        """As ``match``, but by position, for ``base_rows`` rows from ``start``; rows that are not ``counted`` match
        nothing.

        All log records need positions (``LogRecordMap.base_positions``).
        """
        positions, order = self._by_position
        low, high = np.searchsorted(positions, [start, start + base_rows])
        rows, records = positions[low:high] - start, order[low:high]
        if counted is not None:
            rows, records = rows[counted[rows]], records[counted[rows]]
        return self._decide(base_rows, rows, records, base_ordering)

    def match_chosen(
        self, positions: Positions, base_ordering: Sequence[Column], counted: Booleans | None = None
    ) -> KeyMatches:
        """As ``match_positions``, for base rows at ascending ``positions``."""
        log_positions, order = self._by_position
        indices = np.searchsorted(log_positions, positions)
        matched = indices < len(log_positions)
        matched[matched] = log_positions[indices[matched]] == positions[matched]
        if counted is not None:
            matched &= counted
        return self._decide(len(positions), np.flatnonzero(matched), order[indices[matched]], base_ordering)

    @cached_property
    def _by_position(self) -> tuple[Positions, Positions]:
        """The base positions in ascending order, and the log record of each."""
        positions = self._log.base_positions
        if positions is None:
            raise ValueError("log records without base positions")
        order = np.argsort(positions, kind="stable")
        return positions[order], order

    def _decide(
        self, base_rows: int, rows: Positions, records: Positions, base_ordering: Sequence[Column]
    ) -> KeyMatches:
        self._matched[records] = True
        wins = self.wins_always[records]
        if not wins.all():
            compared = self._outcomes[records] == ordering.HIGHER
            if compared.any():
                base_values = [column.take(pa.array(rows, pa.int64())) for column in base_ordering]
                wins = wins | (compared & self._log_is_not_lower(records, base_values))
            self._beaten[records[~wins]] = True
        return KeyMatches(base_rows=base_rows, rows=rows, records=records, log_wins=wins)

    def _log_is_not_lower(self, records: Positions, base_ordering: Sequence[Column]) -> Booleans:
        indices = pa.array(records, pa.int64())
        orderings = [
            pa.concat_arrays([log_column.take(indices), base_column.cast(log_column.type)])
            for log_column, base_column in zip(self._log.ordering, base_ordering, strict=True)
        ]
        ranks = ordering_ranks(orderings, 2 * len(records), self._rule, against_base=True)
        return np.asarray(ranks[: len(records)] >= ranks[len(records) :])

    def superseded(self, matches: KeyMatches) -> Positions:
        """The positions of the matched base rows that are replaced, deleted or merged."""
        return matches.rows if self.merges_rows else matches.rows[matches.log_wins]

    def merged_rows(self, base: pa.RecordBatch, matches: KeyMatches) -> pa.RecordBatch:
        """The matched base rows, merged with their log records, without deleted ones."""
        if self._rule.payload is not None:
            return self._rows_by_payload(self._rule.payload, base, matches)
        is_delete = self._is_delete[matches.records]
        stays = ~(matches.log_wins & is_delete)
        base = base.filter(pa.array(stays))
        records, wins, is_delete = matches.records[stays], matches.log_wins[stays], is_delete[stays]
        base_unset = unset_fields(base, self._rule, self._defaults) if fills_earlier(self._rule) else {}
        nothing = np.zeros(len(records), dtype=np.bool_)
        columns = []
        for name in base.schema.names:
            log_unset = nothing.copy()
            if name in self._log.unset:
                log_unset[~is_delete] = self._log.unset[name][records[~is_delete]]
            from_log = np.where(wins, ~log_unset, base_unset.get(name, nothing))
            if self._rule.newest_meta and name in META_COLUMNS:
                from_log = ~nothing
            # A delete that loses has no fields.
            columns.append(self._merged_column(base.column(name), name, records, from_log & ~is_delete))
        return pa.record_batch(columns, schema=base.schema)

    def _rows_by_payload(self, payload: RecordPayload, base: pa.RecordBatch, matches: KeyMatches) -> pa.RecordBatch:
        if isinstance(payload, RecordMerger) and self._rule.precedence.asks_about_deletes:
            base_ordering = [ordering_values(name, base) for name in self._rule.ordering_fields]
            return merge_base_rows(payload, base, base_ordering, self._versions(matches.records))
        stays = ~self._is_delete[matches.records]
        records = pa.array(matches.records[stays], pa.int64())
        keys = self._log.keys.take(records).to_pylist()
        pairs = zip(base.filter(pa.array(stays)).to_pylist(), self._log.rows.take(records).to_pylist(), strict=True)
        combined = (
            ask_payload(payload, "combine_and_get_update_value", str(key), current, incoming)
            for key, (current, incoming) in zip(keys, pairs, strict=True)
        )
        return rows_of_payload(payload, combined, base.schema)

    def _versions(self, records: Positions) -> Iterator[tuple[str, Mapping[str, Any] | None, object]]:
        """Yields the record keys of log records, their rows or None for a delete, and their ordering values."""
        log, rows = self._log, self._log.rows.num_rows
        rows_of_data = records[records < rows]
        row_values = iter(log.rows.take(pa.array(rows_of_data, pa.int64())).to_pylist())
        for record in records.tolist():
            ordering = None if log.always_deletes[record] else value_at(log.ordering, record)
            yield str(log.keys[record]), next(row_values) if record < rows else None, ordering

    def _merged_column(self, base: Column, name: str, records: Positions, from_log: Booleans) -> Column:
        if not from_log.any():
            return base
        log_values = self._log.rows.column(name).take(pa.array(records[from_log], pa.int64())).combine_chunks()
        indices = np.arange(len(base))
        indices[from_log] = len(base) + np.arange(len(log_values))
        return pa.concat_arrays([base, log_values]).take(pa.array(indices, pa.int64()))

    def remaining_log_rows(self) -> pa.Table:
        """The log records that are not merged into base rows; call it after all base keys have been matched."""
        used = self._matched if self.merges_rows else self._beaten
        used = used[: self._log.rows.num_rows]
        rows = self._log.rows.filter(pa.array(~used)) if used.any() else self._log.rows
        payload = self._rule.payload
        if payload is None or not payload.changes_inserts:
            return rows
        keys = self._log.keys.slice(0, self._log.rows.num_rows).filter(pa.array(~used)).to_pylist()
        inserted = (
            ask_payload(payload, "get_insert_value", str(key), row)
            for key, row in zip(keys, rows.to_pylist(), strict=True)
        )
        return pa.Table.from_batches([rows_of_payload(payload, inserted, rows.schema)])
