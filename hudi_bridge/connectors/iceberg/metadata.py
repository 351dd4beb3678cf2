"""Views -> the metadata of an Iceberg table.

Each view is a snapshot, with its own schema. The log of snapshots names every commit that the Hudi table can still be
read as of, whether or not a view of it has been made: a client that asks for a time gets the view of the last commit
before it, or an error that names the instant, and never an older view.

Source: the Iceberg specification, "Table Metadata Fields", and Iceberg's ``SnapshotUtil.snapshotIdAsOfTime``.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import NAMESPACE_URL, uuid5

from pyiceberg.partitioning import PARTITION_FIELD_ID_START
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

from hudi_bridge.config import TimelineTimezone
from hudi_bridge.connectors.iceberg.manifests import METADATA
from hudi_bridge.connectors.iceberg.name_mapping import complete, mapped_ids, names_to_ids
from hudi_bridge.connectors.iceberg.partitioning import WITHOUT_PARTITION
from hudi_bridge.connectors.iceberg.view import View

_TIME_DIGITS = 17


def table_metadata(
    location: str,
    views: Sequence[View],
    retained: Iterable[tuple[str, int]],
    *,
    properties: dict[str, str],
) -> TableMetadataV2:
    """The metadata of a table whose current view is the last of ``views``, which are in the order of their instants.

    ``location`` is the folder of the view's files. ``retained`` are the instants that can be read, each with its time
    in milliseconds.
    """
    current = views[-1]
    own = current.spec
    mapping = _mapping(views)
    listed = [view for view in views if view.spec == own and view.reads_alike(mapping)]
    schemas = _distinct_schemas(listed)
    log = list(_log(current, listed, retained)) if current.snapshot_id else []
    ids = {id_ for schema in schemas for id_ in schema.field_ids} | mapped_ids(mapping)
    return TableMetadataV2.model_validate(
        {
            "format-version": 2,
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
            # Before the first commit there is nothing to point at.
            "current-snapshot-id": current.snapshot_id or None,
            "snapshots": [_snapshot(location, view, _schema_id(view, schemas)) for view in listed if view.snapshot_id],
            "snapshot-log": log,
        }
    )


def _mapping(views: Sequence[View]) -> NameMapping:
    """The mapping of the current view, with the columns that base files have and the view has not.

    Where an earlier view has them, they have their ids there, so that it can be read beside the current one.
    """
    current = views[-1].columns
    paths: dict[str, int | None] = {}
    for view in reversed(views):
        ids = names_to_ids(view.columns.mapping, view.columns.schema)
        for path in view.stored_paths:
            id_ = paths.get(path) or ids.get(path)
            paths[path] = None if id_ in current.schema.field_ids else id_
    first_id = 1 + max(id_ for view in views for id_ in view.columns.schema.field_ids)
    return complete(current.mapping, paths, first_id)


def _distinct_schemas(views: Sequence[View]) -> list[Schema]:
    """The schemas of all views, numbered from 0; the current one comes last."""
    texts = dict.fromkeys(_schema_text(view) for view in views)
    return [Schema.model_validate(json.loads(text) | {"schema-id": number}) for number, text in enumerate(texts)]


def _schema_text(view: View) -> str:
    document = view.columns.schema.model_dump(mode="json")
    return json.dumps(document | {"schema-id": 0})


def _schema_id(view: View, schemas: Sequence[Schema]) -> int:
    return next(schema.schema_id for schema in schemas if schema == view.columns.schema)


def _snapshot(location: str, view: View, schema_id: int) -> Snapshot:
    facts = {
        "hudi.instant": view.instant,
        "total-data-files": str(view.data_files),
        "total-delete-files": str(view.delete_files),
        "total-position-deletes": str(view.position_deletes),
        "total-equality-deletes": "0",
        "total-records": str(view.rows),
    }
    return Snapshot.model_validate(
        {
            "snapshot-id": view.snapshot_id,
            "sequence-number": view.snapshot_id,
            "timestamp-ms": view.timestamp_ms,
            "manifest-list": f"{location}/{METADATA}/{view.manifest_list}",
            "summary": Summary(Operation.OVERWRITE, **facts),
            "schema-id": schema_id,
        }
    )


def _log(current: View, views: Sequence[View], retained: Iterable[tuple[str, int]]) -> Iterable[SnapshotLogEntry]:
    times = dict(retained) | {view.instant: view.timestamp_ms for view in views}
    latest = 0
    for instant in sorted(times):
        if instant <= current.instant:
            # Clocks are set back; Iceberg's log goes forward.
            latest = max(latest, times[instant])
            yield SnapshotLogEntry.model_validate({"snapshot-id": int(instant), "timestamp-ms": latest})


def epoch_ms(instant: str, timezone: TimelineTimezone) -> int:
    """The time of an instant, 0 before the first; local times of writers are taken for those of this machine."""
    if not int(instant):
        return 0
    seconds, millis = instant[:14], instant[14:_TIME_DIGITS].ljust(3, "0")
    moment = datetime.strptime(seconds, "%Y%m%d%H%M%S")  # noqa: DTZ007 - of which zone is decided here
    zoned = moment.replace(tzinfo=UTC) if timezone is TimelineTimezone.UTC else moment.astimezone()
    return int(zoned.timestamp()) * 1000 + int(millis)
