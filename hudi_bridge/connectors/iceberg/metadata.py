"""The metadata of an Iceberg table, made of snapshots of a Hudi table, and the record on disk of each snapshot.

The snapshots and their log list every commit that the Hudi table can be read as of, built or not: a time-travel query
to a snapshot that is not built fails, instead of getting an older one or an empty table. Its manifest list does not
exist, and has a name that says so.

A record makes a snapshot visible, and is written after its files. Files that no record lists can be removed.

Source: the Iceberg specification, "Table Metadata Fields", and Iceberg's ``SnapshotUtil.snapshotIdAsOfTime``.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import IcebergBaseModel

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.connectors.iceberg.columns import (
    WITHOUT_PARTITION,
    Columns,
    complete,
    mapped_ids,
    model_document,
    names_to_ids,
)
from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, IcebergClient
from hudi_bridge.connectors.iceberg.row_lineage import RowLineage, lineage_from_json, lineage_to_json
from hudi_bridge.connectors.iceberg.slice_files import Folder
from hudi_bridge.timeline.instant import time_of

TABLE_METADATA = ".metadata.json"
"""Ends the names of the files of a table's metadata."""
BEFORE = "1"
"""Stands for all instants before the first readable one, if there were any: DuckDB would show an empty table."""
_FORMAT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSnapshot:
    """The table as of an instant.

    ``state`` is a hash of what the snapshot was made from: the timeline, the table properties, and the settings.
    ``manifest_list``, ``manifests`` and ``own_files``, the data files that were written, are file names; ``slices`` are
    the names of ``SliceFiles``. ``stored_paths`` are the columns of all base files that clients read. ``client`` is the
    one that the snapshot was written for, if any. ``notes`` say which clients misread the snapshot. Without a manifest
    list, the service plans scans of the snapshot, and nothing is counted. ``lineage`` are the ids of the rows, which
    snapshots with files of version 3 have.
    """

    instant: str
    state: str
    timestamp_ms: int
    columns: Columns
    spec: PartitionSpec
    manifest_list: str | None
    manifests: tuple[str, ...]
    slices: tuple[str, ...]
    own_files: tuple[str, ...]
    stored_paths: tuple[str, ...]
    data_files: int
    delete_files: int
    position_deletes: int
    rows: int
    client: str | None
    notes: tuple[str, ...]
    lineage: RowLineage | None = None

    @property
    def snapshot_id(self) -> int:
        """The instant as a number."""
        return int(self.instant)

    def reads_same_columns(self, mapping: NameMapping) -> bool:
        """Whether clients find the same columns in the base files by another mapping."""
        own, other = (names_to_ids(names, self.columns.schema) for names in (self.columns.mapping, mapping))
        return all(own.get(path) == other.get(path) for path in self.stored_paths)


def snapshot_to_json(snapshot: IcebergSnapshot) -> bytes:
    """The JSON text that ``snapshot_from_json`` reads."""
    fields = {name: getattr(snapshot, name) for name in _JSON_FIELDS}
    document = fields | {
        "format": _FORMAT,
        "schema": model_document(snapshot.columns.schema),
        "ids": dict(snapshot.columns.ids),
        "mapping": snapshot.columns.mapping.model_dump(mode="json"),
        "spec": model_document(snapshot.spec),
        "lineage": lineage_to_json(snapshot.lineage),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def snapshot_from_json(text: bytes) -> IcebergSnapshot | None:
    """The snapshot that ``snapshot_to_json`` wrote; None for another format version."""
    document = json.loads(text)
    if document.pop("format", None) != _FORMAT:
        return None
    columns = Columns(
        schema=Schema.model_validate(document["schema"]),
        ids=document["ids"],
        mapping=NameMapping.model_validate(document["mapping"]),
    )
    fields: dict[str, Any] = {name: _as_tuple(document[name]) for name in _JSON_FIELDS}
    return IcebergSnapshot(
        **fields,
        columns=columns,
        spec=PartitionSpec.model_validate(document["spec"]),
        # Records of earlier releases lack it; they are of version 2.
        lineage=lineage_from_json(document.get("lineage")),
    )


_JSON_FIELDS = (
    "instant",
    "state",
    "timestamp_ms",
    "manifest_list",
    "manifests",
    "slices",
    "own_files",
    "stored_paths",
    "data_files",
    "delete_files",
    "position_deletes",
    "rows",
    "client",
    "notes",
)


def _as_tuple(value: Any) -> Any:  # noqa: ANN401 - of any type
    return tuple(value) if isinstance(value, list) else value


_TIME_DIGITS = 17


def table_metadata(
    location: str,
    snapshots: Sequence[IcebergSnapshot],
    retained: Iterable[tuple[str, int]],
    *,
    properties: dict[str, str],
    version: FormatVersion = FormatVersion.V2,
) -> TableMetadataV2 | TableMetadataV3:
    """The metadata of a table. ``snapshots`` are ordered by instant; the last one is current.

    ``location`` is the folder of the snapshots' files. ``retained`` are the readable instants with their times, in
    milliseconds since the epoch. A table of version 3 may have snapshots of version 2, which it had before it was
    upgraded, but not the other way round.
    """
    current = snapshots[-1]
    own = current.spec
    mapping = _mapping(snapshots)
    listed = [
        snapshot
        for snapshot in snapshots
        if snapshot.spec == own
        and _is_read_with(current, snapshot, mapping)
        and (version is FormatVersion.V3 or snapshot.lineage is None)
    ]
    schemas = _distinct_schemas(listed)
    log = list(_log(current, listed, retained)) if current.snapshot_id else []
    built = {snapshot.snapshot_id for snapshot in listed}
    entries = [
        _snapshot(location, snapshot, _schema_id(snapshot, schemas)) for snapshot in listed if snapshot.snapshot_id
    ]
    entries += [
        _missing_snapshot(location, entry, _schema_id(current, schemas))
        for entry in log
        if entry.snapshot_id not in built
    ]
    ids = {id_ for schema in schemas for id_ in schema.field_ids} | mapped_ids(mapping)
    model = TableMetadataV2 if version is FormatVersion.V2 else TableMetadataV3
    return model.model_validate(
        {
            "format-version": version.value,
            "location": location,
            "table-uuid": uuid5(NAMESPACE_URL, location),
            "last-updated-ms": log[-1].timestamp_ms if log else current.timestamp_ms,
            "last-sequence-number": current.snapshot_id,
            "last-column-id": max(ids),
            "schemas": schemas,
            "current-schema-id": _schema_id(current, schemas),
            "partition-specs": [WITHOUT_PARTITION, own] if own.fields else [WITHOUT_PARTITION],
            "default-spec-id": own.spec_id,
            "last-partition-id": max([PARTITION_FIELD_ID_START - 1, *(field.field_id for field in own.fields)]),
            "sort-orders": [UNSORTED_SORT_ORDER],
            "properties": properties | {"schema.name-mapping.default": mapping.model_dump_json()},
            # None before the first commit.
            "current-snapshot-id": current.snapshot_id or None,
            "snapshots": sorted(entries, key=lambda snapshot: snapshot.snapshot_id),
            "snapshot-log": log,
        }
        | ({} if version is FormatVersion.V2 else {"next-row-id": _next_row_id(listed)})
    )


def metadata_text(metadata: TableMetadataV2 | TableMetadataV3) -> str:
    """The metadata as JSON; PyIceberg's own method for version 3 refuses, since it writes no such tables yet."""
    return IcebergBaseModel.model_dump_json(metadata)


def _next_row_id(snapshots: Sequence[IcebergSnapshot]) -> int:
    return max((snapshot.lineage.next_row_id for snapshot in snapshots if snapshot.lineage is not None), default=0)


def _mapping(snapshots: Sequence[IcebergSnapshot]) -> NameMapping:
    """The mapping of the current snapshot, completed with the columns of base files that the snapshot lacks.

    They keep the ids that they have in earlier snapshots, so that these can still be read.
    """
    current = snapshots[-1].columns
    paths: dict[str, int | None] = {}
    for snapshot in reversed(snapshots):
        ids = names_to_ids(snapshot.columns.mapping, snapshot.columns.schema)
        for path in snapshot.stored_paths:
            id_ = paths.get(path) or ids.get(path)
            paths[path] = None if id_ in current.schema.field_ids else id_
    first_id = 1 + max(id_ for snapshot in snapshots for id_ in snapshot.columns.schema.field_ids)
    return complete(current.mapping, paths, first_id)


def _is_read_with(current: IcebergSnapshot, snapshot: IcebergSnapshot, mapping: NameMapping) -> bool:
    """Whether clients read a snapshot right from the metadata of the current one."""
    if snapshot.client != current.client:
        return False
    # Presto reads all snapshots with the newest schema.
    if snapshot.client == IcebergClient.PRESTO and snapshot.columns.schema != current.columns.schema:
        return False
    return snapshot.reads_same_columns(mapping)


def _distinct_schemas(snapshots: Sequence[IcebergSnapshot]) -> list[Schema]:
    """The different schemas of the snapshots, with ids from 0, in the order of their first use."""
    texts = dict.fromkeys(_schema_text(snapshot) for snapshot in snapshots)
    return [Schema.model_validate(json.loads(text) | {"schema-id": number}) for number, text in enumerate(texts)]


def _schema_text(snapshot: IcebergSnapshot) -> str:
    document = model_document(snapshot.columns.schema)
    return json.dumps(document | {"schema-id": 0})


def _schema_id(snapshot: IcebergSnapshot, schemas: Sequence[Schema]) -> int:
    return next(schema.schema_id for schema in schemas if schema == snapshot.columns.schema)


def _snapshot(location: str, snapshot: IcebergSnapshot, schema_id: int) -> Snapshot:
    name = snapshot.manifest_list
    # Clients that plan scans themselves fail on the manifest list that is not there, and see why in its name.
    counts = {} if name is None else _counts(snapshot)
    summary = {"hudi.instant": snapshot.instant} | counts
    listed = name or f"scans-of-{snapshot.snapshot_id}-are-planned-by-the-service.avro"
    return Snapshot.model_validate(
        {
            "snapshot-id": snapshot.snapshot_id,
            "sequence-number": snapshot.snapshot_id,
            "timestamp-ms": snapshot.timestamp_ms,
            "manifest-list": f"{location}/{Folder.METADATA}/{listed}",
            "summary": Summary(Operation.OVERWRITE, **summary),
            "schema-id": schema_id,
        }
        | _row_ids(snapshot)
    )


def _missing_snapshot(location: str, entry: SnapshotLogEntry, schema_id: int) -> Snapshot:
    """An entry of the log without a snapshot; a read fails with the name of a file that says why."""
    is_before = str(entry.snapshot_id) == BEFORE
    name = "times-before-the-first-readable-instant" if is_before else f"snapshot-{entry.snapshot_id}-is-not-built-yet"
    return Snapshot.model_validate(
        {
            "snapshot-id": entry.snapshot_id,
            "sequence-number": entry.snapshot_id,
            "timestamp-ms": entry.timestamp_ms,
            "manifest-list": f"{location}/{Folder.METADATA}/{name}.avro",
            "summary": Summary(Operation.OVERWRITE, **{"hudi.instant": str(entry.snapshot_id)}),
            "schema-id": schema_id,
        }
    )


def _row_ids(snapshot: IcebergSnapshot) -> dict[str, int]:
    lineage = snapshot.lineage
    return {} if lineage is None else {"first-row-id": lineage.first_row_id, "added-rows": lineage.added_rows}


def _counts(snapshot: IcebergSnapshot) -> dict[str, str]:
    return {
        "total-data-files": str(snapshot.data_files),
        "total-delete-files": str(snapshot.delete_files),
        "total-position-deletes": str(snapshot.position_deletes),
        "total-equality-deletes": "0",
        "total-records": str(snapshot.rows),
    }


def _log(
    current: IcebergSnapshot, snapshots: Sequence[IcebergSnapshot], retained: Iterable[tuple[str, int]]
) -> Iterable[SnapshotLogEntry]:
    times = dict(retained) | {snapshot.instant: snapshot.timestamp_ms for snapshot in snapshots}
    latest = 0
    for instant in sorted(times):
        if instant <= current.instant:
            # Times in Iceberg's log must not decrease, but a writer's clock may be set back.
            latest = max(latest, times[instant])
            yield SnapshotLogEntry.model_validate({"snapshot-id": int(instant), "timestamp-ms": latest})


def epoch_ms(instant: str, timezone: TimelineTimezone) -> int:
    """The time of an instant in milliseconds since the epoch, 0 for one that is no time, as before the first commit.

    A timeline in local time is read in the time zone of this machine.
    """
    if time_of(instant[:_TIME_DIGITS]) is None:
        return 0
    seconds, millis = instant[:14], instant[14:_TIME_DIGITS].ljust(3, "0")
    moment = datetime.strptime(seconds, "%Y%m%d%H%M%S")  # noqa: DTZ007 - the next line sets the time zone
    zoned = moment.replace(tzinfo=UTC) if timezone is TimelineTimezone.UTC else moment.astimezone()
    return int(zoned.timestamp()) * 1000 + int(millis)
