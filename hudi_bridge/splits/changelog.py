"""Whether the rows of a table have the operation of a changelog, as Flink writes it.

The properties of a table need not say so. Hudi looks for the column in a data file of the newest commit.

Source: ``TableSchemaResolver.hasOperationField``.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from hudi_bridge.config import TableConfig
from hudi_bridge.errors import CorruptTableError, DataFileGoneError, HudiReadError
from hudi_bridge.schema.meta_columns import OPERATION_COLUMN
from hudi_bridge.splits.stored_schema import stored_schema
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.commit_metadata import CommitMetadata, WriteStat, read_commit_metadata
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.table_state import TableState

_MOST_COMMITS = 3
_MOST_FILES = 3
_BYTES_OF_ANSWER = 128
_KEY = "rows have operations"


def with_operations(state: TableState, known: tuple[Instant, CommitMetadata] | None) -> TableConfig:
    """The configuration of the table; if it does not tell of operations, the files of the newest commit do.

    ``known`` is a commit of which the metadata has been read already, if any has. The answer is kept: writers of one
    table do not change it, and where they did, rows with an operation are refused.
    """
    config, kept = state.config, state.storage.kept
    if config.allow_operation_field is not None or not config.populates_meta_fields:
        return config
    answer: bool | None = kept.get(_KEY)
    if answer is None:
        names = (_column_names(state.storage, stat) for stat in islice(_newest_files(state, known), _MOST_FILES))
        found = next((OPERATION_COLUMN in some for some in names if some is not None), None)
        answer = bool(found)
        if found is not None:
            kept.put(_KEY, found, _BYTES_OF_ANSWER)
    return replace(config, allow_operation_field=answer)


def _newest_files(state: TableState, known: tuple[Instant, CommitMetadata] | None) -> Iterator[WriteStat]:
    """What the newest commit has written that has written anything."""
    for commit in islice(reversed(state.timeline.commits()), _MOST_COMMITS):
        try:
            metadata = known[1] if known is not None and commit == known[0] else read_commit_metadata(state, commit)
        except (CorruptTableError, DataFileGoneError):
            # A commit that is read for rows, too, is an error then.
            continue
        if metadata.write_stats:
            yield from metadata.write_stats
            return


def _column_names(storage: Storage, stat: WriteStat) -> list[str] | None:
    """The columns of a data file; None if it is gone or damaged, or does not tell.

    Raises:
        StorageError: the file cannot be read.
    """
    stored = stored_schema(storage, stat.path)
    try:
        return None if stored is None else stored.names
    except HudiReadError:
        # Whether it matters is found out when rows are read.
        return None
