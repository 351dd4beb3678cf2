"""Reads a split of changes, from its change data files or by comparing its slices."""

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.cdc_log import ChangeLog
from hudi_bridge.changes.images import Changes
from hudi_bridge.changes.slice_differences import StateChanges
from hudi_bridge.changes.slice_rows import all_rows, slice_rows
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.merge.arrays import Column
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class SliceReader(Protocol):
    """Reads one file slice."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows."""


class ChangeReader:
    """Reads one split of changes, and its file slices with ``open_slice``. Batches may be iterated more than once."""

    def __init__(
        self,
        storage: Storage,
        split: ChangeSplit,
        request: RowRequest,
        open_slice: Callable[[RealtimeFileSplit, RowRequest], SliceReader],
        at_once: int,
    ) -> None:
        self._storage = storage
        self._split = split
        self._request = request
        self._open_slice = open_slice
        self._at_once = at_once
        self.schema = pa.schema([split.context.schema.field(name) for name in request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The changes that pass the filter, in no particular order."""
        for changes in self._changes():
            batch = changes.batch(self._split, self._request)
            if batch.num_rows:
                yield batch

    def _changes(self) -> Iterator[Changes]:
        if not any(group.cdc_paths for group in self._split.groups):
            yield from StateChanges(self._storage, self._split, self._read_slice, self._at_once).changes()
            return
        wanted = frozenset(self._request.needed)
        for group in self._split.groups:
            yield from ChangeLog(self._storage, self._split.image, group, self._rows_of_keys, wanted).changes()

    def _read_slice(self, piece: RealtimeFileSplit, row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        return self._open_slice(piece, RowRequest.of(piece.context.schema, row_filter=row_filter)).batches()

    def _rows_of_keys(self, piece: RealtimeFileSplit, keys: Column) -> tuple[Any, pa.Table]:
        wanted = keys if piece.context.populates_meta_fields else None
        found = all_rows(slice_rows(self._read_slice, piece, "", wanted, None), piece.context.schema)
        return found.keys.combine_chunks(), found.rows
