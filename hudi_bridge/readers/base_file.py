"""Reads a Parquet base file as record batches with the query's columns.

Row groups are skipped by statistics only if the filter's columns have not evolved since the file was written.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import compress, pairwise
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError, HudiReadError
from hudi_bridge.imported_later import ds
from hudi_bridge.logformat.parquet import PARQUET_ERRORS, first_line
from hudi_bridge.merge.arrays import Booleans, Positions
from hudi_bridge.ranges import FileOfRanges
from hudi_bridge.readers.column_chunks import ColumnChunks
from hudi_bridge.readers.column_ranges import columns_with_ranges, ranges_of_row_groups
from hudi_bridge.readers.filter_ranges import may_pass
from hudi_bridge.readers.footers import BaseFooter, base_fragment, kept_footer, text_range
from hudi_bridge.readers.missing_files import data_file_gone
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.split_columns import plan_file_evolution, with_path_columns, without_path_columns
from hudi_bridge.schema.evolve import Evolution
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

ROWS_PER_BATCH = 131_072
"""The most rows of a batch."""
_FEWEST_ROWS = 256
_BATCH_BYTES = 1 << 21
"""About the bytes of a batch in memory."""
_LEAST_VALUE_BYTES = 12
"""What a value takes in memory at least, about: those that a dictionary replaces take almost nothing in the file."""
_PIECE_BYTES = 1 << 20
"""How much of each column of a large row group is read at a time."""

# These columns hold few distinct values per file, some of them long. As dictionaries, they are cheap to filter.
_DICTIONARY_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


class OpenBaseFile:
    """An open base file of a split; a context manager."""

    def __init__(
        self, storage: Storage, split: RealtimeFileSplit, path: str, footer: BaseFooter, *, use_threads: bool
    ) -> None:
        self._storage = storage
        self._chunks: ColumnChunks | None = None
        self._split = split
        self.use_threads = use_threads
        self.path = path
        self._known = footer
        self._opened: pa.NativeFile | None = None
        self._readers: dict[tuple[int, bool], pq.ParquetFile] = {}
        self.arrow_schema = _decoded_schema(footer.arrow_schema)
        rows = [self.footer.row_group(group).num_rows for group in self.row_groups]
        self.row_group_starts = np.cumsum([0, *rows])

    @classmethod
    def open(
        cls, storage: Storage, split: RealtimeFileSplit, path: str, *, use_threads: bool, keep_footer: bool = False
    ) -> Self:
        """Opens the base file at a path relative to the table; with ``use_threads``, columns are decoded in parallel.

        With ``keep_footer``, the storage keeps the footer for the next time that the file is opened. The file itself is
        opened then only if some of its rows are read.

        Raises:
            CorruptBaseFileError: the file is not Parquet.
            DataFileGoneError: the file no longer exists.
            StorageError: the file cannot be opened, or its footer cannot be read.
        """
        kept = kept_footer(storage, split, path)
        if kept is not None:
            return cls(storage, split, path, kept, use_threads=use_threads)
        try:
            opened, ranges = _open(storage, split, path)
            fragment = base_fragment(storage, split, path, opened)
            file = _parquet_file(opened, fragment, by_pieces=storage.is_local)
            footer = BaseFooter(fragment, file.schema_arrow)
            if keep_footer:
                footer.keep(storage, split, path)
        except PARQUET_ERRORS as error:
            raise _cause(storage, split, path, error, pq.ParquetFile) from error
        base = cls(storage, split, path, footer, use_threads=use_threads)
        base._readers[ROWS_PER_BATCH, storage.is_local] = file
        base._take(opened, ranges)
        return base

    def reader(self, rows_per_batch: int, row_group: int, columns: Sequence[str]) -> pq.ParquetFile:
        """The file, for top-level columns of a row group in batches of that size.

        All iterations of one reader share the size. Raises like ``open``.
        """
        storage, split, path = self._storage, self._split, self.path
        try:
            opened = self._opened or self._take(*_open(storage, split, path))
            is_large = self._chunks is not None and self._chunks.are_large(row_group, columns)
            by_pieces = storage.is_local or is_large
            kind = rows_per_batch, by_pieces
            if kind not in self._readers:
                self._readers[kind] = _parquet_file(opened, self._known.fragment, by_pieces=by_pieces)
        except PARQUET_ERRORS as error:
            raise _cause(storage, split, path, error, pq.ParquetFile) from error
        return self._readers[kind]

    def _take(self, opened: pa.NativeFile, ranges: FileOfRanges | None) -> pa.NativeFile:
        self._opened = opened
        self._chunks = None if ranges is None else ColumnChunks(ranges, self.footer)
        return opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._chunks is not None:
            self._chunks.close()
        for reader in self._readers.values():
            reader.close(force=True)
        if self._opened is not None:
            self._opened.close()

    @property
    def footer(self) -> pq.FileMetaData:
        """The footer of the file."""
        return self._known.fragment.metadata

    @property
    def row_groups(self) -> range:
        """The numbers of all row groups."""
        return range(self.footer.num_row_groups)

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:
        """The row groups that may hold rows passing a filter, by their statistics.

        ``schema`` holds the columns that the filter refers to; they must come from the file or from the partition path.
        """
        return [group.id for group in self._known.fragment.subset(row_filter, schema=schema).row_groups]  # type: ignore[attr-defined]

    def chunk_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of some top-level columns in a row group."""
        return sum(chunk.total_compressed_size for chunk in self.chunks(row_group, columns))

    def chunks(self, row_group: int, columns: Iterable[str]) -> Iterator[pq.ColumnChunkMetaData]:
        """What the footer says of some top-level columns in a row group: a chunk for each of their leaves."""
        wanted, group = set(columns), self.footer.row_group(row_group)
        for chunk in map(group.column, range(group.num_columns)):
            if chunk.path_in_schema in wanted or chunk.path_in_schema.partition(".")[0] in wanted:
                yield chunk

    @property
    def is_fetched(self) -> bool:
        """Whether ``fetched`` fetches columns; those of a file on a local disk are read page by page."""
        return self._chunks is not None

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:
        """The least and greatest text of a top-level column in a row group; None if its statistics do not tell."""
        if column not in self.arrow_schema.names or not pa.types.is_string(self.arrow_schema.field(column).type):
            return None
        return text_range(self.footer, row_group, column)

    def fetched(self, row_group: int, columns: Sequence[str], then: int | None) -> AbstractContextManager[None]:
        """A context in which top-level columns of a row group are in memory.

        Nothing is fetched of local files, nor of large row groups. Those columns of the row group that is read ``then``
        may be fetched meanwhile.
        """
        if self._chunks is None or self._chunks.are_large(row_group, columns):
            return nullcontext()
        return self._chunks.fetched(row_group, columns, then)

    def cause(self, error: Exception, decode: Callable[[pa.NativeFile], object]) -> HudiReadError:
        """The error to raise for an Arrow error: the file is corrupt, it is missing, or its file system has failed."""
        return _cause(self._storage, self._split, self.path, error, decode)

    def view(self, columns: Iterable[str]) -> "BaseFileColumns":
        """Some of the query's columns of the file."""
        return BaseFileColumns(self, self._split, tuple(columns))


class BaseFileColumns:
    """Some of the query's columns of a base file, in the order given and with the query's types."""

    def __init__(self, base: OpenBaseFile, split: RealtimeFileSplit, columns: tuple[str, ...]) -> None:
        context = split.context
        self.schema = pa.schema([context.schema.field(name) for name in columns])
        self._base = base
        self._split = split
        self._filter_view: BaseFileColumns | None = None
        self._following: dict[int, int] = {}
        self._evolution: Evolution = plan_file_evolution(
            base.arrow_schema,
            without_path_columns(self.schema, split),
            split.base_instant_time,
            context,
            base.path,
            is_parquet=True,
        )

    def matching_row_groups(self, request: RowRequest) -> list[int]:
        """The row groups that may hold rows passing the filter, as far as statistics tell."""
        if request.row_filter is None:
            return list(self._base.row_groups)
        unchanged = {
            column.field.name
            for column in self._evolution.columns
            if column.source == column.field.name and column.step is None and not _may_hold_nan(column.field.type)
        }
        if not unchanged.union(self._split.path_values).issuperset(request.filter_columns):
            return self._row_groups_in_range(request.row_filter, request.filter_columns)
        return self._base.matching_row_groups(request.row_filter, self.schema)

    def _row_groups_in_range(self, row_filter: pc.Expression, columns: Sequence[str]) -> list[int]:
        """The row groups by the ranges of columns, which take NaN and wider types into account, as Arrow does not."""
        groups = self._base.row_groups
        ranges = {
            name: (
                self._split.context.schema.field(name).type,
                ranges_of_row_groups(self._base.footer, self._base.arrow_schema, self._split, name),
            )
            for name in columns_with_ranges(columns, self._split.context)
        }
        return list(compress(groups, may_pass(row_filter, ranges, len(groups)).tolist())) if ranges else list(groups)

    def expect(self, row_groups: Sequence[int]) -> None:
        """Tell the order in which row groups are going to be read."""
        self._following = dict(pairwise(row_groups))

    @property
    def file_columns(self) -> tuple[str, ...]:
        """The columns of the file that the stored batches have."""
        return self._evolution.file_columns

    def has_columns_of(self, other: "BaseFileColumns") -> bool:
        """Whether the stored batches have all the file columns that ``other`` needs."""
        return set(other._evolution.file_columns).issubset(self._evolution.file_columns)  # noqa: SLF001 - of this class

    def passing(
        self, stored: pa.RecordBatch, request: RowRequest, without: Positions | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The stored rows that pass the request's filter, with its columns, as one batch or none.

        The rows at the positions ``without`` are dropped. All rows are dropped before the columns are evolved.
        """
        keep: Booleans | None = None
        if request.row_filter is not None:
            keep = request.passes(self._filtered(request).evolve(stored))
        if without is not None and len(without):
            keep = np.ones(stored.num_rows, dtype=np.bool_) if keep is None else keep
            keep[without] = False
        if keep is not None and not keep.all():
            stored = stored.filter(pa.array(keep))
        if stored.num_rows:
            yield self.evolve(stored).select(list(request.columns))

    def _filtered(self, request: RowRequest) -> "BaseFileColumns":
        if self._filter_view is None:
            self._filter_view = self._base.view(request.filter_columns)
        return self._filter_view

    def batches(self, row_group: int, rows_per_batch: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of one row group.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """
        return map(self.evolve, self.stored_batches(row_group, rows_per_batch))

    def rows_per_batch(self, row_group: int, columns: Iterable[str]) -> int:
        """The number of rows of which some of the file's top-level columns take a few megabytes at most, about."""
        rows = max(1, self.rows_of(row_group))
        chunks = self._base.chunks(row_group, columns)
        width = sum(max(_LEAST_VALUE_BYTES, chunk.total_uncompressed_size // rows) for chunk in chunks)
        return min(ROWS_PER_BATCH, max(_FEWEST_ROWS, _BATCH_BYTES // max(1, width)))

    def rows_of(self, row_group: int) -> int:
        """The number of rows of a row group."""
        return self._base.footer.row_group(row_group).num_rows

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The bytes of top-level columns of a row group in the file."""
        return self._base.chunk_bytes(row_group, columns)

    def stored_batches(
        self, row_group: int, rows_per_batch: int | None = None, columns: tuple[str, ...] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The rows of one row group as stored; drop what is not needed before ``evolve``.

        ``columns`` are top-level columns of the file, by default ``file_columns``. By default, a batch takes a few
        megabytes.

        Raises:
            CorruptBaseFileError: the data cannot be decoded, or the number of rows is not that of the footer.
        """
        names = list(self._evolution.file_columns if columns is None else columns)
        expected = self.rows_of(row_group)
        most_rows = self.rows_per_batch(row_group, names) if rows_per_batch is None else rows_per_batch
        if expected <= min(most_rows, ROWS_PER_BATCH):
            # Readers of small row groups are the same.
            most_rows = ROWS_PER_BATCH

        def batches(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
            return file.iter_batches(
                most_rows, row_groups=[row_group], columns=names, use_threads=self._base.use_threads
            )

        rows, file = 0, self._base.reader(most_rows, row_group, names)
        try:
            with self._base.fetched(row_group, names, self._following.get(row_group)):
                for batch in batches(file):
                    rows += batch.num_rows
                    yield batch
        except PARQUET_ERRORS as error:
            raise self._base.cause(error, lambda file: deque(batches(pq.ParquetFile(file)), 0)) from error
        # A damaged page may end a column early without an error.
        if rows != expected:
            found = f"{rows} rows in row group {row_group}"
            raise CorruptBaseFileError(self._base.path, None, found, f"{expected}, as the footer says")

    def evolve(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Converts stored rows to the query's columns."""
        rows = _without_dictionaries(stored.select(list(self._evolution.file_columns)))
        return with_path_columns(self._evolution.apply(rows), self.schema, self._split)


def _parquet_file(opened: pa.NativeFile, fragment: "ds.ParquetFileFragment", *, by_pieces: bool) -> pq.ParquetFile:
    """The file with a known footer, whose column chunks are read by pieces or as a whole."""
    return pq.ParquetFile(
        opened,
        metadata=fragment.metadata,
        coerce_int96_timestamp_unit="us",
        # Pages are read on demand from a local disk, where seeks are cheap. Elsewhere, columns are fetched before.
        pre_buffer=False,
        buffer_size=_PIECE_BYTES if by_pieces else 0,
        read_dictionary=list(_DICTIONARY_COLUMNS),
        page_checksum_verification=True,
    )


def _open(storage: Storage, split: RealtimeFileSplit, path: str) -> tuple[pa.NativeFile, FileOfRanges | None]:
    """The base file, opened, and its ranges if they have to be fetched."""
    if storage.is_local:
        return storage.open_input(path), None
    fetched = storage.fetched.get(path)
    if isinstance(fetched, pa.Buffer):
        return pa.BufferReader(fetched), None
    # It is closed after use.
    storage.fetched.pop(path, None)
    ranges = storage.open_ranges(path, split.base_size_bytes or None) if fetched is None else fetched
    return pa.PythonFile(ranges, mode="r"), ranges


def _without_dictionaries(stored: pa.RecordBatch) -> pa.RecordBatch:
    for position, field in enumerate(stored.schema):
        if _is_read_as_dictionary(field):
            column: Any = stored.column(position)
            stored = stored.set_column(position, _decoded_field(field), column.dictionary_decode())
    return stored


def _decoded_schema(stored: pa.Schema) -> pa.Schema:
    fields = [_decoded_field(field) if _is_read_as_dictionary(field) else field for field in stored]
    return pa.schema(fields, stored.metadata)  # type: ignore[arg-type]


def _decoded_field(field: Any) -> Any:  # noqa: ANN401 - of any type
    return field.with_type(field.type.value_type)


def _is_read_as_dictionary(field: Any) -> bool:  # noqa: ANN401 - of any type
    return field.name in _DICTIONARY_COLUMNS and pa.types.is_dictionary(field.type)


def _may_hold_nan(kind: pa.DataType) -> bool:
    """Whether values of the type may be NaN, which statistics leave out."""
    if pa.types.is_nested(kind):
        return any(_may_hold_nan(kind.field(position).type) for position in range(kind.num_fields))
    return pa.types.is_floating(kind)


def _cause(
    storage: Storage,
    split: RealtimeFileSplit,
    path: str,
    error: Exception,
    decode: Callable[[pa.NativeFile], object],
) -> HudiReadError:
    failure = storage.failure_of(path, error, decode)
    if failure is None:
        return CorruptBaseFileError(path, None, first_line(error), "a readable Parquet file")
    return failure if isinstance(failure, HudiReadError) else data_file_gone(storage, split, path)
