"""A folder that keeps merges of slices for the next process: one Arrow file for each merge.

A file appears whole and is never written again, so that it can be mapped into memory while other processes use the
folder. It ends with a checksum of its content and its slice; a file that is damaged, or cannot be read, counts as
missing. Nobody else may write to the folder. While it takes no files, as on a full disk, merges are kept in memory.
"""

import hashlib
import io
import json
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import xxhash

from hudi_bridge.engines import MemoryStore, MergedSlice, MergeStore
from hudi_bridge.errors import QueryError
from hudi_bridge.storage.storage import PathLike

_LOG = logging.getLogger(__name__)
_SUFFIX = ".arrow"
_CHECKSUM_BYTES = 16
_LEAST_MAPPED = 8
_COUNTED, _POSITIONS = b"hudi-bridge.counted", b"hudi-bridge.deleted_positions"
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, AttributeError)


class FolderStore:
    """Keeps merges in a folder; the least recently used make room for new ones."""

    keeps_all_columns = True

    def __init__(self, folder: PathLike, max_bytes: int) -> None:
        """The store of a folder, which is made if it is missing.

        Raises:
            QueryError: the folder is none, or belongs to somebody else, or others may write to it.
        """
        self.max_bytes = max_bytes
        self._folder = Path(folder)
        self._memory = MemoryStore(max_bytes)
        self._is_refused = False
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise QueryError("cache", f"{self._folder}, which is no folder", "a folder") from None
        except OSError as error:
            self._note_refusal(error)
        _require_own(self._folder)
        self._lock = threading.Lock()
        self._mapped: dict[Path, MergedSlice] = {}
        self._most_mapped = _LEAST_MAPPED
        self._size_bytes = sum(size for _, size, _ in self._files())

    def find(self, key: str) -> Iterator[MergedSlice]:
        """The merges of a slice in the folder."""
        yield from self._memory.find(key)
        for path in _files_in(self._folder_of(key)):
            merged = self._mapped.get(path) or _read(path, key)
            if merged is not None:
                self._map(path, merged)
                with suppress(OSError):
                    os.utime(path)
                yield merged

    def keep(self, key: str, merged: MergedSlice) -> MergedSlice:
        """Writes a merge, and removes the files that there is no room for."""
        counted = json.dumps(dict(merged.counted), sort_keys=True)
        path = self._folder_of(key) / f"{hashlib.sha256(counted.encode()).hexdigest()[:16]}{_SUFFIX}"
        try:
            self._write(path, key, merged, counted)
        except OSError as error:
            self._note_refusal(error)
            return self._memory.keep(key, merged)
        mapped = _read(path, key)
        if mapped is not None:
            self._map(path, mapped)
        with self._lock:
            with suppress(FileNotFoundError):
                self._size_bytes += path.stat().st_size
            if self._size_bytes > self.max_bytes:
                self._make_room()
        return mapped or merged

    def _write(self, path: Path, key: str, merged: MergedSlice, counted: str) -> None:
        while True:
            for folder in (self._folder, path.parent):
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700, parents=True)
            # Whoever empties the folder removes it.
            with suppress(FileNotFoundError):
                _write(path, key, merged, counted)
                return

    def _note_refusal(self, error: OSError) -> None:
        if not self._is_refused:
            self._is_refused = True
            reason = error.strerror or type(error).__name__
            _LOG.warning("cache: merges are kept in memory, since %s takes no files: %s", self._folder, reason)

    def _map(self, path: Path, merged: MergedSlice) -> None:
        """Keeps a file mapped. Those that other processes have removed go, since they take room as long as they are."""
        self._mapped[path] = merged
        if len(self._mapped) > self._most_mapped:
            self._mapped = {path: merged for path, merged in tuple(self._mapped.items()) if path.exists()}
            self._most_mapped = max(_LEAST_MAPPED, 2 * len(self._mapped))

    def _folder_of(self, key: str) -> Path:
        return self._folder / key

    def _files(self) -> Iterator[tuple[float, int, Path]]:
        """The time of the last use of each file, its size and its path."""
        folders = self._folder.iterdir() if self._folder.exists() else ()
        for path in (path for folder in folders if folder.is_dir() for path in _files_in(folder)):
            # Another process may remove it.
            with suppress(OSError):
                status = path.stat()
                yield status.st_mtime, status.st_size, path

    def _make_room(self) -> None:
        """Removes a tenth more than has to go, so that it is not listed again for each merge."""
        self._size_bytes = 0
        for _, size, path in sorted(self._files(), reverse=True):
            if self._size_bytes + size > self.max_bytes * 0.9:
                self._mapped.pop(path, None)
                path.unlink(missing_ok=True)
                with suppress(OSError):
                    path.parent.rmdir()
            else:
                self._size_bytes += size


def _files_in(folder: Path) -> list[Path]:
    """The files of merges in a folder, none if the folder is not there."""
    try:
        return [path for path in folder.iterdir() if path.suffix == _SUFFIX]
    except FileNotFoundError:
        return []


def merge_store(folder: PathLike | None, max_bytes: int) -> MergeStore:
    """A store of merges in a folder, or in memory without one."""
    return MemoryStore(max_bytes) if folder is None else FolderStore(folder, max_bytes)


def _require_own(folder: Path) -> None:
    """Raises QueryError if somebody else could put files into a folder that exists.

    Raises:
        QueryError: the folder belongs to somebody else, or others may write to it.
    """
    if os.name != "posix" or not folder.exists():
        return
    status = folder.stat()
    expected = "a folder of your own that nobody else can write to"
    if status.st_uid != os.geteuid():
        raise QueryError("cache", f"{folder}, which belongs to somebody else", expected)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise QueryError("cache", f"{folder}, which others can write to", expected)


def _write(path: Path, key: str, merged: MergedSlice, counted: str) -> None:
    metadata: Any = {_COUNTED: counted, _POSITIONS: merged.deleted_positions.astype("<i8").tobytes()}
    schema = merged.rows.schema.with_metadata({**(merged.rows.schema.metadata or {}), **metadata})
    descriptor, written = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            checked = _Checked(file, key)
            with pa.PythonFile(checked, mode="w") as sink, pa.ipc.new_file(sink, schema) as writer:
                writer.write_table(merged.rows.replace_schema_metadata(schema.metadata))
            file.write(checked.digest())
        Path(written).replace(path)
    except BaseException:
        Path(written).unlink(missing_ok=True)
        raise


class _Checked(io.RawIOBase):
    """A file that is written, with the checksum of what was written."""

    def __init__(self, file: BinaryIO, key: str) -> None:
        self._file = file
        self._hash = xxhash.xxh3_128(key.encode())

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:  # noqa: ANN401 - a buffer
        self._hash.update(content)
        return self._file.write(content)

    def digest(self) -> bytes:
        return self._hash.digest()


def _read(path: Path, key: str) -> MergedSlice | None:
    try:
        content = pa.memory_map(str(path)).read_buffer()
        content, checksum = content.slice(0, content.size - _CHECKSUM_BYTES), content[-_CHECKSUM_BYTES:]
        checked = xxhash.xxh3_128(key.encode())
        checked.update(content)
        if checked.digest() != checksum.to_pybytes():
            return None
        rows = pa.ipc.open_file(content).read_all()
        rows.validate(full=True)
        metadata: Any = dict(rows.schema.metadata)
        positions = np.frombuffer(metadata.pop(_POSITIONS), dtype="<i8").astype(np.int64, copy=False)
        counted = json.loads(metadata.pop(_COUNTED))
        return MergedSlice(
            counted=counted, deleted_positions=positions, rows=rows.replace_schema_metadata(metadata or None)
        )
    except _UNREADABLE:
        return None
