"""The snapshots of a table on disk: which are listed, and which can be removed."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from hudi_bridge.connectors.iceberg.manifests import METADATA
from hudi_bridge.connectors.iceberg.name_mapping import Ids
from hudi_bridge.connectors.iceberg.row_lineage import RowIds
from hudi_bridge.connectors.iceberg.slice_builder import DATA
from hudi_bridge.connectors.iceberg.snapshot import SNAPSHOTS, IcebergSnapshot, snapshot_from_json, snapshot_to_json
from hudi_bridge.connectors.publishing.scratch import Scratch

TABLES = "tables"
_NEXT_ROW_ID = "next-row-id.text"


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
        data, metadata, tables = (frozenset(scratch.names(folder)) for folder in (DATA, METADATA, TABLES))
        return cls(data=data, metadata=metadata, tables=tables)

    def has_all_of(self, snapshot: IcebergSnapshot) -> bool:
        """Whether all files of a snapshot exist."""
        metadata = {snapshot.manifest_list, *snapshot.manifests}
        return self.data.issuperset(snapshot.own_files) and self.metadata.issuperset(metadata)


class SnapshotRecords:
    """The records of snapshots in a folder; ``refresh`` finds those of other processes."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._snapshots: dict[str, IcebergSnapshot] = {}
        self._used: dict[str, float] = {}
        self._row_ranges: dict[str, tuple[int, int]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read new records."""
        names = self._scratch.names(SNAPSHOTS)
        known = {snapshot.record_name: snapshot for snapshot in self._snapshots.values()}
        for name in names:
            text = None if name in known else self._scratch.read(f"{SNAPSHOTS}/{name}")
            snapshot = None if text is None else _snapshot(text)
            if snapshot is not None:
                self._note(snapshot)

    def get(self, instant: str) -> IcebergSnapshot | None:
        """The snapshot as of an instant; None if there is none."""
        return self._snapshots.get(instant)

    def ids(self) -> Ids:
        """The column ids of all snapshots, by dotted path."""
        ids: dict[str, int] = {}
        for snapshot in self.all():
            ids |= snapshot.columns.ids
        return ids

    def row_ids(self) -> RowIds:
        """The ids that rows of snapshots have; those that were given before are not given again."""
        return RowIds(ranges=self._row_ranges, next_row_id=self._next_row_id())

    def all(self) -> Sequence[IcebergSnapshot]:
        """All snapshots, ordered by instant."""
        return [self._snapshots[instant] for instant in sorted(self._snapshots)]

    def up_to(self, instant: str, most: int) -> Sequence[IcebergSnapshot]:
        """The last ``most`` snapshots up to an instant, ordered by instant."""
        return [snapshot for snapshot in self.all() if snapshot.instant <= instant][-most:]

    def publish(self, snapshot: IcebergSnapshot) -> None:
        """Make a snapshot visible; its files must be complete."""
        if snapshot.lineage is not None:
            self._scratch.write(_NEXT_ROW_ID, str(max(snapshot.lineage.next_row_id, self._next_row_id())).encode())
        self._scratch.write(f"{SNAPSHOTS}/{snapshot.record_name}", snapshot_to_json(snapshot))
        self._note(snapshot)

    def use(self, snapshots: Sequence[IcebergSnapshot]) -> None:
        """Note that clients have been given these snapshots now."""
        self._used |= dict.fromkeys((snapshot.instant for snapshot in snapshots), time.time())

    def drop(self, keep: int, keep_seconds: float) -> None:
        """Remove all records but the newest ``keep``, and those that were used within ``keep_seconds``."""
        used_since = time.time() - keep_seconds
        due = [one for one in self.all()[:-keep] if self._used.get(one.instant, 0) <= used_since]
        self.remove(due)
        if any(snapshot.lineage is not None for snapshot in due):
            self._row_ranges = {}
            for snapshot in self.all():
                self._note(snapshot)

    def remove(self, snapshots: Sequence[IcebergSnapshot]) -> None:
        """Remove the records of these snapshots; if they are built again, their rows have the same ids."""
        for snapshot in snapshots:
            self._scratch.remove(f"{SNAPSHOTS}/{snapshot.record_name}")
            del self._snapshots[snapshot.instant]

    def _note(self, snapshot: IcebergSnapshot) -> None:
        self._snapshots[snapshot.instant] = snapshot
        if snapshot.lineage is not None:
            self._row_ranges |= snapshot.lineage.ranges

    def _next_row_id(self) -> int:
        """An id above all that have been given, also in snapshots that are gone."""
        stored = (self._scratch.read(_NEXT_ROW_ID) or b"").decode("ascii", "replace")
        known = (snapshot.lineage.next_row_id for snapshot in self.all() if snapshot.lineage is not None)
        return max(int(stored) if stored.isdecimal() else 0, max(known, default=0))


def _snapshot(text: bytes) -> IcebergSnapshot | None:
    """The snapshot of a record; None if it is damaged, and the snapshot is built again."""
    try:
        return snapshot_from_json(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
