"""A file system that counts requests for the data files of a table, as an object store would."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from fsspec.implementations.local import LocalFileSystem


@dataclass(slots=True)
class Requests:
    """The reads of data files: ``reads`` in all, those ``by_file``, and the bytes that they returned.

    ``opened`` are the data files that were opened, ``other_reads`` the reads of other files, ``listings`` the number of
    folders that were listed, ``listed`` their paths.
    """

    reads: int = 0
    read_bytes: int = 0
    by_file: dict[str, int] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    other_reads: int = 0
    listings: int = 0
    listed: list[str] = field(default_factory=list)

    def open(self, path: str) -> None:
        """Count that a file is opened."""
        if _is_data(path):
            self.opened.add(Path(path).name)

    def count(self, path: str, size_bytes: int) -> None:
        """Count one read."""
        if not _is_data(path):
            self.other_reads += 1
            return
        name = Path(path).name
        self.reads += 1
        self.read_bytes += size_bytes
        self.by_file[name] = self.by_file.get(name, 0) + 1

    @property
    def all(self) -> int:
        """All that an object store would be asked, but for the metadata of single files."""
        return self.reads + self.other_reads + self.listings


def _is_data(path: str) -> bool:
    name = Path(path).name
    return ".hoodie" not in Path(path).parts and (name.endswith(".parquet") or ".log." in name)


class CountingFileSystem(LocalFileSystem):  # type: ignore[misc]
    """The local files, but as a file system of another kind, with ``requests`` since the last call of ``reset``."""

    cachable = False
    protocol = "counting"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.requests = Requests()

    def reset(self) -> Requests:
        """Begin to count anew; returns what is counted from now on."""
        self.requests = Requests()
        return self.requests

    def ls(self, path: str, detail: bool = False, **options: Any) -> Any:
        """A listing, which is counted."""
        self.requests.listings += 1
        self.requests.listed.append(path)
        return super().ls(path, detail=detail, **options)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """A file whose reads are counted."""
        self.requests.open(path)
        return _CountedFile(super().open(path, mode, **options), path, self)


class _CountedFile:
    def __init__(self, file: Any, path: str, filesystem: CountingFileSystem) -> None:
        self._file, self._path, self._filesystem = file, path, filesystem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        self._filesystem.requests.count(self._path, len(content))
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
