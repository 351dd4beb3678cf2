"""The scratch folder, to which a connector writes files that appear whole or not at all.

Nothing is ever written into the Hudi table.
"""

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO, Self
from uuid import uuid4

from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.storage import PathLike, Storage

_COPY_BYTES = 1 << 22
_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
UNFINISHED = ".part"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """A folder for files; names are relative to it, with slashes. ``private_folder`` is made for this user alone."""

    storage: Storage
    private_folder: str | None = None

    @classmethod
    def open(cls, path: PathLike, *, is_private: bool = False) -> Self:
        """The folder at a local path or URI; it need not exist yet.

        If it ``is_private``, nobody else may read a local folder that is made; one that is there keeps its mode.

        Raises:
            QueryError: no file system can be opened for the path.
        """
        try:
            storage = Storage.open(path)
            return cls(storage=storage, private_folder=storage.root if is_private else None)
        except TableNotFoundError as error:
            raise QueryError("folder for published files", error.path, f"a path or URI ({error.reason})") from error

    def require_outside(self, table: Storage) -> None:
        """Raises unless rows of a table may be written to the folder.

        Raises:
            QueryError: the folder lies within the table, or the table was opened with keys.
        """
        table.require_no_keys("published files")
        own, other = (_real_path(storage) for storage in (self.storage, table))
        if f"{own}/".startswith(f"{other}/"):
            found = f"{self.storage.shown_path}, which lies in the table {table.shown_path}"
            raise QueryError("folder for published files", found, "a folder elsewhere: nothing is written into a table")

    def below(self, name: str) -> "Scratch":
        """A subfolder."""
        return replace(self, storage=self.storage.below(name))

    def read(self, name: str) -> bytes | None:
        """The content of a file; None if it does not exist."""
        try:
            return self.storage.read_bytes(name)
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> tuple[str, ...]:
        """The names of the complete files in a folder."""
        return tuple(name for name in self.all_names(folder) if not name.endswith(UNFINISHED))

    def all_names(self, folder: str) -> tuple[str, ...]:
        """The names of all files in a folder, including incomplete ones of a crash."""
        return tuple(info.name for info in self.storage.list_directory(folder) if not info.is_dir)

    def write(self, name: str, content: bytes) -> None:
        """Write a file, which appears when it is complete."""
        with self.appearing(name) as file:
            file.write(content)

    @contextmanager
    def appearing(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for writing; it appears under its name if the block succeeds, and is discarded otherwise."""
        target = self.storage.resolve(name)
        self._make_folder(target)
        if not self.storage.is_local:
            # An object appears when its upload ends, so the upload begins when the content is complete.
            with tempfile.TemporaryFile(prefix="hudi-bridge-") as file:
                yield file
                file.seek(0)
                self._upload(file, target)
            return
        folder, _, last = target.rpartition("/")
        # Engines that read all files of a folder skip names that begin with a dot.
        part = f"{folder}/.{last}.{os.getpid()}-{uuid4().hex}{UNFINISHED}"
        try:
            with open(part, "x+b") as file:  # noqa: PTH123 - a path of the storage's file system
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
        """Remove a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self.storage.filesystem.delete_file(self.storage.resolve(name))

    def _make_folder(self, target: str) -> None:
        if self.storage.is_local:
            if self.private_folder is not None:
                os.makedirs(self.private_folder, mode=0o700, exist_ok=True)  # noqa: PTH103
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120

    def _upload(self, file: BinaryIO, target: str) -> None:
        with self.storage.filesystem.open_output_stream(target) as upload:
            shutil.copyfileobj(file, upload, _COPY_BYTES)


def _real_path(storage: Storage) -> str:
    return os.path.realpath(storage.root) if storage.is_local else storage.location()
