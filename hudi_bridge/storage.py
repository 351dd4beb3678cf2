"""A table's files: listed, opened and read by paths relative to the table's folder.

The only module that touches ``pyarrow.fs``. Paths that come out of file names, commits and partition folders are
outside input; ``Storage`` refuses those that would leave the table's folder.
"""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs  # noqa: TID251 - this is the module that opens files

from hudi_bridge.errors import CorruptTableError, TableNotFoundError

_COPY_BYTES = 1 << 22
_SCHEME_ALIASES = {"s3a": "s3", "s3n": "s3", "wasb": "abfs", "wasbs": "abfss"}


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

    ``table_path`` is what the user gave, for messages and splits; ``root`` is the same folder as the file system spells
    it.
    """

    table_path: str
    root: str
    filesystem: fs.FileSystem

    @classmethod
    def open(cls, table_path: str, filesystem: Any = None) -> Self:  # noqa: ANN401 - of any library
        """The storage for a local path or a URI, or for a path on the pyarrow or fsspec ``filesystem`` given.

        Raises:
            TableNotFoundError: no file system can be opened for the path.
        """
        if filesystem is not None:
            if isinstance(filesystem, fs.FileSystem):
                root = table_path.partition("://")[2] if "://" in table_path else table_path
            else:
                # The file system lists paths as it spells them itself.
                root = filesystem._strip_protocol(table_path)  # noqa: SLF001 - what fsspec's own functions call
                filesystem = fs.PyFileSystem(fs.FSSpecHandler(filesystem))  # type: ignore[abstract]  # complete in C++
            return cls(table_path=table_path, root=root.rstrip("/"), filesystem=filesystem)
        if table_path.startswith("file:/") and "://" not in table_path:
            table_path = table_path.replace("file:", "file://", 1)
        if "://" not in table_path:
            path = str(Path(table_path).expanduser().absolute()).rstrip("/")
            return cls(table_path=path, root=path, filesystem=fs.LocalFileSystem())
        scheme, rest = table_path.split("://", 1)
        uri = f"{_SCHEME_ALIASES.get(scheme, scheme)}://{rest}"
        try:
            found, root = fs.FileSystem.from_uri(uri)
            if not root:
                raise TableNotFoundError(table_path, "the URI names no folder")
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError) as error:
            raise TableNotFoundError(table_path, f"no file system for {urlsplit(uri).scheme}: {error}") from error
        return cls(table_path=table_path.rstrip("/"), root=root.rstrip("/"), filesystem=found)

    @property
    def is_local(self) -> bool:
        """Whether the files lie on this machine, where opening and seeking cost little."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def resolve(self, path: str) -> str:
        """The file system's own path for a path relative to the table.

        Raises:
            CorruptTableError: the path is absolute or climbs out of the table's folder.
        """
        if path.startswith("/") or "\\" in path or "\0" in path or ".." in path.split("/"):
            raise CorruptTableError(
                path, None, "a path that leaves the table's folder", f"a path below {self.table_path}"
            )
        return f"{self.root}/{path}" if path and self.root else path or self.root

    def list_directory(self, path: str, *, recursive: bool = False) -> tuple[FileInfo, ...]:
        """The entries of a folder, by name; nothing for a folder that does not exist."""
        selector = fs.FileSelector(self.resolve(path), allow_not_found=True, recursive=recursive)
        infos = self.filesystem.get_file_info(selector)
        prefix = f"{self.root}/" if self.root else ""
        listed = (
            FileInfo(
                path=info.path.removeprefix(prefix),
                size_bytes=info.size or 0,
                is_dir=info.type == fs.FileType.Directory,
            )
            for info in infos
        )
        return tuple(sorted(listed, key=lambda info: info.path))

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder of that path."""
        return bool(self.filesystem.get_file_info(self.resolve(path)).type != fs.FileType.NotFound)

    def read_bytes(self, path: str) -> bytes:
        """The whole file.

        Raises:
            FileNotFoundError: there is no such file.
        """
        with self.open_input(path) as file:
            return bytes(file.read())

    def map_bytes(self, path: str) -> pa.Buffer:
        """The whole file, on disk: mapped where it lies, or in a temporary copy if it is not on this machine.

        Raises:
            FileNotFoundError: there is no such file.
        """
        if self.is_local:
            return pa.memory_map(self.resolve(path)).read_buffer()
        with tempfile.NamedTemporaryFile(prefix="hudi-bridge-") as copy:
            with self.filesystem.open_input_stream(self.resolve(path)) as source:
                shutil.copyfileobj(source, copy, _COPY_BYTES)
            copy.flush()
            return pa.memory_map(copy.name).read_buffer()

    def open_input(self, path: str) -> pa.NativeFile:
        """The file, opened for random access.

        Raises:
            FileNotFoundError: there is no such file.
        """
        return self.filesystem.open_input_file(self.resolve(path))
