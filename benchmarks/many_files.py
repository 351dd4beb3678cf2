"""A table of many files that are not there: a timeline, and a metadata table of one base file in each file group.

The metadata table knows the files of all partitions and, if asked for, where one record key is: a record index of as
many file groups as a large table has, of which only the one of that key is written. Schemas are those of Hudi, so that
other readers can plan the table, too.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from hudi_bridge.indexes.record_kinds import group_numbers
from tests.logformat.hfile_writer import Cell, hfile
from tests.support.table_writer import TableWriter

INSTANT, LOG_INSTANT = "20260101000000000", "20260101000002000"
WANTED_KEY = "key-000000000042"
"""The record key that the record index knows, of the first file slice of partition ``WANTED_PARTITION``."""
WANTED_PARTITION = 7
_COMPLETED = {INSTANT: "20260101000001000", LOG_INSTANT: "20260101000003000"}
_BOOTSTRAP = "00000000000000000"
_PARTITIONS_TYPE, _FILES_TYPE, _RECORD_INDEX_TYPE = 1, 2, 5
_RAW_FILE_ID = 1
_BLOCK_BYTES = 1 << 20
_KEYS_IN_GROUP = 10_000
_NAMESPACE = "org.apache.hudi.avro.model"
_FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
_LOCATION = {
    "type": "record",
    "name": "HoodieRecordIndexInfo",
    "fields": [
        {"name": "partitionName", "type": ["null", "string"], "default": None},
        {"name": "fileIdHighBits", "type": ["null", "long"], "default": None},
        {"name": "fileIdLowBits", "type": ["null", "long"], "default": None},
        {"name": "fileIndex", "type": ["null", "int"], "default": None},
        {"name": "fileId", "type": ["null", "string"], "default": None},
        {"name": "instantTime", "type": ["null", "long"], "default": None},
        {"name": "fileIdEncoding", "type": "int", "default": 0},
    ],
}
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "namespace": _NAMESPACE,
    "fields": [
        {"name": "key", "type": {"type": "string", "avro.java.string": "String"}},
        {"name": "type", "type": "int"},
        {
            "name": "filesystemMetadata",
            "type": ["null", {"type": "map", "values": _FILE_INFO, "avro.java.string": "String"}],
            "default": None,
        },
        {"name": "recordIndexMetadata", "type": ["null", _LOCATION], "default": None},
    ],
}
_COLUMNS = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": ["null", "string"]}, {"name": "part", "type": ["null", "string"]}],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyFiles:
    """``partitions`` with ``slices`` file slices each: a base file, and a log file if ``log_bytes`` is not 0.

    ``index_groups`` is the number of file groups of the record index, 0 for none.
    """

    partitions: int
    slices: int
    base_bytes: int = 1_000_000
    log_bytes: int = 0
    index_groups: int = 0

    def files(self, partition: int) -> dict[str, int]:
        """The names and sizes of the files of a partition."""
        found = {}
        for number in range(self.slices):
            file_id = _file_id(partition, number)
            found[f"{file_id}_0-1-{number}_{INSTANT}.parquet"] = self.base_bytes + number
            if self.log_bytes:
                found[f".{file_id}_{LOG_INSTANT}.log.1_0-2-{number}"] = self.log_bytes
        return found

    def write(self, folder: Path, *, with_files: bool = False) -> None:
        """Write the table: the folders of its partitions are there, and the files, all empty, ``with_files``."""
        self._write_timelines(folder)
        index = folder / ".hoodie/metadata/files"
        index.mkdir(parents=True)
        data = hfile([*_blocks(self._cells_of_files())], info=_info())
        (index / f"files-0000-0_0-1-1_{_BOOTSTRAP}.hfile").write_bytes(data)
        if self.index_groups:
            self._write_record_index(folder / ".hoodie/metadata/record_index")
        for number in range(self.partitions):
            # Without any folder, the table would be taken for a small one, which is listed.
            (folder / path_of(number)).mkdir()
            (folder / path_of(number) / ".hoodie_partition_metadata").write_text("commitTime=0\npartitionDepth=1\n")
            for name in self.files(number) if with_files else ():
                (folder / path_of(number) / name).touch()

    def _write_timelines(self, folder: Path) -> None:
        own = folder / ".hoodie/metadata"
        (folder / ".hoodie/timeline/history").mkdir(parents=True)
        (own / ".hoodie/timeline/history").mkdir(parents=True)
        indexes = ["files", *(["record_index"] if self.index_groups else [])]
        common = {
            "hoodie.table.type": "MERGE_ON_READ",
            "hoodie.table.version": "9",
            "hoodie.table.initial.version": "9",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
            "hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
        }
        of_data = {
            "hoodie.table.name": "many",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "part",
            "hoodie.table.keygenerator.type": "SIMPLE",
            "hoodie.table.base.file.format": "PARQUET",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "false",
            "hoodie.table.metadata.partitions": ",".join(indexes),
            "hoodie.table.create.schema": json.dumps(_COLUMNS),
        }
        of_index = {
            "hoodie.table.name": "many_metadata",
            "hoodie.table.recordkey.fields": "key",
            "hoodie.table.base.file.format": "HFILE",
            "hoodie.populate.meta.fields": "false",
            "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
            "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
            "hoodie.record.merge.mode": "CUSTOM",
            "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        }
        for place, stated in ((folder, of_data), (own, of_index)):
            lines = "".join(f"{name}={_escaped(text)}\n" for name, text in (common | stated).items())
            (place / ".hoodie/hoodie.properties").write_text(lines)
        instants = [INSTANT, *([LOG_INSTANT] if self.log_bytes else [])]
        for place, times in ((folder, instants), (own, [_BOOTSTRAP, *instants])):
            writer = TableWriter(folder=place, fields=(("id", "string"), ("part", "string")))
            for instant in times:
                writer.commit(instant, completed=_COMPLETED.get(instant, _COMPLETED[INSTANT]))

    def _cells_of_files(self) -> Iterator[Cell]:
        paths = [path_of(number) for number in range(self.partitions)]
        yield "__all_partitions__", _files_record("__all_partitions__", _PARTITIONS_TYPE, dict.fromkeys(paths, 0))
        for number, path in enumerate(paths):
            yield path, _files_record(path, _FILES_TYPE, self.files(number))

    def _write_record_index(self, folder: Path) -> None:
        folder.mkdir()
        (own,) = group_numbers(pa.array([WANTED_KEY], pa.string()), self.index_groups).tolist()
        location = {
            "partitionName": path_of(WANTED_PARTITION),
            "fileId": _file_id(WANTED_PARTITION, 0),
            "fileIdEncoding": _RAW_FILE_ID,
            "instantTime": 0,
        }
        keys = (f"key-{number:012d}" for number in range(_KEYS_IN_GROUP))
        cells = (
            (key, _encoded({"key": key, "type": _RECORD_INDEX_TYPE, "recordIndexMetadata": location})) for key in keys
        )
        data = hfile([*_blocks(cells)], info=_info())
        for number in range(self.index_groups):
            path = folder / f"record-index-{number:04d}-0_0-1-1_{_BOOTSTRAP}.hfile"
            path.write_bytes(data if number == own else b"")


def path_of(partition: int) -> str:
    """The path of a partition."""
    return f"part={partition:05d}"


def _file_id(partition: int, number: int) -> str:
    return f"{partition:08d}-0000-4000-8000-{number:012d}-0"


def _escaped(text: str) -> str:
    """A value as Java's properties have it."""
    return text.replace("\\", "\\\\").replace(":", "\\:")


def _info() -> dict[str, bytes]:
    return {"schema": json.dumps(_SCHEMA).encode()}


_PARSED = fastavro.parse_schema(_SCHEMA)


def _encoded(record: dict[str, Any]) -> bytes:
    # Hudi empties the field of the key, which the cell has.
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _PARSED, record | {"key": ""})
    return out.getvalue()


def _files_record(key: str, kind: int, files: dict[str, int]) -> bytes:
    sizes = {name: {"size": size, "isDeleted": False} for name, size in files.items()}
    return _encoded({"key": key, "type": kind, "filesystemMetadata": sizes})


def _blocks(cells: Iterator[Cell]) -> Iterator[list[Cell]]:
    block: list[Cell] = []
    size = 0
    for cell in cells:
        block.append(cell)
        size += len(cell[1])
        if size > _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
