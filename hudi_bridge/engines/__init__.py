"""The API for engines that read the files of file slices themselves.

Connectors use no other module of the read path.
"""

from hudi_bridge.engines.identity import context_identity, identity, payload_identity, slice_identity
from hudi_bridge.engines.log_blocks import (
    LogDeletes,
    StoredLogBlock,
    base_key_range,
    held_keys,
    iter_log_blocks,
    log_record_keys,
    record_layout,
)
from hudi_bridge.engines.merged_slices import MemoryStore, MergedSlice, MergedSlices, MergeStore
from hudi_bridge.engines.slice_delta import (
    SliceDelta,
    SurvivingLogRecords,
    single_key_field,
    slice_delta,
    slice_delta_in,
)
from hudi_bridge.engines.stored_base_file import (
    ColumnIds,
    ColumnStatistics,
    StoredBaseFile,
    column_ids,
    column_statistics,
    in_path_and_file,
    iter_fields,
)
from hudi_bridge.merge.arrays import is_number, ordering_path, ordering_type
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.merge.rules import IS_DELETED_COLUMN, MergeRule
from hudi_bridge.merge.unset_fields import META_FIELDS, unset_value
from hudi_bridge.readers.filters import MOST_PARTS, Joined, joined_by_and, joined_by_or, one_of
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.schedule import iter_parallel, most_at_once
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.evolve import has_two_levels
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.planner import Split

__all__ = [
    "IS_DELETED_COLUMN",
    "META_COLUMNS",
    "META_FIELDS",
    "MOST_PARTS",
    "OPERATION_COLUMN",
    "ColumnIds",
    "ColumnMapping",
    "ColumnStatistics",
    "Joined",
    "LogDeletes",
    "MemoryStore",
    "MergeRule",
    "MergeStore",
    "MergedSlice",
    "MergedSlices",
    "Outcome",
    "RecordPayload",
    "RowRequest",
    "SliceDelta",
    "Split",
    "StoredBaseFile",
    "StoredLogBlock",
    "SurvivingLogRecords",
    "base_key_range",
    "child_path",
    "column_ids",
    "column_statistics",
    "context_identity",
    "has_two_levels",
    "held_keys",
    "identity",
    "in_path_and_file",
    "is_number",
    "is_variant",
    "iter_fields",
    "iter_log_blocks",
    "iter_parallel",
    "joined_by_and",
    "joined_by_or",
    "log_record_keys",
    "most_at_once",
    "one_of",
    "ordering_path",
    "ordering_type",
    "payload_identity",
    "record_layout",
    "single_key_field",
    "slice_delta",
    "slice_delta_in",
    "slice_identity",
    "unset_value",
]
