"""Hudi's meta columns: ``HoodieRecord.HOODIE_META_COLUMNS``, and the operation field."""

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
COMMIT_TIME_COLUMN = "_hoodie_commit_time"
RECORD_KEY_COLUMN = "_hoodie_record_key"
PARTITION_PATH_COLUMN = "_hoodie_partition_path"
FILE_NAME_COLUMN = "_hoodie_file_name"
OPERATION_COLUMN = "_hoodie_operation"
