"""A file slice as a snapshot sees it: its base file merged with its log records.

The logs are read first. Then the base file streams, batch by batch: the record keys of a batch, and its ordering values
where they decide, meet the log records before its other columns are touched. What remains of the log records comes
last.

A filter is applied to base rows and log records on their own. It may keep row groups from being read, except for their
keys: a base row may beat a log record, or be the first of several of its key.
"""

from collections.abc import Iterator
from functools import cached_property

import pyarrow as pa

from hudi_bridge.merge.columnar import SliceMerge
from hudi_bridge.merge.log_records import LogRecordMap
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile, BaseFileColumns
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.readers.log_record_scanner import scan_logs
from hudi_bridge.readers.meetings import MeetingFinder
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class RealtimeCompactedReader:
    """Reads one split with its log files merged in.

    Holds the log records of the split, and batches of the base file, in memory. Batches may be iterated again.
    """

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        rule: MergeRule,
        request: RowRequest,
        *,
        use_threads: bool = True,
    ) -> None:
        self._storage = storage
        self._split = split
        self._rule = rule
        self._request = request
        self._use_threads = use_threads
        self.schema = pa.schema([split.context.schema.field(name) for name in request.columns])

    @cached_property
    def _log_records(self) -> LogRecordMap:
        return scan_logs(self._storage, self._split, self._rule, self._read_columns)

    @property
    def _read_columns(self) -> tuple[str, ...]:
        """The columns to read: those that are asked for, or all, for a payload that may look at any."""
        return self._request.needed if self._rule.payload is None else tuple(self._split.context.schema.names)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows that pass the filter; their order is not promised."""
        merge = SliceMerge(self._log_records, self._rule, field_defaults(self._split.context))
        if self._split.base_path is not None:
            with BaseFile.open(
                self._storage, self._split, self._split.base_path, use_threads=self._use_threads
            ) as base:
                yield from self._base_rows(base, merge)
        for batch in merge.remaining_log_rows().select(list(self._read_columns)).to_batches(ROWS_PER_BATCH):
            yield from self._passing(batch)

    def _base_rows(self, base: BaseFile, merge: SliceMerge) -> Iterator[pa.RecordBatch]:
        wanted = base.view(self._read_columns)
        finder = MeetingFinder(base, self._log_records, self._rule, self._split.context, merge)
        # A row that fields of a log record complete may pass the filter although its row group cannot.
        groups = base.row_groups if merge.merges_rows else wanted.matching_row_groups(self._request)
        for group in base.row_groups:
            if group in groups:
                yield from self._group_rows(wanted, finder, group, merge)
            elif len(self._log_records) and (self._rule.orders_base or group < max(groups, default=-1)):
                finder.meet_all(group)

    def _group_rows(
        self, wanted: BaseFileColumns, finder: MeetingFinder, group: int, merge: SliceMerge
    ) -> Iterator[pa.RecordBatch]:
        if not len(self._log_records):
            for stored in wanted.stored_batches(group):
                yield from wanted.passing(stored, self._request)
            return
        meetings = finder.meetings(group, wanted)
        for stored in wanted.stored_batches(group):
            met = meetings(stored)
            yield from wanted.passing(stored, self._request, without=merge.gone(met))
            if merge.merges_rows and len(met.rows):
                contested = wanted.evolve(stored.take(pa.array(met.rows, pa.int64())))
                yield from self._passing(merge.merged_rows(contested, met))

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._request.apply(batch)
        if rows.num_rows:
            yield rows
