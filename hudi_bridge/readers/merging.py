"""Merges base rows with log records: one loop for all sources of base rows and all uses of the result.

A source yields base rows with their matches: row groups with all columns, or with the selector's columns first
(``readers.realtime_compacted``), the record keys of a file or rows in temporary files (``readers.merge_in_parts``), or
several small slices (``readers.small_slices``). A sink returns the rows, or notes which base rows they replace.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns
from hudi_bridge.readers.log_scan import LateLogRows
from hudi_bridge.readers.request import RowRequest


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
