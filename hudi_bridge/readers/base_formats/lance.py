"""Lance base files, by the package ``pylance``. All rows are one row group; its statistics are not used.

The metadata of the schema are the facts that Hudi's writer adds.

Source: ``HoodieSparkLanceWriter`` of Hudi.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Self

import pyarrow as pa

from hudi_bridge.errors import CorruptBaseFileError, UnsupportedTableError
from hudi_bridge.logformat.parquet import first_line
from hudi_bridge.options import BLOB_MODE_KEY
from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile
from hudi_bridge.readers.missing_files import data_file_gone
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

_IS_BLOB = ((b"hudi_type", b"BLOB"), (b"lance-encoding:blob", b"true"))
"""Facts about a field whose bytes are outside of the pages of its column."""
_LANCE_ERRORS = (ValueError, OSError, pa.ArrowException)


class LanceBaseFile(OpenBaseFile):
    """An open Lance base file; of a store, a copy in a temporary file."""

    stored_as = StoredAs.LANCE

    def __init__(self, split: RealtimeFileSplit, path: str, file: str, schema: pa.Schema, rows: int) -> None:
        """The base file at the local path ``file``."""
        super().__init__(split, path, schema, [rows])
        self._file = file
        self._copy = ExitStack()

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str) -> Self:
        """Opens the file; raises like ``open_base_file``.

        Raises:
            UnsupportedTableError: the package is not installed.
        """
        reader, copy = _reader(), ExitStack()
        with copy:
            try:
                file = _local_file(storage, path, copy)
            except FileNotFoundError as error:
                raise data_file_gone(storage, split, path) from error
            try:
                metadata = reader(file).metadata()
            except _LANCE_ERRORS as error:
                raise _corrupt(path, error) from error
            base = cls(split, path, file, metadata.schema, metadata.num_rows)
            base._copy = copy.pop_all()
        return base

    def close(self) -> None:
        """Remove the copy, if there is one."""
        self._copy.close()

    def view(self, columns: Iterable[str], *, are_held: bool = False) -> BaseFileColumns:
        """Some of the query's columns of the file; ``are_held`` if all rows that pass are held in the end.

        Raises:
            UnsupportedTableError: a BLOB is to be a reference into the file, as it is by default in Hudi. The package
                does not say where its bytes are.
        """
        view = super().view(columns, are_held=are_held)
        for name in () if self._split.context.blob_content else view.file_columns:
            if _has_blobs(self.arrow_schema.field(name)):
                found = f"the column {name} of {self.path}, in Hudi by default a reference into the file"
                supported = f"the bytes, with the option {BLOB_MODE_KEY}=CONTENT"
                raise UnsupportedTableError("BLOB in a Lance file", found, supported)
        return view

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - there is no other
    ) -> Iterator[pa.RecordBatch]:
        """All rows, in top-level columns of the file."""
        names = list(columns)
        if not self.rows_of(row_group):
            return
        # Without a column, there would be no rows.
        read = names or self.arrow_schema.names[:1]
        try:
            for batch in _reader()(self._file, columns=read).read_all(batch_size=rows_per_batch).to_batches():
                yield batch.select(names)
        except _LANCE_ERRORS as error:
            raise _corrupt(self.path, error) from error

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """About the stored size of some top-level columns, as if all were of one size."""
        return sum(self.leaf_bytes(row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:  # noqa: ARG002 - there is one
        """About the size of each of some top-level columns, of which nothing but their number is known."""
        each = self._split.base_size_bytes // max(1, len(self.arrow_schema.names))
        return [each for _ in columns]


def _has_blobs(field: "pa.Field[Any]") -> bool:
    """Whether a column of a file, or a field within it, is a BLOB."""
    if any((field.metadata or {}).get(key) == value for key, value in _IS_BLOB):
        return True
    return any(_has_blobs(field.type.field(position)) for position in range(field.type.num_fields))


def _reader() -> Any:  # noqa: ANN401 - a class of a package without types
    try:
        from lance.file import LanceFileReader  # noqa: PLC0415 - only where there are such files
    except ImportError as error:
        found = f"Lance, and no package to read it ({error})"
        raise UnsupportedTableError("base file format", found, "pip install 'hudi-bridge[lance]'") from error
    return LanceFileReader


def _local_file(storage: Storage, path: str, copies: ExitStack) -> str:
    if storage.is_local:
        # What is no regular file, or is not there, is said by storage.
        storage.open_input(path).close()
        return storage.resolve(path)
    copy = tempfile.NamedTemporaryFile(prefix="hudi-bridge-", suffix=".lance")  # noqa: SIM115 - copies closes it
    copies.enter_context(copy)
    copy.write(storage.read_buffer(path))
    copy.flush()
    return copy.name


def _corrupt(path: str, error: Exception) -> CorruptBaseFileError:
    return CorruptBaseFileError(path, None, first_line(error), "a readable Lance file")
