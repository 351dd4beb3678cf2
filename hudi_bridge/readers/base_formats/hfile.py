"""HFile base files: Avro records in the order of their keys, in one row group; the whole file is in memory.

Source: ``HoodieAvroHFileWriter`` of Hudi.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.errors import CorruptBaseFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.hfile import HFile, read_hfile
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.stored import data_file_gone
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_SCHEMA = "schema"
_BLANKED = "key"
"""The writer removes the values of a column with this name from the records."""


class HFileBaseFile(OpenBaseFile):
    """An open HFile base file."""

    stored_as = StoredAs.AVRO

    def __init__(self, split: RealtimeFileSplit, path: str, file: HFile) -> None:
        """Takes a decoded HFile.

        Raises:
            CorruptBaseFileError: it has no schema.
            UnsupportedTableError: the writer has removed the values of a column.
        """
        schema = file.file_info.get(_SCHEMA)
        if schema is None:
            raise CorruptBaseFileError(path, None, "no schema", "an HFile with the schema of its records")
        self._writer = parse_avro_schema(schema.decode("utf-8", "replace"), path)
        stored = arrow_schema(self._writer)
        if _BLANKED in stored.names:
            raise UnsupportedTableError("HFile base file", f"a column named {_BLANKED}, in {path}", "other names")
        super().__init__(split, path, stored, [len(file.keys)])
        self._cells = file

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str) -> Self:
        """Reads the file; raises like ``open_base_file``."""
        try:
            content = storage.read_buffer(path, split.base_size_bytes or None)
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        return cls(split, path, read_hfile(content, path))

    def close(self) -> None:
        """Does nothing: the file is in memory."""

    def batches(
        self,
        row_group: int,  # noqa: ARG002 - there is one
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Yields all rows, in top-level columns of the file."""
        cells = self._cells
        for start in range(0, len(cells.keys), rows_per_batch):
            bounds = slice(start, start + rows_per_batch)
            starts, ends = cells.value_starts[bounds], cells.value_ends[bounds]
            rows = decode_avro_records(cells.values, starts, ends, self._writer, tuple(columns), self.path, 0)
            yield rows.select(list(columns))

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:  # noqa: ARG002 - there is one
        """The least and greatest record key; None for other columns."""
        keys: Any = self._cells.keys
        if column != RECORD_KEY_COLUMN or not len(keys):
            return None
        return keys[0].as_py(), keys[-1].as_py()

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:  # noqa: ARG002 - there is one
        """The size of all records, which are stored as a whole."""
        return self._cells.values.size if any(True for _ in columns) else 0

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """About the size of each top-level column, as if all were equally large."""
        return [self.stored_bytes(row_group, [name]) // max(1, len(self.arrow_schema.names)) for name in columns]
