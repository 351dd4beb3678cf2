"""The snapshots of a table on disk: which are listed, which can be removed, and the removal of their files.

Other services use the same scratch folder. No service waits for another, and each may end at any time:

- Files are written once, under names that are never used again (marks, see ``scratch``).
- A record that is removed from ``snapshots/`` is first written to ``dropped/``. What it lists goes ``keep_seconds``
  later, unless a record that is there lists it as well: each service looks at the records before it answers, so that
  no client gets a snapshot later than that.
- A snapshot that is being built uses files of records that are there, or new ones. New files that no record lists stay
  for a period (``period_seconds``); only those of the first half are used, as after a crash.

Files whose names have no mark go ``keep_seconds`` after they were first seen without a reference.
"""

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hudi_bridge.connectors.iceberg.columns import Ids
from hudi_bridge.connectors.iceberg.metadata import (
    TABLE_METADATA,
    IcebergSnapshot,
    snapshot_from_json,
    snapshot_to_json,
)
from hudi_bridge.connectors.iceberg.row_lineage import RowIdClaims, RowIds, RowLineage
from hudi_bridge.connectors.iceberg.slice_files import DataFile, Folder
from hudi_bridge.connectors.scratch import (
    UNFINISHED,
    Scratch,
    is_past,
    marked_at,
    new_mark,
    period_of,
    period_seconds,
    remove_orphan_files,
)

_SUFFIXES = {
    Folder.DATA: (".parquet", ".puffin", UNFINISHED),
    Folder.SLICES: (".json", UNFINISHED),
    Folder.METADATA: (".avro", UNFINISHED),
    Folder.TABLES: (TABLE_METADATA, UNFINISHED),
    **dict.fromkeys((Folder.SNAPSHOTS, Folder.DROPPED, Folder.GIVEN, Folder.CLAIMS), (UNFINISHED,)),
}
"""How the names of files in each folder end; other files are not ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PresentFiles:
    """The names of the files that exist in each folder: a scratch folder may be wiped, or lose files.

    One listing a folder finds them.
    """

    data: frozenset[str]
    metadata: frozenset[str]
    tables: frozenset[str]

    @classmethod
    def of(cls, scratch: Scratch) -> Self:
        """Lists the files of a scratch folder."""
        data, metadata, tables = (
            frozenset(scratch.names(folder)) for folder in (Folder.DATA, Folder.METADATA, Folder.TABLES)
        )
        return cls(data=data, metadata=metadata, tables=tables)

    def has_all_of(self, snapshot: IcebergSnapshot) -> bool:
        """Whether all files of a snapshot exist."""
        metadata = {snapshot.manifest_list, *snapshot.manifests}
        return self.data.issuperset(snapshot.own_files) and self.metadata.issuperset(metadata)


class SnapshotRecords:
    """The records of snapshots in a folder, to which other services may write as well.

    A record is never changed. If two services make one of the same state, one counts for both: the one with the lower
    ids of rows, or the earlier one. If there are several states of an instant, the one that was published last is
    listed.
    """

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._records: dict[str, IcebergSnapshot] = {}
        self._unreadable: set[str] = set()
        self._used: dict[str, float] = {}
        self._row_ranges: dict[str, tuple[int, int]] = {}
        self._claims = RowIdClaims(scratch)
        self.refresh()

    def refresh(self) -> None:
        """Reads new records, and forgets removed ones."""
        names = set(self._scratch.names(Folder.SNAPSHOTS))
        for name in self._records.keys() - names:
            del self._records[name]
        self._unreadable &= names
        for name in sorted(names - self._records.keys() - self._unreadable):
            snapshot = read_record(self._scratch, f"{Folder.SNAPSHOTS}/{name}")
            if snapshot is None:
                self._unreadable.add(name)
            else:
                self._records[name] = snapshot
                self._note(snapshot)

    def find(self, instant: str, state: str) -> IcebergSnapshot | None:
        """The snapshot of a state of an instant; None if there is none."""
        names = [
            name for name, snapshot in self._records.items() if (snapshot.instant, snapshot.state) == (instant, state)
        ]
        return self._records[min(names, key=self._precedence)] if names else None

    def ids(self) -> Ids:
        """The column ids of all snapshots, by dotted path."""
        ids: dict[str, int] = {}
        for snapshot in self.all():
            ids |= snapshot.columns.ids
        return ids

    def lineage_of(self, files: Iterable[DataFile]) -> RowLineage:
        """The ids of the rows of a new snapshot: its files keep theirs, new files get ids that no file has had."""
        self.refresh()
        listed = tuple(files)
        row_ids = RowIds(ranges=self._row_ranges, next_row_id=self._next_row_id())
        first = self._claims.claim(row_ids.new_rows(listed), row_ids.next_row_id)
        return replace(row_ids, next_row_id=first).assign(listed)

    def all(self) -> Sequence[IcebergSnapshot]:
        """The snapshot of each instant, ordered by instant."""
        return [self._records[name] for name in self._listed()]

    def everything(self) -> Sequence[IcebergSnapshot]:
        """The snapshots of all records, listed or not."""
        return list(self._records.values())

    def up_to(self, snapshot: IcebergSnapshot, most: int) -> Sequence[IcebergSnapshot]:
        """A snapshot, and those before it: the last ``most`` instants in order."""
        before = [other for other in self.all() if other.instant < snapshot.instant]
        return [*before, snapshot][-most:]

    def publish(self, snapshot: IcebergSnapshot) -> IcebergSnapshot:
        """Makes a snapshot with complete files visible. If another service was faster, returns its snapshot instead."""
        name = f"{snapshot.instant}-{snapshot.state[:16]}-{new_mark()}.json"
        self._scratch.write(f"{Folder.SNAPSHOTS}/{name}", snapshot_to_json(snapshot))
        self.refresh()
        return self.find(snapshot.instant, snapshot.state) or snapshot

    def use(self, snapshots: Sequence[IcebergSnapshot]) -> None:
        """Notes that clients get these snapshots now."""
        self._used |= dict.fromkeys((snapshot.instant for snapshot in snapshots), time.time())

    def drop(self, keep: int, keep_seconds: float) -> None:
        """Drops all records but the newest ``keep`` and any that were used within ``keep_seconds``.

        Earlier states of an instant are dropped as well.
        """
        used_since = time.time() - keep_seconds
        listed = self._listed()
        needed = set(listed[-keep:])
        needed |= {name for name in listed if self._used.get(self._records[name].instant, 0) > used_since}
        due = self._records.keys() - needed
        has_lineage = any(self._records[name].lineage is not None for name in due)
        for name in due:
            self._drop(name)
        if has_lineage:
            self._row_ranges = {}
            for name in sorted(self._records, key=_age):
                self._note(self._records[name])
        for name in self._unreadable:
            self._scratch.remove(f"{Folder.SNAPSHOTS}/{name}")

    def remove(self, snapshots: Sequence[IcebergSnapshot]) -> None:
        """Removes the records of these snapshots, whose files are gone.

        If they are built again, the rows of base files have the same ids.
        """
        for name, snapshot in list(self._records.items()):
            if snapshot in snapshots:
                self._scratch.remove(f"{Folder.SNAPSHOTS}/{name}")
                del self._records[name]

    def _drop(self, name: str) -> None:
        snapshot = self._records.pop(name)
        # Whoever looks at both folders, in this order, finds the record in one of them.
        self._scratch.write(f"{Folder.DROPPED}/{snapshot.instant}-{new_mark()}.json", snapshot_to_json(snapshot))
        self._scratch.remove(f"{Folder.SNAPSHOTS}/{name}")

    def _listed(self) -> list[str]:
        """The names of one record for each instant, ordered by instant."""
        first: dict[tuple[str, str], str] = {}
        for name in sorted(self._records, key=_age):
            key = self._records[name].instant, self._records[name].state
            first[key] = min(first.get(key, name), name, key=self._precedence)
        latest = {instant: name for (instant, _), name in first.items()}
        return [latest[instant] for instant in sorted(latest)]

    def _precedence(self, name: str) -> tuple[int, int, str]:
        """What orders records of one state; the first counts."""
        lineage = self._records[name].lineage
        return (0 if lineage is None else lineage.first_row_id, *_age(name))

    def _note(self, snapshot: IcebergSnapshot) -> None:
        """Notes the ids of rows. If two services gave ids to a file at once, the lower ones count from then on."""
        if snapshot.lineage is None:
            return
        for location, (first, rows) in snapshot.lineage.ranges.items():
            earlier = self._row_ranges.get(location)
            if earlier is None or earlier[1] != rows or first < earlier[0]:
                self._row_ranges[location] = first, rows

    def _next_row_id(self) -> int:
        """An id above all of the snapshots; claims are above those of snapshots that are gone."""
        next_ids = (snapshot.lineage.next_row_id for snapshot in self.everything() if snapshot.lineage is not None)
        return max(next_ids, default=0)


def read_record(scratch: Scratch, path: str) -> IcebergSnapshot | None:
    """The snapshot of a record; None if it is gone or damaged."""
    text = scratch.read(path)
    try:
        return None if text is None else snapshot_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _age(name: str) -> tuple[int, str]:
    """What orders records by the time when they were written."""
    return marked_at(name) or 0, name


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
                if name in needed[folder] or (folder in (Folder.DATA, Folder.SLICES) and _slice_of(name) in slices):
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
            self._scratch.remove(f"{Folder.DROPPED}/{name}")
            del self._dropped[name]
        return removed

    def _is_left_over(self, name: str, now: float) -> bool:
        """Whether a file that no record lists is old enough."""
        if period_of(name) is not None:
            return is_past(name, self._keep_seconds)
        since = marked_at(name)
        return since is not None and now - since >= period_seconds(self._keep_seconds)

    def _read_dropped(self) -> None:
        names = self._scratch.names(Folder.DROPPED)
        for name in self._dropped.keys() - set(names):
            del self._dropped[name]
        for name in names:
            if name not in self._dropped:
                self._dropped[name] = read_record(self._scratch, f"{Folder.DROPPED}/{name}")


def _slice_of(name: str) -> str:
    """The name of the slice that a file of data or a cache entry belongs to."""
    return "-".join(name.partition(".")[0].split("-")[:3])


def _files_of(snapshots: Sequence[IcebergSnapshot]) -> dict[str, set[str]]:
    """The names of the files that snapshots list, by folder."""
    lists = {snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None}
    return {
        Folder.DATA: {name for snapshot in snapshots for name in snapshot.own_files},
        Folder.SLICES: {f"{name}.json" for snapshot in snapshots for name in snapshot.slices},
        Folder.METADATA: lists | {name for snapshot in snapshots for name in snapshot.manifests},
        **{folder: set() for folder in (Folder.TABLES, Folder.SNAPSHOTS, Folder.DROPPED, Folder.GIVEN, Folder.CLAIMS)},
    }
