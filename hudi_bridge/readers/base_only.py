"""Reads the base file of a slice without logs."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.late_columns import WantedRows, kept_rows
from hudi_bridge.readers.parallel import iter_ahead
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.row_groups import ReadExtent, RowGroups, extent, groups_without_logs
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class BaseFileReader:
    """Reads the base file of one split without logs; the filter may skip row groups."""

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        base_path: str,
        request: RowRequest,
        *,
        use_threads: bool = True,
    ) -> None:
        self._storage = storage
        self._split = split
        self._base_path = base_path
        self._request = request
        self._use_threads = use_threads
        self._is_selective = request.is_selective(dict(split.partition_values))
        self.schema = pa.schema([split.context.schema.field(name) for name in request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter, in the order of the base file."""
        with self._open() as base:
            wanted = base.view(self._request.needed, are_held=self._request.is_held)
            deciding = self._deciding(base)
            groups = groups_without_logs(wanted, self._request, deciding)
            if deciding is not None:
                yield from self._selected(base, wanted, groups, deciding)
                return
            read = partial(self._stored_batches, wanted, groups)
            for stored in iter_ahead(read) if self._use_threads else read():
                yield from wanted.passing(stored, self._request)

    def extent(self) -> ReadExtent:
        """What the read needs of the base file, of which only the footer is read."""
        with self._open() as base:
            wanted, deciding = base.view(self._request.needed), self._deciding(base)
            groups = groups_without_logs(wanted, self._request, deciding)
            first = () if deciding is None else base.view(deciding.columns).file_columns
            return extent(base, groups, (*first, *wanted.file_columns))

    def _open(self) -> OpenBaseFile:
        return open_base_file(
            self._storage,
            self._split,
            self._base_path,
            use_threads=self._use_threads,
            keep_footer=self._is_selective or self._request.row_filter is not None,
        )

    def _deciding(self, base: OpenBaseFile) -> WantedRows | None:
        return WantedRows(base, self._request, self._split.context) if self._is_selective else None

    def _stored_batches(self, wanted: BaseFileColumns, groups: RowGroups) -> Iterator[pa.RecordBatch]:
        wanted.expect(sorted(groups.rows))
        for group in sorted(groups.rows):
            yield from wanted.stored_batches(group)

    def _selected(
        self, base: OpenBaseFile, wanted: BaseFileColumns, groups: RowGroups, deciding: WantedRows
    ) -> Iterator[pa.RecordBatch]:
        first = base.view(deciding.columns)
        chosen = self._request.of_chosen_rows()
        for group in sorted(groups.rows):
            for stored, _ in kept_rows(first, wanted, group, deciding.among):
                yield from wanted.passing(stored, chosen)
