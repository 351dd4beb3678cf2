"""Tables of version 9, which Hudi wrote, changed to version 10: the same records in native log files.

Each block with records of a log file becomes a native log file; log files with rollbacks, damage or change data stay as
they are, beside them. Commits and the metadata table name the new files, and the log files of the metadata table are
native HFiles, those without records too. So Hudi's answers hold for all that is read in these forms.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge import HudiTable
from hudi_bridge.indexes.record_kinds import file_id, group_numbers
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.block import LogBlock, positions_of
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.logformat.kinds import AvroRows
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.arrays import ordering_type
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.splits.file_slice import LogFileName, parse_log_file_name
from tests.logformat.hfile_writer import hfile
from tests.logformat.native_writer import delete_schema, footer, listed_positions, write_columns, write_native

UNRELEASED = {"hudi_bridge.read.unreleased": "true"}
_KEY = "_hoodie_record_key"
_CELLS_OF_BLOCK = 50
_METADATA = ".hoodie/metadata"
_DELETES = json.dumps(delete_schema([]))


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A native log file in the place of a log file of blocks; ``has_rows`` is false for deletes."""

    path: Path
    has_rows: bool


@dataclass(frozen=True, slots=True)
class Version10:
    """Changes a table in place; ``file_format`` is that of logs of rows and deletes.

    ``rewrite`` may write the data files anew, before the metadata table names their sizes.
    """

    folder: Path
    file_format: str
    rewrite: Callable[[], None] = lambda: None
    renamed: dict[Path, list[NewFile]] = field(default_factory=dict)

    def change(self) -> "Version10":
        """The table with native log files."""
        table = HudiTable.open(str(self.folder))
        types = {name: _ordering_type(table, name) for name in table.config.ordering_fields}
        for path in _log_files(self.folder):
            self._change_log(path, types)
        self.rewrite()
        metadata = self.folder / _METADATA
        if metadata.exists():
            for partition in ("files", "column_stats"):
                self._change_bases(sorted((metadata / partition).glob("*.hfile")))
            for path in _log_files(metadata):
                self._change_metadata_log(path)
            self._change_commits(metadata)
        self._change_commits(self.folder)
        properties = self.folder / ".hoodie/hoodie.properties"
        properties.write_text(
            re.sub(r"(?m)^hoodie\.table\.version=9$", "hoodie.table.version=10", properties.read_text())
        )
        return self

    def open(self) -> HudiTable:
        """The table."""
        return HudiTable.open(str(self.folder), options=UNRELEASED)

    def _change_log(self, path: Path, types: Mapping[str, pa.DataType]) -> None:
        scan = scan_blocks(path.read_bytes(), path.name)
        if scan.corrupt or not scan.blocks or not all(block.holds_records for block in scan.blocks):
            return
        if len(types) > 1 and any(block.kind.holds_deletes for block in scan.blocks):
            return
        files = []
        for number, block in enumerate(scan.blocks):
            if block.kind.holds_deletes:
                new = self._deletes(path, number, block, types)
            else:
                new = self._rows(path, number, block)
            files.append(NewFile(path=new, has_rows=block.is_data))
        self.renamed[path] = files
        _remove(path)

    def _rows(self, path: Path, number: int, block: LogBlock) -> Path:
        schema = json.loads(block.schema_text or "")
        header = {key: text for key, text in block.header.items() if key in (*HeaderKey,)}
        rows = block.kind.rows
        if not isinstance(rows, AvroRows):
            new = _native_path(path, number, "log", "parquet")
            return write_columns(new, pq.read_table(pa.BufferReader(block.content)), _metadata(block))
        bounds = rows.bounds(block.content, block.path, block.content_offset)
        writer = parse_avro_schema(block.schema_text or "", "log")
        batch = decode_avro_records(bounds.data, bounds.starts, bounds.ends, writer, None, "log", 0)
        if bounds.keys is not None and _KEY in batch.schema.names:
            batch = batch.set_column(batch.schema.get_field_index(_KEY), _KEY, bounds.keys)
        new = _native_path(path, number, "log", self.file_format)
        if self.file_format != "hfile":
            return write_columns(new, pa.Table.from_batches([batch]), _metadata(block))
        keys = list(map(str, batch[_KEY].to_pylist())) if _KEY in batch.schema.names else []
        names = keys if len(set(keys)) == len(batch) else [f"{row:08}" for row in range(len(batch))]
        order = sorted(range(len(names)), key=lambda row: names[row].encode())
        cells = [
            (names[row], _with_key(bounds.data[int(start) : int(end)].to_pybytes(), schema, keys, row, bounds.keys))
            for row in order
            for start, end in [(bounds.starts[row], bounds.ends[row])]
        ]
        metadata = footer(header | _positions(block, order))
        info = {"schema": block.schema_text or ""} | metadata
        new.write_bytes(hfile([cells] if cells else [], info={name: text.encode() for name, text in info.items()}))
        return new

    def _deletes(self, path: Path, number: int, block: LogBlock, types: Mapping[str, pa.DataType]) -> Path:
        deletes = parse_delete_block(block)
        keys = _keys_of_deletes(block)
        columns = deletes.ordering_as(list(types.values())).columns
        is_default = deletes.is_default.to_numpy(zero_copy_only=False)
        new = _native_path(path, number, "deletes", self.file_format)
        if self.file_format != "hfile":
            values = [pa.array(column.to_pylist(), column.type, mask=is_default) for column in columns]
            return write_columns(new, pa.table([deletes.record_keys, *values], names=[_KEY, *types]), _metadata(block))
        rows: list[dict[str, Any]] = [{_KEY: key} for key in keys]
        for name, column in zip(types, columns, strict=True):
            for row, value, default in zip(rows, column.to_pylist(), is_default, strict=True):
                row[name] = None if default else value
        schema = delete_schema([(name, _avro_type(kind)) for name, kind in types.items()])
        order = sorted(range(len(keys)), key=lambda row: keys[row].encode())
        header = {key: text for key, text in block.header.items() if key in (*HeaderKey,)}
        return write_native(new, rows, schema, keys, footer(header | _positions(block, order)))

    def _change_bases(self, paths: Sequence[Path]) -> None:
        groups = _groups(paths[0].parent) if paths else {}
        files = {path: read_hfile(path.read_bytes(), path.name) for path in paths}
        cells = [
            cell
            for path, file in files.items()
            for cell in self._cells(path.parent.name, _keys(file), _values(file), file.file_info["schema"])
        ]
        for path, file in files.items():
            own = [cell for cell in sorted(cells, key=_cell_order) if _group_of(cell, groups) == _file_id(path)]
            blocks = [own[start : start + _CELLS_OF_BLOCK] for start in range(0, len(own), _CELLS_OF_BLOCK)]
            path.write_bytes(hfile(blocks, info=dict(file.file_info)))

    def _change_metadata_log(self, path: Path) -> None:
        files, groups = [], _groups(path.parent)
        for number, block in enumerate(scan_blocks(path.read_bytes(), path.name).blocks):
            header = {key: text for key, text in block.header.items() if key in (*HeaderKey,)}
            schema = header.get(HeaderKey.SCHEMA, _DELETES)
            cells: list[tuple[str, bytes]] = []
            kind = "log"
            if block.block_type is BlockType.HFILE_DATA:
                file = read_hfile(block.content, path.name)
                cells = list(self._cells(path.parent.name, _keys(file), _values(file), schema.encode()))
            elif keys := _keys_of_deletes(block):
                kind, schema = "deletes", _DELETES
                cells = [(key, _encoded({_KEY: key}, _parsed(schema))) for key in sorted(keys)]
            header.setdefault(HeaderKey.SCHEMA, schema)
            info = {name: text.encode() for name, text in ({"schema": schema} | footer(header)).items()}
            # A new name of a file may have its statistics in another file group.
            by_group = {_file_id(path): [cell for cell in cells if kind == "deletes"]}
            for cell in cells if kind == "log" else ():
                is_moved = path.parent.name == "column_stats"
                by_group.setdefault(_group_of(cell, groups) if is_moved else _file_id(path), []).append(cell)
            for own_id, own in by_group.items():
                new = _native_path(path, number, kind, "hfile", own_id)
                new.write_bytes(hfile([own] if own else [], info=info))
                files.append(NewFile(path=new, has_rows=kind == "log"))
        self.renamed[path] = files
        _remove(path)

    def _cells(
        self, partition: str, keys: Sequence[str], values: Iterable[bytes], schema: bytes
    ) -> Iterator[tuple[str, bytes]]:
        """The records of the metadata table, with the names of the new files."""
        if partition not in ("files", "column_stats"):
            # The records do not name log files.
            yield from zip(keys, values, strict=True)
            return
        parsed, changed = _parsed(schema.decode()), []
        for key, value in zip(keys, values, strict=True):
            record = _read(value, parsed)
            change = self._listed if partition == "files" else self._ranges
            changed += [(new_key, _encoded(new, parsed)) for new_key, new in change(key, record)]
        yield from sorted(changed, key=_cell_order)

    def _listed(self, key: str, record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        listed = record.get("filesystemMetadata") or {}
        if key != "__all_partitions__":
            folder = self.folder / ("" if key == "." else key)
            for name, info in list(listed.items()):
                if folder / name not in self.renamed:
                    if (folder / name).is_file():
                        listed[name] = info | {"size": (folder / name).stat().st_size}
                    continue
                del listed[name]
                for new in self.renamed[folder / name]:
                    size = info["size"] if info["isDeleted"] else new.path.stat().st_size
                    listed[new.path.name] = info | {"size": size}
        yield key, record

    def _ranges(self, key: str, record: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        statistics = record["ColumnStatsMetadata"]
        name = statistics["fileName"]
        files = [files for path, files in self.renamed.items() if path.name == name]
        if not files:
            yield key, record
            return
        prefix = key.removesuffix(file_id(name))
        assert prefix != key
        for new in files[0]:
            own = statistics | {"fileName": new.path.name}
            if not new.has_rows:
                # As ``HoodieColumnRangeMetadata.createEmpty`` says of deletes.
                own |= {"minValue": None, "maxValue": None, "nullCount": 0, "valueCount": 0}
            elif new.path.suffix == ".parquet":
                # They come from the footer, as those of base files.
                own |= _sizes(new.path, statistics["columnName"])
            yield prefix + file_id(new.path.name), record | {"ColumnStatsMetadata": own}

    def _change_commits(self, folder: Path) -> None:
        for path in sorted((folder / ".hoodie/timeline").glob("*commit")):
            content = path.read_bytes()
            if not content:
                continue
            reader = fastavro.reader(io.BytesIO(content))
            document: Any = next(reader)
            by_partition = document.get("partitionToWriteStats") or {}
            for stats in by_partition.values():
                stats[:] = [new for stat in stats for new in self._stats(folder, stat)]
            out = io.BytesIO()
            fastavro.writer(out, reader.writer_schema, [document])
            path.write_bytes(out.getvalue())

    def _stats(self, folder: Path, stat: dict[str, Any]) -> Iterator[dict[str, Any]]:
        files = self.renamed.get(folder / (stat["path"] or ""))
        if files is None:
            path = folder / (stat["path"] or "")
            yield stat | {"fileSizeInBytes": path.stat().st_size if path.is_file() else stat["fileSizeInBytes"]}
            return
        for new in files:
            size = new.path.stat().st_size
            path_in_table = new.path.relative_to(folder).as_posix()
            yield stat | {"fileId": _file_id(new.path), "path": path_in_table, "fileSizeInBytes": size}


def _sizes(path: Path, column: str) -> dict[str, int]:
    groups = pq.read_metadata(path)
    chunks = [
        groups.row_group(number).column(index)
        for number in range(groups.num_row_groups)
        for index in range(groups.num_columns)
        if groups.schema.column(index).path == column
    ]
    return {
        "totalSize": sum(chunk.total_compressed_size for chunk in chunks),
        "totalUncompressedSize": sum(chunk.total_uncompressed_size for chunk in chunks),
    }


def _log_files(folder: Path) -> list[Path]:
    """The log files of a table, without those of its metadata table."""
    paths = [path for path in folder.rglob(".*.log.*") if ".hoodie" not in path.relative_to(folder).parts]
    names = {path: parse_log_file_name(path.name) for path in paths}
    return sorted(path for path, name in names.items() if name is not None and not name.is_cdc)


def _native_path(path: Path, number: int, kind: str, file_format: str, group: str | None = None) -> Path:
    """A new name for a block of a log file; ``group`` is its file group if it is another one."""
    name = parse_log_file_name(path.name)
    assert isinstance(name, LogFileName)
    token = "-".join(map(str, name.write_token or (0, 0, 0)))
    version = 100 * name.version + number
    if group not in (None, name.file_id):
        version += 10 * (1 + sorted(_groups(path.parent).values()).index(name.file_id))
    return path.with_name(f"{group or name.file_id}_{token}_{name.instant_time}_{version}.{kind}.{file_format}")


def _file_id(path: Path) -> str:
    return path.name.removeprefix(".").partition("_")[0]


def _groups(folder: Path) -> dict[int, str]:
    """The file ids of a partition of the metadata table, by their numbers."""
    ids = {_file_id(path) for path in folder.iterdir() if path.suffix != ".crc" and "_" in path.name.removeprefix(".h")}
    numbered = {actual[1]: own_id for own_id in ids if (actual := re.search(r"-(\d{4})-0$", own_id))}
    return {int(number): own_id for number, own_id in numbered.items()}


def _group_of(cell: tuple[str, bytes], groups: Mapping[int, str]) -> str:
    (number,) = group_numbers(pa.array([cell[0]]), len(groups))
    return groups[int(number)]


def _cell_order(cell: tuple[str, bytes]) -> bytes:
    return cell[0].encode()


def _remove(path: Path) -> None:
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _metadata(block: LogBlock) -> dict[str, str]:
    header = {key: text for key, text in block.header.items() if key in (*HeaderKey,)}
    records = 0 if block.record_positions is None else len(positions_of(block))
    return footer(header | _positions(block, range(records)))


def _positions(block: LogBlock, order: Sequence[int]) -> dict[int, str]:
    """The header entries for the positions of a block whose records are stored in another order."""
    base_instant = block.base_file_instant_of_positions
    if block.record_positions is None or base_instant is None:
        return {}
    positions = positions_of(block)
    taken = positions if len(positions) != len(order) else positions[np.asarray(order, np.int64)]
    return listed_positions(taken.tolist(), base_instant)


def _with_key(datum: bytes, schema: Any, keys: Sequence[str], row: int, stored_keys: Any) -> bytes:
    """A datum with its record key, which an HFile block has stored outside of it."""
    if stored_keys is None:
        return datum
    parsed = _parsed(json.dumps(schema))
    return _encoded(_read(datum, parsed) | {_KEY: keys[row]}, parsed)


def _keys_of_deletes(block: LogBlock) -> list[str]:
    return list(map(str, parse_delete_block(block).record_keys.to_pylist()))


def _keys(file: Any) -> list[str]:
    return list(map(str, file.keys.to_pylist()))


def _values(file: Any) -> list[bytes]:
    bounds = zip(file.value_starts.tolist(), file.value_ends.tolist(), strict=True)
    return [file.values[start:end].to_pybytes() for start, end in bounds]


def _read(datum: bytes, schema: Any) -> dict[str, Any]:
    # Wrapped values are told apart by the names of their records.
    record: Any = fastavro.schemaless_reader(
        io.BytesIO(datum), schema, None, return_record_name=True, return_record_name_override=True
    )
    return dict(record)


def _encoded(record: Mapping[str, Any], schema: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, dict(record))
    return out.getvalue()


@cache
def _parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def _ordering_type(table: HudiTable, name: str) -> pa.DataType:
    kind: pa.DataType = ordering_type(name, table.snapshot().schema)
    return kind


def _avro_type(kind: Any) -> Any:
    by_type: list[tuple[Callable[[Any], bool], Any]] = [
        (pa.types.is_int32, "int"),
        (pa.types.is_int64, "long"),
        (pa.types.is_float64, "double"),
        (pa.types.is_string, "string"),
    ]
    if pa.types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros"}
    if pa.types.is_decimal(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_date(kind):
        return {"type": "int", "logicalType": "date"}
    return next(avro for is_kind, avro in by_type if is_kind(kind))
