"""Snapshots of a Hudi table -> the metadata of an Iceberg table.

The snapshot log lists every commit that the Hudi table can be read as of, built or not: a time-travel query to one
that is not built fails, instead of getting an older snapshot.

Source: the Iceberg specification, "Table Metadata Fields", and Iceberg's ``SnapshotUtil.snapshotIdAsOfTime``.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2, TableMetadataV3
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.typedef import IcebergBaseModel

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.connectors.iceberg.format_version import FormatVersion
from hudi_bridge.connectors.iceberg.manifests import METADATA
from hudi_bridge.connectors.iceberg.model_json import model_document
from hudi_bridge.connectors.iceberg.name_mapping import complete, mapped_ids, names_to_ids
from hudi_bridge.connectors.iceberg.partitioning import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.rewriting import IcebergClient
from hudi_bridge.connectors.iceberg.snapshot import IcebergSnapshot
from hudi_bridge.timeline.instant import time_of

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
            "snapshots": [
                _snapshot(location, snapshot, _schema_id(snapshot, schemas))
                for snapshot in listed
                if snapshot.snapshot_id
            ],
            "snapshot-log": log,
        }
        | ({} if version is FormatVersion.V2 else {"next-row-id": _next_row_id(listed)})
    )


def metadata_text(metadata: TableMetadataV2 | TableMetadataV3) -> str:
    """The metadata as JSON; PyIceberg's own method for version 3 refuses, since it writes no such tables yet."""
    return IcebergBaseModel.model_dump_json(metadata)


def _next_row_id(snapshots: Sequence[IcebergSnapshot]) -> int:
    return max((one.lineage.next_row_id for one in snapshots if one.lineage is not None), default=0)


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
    return snapshot.reads_alike(mapping)


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
            "manifest-list": f"{location}/{METADATA}/{listed}",
            "summary": Summary(Operation.OVERWRITE, **summary),
            "schema-id": schema_id,
        }
        | _row_ids(snapshot)
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
