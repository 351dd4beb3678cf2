"""A Python file system that fails at its n-th operation."""

import errno
import io
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - a file system that a user might pass


class OfNoKnownKindError(Exception):
    """An error of a store's client that is not an OSError."""


FAULTS: dict[str, Callable[[], Exception]] = {
    "io": lambda: OSError(errno.EIO, os.strerror(errno.EIO)),
    "denied": lambda: PermissionError(errno.EACCES, "Access denied"),
    "timeout": lambda: TimeoutError("timed out"),
    "own": lambda: OfNoKnownKindError("503 Slow Down"),
    "gone": lambda: FileNotFoundError(errno.ENOENT, "No such key"),
}
SHORT = "short"
"""The fault of a read that returns half of the bytes without an error."""


class Faults:
    """Which operation fails, and how; ``path`` is that of the operation that has failed."""

    def __init__(self, kind: str | None = None, at: int = -1) -> None:
        self.kind = kind
        self.at = at
        self.count = 0
        self.path: str | None = None
        self._lock = threading.Lock()

    def next(self, path: str, *, is_read: bool = False) -> bool:
        """Count an operation. Raises if it is the one that fails; returns True if it is to be a short read."""
        with self._lock:
            number, self.count = self.count, self.count + 1
        if number != self.at or (self.kind == SHORT and not is_read):
            return False
        self.path = path
        if self.kind == SHORT:
            return True
        error = FAULTS[self.kind or "io"]()
        raise error


class Silent(Faults):
    """One operation blocks until it is released."""

    def __init__(self, at_operation: int) -> None:
        super().__init__("io", at_operation)
        self.released = threading.Event()

    def next(self, path: str, *, is_read: bool = False) -> bool:
        try:
            return super().next(path, is_read=is_read)
        except OSError:
            self.released.wait(30)
            raise


class _File(io.FileIO):
    def __init__(self, path: str, faults: Faults) -> None:
        super().__init__(path)
        self._path = path
        self._faults = faults

    def read(self, size: int | None = -1) -> bytes:
        is_short = self._faults.next(self._path, is_read=True)
        content = super().read(size) or b""
        return content[: len(content) // 2] if is_short else content


class FailingHandler(fs.FileSystemHandler):
    """The local files, with faults."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._local = fs.LocalFileSystem()

    def get_type_name(self) -> str:
        return "failing"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Any) -> Any:
        for path in paths:
            self._faults.next(path)
        return self._local.get_file_info(paths)

    def get_file_info_selector(self, selector: fs.FileSelector) -> Any:
        self._faults.next(selector.base_dir)
        return self._local.get_file_info(selector)

    def open_input_file(self, path: str) -> Any:
        self._faults.next(path)
        return pa.PythonFile(_File(path, self._faults), mode="r")

    def _never(self, *_: object, **__: object) -> Any:
        raise AssertionError("a table is never written to")

    open_input_stream = open_output_stream = open_append_stream = create_dir = delete_dir = delete_file = _never
    delete_dir_contents = delete_root_dir_contents = move = copy_file = _never


def failing(faults: Faults) -> Any:
    """The local file system, with faults."""
    return fs.PyFileSystem(FailingHandler(faults))


def is_named(path: str | None, error: BaseException) -> bool:
    """Whether an error names the file or folder."""
    return path is not None and Path(path).name in str(error)
