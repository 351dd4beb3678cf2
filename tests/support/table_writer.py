"""Writes small Hudi tables for tests: properties, timeline, base files, and log files of data and delete blocks.

Tables of version 6 have timeline layout 1 and log files named after the base instant; tables of version 9 have layout 2
and log files named after their own instant. Rows are dictionaries without the meta fields, which are added.
"""

import base64
import datetime as dt
import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from hudi_bridge.indexes.bloom_filter import HashedKeys
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.releases import TABLE_LAYOUTS
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.table import HudiTable
from tests.logformat.log_writer import (
    avro_content,
    avro_long,
    avro_text,
    delete_content,
    delete_list,
    log_block,
    wrapped,
    wrapped_array,
)
from tests.logformat.native_writer import ENTRIES, delete_schema, footer, write_native
from tests.timeline.timeline_files import TEXT, container, list_of, map_of, properties, record_type

Row = Mapping[str, Any]

META_FIELDS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
KEY_AND_VALUE = (("id", "string"), ("ts", "long"), ("value", "string"))
"""The default fields."""

_WRAPPERS = {"int": 2, "long": 3, "string": 7}


def at(number: int) -> str:
    """A valid instant for a number below 600; higher numbers give later instants."""
    return f"202601010000{number * 100:05d}"


def sorted_column(rows: pa.Table, name: str) -> list[Any]:
    """The values of a column, sorted, as rows have no order."""
    values: list[Any] = rows.column(name).to_pylist()
    return sorted(values)


def completion_of(instant: str) -> str:
    """The default completion time of an instant: before the next one is requested."""
    return str(int(instant) + 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWriter:
    """Writes a table into a folder.

    ``fields`` are names and Avro types; all fields are nullable. ``defaults`` has the defaults that are not null.
    """

    folder: Path
    version: int = 9
    fields: tuple[tuple[str, Any], ...] = KEY_AND_VALUE
    key_field: str = "id"
    ordering_fields: tuple[str, ...] = ("ts",)
    partition_fields: tuple[str, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    def create(self) -> "TableWriter":
        """Write the table's properties and folders; returns the writer."""
        layout = "2" if self.version >= 8 else "1"
        stated = {
            "hoodie.table.version": str(self.version),
            "hoodie.timeline.layout.version": layout,
            "hoodie.table.recordkey.fields": self.key_field,
            "hoodie.table.partition.fields": ",".join(self.partition_fields),
            "hoodie.table.precombine.field": ",".join(self.ordering_fields),
        }
        self.timeline_folder.mkdir(parents=True)
        changes: dict[str, str | None] = dict(stated | dict(self.options))
        (self.folder / ".hoodie" / "hoodie.properties").write_text(properties(**changes))
        if not self.partition_fields:
            self.partition("")
        return self

    def open(self) -> HudiTable:
        """The table in its current state."""
        return HudiTable.open(str(self.folder))

    @property
    def timeline_folder(self) -> Path:
        """The folder of the instants."""
        hoodie = self.folder / ".hoodie"
        return hoodie / "timeline" if self.version >= 8 else hoodie

    @property
    def avro_schema(self) -> dict[str, Any]:
        """The schema without the meta fields."""
        return {"type": "record", "name": "row", "fields": [self._avro_field(name) for name, _ in self.fields]}

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of base files, with the meta fields."""
        return arrow_schema(parse_avro_schema(json.dumps(self._with_meta([name for name, _ in self.fields])), "test"))

    def partition(self, path: str) -> Path:
        """The folder of a partition; creates it if necessary."""
        folder = self.folder / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("commitTime=0\npartitionDepth=1\n")
        return folder

    def commit(
        self,
        instant: str,
        *,
        action: str = "deltacommit",
        completed: str | None = None,
        replaced: Mapping[str, Sequence[str]] | None = None,
        wrote: Iterable[Path] = (),
        logged: Iterable[Path] = (),
        operation: str = "UPSERT",
        by_1x: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        """A completed commit, with the schema.

        Args:
            instant: its requested time.
            action: the action of the timeline.
            completed: its completion time, in layout 2.
            replaced: the file ids that it replaces, by partition path.
            wrote: its files, as returned by ``base_file`` and ``log_file``.
            logged: its files of change data, one per file group at most.
            operation: the write operation.
            by_1x: whether it looks like a commit of Hudi 1.x; this matters in layout 1, which older releases have too.
            extra: metadata of the writer, beside the schema.
        """
        stats: dict[str, list[dict[str, Any]]] = {}
        for file in wrote:
            stat = self._write_stat(file, logged) | ({"prevBaseFile": None} if by_1x else {})
            stats.setdefault(self._partition_of(file), []).append(stat)
        document = {
            "operationType": operation,
            "extraMetadata": {"schema": json.dumps(self.avro_schema), **(extra or {})},
            "partitionToReplaceFileIds": {path: list(ids) for path, ids in (replaced or {}).items()},
            "partitionToWriteStats": stats,
        }
        if self.version < 8:
            (self.timeline_folder / f"{instant}.{action}").write_text(json.dumps(document))
            return
        fields: dict[str, Any] = {
            "fileId": TEXT,
            "path": TEXT,
            "partitionPath": TEXT,
            "fileSizeInBytes": ["null", "long"],
        }
        fields |= {"prevCommit": TEXT, "baseFile": TEXT, "logFiles": list_of("string")}
        fields["cdcStats"] = map_of("long")
        stat = record_type("HoodieWriteStat", fields)[1]
        content = container(
            "HoodieReplaceCommitMetadata",
            {
                "operationType": TEXT,
                "extraMetadata": map_of("string"),
                "partitionToReplaceFileIds": map_of({"type": "array", "items": "string"}),
                "partitionToWriteStats": map_of({"type": "array", "items": stat}),
            },
            document,
        )
        name = f"{instant}_{completed or completion_of(instant)}.{action}"
        (self.timeline_folder / name).write_bytes(content)

    def _partition_of(self, file: Path) -> str:
        return file.parent.relative_to(self.folder).as_posix().removeprefix(".")

    def _write_stat(self, file: Path, logged: Iterable[Path]) -> dict[str, Any]:
        file_id = file.name.removeprefix(".").partition("_")[0]
        of_group = [item for item in logged if item.name.removeprefix(".").startswith(f"{file_id}_")]
        base_files = (path for path in file.parent.glob(f"{file_id}_*.parquet") if "." not in path.stem)
        instants = {path.stem.rpartition("_")[2]: path.name for path in base_files}
        previous = max((time for time in instants if file.name != instants[time]), default="null")
        is_log = file.name.startswith(".")
        return {
            "fileId": file_id,
            "prevCommit": previous,
            "baseFile": instants.get(previous, "") if is_log else "",
            "logFiles": sorted(log.name for log in file.parent.glob(f".{file_id}_*.log.*")) if is_log else None,
            "cdcStats": {item.relative_to(self.folder).as_posix(): item.stat().st_size for item in of_group} or None,
            "path": file.relative_to(self.folder).as_posix(),
            "partitionPath": self._partition_of(file),
            "fileSizeInBytes": file.stat().st_size,
        }

    def pending(self, instant: str, action: str = "deltacommit") -> None:
        """A commit that was requested but not completed."""
        (self.timeline_folder / f"{instant}.{action}.requested").write_bytes(b"")

    def pending_compaction(self, instant: str, groups: Iterable[tuple[str, str]]) -> None:
        """A planned compaction of file groups, given as (partition path, file id)."""
        operation = record_type("HoodieCompactionOperation", {"partitionPath": TEXT, "fileId": TEXT})[1]
        operations = [{"partitionPath": path, "fileId": file_id} for path, file_id in groups]
        plan = container("HoodieCompactionPlan", {"operations": list_of(operation)}, {"operations": operations})
        (self.timeline_folder / f"{instant}.compaction.requested").write_bytes(plan)

    def base_file(
        self,
        instant: str,
        rows: Sequence[Row],
        *,
        file_id: str = "f1-0",
        partition: str = "",
        row_group_size: int | None = None,
        with_key_index: bool = False,
    ) -> Path:
        """A base file that is not in any commit yet, with the key range and Bloom filter of Hudi's if so asked."""
        path = self.partition(partition) / f"{file_id}_0-1-1_{instant}.parquet"
        complete = [self._complete(row, instant, partition, path.name) for row in rows]
        table = pa.Table.from_pylist(complete, schema=self.arrow_schema)
        if with_key_index:
            table = table.replace_schema_metadata(key_index([str(row[self.key_field]) for row in rows]))
        pq.write_table(table, path, row_group_size=row_group_size)
        return path

    def log_file(
        self,
        instant: str,
        blocks: Sequence[bytes],
        *,
        base_instant: str | None = None,
        number: int = 1,
        file_id: str = "f1-0",
        partition: str = "",
    ) -> Path:
        """A log file of one commit; before version 8 it is named after ``base_instant``."""
        named = instant if self.version >= 8 else base_instant or instant
        path = self.partition(partition) / f".{file_id}_{named}.log.{number}_0-1-1"
        path.write_bytes(b"".join(blocks))
        return path

    def native_log(
        self,
        instant: str,
        rows: Sequence[Row],
        file_format: str = "parquet",
        *,
        number: int = 1,
        file_id: str = "f1-0",
        partition: str = "",
        only: Sequence[str] | None = None,
        positions: Mapping[int, str] | None = None,
        form: str = ENTRIES,
    ) -> Path:
        """A native log file of rows, as a data block has them; ``positions`` are made by ``listed_positions``."""
        path = self.partition(partition) / f"{file_id}_0-1-1_{instant}_{number}.log.{file_format}"
        schema = self._with_meta([name for name, _ in self.fields] if only is None else only)
        names = [item["name"] for item in schema["fields"]]
        complete = [self._complete(row, instant, partition, file_id) for row in rows]
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(schema)}
        if only is not None:
            header[HeaderKey.IS_PARTIAL] = "true"
        stored = [{name: row.get(name) for name in names} for row in complete]
        keys = [str(row[self.key_field]) for row in rows]
        return write_native(path, stored, schema, keys, footer(header | dict(positions or {}), form))

    def native_deletes(
        self,
        instant: str,
        deletes: Sequence[tuple[str, Any]],
        file_format: str = "parquet",
        *,
        number: int = 1,
        file_id: str = "f1-0",
        partition: str = "",
        extension: str = "deletes",
        positions: Mapping[int, str] | None = None,
        form: str = ENTRIES,
    ) -> Path:
        """A native log file of deletes, given as for a delete block."""
        path = self.partition(partition) / f"{file_id}_0-1-1_{instant}_{number}.{extension}.{file_format}"
        fields = [(name, dict(self.fields)[name]) for name in self.ordering_fields]
        rows = []
        for key, ordering in deletes:
            values = ordering if isinstance(ordering, tuple) else (ordering,)
            rows.append({"_hoodie_record_key": key} | dict(zip(self.ordering_fields, values, strict=True)))
        schema = self._with_meta([name for name, _ in self.fields])
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(schema)}
        metadata = footer(header | dict(positions or {}), form)
        return write_native(path, rows, delete_schema(fields), [key for key, _ in deletes], metadata)

    def data_block(
        self,
        instant: str,
        rows: Sequence[Row],
        *,
        file_id: str = "f1-0",
        partition: str = "",
        only: Sequence[str] | None = None,
        positions: Mapping[int, str] | None = None,
    ) -> bytes:
        """A data block; with ``only``, that of a partial update of these fields.

        ``positions`` are header entries made by ``record_positions``.
        """
        schema = self._with_meta([name for name, _ in self.fields] if only is None else only)
        writer = fastavro.parse_schema(schema)
        datums = []
        for row in rows:
            out = io.BytesIO()
            complete = self._complete(row, instant, partition, file_id)
            fastavro.schemaless_writer(
                out, writer, {item["name"]: complete.get(item["name"]) for item in schema["fields"]}
            )
            datums.append(out.getvalue())
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: json.dumps(schema)}
        if only is not None:
            header[HeaderKey.IS_PARTIAL] = "true"
        return log_block(BlockType.AVRO_DATA, avro_content(datums), header | dict(positions or {}))

    def delete_block(
        self,
        instant: str,
        deletes: Sequence[tuple[str, Any]],
        *,
        partition: str = "",
        positions: Mapping[int, str] | None = None,
    ) -> bytes:
        """A delete block; each delete is a record key and its ordering value, a tuple for several ordering fields.

        None is a delete without an ordering value. ``positions`` are as for a data block.
        """
        payload = delete_list([(key, partition, self._wrapped(value)) for key, value in deletes])
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant}
        return log_block(BlockType.DELETE, delete_content(payload), header | dict(positions or {}))

    def _wrapped(self, value: Any) -> bytes:
        if value is None:
            return wrapped(0)
        kinds = dict(self.fields)
        values = value if isinstance(value, tuple) else (value,)
        parts = [_one_wrapped(kinds[name], one) for name, one in zip(self.ordering_fields, values, strict=True)]
        return wrapped_array(*parts) if isinstance(value, tuple) else parts[0]

    def _avro_field(self, name: str) -> dict[str, Any]:
        kind = dict(self.fields)[name]
        if name in self.defaults:
            return {"name": name, "type": [kind, "null"], "default": self.defaults[name]}
        return {"name": name, "type": ["null", kind], "default": None}

    def _with_meta(self, names: Iterable[str]) -> dict[str, Any]:
        meta = [{"name": name, "type": TEXT, "default": None} for name in META_FIELDS]
        return {"type": "record", "name": "row", "fields": [*meta, *map(self._avro_field, names)]}

    def _complete(self, row: Row, instant: str, partition: str, file_name: str) -> Row:
        key = row[self.key_field]
        return dict(zip(META_FIELDS, (instant, f"{instant}_0_0", str(key), partition, file_name), strict=True)) | dict(
            row
        )


def key_index(keys: Sequence[str], bits: int = 4096, hashes: int = 7) -> dict[str, str]:
    """The entries of a base file's footer with the range of its keys, and a simple Bloom filter of them."""
    held = np.zeros(bits, dtype=np.bool_)
    hashed = HashedKeys(keys)
    for number in range(hashes):
        held[np.abs(hashed.hashes(number)) % bits] = True
    content = struct.pack(">iibi", -1, hashes, 1, bits) + np.packbits(held, bitorder="little").tobytes()
    return {
        "org.apache.hudi.bloomfilter": base64.b64encode(content).decode(),
        "hoodie_bloom_filter_type_code": "SIMPLE",
        "hoodie_min_record_key": min(keys),
        "hoodie_max_record_key": max(keys),
    }


def record_positions(positions: Sequence[int], base_instant: str) -> dict[int, str]:
    """The header entries for the positions, in the base file of an instant, of the records of a block, in order."""
    bitmap = base64.b64encode(BitMap64(positions).serialize()).decode()
    return {
        HeaderKey.RECORD_POSITIONS: bitmap,
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base_instant,
    }


def nested_ordering_table(folder: Path, version: int) -> TableWriter:
    """A table with the ordering field ``o.a.ts``, with base rows and log rows in another order than it says."""
    inner = record_type("a", {"ts": ["null", "long"]})[1]
    fields = (("id", "string"), ("value", "string"), ("o", record_type("o", {"a": ["null", inner]})[1]))
    payload = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    options = {"hoodie.compaction.payload.class": payload} if not TABLE_LAYOUTS[version].states_merge_mode else {}
    table = TableWriter(
        folder=folder, version=version, fields=fields, ordering_fields=("o.a.ts",), options=options
    ).create()

    def row(key: str, value: str, ts: int | None, *, has_struct: bool = True) -> Row:
        return {"id": key, "value": value, "o": {"a": {"ts": ts}} if has_struct else None}

    table.base_file(
        at(1), [row("late", "base", 5), row("newer", "base", 5), row("logs", "base", 5), row("none", "base", 5)]
    )
    table.commit(at(1))
    table.log_file(
        at(2),
        [
            table.data_block(
                at(2), [row("late", "log", 4), row("newer", "log", 6), row("logs", "new", 9), row("own", "new", 2)]
            ),
            table.data_block(
                at(2), [row("logs", "old", 8), row("own", "old", 1), row("none", "log", None, has_struct=False)]
            ),
        ],
        base_instant=at(1),
    )
    table.commit(at(2))
    return table


def _one_wrapped(kind: Any, value: Any) -> bytes:
    if value is None:
        return wrapped(0)
    if isinstance(value, dt.date):
        return wrapped(8, avro_long((value - dt.date(1970, 1, 1)).days))
    if isinstance(value, Decimal):
        return wrapped(9, avro_text(int(value.scaleb(15)).to_bytes(16, "big", signed=True)))
    if kind in ("int", "long"):
        return wrapped(_WRAPPERS[kind], avro_long(value))
    if kind == "string":
        return wrapped(_WRAPPERS[kind], avro_text(value))
    raise AssertionError(kind)
