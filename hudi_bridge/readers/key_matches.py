"""Matches the rows of a base file with the log records of the same key, batch by batch.

Rows are matched by position if all log blocks store record positions, as in Hudi, otherwise by record key. A match by
key hashes all log keys, so the matched columns are read in larger batches than the others.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.merge.arrays import Booleans, Column, Positions, as_booleans, ordering_path, ordering_values
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined, no_matches
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.request import rule_of
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit

_BATCHES_PER_MATCH = 4
_FETCHED_ROWS = 1 << 16
"""The rows of a batch of a file in a store, where all columns are fetched, and so decoded, together."""


def matched_columns(split: RealtimeFileSplit, *, by_position: bool = False) -> tuple[str, ...]:
    """The columns of a split's base file that are needed to match its rows with log records."""
    context, rule = split.context, rule_of(split)
    keys = () if by_position else context.key_columns
    times = (COMMIT_TIME_COLUMN,) if context.filters_base_rows_before_merge else ()
    ordering = (ordering_path(name)[0] for name in (rule.ordering_fields if rule.orders_base else ()))
    return tuple(dict.fromkeys((*keys, *times, *ordering)))


class KeyMatchFinder:
    """Reads the record keys and ordering values of a base file, and matches its rows with the log records."""

    def __init__(self, base: OpenBaseFile, merger: FileSliceMerger) -> None:
        context, rule = base.split.context, rule_of(base.split)
        self._base = base
        self._context = context
        self._merger = merger
        self._ordering = rule.ordering_fields if rule.orders_base else ()
        self._commit_times = sorted(context.commit_times or ()) if context.filters_base_rows_before_merge else None
        self._merged_rows = _rows_merged_by_0x(base)
        self._by_position = merger.log_records.base_positions is not None
        self._keys = base.view(context.key_columns)
        self.columns = matched_columns(base.split, by_position=self._by_position)
        """The columns that are matched."""
        self._columns = base.view(self.columns)
        self._log_keys = 0 if self._by_position else len(merger.log_records)

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of the file that are matched."""
        return self._columns.file_columns

    def rows_per_match(self, group: int, columns: Collection[str]) -> int:
        """The rows to read at a time from ``columns`` of the file if they are matched."""
        return max(self._columns.rows_per_batch(group, columns), self._log_keys)

    def matches_of_batches(
        self, group: int, columns: Collection[str], rows_per_batch: int
    ) -> Callable[[pa.RecordBatch], KeyMatches]:
        """Returns a function from a batch to its matches, to be called for all batches of a row group in order.

        The batches have the given columns of the file. If these include the matched columns and the batches are large
        enough, they are matched directly; otherwise, the matched columns are read separately.
        """
        matches_of: Callable[[pa.RecordBatch], KeyMatches] = _MatchesReadSeparately(self.iter_matches(group))
        if rows_per_batch >= self._log_keys and set(self.file_columns).issubset(columns):
            matches_of = _MatchesInBatches(self, int(self._base.row_group_starts[group]))
        if self._by_position and set(self._keys.file_columns).issubset(columns):
            return partial(self._checked, matches_of)
        return matches_of

    def _checked(self, matches_of: Callable[[pa.RecordBatch], KeyMatches], stored: pa.RecordBatch) -> KeyMatches:
        """The matches of a batch by position, after verifying them by record key: positions have no checksum."""
        matches = matches_of(stored)
        if len(matches.rows):
            self._require_equal_keys(self._keys.evolve(stored), matches)
        return matches

    def _require_equal_keys(self, rows: pa.RecordBatch, matches: KeyMatches) -> None:
        keys = record_keys(rows, self._context).take(pa.array(matches.rows, pa.int64()))
        logged = self._merger.log_records.keys.take(pa.array(matches.records, pa.int64()))
        if not keys.equals(logged):
            index = next(index for index, key in enumerate(keys) if not key.equals(logged[index]))
            actual = f"the record key {keys[index].as_py()!r} where the logs have a position of"
            raise CorruptLogFileError(self._base.path, None, f"{actual} {logged[index].as_py()!r}", "equal keys")

    def match(self, stored: pa.RecordBatch, start: int) -> KeyMatches:
        """The matches of a batch that starts at row ``start`` of the file."""
        return self._match(self._columns.evolve(stored), start)

    def _match(self, rows: pa.RecordBatch, start: int) -> KeyMatches:
        in_range = self._in_range(rows, slice(start, start + rows.num_rows))
        if not self._by_position:
            return self._match_keys(rows, in_range)
        return self._merger.match_positions(start, rows.num_rows, self._ordering_of(rows), in_range)

    def match_candidates(self, rows: pa.RecordBatch, positions: Positions) -> KeyMatches:
        """The matches of base rows at ascending ``positions``; ``rows`` have the matched columns and the record key."""
        in_range = self._in_range(rows, positions)
        if not self._by_position:
            return self._match_keys(rows, in_range)
        matches = self._merger.match_chosen(positions, self._ordering_of(rows), in_range)
        self._require_equal_keys(rows, matches)
        return matches

    def require_all(self, positions: Sequence[Positions]) -> None:
        """Verifies the positions in the logs, given the positions of all base rows whose keys are in the logs.

        Raises:
            CorruptLogFileError: a position belongs to another key.
        """
        log = self._merger.log_records
        if log.base_positions is None:
            return
        missing = np.flatnonzero(~np.isin(log.base_positions, np.concatenate([np.empty(0, np.int64), *positions])))
        if len(missing):
            key, position = log.keys[int(missing[0])].as_py(), log.base_positions[missing[0]]
            actual = f"the position {position} in the logs for the record key {key!r}"
            raise CorruptLogFileError(self._base.path, None, actual, "the position of a row of this key")

    def _match_keys(self, rows: pa.RecordBatch, in_range: Booleans | None) -> KeyMatches:
        keys = record_keys(rows, self._context)
        if in_range is not None:
            # A row without a key matches nothing.
            keys = pc.if_else(pa.array(in_range), keys, pa.scalar(None, keys.type))
        return self._merger.match(keys, self._ordering_of(rows))

    def _ordering_of(self, rows: pa.RecordBatch) -> Sequence[Column]:
        return [ordering_values(name, rows) for name in self._ordering]

    def _in_range(self, rows: pa.RecordBatch, positions: Positions | slice) -> Booleans | None:
        """A mask of the base rows, at these positions, that are merged; None if all are."""
        if self._merged_rows is not None:
            return self._merged_rows[positions]
        if self._commit_times is None:
            return None
        return as_booleans(pc.is_in(rows.column(COMMIT_TIME_COLUMN), pa.array(self._commit_times, pa.string())))

    def iter_matches(self, group: int) -> Iterator[KeyMatches]:
        """Yields the matches of a row group, batch by batch; only the matched columns are read."""
        start = int(self._base.row_group_starts[group])
        for stored in self._columns.stored_batches(group, self.rows_per_match(group, self.file_columns)):
            yield self.match(stored, start)
            start += stored.num_rows

    def iter_matches_of_file(
        self, prefetched: Iterator[pa.RecordBatch] | None = None
    ) -> Iterator[tuple[int, KeyMatches]]:
        """Yields the position of the first row and the matches of each batch of the file.

        Only the matched columns are read, in batches of more rows than there are log records. ``prefetched`` are
        batches of the whole file with the ``matched_columns``, if another thread reads them.
        """
        start = 0
        for rows in self._key_rows(prefetched):
            yield start, self._match(rows, start)
            start += rows.num_rows

    def _key_rows(self, prefetched: Iterator[pa.RecordBatch] | None) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = (
            rows for group in self._base.row_groups for rows in self._columns.batches(group)
        )
        if prefetched is not None:
            batches = prefetched
        if self._by_position:
            yield from batches
            return
        waiting: list[pa.RecordBatch] = []
        for rows in batches:
            waiting.append(rows)
            if sum(batch.num_rows for batch in waiting) >= _BATCHES_PER_MATCH * max(ROWS_PER_BATCH, self._log_keys):
                yield pa.concat_batches(waiting)  # type: ignore[attr-defined]
                waiting = []
        if waiting:
            yield pa.concat_batches(waiting)  # type: ignore[attr-defined]


def _rows_merged_by_0x(base: OpenBaseFile) -> Booleans | None:
    """A mask of the base rows that an incremental query of Hudi 0.x merges with the logs; None if all are.

    Hudi filters the Parquet file by the bounds of the range, which skips row groups without a commit time between them.
    Hudi 1.0 does the same for tables of version 6.

    Source: ``MergeOnReadIncrementalRelation.composeRDD``, ``HoodieIncrementalRelationTrait`` of 0.x;
    ``MergeOnReadIncrementalRelationV1`` of 1.0.
    """
    context = base.split.context
    times = context.commit_times
    if not times or context.filters_base_rows_before_merge:
        return None
    first, last = min(times), max(times)
    ranges = (base.text_range(group, COMMIT_TIME_COLUMN) for group in base.row_groups)
    merged = np.array(
        [text_range is None or (text_range[0] <= last and first <= text_range[1]) for text_range in ranges],
        dtype=np.bool_,
    )
    return None if merged.all() else np.repeat(merged, np.diff(base.row_group_starts))


class MatchedBatches:
    """Reads the stored rows of a base file with the columns of a view, and their matches.

    It is created before the log records are decoded, so that the ``others`` can be read meanwhile: all columns if rows
    are matched by position, which takes batches of any size.
    """

    def __init__(self, base: OpenBaseFile, view: BaseFileColumns, *, by_position: bool) -> None:
        self._view = view
        is_apart = not by_position and not base.is_fetched
        matched = base.view(matched_columns(base.split)).file_columns if is_apart else ()
        self._others = tuple(name for name in view.file_columns if name not in matched)
        self._rows_per_other = _FETCHED_ROWS if base.is_fetched else None

    def others(self, group: int) -> Iterator[pa.RecordBatch]:
        """Reads the columns of a row group that are not matched; yields nothing if all are matched."""
        if self._others or not self._view.file_columns:
            yield from self._view.stored_batches(group, self._rows_per_other, self._others)

    def batches(
        self, group: int, others: Iterator[pa.RecordBatch], finder: KeyMatchFinder
    ) -> Iterator[tuple[pa.RecordBatch, KeyMatches]]:
        """Yields the rows of a row group with their matches, given the batches of ``others``."""
        view = self._view
        rest = tuple(name for name in view.file_columns if name not in self._others)
        if not rest:
            rows = self._rows_per_other or view.rows_per_batch(group, view.file_columns)
            matches_of = finder.matches_of_batches(group, view.file_columns, rows)
            for other in others:
                yield other, matches_of(other)
            return
        columns = tuple(dict.fromkeys((*rest, *finder.file_columns)))
        rows = finder.rows_per_match(group, columns)
        matches_of = finder.matches_of_batches(group, columns, rows)
        matched = ((stored, matches_of(stored)) for stored in view.stored_batches(group, rows, columns))
        if self._others:
            yield from _side_by_side(matched, others)
            return
        yield from matched


def _side_by_side(
    matched: Iterator[tuple[pa.RecordBatch, KeyMatches]], others: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, KeyMatches]]:
    """Joins the columns of two streams of batches, in batches that both have completely, with the matches."""
    current: tuple[pa.RecordBatch, KeyMatches] | None = None
    offset = 0
    for other in others:
        start = 0
        # A damaged file may have fewer rows of the matched columns; reading to their end raises the error.
        while start < other.num_rows and (current := current or next(matched, None)) is not None:
            stored, matches = current
            rows = min(stored.num_rows - offset, other.num_rows - start)
            schema = pa.schema([*stored.schema, *other.schema])
            columns = [*stored.slice(offset, rows).columns, *other.slice(start, rows).columns]
            yield pa.record_batch(columns, schema=schema), matches.between(offset, offset + rows)
            start, offset = start + rows, offset + rows
            if offset == stored.num_rows:
                current, offset = None, 0
    for _ in matched:
        pass


class _MatchesInBatches:
    """Matches batches that include the matched columns."""

    def __init__(self, finder: KeyMatchFinder, start: int) -> None:
        self._finder = finder
        self._start = start

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        matches = self._finder.match(stored, self._start)
        self._start += stored.num_rows
        return matches


class _MatchesReadSeparately:
    """Splits the matches of larger batches to the size of the batches that are returned."""

    def __init__(self, matches: Iterator[KeyMatches]) -> None:
        self._matches = matches
        self._pending = no_matches()

    def __call__(self, stored: pa.RecordBatch) -> KeyMatches:
        while self._pending.base_rows < stored.num_rows:
            self._pending = joined([self._pending, next(self._matches)])
        matches = self._pending.between(0, stored.num_rows)
        self._pending = self._pending.between(stored.num_rows, self._pending.base_rows)
        return matches
