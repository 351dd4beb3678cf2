"""The data files of a table, from the ``files`` partition of its metadata table.

Where the metadata table cannot be used, although the properties say that it is complete, a warning says why, once, and
files are listed in storage. An answer does not depend on it: the timeline decides what is read of the files.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import CorruptTableError, HudiReadError
from hudi_bridge.metadata.record_kinds import ALL_PARTITIONS, FILES
from hudi_bridge.metadata.table import MetadataTable
from hudi_bridge.splits.plan_warnings import warn_of_unused_metadata
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.storage import FileInfo
from hudi_bridge.timeline.table_state import TableState

# The key of the files of a table without partitions.
_NO_PARTITION = "."

_Answer = TypeVar("_Answer")


def indexed_listings(state: TableState, metadata: Callable[[], MetadataTable]) -> FolderListings:
    """Listings that ask the metadata table first, unless the table has none or the options switch it off.

    The metadata table is opened when it is first needed.
    """
    has_index = FILES in state.config.metadata_partitions and state.options.uses_metadata_table
    return FolderListings(state.storage, MetadataFileIndex(state, metadata) if has_index else None)


class MetadataFileIndex:
    """The files of a table in one state, as its metadata table has them."""

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The index of a state; nothing is read yet."""
        self._state = state
        self._metadata = metadata
        self._is_usable = True

    def partitions(self) -> tuple[str, ...] | None:
        """The paths of all partitions, None if the metadata table cannot be used."""
        return self._ask(lambda: self._partitions)

    def files(self, partition_paths: Sequence[str]) -> Mapping[str, tuple[FileInfo, ...]] | None:
        """The data files of partitions, by path of the partition, None if the metadata table cannot be used."""
        return self._ask(lambda: self._files(partition_paths))

    def _ask(self, question: Callable[[], _Answer]) -> _Answer | None:
        if not self._is_usable:
            return None
        try:
            return question()
        except (HudiReadError, OSError, pa.ArrowInvalid) as error:
            self._is_usable = False
            warn_of_unused_metadata(self._state.config.table_path, str(error))
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

    def _files(self, partition_paths: Sequence[str]) -> dict[str, tuple[FileInfo, ...]]:
        found = self._table.of_keys(FILES, [path or _NO_PARTITION for path in partition_paths])
        files: dict[str, list[FileInfo]] = {path: [] for path in partition_paths}
        sizes = found.column("size_bytes").to_numpy().tolist()
        for key, name, size in zip(_texts(found.column("key")), _texts(found.column("name")), sizes, strict=True):
            if "/" in name:
                raise CorruptTableError(key, None, f"a file named {name!r}", "names without slashes")
            path = "" if key == _NO_PARTITION else key
            files[path].append(FileInfo(path=f"{path}/{name}" if path else name, size_bytes=size, is_dir=False))
        return {path: tuple(entries) for path, entries in files.items()}


def _texts(column: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(text) for text in column.to_pylist()]
