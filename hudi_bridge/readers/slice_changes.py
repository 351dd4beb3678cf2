"""What the log records of a file slice change of its base file, where they are merged a part of the keys at a time.

Each part goes once through the base file's keys, and through its columns only where base rows take part in the merge.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile, BaseFileColumns
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.readers.log_record_scanner import LogScan
from hudi_bridge.readers.meetings import MeetingFinder
from hudi_bridge.splits.split import RealtimeFileSplit


class SliceChanges:
    """The rows that the logs of a split bring, and the base rows that they replace or delete."""

    def __init__(
        self, split: RealtimeFileSplit, rule: MergeRule, log_scan: LogScan, read_columns: tuple[str, ...]
    ) -> None:
        self._split = split
        self._rule = rule
        self._log_scan = log_scan
        self._read_columns = read_columns
        self._gone: list[Positions] = [np.empty(0, dtype=np.int64)]

    @property
    def gone(self) -> Positions:
        """The positions, in the base file, of the rows that no longer count; known once ``rows`` has ended."""
        return np.sort(np.concatenate(self._gone))

    def rows(self, base: BaseFile | None) -> Iterator[pa.RecordBatch]:
        """The merged rows and the rows of the logs alone, one part of the record keys after the other."""
        self._gone = [np.empty(0, dtype=np.int64)]
        for part in range(self._log_scan.parts):
            merge = FileSliceMerger(
                self._log_scan.records_of_part(part), self._rule, field_defaults(self._split.context)
            )
            if base is not None:
                yield from self._rows_of_base(base, merge)
            yield from log_rows(merge, self._read_columns)

    def _rows_of_base(self, base: BaseFile, merge: FileSliceMerger) -> Iterator[pa.RecordBatch]:
        finder = MeetingFinder(base, merge, self._rule, self._split.context)
        wanted = base.view(self._read_columns if merge.merges_rows else ())
        for group in base.row_groups:
            start = int(base.row_group_starts[group])
            if not merge.merges_rows:
                for met in finder.iter_meetings(group):
                    self._gone.append(merge.superseded(met) + start)
                    start += met.base_rows
                continue
            meetings = finder.meetings(group, wanted)
            for stored in wanted.stored_batches(group):
                met = meetings(stored)
                self._gone.append(merge.superseded(met) + start)
                start += met.base_rows
                yield from merged_rows(wanted, stored, met, merge)


def merged_rows(
    wanted: BaseFileColumns, stored: pa.RecordBatch, met: KeyMatches, merge: FileSliceMerger
) -> Iterator[pa.RecordBatch]:
    """The rows that are made of a base row and a log record; one batch or none."""
    if merge.merges_rows and len(met.rows):
        contested = wanted.evolve(stored.take(pa.array(met.rows, pa.int64())))
        yield merge.merged_rows(contested, met)


def log_rows(merge: FileSliceMerger, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows that are in the logs alone."""
    yield from merge.remaining_log_rows().select(list(columns)).to_batches(ROWS_PER_BATCH)
