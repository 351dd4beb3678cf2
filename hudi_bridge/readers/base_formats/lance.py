"""Lance base files, read by the package ``pylance``. All rows are one row group, without statistics.

The metadata of the schema are what Hudi's writer adds.

The bytes of BLOBs are stored outside of the pages of their column. As in Hudi, rows have references to them by default.
``pylance`` returns their offsets only for datasets, so the file is wrapped in one whose manifest is in memory.

Source: ``HoodieSparkLanceWriter`` and ``BlobDescriptorTransform`` of Hudi.
"""

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptBaseFileError, UnsupportedTableError
from hudi_bridge.logformat.native import has_lance_blobs, is_of_lance, lance_reader
from hudi_bridge.logformat.parquet import first_line
from hudi_bridge.merge.arrays import as_booleans
from hudi_bridge.options import BLOB_MODE_KEY
from hudi_bridge.readers.base_file import BaseFileColumns, OpenBaseFile, data_file_gone
from hudi_bridge.readers.blobs import BLOB_TYPE
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.variant_paths import VariantPath
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

_IS_ENCODED = (b"lance-encoding:blob", b"true")
_BLOB_FIELDS = ("type", "data", "reference")
_INLINE = "INLINE"
_OUT_OF_LINE = "OUT_OF_LINE"
_HUDI_FORMAT = (0, 3)
"""The version in files of Lance's format 2.0, which Hudi 1.2 writes: each field has a column of the file."""
_UNESCAPED_NAME = re.compile(r"[\w.=-]+", re.ASCII)
"""File names that Lance does not escape in a dataset."""


class LanceBaseFile(OpenBaseFile):
    """An open Lance base file; a file of a store is copied to a temporary file."""

    stored_as = StoredAs.LANCE

    def __init__(self, split: RealtimeFileSplit, path: str, file: str, location: str, metadata: Any) -> None:  # noqa: ANN401 - a class of a package without types
        """``file`` is the path of the local file, ``location`` the URI of the table's file."""
        super().__init__(split, path, metadata.schema, [metadata.num_rows])
        self._file = file
        self._location = location
        self._format = (metadata.major_version, metadata.minor_version)
        self._column_count = len(metadata.columns)
        self._copy = ExitStack()

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str) -> Self:
        """Opens the file; raises like ``open_base_file``.

        Raises:
            UnsupportedTableError: the package is not installed.
        """
        reader, copy = lance_reader("base file format"), ExitStack()
        with copy:
            try:
                file = _local_file(storage, path, copy)
            except FileNotFoundError as error:
                raise data_file_gone(storage, split, path) from error
            with _decoding(path):
                metadata = reader(file).metadata()
            location = storage.location(path)
            uri = f"file://{location}" if storage.is_local and "://" not in location else location
            base = cls(split, path, file, uri, metadata)
            base._copy = copy.pop_all()
        return base

    def close(self) -> None:
        """Removes the temporary copy, if there is one."""
        self._copy.close()

    def view(
        self, columns: Iterable[str], *, materialized: bool = False, variant_paths: Sequence[VariantPath] = ()
    ) -> BaseFileColumns:
        """Some of the query's columns of the file, as ``OpenBaseFile.view``.

        Raises:
            UnsupportedTableError: references to BLOBs are requested, but the file was not written by Hudi 1.2.
        """
        view = super().view(columns, materialized=materialized, variant_paths=variant_paths)
        for name in self._reference_columns(view.file_columns):
            if self._format != _HUDI_FORMAT or not _is_blob(self.arrow_schema.field(name)):
                actual = f"the column {name} of {self.path}, stored otherwise than Hudi 1.2 does"
                supported = f"the bytes, with the option {BLOB_MODE_KEY}=CONTENT"
                raise UnsupportedTableError("BLOB in a Lance file", actual, supported)
        return view

    def batches(
        self,
        row_group: int,
        columns: Sequence[str],
        rows_per_batch: int,
        then: int | None = None,  # noqa: ARG002 - there is no other
    ) -> Iterator[pa.RecordBatch]:
        """Yields all rows, in top-level columns of the file."""
        names = list(columns)
        if not self.rows_of(row_group):
            return
        references = self._reference_columns(names)
        # Without a column, no rows would be returned.
        read = names or self.arrow_schema.names[:1]
        with _decoding(self.path):
            if references:
                batches = self._with_positions(read, rows_per_batch)
            else:
                batches = (
                    lance_reader("base file format")(self._file, columns=read)
                    .read_all(batch_size=rows_per_batch)
                    .to_batches()
                )
        while True:
            with _decoding(self.path):
                batch = next(batches, None)
            if batch is None:
                return
            yield self._with_references(batch.select(names), references)

    def _reference_columns(self, columns: Iterable[str]) -> Sequence[str]:
        """The BLOB columns to return as references, which is the default of the option."""
        if self._split.context.blob_content:
            return ()
        return [name for name in columns if has_lance_blobs(self.arrow_schema.field(name))]

    def _with_positions(self, columns: Sequence[str], rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        """All rows; the ``data`` of BLOBs is their position and size in the file."""
        from lance import DatasetBasePath, LanceDataset, LanceOperation  # noqa: PLC0415 - only where there are such files
        from lance.fragment import DataFile, FragmentMetadata  # noqa: PLC0415

        file = Path(self._file)
        numbers = list(range(self._column_count))
        data_file = DataFile(file.name, numbers, numbers, 2, 0, file.stat().st_size, base_id=1)
        fragment = FragmentMetadata(0, [data_file], self.num_rows)
        folder = DatasetBasePath(str(file.parent), id=1)
        overwrite = LanceOperation.Overwrite(self.arrow_schema, [fragment], [folder])
        dataset = LanceDataset.commit(f"memory://{uuid4().hex}", overwrite)
        scanner = dataset.scanner(
            list(columns), batch_size=rows_per_batch, scan_in_order=True, blob_handling="blobs_descriptions"
        )
        batches: Iterator[pa.RecordBatch] = scanner.to_batches()
        return batches

    def _with_references(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        """A batch of ``_with_positions`` whose BLOBs have references instead of positions."""
        for name in names:
            field = self.arrow_schema.field(name)
            batch = batch.set_column(batch.schema.get_field_index(name), field, self._references(batch[name], field))
        return batch

    def _references(self, blobs: "pa.Array[Any]", field: "pa.Field[Any]") -> "pa.StructArray":
        """BLOBs as Hudi returns them. A BLOB without a type is null, because Lance does not store
        the validity of structs.
        """
        kind, data, reference = (pc.struct_field(blobs, name) for name in _BLOB_FIELDS)
        is_inline = pa.array(as_booleans(pc.equal(kind, pa.scalar(_INLINE))))
        for unknown in set(kind.unique().to_pylist()) - {_INLINE, _OUT_OF_LINE, None}:
            raise CorruptBaseFileError(self.path, None, f"a BLOB of the type {unknown}", f"{_INLINE} or {_OUT_OF_LINE}")
        inline_reference = {
            "external_path": pa.scalar(self._location),
            "offset": pc.struct_field(data, "position").cast(pa.int64(), safe=False),
            "length": pc.struct_field(data, "size").cast(pa.int64(), safe=False),
            "managed": pa.scalar(value=True),
        }
        reference_fields = list(field.type.field("reference").type)
        parts = [
            pc.if_else(is_inline, inline_reference[part.name], pc.struct_field(reference, part.name))
            for part in reference_fields
        ]
        is_missing = pc.and_not(reference.is_null(), is_inline)
        references = pa.StructArray.from_arrays(parts, fields=reference_fields, mask=is_missing)
        none = pa.nulls(len(blobs), field.type.field("data").type)
        return pa.StructArray.from_arrays([kind, none, references], fields=list(field.type), mask=blobs.is_null())

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """About the stored size of top-level columns, as if all columns were equally large."""
        return sum(self.leaf_bytes(row_group, columns))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:  # noqa: ARG002 - there is one
        """About the size of each top-level column, as if all columns were equally large."""
        column_bytes = self._split.base_size_bytes // max(1, len(self.arrow_schema.names))
        return [column_bytes for _ in columns]


def _is_blob(field: "pa.Field[Any]") -> bool:
    """Whether a column is a BLOB as Hudi stores it: a struct whose ``data`` is encoded as a Lance blob."""
    parts = {part.name: part for part in field.type} if pa.types.is_struct(field.type) else {}
    if tuple(parts) != _BLOB_FIELDS or _IS_ENCODED not in (parts["data"].metadata or {}).items():
        return False
    return bool(parts["reference"].type.equals(BLOB_TYPE.field("reference").type))


def _local_file(storage: Storage, path: str, copies: ExitStack) -> str:
    if storage.is_local and _UNESCAPED_NAME.fullmatch(path.rpartition("/")[2]):
        # The storage raises the error if the file does not exist or is not a regular file.
        storage.open_input(path).close()
        return storage.resolve(path)
    copy = tempfile.NamedTemporaryFile(prefix="hudi-bridge-", suffix=".lance")  # noqa: SIM115 - copies closes it
    copies.enter_context(copy)
    copy.write(storage.read_buffer(path))
    copy.flush()
    return copy.name


@contextmanager
def _decoding(path: str) -> Iterator[None]:
    """Raises errors of the package as errors of the file."""
    try:
        yield
    except BaseException as error:
        if not is_of_lance(error):
            raise
        raise CorruptBaseFileError(path, None, first_line(error), "a readable Lance file") from error
