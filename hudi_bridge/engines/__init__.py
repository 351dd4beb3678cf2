"""The door for engines that read the files of file slices themselves.

``slice_delta`` says what an engine has to change in the rows of a base file that it has read: which to leave out, and
which log records to add. ``iter_log_blocks`` has the log records themselves, ``MergedSlices`` the merged rows, and the
identities say when a result that is stored is that of a slice as it is now.
"""

from hudi_bridge.engines.identity import context_identity, identity, slice_identity
from hudi_bridge.engines.log_blocks import LogDeletes, StoredLogBlock, iter_log_blocks, record_layout
from hudi_bridge.engines.merged_slices import MemoryStore, MergedSlice, MergedSlices, MergeStore
from hudi_bridge.engines.slice_delta import SliceDelta, SurvivingLogRecords, slice_delta, slice_delta_in
from hudi_bridge.engines.stored_base_file import (
    ColumnIds,
    ColumnStatistics,
    StoredBaseFile,
    column_ids,
    column_statistics,
)

__all__ = [
    "ColumnIds",
    "ColumnStatistics",
    "LogDeletes",
    "MemoryStore",
    "MergeStore",
    "MergedSlice",
    "MergedSlices",
    "SliceDelta",
    "StoredBaseFile",
    "StoredLogBlock",
    "SurvivingLogRecords",
    "column_ids",
    "column_statistics",
    "context_identity",
    "identity",
    "iter_log_blocks",
    "record_layout",
    "slice_delta",
    "slice_delta_in",
    "slice_identity",
]
