"""Lists the partitions whose rows may pass a filter.

A partition is a folder with a file ``.hoodie_partition_metadata``. Folders in it are ignored, unless it is the folder
of a partitioned table itself. A folder whose values cannot pass is not listed.

Source: ``HoodiePartitionMetadata`` and ``FileSystemBackedTableMetadata``.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import CorruptTableError, StorageError
from hudi_bridge.splits.notes import PARTITION_CONDITION, PARTITIONS, PlanNotes
from hudi_bridge.splits.partitioning import certain_values, folders_that_may_pass, matching_partitions
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.timeline import TableState

PARTITION_METADATA = ".hoodie_partition_metadata"
"""How the name of the file begins that makes a folder a partition."""
# Links to a parent folder multiply folders from level to level.
_USUAL_LEVELS = 12
_MOST_DEEP_FOLDERS = 1000


class _FolderNames:
    """The folders to list, each under one path: links may lead to a folder with another path, or to a parent."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._root = storage.real_path("")
        self._real = {"": self._root}
        self._seen = {self._root}
        self._links: list[str] = []

    def new(self, parent: str, folders: Iterable[str]) -> list[str]:
        """The ``folders`` in ``parent`` that are not links; links are remembered for ``new_links``."""
        new = []
        for path in folders:
            if self._storage.is_link(path):
                self._links.append(path)
                continue
            real = f"{self._real[parent]}/{path.rpartition('/')[2]}"
            if real not in self._seen:
                new.append(path)
                self._seen.add(real)
                self._real[path] = real
        return new

    def new_links(self) -> list[str]:
        """The links so far to folders that have no other path in the table and do not contain the table."""
        new = []
        for path in self._links:
            target = self._storage.real_path(path)
            if target not in self._seen and not self._root.startswith(f"{target.rstrip('/')}/"):
                new.append(path)
                self._seen.add(target)
                self._real[path] = target
        self._links = []
        return new


def list_partitions(
    state: TableState,
    schema: pa.Schema,
    path_columns: tuple[str, ...],
    row_filter: pc.Expression | None,
    list_directory: Callable[[str], Sequence[FileInfo]],
    notes: PlanNotes | None = None,
    *,
    within_partitions: bool = False,
) -> list[str]:
    """The paths of the partitions that may have rows passing the filter; those within others only if so asked.

    A folder is listed once: under its own path, or under a link if it has no other path in the table.

    Raises:
        StorageError: a folder cannot be listed.
    """
    storage, config = state.storage, state.config
    list_folder = partial(_list_folder, state, list_directory, within_partitions=within_partitions)
    partitions: list[str] = []
    names = _FolderNames(storage)
    level, depth, ruled_out = [""], 0, 0
    while level:
        if row_filter is not None:
            ruled_out += len(level)
            level = folders_that_may_pass(storage, row_filter, schema, config, path_columns, level)
            ruled_out -= len(level)
        folders: list[str] = []
        for path, folder in zip(level, map_in_threads(list_folder, level, REQUESTS_AT_ONCE), strict=True):
            if folder.is_partition:
                partitions.append(path)
            folders += names.new(path, folder.below)
        level, depth = folders or names.new_links(), depth + 1
        if depth > _USUAL_LEVELS and len(level) > _MOST_DEEP_FOLDERS:
            found_folders = f"{len(level)} folders {depth} levels deep"
            raise CorruptTableError(level[0], None, found_folders, "partitions; do links lead back up?")
    passing = partitions
    if row_filter is not None and partitions:
        values = {path: certain_values(path, config, schema, path_columns) for path in partitions}
        passing = matching_partitions(storage, schema, row_filter, values)
    if notes is not None:
        notes.counted(PARTITION_CONDITION, ruled_out + len(partitions), len(passing), PARTITIONS)
    return passing


def is_partition(listing: Iterable[FileInfo]) -> bool:
    """Whether a folder with these entries is a partition."""
    return any(info.name.startswith(PARTITION_METADATA) for info in listing)


def folders_in(listing: Iterable[FileInfo]) -> list[str]:
    """The paths of the folders among these entries that may be or hold partitions: all but the table's ``.hoodie``."""
    return [info.path for info in listing if info.is_dir and info.path != HOODIE_FOLDER]


class _Folder(NamedTuple):
    """Whether a folder is a partition, and the folders in it that may be or hold others."""

    is_partition: bool
    below: list[str]


def _list_folder(
    state: TableState,
    list_directory: Callable[[str], Sequence[FileInfo]],
    path: str,
    *,
    within_partitions: bool,
) -> _Folder:
    listing = list_directory(path)
    if not path and all(info.path != HOODIE_FOLDER for info in listing):
        raise StorageError(state.storage.shown_path, "list", f"the listing lacks {HOODIE_FOLDER}, which was read")
    has_marker = is_partition(listing)
    ends_here = has_marker and not within_partitions and (path != "" or not state.config.partition_fields)
    # A partition may have the name that the metadata of another table in the folder would have.
    ends_here = ends_here or path.rpartition("/")[2] == HOODIE_FOLDER
    return _Folder(has_marker, [] if ends_here else folders_in(listing))
