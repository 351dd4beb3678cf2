"""A file slice as a snapshot sees it: its base file merged with its log records.

The logs are read first. Then the key column of the base file, and the ordering columns where they decide, say which
base rows are replaced; only then are the wanted columns streamed, without those rows. What remains of the log records
comes last. The filter is applied to either side on its own: it may keep row groups from being read, since a row group's
keys have met the log records before.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.columnar import Meetings, SliceMerge, joined, no_meetings
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.merge.record_map import LogRecordMap
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile, BaseFileColumns
from hudi_bridge.readers.field_defaults import field_defaults
from hudi_bridge.readers.log_record_scanner import scan_logs
from hudi_bridge.readers.record_keys import key_columns, record_keys
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_ROWS_PER_KEY_BATCH = 1 << 19


class RealtimeCompactedReader:
    """Reads one split with its log files merged in.

    Holds the log records of the split, and batches of the base file, in memory. Batches may be iterated again.
    """

    def __init__(self, storage: Storage, split: RealtimeFileSplit, rule: MergeRule, request: RowRequest) -> None:
        self._storage = storage
        self._split = split
        self._rule = rule
        self._request = request
        self.schema = pa.schema([split.context.schema.field(name) for name in request.columns])

    @cached_property
    def _log_records(self) -> LogRecordMap:
        return scan_logs(self._storage, self._split, self._rule, self._request.needed)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows that pass the filter; their order is not promised."""
        merge = SliceMerge(self._log_records, self._rule, field_defaults(self._split.context))
        if self._split.base_path is not None:
            with BaseFile.open(self._storage, self._split, self._split.base_path) as base:
                yield from self._base_rows(base, merge)
        needed = list(self._request.needed)
        for batch in merge.remaining_log_rows().select(needed).to_batches(ROWS_PER_BATCH):
            yield from self._passing(batch)

    def _base_rows(self, base: BaseFile, merge: SliceMerge) -> Iterator[pa.RecordBatch]:
        meetings = self._meetings(base, merge)
        wanted = base.view(self._request.needed)
        groups = base.row_groups if self._request.row_filter is None else self._matching(base, wanted, meetings, merge)
        for group in groups:
            start = int(base.row_group_starts[group])
            for batch in wanted.stored_batches(group):
                met = meetings.between(start, start + batch.num_rows)
                start += batch.num_rows
                yield from self._passing(wanted.evolve(merge.remaining_base_rows(batch, met)))
                if merge.merges_fields and len(met.rows):
                    yield from self._passing(merge.merged_rows(wanted.evolve(batch.take(pa.array(met.rows, pa.int64()))), met))

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        rows = self._request.apply(batch)
        if rows.num_rows:
            yield rows

    def _matching(self, base: BaseFile, wanted: BaseFileColumns, meetings: Meetings, merge: SliceMerge) -> list[int]:
        """The row groups to read: those that may pass the filter, or hold rows that fields of a log record complete."""
        matching = set(wanted.matching_row_groups(self._request))
        if merge.merges_fields:
            matching.update(np.searchsorted(base.row_group_starts, meetings.rows, side="right") - 1)
        return sorted(int(group) for group in matching)

    def _meetings(self, base: BaseFile, merge: SliceMerge) -> Meetings:
        """Where the log records meet the rows of the base file."""
        found = [no_meetings()]
        if len(self._log_records):
            keys = base.view(key_columns(self._split.context))
            ordering = base.view(self._rule.ordering_fields) if self._rule.orders_base else None
            rows_per_batch = max(_ROWS_PER_KEY_BATCH, len(self._log_records))
            for group in base.row_groups:
                rows, records = self._found_in_group(keys.batches(group, rows_per_batch), merge)
                if len(rows):
                    values = ordering.take(group, rows) if ordering and merge.needs_ordering(records) else ()
                    found.append(merge.decide(rows + base.row_group_starts[group], records, values))
        return joined(found)

    def _found_in_group(self, keys: Iterator[pa.RecordBatch], merge: SliceMerge) -> tuple[Positions, Positions]:
        """The rows of a row group that log records meet, counted from its start, and those records."""
        rows, records = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
        start = 0
        for batch in keys:
            found_rows, found_records = merge.find(record_keys(batch, self._split.context))
            rows.append(found_rows + start)
            records.append(found_records)
            start += batch.num_rows
        return np.concatenate(rows), np.concatenate(records)
