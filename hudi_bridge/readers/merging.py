"""Merges base rows with log records: one loop for all sources of base rows and all uses of the result.

A source yields base rows with their matches: row groups with all columns, or with the selector's columns first
(``readers.realtime_compacted``), the record keys of a file or rows in temporary files (``MergeInParts``), or several
small slices (``readers.small_slices``). A sink returns the rows, or notes which base rows they replace.

Logs that are larger than memory are merged one part of the record keys at a time. Log records, and base rows that may
match them, are written to temporary files, divided by the hash of their keys. Each file of the slice is therefore
decoded once, whatever the number of parts.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import prefetch
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.record_map import key_hashes
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches, matched_columns
from hudi_bridge.readers.log_scan import LateLogRows, LogScan
from hudi_bridge.readers.request import RowRequest, SliceRead
from hudi_bridge.readers.spill import PartsOnDisk
from hudi_bridge.readers.split_columns import record_keys

_MIN_LOG_BYTES_FOR_THREAD = 1 << 20
"""Smaller logs are decoded before a thread has started."""
_MATCHING_THREADS = 2
_BATCHES_AT_ONCE = 16
_POSITION = "the position in the base file"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedRows:
    """Base rows with their matches in the log records.

    Attributes:
        matches: the log records that match the rows.
        rows: the rows; None if only the matches count.
        view: converts ``rows`` from stored columns to columns of the query; None if they are converted.
        positions: the positions of the rows in the base file, or the first one if the rows are adjacent.
    """

    matches: KeyMatches
    rows: pa.RecordBatch | None = None
    view: BaseFileColumns | None = None
    positions: Positions | int = 0

    def of_matches(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The row of each match, with the columns of the query."""
        matched = rows.take(pa.array(self.matches.rows, pa.int64()))
        return matched if self.view is None else self.view.evolve(matched)

    def in_file(self, rows: Positions) -> Positions:
        """The positions in the base file of some of the rows."""
        return rows + self.positions if isinstance(self.positions, int) else self.positions[rows]


class Sink(Protocol):
    """Receives the result of a merge."""

    def base_rows(self, matched: MatchedRows, superseded: Positions) -> Iterator[pa.RecordBatch]:
        """Takes base rows; the rows at the positions ``superseded`` are replaced, deleted or merged."""

    def merged_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes rows that were merged from a base row and a log record."""

    def log_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes log records that are not merged with a base row."""


def merge(source: Iterable[MatchedRows], merger: FileSliceMerger, sink: Sink) -> Iterator[pa.RecordBatch]:
    """Merges the rows of a source with the log records, and yields what the sink returns."""
    yield from merge_base_rows(source, merger, sink)
    for rows in merger.remaining_log_rows().to_batches(ROWS_PER_BATCH):
        yield from sink.log_rows(rows)


def merge_base_rows(source: Iterable[MatchedRows], merger: FileSliceMerger, sink: Sink) -> Iterator[pa.RecordBatch]:
    """As ``merge``, without the log records that have no base row."""
    for matched in source:
        yield from sink.base_rows(matched, merger.superseded(matched.matches))
        if merger.merges_rows and matched.rows is not None and len(matched.matches.rows):
            yield from sink.merged_rows(merger.merged_rows(matched.of_matches(matched.rows), matched.matches))


class RequestedRows:
    """Returns the rows that a request asks for.

    ``base_request`` is for base rows, which the source may have filtered before. With ``late_rows``, columns of log
    records are decoded only for records that pass the filter.
    """

    def __init__(self, request: RowRequest, base_request: RowRequest, late_rows: LateLogRows | None = None) -> None:
        self._request = request
        self._base_request = base_request
        self._late_rows = late_rows

    def base_rows(self, matched: MatchedRows, superseded: Positions) -> Iterator[pa.RecordBatch]:
        """The rows that are not superseded."""
        if matched.rows is not None and matched.view is not None:
            yield from matched.view.passing(matched.rows, self._base_request, without=superseded)

    def merged_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter."""
        return _passing(rows, self._request)

    def log_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter."""
        late = self._late_rows
        if late is None:
            yield from _passing(rows, self._request)
            return
        passes = self._request.passes(rows.select(list(self._request.filter_columns)))
        for decoded in late.rows(rows.column(late.number_column).to_numpy()[passes]):
            yield decoded.select(list(self._request.columns))


class ReplacedRows:
    """Returns the rows that come from the logs, and notes the positions of the base rows that they replace."""

    def __init__(self, request: RowRequest) -> None:
        self._request = request
        self._positions: list[Positions] = [np.empty(0, dtype=np.int64)]

    @property
    def positions(self) -> Positions:
        """Ascending positions in the base file of the rows that have been replaced, deleted or merged so far."""
        positions = np.concatenate(self._positions)
        # The positions of a single part are in order.
        return positions if (np.diff(positions) > 0).all() else np.sort(positions)

    def base_rows(self, matched: MatchedRows, superseded: Positions) -> Iterator[pa.RecordBatch]:
        """Nothing: the rows stay in the base file."""
        self._positions.append(matched.in_file(superseded))
        return iter(())

    def merged_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter."""
        return _passing(rows, self._request)

    def log_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter."""
        return _passing(rows, self._request)


def _passing(rows: pa.RecordBatch, request: RowRequest) -> Iterator[pa.RecordBatch]:
    passing = request.apply(rows)
    if passing.num_rows:
        yield passing


class MergeInParts:
    """Merges a slice whose other base rows stay in the base file, in as many parts as its log scan has.

    ``base`` is the base file, if any. Both methods can be called again, in any order. With threads, the keys of the
    base file are read while the logs are decoded, and are looked up by two threads.
    """

    def __init__(self, read: SliceRead, log_scan: LogScan, base: OpenBaseFile | None) -> None:
        self._read = read
        self._log_scan = log_scan
        self._base = base

    def merge(self, sink: Sink) -> Iterator[pa.RecordBatch]:
        """Yields what a sink returns for merged rows and for log records without a base row."""
        for part in range(self._log_scan.parts):
            with self._prefetched_keys() as keys:
                merger = self._merger(part)
                source = self._rows(part, merger) if merger.merges_rows else self._keys(part, merger, keys)
                yield from merge(source, merger, sink)

    def match(self, sink: Sink) -> None:
        """Gives a sink the matches of all base rows; only the matched columns of the base file are read."""
        for part in range(self._log_scan.parts):
            merger = self._merger(part)
            deque(merge_base_rows(self._keys(part, merger), merger, sink), 0)

    def _prefetched_keys(self) -> AbstractContextManager[Iterator[pa.RecordBatch] | None]:
        """A context in which a thread reads the matched columns while logs are decoded; it yields None if that does not
        pay.
        """
        scan, base = self._log_scan, self._base
        is_worth_it = self._read.use_threads and self._read.split.log_size_bytes >= _MIN_LOG_BYTES_FOR_THREAD
        if base is None or not is_worth_it or scan.parts > 1 or not scan.needs_keys_alone:
            return nullcontext()
        return prefetch(_in_large_batches(base, base.view(matched_columns(self._read.split))))

    def _merger(self, part: int) -> FileSliceMerger:
        threads = _MATCHING_THREADS if self._read.use_threads else 1
        records = self._log_scan.records_of_part(part)
        return FileSliceMerger(records, self._read.rule, self._read.context.defaults, threads)

    def _rows(self, part: int, merger: FileSliceMerger) -> Iterator[MatchedRows]:
        """Yields the base rows of a part with the columns to merge."""
        base = self._base
        if base is None:
            return
        finder = KeyMatchFinder(base, merger)
        if self._log_scan.parts > 1:
            yield from self._matched_candidates(part, finder, self._read.columns)
            return
        view = base.view(self._read.columns)
        batches, start = MatchedBatches(base, view, by_position=self._log_scan.is_by_position), 0
        for group in base.row_groups:
            for stored, matches in batches.batches(group, batches.others(group), finder):
                yield MatchedRows(matches=matches, rows=stored, view=view, positions=start)
                start += matches.base_rows

    def _keys(
        self, part: int, merger: FileSliceMerger, keys: Iterator[pa.RecordBatch] | None = None
    ) -> Iterator[MatchedRows]:
        """Yields the matches of the base rows of a part; ``keys`` are prefetched batches of the matched columns."""
        if self._base is None:
            return
        finder = KeyMatchFinder(self._base, merger)
        if self._log_scan.parts > 1:
            yield from self._matched_candidates(part, finder, None)
            return
        for start, matches in finder.iter_matches_of_file(keys):
            yield MatchedRows(matches=matches, positions=start)

    def _matched_candidates(
        self, part: int, finder: KeyMatchFinder, columns: Sequence[str] | None
    ) -> Iterator[MatchedRows]:
        """Yields the base rows of a part that may match log records, with some columns, or only their matches."""
        assert self._candidates is not None
        all_positions: list[Positions] = []
        for stored in self._candidates.of_part(part):
            # By index, because a column of the table may have any name.
            positions = stored.column(stored.num_columns - 1).to_numpy()
            rows = stored.select(list(range(stored.num_columns - 1)))
            all_positions.append(positions)
            matches = finder.match_candidates(rows, positions)
            selected = None if columns is None else rows.select(list(columns))
            yield MatchedRows(matches=matches, rows=selected, positions=positions)
        finder.require_all(all_positions)

    @cached_property
    def _candidates(self) -> PartsOnDisk | None:
        """The base rows that may match log records, divided into parts; None without a base file.

        They have the matched columns, all columns to read if rows may be merged, and the position in the file. The base
        file is read once for all parts.
        """
        if self._base is None:
            return None
        context, records = self._read.split.context, self._log_scan.on_disk
        columns = matched_columns(self._read.split)
        if self._read.rule.merges_fields or records.is_partial:
            columns = tuple(dict.fromkeys((*columns, *self._read.columns)))
        parts = PartsOnDisk(self._log_scan.parts)
        start = 0
        view = self._base.view(columns)
        for group in self._base.row_groups:
            for rows in view.batches(group):
                hashes = key_hashes(record_keys(rows, context))
                indices = np.flatnonzero(records.may_hold(hashes))
                candidates = rows.take(pa.array(indices, pa.int64()))
                position = pa.array(indices + start, pa.int64())
                parts.add(candidates.append_column(_POSITION, position), hashes[indices])
                start += rows.num_rows
        return parts


def _in_large_batches(base: OpenBaseFile, columns: BaseFileColumns) -> Iterator[pa.RecordBatch]:
    """The rows of all row groups in few batches: in a thread, each batch waits several times for
    Python's global lock.
    """
    for group in base.row_groups:
        yield from columns.batches(group, _BATCHES_AT_ONCE * columns.rows_per_batch(group, columns.file_columns))
