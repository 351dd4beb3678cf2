"""The metadata of a table as Arrow tables: what it is, its timeline, its files of all times, log blocks, indexes.

Times are instants, paths are relative to the table, sizes are in bytes.
"""

from hudi_bridge.inspection.file_groups import (
    ALL_SLICES_SCHEMA,
    FILE_GROUP_SCHEMA,
    inspect_all_slices,
    inspect_file_group,
)
from hudi_bridge.inspection.log_files import LOG_BLOCKS_SCHEMA, inspect_log_blocks, inspect_log_records
from hudi_bridge.inspection.overview import (
    COLUMNS_SCHEMA,
    COMMIT_FILES_SCHEMA,
    COMMITS_SCHEMA,
    FILE_SLICES_SCHEMA,
    FILES_SCHEMA,
    METADATA_PARTITIONS_SCHEMA,
    SPLITS_SCHEMA,
    TABLE_SCHEMA,
    TIMELINE_SCHEMA,
    inspect_columns,
    inspect_commit,
    inspect_commit_files,
    inspect_commits,
    inspect_file_slices,
    inspect_files,
    inspect_metadata_records,
    inspect_metadata_table,
    inspect_splits,
    inspect_table,
    inspect_timeline,
    splits_to_table,
    table_facts,
)

__all__ = [
    "ALL_SLICES_SCHEMA",
    "COLUMNS_SCHEMA",
    "COMMITS_SCHEMA",
    "COMMIT_FILES_SCHEMA",
    "FILES_SCHEMA",
    "FILE_GROUP_SCHEMA",
    "FILE_SLICES_SCHEMA",
    "LOG_BLOCKS_SCHEMA",
    "METADATA_PARTITIONS_SCHEMA",
    "SPLITS_SCHEMA",
    "TABLE_SCHEMA",
    "TIMELINE_SCHEMA",
    "inspect_all_slices",
    "inspect_columns",
    "inspect_commit",
    "inspect_commit_files",
    "inspect_commits",
    "inspect_file_group",
    "inspect_file_slices",
    "inspect_files",
    "inspect_log_blocks",
    "inspect_log_records",
    "inspect_metadata_records",
    "inspect_metadata_table",
    "inspect_splits",
    "inspect_table",
    "inspect_timeline",
    "splits_to_table",
    "table_facts",
]
