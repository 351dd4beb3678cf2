"""Writes the files of a small table: properties, instants, plans."""

import io
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

from hudi_bridge.config import TableConfig, read_table_config
from hudi_bridge.storage.storage import Storage

TEXT = ["null", "string"]


def properties(**changes: str | None) -> str:
    """The text of a table's properties; in ``changes``, ``__`` is a dot in a key, and None removes the key."""
    pairs: dict[str, str | None] = {
        "hoodie.table.name": "trips",
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.checksum": str(zlib.crc32(b".trips")),
    }
    pairs |= {key.replace("__", "."): value for key, value in changes.items()}
    return "".join(f"{key}={value}\n" for key, value in pairs.items() if value is not None)


def make_table(folder: Path, **changes: str | None) -> tuple[Storage, TableConfig]:
    """A table without instants."""
    hoodie = folder / ".hoodie"
    hoodie.mkdir()
    (hoodie / "hoodie.properties").write_text(properties(**changes))
    storage = Storage.open(str(folder))
    config = read_table_config(storage)
    (folder / config.timeline_path).mkdir(exist_ok=True)
    return storage, config


def make_layout_1(folder: Path, **changes: str | None) -> tuple[Storage, TableConfig]:
    return make_table(folder, hoodie__table__version="6", hoodie__timeline__layout__version="1", **changes)


def put(folder: Path, config: TableConfig, **files: bytes) -> None:
    """Write files of the timeline; their names are the keywords without the ``t``, with a dot for ``__``."""
    for name, content in files.items():
        (folder / config.timeline_path / name.removeprefix("t").replace("__", ".")).write_bytes(content)


def container(name: str, fields: Mapping[str, Any], *records: Mapping[str, Any]) -> bytes:
    """An Avro container file of records."""
    schema = {
        "type": "record",
        "name": name,
        "namespace": "org.apache.hudi.avro.model",
        "fields": [{"name": field, "type": kind, "default": None} for field, kind in fields.items()],
    }
    file = io.BytesIO()
    fastavro.writer(file, schema, records)
    return file.getvalue()


def record_type(name: str, fields: Mapping[str, Any]) -> list[Any]:
    """A nullable record, for use as the type of a field."""
    return [
        "null",
        {
            "type": "record",
            "name": name,
            "fields": [{"name": field, "type": kind, "default": None} for field, kind in fields.items()],
        },
    ]


def list_of(kind: Any) -> list[Any]:
    return ["null", {"type": "array", "items": kind}]


def map_of(kind: Any) -> list[Any]:
    return ["null", {"type": "map", "values": kind}]


def clean(earliest: str | None, *deleted: str) -> bytes:
    """A completed clean; ``deleted`` are the names of files that it deleted in the partition ``""``."""
    of_partition = record_type("HoodieCleanPartitionMetadata", {"successDeleteFiles": list_of("string")})[1]
    fields = {
        "earliestCommitToRetain": TEXT,
        "lastCompletedCommitTimestamp": TEXT,
        "partitionMetadata": map_of(of_partition),
    }
    partitions = {"": {"successDeleteFiles": list(deleted)}} if deleted else None
    values = {"earliestCommitToRetain": earliest, "partitionMetadata": partitions}
    return container("HoodieCleanMetadata", fields, values)


def requested_replace(file_ids: list[str] | None) -> bytes:
    part = record_type("HoodieSliceInfo", {"partitionPath": TEXT, "fileId": TEXT})[1]
    group = record_type("HoodieClusteringGroup", {"slices": list_of(part)})[1]
    plan = record_type("HoodieClusteringPlan", {"inputGroups": list_of(group)})
    slices = [{"partitionPath": "a", "fileId": file_id} for file_id in file_ids or ()]
    value = {"inputGroups": [{"slices": slices}]} if file_ids is not None else None
    return container("HoodieRequestedReplaceMetadata", {"clusteringPlan": plan}, {"clusteringPlan": value})


def clean_plan(
    earliest: str | None,
    *to_delete: str,
    partition: str = "",
    whole_partitions: Sequence[str] = (),
    version: int | None = 2,
) -> bytes:
    """A plan of a clean; ``to_delete`` are the names of files of ``partition``.

    Version 1 names files by their own names, version 2 by their URIs, and None does not say which are deleted.
    """
    kept = record_type("HoodieActionInstant", {"timestamp": TEXT, "action": TEXT, "state": TEXT})
    file = record_type("HoodieCleanFileInfo", {"filePath": TEXT, "isBootstrapBaseFile": ["null", "boolean"]})[1]
    fields = {
        "earliestInstantToRetain": kept,
        "filesToBeDeletedPerPartition": map_of(list_of("string")[1]),
        "filePathsToBeDeletedPerPartition": map_of(list_of(file)[1]),
        "partitionsToBeDeleted": list_of("string"),
    }
    value = None if earliest is None else {"timestamp": earliest, "action": "deltacommit", "state": "COMPLETED"}
    uris = [{"filePath": f"file:/t/{name}", "isBootstrapBaseFile": False} for name in to_delete]
    values = {
        "earliestInstantToRetain": value,
        "filesToBeDeletedPerPartition": {1: {partition: list(to_delete)}, 2: {}}.get(version or 0),
        "filePathsToBeDeletedPerPartition": {2: {partition: uris}}.get(version or 0),
        "partitionsToBeDeleted": list(whole_partitions),
    }
    return container("HoodieCleanerPlan", fields, values)
