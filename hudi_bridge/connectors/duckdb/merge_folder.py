"""A folder that keeps merges of slices for the next process: one Arrow file for each merge.

A file appears whole and is never written again, so that it can be mapped into memory while other processes use the
folder. A file that cannot be read counts as missing.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_bridge.engines import MergedSlice
from hudi_bridge.storage import PathLike

_SUFFIX = ".arrow"
_COUNTED, _POSITIONS = b"hudi-bridge.counted", b"hudi-bridge.deleted_positions"
_UNREADABLE = (OSError, pa.ArrowException, ValueError, KeyError, AttributeError)


class FolderStore:
    """Keeps merges in a folder; those that were used longest ago make room for new ones."""

    keeps_all_columns = True

    def __init__(self, folder: PathLike, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._mapped: dict[str, MergedSlice] = {}

    def find(self, key: str) -> Iterator[MergedSlice]:
        """The merges of a slice in the folder, newest first."""
        for path in sorted(self._folder.glob(f"{key}-*{_SUFFIX}"), key=_last_use, reverse=True):
            merged = self._mapped.get(path.name) or _read(path)
            if merged is not None:
                self._mapped[path.name] = merged
                with suppress(OSError):
                    os.utime(path)
                yield merged

    def keep(self, key: str, merged: MergedSlice) -> MergedSlice:
        """Writes a merge, and removes the files that there is no room for."""
        counted = json.dumps(dict(merged.counted), sort_keys=True)
        name = f"{key}-{hashlib.sha256(counted.encode()).hexdigest()[:16]}{_SUFFIX}"
        _write(self._folder / name, merged, counted)
        self._mapped.pop(name, None)
        self._make_room()
        return next((one for one in self.find(key) if one.counted == merged.counted), merged)

    def _make_room(self) -> None:
        size = 0
        for path in sorted(self._folder.glob(f"*{_SUFFIX}"), key=_last_use, reverse=True):
            with suppress(OSError):
                size += path.stat().st_size
                if size > self.max_bytes:
                    self._mapped.pop(path.name, None)
                    path.unlink()


def _last_use(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


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
