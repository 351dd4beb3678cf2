"""Lists, opens and reads the files of a table, by paths relative to the table's folder.

Only this module uses ``pyarrow.fs``. Paths in file names, commits and partition folders are untrusted: those that leave
the table's folder are refused. No failure is mistaken for the end of a file or for an empty folder.
"""

import errno
import logging
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Self, TypeAlias, TypeVar

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - this is the module that opens files

from hudi_bridge.common.caching import BoundedCache, memory_bytes
from hudi_bridge.common.threads import call_with_timeout, timeout_seconds
from hudi_bridge.errors import CorruptTableError, HudiReadError, QueryError, StorageError, TableNotFoundError
from hudi_bridge.storage.file_systems import arrow_file_system, open_file_system
from hudi_bridge.storage.masking import Location, masked
from hudi_bridge.storage.ranges import PIECE_BYTES, FileOfRanges, Ranges, ranges_of
from hudi_bridge.storage.retries import CutAnswerError, may_pass, with_retries

_LOG = logging.getLogger(__name__)
# A cache takes at most this part of the memory.
_SHARE_OF_MEMORY = 8
_BYTES_OF_A_FOLDER = 1024
"""What the storage of a sibling folder counts in the cache."""
_BACKSLASH_SEPARATES = os.sep == "\\"
_SHORTENED_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(?!/)")
PathLike: TypeAlias = str | os.PathLike[str]
"""A local path, or a URI as a string."""

StorageOptions: TypeAlias = Mapping[str, Any]
"""Options of the file system of a URI, by name."""

DecryptionProperties: TypeAlias = Any
"""A ``FileDecryptionProperties`` of pyarrow, or a function from a file's path or URI to one, or to None."""

_Result = TypeVar("_Result")


def path_text(path: PathLike) -> str:
    """The path or URI as a string.

    Raises:
        TableNotFoundError: a URI was turned into a ``pathlib`` path.
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


def _new_cache() -> BoundedCache:
    return BoundedCache(memory_bytes() // _SHARE_OF_MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The folder of one table on one file system; small, immutable, picklable.

    ``origin`` is the path or URI that the user gave, with its ``options``; both may hold secrets. ``root`` is the same
    folder as a path of ``filesystem``; ``is_given`` says whether the user gave the file system. ``decryption`` has the
    keys of base files; a storage with keys cannot be pickled.

    ``cache`` has parts of files that never change, for later reads in this process. ``prefetched`` has the bytes of
    files that are read next, by path.
    """

    origin: Location = field(repr=False)
    root: str
    filesystem: fs.FileSystem
    options: StorageOptions = field(default_factory=dict, repr=False, compare=False)
    cache: BoundedCache = field(default_factory=_new_cache, repr=False, compare=False)
    prefetched: dict[str, "pa.Buffer | FileOfRanges"] = field(default_factory=dict, repr=False, compare=False)
    is_given: bool = False
    decryption: DecryptionProperties | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> list[Any]:
        self.require_no_keys("another process")
        return [getattr(self, attribute.name) for attribute in fields(self)]

    def require_no_keys(self, reader: str) -> None:
        """Raises if the table was opened with keys, which a reader outside of this package would need.

        Raises:
            QueryError: it was.
        """
        if self.decryption is not None:
            raise keys_stay_here(reader)

    @classmethod
    def open(
        cls,
        path: PathLike,
        filesystem: Any = None,  # noqa: ANN401 - of any library
        options: StorageOptions | None = None,
    ) -> Self:
        """The storage for a local path or a URI, or for a path on the pyarrow or fsspec ``filesystem`` given.

        ``options`` are those of the URI's file system.

        Raises:
            QueryError: an option is unknown, or there are options for what needs none.
            TableNotFoundError: no file system can be opened for the path.
            StorageError: the file system does not answer.
        """
        table_path = path_text(path)
        if not isinstance(options, Mapping | None):
            raise QueryError("storage_options", f"a {type(options).__name__}", "a mapping of names to values")
        options = dict(options or {})
        if filesystem is not None:
            if options:
                raise QueryError("storage_options", "a filesystem as well", "one or the other")
            if isinstance(filesystem, fs.FileSystem):
                root = table_path.partition("://")[2] if "://" in table_path else table_path
            else:
                # Listings have paths in the file system's own form.
                root = filesystem._strip_protocol(table_path)  # noqa: SLF001 - what fsspec's own functions call
                filesystem = arrow_file_system(filesystem)
            origin = Location(table_path, is_path=True)
            return replace(cls._on_filesystem(filesystem, origin, root, {}), is_given=True)
        if table_path.startswith("file:/") and "://" not in table_path:
            table_path = table_path.replace("file:", "file://", 1)
        if "://" not in table_path:
            if options:
                raise QueryError("storage_options", ", ".join(map(repr, options)), "none for a path on this machine")
            path = str(Path(table_path).expanduser().absolute()).rstrip("/")
            return cls(origin=Location(path), root=path, filesystem=fs.LocalFileSystem())
        opened, root = open_file_system(table_path, options)
        return cls._on_filesystem(opened, Location(table_path.rstrip("/")), root, options)

    @classmethod
    def _on_filesystem(cls, filesystem: fs.FileSystem, origin: Location, root: str, options: StorageOptions) -> Self:
        while isinstance(filesystem, fs.SubTreeFileSystem):
            root = f"{filesystem.base_path.rstrip('/')}/{root}"
            filesystem = filesystem.base_fs
        if isinstance(filesystem, fs.LocalFileSystem):
            # With memory mapping, truncating a file that is being read would kill the process.
            filesystem = fs.LocalFileSystem()
        return cls(origin=origin, root=root.rstrip("/"), filesystem=filesystem, options=options)

    @property
    def is_local(self) -> bool:
        """Whether the files are on this machine, where opening and seeking are cheap."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def needs_filesystem(self) -> bool:
        """Whether ``table_path`` opens the folder on the file system alone that the user gave."""
        return self.is_given and not self.is_local and "://" not in self.table_path

    @property
    def table_path(self) -> str:
        """The path or URI that opens the folder, also elsewhere; it may hold secrets."""
        return self.origin.uri()

    @property
    def shown_path(self) -> str:
        """The path or URI of the folder, without secrets, for messages."""
        return self.origin.shown()

    def location(self, path: str = "") -> str:
        """The URI or local path of a file, or of the folder, for clients that have their own credentials."""
        return self.origin.public(path)

    def child(self, *names: str) -> Self:
        """The storage of a folder within this one."""
        root = "/".join((self.root, *names))
        # Paths of files are relative to the folder.
        return replace(self, origin=self.origin.child(*names), root=root, cache=_new_cache())

    def sibling(self, path: str) -> Self:
        """The storage of another folder, which may be anywhere; opened once, with the file system or options of this.

        Raises:
            TableNotFoundError: no file system can be opened for the path.
            StorageError: the file system does not answer.
        """
        key = ("sibling folder", path)
        folder: Self | None = self.cache.get(key)
        if folder is None:
            options = None if self.is_given or "://" not in path or path.startswith("file:") else self.options
            opened = type(self).open(path, self.filesystem if self.is_given else None, options)
            folder = replace(opened, decryption=self.decryption)
            self.cache.put(key, folder, _BYTES_OF_A_FOLDER)
        return folder

    def resolve(self, path: str) -> str:
        """The file system's own path for a path relative to the table.

        A backslash is a character of a name, but where the local file system takes it for a separator. A name ``..`` is
        refused between backslashes everywhere, as servers behind other file systems may do so too.

        Raises:
            CorruptTableError: the path is absolute or climbs out of the table's folder.
        """
        leaves = path.startswith("/") or "\0" in path or ".." in path.replace("\\", "/").split("/")
        if leaves or ("\\" in path and self.is_local and _BACKSLASH_SEPARATES):
            raise CorruptTableError(
                path, None, "a path that leaves the table's folder", f"a path below {self.shown_path}"
            )
        return f"{self.root}/{path}" if path and self.root else path or self.root

    def list_directory(self, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        """The entries of a folder, ordered by name; none for a folder that does not exist, unless it ``must_exist``.

        Raises:
            StorageError: the folder cannot be listed, is a file, or does not exist although it must.
        """
        selector = fs.FileSelector(self.resolve(path), allow_not_found=not must_exist)
        try:
            infos = self._request("list", path, lambda: self.filesystem.get_file_info(selector))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self.failure("list", path, error) from error
        return tuple(sorted(self._entries(path, infos), key=lambda info: info.path))

    def modification_times(self, path: str) -> Mapping[str, datetime]:
        """When the entries of a folder were modified, in UTC, by name; without those whose time the store does not say.

        Raises:
            StorageError: the folder cannot be listed.
        """
        selector = fs.FileSelector(self.resolve(path), allow_not_found=True)
        infos = self._request("list", path, lambda: self.filesystem.get_file_info(selector))
        times = ((info.base_name, info.mtime) for info in infos)
        return {name: time.astimezone(UTC) for name, time in times if time is not None}

    def has_more_folders(self, path: str, most: int) -> bool:
        """Whether a folder of the local file system has more than ``most`` folders, found without listing all.

        False where that is not known.
        """
        if not self.is_local:
            return False
        try:
            with os.scandir(self.resolve(path)) as entries:
                folders = (entry for entry in entries if entry.is_dir())
                return next(islice(folders, most, None), None) is not None
        except OSError:
            # Whoever lists the folder finds out.
            return False

    def _entries(self, folder: str, infos: "list[fs.FileInfo]") -> Iterator[FileInfo]:
        prefix = f"{self.root}/" if self.root else ""
        for info in infos:
            is_dir = info.type == fs.FileType.Directory
            try:
                path = info.path
            except UnicodeDecodeError as error:
                # Hudi does not name files like that, but a partition may have such a name and must not be skipped.
                if is_dir:
                    name = repr(error.object.rpartition(b"/")[2])
                    raise CorruptTableError(folder, None, f"a folder named {name}", "names in UTF-8") from error
                continue
            yield FileInfo(path=path.removeprefix(prefix), size_bytes=info.size or 0, is_dir=is_dir)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder at the path.

        Raises:
            StorageError: the file system fails.
        """
        return self._type_of(path) != fs.FileType.NotFound

    def is_file(self, path: str) -> bool:
        """Whether there is a file at the path; raises like ``exists``."""
        return self._type_of(path) == fs.FileType.File

    def _type_of(self, path: str) -> fs.FileType:
        resolved = self.resolve(path)
        return self._request("look for it", path, lambda: self.filesystem.get_file_info(resolved)).type

    def is_link(self, path: str) -> bool:
        """Whether the path is a symbolic link; False on other file systems than the local one."""
        return self.is_local and os.path.islink(self.resolve(path))  # noqa: PTH114 - asked of each folder of a table

    def real_path(self, path: str) -> str:
        """The file system's own path; on the local one, with symbolic links resolved."""
        return os.path.realpath(self.resolve(path)) if self.is_local else self.resolve(path)

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: the file cannot be read, or ends early.
        """
        return self.read_buffer(path).to_pybytes()

    def read_buffer(self, path: str, size_bytes: int | None = None) -> pa.Buffer:
        """The whole file, in memory; raises like ``read_bytes``.

        If its size is known, it need not be asked for; a file that has grown since is read up to that size, or whole.
        """
        fetched = self.prefetched.pop(path, None)
        if isinstance(fetched, pa.Buffer):
            return fetched
        if self.is_local:
            with self.open_input(path) as opened:
                return self.read_range(opened, path, 0, opened.size())
        file = self._ranges(path, size_bytes)
        try:
            return file.whole()
        finally:
            file.close()

    def read_range(self, file: pa.NativeFile, path: str, start: int, size: int) -> pa.Buffer:
        """The ``size`` bytes from ``start`` on of a file that is open for random access.

        Raises:
            StorageError: the file cannot be read, or ends early.
        """

        def read() -> pa.Buffer:
            file.seek(start)
            content = file.read_buffer(size)
            if content.size < size:
                raise CutAnswerError(file.size())
            return content

        return self._answer("read", path, read)

    def read_into(self, file: pa.NativeFile, path: str, start: int, buffer: memoryview) -> None:
        """Fills a buffer with the bytes from ``start`` on; as ``read_range``."""

        def read() -> None:
            file.seek(start)
            if file.readinto(buffer) < len(buffer):
                raise CutAnswerError(file.size())

        self._answer("read", path, read)

    def copy_to_disk(self, path: str) -> pa.Buffer:
        """The whole file, as a memory map of a temporary copy, which nobody can truncate.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: the file cannot be read, or ends early.
            OSError: the copy cannot be written.
        """
        file = self._ranges(path, None)
        with tempfile.NamedTemporaryFile(prefix="hudi-bridge-") as target:
            try:
                buffer = memoryview(bytearray(min(file.size, PIECE_BYTES)))
                for start in range(0, file.size, PIECE_BYTES):
                    chunk = buffer[: file.size - start]
                    file.read_into(chunk, start)
                    target.write(chunk)
            finally:
                file.close()
            target.flush()
            return pa.memory_map(target.name).read_buffer()

    def open_input(self, path: str, size_bytes: int | None = None) -> pa.NativeFile:
        """The file, opened for random access; in a store, when it is read first if its size is known.

        Raises:
            FileNotFoundError: there is no such file.
            StorageError: the file cannot be opened.
        """
        if self.is_local:
            return self._request("open", path, partial(self._open_file, path))
        return pa.PythonFile(self.open_ranges(path, size_bytes), mode="r")

    def open_ranges(self, path: str, size_bytes: int | None = None) -> FileOfRanges:
        """The file of a store; it is opened now unless its size is known. Raises like ``open_input``."""
        file = self._ranges(path, size_bytes)
        file.open()
        return FileOfRanges(file)

    def _ranges(self, path: str, size_bytes: int | None) -> Ranges:
        request: Any = partial(self._request_for, path)
        return ranges_of(self.filesystem, self.resolve(path), size_bytes, request, partial(self._open_file, path))

    def _open_file(self, path: str) -> pa.NativeFile:
        resolved = self.resolve(path)
        if self.is_local and not stat.S_ISREG(os.stat(resolved).st_mode):  # noqa: PTH116 - asked of each file
            # Opening a pipe would block.
            raise OSError(errno.EINVAL, "it is no regular file")
        return self.filesystem.open_input_file(resolved)

    def with_prefetched(self, files: Mapping[str, "pa.Buffer | FileOfRanges"]) -> Self:
        """The same storage, with files that are in memory, wholly or in part.

        What is in memory of a log file is released when it is read.
        """
        return replace(self, prefetched=dict(files))

    def failure_of(
        self, path: str, error: Exception, decode: Callable[[pa.NativeFile], object]
    ) -> StorageError | FileNotFoundError | None:
        """The failure of the file system that caused an error while reading a file; None if its content is the cause.

        Arrow raises OSError for both. If an error does not tell which it is, the whole file is read again and passed to
        ``decode``: if that succeeds, the file system has failed.
        """
        if isinstance(error, (StorageError, FileNotFoundError)):
            # Arrow keeps errors that came from Python; their frames would keep all that was being read.
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
        except (pa.ArrowException, UnicodeDecodeError, OSError):
            return None
        return self.failure("read", path, error)

    def _wait_for(self, operation: str, path: str, call: Callable[[], _Result]) -> _Result:
        """The result of a call that uses the file system; with a timeout, unless that is the local one.

        Raises:
            StorageError: the call has not returned in time.
        """
        if self.is_local:
            return call()
        try:
            return call_with_timeout(timeout_seconds(), call)
        except TimeoutError as error:
            raise self.failure(operation, path, error) from error

    def _request_for(self, path: str, operation: str, call: Callable[[], _Result]) -> _Result:
        return self._request(operation, path, call)

    def _request(self, operation: str, path: str, call: Callable[[], _Result]) -> _Result:
        """The result of a call that uses the file system, with its timeout and retries.

        Arrow's own clients repeat requests themselves; what they do not notice is an answer that is cut.
        """
        if self.is_local:
            return self._answer(operation, path, call)
        passes = may_pass if isinstance(self.filesystem, fs.PyFileSystem) else _is_cut
        start = time.perf_counter()
        try:
            return self._answer(
                operation, path, partial(with_retries, partial(self._wait_for, operation, path, call), passes)
            )
        finally:
            _LOG.debug("%s %s: %.3f s", operation, path or "the folder", time.perf_counter() - start)

    def _answer(self, operation: str, path: str, call: Callable[[], _Result]) -> _Result:
        """The result of a call, whose errors name the file."""
        try:
            return call()
        except HudiReadError:
            raise
        except (FileNotFoundError, NotADirectoryError) as error:
            number = errno.ENOENT if isinstance(error, FileNotFoundError) else errno.ENOTDIR
            raise type(error)(number, os.strerror(number), self._full_path(path)) from error
        except Exception as error:
            if operation == "read" and self._was_removed(path):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._full_path(path)) from error
            # Clients of object stores may raise errors that are not OSErrors.
            raise self.failure(operation, path, error) from error

    def _was_removed(self, path: str) -> bool:
        """Whether an open file was removed, which Arrow's S3 client does not tell from other read errors."""
        try:
            return not self.is_local and not self.exists(path)
        except StorageError:
            return False

    def failure(self, operation: str, path: str, error: Exception) -> StorageError:
        """The StorageError for an error of the file system."""
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        return StorageError(self._full_path(path), operation, self.origin.mask(reason), getattr(error, "errno", None))

    def _full_path(self, path: str) -> str:
        return self.origin.shown(path)


def keys_stay_here(reader: str) -> QueryError:
    """The error that a table was opened with keys, which ``reader`` would need."""
    expected = "a read as Arrow in this process; keys are handed to no engine, no file and no other process"
    return QueryError("decryption_properties", f"keys that {reader} would need", expected)


def _is_cut(error: BaseException) -> bool:
    return isinstance(error, CutAnswerError)
