"""Reads rows with the completion times of their commits, which no file has.

The stored columns are read, among them the commit time of each merged row, from which its completion time follows. For
a filter on completion times, the commits whose rows may pass are found once for a scan. They become a condition that
readers of files understand; the filter itself is applied to rows with all columns.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.readers.blobs import BatchReader
from hudi_bridge.readers.filters import allowed_values
from hudi_bridge.readers.request import RowRequest, SliceRead, SplitRead
from hudi_bridge.readers.small_slices import SmallSlices
from hudi_bridge.schema.meta_columns import COMMIT_TIME_COLUMN, COMPLETION_TIME_COLUMN
from hudi_bridge.splits.partitions import paths_that_may_pass, range_guarantee
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit, stored_context
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import MISSING_MILLIS, SECONDS_LENGTH, CompletionTimes

_UNKNOWN = ""
"""Stands for all commits whose completion time is not known."""
_MOST_PARTS = 256
"""Of so many parts of the timeline it is asked whether their commits may pass, which takes some ten milliseconds."""


def with_commits_of_filter(request: RowRequest, storage: Storage, context: ReadContext) -> RowRequest:
    """The same request; if it filters by completion times, with the commits that may pass as a further condition."""
    times = context.completion_times
    if times is None or request.row_filter is None or COMPLETION_TIME_COLUMN not in request.filter_columns:
        return request
    commits = sorted(times.by_request.items())
    size = max(1, -(-len(commits) // _MOST_PARTS))
    parts = {str(start): commits[start : start + size] for start in range(0, len(commits), size)}
    guarantees = {name: [_guarantee(part)] for name, part in parts.items()}
    guarantees[_UNKNOWN] = [pc.field(COMPLETION_TIME_COLUMN).is_null()]
    passing = paths_that_may_pass(storage, request.row_filter, context.schema, guarantees)
    requested = [time for name in passing for time, _ in parts.get(name, ())]
    # A reader of few commits reads less at a time.
    if _UNKNOWN in passing or 2 * len(requested) > len(commits):
        return request
    # Hudi sometimes adds milliseconds to an instant of seconds.
    requested += [time + MISSING_MILLIS for time in requested if len(time) == SECONDS_LENGTH]
    return request.narrowed(pc.field(COMMIT_TIME_COLUMN).isin(pa.array(requested, pa.string())), context.schema)


def _guarantee(commits: Sequence[tuple[str, str]]) -> pc.Expression:
    """An expression that is true for the rows of commits that were requested one after the other."""
    completed = [time for _, time in commits]
    ends = (commits[0][0], commits[-1][0]), (min(completed), max(completed))
    of_requests, of_completions = ((pa.scalar(least), pa.scalar(greatest)) for least, greatest in ends)
    return range_guarantee(COMMIT_TIME_COLUMN, *of_requests, may_be_null=False) & range_guarantee(
        COMPLETION_TIME_COLUMN, *of_completions, may_be_null=False
    )


def stored_read(read: "SplitRead[RealtimeFileSplit | SmallSlices]") -> "SplitRead[RealtimeFileSplit | SmallSlices]":
    """The read of the stored columns that a read of rows with completion times needs."""
    context, split = stored_context(read.split.context), read.split
    stored: RealtimeFileSplit | SmallSlices
    if isinstance(split, SmallSlices):
        stored = SmallSlices(slices=tuple(replace(file_slice, context=context) for file_slice in split.slices))
    else:
        stored = replace(split, context=context)
    return replace(read, split=stored, request=_stored_request(read.request, context))


def stored_slice_read(read: SplitRead[Any], file_slice: RealtimeFileSplit) -> SliceRead:
    """The read of a file slice, without completion times, which its files do not have."""
    if file_slice.context.completion_times is None:
        return read.of_slice(file_slice)
    context = stored_context(file_slice.context)
    return read.of_slice(replace(file_slice, context=context), _stored_request(read.request, context))


def _stored_request(request: RowRequest, stored: ReadContext) -> RowRequest:
    """What a request needs of the files: the columns that these may have, of the rows of commits that may pass.

    If the request filters by completion times, all of its filter is left to ``with_completion_times``.
    """
    if COMPLETION_TIME_COLUMN not in request.needed:
        return request
    is_filtered = COMPLETION_TIME_COLUMN in request.filter_columns
    names = (*(request.needed if is_filtered else request.columns), COMMIT_TIME_COLUMN)
    columns = tuple(dict.fromkeys(name for name in names if name != COMPLETION_TIME_COLUMN))
    if not is_filtered or request.row_filter is None:
        return replace(request, columns=columns)
    commits = allowed_values(request.row_filter, COMMIT_TIME_COLUMN)
    condition = None if commits is None else pc.field(COMMIT_TIME_COLUMN).isin(commits)
    of_commits = RowRequest.of(stored.schema, columns, condition)
    return replace(of_commits, record_keys=request.record_keys, is_materialized=request.is_materialized)


def with_completion_times(stored: BatchReader, read: "SplitRead[RealtimeFileSplit | SmallSlices]") -> BatchReader:
    """The reader of a read whose ``stored_read`` the given one reads."""
    times, request = read.split.context.completion_times, read.request
    if times is None or COMPLETION_TIME_COLUMN not in request.needed:
        return stored
    schema = pa.schema([read.split.context.schema.field(name) for name in request.columns])
    return _CompletionTimeReader(stored, request, times, schema)


class _CompletionTimeReader:
    def __init__(self, stored: BatchReader, request: RowRequest, times: CompletionTimes, schema: pa.Schema) -> None:
        self._stored = stored
        self._request = request
        self._times = times
        self.schema = schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        is_filtered = COMPLETION_TIME_COLUMN in self._request.filter_columns
        for rows in self._stored.batches():
            completed = self._times.of(rows.column(COMMIT_TIME_COLUMN))
            complete = rows.append_column(COMPLETION_TIME_COLUMN, completed)
            batch = self._request.apply(complete) if is_filtered else complete.select(list(self._request.columns))
            if batch.num_rows:
                yield batch
