"""Tables of version 9, which Hudi wrote, changed to LSM trees of version 10: native logs, all files sorted by key."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge import HudiTable
from hudi_bridge.logformat.native import LogKind, parse_native_log_name
from hudi_bridge.splits.file_slice import parse_base_file_name
from tests.support.golden_cases import golden_table
from tests.support.version_10 import Version10

LSM_TREE = {"hoodie.table.storage.layout": "lsm_tree"}
_KEY = "_hoodie_record_key"


def lsm_tree(case: str, folder: Path) -> Version10:
    """A copy of a golden table as an LSM tree."""
    shutil.copytree(golden_table(case), folder / case)
    table = Version10(folder / case, "parquet").change()
    fields = HudiTable.open(golden_table(case)).config.record_key_fields
    for path in sorted(table.folder.rglob("*.parquet")):
        if ".hoodie" not in path.relative_to(table.folder).parts and _is_data(path.name):
            sort_file(path, fields)
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
