"""ORC and HFile base files, whose rows are one row group each.

Of an ORC file, one stripe at a time is in memory. Statistics of columns are not used. Its metadata are what Hudi's
writer adds. An HFile has Avro records in the order of their keys; the whole file is in memory.

Source: ``HoodieAvroOrcWriter``, ``AvroOrcUtils`` and ``HoodieAvroHFileWriter`` of Hudi.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.common.imports import orc
from hudi_bridge.errors import CorruptBaseFileError, UnsupportedTableError
from hudi_bridge.logformat.avro_columns import decode_avro_records
from hudi_bridge.logformat.hfile import HFile, read_hfile
from hudi_bridge.logformat.native import BLANKED_IN_HFILE, has_times
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.readers.base_file import OpenBaseFile, cause_of, data_file_gone, open_stored
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_KIND = "ORC"
# Arrow raises plain errors for damage that it finds while decompressing.
_ORC_ERRORS = (*PARQUET_ERRORS, pa.ArrowException)
_SCHEMA = "schema"


class OrcBaseFile(OpenBaseFile):
    """An open ORC base file."""

    stored_as = StoredAs.ORC

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        path: str,
        opened: pa.NativeFile,
        file: Any,  # noqa: ANN401
    ) -> None:
        super().__init__(split, path, file.schema, [file.nrows])
        self._storage = storage
        self._opened = opened
        self._file = file

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str) -> Self:
        """Opens the file; raises like ``open_base_file``."""
        try:
            opened, _ = open_stored(storage, split, path)
            file: Any = orc.ORCFile(opened)
            return cls(storage, split, path, opened, file)
        except _ORC_ERRORS as error:
            _require_damage(error)
            raise cause_of(storage, split, path, error, orc.ORCFile, _KIND) from error

    def close(self) -> None:
        """Closes the file."""
        self._opened.close()

    def batches(
        self,
        row_group: int,  # noqa: ARG002 - there is one
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        """Yields all rows, in top-level columns of the file.

        Raises:
            UnsupportedTableError: a column has times.
        """
        names = list(columns)
        for name in names:
            _require_known_times(self.arrow_schema.field(name), self.path)
        # Without a column, no rows would be returned.
        read = names or self.arrow_schema.names[:1]
        for number in range(self._file.nstripes):
            rows = self._stripe(number, read).select(names)
            for start in range(0, rows.num_rows, rows_per_batch):
                yield rows.slice(start, rows_per_batch)

    def _stripe(self, number: int, columns: list[str]) -> pa.RecordBatch:
        def read(opened: pa.NativeFile) -> object:
            return orc.ORCFile(opened).read_stripe(number, columns=columns)

        try:
            rows: pa.RecordBatch = self._file.read_stripe(number, columns=columns)
        except _ORC_ERRORS as error:
            _require_damage(error)
            raise cause_of(self._storage, self._split, self.path, error, read, _KIND) from error
        return rows

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:  # noqa: ARG002 - there is one
        """About the stored size of top-level columns, as if all columns were equally large."""
        return self._file.content_length * len(tuple(columns)) // max(1, len(self.arrow_schema.names))  # type: ignore[no-any-return]

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """About the size of each top-level column, as if all columns were equally large."""
        return [self.stored_bytes(row_group, [name]) for name in columns]


def _require_damage(error: Exception) -> None:
    """Raises the error again if it is not caused by the file."""
    if isinstance(error, (pa.ArrowMemoryError, pa.ArrowCancelled)):
        raise error


def _require_known_times(field: Any, path: str) -> None:  # noqa: ANN401 - of any type
    """Refuses timestamps: their values depend on the writer's time zone, which Arrow does not return."""
    if has_times(field.type):
        raise UnsupportedTableError("column of an ORC base file", f"{field.name}: {field.type}, in {path}", "no times")


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
        if BLANKED_IN_HFILE in stored.names:
            raise UnsupportedTableError(
                "HFile base file", f"a column named {BLANKED_IN_HFILE}, in {path}", "other names"
            )
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
