"""Removes the files of snapshots that nobody needs any more, while other services use the same scratch folder.

No service waits for another, and each may end at any time:

- Files are written once, under names that are never used again (marks, see ``scratch``).
- A record that is removed from ``snapshots/`` is first written to ``dropped/``. What it lists goes ``keep_seconds``
  later, unless a record that is there lists it as well: each service looks at the records before it answers, so that
  no client gets a snapshot later than that.
- A snapshot that is being built uses files of records that are there, or new ones. New files that no record lists stay
  for a period (``period_seconds``); only those of the first half are used, as after a crash.

Files whose names have no mark go ``keep_seconds`` after they were first seen without a reference.
"""

import time
from collections.abc import Collection, Sequence

from hudi_bridge.connectors.iceberg.manifests import METADATA
from hudi_bridge.connectors.iceberg.metadata import SNAPSHOTS, IcebergSnapshot
from hudi_bridge.connectors.iceberg.row_lineage import CLAIMS
from hudi_bridge.connectors.iceberg.served_table import TABLE_METADATA
from hudi_bridge.connectors.iceberg.slice_builder import DATA
from hudi_bridge.connectors.iceberg.slice_cache import GIVEN, SLICES
from hudi_bridge.connectors.iceberg.snapshot_records import DROPPED, TABLES, SnapshotRecords, read_record
from hudi_bridge.connectors.scratch import (
    UNFINISHED,
    Scratch,
    is_past,
    marked_at,
    period_of,
    period_seconds,
    remove_orphan_files,
)

_SUFFIXES = {
    DATA: (".parquet", ".puffin", UNFINISHED),
    SLICES: (".json", UNFINISHED),
    METADATA: (".avro", UNFINISHED),
    TABLES: (TABLE_METADATA, UNFINISHED),
    **dict.fromkeys((SNAPSHOTS, DROPPED, GIVEN, CLAIMS), (UNFINISHED,)),
}


class Garbage:
    """The files of earlier snapshots of one table."""

    def __init__(self, scratch: Scratch, keep_seconds: float) -> None:
        self._scratch = scratch
        self._keep_seconds = keep_seconds
        self._dropped: dict[str, IcebergSnapshot | None] = {}

    def remove(self, records: SnapshotRecords, slices: Collection[str] = ()) -> int:
        """Removes what neither the records nor running queries need; returns the number of files.

        The records are read anew. ``slices`` are names of slices that are needed as well.
        """
        # In this order: a record is in one of the folders at any time.
        records.refresh()
        self._read_dropped()
        now = time.time()
        since = {name: marked_at(name) or 0 for name in self._dropped}
        expired = [name for name in self._dropped if now - since[name] >= self._keep_seconds]
        waiting = [snapshot for name, snapshot in self._dropped.items() if name not in expired and snapshot is not None]
        needed = _files_of([*records.everything(), *waiting])
        gone = _files_of([snapshot for name in expired if (snapshot := self._dropped[name]) is not None])
        removed = 0
        unmarked: dict[str, tuple[set[str], tuple[str, ...]]] = {}
        for folder, suffixes in _SUFFIXES.items():
            names = [name for name in self._scratch.all_names(folder) if name.endswith(suffixes)]
            for name in names:
                if name in needed[folder] or (folder in (DATA, SLICES) and _slice_of(name) in slices):
                    continue
                if name in gone[folder] or self._is_left_over(name, now):
                    self._scratch.remove(f"{folder}/{name}")
                    removed += 1
            marked = {name for name in names if marked_at(name) is not None or period_of(name) is not None}
            if len(marked) < len(names):
                unmarked[folder] = (marked | needed[folder], suffixes)
        if unmarked:
            removed += remove_orphan_files(self._scratch, unmarked, self._keep_seconds)
        for name in expired:
            self._scratch.remove(f"{DROPPED}/{name}")
            del self._dropped[name]
        return removed

    def _is_left_over(self, name: str, now: float) -> bool:
        """Whether a file that no record lists is old enough."""
        if period_of(name) is not None:
            return is_past(name, self._keep_seconds)
        since = marked_at(name)
        return since is not None and now - since >= period_seconds(self._keep_seconds)

    def _read_dropped(self) -> None:
        names = self._scratch.names(DROPPED)
        for name in self._dropped.keys() - set(names):
            del self._dropped[name]
        for name in names:
            if name not in self._dropped:
                self._dropped[name] = read_record(self._scratch, f"{DROPPED}/{name}")


def _slice_of(name: str) -> str:
    """The name of the slice that a file of data or a cache entry belongs to."""
    return "-".join(name.partition(".")[0].split("-")[:3])


def _files_of(snapshots: Sequence[IcebergSnapshot]) -> dict[str, set[str]]:
    """The names of the files that snapshots list, by folder."""
    lists = {snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None}
    return {
        DATA: {name for snapshot in snapshots for name in snapshot.own_files},
        SLICES: {f"{name}.json" for snapshot in snapshots for name in snapshot.slices},
        METADATA: lists | {name for snapshot in snapshots for name in snapshot.manifests},
        **{folder: set() for folder in (TABLES, SNAPSHOTS, DROPPED, GIVEN, CLAIMS)},
    }
