"""A file slice as a snapshot sees it: its base file merged with its log records.

The logs are read first. Then the key column of the base file, and the ordering columns where they decide, say which base
rows are replaced; only then are the wanted columns streamed, without those rows. What remains of the log records comes
last. The filter is applied to either side on its own: it may keep row groups from being read, since a row group's keys
have met the log records before.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa

from hudi_bridge.logformat.scan import SkippedBlocks
from hudi_bridge.merge.columnar import Positions, SliceMerge
from hudi_bridge.merge.payloads import MergeRule
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile, BaseFileColumns
from hudi_bridge.readers.log_record_scanner import ScannedLogs, scan_logs
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

    @property
    def skipped_blocks(self) -> SkippedBlocks:
        """How many log blocks did not count, and why."""
        return self._logs.skipped

    @cached_property
    def _logs(self) -> ScannedLogs:
        return scan_logs(self._storage, self._split, self._rule, self._request.needed)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The merged rows that pass the filter; their order is not promised."""
        merge = SliceMerge(self._logs.records, self._rule)
        if self._split.base_path is not None:
            with BaseFile.open(self._storage, self._split, self._split.base_path) as base:
                yield from self._base_rows(base, merge)
        needed = list(self._request.needed)
        for batch in merge.remaining_log_rows().select(needed).to_batches(ROWS_PER_BATCH):
            rows = self._request.apply(batch)
            if rows.num_rows:
                yield rows

    def _base_rows(self, base: BaseFile, merge: SliceMerge) -> Iterator[pa.RecordBatch]:
        replaced = self._replaced_rows(base, merge)
        wanted = base.view(self._request.needed)
        row_filter = self._request.row_filter
        groups = (
            base.row_groups
            if row_filter is None
            else wanted.matching_row_groups(row_filter, self._request.filter_columns)
        )
        for group in groups:
            start = int(base.row_group_starts[group])
            for batch in wanted.batches(group):
                rows = self._request.apply(_without(batch, replaced, start))
                start += batch.num_rows
                if rows.num_rows:
                    yield rows

    def _replaced_rows(self, base: BaseFile, merge: SliceMerge) -> Positions:
        """The places in the base file of the rows that do not remain, ascending."""
        if not len(self._logs.records):
            return np.empty(0, dtype=np.int64)
        context = self._split.context
        keys = base.view(key_columns(context))
        ordering = base.view(self._rule.ordering_fields) if self._rule.orders_base else None
        rows_per_batch = max(_ROWS_PER_KEY_BATCH, len(self._logs.records))
        replaced = []
        for group in base.row_groups:
            start = int(base.row_group_starts[group])
            met_rows, met_records = [], []
            offset = 0
            for batch in keys.batches(group, rows_per_batch):
                rows, records = merge.find(record_keys(batch, context))
                met_rows.append(rows + offset)
                met_records.append(records)
                offset += batch.num_rows
            rows, records = np.concatenate(met_rows or [np.empty(0, np.int64)]), np.concatenate(met_records or [np.empty(0, np.int64)])
            if not len(rows):
                continue
            values = _take(ordering, group, rows) if ordering is not None and merge.needs_ordering(records) else ()
            replaced.append(merge.replaced(rows, records, values) + start)
        return np.concatenate(replaced) if replaced else np.empty(0, dtype=np.int64)


def _take(columns: BaseFileColumns, group: int, rows: Positions) -> tuple[pa.Array, ...]:
    """The values of some rows of a row group; ``rows`` counts from its start, ascending."""
    pieces = []
    start = 0
    for batch in columns.batches(group):
        low, high = np.searchsorted(rows, [start, start + batch.num_rows])
        if low < high:
            pieces.append(batch.take(pa.array(rows[low:high] - start)))
        start += batch.num_rows
    table = pa.Table.from_batches(pieces, schema=columns.schema)
    return tuple(column.combine_chunks() for column in table.columns)


def _without(batch: pa.RecordBatch, replaced: Positions, start: int) -> pa.RecordBatch:
    low, high = np.searchsorted(replaced, [start, start + batch.num_rows])
    if low == high:
        return batch
    keep = np.ones(batch.num_rows, dtype=np.bool_)
    keep[replaced[low:high] - start] = False
    return batch.filter(pa.array(keep))


