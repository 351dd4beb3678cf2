"""The data files of a table, from the ``files`` partition of its metadata table.

Where the metadata table cannot be used, although the properties say that it is complete, a warning says why, once, and
files are listed in storage. An answer does not depend on it: the timeline decides what is read of the files.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptTableError, HudiReadError
from hudi_bridge.indexes.metadata_table import MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import ALL_PARTITIONS, FILES
from hudi_bridge.splits.file_slice import EXTERNAL_PATTERN
from hudi_bridge.splits.file_system_view import FILES as FILE_COLUMNS
from hudi_bridge.splits.notes import warn_of_unused_metadata
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.timeline.timeline import TableState

# The key of the files of a table without partitions.
_NO_PARTITION = "."

_Answer = TypeVar("_Answer")


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
        self._metadata = metadata
        self.why_not: str | None = None

    def partitions(self) -> tuple[str, ...] | None:
        """The paths of all partitions, None if the metadata table cannot be used."""
        return self._ask(lambda: self._partitions)

    def files(self, partition_paths: Sequence[str]) -> pa.Table | None:
        """The data files of partitions, as ``FileIndex`` has them, None if the metadata table cannot be used."""
        return self._ask(lambda: self._files(partition_paths))

    def _ask(self, question: Callable[[], _Answer]) -> _Answer | None:
        if self.why_not is not None:
            return None
        try:
            return question()
        except (HudiReadError, OSError, pa.ArrowInvalid) as error:
            self.why_not = str(error)
            warn_of_unused_metadata(self._state.config.table_path, self.why_not)
            return None

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(FILES)
        return table

    @cached_property
    def _partitions(self) -> tuple[str, ...]:
        names = _texts(self._table.of_keys(FILES, [ALL_PARTITIONS]).column("name"))
        paths = tuple("" if name == _NO_PARTITION else name for name in names)
        for path in paths:
            self._state.storage.resolve(path)
        return paths

    def _files(self, partition_paths: Sequence[str]) -> pa.Table:
        found = self._table.of_keys(FILES, [path or _NO_PARTITION for path in partition_paths])
        names = found.column("name")
        nested = names.filter(pc.match_substring(names, "/"))
        # An external file may be in folders of the partition.
        nested = nested.filter(pc.invert(pc.match_substring_regex(nested, EXTERNAL_PATTERN)))
        if len(nested):
            raise CorruptTableError(FILES, None, f"a file named {nested[0].as_py()!r}", "names without slashes")
        keys: Any = found.column("key")
        partitions = pc.if_else(pc.equal(keys, pa.scalar(_NO_PARTITION)), pa.scalar(""), keys)
        return pa.table([partitions, names, found.column("size_bytes")], schema=FILE_COLUMNS)


def _texts(column: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(text) for text in column.to_pylist()]
