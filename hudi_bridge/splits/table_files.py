"""The data files of a table, as the file slices that queries see.

Files are found in an index of files, if one can be used and more than a few folders are needed, or by listing folders.
A folder is listed once, when a query first needs it; file slices are cached too, except in tables of very many files.
If there are files that Hudi did not write, a listing does not show which of them belong to the table, so the index or
the commits are asked. ``CurrentFiles`` is for queries that know from commits which files they need; a file that the
index lacks is looked up in storage, so that no existing file counts as gone.

``open_state`` opens a table. It refuses a table with data files but without a timeline, which would read as empty.
"""

import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol, cast

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads, run_at_once
from hudi_bridge.config import QueryType, read_table_config
from hudi_bridge.errors import CorruptTableError, CorruptTimelineError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import ReadOptions, with_read_options
from hudi_bridge.splits.committed_files import CommittedFiles, may_hold_external, registered_files, with_registered
from hudi_bridge.splits.copy_on_write import CommandLogs
from hudi_bridge.splits.file_slice import FileSlice, file_id_of, is_data_file
from hudi_bridge.splits.file_system_view import (
    FILES,
    PlainSlices,
    TimelineView,
    ViewFiles,
    build_file_groups,
    latest_read_optimized_slice,
    latest_snapshot_slice,
    newest_plain_slices,
    view_timeline,
)
from hudi_bridge.splits.notes import LISTING, METADATA_TABLE, PARTITION_CONDITION, PARTITIONS, FileSource, PlanNotes
from hudi_bridge.splits.partitions import (
    QueryColumns,
    certain_values,
    folders_in,
    is_partition,
    list_partitions,
    matching_partitions,
)
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.timeline.time_travel import validate_not_cleaned
from hudi_bridge.timeline.timeline import TableState

_MAX_CACHED_SLICES = 20_000
"""About 7 MB, at 350 bytes a slice."""
_MOST_PLAIN_ENTRIES = 1_000
"""Beyond so many entries, listings are compressed."""
_PARTITIONS_AT_FIRST = 256
"""Few enough that the first slices are returned soon."""
_MOST_PARTITIONS_AT_ONCE = 1 << 13
"""The most partitions that are listed, and in memory, before any of their slices is returned."""
_FEW_FOLDERS = 8
"""Listing so few folders is faster than reading the index, which has its own timeline and files."""
_LISTED_SOONER = f"the table has at most {_FEW_FOLDERS} folders"
_FEW_NAMED = f"at most {_FEW_FOLDERS} partitions are needed"
_FASTEST = 1
_WINDOW_BITS = 11
_MEMORY_LEVEL = 4


class FileIndex(Protocol):
    """An index of the files of a table; if it cannot be used, it reports that itself."""

    @property
    def why_not(self) -> str | None:
        """Why the index cannot be used, if that has been found out."""

    def partitions(self) -> Sequence[str] | None:
        """The paths of all partitions, None if the index cannot be used."""

    def files(self, partition_paths: Sequence[str]) -> pa.Table | None:
        """The data files of partitions, with the columns of ``FILES`` and ordered by partition and name.

        None if the index cannot be used.
        """


class FolderListings:
    """Cached listings of a table's folders, and the index that is asked first for data files, if any.

    Entries are compressed to a few bytes each, since names in one folder are similar. The first small folders are not
    compressed: most tables have no others.
    """

    def __init__(
        self, state: TableState, index: FileIndex | None = None, why_no_index: str = "it shows no earlier states"
    ) -> None:
        """Starts without folders; ``why_no_index`` is the reason if there is no index.

        If the index does not have the external files, the commits of ``state`` do.
        """
        self.index = index
        self.why_no_index = why_no_index
        self.command_logs = CommandLogs(state)
        self._state = state
        self._storage = state.storage
        self._may_hold_external = False
        self._packed: dict[str, bytes] = {}
        self._plain: dict[str, tuple[FileInfo, ...]] = {}
        self._plain_entries = 0
        self._groups: dict[str, Mapping[str, Sequence[FileInfo]]] = {}
        self._later: tuple[int, TableState] | None = None

    @property
    def count(self) -> int:
        """The number of folders that have been listed, or had the files of their groups looked up."""
        return len(self._packed) + len(self._plain) + len(self._groups)

    def state_after(self, state: TableState) -> TableState:
        """A state of the same table, loaded after all folders were listed.

        Raises:
            StorageError: the folder of the timeline cannot be listed.
        """
        count, later = self.count, self._later
        if later is None or later[0] != count:
            later = self._later = count, TableState.load(state.storage, state.config, state.options)
        return later[1]

    def anew(self) -> "FolderListings":
        """Listings with the same index, but without any folder yet."""
        return FolderListings(self._state, self.index, self.why_no_index)

    def index_of(self, folders: int) -> FileIndex | None:
        """The index, if there is one and this number of named folders makes it worth reading."""
        return self.index if folders > _FEW_FOLDERS else None

    @property
    def registered(self) -> Mapping[str, Sequence[FileInfo]]:
        """The external files by partition, if folders that have been listed may hold some; raises like ``files``."""
        return self._registered if self._may_hold_external else {}

    @cached_property
    def _registered(self) -> Mapping[str, Sequence[FileInfo]]:
        return registered_files(self._state)

    def expect_external(self) -> None:
        """Looks up external files from now on if listings cannot show that there are none."""
        self._may_hold_external = True

    def files(self, paths: Sequence[str], *, must_exist: bool = True) -> Mapping[str, Sequence[FileInfo]]:
        """The files of partitions by folder listings, with the external ones under the names of commits.

        Where folders hold files that Hudi did not write, the index is asked for these partitions, if there is one.

        Raises:
            CorruptTableError: a folder has the name of a data file, or a commit is damaged.
            StorageError: a folder cannot be listed.
        """
        self.fetch(paths, must_exist=must_exist)
        indexed = self.index.files(paths) if self._may_hold_external and self.index is not None else None
        if indexed is not None:
            by_path = indexed_files(indexed)
            return {path: by_path.get(path, ()) for path in paths}
        registered = self.registered
        return {
            path: with_registered(self.entries(path, must_exist=must_exist), registered.get(path, ())) for path in paths
        }

    def entries(self, path: str, *, must_exist: bool = True) -> tuple[FileInfo, ...]:
        """The entries of a folder; without ``must_exist``, a missing folder has none.

        Raises:
            CorruptTableError: a folder in a partition has the name of a base file or a log file.
            StorageError: the folder cannot be listed.
        """
        plain = self._plain.get(path)
        if plain is not None:
            return plain
        packed = self._packed.get(path)
        if packed is not None:
            entries = json.loads(zlib.decompress(packed))
            return tuple(FileInfo(path=entry, size_bytes=size, is_dir=is_dir) for entry, size, is_dir in entries)
        return self._list(path, must_exist=must_exist)

    def files_of(self, groups: Iterable[GroupId]) -> Mapping[GroupId, Sequence[FileInfo]]:
        """The files of file groups, whose partitions need not exist; all groups of a partition are found at once.

        Raises:
            CorruptTableError: a folder in a partition has the name of a base file or a log file.
            StorageError: a folder cannot be listed.
        """
        ids = list(groups)
        missing = sorted({path for path, _ in ids}.difference(self._groups))
        index = self.index_of(len(missing))
        indexed = None if index is None else index.files(missing)
        if indexed is None:
            for path, files in self.files(missing, must_exist=False).items():
                self._groups[path] = _by_file_id(files)
        else:
            by_path = indexed_files(indexed)
            for path in missing:
                self._groups[path] = _by_file_id(by_path.get(path, ()))
        return {(path, file_id): self._groups[path].get(file_id, ()) for path, file_id in ids}

    def are_few(self) -> bool:
        """Whether the table has few folders, all of them partitions without subfolders; lists them, if there may be so
        few.

        A subfolder of a partition may be a partition too, which only the index shows. A listing does not show which
        files of other writers belong to the table, either.

        Raises:
            StorageError: a folder cannot be listed.
        """
        # One more is the folder .hoodie.
        if self.count == 0 and self._storage.has_more_folders("", _FEW_FOLDERS + 1):
            return False
        if not self.may_be_few():
            return False
        folders = folders_in(self.entries(""))
        self.fetch(folders, must_exist=False)
        listings = (self.entries(path, must_exist=False) for path in folders)
        return not self._may_hold_external and all(
            is_partition(listing) and not any(info.is_dir for info in listing) for listing in listings
        )

    def may_be_few(self) -> bool:
        """Whether the table's own folder has few folders; raises like ``are_few``."""
        top = self.entries("")
        return len(folders_in(top)) + is_partition(top) <= _FEW_FOLDERS

    def fetch(self, paths: Iterable[str], *, must_exist: bool) -> None:
        """Lists the folders that have not been listed yet, several at a time; raises like ``entries``."""
        unknown = [path for path in paths if path not in self._packed and path not in self._plain]
        map_in_threads(partial(self._list, must_exist=must_exist), unknown, REQUESTS_AT_ONCE)

    def _list(self, path: str, *, must_exist: bool) -> tuple[FileInfo, ...]:
        listing = self._storage.list_directory(path, must_exist=must_exist)
        # Threads that list at the same time set nothing but true.
        self._may_hold_external = self._may_hold_external or may_hold_external(listing)
        for info in listing if is_partition(listing) else ():
            # It may be a partition itself, of a value that looks like the name of a file.
            if info.is_dir and is_data_file(info.name) and not is_partition(self._storage.list_directory(info.path)):
                raise CorruptTableError(info.path, None, "a folder", "a file of rows, as its name says")
        if self._plain_entries + len(listing) < _MOST_PLAIN_ENTRIES:
            # Threads that list at the same time may each take the last room; it is a few entries more.
            self._plain_entries += len(listing) + 1
            self._plain[path] = listing
            return listing
        text = json.dumps([(info.path, info.size_bytes, info.is_dir) for info in listing])
        self._packed[path] = _compressed(text.encode())
        return listing


def indexed_files(files: pa.Table) -> Mapping[str, Sequence[FileInfo]]:
    """Files that an index has, with the columns of ``FILES``, by partition."""
    by_path: dict[str, list[FileInfo]] = defaultdict(list)
    for path, name, size in zip(*(files.column(field).to_pylist() for field in FILES.names), strict=True):
        by_path[path].append(FileInfo(path=f"{path}/{name}" if path else name, size_bytes=size, is_dir=False))
    return by_path


def _by_file_id(files: Iterable[FileInfo]) -> Mapping[str, Sequence[FileInfo]]:
    by_id: dict[str, list[FileInfo]] = defaultdict(list)
    for info in files:
        if not info.is_dir:
            by_id[file_id_of(info.name)].append(info)
    return dict(by_id)


def _in_growing_parts(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """The paths in parts, each twice as large as the previous one.

    The first slices are returned soon; yet the timeline, which is listed again after each part, is listed only a few
    times.
    """
    start, size = 0, _PARTITIONS_AT_FIRST
    while start < len(paths):
        yield paths[start : start + size]
        start, size = start + size, min(2 * size, _MOST_PARTITIONS_AT_ONCE)


def _compressed(text: bytes) -> bytes:
    # A small window is enough for similar names, and each thread that lists folders has one in memory.
    compressor = zlib.compressobj(_FASTEST, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return compressor.compress(text) + compressor.flush()


class TableFiles:
    """The data files of a table in one state."""

    def __init__(
        self, state: TableState, listings: FolderListings | None = None, view_files: ViewFiles | None = None
    ) -> None:
        """The files of a state; states of one table with the same ``listings`` list each folder once."""
        self._state = state
        self._view_files = view_files
        self._listings = FolderListings(state) if listings is None else listings
        self._slices: dict[tuple[bool, str], Sequence[FileSlice]] = {}
        self._made = 0
        self._checked_listings = -1
        self._committed = CommittedFiles(state)

    @property
    def listings(self) -> FolderListings:
        """The listings of folders, with the index."""
        return self._listings

    def fetch_ahead(self) -> None:
        """Asks a store for all that the plan of a table with few folders needs, several requests at a time.

        Does nothing once folders have been listed. Raises like ``file_slices``.
        """
        listings = self._listings
        if listings.count or (listings.index is not None and not listings.may_be_few()):
            return
        run_at_once(
            lambda: listings.are_few() and listings.state_after(self._state),
            lambda: self._committed.by_folder,
            lambda: self._timeline,
        )

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found if all partitions are asked for."""
        index = self._listings.index
        if index is None:
            return FileSource(name=LISTING, why_not_metadata_table=self._listings.why_no_index)
        if self._index is None:
            return FileSource(name=LISTING, why_not_metadata_table=_LISTED_SOONER)
        if index.why_not is not None:
            return FileSource(name=LISTING, why_not_metadata_table=index.why_not)
        return FileSource(name=METADATA_TABLE, why_not_metadata_table=None)

    def partitions(
        self,
        columns: QueryColumns,
        row_filter: pc.Expression | None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> list[str]:
        """The partitions that may have rows passing the filter on the ``columns`` of the query.

        With ``within``, only partitions with these paths are returned; others are not listed.

        Raises:
            StorageError: a folder cannot be listed.
        """
        return self._partitions(columns, row_filter, notes, within)[0]

    def _partitions(
        self,
        columns: QueryColumns,
        row_filter: pc.Expression | None,
        notes: PlanNotes | None,
        within: Collection[str] | None,
    ) -> tuple[list[str], bool]:
        """The partitions, and whether they were found by listing folders."""
        config = self._state.config
        schema, path_columns = columns
        indexed = within
        if indexed is None and self._index is not None:
            indexed = self._index.partitions()
        are_listed = indexed is None
        listed: list[str] = []
        if indexed is None:
            listed = self._listed_partitions(columns, row_filter, notes)
            indexed = set(self._listings.registered).difference(listed)
            if not indexed:
                return listed, are_listed
        values = {path: certain_values(path, config, schema, path_columns) for path in sorted(indexed)}
        passing = matching_partitions(self._state.storage, schema, row_filter, values)
        if notes is not None:
            notes.counted(PARTITION_CONDITION, len(values), len(passing), PARTITIONS)
        return (sorted([*listed, *passing]) if listed else passing), are_listed

    def _listed_partitions(
        self, columns: QueryColumns, row_filter: pc.Expression | None, notes: PlanNotes | None
    ) -> list[str]:
        """The partitions by listing; for an object store, the commits are read meanwhile."""
        entries = self._listings.entries
        list_all = partial(list_partitions, self._state, *columns, row_filter, entries, notes)
        if self._state.storage.is_local:
            return sorted(list_all())
        partitions, _ = run_at_once(list_all, lambda: self._committed.by_folder)
        return sorted(cast("list[str]", partitions))

    def _require_partitions(
        self, paths: Collection[str], columns: QueryColumns, row_filter: pc.Expression | None, *, of_base_files: bool
    ) -> None:
        """Requires that folders in which commits name needed files are partitions."""
        candidates = sorted(self._committed.by_folder.keys() - set(paths))
        if not candidates:
            return
        schema, path_columns = columns
        values = {path: certain_values(path, self._state.config, schema, path_columns) for path in candidates}
        passing = matching_partitions(self._state.storage, schema, row_filter, values)
        # A folder may have been ruled out before its files were listed.
        lost = [path for path in passing if not is_partition(self._listings.entries(path, must_exist=False))]
        if lost and self._listings.count != self._checked_listings:
            self._require_nothing_removed(by_index=False)
        for path in lost:
            self._committed.require(path, (), self._timeline, of_base_files=of_base_files)

    def in_partition(self, path: str, *, must_exist: bool = True) -> Sequence[FileInfo]:
        """All files in a partition, including files that no query reads and that no index has."""
        return self._listings.files([path], must_exist=must_exist and path not in self._listings.registered)[path]

    def file_slices(
        self,
        query_type: QueryType,
        columns: QueryColumns,
        row_filter: pc.Expression | None,
        choose: Callable[[Sequence[str]], Sequence[str]] | None = None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> Iterator[FileSlice]:
        """The file slices that a query reads, ordered by partition and file id; ``choose`` leaves out partitions.

        With ``within``, only partitions with these paths are read; they need not exist.

        Raises:
            InstantNotReadableError: files were removed after the timeline and before the folders were listed.
            StorageError: a folder cannot be listed.
            UnsupportedTableError: a base file is not Parquet, or a log file was written by a later Hudi.
        """
        paths, are_listed = self._partitions(columns, row_filter, notes, within)
        chosen = paths if choose is None else choose(paths)
        of_base_files = query_type is QueryType.READ_OPTIMIZED
        if are_listed:
            self._require_partitions(paths, columns, row_filter, of_base_files=of_base_files)
        are_named = within is not None
        if notes is not None and are_named and self._lists_named(len(chosen)):
            notes.files_found_by = FileSource(name=LISTING, why_not_metadata_table=_FEW_NAMED)
        for _, slices in self._slices_in(chosen, of_base_files=of_base_files, are_named=are_named):
            yield from slices

    def slices_of(self, groups: Iterable[GroupId]) -> Mapping[GroupId, FileSlice]:
        """The file slices that a snapshot reads of the given file groups, without groups that are not part of it.

        Looks up the files of those groups alone, and keeps no slices: states after many commits may each be asked for
        the few groups of one.
        """
        files = self._listings.command_logs.left_out_of(self._listings.files_of(groups))
        if self._listings.count != self._checked_listings:
            self._require_nothing_removed(by_index=False)
        for (path, file_id), of_group in files.items():
            self._committed.require(path, of_group, self._timeline, file_ids=(file_id,))
        return {
            (path, file_slice.file_id): file_slice
            for (path, _), of_group in files.items()
            for file_slice in self._latest(path, of_group, of_base_files=False)
        }

    def has_input(self, file_slice: FileSlice) -> bool:
        """Whether a slice has files from before the pending compaction of its file group, if there is one."""
        group = (file_slice.partition_path, file_slice.file_id)
        return self._timeline.pending_compactions.get(group) != file_slice.base_instant_time

    @property
    def registers_external(self) -> bool:
        """Whether a replace commit of the active timeline registered external files; raises like ``view_timeline``."""
        return self._timeline.registers_external

    def is_replaced(self, group: GroupId) -> bool:
        """Whether a commit of the active timeline had replaced a file group by the state's instant."""
        replaced = self._timeline.replaced.get(group)
        return replaced is not None and replaced <= self._state.instant

    def _slices_in(
        self, paths: Sequence[str], *, of_base_files: bool, are_named: bool
    ) -> Iterator[tuple[str, Sequence[FileSlice]]]:
        """The slices of partitions, in the order of the paths; with ``of_base_files``, of a read-optimized query.

        If ``are_named``, no other partitions have been asked for, and some of them need not exist.
        """
        index = self._listings.index_of(len(paths)) if are_named else self._index
        must_exist = not are_named
        if not paths and not are_named and self._listings.count != self._checked_listings:
            self._require_nothing_removed(by_index=False)
        for part in _in_growing_parts(paths):
            missing = [path for path in part if (of_base_files, path) not in self._slices]
            indexed = index.files(missing) if index is not None and missing else None
            files: Mapping[str, Sequence[FileInfo]] = {}
            if indexed is not None:
                plain, others = self._indexed(indexed)
            else:
                if self.registers_external:
                    self._listings.expect_external()
                files = self._listings.command_logs.left_out_of(self._listings.files(missing, must_exist=must_exist))
            if indexed is not None or self._listings.count != self._checked_listings:
                self._require_nothing_removed(by_index=indexed is not None)
            for path in part:
                slices = self._slices.get((of_base_files, path))
                if slices is None:
                    if indexed is None:
                        self._committed.require(path, files[path], self._timeline, of_base_files=of_base_files)
                        slices = self._latest(path, files[path], of_base_files=of_base_files)
                    else:
                        slices = plain.of(path)
                        if path in others:
                            slices += self._latest(path, others[path], of_base_files=of_base_files)
                            slices.sort(key=lambda file_slice: file_slice.file_id)
                    self._cache((of_base_files, path), slices)
                yield path, slices

    def _lists_named(self, folders: int) -> bool:
        """Whether folders with known names are listed although there is an index, because they are few."""
        return self._listings.index is not None and self._listings.index_of(folders) is None

    def _require_nothing_removed(self, *, by_index: bool) -> None:
        """Requires that listings that were just made have all files that the state needs.

        Files that were removed after the timeline and before the folders were listed would otherwise not be missed.
        """
        state, listings, needs_any = self._state, self._listings.count, CommittedFiles.needs_any
        if by_index:
            now = TableState.load(state.storage, state.config, state.options)
        else:
            now = self._listings.state_after(state)
        validate_not_cleaned(state, now, lambda paths: needs_any(paths, self._listings.files_of, self._timeline))
        # This comes last: after a failure, the next query must not take the same listings for complete.
        self._checked_listings = listings

    def _indexed(self, files: pa.Table) -> tuple[PlainSlices, Mapping[str, Sequence[FileInfo]]]:
        """The slices of groups with only base files, and by partition the files of the other groups."""
        plain, rest = newest_plain_slices(files, self._timeline)
        return plain, self._listings.command_logs.left_out_of(indexed_files(rest))

    def _latest(self, path: str, files: Iterable[FileInfo], *, of_base_files: bool) -> list[FileSlice]:
        """The slices that a query reads of the files of a partition, ordered by file id."""
        latest = latest_read_optimized_slice if of_base_files else latest_snapshot_slice
        groups = build_file_groups(path, files, self._timeline)
        newest = (latest(group, self._timeline) for group in groups)
        return [file_slice for file_slice in newest if file_slice is not None]

    def _cache(self, key: tuple[bool, str], slices: Sequence[FileSlice]) -> None:
        self._made += len(slices)
        if self._made <= _MAX_CACHED_SLICES:
            self._slices[key] = slices

    @cached_property
    def _index(self) -> FileIndex | None:
        """The index, unless the table has few folders."""
        index = self._listings.index
        return None if index is None or self._listings.are_few() else index

    @cached_property
    def _timeline(self) -> TimelineView:
        return view_timeline(self._state, self._view_files)


class CurrentFiles:
    """The files of partitions at the time when each partition was first asked for."""

    def __init__(self, listings: FolderListings) -> None:
        """The files by these listings and their index."""
        self._listings = listings
        self._files: dict[str, dict[str, FileInfo]] = {}
        self._indexed: set[str] = set()

    def expect(self, paths: Iterable[str]) -> None:
        """Finds these files, given relative to the table, together with others in the same folders.

        Raises:
            StorageError: a folder cannot be listed.
        """
        expected = set(paths)
        folders = {_folder(path) for path in expected}.difference(self._files)
        index = self._listings.index_of(len(folders))
        indexed = None if index is None else index.files(sorted(folders))
        if indexed is not None:
            self._indexed |= folders
            by_folder = indexed_files(indexed)
            self._files |= {folder: {info.path: info for info in by_folder.get(folder, ())} for folder in folders}
            folders = {folder for path in expected if path not in self._files[folder := _folder(path)]} & self._indexed
            self._indexed -= folders
        self._list(folders)

    def get(self, path: str) -> FileInfo | None:
        """A file by its path relative to the table, None if it does not exist; raises like ``expect``."""
        folder = _folder(path)
        if folder not in self._files or (folder in self._indexed and path not in self._files[folder]):
            self._indexed.discard(folder)
            self._list([folder])
        return self._files[folder].get(path)

    def __iter__(self) -> Iterator[str]:
        """The paths of all files in the folders that were asked for."""
        return (path for files in self._files.values() for path in files)

    def _list(self, folders: Iterable[str]) -> None:
        chosen = sorted(folders)
        self._listings.fetch(chosen, must_exist=False)
        for folder in chosen:
            entries = self._listings.entries(folder, must_exist=False)
            self._files[folder] = {info.path: info for info in entries if not info.is_dir}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def open_state(
    storage: Storage,
    options: Mapping[str, str],
    payloads: Mapping[str, RecordPayload],
    log_memory_bytes: int | None,
) -> TableState:
    """The current state of a table; options are as for ``HudiTable.open``.

    Raises:
        TableNotFoundError: there is no Hudi table.
        CorruptTimelineError: its properties cannot be read, or its timeline is empty and a partition has data files.
        UnsupportedTableError: it uses a feature that cannot be read correctly.
        QueryError: an option is unknown or has an invalid value.
    """
    config = with_read_options(read_table_config(storage), options)
    read_options = ReadOptions.of(options, payloads, log_memory_bytes)
    return _require_timeline(TableState.load(storage, config, read_options))


def refreshed(state: TableState) -> TableState:
    """The current state of the same table, as of its newest commit.

    Raises:
        CorruptTimelineError: the timeline is empty, and a partition has data files.
    """
    return _require_timeline(TableState.load(state.storage, state.config, state.options))


def _require_timeline(state: TableState) -> TableState:
    if not state.timeline.instants:
        _require_no_data(state)
    return state


def _require_no_data(state: TableState) -> None:
    # Writers request an instant before they write files, and never archive the newest instants.
    listings = FolderListings(state)
    partitions = list_partitions(state, pa.schema([]), (), None, listings.entries)
    for info in (info for path in partitions for info in listings.entries(path) if not info.is_dir):
        if is_data_file(info.name):
            actual = f"no instant, although there is the data file {info.path}"
            raise CorruptTimelineError(state.config.timeline_path, None, actual, "the timeline of the table")
