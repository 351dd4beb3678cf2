"""The files that a table was bootstrapped from, by the file groups whose base files have meta columns only.

A bootstrap of metadata writes a base file with meta columns for each file that was there, and leaves the other columns
in it; row ``i`` of both is one record. Updates go to logs; a compaction or an update writes complete base files. The
index is an HFile with a cell for each of those file groups:

    key     ``part={partition path};fileid={file id}``
    value   an Avro container with ``HoodieBootstrapFilePartitionInfo``

Source: ``HFileBootstrapIndex`` and ``AbstractTableFileSystemView.addBootstrapBaseFileIfPresent`` of Hudi.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from hudi_bridge.config import BOOTSTRAP_INDEX
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.options import BOOTSTRAP_SOURCE_KEY
from hudi_bridge.splits.file_slice import BaseFile, FileSlice
from hudi_bridge.timeline.instant import BOOTSTRAP_OF_METADATA
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.records import map_field, number_field, parse_record, text_field
from hudi_bridge.timeline.table_state import TableState

INDEX_PATH = ".hoodie/.aux/.bootstrap/.fileids/00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"


class SourceFile(NamedTuple):
    """A Parquet file that a table was bootstrapped from; ``path`` is relative to the folder of all of them."""

    path: str
    size_bytes: int


class BootstrapSources:
    """The source files of a table's file groups; none in a table that was not bootstrapped."""

    def __init__(self, state: TableState) -> None:
        """Reads the index.

        Raises:
            CorruptTableError: the index is damaged.
            UnsupportedTableError: rows are in other files than those of the table, and no option allows to read them.
        """
        self._index = state.config.bootstrap_index
        has_index = bool(state.config.bootstrap_base_path) and self._index == BOOTSTRAP_INDEX
        self._files = _read_index(state) if has_index else {}
        if self._files and state.options.bootstrap_source is None:
            raise UnsupportedTableError(
                "bootstrapped table",
                f"rows that are in files of {state.config.bootstrap_base_path}",
                f"the option {BOOTSTRAP_SOURCE_KEY} with the path of that folder, which allows to read them",
            )

    def of(self, piece: FileSlice) -> SourceFile | None:
        """The file that has the other columns of a slice's base file; None if the base file has all columns.

        Raises:
            CorruptTableError: the index does not name it.
            UnsupportedTableError: the table's properties name another index, or none.
        """
        base = piece.base_file
        if base is None or base.instant_time != BOOTSTRAP_OF_METADATA:
            return None
        if self._index != BOOTSTRAP_INDEX:
            raise UnsupportedTableError("bootstrap index", self._index, BOOTSTRAP_INDEX)
        return self._of_group((piece.partition_path, piece.file_id), base)

    def _of_group(self, group: GroupId, base: BaseFile) -> SourceFile:
        found = self._files.get(group)
        if found is None:
            raise CorruptTableError(base.path, None, f"no such base file in {INDEX_PATH}", "the file with its columns")
        return found


def _read_index(state: TableState) -> Mapping[GroupId, SourceFile]:
    try:
        content = state.storage.read_buffer(INDEX_PATH)
    except FileNotFoundError:
        # All records were written to the table.
        return {}
    cells = read_hfile(content, INDEX_PATH)
    keys: list[str] = cells.keys.cast(pa.string()).to_pylist()  # type: ignore[assignment]
    values, starts, ends = memoryview(cells.values), cells.value_starts.tolist(), cells.value_ends.tolist()
    return dict(_parse_cell(key, bytes(values[start:end])) for key, start, end in zip(keys, starts, ends, strict=True))


def _parse_cell(key: str, value: bytes) -> tuple[GroupId, SourceFile]:
    _, is_named, file_id = key.rpartition(";fileid=")
    if not is_named:
        raise CorruptTableError(INDEX_PATH, None, f"the key {key!r}", "part={partition path};fileid={file id}")
    record = parse_record(value, INDEX_PATH)
    status = map_field(record, "bootstrapFileStatus", INDEX_PATH)
    uri = text_field(map_field(status, "path", INDEX_PATH), "uri", INDEX_PATH)
    folder, name = text_field(record, "bootstrapPartitionPath", INDEX_PATH), uri.rpartition("/")[2]
    file = SourceFile(f"{folder}/{name}" if folder else name, number_field(status, "length", INDEX_PATH))
    return (text_field(record, "partitionPath", INDEX_PATH), file_id), file
