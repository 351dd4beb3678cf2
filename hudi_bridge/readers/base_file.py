"""A Parquet base file -> record batches with the query's columns.

The file is opened once, by its footer; columns are read a row group at a time, in batches, so that no more than a batch
of each is in memory. Row groups whose statistics rule out the filter are passed over where the filter's columns stand
in the file as they stand in the query.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptBaseFileError
from hudi_bridge.merge.arrays import Column, Positions
from hudi_bridge.readers.evolution import plan_file_evolution
from hudi_bridge.readers.gone import data_file_gone
from hudi_bridge.readers.path_columns import path_values, with_path_columns, without_path_columns
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.evolve import Evolution
from hudi_bridge.splits.partitions import partition_guarantee
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

ROWS_PER_BATCH = 65_536

# Few distinct values a file, some of them long: read as dictionaries, rows can be dropped before the texts are written.
_REPETITIVE_COLUMNS = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


class BaseFile:
    """An open base file of a split; a context manager."""

    def __init__(
        self, split: RealtimeFileSplit, path: str, fragment: ds.ParquetFileFragment, file: pq.ParquetFile
    ) -> None:
        self._split = split
        self.path = path
        self._fragment = fragment
        self._file = file
        self.arrow_schema: pa.Schema = file.schema_arrow
        rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
        self.row_group_starts = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)

    @classmethod
    def open(cls, storage: Storage, split: RealtimeFileSplit, path: str) -> Self:
        """The base file of a path relative to the table.

        Raises:
            CorruptBaseFileError: the file is not Parquet.
            DataFileGoneError: there is no such file.
        """
        try:
            fragment: Any = ds.ParquetFileFormat().make_fragment(
                storage.resolve(path),
                storage.filesystem,
                partition_expression=partition_guarantee(tuple(path_values(split).items())),
            )
            fragment.ensure_complete_metadata()
            file = pq.ParquetFile(
                storage.open_input(path),
                metadata=fragment.metadata,
                coerce_int96_timestamp_unit="us",
                pre_buffer=not storage.is_local,
                read_dictionary=list(_REPETITIVE_COLUMNS),
            )
        except FileNotFoundError as error:
            raise data_file_gone(storage, split, path) from error
        except (pa.ArrowInvalid, OSError) as error:
            raise _corrupt(path, error) from error
        return cls(split, path, fragment, file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close(force=True)

    @property
    def row_groups(self) -> range:
        """The numbers of all row groups."""
        return range(self._file.num_row_groups)

    def matching_row_groups(self, row_filter: pc.Expression, schema: pa.Schema) -> list[int]:
        """The row groups that may hold rows passing a filter, by their statistics.

        ``schema`` holds the columns that the filter refers to, which must be the file's own or of the partition path.
        """
        return [group.id for group in self._fragment.subset(row_filter, schema=schema).row_groups]  # type: ignore[attr-defined]

    def view(self, columns: Sequence[str]) -> "BaseFileColumns":
        """The file as batches of some of the query's columns."""
        return BaseFileColumns(self, self._split, self._file, tuple(columns))


class BaseFileColumns:
    """A base file's rows as batches of some of the query's columns, in their order and in the query's types."""

    def __init__(
        self, base: BaseFile, split: RealtimeFileSplit, file: pq.ParquetFile, columns: tuple[str, ...]
    ) -> None:
        context = split.context
        self.schema = pa.schema([context.schema.field(name) for name in columns])
        self._base = base
        self._file = file
        self._split = split
        self._evolution: Evolution = plan_file_evolution(
            base.arrow_schema,
            without_path_columns(self.schema, split),
            split.base_instant_time,
            context,
            base.path,
        )

    def matching_row_groups(self, request: RowRequest) -> list[int]:
        """The row groups that may hold rows passing the filter; all where its columns have evolved since the file."""
        if request.row_filter is None:
            return list(self._base.row_groups)
        unchanged = {
            column.field.name
            for column in self._evolution.columns
            if column.source == column.field.name and (column.step is None or column.source in _REPETITIVE_COLUMNS)
        }
        if not unchanged.union(path_values(self._split)).issuperset(request.filter_columns):
            return list(self._base.row_groups)
        return self._base.matching_row_groups(request.row_filter, self.schema)

    def take(self, row_group: int, rows: Positions) -> tuple[Column, ...]:
        """The values of some rows of a row group, counted from its start, ascending; one array a column."""
        pieces = []
        start = 0
        for batch in self.batches(row_group):
            low, high = np.searchsorted(rows, [start, start + batch.num_rows])
            if low < high:
                pieces.append(batch.take(pa.array(rows[low:high] - start, pa.int64())))
            start += batch.num_rows
        table = pa.Table.from_batches(pieces, schema=self.schema)
        return tuple(column.combine_chunks() for column in table.columns)

    def batches(self, row_group: int, rows_per_batch: int = ROWS_PER_BATCH) -> Iterator[pa.RecordBatch]:
        """The rows of one row group.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """
        return map(self.evolve, self.stored_batches(row_group, rows_per_batch))

    def stored_batches(self, row_group: int, rows_per_batch: int = ROWS_PER_BATCH) -> Iterator[pa.RecordBatch]:
        """The rows of one row group as the file has them: any of them may be dropped before ``evolve``.

        Raises:
            CorruptBaseFileError: the data cannot be decoded.
        """
        columns = list(self._evolution.file_columns)
        try:
            yield from self._file.iter_batches(rows_per_batch, row_groups=[row_group], columns=columns)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
            raise _corrupt(self._base.path, error) from error

    def evolve(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Stored rows with the query's columns."""
        return with_path_columns(self._evolution.apply(stored), self.schema, self._split)


def _corrupt(path: str, error: Exception) -> CorruptBaseFileError:
    return CorruptBaseFileError(path, None, str(error).splitlines()[0], "a readable Parquet file")
