"""Merges a file slice one part of the record keys at a time, for logs that are larger than memory."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.key_matches import KeyMatchFinder, MatchedBatches
from hudi_bridge.readers.log_record_scanner import LogScan
from hudi_bridge.splits.split import RealtimeFileSplit


class MergeInParts:
    """The rows that the logs of a split add, and the positions of the base rows that they replace or delete.

    ``base`` is the base file of the split, if any. Both can be read again, in any order.
    """

    def __init__(
        self,
        split: RealtimeFileSplit,
        rule: MergeRule,
        log_scan: LogScan,
        base: OpenBaseFile | None,
        read_columns: tuple[str, ...],
    ) -> None:
        self._split = split
        self._rule = rule
        self._log_scan = log_scan
        self._base = base
        self._read_columns = read_columns
        self._deleted_positions: Positions | None = None

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows merged from a base row and a log record, and the log records without a base row."""
        positions: list[Positions] = []
        for merger in self._mergers():
            if self._base is not None:
                yield from self._merged_rows(self._base, merger, positions)
            yield from log_rows(merger, self._read_columns)
        self._deleted_positions = _ascending(positions)

    @property
    def deleted_positions(self) -> Positions:
        """The positions in the base file, ascending, of the rows that the logs replace or delete.

        Known once ``rows`` is exhausted; otherwise, the keys of the base file are read to find them.
        """
        if self._deleted_positions is None:
            positions: list[Positions] = []
            if self._base is not None:
                for merger in self._mergers():
                    self._match_keys(self._base, merger, positions)
            self._deleted_positions = _ascending(positions)
        return self._deleted_positions

    def _mergers(self) -> Iterator[FileSliceMerger]:
        for part in range(self._log_scan.parts):
            yield FileSliceMerger(self._log_scan.records_of_part(part), self._rule, self._split.context.defaults)

    def _merged_rows(
        self, base: OpenBaseFile, merger: FileSliceMerger, positions: list[Positions]
    ) -> Iterator[pa.RecordBatch]:
        if not merger.merges_rows:
            self._match_keys(base, merger, positions)
            return
        finder = KeyMatchFinder(base, merger, self._rule, self._split.context)
        wanted = base.view(self._read_columns)
        batches = MatchedBatches(base, wanted, self._rule, self._split.context)
        for group in base.row_groups:
            start = int(base.row_group_starts[group])
            for stored, matches in batches.batches(group, batches.others(group), finder):
                positions.append(merger.superseded(matches) + start)
                start += matches.base_rows
                yield from merged_rows(wanted, stored, matches, merger)

    def _match_keys(self, base: OpenBaseFile, merger: FileSliceMerger, positions: list[Positions]) -> None:
        finder = KeyMatchFinder(base, merger, self._rule, self._split.context)
        for start, matches in finder.iter_matches_of_file():
            positions.append(merger.superseded(matches) + start)


def _ascending(positions: list[Positions]) -> Positions:
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *positions]))


def merged_rows(
    wanted: BaseFileColumns, stored: pa.RecordBatch, matches: KeyMatches, merger: FileSliceMerger
) -> Iterator[pa.RecordBatch]:
    """The rows merged from a base row and a log record, as one batch or none."""
    if merger.merges_rows and len(matches.rows):
        base_rows = wanted.evolve(stored.take(pa.array(matches.rows, pa.int64())))
        yield merger.merged_rows(base_rows, matches)


def log_rows(merger: FileSliceMerger, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The log records that are rows without a base row."""
    yield from merger.remaining_log_rows().select(list(columns)).to_batches(ROWS_PER_BATCH)
