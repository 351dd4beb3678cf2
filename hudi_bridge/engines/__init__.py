"""The door for engines that read the files of a file slice themselves: what they ask of it, and what they are given."""

from hudi_bridge.engines.column_ids import ColumnIds, column_ids
from hudi_bridge.engines.identity import context_identity, identity, payload_identity, slice_identity
from hudi_bridge.engines.log_blocks import StoredLogBlock, iter_log_blocks
from hudi_bridge.engines.slice_delta import SliceDelta, SurvivingLogRecords, slice_delta
from hudi_bridge.engines.slice_keys import base_key_range, held_keys, log_record_keys
from hudi_bridge.engines.stored_base_file import StoredBaseFile, iter_fields
from hudi_bridge.schema.difference import child_path
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome

__all__ = [
    "ColumnIds",
    "ColumnMapping",
    "Outcome",
    "SliceDelta",
    "StoredBaseFile",
    "StoredLogBlock",
    "SurvivingLogRecords",
    "base_key_range",
    "child_path",
    "column_ids",
    "context_identity",
    "held_keys",
    "identity",
    "iter_fields",
    "iter_log_blocks",
    "log_record_keys",
    "payload_identity",
    "slice_delta",
    "slice_identity",
]
