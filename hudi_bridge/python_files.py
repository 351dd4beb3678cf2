"""Adapter of Python file systems for Arrow, which does not mistake failures for empty folders."""

import errno
import os
from typing import Any

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - what storage opens files with


class FsspecHandler(fs.FSSpecHandler):
    """Makes fsspec file systems available to Arrow.

    Arrow's own handler calls ``isfile``, ``isdir``, ``exists`` and ``find`` of fsspec, which return False, or end the
    listing, on any error. This one lets errors through.
    """

    def get_file_info_selector(self, selector: fs.FileSelector) -> "list[fs.FileInfo]":
        """The entries of a folder; none for a folder that does not exist, if the selector allows that."""
        filesystem: Any = self.fs
        folder = selector.base_dir
        # A cached listing would hide later commits.
        filesystem.invalidate_cache(folder)
        try:
            entries = filesystem.ls(folder, detail=True)
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise
        children = [entry for entry in entries if entry["name"].strip("/") != folder.strip("/")]
        if not children and any(entry["type"] == "file" for entry in entries):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)
        return [_file_info(self._with_size(entry)) for entry in children]

    def _with_size(self, entry: "dict[str, Any]") -> "dict[str, Any]":
        """The entry of a listing; pages of links, as HTTP servers list folders, do not tell how large files are."""
        filesystem: Any = self.fs
        if entry["type"] != "file" or entry["size"] is not None:
            return entry
        return entry | {"size": filesystem.info(entry["name"])["size"]}

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The file, opened for random access."""
        filesystem: Any = self.fs
        if type(filesystem).__module__ == "fsspec.implementations.memory":
            # All who open a file of this one share the place where they read.
            return pa.BufferReader(filesystem.cat_file(path))
        return pa.PythonFile(filesystem.open(path, mode="rb"), mode="r")

    def size_of_file(self, path: str) -> int:
        """The size of a file, in bytes."""
        filesystem: Any = self.fs
        info = filesystem.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return int(info["size"])

    def read_range(self, path: str, start: int, size: int) -> bytes:
        """The bytes of a range of a file, in one request; fewer if the store sends fewer."""
        filesystem: Any = self.fs
        content: bytes = filesystem.cat_file(path, start=start, end=start + size)
        # An HTTP server that knows no ranges sends the whole file.
        return content if len(content) <= size else content[start : start + size]


def arrow_file_system(filesystem: Any) -> fs.FileSystem:  # noqa: ANN401 - of fsspec
    """A file system of fsspec for Arrow."""
    if type(filesystem).__module__ == "fsspec.implementations.local":
        return fs.LocalFileSystem()
    return fs.PyFileSystem(FsspecHandler(filesystem))  # type: ignore[abstract]  # complete in C++


def _file_info(entry: "dict[str, Any]") -> fs.FileInfo:
    kind = {"file": fs.FileType.File, "directory": fs.FileType.Directory}.get(entry["type"], fs.FileType.Unknown)
    return fs.FileInfo(entry["name"].rstrip("/"), kind, size=entry["size"] if kind == fs.FileType.File else None)
