"""A file system that counts requests for the data files of a table, as an object store would."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fsspec.implementations.local import LocalFileSystem


@dataclass(slots=True)
class Requests:
    """The reads of data files: ``reads`` in all, those ``by_file``, and the bytes that they returned."""

    reads: int = 0
    read_bytes: int = 0
    by_file: dict[str, int] = field(default_factory=dict)

    def count(self, path: str, size_bytes: int) -> None:
        """Count one read."""
        name = Path(path).name
        if ".hoodie" in Path(path).parts or not (name.endswith(".parquet") or ".log." in name):
            return
        self.reads += 1
        self.read_bytes += size_bytes
        self.by_file[name] = self.by_file.get(name, 0) + 1


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

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        """A file whose reads are counted."""
        return _CountedFile(super().open(path, mode, **options), path, self)


class _CountedFile:
    def __init__(self, file: Any, path: str, filesystem: CountingFileSystem) -> None:
        self._file, self._path, self._filesystem = file, path, filesystem

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._file.read(size)
        self._filesystem.requests.count(self._path, len(content))
        return content

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
