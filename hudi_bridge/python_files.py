"""Adapters of Python file systems for Arrow, which do not mistake failures for empty folders or ends of files."""

import errno
import io
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - what storage opens files with

from hudi_bridge.errors import StorageError

_Result = TypeVar("_Result")


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
        return [_file_info(entry) for entry in children]

    def open_input_file(self, path: str) -> pa.PythonFile:
        """The file, opened for random access."""
        filesystem: Any = self.fs
        return pa.PythonFile(filesystem.open(path, mode="rb"), mode="r")


def _file_info(entry: "dict[str, Any]") -> fs.FileInfo:
    kind = {"file": fs.FileType.File, "directory": fs.FileType.Directory}.get(entry["type"], fs.FileType.Unknown)
    return fs.FileInfo(entry["name"].rstrip("/"), kind, size=entry["size"] if kind == fs.FileType.File else None)


class CheckedFile(io.RawIOBase):
    """A file of a Python file system; its errors name the path, and it raises if it ends before its size."""

    def __init__(self, file: pa.NativeFile, failure: Callable[[Exception], StorageError]) -> None:
        super().__init__()
        self._file = file
        self._failure = failure
        self._size: int | None = None

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._file.tell()

    def seek(self, offset: int, whence: int = 0) -> int:
        """The new offset of the next byte."""
        return self._call(partial(self._file.seek, offset, whence))

    def read(self, size: int = -1) -> bytes:
        """The next ``size`` bytes, or all that are left.

        Raises:
            StorageError: the file ends early, or cannot be read.
        """
        file_size = self._size = self._call(self._file.size) if self._size is None else self._size
        expected = max(0, file_size - self._file.tell())
        expected = expected if size < 0 else min(size, expected)
        content: bytes = self._call(partial(self._file.read, size))
        if len(content) < expected:
            raise self._failure(truncated(file_size))
        return content

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _call(self, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._failure(error) from error


def truncated(size: int) -> OSError:
    """The error for a file that ends before its size."""
    return OSError(errno.EIO, f"it ends before its {size} bytes")
