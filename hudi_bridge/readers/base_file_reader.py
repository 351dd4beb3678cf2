"""A file slice's base file alone."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.parallel import iter_ahead
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class BaseFileReader:
    """Reads the base file of one split as it is; the whole filter may keep row groups from being read."""

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
        self.schema = pa.schema([split.context.schema.field(name) for name in request.columns])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the base file that pass the filter, in its order."""
        with OpenBaseFile.open(self._storage, self._split, self._base_path, use_threads=self._use_threads) as base:
            wanted = base.view(self._request.needed)
            read = partial(self._stored_batches, wanted)
            for stored in iter_ahead(read) if self._use_threads else read():
                yield from wanted.passing(stored, self._request)

    def _stored_batches(self, wanted: BaseFileColumns) -> Iterator[pa.RecordBatch]:
        for group in wanted.matching_row_groups(self._request):
            yield from wanted.stored_batches(group)
