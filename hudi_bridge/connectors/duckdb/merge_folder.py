"""A folder that keeps merges of slices for the next process: one Arrow file for each merge.

A file appears whole and is never written again, so that it can be mapped into memory while other processes use the
folder. A file that cannot be read counts as missing.
"""

import hashlib
import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_bridge.engines import MemoryStore, MergedSlice, MergeStore
from hudi_bridge.storage import PathLike

_SUFFIX = ".arrow"
_LEAST_MAPPED = 8
_COUNTED, _POSITIONS = b"hudi-bridge.counted", b"hudi-bridge.deleted_positions"
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, AttributeError)


class FolderStore:
    """Keeps merges in a folder; those that were used longest ago make room for new ones."""

    keeps_all_columns = True

    def __init__(self, folder: PathLike, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._mapped: dict[Path, MergedSlice] = {}
        self._most_mapped = _LEAST_MAPPED
        self._size_bytes = sum(size for _, size, _ in self._files())

    def find(self, key: str) -> Iterator[MergedSlice]:
        """The merges of a slice in the folder."""
        for path in _files_in(self._folder_of(key)):
            merged = self._mapped.get(path) or _read(path)
            if merged is not None:
                self._map(path, merged)
                with suppress(OSError):
                    os.utime(path)
                yield merged

    def keep(self, key: str, merged: MergedSlice) -> MergedSlice:
        """Writes a merge, and removes the files that there is no room for."""
        counted = json.dumps(dict(merged.counted), sort_keys=True)
        path = self._folder_of(key) / f"{hashlib.sha256(counted.encode()).hexdigest()[:16]}{_SUFFIX}"
        while True:
            for folder in (self._folder, path.parent):
                with suppress(FileExistsError):
                    folder.mkdir(mode=0o700, parents=True)
            # Whoever empties the folder removes it.
            with suppress(FileNotFoundError):
                _write(path, merged, counted)
                break
        mapped = _read(path)
        if mapped is not None:
            self._map(path, mapped)
        with self._lock:
            with suppress(FileNotFoundError):
                self._size_bytes += path.stat().st_size
            if self._size_bytes > self.max_bytes:
                self._make_room()
        return mapped or merged

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
        for path in (path for folder in self._folder.iterdir() if folder.is_dir() for path in _files_in(folder)):
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


def _write(path: Path, merged: MergedSlice, counted: str) -> None:
    metadata: Any = {_COUNTED: counted, _POSITIONS: merged.deleted_positions.astype("<i8").tobytes()}
    schema = merged.rows.schema.with_metadata({**(merged.rows.schema.metadata or {}), **metadata})
    descriptor, written = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file, pa.ipc.new_file(file, schema) as writer:
            writer.write_table(merged.rows.replace_schema_metadata(schema.metadata))
        Path(written).replace(path)
    except BaseException:
        Path(written).unlink(missing_ok=True)
        raise


def _read(path: Path) -> MergedSlice | None:
    try:
        rows = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        found: Any = dict(rows.schema.metadata)
        positions = np.frombuffer(found.pop(_POSITIONS), dtype="<i8").astype(np.int64, copy=False)
        counted = json.loads(found.pop(_COUNTED))
        return MergedSlice(
            counted=counted, deleted_positions=positions, rows=rows.replace_schema_metadata(found or None)
        )
    except _UNREADABLE:
        return None
