"""The one place that picks the reader of a split."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.changes.reader import ChangeReader
from hudi_bridge.changes.split import ChangeSplit
from hudi_bridge.errors import QueryError
from hudi_bridge.readers.base_file_reader import ReadOptimizedReader
from hudi_bridge.readers.realtime_compacted import RealtimeCompactedReader
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN
from hudi_bridge.splits.query_plan import Split
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage


class SplitReader(Protocol):
    """Reads one split."""

    schema: pa.Schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the split."""


def open_reader(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    row_filter: pc.Expression | None = None,
    filesystem: Any = None,  # noqa: ANN401 - of any library
) -> SplitReader:
    """The reader of a split, which needs nothing but the split; ``filesystem`` as for ``HudiTable.open``.

    Raises:
        QueryError: a column or the filter does not fit the table.
    """
    storage = Storage.open(split.context.table_path, filesystem)
    return reader_for(storage, split, RowRequest.of(split.context.schema, columns, row_filter))


def reader_for(
    storage: Storage, split: Split, request: RowRequest, *, use_threads: bool = True, at_once: int = 1
) -> SplitReader:
    """The reader of a split in a storage that is already open; with ``use_threads``, one split uses several cores.

    Splits that are read ``at_once``, this one among them, share the memory for logs.
    """
    if isinstance(split, ChangeSplit):
        open_slice = partial(reader_for, storage, use_threads=use_threads, at_once=at_once)
        return ChangeReader(storage, split, request, open_slice, at_once)
    if not isinstance(split, RealtimeFileSplit):
        raise QueryError("split", type(split).__name__, "a split of a plan")
    context = split.context
    if context.commit_times is not None:
        request = request.narrowed(pc.field(COMMIT_TIME_COLUMN).isin(sorted(context.commit_times)), context.schema)
    rule = context.merge_rule
    if rule is not None and split.log_paths:
        return RealtimeCompactedReader(storage, split, rule, request, use_threads=use_threads, at_once=at_once)
    if split.base_path is None:
        raise QueryError("split", "neither a base file nor log files to merge", "a split of a planner")
    return ReadOptimizedReader(storage, split, split.base_path, request, use_threads=use_threads)
