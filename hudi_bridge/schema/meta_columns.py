"""Hudi's meta columns: ``HoodieRecord.HOODIE_META_COLUMNS``, and the operation field."""

from collections.abc import Iterable

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
COMPLETION_TIME_COLUMN = "_hoodie_commit_completion_time"
"""No column of Hudi's: made from the timeline if an option asks for it, and so not among the ``META_COLUMNS``."""


def own_columns(names: Iterable[str]) -> list[str]:
    """The names that are not those of meta columns."""
    return [name for name in names if name not in META_COLUMNS]
