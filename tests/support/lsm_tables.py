"""LSM trees of version 10: small ones by hand, and tables of version 9, as Hudi wrote, of native sorted files."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge import HudiTable
from hudi_bridge.logformat.native import LogKind, parse_native_log_name
from hudi_bridge.splits.file_slice import parse_base_file_name
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at
from tests.support.version_10 import UNRELEASED, Version10

LSM_TREE = {"hoodie.table.storage.layout": "lsm_tree"}
_KEY = "_hoodie_record_key"
BASE = [{"id": key, "ts": 10, "value": "base"} for key in "bcdefg"]
ROWS = [
    {"id": "a", "ts": 1, "value": "in"},
    {"id": "b", "ts": 20, "value": "new"},
    {"id": "c", "ts": 5, "value": "late"},
]
DELETES: list[tuple[str, int | None]] = [("d", 20), ("e", 5), ("f", None)]
LATER = [{"id": "d", "ts": 15, "value": "after a delete"}, {"id": "f", "ts": 1, "value": "back"}]
EVENT_TIME, COMMIT_TIME = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"
ANSWERS = {
    EVENT_TIME: {"a": "in", "b": "new", "c": "base", "e": "base", "f": "back", "g": "base"},
    COMMIT_TIME: {"a": "in", "b": "new", "c": "late", "d": "after a delete", "f": "back", "g": "base"},
}
TWICE = [
    {"id": "a", "ts": 3, "value": "first"},
    {"id": "a", "ts": 2, "value": "second"},
    {"id": "b", "ts": 1, "value": "b"},
    {"id": "c", "ts": 1, "value": "third"},
    {"id": "c", "ts": 1, "value": "fourth"},
]
"""Rows of a base file, some of one key."""


def lsm_tree(case: str, folder: Path) -> Version10:
    """A copy of a golden table as an LSM tree."""
    shutil.copytree(golden_table(case), folder / case)
    fields = HudiTable.open(golden_table(case)).config.record_key_fields

    def sort() -> None:
        for path in sorted((folder / case).rglob("*.parquet")):
            if ".hoodie" not in path.relative_to(folder / case).parts and _is_data(path.name):
                sort_file(path, fields)

    table = Version10(folder / case, "parquet", sort).change()
    properties = table.folder / ".hoodie/hoodie.properties"
    text = re.sub(r"(?m)^hoodie\.table\.checksum=.*\n", "", properties.read_text())
    properties.write_text(text + "".join(f"{key}={value}\n" for key, value in LSM_TREE.items()))
    return table


def sort_file(path: Path, key_fields: Sequence[str] = ()) -> None:
    """Sorts the rows of a file by their record keys, in as many row groups as before.

    Rows without meta columns have the record keys of a single key field.
    """
    file = pq.ParquetFile(path)
    rows, groups = file.read(), file.metadata.num_row_groups
    keys = rows.column(_KEY if _KEY in rows.schema.names else key_fields[0])
    if keys.null_count:
        keys = rows.column(key_fields[0])
    order = pc.sort_indices(keys.combine_chunks().cast(pa.string()))
    size = max(1, -(-len(rows) // max(1, groups)))
    pq.write_table(rows.take(order), path, row_group_size=size, use_deprecated_int96_timestamps=_has_int96(file))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _has_int96(file: pq.ParquetFile) -> bool:
    columns = (file.metadata.schema.column(index) for index in range(file.metadata.num_columns))
    return any(column.physical_type == "INT96" for column in columns)


def _is_data(name: str) -> bool:
    native = parse_native_log_name(name)
    return parse_base_file_name(name) is not None if native is None else native.kind is not LogKind.CHANGES


def started(folder: Path, rows: Sequence[dict[str, Any]] = BASE, version: int = 10, **given: Any) -> TableWriter:
    options = LSM_TREE | given.pop("options", {})
    writer = TableWriter(folder=folder, version=version, options=options, **given).create()
    if rows:
        writer.commit(at(1), wrote=[writer.base_file(at(1), rows, row_group_size=2)])
    return writer


def written(folder: Path, **given: Any) -> TableWriter:
    writer = started(folder, **given)
    writer.commit(at(2), wrote=[writer.native_log(at(2), ROWS), writer.native_deletes(at(2), DELETES)])
    writer.commit(at(3), wrote=[writer.native_log(at(3), LATER)])
    return writer


def opened(writer: TableWriter) -> HudiTable:
    return HudiTable.open(str(writer.folder), options=UNRELEASED)


def values_of(rows: pa.Table) -> dict[str, str]:
    ids: list[Any] = rows["id"].to_pylist()
    return dict(zip(ids, rows["value"].to_pylist(), strict=True))
