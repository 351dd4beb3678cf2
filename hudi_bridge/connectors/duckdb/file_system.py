"""The file system of a table for DuckDB's own Parquet reader, where that has none of its own for it."""

import errno
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import Any

import fsspec

from hudi_bridge.connectors.duckdb.sources import Errors, recording
from hudi_bridge.ranges import FileOfRanges
from hudi_bridge.storage import Storage

_NUMBERS = count(1)
_NEVER_CHANGES = datetime(2000, 1, 1, tzinfo=UTC)


class TableFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]  # fsspec has no types
    """The base files of a table, with the time limits and the errors of its storage."""

    cachable = False

    def __init__(self, storage: Storage, sizes: Mapping[str, int], errors: Errors) -> None:
        """The files with these sizes in bytes, by path."""
        super().__init__()
        self.protocol = f"hudi-bridge-{next(_NUMBERS)}"
        self.sizes = dict(sizes)
        self._storage = storage
        self._errors = errors

    def url(self, path: str) -> str:
        """The name of a file for DuckDB."""
        return f"{self.protocol}://{path}"

    def glob(self, path: str, **_: object) -> list[str]:
        """The path itself: no path of the table is a pattern."""
        return [path]

    def exists(self, path: str, **_: object) -> bool:
        """Whether it is one of the files."""
        return self._path(path) in self.sizes

    def info(self, path: str, **_: object) -> dict[str, Any]:
        """The size of a file."""
        return {"name": path, "size": self.sizes[self._path(path)], "type": "file"}

    def modified(self, path: str) -> datetime:
        """The same time for all files: a base file is written once."""
        del path
        return _NEVER_CHANGES

    def open(self, path: str, mode: str = "rb", **_: object) -> "TableFile":
        """A file, opened for reading."""
        del mode
        size = self.sizes[self._path(path)]
        with self._named(path):
            return TableFile(self._storage.open_ranges(self._path(path), size), size, partial(self._named, path))

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        """A context whose errors are recorded; that of a missing file names it as DuckDB does, for ``cause_of``."""
        try:
            with recording(self._errors):
                yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(self._path(path))) from error

    def _path(self, url: str) -> str:
        return url.removeprefix(f"{self.protocol}://")


class TableFile:
    """An open file with a position for each thread.

    Threads of DuckDB share a file: between ``seek`` and ``read`` of one, another may come.
    """

    def __init__(self, file: FileOfRanges, size: int, named: Callable[[], AbstractContextManager[None]]) -> None:
        self._file = file
        self._size = size
        self._named = named
        self._of_thread = threading.local()

    def seek(self, offset: int) -> int:
        """The offset of the next byte, for this thread."""
        self._of_thread.offset = offset
        return offset

    def tell(self) -> int:
        """The offset of the next byte, for this thread."""
        return getattr(self._of_thread, "offset", 0)

    def read(self, size: int) -> bytes:
        """The next bytes.

        Raises:
            StorageError: they cannot be read.
        """
        offset = self.tell()
        with self._named():
            # DuckDB does not look at how many bytes it gets.
            wanted = max(0, min(size, self._size - offset))
            content = self._file.read_range(offset, wanted).to_pybytes() if wanted else b""
        self.seek(offset + len(content))
        return content

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
