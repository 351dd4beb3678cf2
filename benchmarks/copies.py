"""Large tables, and tables of many file slices, from real ones: their files are copied, not written by Hudi again.

Rows of a copy name its file, as Hudi's do; Arrow writes the base files that it has other rows in.

The real tables have no metadata table, and one file slice unless it is said otherwise. A copy is kept beside the real
table, and is made again when that one has been written again, or is copied in another way.
"""

import hashlib
import re
import shutil
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_FILE_ID = re.compile(r"^(\.?)([0-9a-f-]{36}(?:-\d+)?)(_.*)$")
_KEY_COLUMNS = ("_hoodie_record_key", "id")
_FILE_NAME_COLUMN = "_hoodie_file_name"
_PREFIX = "order-"
_MERGE_MODE = "hoodie.record.merge.mode="


def multiply_slices(table: Path, times: int) -> Path:
    """A table of ``times`` file slices, all copies of the only one under file ids of their own; its commits name all.

    Keys are then in several file groups, which no reader looks at: file groups are merged one by one.
    """
    copy, is_made = _copy_of(table, f"{times}-slices")
    if not is_made:
        _copy_all(table, copy, lambda _, number: f"{uuid.uuid5(uuid.NAMESPACE_URL, str(number))}-0", times)
        _finish(copy, table)
    return copy


def multiply_file_groups(table: Path, times: int) -> Path:
    """A table with all file slices ``times`` times, in the same partitions; its commits name the files of all.

    Each copy has a file id of its own, and the keys of the original. Other than in ``multiply_slices``, there may be
    several slices, of any number of commits.
    """
    copy, is_made = _copy_of(table, f"{times}-times-all")
    if not is_made:
        _copy_all(table, copy, _id_of_copy, times)
        _finish(copy, table)
    return copy


def _copy_all(table: Path, copy: Path, id_of_copy: Callable[[str, int], str], times: int) -> None:
    """Copy all data files ``times`` times, and let the commits name the copies.

    ``id_of_copy`` makes a file id out of the original's and a number.
    """
    for instant in (copy / ".hoodie" / "timeline").glob("*commit"):
        _name_copies(instant, id_of_copy, times)
    for file in _data_files(table):
        found = _FILE_ID.match(file.name)
        assert found is not None
        target = copy / file.relative_to(table).parent
        rows = pq.read_table(file) if file.suffix == ".parquet" else None
        for number in range(times):
            file_id = id_of_copy(found[2], number)
            path = target / f"{found[1]}{file_id}{found[3]}"
            if file_id == found[2]:
                shutil.copyfile(file, path)
            elif rows is not None:
                _write(path, [_with_text(rows, _FILE_NAME_COLUMN, found[2], file_id)])
            else:
                # Records of Avro name their file group, and file ids have one length.
                path.write_bytes(file.read_bytes().replace(found[2].encode(), file_id.encode()))


def _id_of_copy(file_id: str, number: int) -> str:
    """The file id of a copy; the first one keeps its own."""
    return f"{uuid.uuid5(uuid.NAMESPACE_URL, f'{file_id} {number}')}{file_id[36:]}" if number else file_id


def _name_copies(instant: Path, id_of_copy: Callable[[str, int], str], times: int) -> None:
    """Let a completed commit name the files of all copies."""
    with instant.open("rb") as file:
        reader: Any = fastavro.reader(file)
        schema, codec, (document,) = reader.writer_schema, reader.codec, tuple(reader)
    for path, stats in (document["partitionToWriteStats"] or {}).items():
        document["partitionToWriteStats"][path] = [
            _replaced(stat, stat["fileId"], id_of_copy(stat["fileId"], number))
            for stat in stats
            for number in range(times)
        ]
    with instant.open("wb") as file:
        fastavro.writer(file, schema, [document], codec)


def _replaced(part: Any, old: str, new: str) -> Any:  # noqa: ANN401 - any part of a record
    """The same with one text for another wherever it occurs."""
    match part:
        case str():
            return part.replace(old, new)
        case dict():
            return {_replaced(name, old, new): _replaced(value, old, new) for name, value in part.items()}
        case list():
            return [_replaced(one, old, new) for one in part]
    return part


def grow_base_file(table: Path, times: int) -> Path:
    """A table with the rows of the only base file ``times`` times, each time with keys of their own, and the same log.

    Each time is a row group, as Hudi's writer would begin one.
    """
    copy, is_made = _copy_of(table, f"{times}-times")
    if not is_made:
        for file in _data_files(table):
            target = copy / file.relative_to(table)
            if file.suffix != ".parquet":
                shutil.copyfile(file, target)
                continue
            rows = pq.read_table(file)
            _write(target, [_renamed(rows, number) for number in range(times)])
        _finish(copy, table)
    return copy


def _write(path: Path, row_groups: Sequence[pa.Table]) -> None:
    """Write a base file of some row groups, with the metadata of the first."""
    schema = row_groups[0].schema
    metadata: Any = schema.metadata or {}
    # Arrow would add a schema of its own, with another copy of Hudi's Bloom filter.
    with pq.ParquetWriter(path, schema, compression="gzip", compression_level=1, store_schema=False) as writer:
        for rows in row_groups:
            writer.write_table(rows, row_group_size=rows.num_rows)
        writer.add_key_value_metadata(metadata)


def with_payload(table: Path, payload: str) -> Path:
    """The same table of version 9, as if it had been made with a payload of the user's, of that Java class."""
    copy, is_made = _copy_of(table, "payload")
    if not is_made:
        for file in _data_files(table):
            shutil.copyfile(file, copy / file.relative_to(table))
        properties = copy / ".hoodie" / "hoodie.properties"
        lines = [line for line in properties.read_text().splitlines() if not line.startswith(_MERGE_MODE)]
        properties.write_text(
            "\n".join((*lines, f"{_MERGE_MODE}CUSTOM", f"hoodie.compaction.payload.class={payload}", ""))
        )
        _finish(copy, table)
    return copy


def _renamed(rows: pa.Table, number: int) -> pa.Table:
    """The rows with other keys; those of number 0 are unchanged."""
    for name in _KEY_COLUMNS if number else ():
        rows = _with_text(rows, name, _PREFIX, f"{_PREFIX}{number}-")
    return rows


def _with_text(rows: pa.Table, name: str, old: str, new: str) -> pa.Table:
    """The rows with one text for another in a column, where it is first in each value."""
    values = pc.replace_substring(rows[name], pattern=old, replacement=new, max_replacements=1)
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


def _copy_of(table: Path, name: str) -> tuple[Path, bool]:
    """The folder of a copy, with all but data files unless it is made already."""
    copy = table.with_name(name)
    stamp = copy.with_suffix(".copied")
    if stamp.exists() and stamp.read_text() == _stamp(table):
        return copy, True
    stamp.unlink(missing_ok=True)
    shutil.rmtree(copy, ignore_errors=True)
    data = {file.name for file in _data_files(table)}
    # Checksums of Hadoop would have to be renamed too, and are not needed.
    shutil.copytree(table, copy, ignore=lambda _, names: [one for one in names if one in data or one.endswith(".crc")])
    return copy, False


def _finish(copy: Path, table: Path) -> None:
    copy.with_suffix(".copied").write_text(_stamp(table))


def _stamp(table: Path) -> str:
    """What a copy depends on: the table, and how it is copied."""
    how = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    return f"{table.with_name('table.sql').stat().st_mtime_ns} {how}"


def _data_files(table: Path) -> list[Path]:
    return [
        file
        for file in sorted(table.rglob("*"))
        if ".hoodie" not in file.parts and _FILE_ID.match(file.name) and not file.name.endswith(".crc")
    ]
