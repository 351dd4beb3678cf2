"""Which rows of a base file have log records of the same key, batch by batch.

What decides are the record keys, or nothing but the places of the rows where all log blocks tell them, and the ordering
values where they are compared. Columns that are wanted anyway are taken from the batches of the wanted columns; others
are read beside them.
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


class KeyMatchFinder:
    """Reads the columns of a base file that decide, and matches its rows with the log records."""

    def __init__(self, base: OpenBaseFile, merger: FileSliceMerger, rule: MergeRule, context: ReadContext) -> None:
        self._base = base
        self._context = context
        self._merger = merger
        self._ordering = rule.ordering_fields if rule.orders_base else ()
        self._commit_times = sorted(context.commit_times or ()) if context.meets_commit_times_only else None
        positions = merger.log_records.base_positions if self._commit_times is None else None
        self._by_position = positions is not None and (positions < base.row_group_starts[-1]).all()
        keys = () if self._by_position else context.key_columns
        self._keys = base.view(context.key_columns)
        times = () if self._commit_times is None else (COMMIT_TIME_COLUMN,)
        ordering = (ordering_path(name)[0] for name in self._ordering)
        self._columns = base.view(dict.fromkeys((*keys, *times, *ordering)))
        # Each batch of keys costs a hash of all log keys.
        self._rows_per_batch = ROWS_PER_BATCH if self._by_position else max(ROWS_PER_BATCH, len(merger.log_records))

    def matches_of_batches(self, group: int, wanted: BaseFileColumns) -> Callable[[pa.RecordBatch], KeyMatches]:
        """What gives the matches of each batch of the wanted columns of a row group, in their order.

        Columns that are wanted anyway are taken from the batches; others are read beside them.
        """
        found: Callable[[pa.RecordBatch], KeyMatches] = _Beside(self.iter_matches(group))
        if wanted.has_columns_of(self._columns) and self._rows_per_batch == ROWS_PER_BATCH:
            found = _InBatches(self, int(self._base.row_group_starts[group]))
        if self._by_position and wanted.has_columns_of(self._keys):
            return partial(self._checked, found)
        return found

    def _checked(self, found: Callable[[pa.RecordBatch], KeyMatches], stored: pa.RecordBatch) -> KeyMatches:
        """The matches of a batch by position; positions have no checksum, but the keys are there to compare."""
        matches = found(stored)
        if len(matches.rows):
            keys = record_keys(self._keys.evolve(stored), self._context).take(pa.array(matches.rows, pa.int64()))
            logged = self._merger.log_records.keys.take(pa.array(matches.records, pa.int64()))
            if not keys.equals(logged):
                place = next(place for place, key in enumerate(keys) if not key.equals(logged[place]))
                what = f"the record key {keys[place].as_py()!r} where the logs have a position of"
                raise CorruptLogFileError(self._base.path, None, f"{what} {logged[place].as_py()!r}", "equal keys")
        return matches

    def match(self, stored: pa.RecordBatch, start: int) -> KeyMatches:
        """The matches of the rows of a batch, which begins at row ``start`` of the file."""
        rows = self._columns.evolve(stored)
        ordering = [ordering_values(name, rows) for name in self._ordering]
        if self._by_position:
            return self._merger.match_positions(start, stored.num_rows, ordering)
        keys = record_keys(rows, self._context)
        if self._commit_times is not None:
            # A row without a key matches nothing.
            in_range = pc.is_in(rows.column(COMMIT_TIME_COLUMN), pa.array(self._commit_times, pa.string()))
            keys = pc.if_else(in_range, keys, pa.scalar(None, keys.type))
        return self._merger.match(keys, ordering)

    def iter_matches(self, group: int) -> Iterator[KeyMatches]:
        """The matches of a row group, stretch by stretch, whatever else is wanted of it."""
        start = int(self._base.row_group_starts[group])
        for stored in self._columns.stored_batches(group, self._rows_per_batch):
            yield self.match(stored, start)
            start += stored.num_rows


class _InBatches:
    """The matches of batches that have the deciding columns themselves."""

    def __init__(self, deciding: KeyMatchFinder, start: int) -> None:
        self._deciding = deciding
        self._start = start

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        matches = self._deciding.match(stored, self._start)
        self._start += stored.num_rows
        return matches


class _Beside:
    """Matches found in larger batches of the deciding columns, handed out in the pace of the wanted ones."""

    def __init__(self, found: Iterator[KeyMatches]) -> None:
        self._found = found
        self._waiting = no_matches()

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        while self._waiting.base_rows < stored.num_rows:
            self._waiting = joined([self._waiting, next(self._found)])
        matches = self._waiting.between(0, stored.num_rows)
        self._waiting = self._waiting.between(stored.num_rows, self._waiting.base_rows)
        return matches
