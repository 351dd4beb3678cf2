"""An Iceberg snapshot of the table as of one instant, and its record on disk, which makes it visible.

The record is written last. Files that no record lists can be removed.
"""

import json
from dataclasses import dataclass
from typing import Any

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping

from hudi_bridge.connectors.iceberg.columns import Columns
from hudi_bridge.connectors.iceberg.model_json import model_document
from hudi_bridge.connectors.iceberg.name_mapping import names_to_ids
from hudi_bridge.connectors.iceberg.row_lineage import RowLineage, lineage_from_json, lineage_to_json

SNAPSHOTS = "snapshots"
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

    def reads_alike(self, mapping: NameMapping) -> bool:
        """Whether clients find the same columns in the base files by another mapping."""
        own, other = (names_to_ids(one, self.columns.schema) for one in (self.columns.mapping, mapping))
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
