"""Opens the base file of a split in its format; a bootstrapped slice has two files, which are read side by side.

One has the meta columns, the other is the original Parquet file of the table. Row ``i`` of both is one record. Row
groups are taken from the original file.

Source: ``HoodieBootstrapRecordIterator`` and ``PositionBasedFileGroupRecordBuffer`` of Hudi.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptBaseFileError, CorruptTableError
from hudi_bridge.readers.base_file import OpenBaseFile
from hudi_bridge.readers.base_formats.lance import LanceBaseFile
from hudi_bridge.readers.base_formats.orc_and_hfile import HFileBaseFile, OrcBaseFile
from hudi_bridge.readers.base_formats.parquet import open_parquet
from hudi_bridge.readers.column_ranges import Range
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage


def open_base_file(
    storage: Storage, split: RealtimeFileSplit, path: str, *, use_threads: bool, keep_footer: bool = False
) -> OpenBaseFile:
    """Opens the base file at a path relative to the table.

    With ``use_threads``, columns are decoded in parallel. With ``keep_footer``, the footer, if the format has one, is
    cached.

    Raises:
        CorruptBaseFileError: the file is not in the format of its extension.
        DataFileGoneError: the file no longer exists.
        QueryError: the decryption keys are not for this file.
        StorageError: the file cannot be opened, or its footer cannot be read.
        UnsupportedTableError: the file needs something that is not supported for its format.
    """
    if split.source_path is not None:
        return BootstrappedBaseFile.open(storage, split, path, use_threads=use_threads)
    match path.rpartition(".")[2]:
        case "orc":
            return OrcBaseFile.open(storage, split, path)
        case "hfile":
            return HFileBaseFile.open(storage, split, path)
        case "lance":
            return LanceBaseFile.open(storage, split, path)
    return open_parquet(storage, split, path, use_threads=use_threads, keep_footer=keep_footer)


class BootstrappedBaseFile(OpenBaseFile):
    """An open base file with meta columns, and the open file with the other columns."""

    def __init__(self, split: RealtimeFileSplit, path: str, meta: OpenBaseFile, source: OpenBaseFile) -> None:
        """Joins two open files.

        Raises:
            CorruptBaseFileError: they differ in their number of rows.
        """
        rows = [source.rows_of(group) for group in source.row_groups]
        names = meta.arrow_schema.names
        others = [field for field in source.arrow_schema if field.name not in names]
        schema = pa.schema([*meta.arrow_schema, *others]).with_metadata(meta.arrow_schema.metadata)
        super().__init__(split, path, schema, rows)
        self._meta, self._source = meta, source
        self._meta_names = frozenset(names)
        if sum(rows) != meta.row_group_starts[-1]:
            expected = f"{sum(rows)}, as {split.source_path} has"
            raise CorruptBaseFileError(path, None, f"{meta.row_group_starts[-1]} rows", expected)

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str, *, use_threads: bool) -> Self:
        """Opens both files; raises like ``open_base_file``."""
        folder, source_path = split.context.bootstrap_source, split.source_path
        if folder is None or source_path is None:
            raise CorruptTableError(path, None, "a split without the folder of its source", "a split of a planner")
        source_split = replace(split, base_size_bytes=split.source_size_bytes)
        meta = open_parquet(storage, split, path, use_threads=use_threads)
        try:
            source = open_parquet(
                storage.sibling(folder), source_split, source_path, use_threads=use_threads, dictionaries=()
            )
        except BaseException:
            meta.close()
            raise
        try:
            return cls(split, path, meta, source)
        except BaseException:
            meta.close()
            source.close()
            raise

    def close(self) -> None:
        """Closes both files."""
        self._meta.close()
        self._source.close()

    def batches(
        self, row_group: int, columns: Sequence[str], rows_per_batch: int, then: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one row group in columns of both files."""
        meta_columns = [name for name in columns if name in self._meta_names]
        others = [name for name in columns if name not in self._meta_names]
        if not meta_columns:
            yield from self._source.batches(row_group, others, rows_per_batch, then)
            return
        rows = self._meta_rows(row_group, meta_columns, rows_per_batch)
        if not others:
            yield from rows
            return
        for meta, source in side_by_side(rows, self._source.batches(row_group, others, rows_per_batch, then)):
            by_name = dict(zip([*meta_columns, *others], [*meta.columns, *source.columns], strict=True))
            fields = {field.name: field for field in [*meta.schema, *source.schema]}
            yield pa.record_batch(
                [by_name[name] for name in columns], schema=pa.schema([fields[name] for name in columns])
            )

    def _meta_rows(self, row_group: int, columns: Sequence[str], rows_per_batch: int) -> Iterator[pa.RecordBatch]:
        """Yields meta columns for the rows of a row group of the source file."""
        low, high = (int(position) for position in self.row_group_starts[row_group : row_group + 2])
        for group in self._meta_groups(row_group):
            start = int(self._meta.row_group_starts[group])
            for batch in self._meta.batches(group, columns, rows_per_batch):
                first, end = max(low - start, 0), min(high - start, batch.num_rows)
                if first < end:
                    yield batch.slice(first, end - first)
                start += batch.num_rows
                if start >= high:
                    break

    def _meta_groups(self, row_group: int) -> range:
        """The row groups of the meta file that have rows of a row group of the source file."""
        low, high = self.row_group_starts[row_group : row_group + 2]
        starts = self._meta.row_group_starts
        first, end = np.searchsorted(starts, low, "right") - 1, np.searchsorted(starts, high, "left")
        return range(int(first), min(int(end), len(self._meta.row_groups)))

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:
        """The row groups that may have rows that pass a filter, by statistics of the source file."""
        return self._source.matching_row_groups(row_filter, schema)

    def ranges(self, column: str) -> Sequence[Range | bool]:
        """The range of a column of the query in each row group of the source file."""
        return self._source.ranges(column)

    def text_range(self, row_group: int, column: str) -> tuple[str, str] | None:
        """The least and greatest text of a top-level column in a row group; None if statistics lack them."""
        if column not in self._meta_names:
            return self._source.text_range(row_group, column)
        group_ranges = [self._meta.text_range(group, column) for group in self._meta_groups(row_group)]
        ranges = [text_range for text_range in group_ranges if text_range is not None]
        if not ranges or len(ranges) < len(group_ranges):
            return None
        return min(least for least, _ in ranges), max(greatest for _, greatest in ranges)

    def stored_bytes(self, row_group: int, columns: Iterable[str]) -> int:
        """The stored size of top-level columns in a row group, with the meta row groups that have its rows."""
        names = tuple(columns)
        meta = sum(self._meta.stored_bytes(group, names) for group in self._meta_groups(row_group))
        return meta + self._source.stored_bytes(row_group, self._others(names))

    def leaf_bytes(self, row_group: int, columns: Iterable[str]) -> Iterable[int]:
        """The uncompressed size of each leaf of top-level columns in a row group."""
        names = tuple(columns)
        meta = (self._meta.leaf_bytes(group, names) for group in self._meta_groups(row_group))
        return chain(*meta, self._source.leaf_bytes(row_group, self._others(names)))

    def _others(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name not in self._meta_names)


def side_by_side(
    left_batches: Iterator[pa.RecordBatch], right_batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yields slices of both streams with equal numbers of rows; rows that one stream has more are read and dropped."""
    left = right = None
    while True:
        left = next(left_batches, None) if left is None or not left.num_rows else left
        right = next(right_batches, None) if right is None or not right.num_rows else right
        if left is None or right is None:
            break
        rows = min(left.num_rows, right.num_rows)
        if rows:
            yield left.slice(0, rows), right.slice(0, rows)
        left, right = left.slice(rows), right.slice(rows)
    # A file that ends early raises its error when it is read to the end.
    for rest in (left_batches, right_batches):
        for _ in rest:
            pass
