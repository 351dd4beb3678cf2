"""Reads of file slices, for tests of what is below ``reader_for``."""

from dataclasses import replace

from hudi_bridge.readers.request import RowRequest, SliceRead
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage


def slice_read(storage: Storage, split: RealtimeFileSplit, log_memory_bytes: int = 1 << 30) -> SliceRead:
    """The read of all columns and rows of a slice."""
    split = replace(split, context=replace(split.context, log_memory_bytes=log_memory_bytes))
    return SliceRead(storage=storage, split=split, request=RowRequest.of(split.context.schema))
