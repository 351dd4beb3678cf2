"""What hudi-bridge gives DuckDB beside a scan of base files: positions of rows to leave out, and the rows to add."""

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.threads import iter_parallel, most_at_once
from hudi_bridge.connectors.duckdb.native_scan import NativeScan
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import MergedSlices
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage

FILE_NUMBER, POSITION = "__hudi_gone_file", "__hudi_gone_row"


class MergedRows:
    """The rows that are not in the scan, and the positions of rows in the scan that are gone; read for each query.

    Log files are merged once, with the columns of the first query that needs them. DuckDB asks for rows and positions
    in two threads. Where positions come first in the first query, nothing tells its columns yet, and all are merged.
    """

    def __init__(self, storage: Storage, dataset: HudiDataset, scan: NativeScan, merges: MergedSlices) -> None:
        self._storage = storage
        self._dataset = dataset
        self._scan = scan
        self._merges = merges
        self._asked: Sequence[str] = dataset.schema.names
        self._merged = tuple(split for split in scan.splits if split.log_paths and scan.reads(split))
        self._has_rows = bool(self._merged) or not all(map(scan.reads, scan.splits))

    @property
    def has_rows(self) -> bool:
        """Whether there may be rows that are not in the scan."""
        return self._has_rows

    @property
    def has_positions(self) -> bool:
        """Whether there may be rows in the scan that are gone."""
        return any(split.base_path is not None for split in self._merged)

    @property
    def positions_schema(self) -> pa.Schema:
        """The file number, the position, and the columns of the partition path by which slices can be chosen."""
        fields = [self._dataset.schema.field(name) for name in self.path_columns]
        return pa.schema([pa.field(FILE_NUMBER, pa.uint64()), pa.field(POSITION, pa.int64()), *fields])

    @property
    def path_columns(self) -> tuple[str, ...]:
        """The columns of the partition path that are equal, and not null, in a row and in its position.

        Columns with one value in all slices are left out: by a condition on them, DuckDB reads all positions or none.
        """
        values = [dict(split.partition_values) for split in self._merged]
        return tuple(
            name
            for name in self._dataset.schema.names
            if name in self._scan.path_columns - self._scan.constant_columns
            and all(name in values_of_file and values_of_file[name].is_valid for values_of_file in values)
        )

    def announce(self, columns: Sequence[str]) -> None:
        """Says which columns of the rows a query needs."""
        self._asked = columns

    def rows(self, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The rows that pass a condition and are not in the scan."""
        request = RowRequest.of(self._dataset.schema, columns, row_filter)
        # The logs of a slice are merged for its positions in any case.
        splits = [
            file_slice
            for split in self._dataset.splits(row_filter, use_indexes=False)
            for file_slice in split.slices
            if file_slice.log_paths or not self._scan.reads(file_slice)
        ]
        at_once = most_at_once(len(splits))
        yield from iter_parallel([partial(self._rows_of, split, request, at_once) for split in splits])

    def positions(self, columns: Sequence[str], row_filter: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The positions of rows in the scan that are gone, in the slices that pass a condition on the path."""
        schema = self.positions_schema
        request = RowRequest.of(schema, columns, row_filter)
        splits = [split for split in self._merged if split.base_path is not None]
        yield from iter_parallel([partial(self._positions_of, split, schema, request) for split in splits])

    def _rows_of(self, split: RealtimeFileSplit, request: RowRequest, at_once: int) -> Iterator[pa.RecordBatch]:
        if not self._scan.reads(split):
            reader = open_reader_in(
                self._storage, split, request.columns, request.row_filter, use_threads=at_once == 1, at_once=at_once
            )
            yield from reader.batches()
            return
        for batch in self._merges.rows(split, request.needed):
            yield request.apply(batch)

    def _positions_of(
        self, split: RealtimeFileSplit, schema: pa.Schema, request: RowRequest
    ) -> Iterator[pa.RecordBatch]:
        path_row = _path_row(split, schema.names[2:], schema)
        of_filter = list(request.filter_columns)
        is_by_path = of_filter and set(of_filter) <= set(path_row.schema.names)
        if is_by_path and not request.passes(path_row.select(of_filter))[0]:
            return
        positions = self._merges.deleted_positions(split, self._asked)
        number = pa.scalar(self._scan.file_numbers[split.base_path or ""], pa.uint64())
        columns = [pa.repeat(number, len(positions)), pa.array(positions, pa.int64())]
        columns += [pa.repeat(path_row.column(name)[0], len(positions)) for name in path_row.schema.names]
        yield request.apply(pa.record_batch(columns, schema=schema))


def _path_row(split: RealtimeFileSplit, names: Sequence[str], schema: pa.Schema) -> pa.RecordBatch:
    """One row with the values of some columns of the partition path."""
    values = dict(split.partition_values)
    fields = [schema.field(name) for name in names]
    columns = [pa.array([values[field.name]], field.type) for field in fields]
    return pa.record_batch(columns, schema=pa.schema(fields))
