"""The interface for engines that read the files of file slices themselves.

``slice_delta`` returns the changes to make to the rows of a base file: rows to leave out, and log records to add.
``iter_log_blocks`` returns the log records themselves, ``MergedSlices`` the merged rows. Identities tell whether a
stored result still belongs to a slice.
"""

from hudi_bridge.engines.log_blocks import LogDeletes, StoredLogBlock, iter_log_blocks, record_layout
from hudi_bridge.engines.merged_slices import (
    MemoryStore,
    MergedSlice,
    MergedSlices,
    MergeStore,
    context_identity,
    identity,
    slice_identity,
)
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
