"""The catalog of Iceberg tables: the snapshots and planned scans of each Hudi table, made when they are asked for."""

import hashlib
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.served_table import Published, ServedTable, SnapshotSettings
from hudi_bridge.connectors.iceberg.table_snapshots import TableSnapshots
from hudi_bridge.connectors.lakes.tables import (
    FoundTable,
    MergingByTable,
    Namespace,
    TableName,
    TablesByName,
    parse_table_name,
)
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.errors import TableNotFoundError
from hudi_bridge.options import ReadOptions, with_query_type
from hudi_bridge.service.planned_snapshots import KeptPlans, PlannedSnapshots
from hudi_bridge.service.scans import ScanRequest
from hudi_bridge.storage.storage import Storage

_PLANNED = "_planned"


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """The scans of one table, newest or as of an instant."""

    snapshots: PlannedSnapshots
    as_of: str | None

    def load(self) -> Published:
        """The columns and snapshots, as ``PlannedSnapshots.load`` returns them."""
        return self.snapshots.load(self.as_of)

    def plan(self, request: ScanRequest) -> dict[str, Any]:
        """A plan of a scan, as ``PlannedSnapshots.plan`` returns it."""
        return self.snapshots.plan(self.as_of, request)


class Catalog:
    """Tables by name; snapshots are built on request."""

    def __init__(
        self, tables: TablesByName, scratch: Scratch, settings: SnapshotSettings, merging: MergingByTable
    ) -> None:
        self.tables = tables
        self._scratch = scratch
        self._settings = settings
        self._merging = merging
        self._lock = Lock()
        self._snapshots: dict[tuple[str, QueryType], TableSnapshots] = {}
        self._planned: dict[tuple[str, QueryType], PlannedSnapshots] = {}
        self._plans = KeptPlans()

    def load(self, namespace: Namespace, name: str) -> Published:
        """The current state of a table, or the state that its name asks for (``parse_table_name``).

        Raises:
            TableNotFoundError: the table does not exist.
            HudiReadError: the table cannot be read.
        """
        storage, asked = self._asked(namespace, name)
        return self._snapshots_of(storage, asked.query_type).load(asked.as_of)

    def planned(self, namespace: Namespace, name: str) -> "PlannedTable":
        """The scans of a table, or of the state that its name asks for.

        Raises:
            TableNotFoundError: the table does not exist.
        """
        storage, asked = self._asked(namespace, name)
        return PlannedTable(self._planned_of(storage, asked.query_type), asked.as_of)

    def places(self, namespace: Namespace, name: str, *, planned: bool) -> tuple[str, str]:
        """The URIs by which clients know the folder of a table and the folder that the service writes for it.

        Raises:
            TableNotFoundError: the table does not exist.
        """
        storage, asked = self._asked(namespace, name)
        scratch = self._scratch_of(storage, asked.query_type, planned=planned)
        return self._settings.locations.uri(storage), self._settings.locations.uri(scratch.storage)

    def has_table(self, namespace: Namespace, name: str) -> bool:
        """Whether a table has the name, with or without a suffix for the query type or the instant."""
        return any(
            self.tables.look_up(namespace, candidate) is not None for candidate in (name, parse_table_name(name).table)
        )

    def follow(self, namespace: Namespace, name: str) -> None:
        """Build snapshots of all commits of a table since its newest snapshot.

        Raises:
            HudiReadError: the table cannot be read.
        """
        table = self.tables.look_up(namespace, name)
        if table is not None:
            self._snapshots_of(table.storage, self._query_type(table)).follow()

    def _asked(self, namespace: Namespace, name: str) -> tuple[Storage, TableName]:
        """The table that a name means, and what it asks for. A table that has the whole name comes first."""
        table = self.tables.look_up(namespace, name)
        if table is not None:
            return table.storage, TableName(table=name, query_type=self._query_type(table), as_of=None)
        asked = parse_table_name(name)
        table = self.tables.look_up(namespace, asked.table)
        if table is None:
            raise TableNotFoundError(".".join((*namespace, name)), "there is no table of that name")
        # What is read optimized stays so, as of any instant.
        is_snapshot = asked.query_type is QueryType.SNAPSHOT
        return table.storage, replace(asked, query_type=self._query_type(table)) if is_snapshot else asked

    def _query_type(self, table: FoundTable) -> QueryType:
        """What the name of a table stands for without a suffix: an option counts more than what a catalog says."""
        options = self._merging.of(table.storage).options
        return ReadOptions.of(with_query_type(options, table.query_type)).query_type

    def _snapshots_of(self, storage: Storage, query_type: QueryType) -> TableSnapshots:
        with self._lock:
            key = (storage.table_path, query_type)
            if key not in self._snapshots:
                scratch, merging = self._scratch_of(storage, query_type, planned=False), self._merging.of(storage)
                self._snapshots[key] = TableSnapshots(storage, query_type, scratch, self._settings_of(storage), merging)
            return self._snapshots[key]

    def _planned_of(self, storage: Storage, query_type: QueryType) -> PlannedSnapshots:
        with self._lock:
            key = (storage.table_path, query_type)
            if key not in self._planned:
                served = ServedTable(
                    storage=storage,
                    query_type=query_type,
                    settings=self._settings_of(storage),
                    merging=self._merging.of(storage),
                )
                scratch = self._scratch_of(storage, query_type, planned=True)
                self._planned[key] = PlannedSnapshots(served, scratch, self._plans)
            return self._planned[key]

    def _scratch_of(self, storage: Storage, query_type: QueryType, *, planned: bool) -> Scratch:
        return self._scratch.child(f"{scratch_name(storage, query_type)}{_PLANNED if planned else ''}")

    def _settings_of(self, storage: Storage) -> SnapshotSettings:
        return replace(self._settings, roots=self.tables.real_paths_of(storage))


def scratch_name(storage: Storage, query_type: QueryType) -> str:
    """The folder for a table's snapshots: a readable name, and a hash of the location that makes it unique."""
    name = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in storage.location().rpartition("/")[2])
    digest = hashlib.sha256(storage.location().encode()).hexdigest()[:12]
    return f"{name[:40]}-{digest}/{query_type.value}"
