"""The folder of a connector's own files: each appears whole or not at all, and none is ever changed.

Nothing is written anywhere else, least of all into the Hudi table. On a local disk a file is written under another name
and renamed; an object store shows an object once its upload is complete, so that what is to be uploaded is written to a
temporary file first.
"""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Self
from uuid import uuid4

from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.storage import PathLike, Storage

_COPY_BYTES = 1 << 22
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
UNFINISHED = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A folder below which files are written; names are relative to it, with slashes."""

    storage: Storage

    @classmethod
    def open(cls, path: PathLike) -> Self:
        """The folder of a local path or a URI; it need not exist yet.

        Raises:
            QueryError: no file system can be opened for the path.
        """
        try:
            return cls(storage=Storage.open(path))
        except TableNotFoundError as error:
            raise QueryError("folder for published files", error.path, f"a path or URI ({error.reason})") from error

    def require_outside(self, table: Storage) -> None:
        """Raises unless the folder lies outside of a table.

        Raises:
            QueryError: it lies within.
        """
        own, other = (_real_path(storage) for storage in (self.storage, table))
        if f"{own}/".startswith(f"{other}/"):
            found = f"{self.storage.shown_path}, which lies in the table {table.shown_path}"
            raise QueryError("folder for published files", found, "a folder elsewhere: nothing is written into a table")

    def below(self, name: str) -> "Scratch":
        """A folder within."""
        return Scratch(storage=self.storage.below(name))

    def read(self, name: str) -> bytes | None:
        """The content of a file, None if it is not there."""
        try:
            return self.storage.read_bytes(name)
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the files in a folder, without those that are not complete."""
        return tuple(name for name in self.all_names(folder) if not name.endswith(UNFINISHED))

    def all_names(self, folder: str) -> tuple[str, ...]:
        """The names of the files in a folder, also of those that a crash has left unfinished."""
        return tuple(info.name for info in self.storage.list_directory(folder) if not info.is_dir)

    def write(self, name: str, content: bytes) -> None:
        """Make a file appear with this content."""
        with self.appearing(name) as file:
            file.write(content)

    @contextmanager
    def appearing(self, name: str) -> Iterator[BinaryIO]:
        """A file to write to, which appears under its name when the block ends well, and leaves nothing otherwise."""
        target = self.storage.resolve(name)
        self._make_folder(target)
        if not self.storage.is_local:
            with tempfile.TemporaryFile(prefix="hudi-bridge-") as file:
                yield file
                file.seek(0)
                self._upload(file, target)
            return
        folder, _, last = target.rpartition("/")
        # Engines that take all files of a folder pass over names that begin with a dot.
        part = f"{folder}/.{last}.{os.getpid()}-{uuid4().hex}{UNFINISHED}"
        try:
            with open(part, "x+b") as file:  # noqa: PTH123 - a path of the file system's
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, target)  # noqa: PTH105
        except OSError as error:
            if error.filename is None and error.errno in _NO_ROOM:
                error.filename = target
            raise
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)  # noqa: PTH108

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.storage.filesystem.delete_file(self.storage.resolve(name))

    def _make_folder(self, target: str) -> None:
        if self.storage.is_local:
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120

    def _upload(self, file: BinaryIO, target: str) -> None:
        with self.storage.filesystem.open_output_stream(target) as upload:
            shutil.copyfileobj(file, upload, _COPY_BYTES)


def _real_path(storage: Storage) -> str:
    return os.path.realpath(storage.root) if storage.is_local else storage.location()
