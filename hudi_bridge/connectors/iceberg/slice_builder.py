"""Turns a file slice into the files that an Iceberg client reads for it.

These are the base file, position deletes or a deletion vector, and new rows. If clients would misread the base file,
they are one file of all merged rows. If clients misread only its lists or maps, a copy takes the place of the base
file; it is written once, however many logs follow.

Files that are written get bounds of floating-point columns without NaN, and the number of values that are NaN.

Source: the Iceberg specification, "Position Delete Files", "Deletion Vectors" and "Manifests", for bounds.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.types import TimestampType

from hudi_bridge.common.caching import cached_property
from hudi_bridge.connectors.iceberg.columns import (
    PATH_ID,
    POSITION_DELETES,
    POSITION_ID,
    Columns,
    Ids,
    Partitioning,
    model_json,
    names_to_ids,
    with_types,
)
from hudi_bridge.connectors.iceberg.compatibility import (
    FormatVersion,
    IcebergClient,
    Rewriting,
    misread_by,
    reason_nested_misread,
    reason_to_rewrite,
    reason_unopened,
    why_presto_misreads,
)
from hudi_bridge.connectors.iceberg.slice_files import (
    DataFile,
    Folder,
    SliceFiles,
    data_file,
    puffin_file,
    without_bounds,
)
from hudi_bridge.connectors.scratch import Locations, Scratch, new_mark
from hudi_bridge.engines import SliceDelta, StoredBaseFile, context_identity, slice_delta_in, slice_identity
from hudi_bridge.engines.stored_base_file import in_path_and_file
from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

# Part of every name: to be raised when the files for a slice change in form or content.
FORMAT = 5

_ROWS_PER_GROUP = 131_072

_FORMATS: Mapping[pa.DataType, str] = {pa.float32(): "<f", pa.float64(): "<d"}


@dataclass(frozen=True, kw_only=True)
class SliceBuilder:
    """Builds the files of the slices of one snapshot; the memory for logs is divided by ``at_once``.

    With ``mapped``, base files that have other columns than these, given as dotted paths, are rewritten. It is for
    clients whose name mapping was made before the base files were looked at.
    """

    storage: Storage
    scratch: Scratch
    locations: Locations
    context: ReadContext
    columns: Columns
    partitioning: Partitioning
    at_once: int
    rewriting: Rewriting
    format_version: FormatVersion = FormatVersion.V2
    mapped: frozenset[str] | None = None

    @cached_property
    def identity(self) -> str:
        """A hash of what all slices share."""
        return context_identity(
            self.context,
            FORMAT,
            model_json(self.columns.schema),
            self.columns.mapping.model_dump_json(),
            self.partitioning,
            self.rewriting,
            *(() if self.mapped is None else (sorted(self.mapped),)),
            *(() if self.format_version is FormatVersion.V2 else (self.format_version,)),
            self.locations.uri(self.storage),
            self.locations.uri(self.scratch.storage),
        )

    def key(self, split: RealtimeFileSplit) -> str:
        """The cache key of a slice, which does not depend on which log blocks count."""
        return slice_identity(split, self.identity)[:32]

    def build(self, split: RealtimeFileSplit, copied: Callable[[RealtimeFileSplit], SliceFiles]) -> SliceFiles:
        """The files of a slice; those in the scratch folder are complete when this returns.

        ``copied`` returns those of the same slice without its logs.

        Raises:
            HudiReadError: the slice cannot be read.
        """
        files = self._build(split, copied)
        return files if self.format_version is FormatVersion.V2 else _dated(files, split)

    def _build(self, split: RealtimeFileSplit, copied: Callable[[RealtimeFileSplit], SliceFiles]) -> SliceFiles:
        with slice_delta_in(self.storage, split, at_once=self.at_once) as delta:
            counted = delta.counted_instants
            name = f"{self.key(split)}-{hashlib.sha256(repr(counted).encode()).hexdigest()[:8]}-{new_mark()}"
            base = delta.base_file
            base_data = None if base is None else self._base_data_file(split, base)
            is_copied = base is not None and base_data is not None and self._is_copied(base)
            if base is not None and base_data is not None and not (is_copied and not split.log_paths):
                base_only = replace(split, log_paths=(), log_sizes=(), log_size_bytes=0)
                copy = partial(copied, base_only) if is_copied else None
                files = self._with_base_file(split, delta, base, base_data, copy, name)
                if files is not None:
                    return files
                is_copied = False
        # Frees the log records: the log files are read again.
        del delta
        return self._rewritten(split, name, counted, is_copy=is_copied)

    def _is_copied(self, base: StoredBaseFile) -> bool:
        """Whether clients read a copy of a base file, because of its lists or maps."""
        if not base.rows:
            return False
        reason = reason_unopened if self.rewriting.lists_as_stored else reason_nested_misread
        return reason(base) is not None

    def _base_data_file(self, split: RealtimeFileSplit, base: StoredBaseFile) -> DataFile | None:
        """The base file as a data file; None unless clients that read its lists and maps read it as Hudi does."""
        if reason_to_rewrite(split, base, self.columns) is not None:
            return None
        if self.mapped is not None and not all(path in self.mapped for path, _ in base.fields()):
            return None
        if self.rewriting.client is IcebergClient.PRESTO and why_presto_misreads(base, self.columns) is not None:
            return None
        partition = self.partitioning.of_file(split, base.schema, base.footer)
        is_in_path_and_file = in_path_and_file(split, base.schema, base.footer)
        for name in split.path_values:
            if not is_in_path_and_file[name] or (name not in base.schema.names and partition is None):
                return None
        ids = names_to_ids(self.columns.mapping, self.columns.schema)
        return self._data_file(
            self.locations.uri(self.storage, base.path), split.base_size_bytes, base.footer, ids, partition
        )

    def _data_file(
        self, location: str, size: int, footer: pq.FileMetaData, ids: Ids, partition: tuple[Any, ...] | None
    ) -> DataFile:
        file = data_file(location, size, footer, self.columns.schema, ids, partition)
        if not self.rewriting.cut_times:
            return file
        # A condition on a time that the client has cut must not be compared with bounds that are not.
        return without_bounds(file, self._ids_of_times)

    @cached_property
    def _ids_of_times(self) -> frozenset[int]:
        ids = self.columns.schema.field_ids
        return frozenset(id_ for id_ in ids if isinstance(self.columns.schema.find_type(id_), TimestampType))

    def _with_base_file(
        self,
        split: RealtimeFileSplit,
        delta: SliceDelta,
        base: StoredBaseFile,
        base_data: DataFile,
        copy_of_base: Callable[[], SliceFiles] | None,
        name: str,
    ) -> SliceFiles | None:
        """The base file, or its copy, with new rows and position deletes; None if the slice has to be rewritten."""
        written = self._write_rows(split, f"{name}-rows", delta.rows())
        deleted = delta.deleted_positions
        if self.rewriting.is_due(len(deleted), base_data.rows):
            if written is not None:
                self.scratch.remove(f"{Folder.DATA}/{self._file_name(written)}")
            return None
        deletes = copy = None
        if copy_of_base is not None and len(deleted) < base_data.rows:
            copy = copy_of_base()
            base_data = _all_rows(copy, base_data.rows, base.path)
        if len(deleted) == base_data.rows:
            base_data = replace(base_data, rows=0)
        elif len(deleted):
            deletes = self._write_deletes(f"{name}-deletes", base_data, deleted)
        return SliceFiles(
            name=name,
            data=tuple(file for file in (base_data, written) if file is not None and file.rows),
            deletes=() if deletes is None else (deletes,),
            own_files=(
                *(self._file_name(file) for file in (written, deletes) if file is not None),
                *(() if copy is None else copy.own_files),
            ),
            counted=delta.counted_instants,
            stored_paths=tuple(path for path, _ in base.fields()) if base_data.rows and copy is None else (),
            misread=misread_by(base, self.columns) if base_data.rows and copy is None else {},
            base_copy=None if copy is None else copy.name,
        )

    def _rewritten(
        self, split: RealtimeFileSplit, name: str, counted: Mapping[str, bool], *, is_copy: bool
    ) -> SliceFiles:
        """The merged rows of the slice as one new data file; ``is_copy`` says that they are those of a base file."""
        reader = open_reader_in(self.storage, split, use_threads=False, at_once=self.at_once)
        written = self._write_rows(split, f"{name}-whole", reader.batches())
        return SliceFiles(
            name=name,
            data=() if written is None else (written,),
            deletes=(),
            own_files=() if written is None else (self._file_name(written),),
            counted=counted,
            stored_paths=(),
            misread={},
            base_copy=name if is_copy else None,
        )

    def _write_rows(self, split: RealtimeFileSplit, stem: str, batches: Iterator[pa.RecordBatch]) -> DataFile | None:
        """A new data file with the rows; None if there are none."""
        schema = self.columns.arrow
        tables = _tables(batches, schema)
        first = next(tables, None)
        if first is None:
            return None
        path = f"{Folder.DATA}/{stem}.parquet"
        real_columns = RealColumns(schema=schema, ids=self.columns.ids)
        with self.scratch.appearing(path) as file:
            # Presto fails on conditions on a column that has an empty dictionary, because all of its values are null.
            use_dictionary = self.rewriting.client is not IcebergClient.PRESTO
            with _parquet_writer(file, schema, use_dictionary=use_dictionary) as writer:
                for table in chain((first,), tables):
                    real_columns.add(table)
                    writer.write_table(table)
            size = file.tell()
            footer = pq.read_metadata(file)
        location = self.locations.uri(self.scratch.storage, path)
        partition = self.partitioning.of_file(split, schema, footer)
        return real_columns.described(self._data_file(location, size, footer, self.columns.ids, partition))

    def _write_deletes(self, stem: str, of: DataFile, deleted: "npt.NDArray[np.int64]") -> DataFile:
        """A position-delete file for a data file, with the partition of that file; in version 3 a deletion vector."""
        if self.format_version is FormatVersion.V3:
            return self._write_vector(stem, of, deleted)
        path = f"{Folder.DATA}/{stem}.parquet"
        paths = pa.repeat(pa.scalar(of.location), len(deleted))
        with self.scratch.appearing(path) as file:
            # All positions differ: a dictionary of them would make the file three times as large.
            with _parquet_writer(file, POSITION_DELETES, use_dictionary=["file_path"]) as writer:
                writer.write_table(pa.table([paths, pa.array(deleted, pa.int64())], schema=POSITION_DELETES))
            size = file.tell()
        return DataFile(
            location=self.locations.uri(self.scratch.storage, path),
            rows=len(deleted),
            size_bytes=size,
            partition=of.partition,
            value_counts={PATH_ID: len(deleted), POSITION_ID: len(deleted)},
            null_counts={PATH_ID: 0, POSITION_ID: 0},
            # Equal bounds tell clients that the deletes are for this data file only.
            lower_bounds={PATH_ID: of.location.encode()},
            upper_bounds={PATH_ID: of.location.encode()},
            split_offsets=(),
        )

    def _write_vector(self, stem: str, of: DataFile, deleted: "npt.NDArray[np.int64]") -> DataFile:
        path, made = f"{Folder.DATA}/{stem}.puffin", puffin_file(of.location, deleted)
        self.scratch.write(path, made.content)
        return DataFile(
            location=self.locations.uri(self.scratch.storage, path),
            rows=len(deleted),
            size_bytes=len(made.content),
            partition=of.partition,
            value_counts={},
            null_counts={},
            # PyIceberg finds the data file by equal bounds alone, and otherwise opens all vectors of a partition.
            lower_bounds={PATH_ID: of.location.encode()},
            upper_bounds={PATH_ID: of.location.encode()},
            split_offsets=(),
            vector=made.vector,
        )

    def _file_name(self, file: DataFile) -> str:
        return file.location.rpartition("/")[2]


@dataclass(slots=True, kw_only=True)
class _FloatStatistics:
    nans: int = 0
    least: float | None = None
    greatest: float | None = None


@dataclass(slots=True, kw_only=True)
class RealColumns:
    """Statistics of the floating-point columns of a file that is written; fields of nested columns have none.

    ``ids`` are the field ids of columns.
    """

    schema: pa.Schema
    ids: Mapping[str, int]
    _statistics: dict[str, _FloatStatistics] = field(default_factory=dict)

    def add(self, rows: pa.Table) -> None:
        """Adds rows of the file."""
        for column in self.schema:
            if column.type in _FORMATS:
                self._add(column.name, rows.column(column.name))

    def _add(self, name: str, values: Any) -> None:  # noqa: ANN401 - the stubs lack chunked arrays of numbers
        statistics = self._statistics.setdefault(name, _FloatStatistics())
        is_nan: Any = pc.is_nan(values)
        statistics.nans += pc.sum(is_nan).as_py() or 0
        bounds: Any = pc.min_max(values.filter(pc.invert(is_nan)))
        least, greatest = bounds["min"].as_py(), bounds["max"].as_py()
        if least is not None:
            statistics.least = least if statistics.least is None else min(statistics.least, least)
            statistics.greatest = greatest if statistics.greatest is None else max(statistics.greatest, greatest)

    def described(self, file: DataFile) -> DataFile:
        """The file with the counts of NaN, and with bounds of columns without NaN: some engines put it above all."""
        nans = {self.ids[name]: statistics.nans for name, statistics in self._statistics.items()}
        lower, upper = dict(file.lower_bounds), dict(file.upper_bounds)
        for name, statistics in self._statistics.items():
            if statistics.nans or statistics.least is None or statistics.greatest is None:
                continue
            form = _FORMATS[self.schema.field(name).type]
            # Clients compare -0.0 as less than 0.0; conditions do not.
            lower[self.ids[name]] = struct.pack(form, statistics.least or -0.0)
            upper[self.ids[name]] = struct.pack(form, statistics.greatest or 0.0)
        return replace(file, nan_counts=nans, lower_bounds=lower, upper_bounds=upper)


def _all_rows(copy: SliceFiles, rows: int, path: str) -> DataFile:
    """The data file of a copy; its rows have the same positions as in the base file."""
    if sum(file.rows for file in copy.data) != rows:
        stored = f"{sum(file.rows for file in copy.data)} rows"
        raise CorruptBaseFileError(path, None, stored, f"{rows}, as its footer says")
    (file,) = copy.data
    return file


def _dated(files: SliceFiles, split: RealtimeFileSplit) -> SliceFiles:
    """The files of a slice with the instants of the writes that they show.

    They depend on the slice alone, and each is that of a vector's data file or a later one.
    """
    base = _number(split.base_instant_time)
    newest = max(base, *(_number(instant) for instant, counts in files.counted.items() if counts), 1)
    own = set(files.own_files)

    def dated(file: DataFile) -> DataFile:
        if file.written_at is not None:
            # The copy of the base file.
            return file
        return replace(file, written_at=newest if file.location.rpartition("/")[2] in own else base)

    return replace(
        files,
        data=tuple(map(dated, files.data)),
        deletes=tuple(replace(file, written_at=newest) for file in files.deletes),
    )


def _number(instant: str) -> int:
    """An instant as a number, at least 1; names of foreign files may have others, which come first."""
    return max(int(instant), 1) if instant.isascii() and instant.isdecimal() else 1


def _parquet_writer(file: BinaryIO, schema: pa.Schema, *, use_dictionary: bool | list[str]) -> Any:  # noqa: ANN401 - the stubs lack the context manager
    dictionary: Any = use_dictionary  # the stubs lack lists of column names
    return pq.ParquetWriter(file, schema, compression="zstd", store_schema=False, use_dictionary=dictionary)


def _tables(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in Iceberg's types, as tables of at least ``_ROWS_PER_GROUP`` rows but for the last; none is empty."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(table.num_rows for table in waiting) >= _ROWS_PER_GROUP:
            yield _in_types_of_iceberg(pa.Table.from_batches(waiting), schema)
            waiting = []
    if waiting:
        yield _in_types_of_iceberg(pa.Table.from_batches(waiting), schema)


def _in_types_of_iceberg(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    # Arrow makes no numbers of times in milliseconds.
    table = rows.cast(with_types(rows.schema, _in_microseconds)).cast(schema)
    for position, column_type in enumerate(rows.schema.types):
        if pa.types.is_fixed_size_list(column_type):
            # A null vector stays as long as a list, which Arrow 21 does not write; taking rows makes it empty.
            column = table.column(position).take(np.arange(table.num_rows))
            table = table.set_column(position, schema.field(position), column)
    return table


def _in_microseconds(kind: Any) -> Any:  # noqa: ANN401 - a type of Arrow
    return pa.time64("us") if pa.types.is_time(kind) else kind
