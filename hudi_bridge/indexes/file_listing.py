"""The data files of a table, from the ``files`` partition of its metadata table.

If it cannot be used although the properties say that it is complete, a warning says why, once, and folders are listed
instead. Answers do not depend on which of the two was used: the timeline decides what is read of the files.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptTableError
from hudi_bridge.indexes.metadata_table import IndexPartition, MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import ALL_PARTITIONS, FILES
from hudi_bridge.splits.file_slice import EXTERNAL_PATTERN
from hudi_bridge.splits.file_system_view import FILES as FILE_COLUMNS
from hudi_bridge.splits.notes import warn_of_unused_metadata
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.timeline.timeline import TableState

# The key of the files of a table without partitions.
_NO_PARTITION = "."


def indexed_listings(state: TableState, metadata: Callable[[], MetadataTable]) -> FolderListings:
    """Listings that ask the metadata table first, unless the table has none or the options switch it off.

    The metadata table is opened when it is first needed.
    """
    why_not = why_not_there(state, FILES)
    if why_not is not None:
        return FolderListings(state, why_no_index=why_not)
    return FolderListings(state, MetadataFileIndex(state, metadata))


class MetadataFileIndex:
    """The files of a table in one state, as its metadata table has them."""

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The index of a state; nothing is read yet."""
        self._state = state
        report = partial(warn_of_unused_metadata, state.config.table_path)
        self._index = IndexPartition(metadata, FILES, None, report)
        self._partitions: tuple[str, ...] | None = None

    @property
    def why_not(self) -> str | None:
        """Why the metadata table cannot be used, as far as that has been found out."""
        return self._index.why_not

    def partitions(self) -> tuple[str, ...] | None:
        """The paths of all partitions, None if the metadata table cannot be used."""
        return self._index.ask(self._listed_partitions)

    def files(self, partition_paths: Sequence[str]) -> pa.Table | None:
        """The data files of partitions, as ``FileIndex`` has them, None if the metadata table cannot be used."""
        return self._index.ask(lambda table: _files(table, partition_paths))

    def _listed_partitions(self, table: MetadataTable) -> tuple[str, ...]:
        if self._partitions is None:
            names = _texts(table.of_keys(FILES, [ALL_PARTITIONS]).column("name"))
            paths = tuple("" if name == _NO_PARTITION else name for name in names)
            for path in paths:
                self._state.storage.resolve(path)
            self._partitions = paths
        return self._partitions


def _files(table: MetadataTable, partition_paths: Sequence[str]) -> pa.Table:
    records = table.of_keys(FILES, [path or _NO_PARTITION for path in partition_paths])
    names = records.column("name")
    nested = names.filter(pc.match_substring(names, "/"))
    # An external file may be in folders of the partition.
    nested = nested.filter(pc.invert(pc.match_substring_regex(nested, EXTERNAL_PATTERN)))
    if len(nested):
        raise CorruptTableError(FILES, None, f"a file named {nested[0].as_py()!r}", "names without slashes")
    keys: Any = records.column("key")
    partitions = pc.if_else(pc.equal(keys, pa.scalar(_NO_PARTITION)), pa.scalar(""), keys)
    return pa.table([partitions, names, records.column("size_bytes")], schema=FILE_COLUMNS)


def _texts(column: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(text) for text in column.to_pylist()]
