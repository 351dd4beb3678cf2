"""A table's files: listed, opened and read by paths relative to the table's folder.

The only module that touches ``pyarrow.fs``. Paths that come out of file names, commits and partition folders are
outside input; ``Storage`` refuses those that would leave the table's folder. What a file system raises, of whatever
library, leaves here as a ``StorageError`` with the path, or as FileNotFoundError where a caller expects one; nothing is
taken for the end of a file, or for an empty folder, that is not.
"""

import errno
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - this is the module that opens files

from hudi_bridge.errors import CorruptTableError, HudiReadError, StorageError, TableNotFoundError
from hudi_bridge.masking import child, masked, without_secrets
from hudi_bridge.python_files import CheckedFile, FsspecHandler, cut_short
from hudi_bridge.waiting import limit_seconds, within

# What is asked for at once of a store, and has to arrive within the limit of time.
_PIECE_BYTES = 1 << 24
_MARK_BYTES = 16
_SHORTENED_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}

# How long Arrow's own clients wait for a connection, for bytes to arrive, or with all that they try again: without
# these they may wait for ever, or for a quarter of an hour.
_CLIENT_LIMITS: dict[str, dict[str, Any]] = {
    "S3FileSystem": {"connect_timeout": 10, "request_timeout": 20},
    "GcsFileSystem": {"retry_time_limit": timedelta(seconds=60)},
}

PathLike: TypeAlias = str | os.PathLike[str]
"""A path or, as text alone, a URI."""

_Answer = TypeVar("_Answer")


def path_text(path: PathLike) -> str:
    """A path or URI as text.

    Raises:
        TableNotFoundError: it is a URI that has been made a path.
    """
    text = os.fspath(path)
    if isinstance(path, PurePath) and (uri := _SHORTENED_URI.match(text)):
        meant = masked(f"{uri[1]}://{text[uri.end() :]}")
        raise TableNotFoundError(meant, "pathlib has taken a slash from the URI; pass it as text")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInfo:
    """One entry of a listing; ``path`` is relative to the table's folder."""

    path: str
    size_bytes: int
    is_dir: bool

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The folder of one table on one file system; small, immutable, picklable.

    ``table_path`` is what the user gave, to open it again with, and may hold secrets; ``root`` is the same folder as
    the file system spells it.
    """

    table_path: str = field(repr=False)
    root: str
    filesystem: fs.FileSystem

    @classmethod
    def open(cls, path: PathLike, filesystem: Any = None) -> Self:  # noqa: ANN401 - of any library
        """The storage for a local path or a URI, or for a path on the pyarrow or fsspec ``filesystem`` given.

        Raises:
            TableNotFoundError: no file system can be opened for the path.
            StorageError: the file system does not answer.
        """
        table_path = path_text(path)
        if filesystem is not None:
            if isinstance(filesystem, fs.FileSystem):
                root = table_path.partition("://")[2] if "://" in table_path else table_path
            else:
                # The file system lists paths as it spells them itself.
                root = filesystem._strip_protocol(table_path)  # noqa: SLF001 - what fsspec's own functions call
                is_local = type(filesystem).__module__ == "fsspec.implementations.local"
                handler = FsspecHandler(filesystem)  # type: ignore[abstract]  # complete in C++
                filesystem = fs.LocalFileSystem() if is_local else fs.PyFileSystem(handler)
            return cls._on(filesystem, table_path, root)
        if table_path.startswith("file:/") and "://" not in table_path:
            table_path = table_path.replace("file:", "file://", 1)
        if "://" not in table_path:
            path = str(Path(table_path).expanduser().absolute()).rstrip("/")
            return cls(table_path=path, root=path, filesystem=fs.LocalFileSystem())
        scheme, rest = table_path.split("://", 1)
        uri = f"{_SCHEME_ALIASES.get(scheme, scheme)}://{rest}"
        try:
            found, root = within(limit_seconds(), partial(fs.FileSystem.from_uri, uri))
        except TimeoutError as error:
            raise StorageError(masked(table_path), "open", str(error), errno.ETIMEDOUT) from error
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
            # The error may quote the URI.
            reason = f"no file system for {urlsplit(uri).scheme}: {masked(str(error))}"
            raise TableNotFoundError(masked(table_path), reason) from None
        if not root:
            raise TableNotFoundError(masked(table_path), "the URI names no folder")
        return cls._on(_with_limits(found), table_path.rstrip("/"), root)

    @classmethod
    def _on(cls, filesystem: fs.FileSystem, table_path: str, root: str) -> Self:
        while isinstance(filesystem, fs.SubTreeFileSystem):
            root = f"{filesystem.base_path.rstrip('/')}/{root}"
            filesystem = filesystem.base_fs
        if isinstance(filesystem, fs.LocalFileSystem):
            # One that maps files would have the process killed when a file is cut that it reads.
            filesystem = fs.LocalFileSystem()
        return cls(table_path=table_path, root=root.rstrip("/"), filesystem=filesystem)

    @property
    def is_local(self) -> bool:
        """Whether the files lie on this machine, where opening and seeking cost little."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def shown_path(self) -> str:
        """The folder as the user gave it, without secrets: for messages."""
        return masked(self.table_path)

    def location(self, path: str = "") -> str:
        """The URI or local path of a file, or of the folder, for clients that have credentials of their own."""
        return "/".join(filter(None, (without_secrets(self.table_path), path)))

    def below(self, *names: str) -> Self:
        """The storage of a folder within."""
        return replace(self, table_path=child(self.table_path, *names), root="/".join((self.root, *names)))

    def resolve(self, path: str) -> str:
        """The file system's own path for a path relative to the table.

        Raises:
            CorruptTableError: the path is absolute or climbs out of the table's folder.
        """
        if path.startswith("/") or "\\" in path or "\0" in path or ".." in path.split("/"):
            raise CorruptTableError(
                path, None, "a path that leaves the table's folder", f"a path below {self.shown_path}"
            )
        return f"{self.root}/{path}" if path and self.root else path or self.root

    def list_directory(self, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        """The entries of a folder, by name; nothing for a folder that does not exist, unless it is known to.

        Raises:
            StorageError: the folder cannot be listed, is a file, or is not found although it ``must_exist``.
        """
        selector = fs.FileSelector(self.resolve(path), allow_not_found=not must_exist)
        try:
            infos = self._ask("list", path, lambda: self.filesystem.get_file_info(selector))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self.failure("list", path, error) from error
        return tuple(sorted(self._entries(path, infos), key=lambda info: info.path))

    def _entries(self, folder: str, infos: "list[fs.FileInfo]") -> Iterator[FileInfo]:
        prefix = f"{self.root}/" if self.root else ""
        for info in infos:
            is_dir = info.type == fs.FileType.Directory
            try:
                path = info.path
            except UnicodeDecodeError as error:
                # No file of a table is named so, but a partition may be, and would be missed.
                if is_dir:
                    name = repr(error.object.rpartition(b"/")[2])
                    raise CorruptTableError(folder, None, f"a folder named {name}", "names in UTF-8") from error
                continue
            yield FileInfo(path=path.removeprefix(prefix), size_bytes=info.size or 0, is_dir=is_dir)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that path.

        Raises:
            StorageError: the file system does not tell.
        """
        return self._type_of(path) != fs.FileType.NotFound

    def is_file(self, path: str) -> bool:
        """Whether there is a file of that path; errors as of ``exists``."""
        return self._type_of(path) == fs.FileType.File

    def _type_of(self, path: str) -> fs.FileType:
        resolved = self.resolve(path)
        return self._ask("look for it", path, lambda: self.filesystem.get_file_info(resolved)).type

    def is_link(self, path: str) -> bool:
        """Whether it is a link of this machine's file system."""
        return self.is_local and os.path.islink(self.resolve(path))  # noqa: PTH114 - asked of each folder of a table

    def real_path(self, path: str) -> str:
        """The file system's own path where links have been followed, if it is this machine's."""
        return os.path.realpath(self.resolve(path)) if self.is_local else self.resolve(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read, or not all of it.
        """
        return self.read_buffer(path).to_pybytes()

    def read_buffer(self, path: str) -> pa.Buffer:
        """The whole file, in memory; errors as of ``read_bytes``."""
        with self.open_input(path) as file:
            size = self._ask("read", path, file.size)
            content = pa.allocate_buffer(size)
            view = memoryview(content).cast("B")
            for start in range(0, size, _PIECE_BYTES):
                self._fill(view[start : start + _PIECE_BYTES], path, file)
        return content

    def copy_to_disk(self, path: str) -> pa.Buffer:
        """The whole file in a temporary copy, which is mapped: nobody can cut it while it is read.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be read, or not all of it.
            OSError: there is no room for the copy.
        """
        with tempfile.NamedTemporaryFile(prefix="hudi-bridge-") as target:
            with self.open_input(path) as file:
                size = self._ask("read", path, file.size)
                piece = memoryview(bytearray(min(size, _PIECE_BYTES)))
                for start in range(0, size, _PIECE_BYTES):
                    part = piece[: size - start]
                    self._fill(part, path, file)
                    target.write(part)
            target.flush()
            return pa.memory_map(target.name).read_buffer()

    def _fill(self, piece: memoryview, path: str, file: pa.NativeFile) -> None:
        """Read the next bytes of a file, as many as the piece has."""
        # Arrow's client of S3 says that all has arrived even if the answer was shorter, and leaves the rest as it was.
        mark = b"" if self.is_local else os.urandom(min(_MARK_BYTES, len(piece)))
        piece[len(piece) - len(mark) :] = mark
        arrived = self._ask("read", path, partial(file.readinto, piece))
        is_marked = len(mark) == _MARK_BYTES and piece[-_MARK_BYTES:] == mark
        if arrived < len(piece) or is_marked:
            raise self.failure("read", path, cut_short(file.size()))

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, opened for random access.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: it cannot be opened.
        """
        resolved = self.resolve(path)
        if self.is_local and not stat.S_ISREG(self._ask("open", path, partial(os.stat, resolved)).st_mode):
            # A pipe would be waited for.
            raise self.failure("open", path, OSError(errno.EINVAL, "it is no regular file"))
        file = self._ask("open", path, lambda: self.filesystem.open_input_file(resolved))
        if isinstance(self.filesystem, fs.PyFileSystem):
            return pa.PythonFile(CheckedFile(file, partial(self.failure, "read", path)), mode="r")
        return file

    def iterate(self, path: str, items: Iterator[_Answer]) -> Iterator[_Answer]:
        """The same items, which are made of an open file; each is waited for with the limit of a store.

        Raises:
            StorageError: one has not arrived in time.
        """
        end = object()
        while (item := self.wait_for("read", path, partial(next, items, end))) is not end:
            yield item

    def failure_of(
        self, path: str, error: Exception, decode: Callable[[pa.NativeFile], object]
    ) -> StorageError | FileNotFoundError | None:
        """The failure of the file system behind an error of reading a file; None if its content is to blame.

        Arrow raises OSError for both. Where it does not tell of which kind one is, the file is read once more, and what
        was to be made of it is made of that.
        """
        if isinstance(error, (StorageError, FileNotFoundError)):
            # Arrow keeps an error that came from Python, and with its frames all that was being read.
            error.__traceback__ = None
            return copy(error)
        if isinstance(error, OSError) and error.errno:
            return self.failure("read", path, error)
        if self.is_local or isinstance(self.filesystem, fs.PyFileSystem):
            return None
        try:
            content = self.read_buffer(path)
        except (StorageError, FileNotFoundError) as failure:
            return failure
        try:
            decode(pa.BufferReader(content))
        except (pa.ArrowException, ValueError, LookupError, OSError):
            return None
        return self.failure("read", path, error)

    def wait_for(self, operation: str, path: str, call: Callable[[], _Answer]) -> _Answer:
        """What a call returns that waits for the file system: within the limit of time, if it is not this machine's.

        Raises:
            StorageError: the call has not returned in time.
        """
        if self.is_local:
            return call()
        try:
            return within(limit_seconds(), call)
        except TimeoutError as error:
            raise self.failure(operation, path, error) from error

    def _ask(self, operation: str, path: str, call: Callable[[], _Answer]) -> _Answer:
        try:
            return self.wait_for(operation, path, call)
        except HudiReadError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.ENOTDIR
            raise type(error)(number, os.strerror(number), self._whole(path)) from error
        except Exception as error:
            if operation == "read" and self._is_gone(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._whole(path)) from error
            # Clients of stores have errors of their own, which need not be OSErrors.
            raise self.failure(operation, path, error) from error

    def _is_gone(self, path: str) -> bool:
        """Whether a file that was opened is there no more: Arrow's client of S3 fails to read it as for any reason."""
        try:
            return not self.is_local and not self.exists(path)
        except StorageError:
            return False

    def failure(self, operation: str, path: str, error: Exception) -> StorageError:
        """The error for what the file system raised, or did."""
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        return StorageError(self._whole(path), operation, masked(reason), getattr(error, "errno", None))

    def _whole(self, path: str) -> str:
        return masked(child(self.table_path, path) if path else self.table_path)


def _with_limits(filesystem: fs.FileSystem) -> fs.FileSystem:
    """The same file system, made of a URI, which cannot state how long it is to wait."""
    limits = _CLIENT_LIMITS.get(type(filesystem).__name__)
    if limits is None:
        return filesystem
    # What it is pickled as are the arguments that it is made with.
    options: Any = filesystem.__reduce__()[1][0]
    return type(filesystem)(**options | limits)
