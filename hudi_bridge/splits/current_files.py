"""The files that some partitions have now, for queries that know from commits which files they need.

Of more than a few partitions, the index of files is asked, if there is one. A file that it does not have is looked for
in storage, so that nothing counts as gone that is there.
"""

from collections.abc import Iterable

from hudi_bridge.splits.table_files import FolderListings, indexed_files
from hudi_bridge.storage import FileInfo


class CurrentFiles:
    """The files of partitions as of when each was first asked for."""

    def __init__(self, listings: FolderListings) -> None:
        """The files by these listings and their index."""
        self._listings = listings
        self._files: dict[str, dict[str, FileInfo]] = {}
        self._indexed: set[str] = set()

    def expect(self, paths: Iterable[str]) -> None:
        """Find these files, given relative to the table, with others in the same folders.

        Raises:
            StorageError: a folder cannot be listed.
        """
        wanted = set(paths)
        folders = {_folder(path) for path in wanted}.difference(self._files)
        index = self._listings.index_of(len(folders))
        indexed = None if index is None else index.files(sorted(folders))
        if indexed is not None:
            self._indexed |= folders
            found = indexed_files(indexed)
            self._files |= {folder: {info.path: info for info in found.get(folder, ())} for folder in folders}
            folders = {folder for path in wanted if path not in self._files[folder := _folder(path)]} & self._indexed
            self._indexed -= folders
        self._list(folders)

    def get(self, path: str) -> FileInfo | None:
        """A file by its path relative to the table, None if it does not exist; raises like ``expect``."""
        folder = _folder(path)
        if folder not in self._files or (folder in self._indexed and path not in self._files[folder]):
            self._indexed.discard(folder)
            self._list([folder])
        return self._files[folder].get(path)

    def _list(self, folders: Iterable[str]) -> None:
        chosen = sorted(folders)
        self._listings.fetch(chosen, must_exist=False)
        for folder in chosen:
            entries = self._listings.entries(folder, must_exist=False)
            self._files[folder] = {info.path: info for info in entries if not info.is_dir}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
