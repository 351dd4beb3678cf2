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

from hudi_bridge.merge.columnar import Meetings, SliceMerge, joined, no_meetings
from hudi_bridge.merge.log_records import LogRecordMap
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile, BaseFileColumns
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.readers.log_record_scanner import scan_logs
from hudi_bridge.readers.record_keys import key_columns, record_keys
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class _MeetingsAhead:
    """Hands out in the pace of the wanted columns what was found in larger batches of keys."""

    def __init__(self, batches: Iterator[Meetings]) -> None:
        self._batches = batches
        self._waiting = no_meetings()

    def next_rows(self, count: int) -> Meetings:
        """The meetings of the next rows."""
        while self._waiting.base_rows < count:
            self._waiting = joined([self._waiting, next(self._batches)])
        met = self._waiting.between(0, count)
        self._waiting = self._waiting.between(count, self._waiting.base_rows)
        return met


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
        deciding = key_columns(self._split.context) + (self._rule.ordering_fields if self._rule.orders_base else ())
        keys = base.view(dict.fromkeys(deciding))
        # A row that fields of a log record complete may pass the filter although its row group cannot.
        groups = base.row_groups if merge.merges_rows else wanted.matching_row_groups(self._request)
        for group in base.row_groups:
            if group in groups:
                yield from self._group_rows(wanted, keys, group, merge)
            elif len(self._log_records) and (self._rule.orders_base or group < max(groups, default=-1)):
                for batch in keys.batches(group, self._rows_per_key_batch):
                    self._meet(merge, batch)

    def _group_rows(
        self, wanted: BaseFileColumns, keys: BaseFileColumns, group: int, merge: SliceMerge
    ) -> Iterator[pa.RecordBatch]:
        # Keys that are wanted anyway are taken from the batches, unless hashing the log's keys for each costs more.
        apart = None
        if not wanted.has_columns_of(keys) or self._rows_per_key_batch > ROWS_PER_BATCH:
            apart = _MeetingsAhead(self._meet(merge, batch) for batch in keys.batches(group, self._rows_per_key_batch))
        for stored in wanted.stored_batches(group):
            if not len(self._log_records):
                yield from wanted.passing(stored, self._request)
                continue
            met = self._meet(merge, keys.evolve(stored)) if apart is None else apart.next_rows(stored.num_rows)
            yield from wanted.passing(stored, self._request, without=merge.gone(met))
            if merge.merges_rows and len(met.rows):
                contested = wanted.evolve(stored.take(pa.array(met.rows, pa.int64())))
                yield from self._passing(merge.merged_rows(contested, met))

    @property
    def _rows_per_key_batch(self) -> int:
        return max(ROWS_PER_BATCH, len(self._log_records))

    def _meet(self, merge: SliceMerge, batch: pa.RecordBatch) -> Meetings:
        ordering = [batch.column(name) for name in self._rule.ordering_fields] if self._rule.orders_base else []
        return merge.meet(record_keys(batch, self._split.context), ordering)

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._request.apply(batch)
        if rows.num_rows:
            yield rows
