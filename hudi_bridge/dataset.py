"""A query's rows as a ``pyarrow.dataset.Dataset``, as DuckDB, Polars and pandas accept them.

The filter is applied exactly. A query is planned once; each scan reads the files again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.changes.split import own_images
from hudi_bridge.common.display import counted, html_of_properties, html_of_rows
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.operations import operation, watched_work
from hudi_bridge.common.threads import REQUESTS_AT_ONCE, map_in_threads
from hudi_bridge.config import QueryType
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.indexes.explain import Explanation, explained
from hudi_bridge.indexes.pruning import SplitSelection
from hudi_bridge.logformat.scan import SkippedBlocks
from hudi_bridge.readers.completion_times import with_commits_of_filter
from hudi_bridge.readers.filters import RecordKey, spellings_of
from hudi_bridge.readers.log_scan import read_live_blocks
from hudi_bridge.readers.request import RowRequest, column_names, referenced_columns
from hudi_bridge.scanner import BatchGenerator, BatchScanner, Projection, Replanning, in_memory
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.schema.variant_paths import VariantPath
from hudi_bridge.split_reader import iter_splits, read_extent
from hudi_bridge.splits.notes import PlanNotes
from hudi_bridge.splits.planner import QueryPlan, Split
from hudi_bridge.splits.split import ReadContext, sizes_of

Columns = Sequence[str] | Mapping[str, pc.Expression | VariantPath] | None
_OPTIONS_OF_ARROW = frozenset(
    ("batch_size", "batch_readahead", "fragment_readahead", "fragment_scan_options", "cache_metadata", "memory_pool")
)
"""The scan options that only tune Arrow's own readers."""
_LOG = logging.getLogger(__name__)
_MERGED = "a dataset of merged file slices"
_NOT_BY_ARROW = "a HudiDataset is read by its own methods, not by scans of Arrow's"


class HudiDataset(ds.FileSystemDataset):
    """The rows of one query to a table.

    Methods that return rows raise like ``to_batches``; those of ``pyarrow.dataset`` that cannot be offered raise a
    ``QueryError``. To Arrow's own scanner, which bypasses these, it is one file that does not exist: such a scan fails.

    Made by ``HudiTable.snapshot`` and its siblings.
    """

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Creates the Arrow object; ``__init__`` fills it."""
        return super().__new__(cls)

    def __init__(
        self,
        selection: SplitSelection,
        select_again: Callable[[], SplitSelection] | None = None,
        row_filter: pc.Expression | None = None,
    ) -> None:
        """A dataset for the splits of a plan; use the methods of ``HudiTable`` instead.

        ``select_again`` makes a plan of the newest state if files are gone; without it, a scan raises the error.
        """
        storage = selection.storage
        parquet = ds.ParquetFileFormat()
        missing = parquet.make_fragment(storage.resolve(_NOT_BY_ARROW), storage.filesystem)
        super().__init__([missing], selection.plan.schema, parquet, storage.filesystem)
        self._storage = storage
        self._selection = selection
        self._row_filter = row_filter
        self._select_again = select_again
        self._replanning = None if select_again is None else Replanning(self._plan_again)

    def __reduce__(self) -> Any:
        raise TypeError("a HudiDataset holds open state; pickle its splits instead")

    def __repr__(self) -> str:
        where = "" if self._row_filter is None else f", where {self._row_filter}"
        what = f"{self.query_type} as of {self.instant}, {counted(len(self.schema), 'column')}"
        return f"<HudiDataset {self._storage.shown_path!r}: {what}{where}>"

    def _repr_html_(self) -> str:
        properties = [
            ("path", self._storage.shown_path),
            ("query", self.query_type),
            ("instant", self.instant),
            ("filter", None if self._row_filter is None else str(self._row_filter)),
        ]
        columns = [(field.name, field.type) for field in self.schema]
        return html_of_properties("HudiDataset", properties) + html_of_rows("Columns", ("name", "type"), columns)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._plan.schema

    @property
    def query_type(self) -> QueryType:
        """The type of the query."""
        return self._plan.query_type

    @property
    def instant(self) -> str:
        """The instant as of which the table is read; a later one once a scan had to plan again."""
        return self._plan.instant

    @property
    def context(self) -> ReadContext:
        """What all splits share; it exists even if there are no splits."""
        return self._plan.context

    @property
    def next_after(self) -> str | None:
        """The ``after`` for an incremental query of later commits; None for a read-optimized query."""
        return self._plan.next_after

    @property
    def partition_expression(self) -> pc.Expression:
        """The condition that all rows are known to meet: always true."""
        return pc.scalar(True)  # noqa: FBT003 - a literal of the expression language

    def splits(self, filter: pc.Expression | None = None, *, use_indexes: bool = True) -> Iterator[Split]:
        """The splits that a scan with the filter reads, generated lazily, as there may be very many.

        Without ``use_indexes``, they are chosen by partition alone, and nothing is read of data files.

        Raises:
            QueryError: the filter does not fit the table.
        """
        request = self._request(self.schema.names, filter)
        return self._selection.iter_select(request) if use_indexes else self._plan.splits(request.row_filter)

    def explain(
        self, filter: pc.Expression | None = None, columns: Columns = None, *, meta_columns: bool = True
    ) -> Explanation:
        """What a scan with these arguments reads, and what ruled out the rest.

        The scan is planned as it would be, and the footers of the base files that remain are read, but no row is.

        Raises:
            QueryError: a column or the filter does not fit the table, or the query asks for changes.
            HudiReadError: a file cannot be read.
        """
        if self.query_type is QueryType.CHANGES:
            raise QueryError("explain", "changes, which compare states of file slices", "a query for rows")
        names = own_columns(self.schema.names) if columns is None and not meta_columns else self._names(columns)
        request, notes = self._with_paths(self._request(names, filter), columns), PlanNotes()
        slices = [file_slice for split in self._selection.select(request, notes=notes) for file_slice in split.slices]
        extents = map_in_threads(partial(read_extent, self._storage, request=request), slices, REQUESTS_AT_ONCE)
        return explained(self._plan, request, zip(slices, extents, strict=True), notes)

    def left_out_log_files(self) -> int:
        """The number of log files with later changes that this query does not read; 0 for a snapshot."""
        return self._plan.left_out_log_files()

    def skipped_log_blocks(self) -> SkippedBlocks:
        """The number of log blocks that a scan skips, by reason; reads the log files without decoding blocks."""
        slices = (file_slice for split in self.splits() for file_slice in split.slices)
        skipped = [read_live_blocks(self._storage, file_slice).skipped for file_slice in slices]
        return SkippedBlocks(
            **{field.name: sum(getattr(counts, field.name) for counts in skipped) for field in fields(SkippedBlocks)}
        )

    def filter(self, expression: pc.Expression) -> "HudiDataset":
        """The same dataset with a filter for all scans.

        Raises:
            QueryError: the filter does not fit the table.
        """
        request = RowRequest.of(self.schema, row_filter=self._combined(expression))
        return HudiDataset(self._selection, self._select_again, request.row_filter)

    def get(
        self,
        keys: RecordKey | Iterable[RecordKey],
        columns: Sequence[str] | None = None,
        *,
        partition_path: str | None = None,
        meta_columns: bool = True,
    ) -> pa.Table:
        """The rows of some record keys, in no particular order; a key without a row has none in the result.

        ``keys`` are as for ``HudiTable.get``, ``columns`` are those to return, by default all; ``meta_columns`` is as
        for ``scanner``.

        Raises:
            QueryError: a key does not fit the table, a column does not exist, or the rows of the query have no keys.
        """
        if self.query_type is QueryType.CHANGES:
            raise QueryError("get", "changes, which have no record keys", "a snapshot, or the rows of a range")
        if columns is None:
            columns = self.schema.names if meta_columns else own_columns(self.schema.names)
        request = self._request(list(column_names(columns)), None)
        request = replace(request, record_keys=spellings_of(keys, self.context), is_materialized=True)
        schema = pa.schema(list(map(self.schema.field, request.columns)))
        read = partial(self._batches, request, use_threads=True, partition_path=partition_path)
        return BatchScanner(schema, read, self._replanning).to_table()

    def record_locations(self, keys: RecordKey | Iterable[RecordKey]) -> pa.Table | None:
        """As ``HudiTable.record_locations``; None if the record index does not serve this query, or may lack a key.

        Raises:
            QueryError: a key does not fit the record key fields.
        """
        return self._selection.record_locations(list(map(str, spellings_of(keys, self.context).to_pylist())))

    def scanner(  # type: ignore[override]
        self,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        *,
        meta_columns: bool = True,
        use_threads: bool = True,
        **options: Any,
    ) -> BatchScanner:
        """A scan of some columns, or of expressions over columns, for the rows that pass the filter.

        An expression may be a ``variant_path``, too: the values at a path of a VARIANT column.

        Without ``columns`` and ``meta_columns``, Hudi's own columns are left out, and those of images of changes.
        ``to_table``, ``to_batches`` and ``head`` take the same arguments.

        The other options of pyarrow only tune its own readers; they are accepted and have no effect.

        Raises:
            QueryError: a column or the filter does not fit the table, or images that are JSON are to lack columns.
            TypeError: pyarrow has no such option.
        """
        if unknown := options.keys() - _OPTIONS_OF_ARROW:
            # A misspelled ``filter`` must not be ignored.
            raise TypeError(f"scanner() got an unexpected keyword argument {min(unknown)!r}")
        if columns is None and not meta_columns:
            is_changes = self.query_type is QueryType.CHANGES
            columns = own_images(self.schema) if is_changes else own_columns(self.schema.names)
        names = self._names(columns)
        request = self._with_paths(self._request(names, filter), columns)
        schema = pa.schema(list(map(self.schema.field, names)))
        read = partial(self._batches, request, use_threads=use_threads)
        read_all = partial(self._batches, replace(request, is_materialized=True), use_threads=use_threads)
        if not isinstance(columns, Mapping):
            return BatchScanner(schema, read, self._replanning, read_all)
        projection = Projection(dict(columns), self._storage.shown_path)
        projected = projection.of(schema.empty_table()).schema
        return BatchScanner(
            projected,
            lambda: projection.of_batches(read()),
            self._replanning,
            lambda: projection.of_batches(read_all()),
        )

    def to_batches(  # type: ignore[override]
        self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """The rows as record batches, read as they are consumed.

        Raises a ``QueryError`` as ``scanner``, and any ``HudiReadError`` while batches are read.
        """
        return self.scanner(columns, filter, **options).to_batches()

    def to_table(  # type: ignore[override]
        self, columns: Columns = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """All rows."""
        return self.scanner(columns, filter, **options).to_table()

    def to_arrow(
        self, columns: Columns = None, filter: pc.Expression | None = None, *, meta_columns: bool = True
    ) -> pa.Table:
        """All rows, as ``to_table`` returns them; the arguments are those of ``scanner``."""
        return self.to_table(columns, filter, meta_columns=meta_columns)

    def to_pandas(
        self, columns: Columns = None, filter: pc.Expression | None = None, *, meta_columns: bool = True, **options: Any
    ) -> Any:
        """All rows as a pandas ``DataFrame``; other options are those of ``pyarrow.Table.to_pandas``.

        Raises:
            QueryError: a column or the filter does not fit the table.
            ModuleNotFoundError: pandas is not installed.
        """
        return self.to_arrow(columns, filter, meta_columns=meta_columns).to_pandas(**options)

    def to_polars(
        self, columns: Columns = None, filter: pc.Expression | None = None, *, meta_columns: bool = True
    ) -> Any:
        """All rows as a Polars ``DataFrame``; ``hudi_bridge.connectors.polars.scan`` makes a lazy frame.

        Raises:
            QueryError: a column or the filter does not fit the table.
            ModuleNotFoundError: Polars is not installed; the message names the extra.
        """
        with needing_extra("polars", "polars", by="to_polars"):
            frames: Any = import_module("polars")
        return frames.from_arrow(self.to_arrow(columns, filter, meta_columns=meta_columns))

    def to_duckdb(
        self,
        table_name: str,
        connection: Any = None,
        columns: Columns = None,
        filter: pc.Expression | None = None,
        *,
        meta_columns: bool = True,
    ) -> Any:
        """All rows as a temporary table of a DuckDB connection, by default one of its own; returns the connection.

        For views that read no more than a query needs see ``hudi_bridge.connectors.duckdb.attach``.

        Raises:
            QueryError: a column or the filter does not fit the table.
            ModuleNotFoundError: DuckDB is not installed; the message names the extra.
        """
        with needing_extra("duckdb", "duckdb", by="to_duckdb"):
            duckdb: Any = import_module("duckdb")
        rows = self.to_arrow(columns, filter, meta_columns=meta_columns)
        connection = duckdb.connect() if connection is None else connection
        source = f"{table_name}#rows"
        table, of_rows = ('"' + name.replace('"', '""') + '"' for name in (table_name, source))
        connection.register(source, rows)
        try:
            connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS FROM {of_rows}")
        finally:
            connection.unregister(source)
        return connection

    def head(  # type: ignore[override]
        self, num_rows: int, columns: Columns = None, filter: pc.Expression | None = None, **options: Any
    ) -> pa.Table:
        """The first rows to arrive; no more is read than they need."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def count_rows(self, filter: pc.Expression | None = None, **options: Any) -> int:  # type: ignore[override]
        """The number of rows."""
        return self.scanner(self.schema.names[:1], filter, **options).count_rows()

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """All rows, sorted, in memory."""
        return in_memory(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: Any, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """The rows joined with those of another dataset, in memory."""
        return in_memory(self.to_table().join(_table_of(right_dataset), *arguments, **options))

    def join_asof(
        self,
        right_dataset: Any,
        on: str,
        by: Any,
        tolerance: int,
        right_on: Any = None,
        right_by: Any = None,
    ) -> ds.InMemoryDataset:
        """The rows joined as of a column with those of another dataset, in memory; both are sorted first."""
        left = self.to_table().sort_by(on)
        right = _table_of(right_dataset).sort_by(right_on or on)
        return in_memory(left.join_asof(right, on, by, tolerance, right_on, right_by))

    def take(self, indices: Any, **_: Any) -> pa.Table:  # type: ignore[override]
        """Not offered: the rows of a merged table have no fixed order."""
        return self.scanner().take(indices)

    def get_fragments(self, filter: pc.Expression | None = None) -> Any:
        """Not offered: a merged file slice is not a file; see ``splits``."""
        del filter
        raise QueryError("get_fragments", _MERGED, "splits(), which name base and log files together")

    @property
    def files(self) -> Any:
        """Not offered: a merged file slice is not a file; see ``splits``."""
        raise QueryError("files", _MERGED, "splits(), which name base and log files together")

    def replace_schema(self, schema: pa.Schema) -> Any:
        """Not offered: Arrow would need it for unions, but cannot read merged file slices in them."""
        del schema
        raise QueryError("replace_schema", _MERGED, "the table's schema, and no union: combine what to_table() returns")

    @classmethod
    def from_paths(cls, *_: Any, **__: Any) -> Any:
        """Not offered: a table is more than its files."""
        raise QueryError("from_paths", "paths of files", "HudiTable.open(), with the folder of a table")

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """All rows as an Arrow C stream."""
        return self.scanner().__arrow_c_stream__(requested_schema)

    @property
    def _plan(self) -> QueryPlan:
        return self._selection.plan

    def _plan_again(self, error: HudiReadError) -> None:
        """Take the plan of the newest state; raises the error if its columns are others than scans have promised."""
        assert self._select_again is not None
        newer = self._select_again()
        if not newer.plan.schema.equals(self.schema):
            raise error
        _LOG.info("%s: planned again as of %s: %s", self._storage.shown_path, newer.plan.instant, error)
        self._selection = newer

    def _names(self, columns: Columns) -> list[str]:
        if columns is None:
            return list(self.schema.names)
        if not isinstance(columns, Mapping):
            return list(column_names(columns))
        used = {name for expression in columns.values() for name in self._used(expression)}
        return [name for name in self.schema.names if name in used] or self.schema.names[:1]

    def _used(self, expression: pc.Expression | VariantPath) -> tuple[str, ...]:
        if not isinstance(expression, VariantPath):
            return referenced_columns(expression, self.schema)
        name = expression.column
        if self.schema.get_field_index(name) < 0 or not is_variant(self.schema.field(name)):
            variants = [field.name for field in self.schema if is_variant(field)]
            raise QueryError("columns", f"a path of {name!r}", f"VARIANT columns: {', '.join(variants) or 'none'}")
        return (name,)

    def _with_paths(self, request: RowRequest, columns: Columns) -> RowRequest:
        """The request with the paths of VARIANT columns of which nothing else is used."""
        values = columns.values() if isinstance(columns, Mapping) else ()
        whole = {*request.filter_columns}
        whole.update(name for value in values if not isinstance(value, VariantPath) for name in self._used(value))
        paths = (value for value in values if isinstance(value, VariantPath) and value.column not in whole)
        return replace(request, variant_paths=tuple(paths))

    def _combined(self, given: Any) -> pc.Expression | None:
        # Python evaluates a condition between constants to a bool.
        row_filter: pc.Expression | None = pc.scalar(given) if isinstance(given, bool) else given
        if self._row_filter is None or row_filter is None:
            return self._row_filter if row_filter is None else row_filter
        return self._row_filter & row_filter

    def _request(self, columns: Sequence[str], row_filter: Any) -> RowRequest:
        """The request for some columns, with the filter of the dataset as well."""
        request = RowRequest.of(self.schema, columns, self._combined(row_filter))
        if request.row_filter is None or self.query_type is QueryType.CHANGES:
            return request
        return with_commits_of_filter(request, self._storage, self.context).with_keys_of_filter(self.context)

    def _plan_of_scan(self, request: RowRequest, partition_path: str | None) -> list[Split]:
        """The splits that a scan reads, with a word to the log."""
        notes = PlanNotes() if _LOG.isEnabledFor(logging.DEBUG) else None
        with operation(
            _LOG, "plan", table=self._storage.shown_path, query=str(self.query_type), instant=self.instant
        ) as planning:
            splits = self._selection.select(request, partition_path, notes)
            if planning.is_heard:
                slices = [file_slice for split in splits for file_slice in split.slices]
                base, logs = (
                    (file_slice.base_size_bytes for file_slice in slices),
                    (file_slice.log_size_bytes for file_slice in slices),
                )
                planning.note(slices=len(slices), base_bytes=sum(base), log_bytes=sum(logs))
        for step in notes.steps if notes is not None else ():
            _LOG.debug("plan: %s", step)
        if (work := watched_work()) is not None:
            work.begin(sizes_of(file_slice for split in splits for file_slice in split.slices))
        return splits

    def _batches(
        self,
        request: RowRequest,
        *,
        use_threads: bool,
        partition_path: str | None = None,
    ) -> BatchGenerator:
        splits = self._plan_of_scan(request, partition_path)
        return iter_splits(self._storage, splits, request, use_threads=use_threads)


def _table_of(other: Any) -> pa.Table:
    """All rows of a dataset, or of anything that Arrow can convert to a table."""
    table: pa.Table = other.to_table() if isinstance(other, ds.Dataset) else pa.table(other)
    return table
