"""Matches the rows of a base file with the log records of the same key, batch by batch.

Rows are matched by position if all log blocks give record positions, otherwise by record key.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined, no_matches
from hudi_bridge.merge.ordering_fields import ordering_path, ordering_values
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.splits.split import ReadContext

# Each match costs a hash of all log keys.
_BATCHES_PER_MATCH = 4


def matched_columns(rule: MergeRule, context: ReadContext, *, by_position: bool = False) -> tuple[str, ...]:
    """The columns of a base file that are needed to match its rows with log records."""
    keys = () if by_position else context.key_columns
    times = (COMMIT_TIME_COLUMN,) if context.filters_base_rows_before_merge else ()
    ordering = (ordering_path(name)[0] for name in (rule.ordering_fields if rule.orders_base else ()))
    return tuple(dict.fromkeys((*keys, *times, *ordering)))


class KeyMatchFinder:
    """Reads the record keys and ordering values of a base file, and matches its rows with the log records."""

    def __init__(self, base: OpenBaseFile, merger: FileSliceMerger, rule: MergeRule, context: ReadContext) -> None:
        self._base = base
        self._context = context
        self._merger = merger
        self._ordering = rule.ordering_fields if rule.orders_base else ()
        self._commit_times = sorted(context.commit_times or ()) if context.filters_base_rows_before_merge else None
        positions = merger.log_records.base_positions if self._commit_times is None else None
        self._by_position = positions is not None and (positions < base.row_group_starts[-1]).all()
        self._keys = base.view(context.key_columns)
        self.columns = matched_columns(rule, context, by_position=self._by_position)
        """The columns that are matched."""
        self._columns = base.view(self.columns)
        # Each batch of keys costs a hash of all log keys.
        self._rows_per_batch = ROWS_PER_BATCH if self._by_position else max(ROWS_PER_BATCH, len(merger.log_records))

    def matches_of_batches(self, group: int, wanted: BaseFileColumns) -> Callable[[pa.RecordBatch], KeyMatches]:
        """A function from a batch of ``wanted`` to its matches, to be called for all batches of a row group in order.

        Key columns that ``wanted`` has are taken from its batches; others are read separately.
        """
        found: Callable[[pa.RecordBatch], KeyMatches] = _MatchesReadSeparately(self.iter_matches(group))
        if wanted.has_columns_of(self._columns) and self._rows_per_batch == ROWS_PER_BATCH:
            found = _MatchesInBatches(self, int(self._base.row_group_starts[group]))
        if self._by_position and wanted.has_columns_of(self._keys):
            return partial(self._checked, found)
        return found

    def _checked(self, found: Callable[[pa.RecordBatch], KeyMatches], stored: pa.RecordBatch) -> KeyMatches:
        """The matches of a batch by position, verified by record key: positions have no checksum."""
        matches = found(stored)
        if len(matches.rows):
            keys = record_keys(self._keys.evolve(stored), self._context).take(pa.array(matches.rows, pa.int64()))
            logged = self._merger.log_records.keys.take(pa.array(matches.records, pa.int64()))
            if not keys.equals(logged):
                index = next(index for index, key in enumerate(keys) if not key.equals(logged[index]))
                what = f"the record key {keys[index].as_py()!r} where the logs have a position of"
                raise CorruptLogFileError(self._base.path, None, f"{what} {logged[index].as_py()!r}", "equal keys")
        return matches

    def match(self, stored: pa.RecordBatch, start: int) -> KeyMatches:
        """The matches of a batch that begins at row ``start`` of the file."""
        return self._match(self._columns.evolve(stored), start)

    def _match(self, rows: pa.RecordBatch, start: int) -> KeyMatches:
        ordering = [ordering_values(name, rows) for name in self._ordering]
        if self._by_position:
            return self._merger.match_positions(start, rows.num_rows, ordering)
        keys = record_keys(rows, self._context)
        if self._commit_times is not None:
            # A row without a key matches nothing.
            in_range = pc.is_in(rows.column(COMMIT_TIME_COLUMN), pa.array(self._commit_times, pa.string()))
            keys = pc.if_else(in_range, keys, pa.scalar(None, keys.type))
        return self._merger.match(keys, ordering)

    def iter_matches(self, group: int) -> Iterator[KeyMatches]:
        """The matches of a row group, batch by batch, for which only key columns are read."""
        start = int(self._base.row_group_starts[group])
        for stored in self._columns.stored_batches(group, self._rows_per_batch):
            yield self.match(stored, start)
            start += stored.num_rows

    def iter_matches_of_file(self) -> Iterator[tuple[int, KeyMatches]]:
        """The matches of all rows, with the position of the first row for each group of them.

        Only key columns are read, of more rows at a time than there are log records.
        """
        start = 0
        for rows in self._key_rows():
            yield start, self._match(rows, start)
            start += rows.num_rows

    def _key_rows(self) -> Iterator[pa.RecordBatch]:
        batches = (rows for group in self._base.row_groups for rows in self._columns.batches(group))
        if self._by_position:
            yield from batches
            return
        waiting: list[pa.RecordBatch] = []
        for rows in batches:
            waiting.append(rows)
            if sum(one.num_rows for one in waiting) >= _BATCHES_PER_MATCH * self._rows_per_batch:
                yield pa.concat_batches(waiting)  # type: ignore[attr-defined]
                waiting = []
        if waiting:
            yield pa.concat_batches(waiting)  # type: ignore[attr-defined]


class _MatchesInBatches:
    """Finds the matches of batches that have the key columns."""

    def __init__(self, finder: KeyMatchFinder, start: int) -> None:
        self._finder = finder
        self._start = start

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        matches = self._finder.match(stored, self._start)
        self._start += stored.num_rows
        return matches


class _MatchesReadSeparately:
    """Cuts the matches found in larger batches of the key columns to the size of the batches that are returned."""

    def __init__(self, found: Iterator[KeyMatches]) -> None:
        self._found = found
        self._pending = no_matches()

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        while self._pending.base_rows < stored.num_rows:
            self._pending = joined([self._pending, next(self._found)])
        matches = self._pending.between(0, stored.num_rows)
        self._pending = self._pending.between(stored.num_rows, self._pending.base_rows)
        return matches
