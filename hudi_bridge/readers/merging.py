"""Merges base rows with log records: one loop, wherever the base rows come from and whatever becomes of the result.

A source yields base rows with their matches. Sources are row groups with all columns or with those of a selector first
(``readers.realtime_compacted``), the record keys of a file or rows in temporary files (``readers.merge_in_parts``), and
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

    ``rows`` are None if nothing but the matches counts. With a ``view``, they are as stored and are converted by it;
    otherwise, they have the columns of the query. ``positions`` are those in the base file: of each row, or the first
    one's if the rows follow one another.
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
    """What becomes of the result of a merge."""

    def base_rows(self, matched: MatchedRows, superseded: Positions) -> Iterator[pa.RecordBatch]:
        """Takes base rows, of which those at the positions ``superseded`` are replaced, deleted or merged."""

    def merged_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes rows that are merged from a base row and a log record."""

    def log_rows(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Takes log records without a base row that they would be merged with."""


def merge(source: Iterable[MatchedRows], merger: FileSliceMerger, sink: Sink) -> Iterator[pa.RecordBatch]:
    """Merges the rows of a source with the log records; yields what the sink makes of them."""
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

    ``base_request`` is that of the base rows, of which the source may have yielded only those that pass the filter.
    With ``late_rows``, columns of log records are decoded where a record passes the filter.
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
    """Returns the rows that the logs add to a base file, and notes the positions of those that they replace there."""

    def __init__(self, request: RowRequest) -> None:
        self._request = request
        self._positions: list[Positions] = [np.empty(0, dtype=np.int64)]

    @property
    def positions(self) -> Positions:
        """The positions in the base file, ascending, of the rows so far that are replaced, deleted or merged."""
        positions = np.concatenate(self._positions)
        # Those of one part are in order.
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
