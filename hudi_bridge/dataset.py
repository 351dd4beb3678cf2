"""A query's rows as a ``pyarrow.dataset.Dataset``.

DuckDB, Polars and pandas take a dataset as it is: they hand the wanted columns and the filter to ``scanner`` and read
what it yields. The filter is applied exactly, so that nobody has to check it again. Each scan reads the files anew; the
plan of the instant is made once.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError
from hudi_bridge.readers.dispatch import reader_for
from hudi_bridge.readers.parallel import iter_parallel
from hudi_bridge.readers.request import RowRequest, referenced_columns
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage import Storage

Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class HudiDataset(ds.Dataset):
    """The rows of a table as of one instant, under one query type."""

    def __init__(
        self, storage: Storage, planner: SplitPlanner, query_type: QueryType, row_filter: pc.Expression | None = None
    ) -> None:
        """A dataset over a plan; users get one from ``HudiTable``."""
        self._storage = storage
        self._planner = planner
        self._query_type = query_type
        self._row_filter = row_filter

    def __reduce__(self) -> Any:
        raise TypeError("a HudiDataset holds open state; pickle its splits instead")

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as of the instant."""
        return self._planner.schema(self._query_type)

    @property
    def query_type(self) -> QueryType:
        """Whether log files are merged in."""
        return self._query_type

    @property
    def instant(self) -> str:
        """The instant as of which the table is read."""
        return self._planner.query_instant

    @property
    def partition_expression(self) -> pc.Expression:
        """What is known of every row: nothing."""
        return pc.scalar(True)  # noqa: FBT003 - a literal of the expression language

    def splits(self, filter: pc.Expression | None = None) -> tuple[RealtimeFileSplit, ...]:  # noqa: A002 - pyarrow's name
        """The splits that a scan with the filter reads."""
        return self._planner.splits(self._query_type, self._combined(filter))

    def left_out_log_files(self) -> int:
        """How many log files hold later changes that this query does not read; 0 for a snapshot."""
        if self._query_type is QueryType.SNAPSHOT:
            return 0
        snapshot = self._planner.file_slices(QueryType.SNAPSHOT)
        return sum(len(piece.log_files) for piece in snapshot)

    def filter(self, expression: pc.Expression) -> "HudiDataset":
        """The same dataset with a filter that every scan applies."""
        return HudiDataset(self._storage, self._planner, self._query_type, self._combined(expression))

    def scanner(
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        batch_size: int = 131_072,
        **options: Any,
    ) -> ds.Scanner:
        """A scan of some columns, or of expressions over them, of the rows that pass the filter.

        Of pyarrow's other options, ``use_threads`` is heeded; those that tune pyarrow's own readers have no effect.

        Raises:
            QueryError: a column or the filter does not fit the table.
        """
        use_threads = bool(options.pop("use_threads", True))
        names = self._names(columns)
        reader = self._record_batch_reader(names, filter, use_threads=use_threads)
        projection = columns if isinstance(columns, Mapping) else None
        return ds.Scanner.from_batches(
            reader, schema=reader.schema, columns=projection, batch_size=batch_size, use_threads=use_threads
        )

    def to_batches(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> Iterator[pa.RecordBatch]:  # noqa: A002, E501
        """The rows as record batches, read as they are consumed."""
        if isinstance(columns, Mapping):
            return iter(self.scanner(columns, filter, **options).to_batches())
        return iter(self._record_batch_reader(self._names(columns), filter, use_threads=bool(options.get("use_threads", True))))

    def to_table(self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:  # noqa: A002
        """All rows."""
        if isinstance(columns, Mapping):
            return self.scanner(columns, filter, **options).to_table()
        use_threads = bool(options.get("use_threads", True))
        return self._record_batch_reader(self._names(columns), filter, use_threads=use_threads).read_all()

    def head(self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: Any) -> pa.Table:  # noqa: A002, E501
        """The first rows to arrive; no more files are read than they need."""
        scanner = self.scanner(columns, filter, **options)
        return scanner.head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # noqa: A002 - pyarrow's name
        """The number of rows."""
        names = self.schema.names[:1]
        reader = self._record_batch_reader(names, filter, use_threads=bool(options.get("use_threads", True)))
        return sum(batch.num_rows for batch in reader)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Not offered: the rows of a merged table have no fixed order."""
        raise QueryError("take", f"{len(indices)} row numbers", "a filter; the rows of a Hudi table have no fixed order")

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:  # noqa: A002 - pyarrow's name
        """Not offered: a merged file slice is no file; see ``splits``."""
        raise QueryError("get_fragments", repr(filter), "splits(), which name base and log files together")

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Not offered: the schema is the table's."""
        raise QueryError("replace_schema", str(schema), "the schema of the table")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as an Arrow C stream."""
        return self._record_batch_reader(self.schema.names, None, use_threads=True).__arrow_c_stream__(requested_schema)

    def _names(self, columns: Columns) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        if not isinstance(columns, Mapping):
            return list(columns)
        used = {name for expression in columns.values() for name in referenced_columns(expression, self.schema)}
        return [name for name in self.schema.names if name in used] or self.schema.names[:1]

    def _combined(self, row_filter: pc.Expression | None) -> pc.Expression | None:
        if self._row_filter is None or row_filter is None:
            return self._row_filter if row_filter is None else row_filter
        return self._row_filter & row_filter

    def _record_batch_reader(
        self, columns: Sequence[str], row_filter: pc.Expression | None, *, use_threads: bool
    ) -> pa.RecordBatchReader:
        request = RowRequest.of(self.schema, columns, self._combined(row_filter))
        splits = self._planner.splits(self._query_type, request.row_filter)
        schema = pa.schema([self.schema.field(name) for name in columns])
        readers = (reader_for(self._storage, split, request) for split in splits)
        batches = iter_parallel([reader.batches for reader in readers], use_threads=use_threads)
        return pa.RecordBatchReader.from_batches(schema, batches)
