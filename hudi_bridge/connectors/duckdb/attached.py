"""A Hudi table as views of a DuckDB connection.

    trips               the snapshot
    trips_ro            read optimized: base files alone
    trips_timeline      the instants of the active timeline
    trips_commits       the same, with what completed commits have done
    trips_file_slices   the file slices of the snapshot
    trips_files         the base and log files of the snapshot
    trips_log_blocks    with ``metadata_views``: the others of ``hudi_bridge.inspection.VIEWS``
    trips_incremental   with ``after``: the rows that a range of commits wrote
    trips_changes       with ``after``: the changes of records in that range

With ``sql_functions``, Hudi's table-valued functions are macros over attached tables:

    hudi_query_timeline(name [, include_archived])     the instants, with what commits have written
    hudi_filesystem_view(name [, sub_path])            the file slices in the folders that a pattern names
    hudi_metadata(name)                                the records of the metadata table

A macro is SQL over views of the attached table ``name``, so these have columns and values of Hudi, but show no table
that is not attached. The pattern is one of DuckDB's GLOB. ``hudi_table_changes`` plans its range in Python, which no
macro can call: attach the table with ``after``.

DuckDB pushes conditions down, and does not check them again. The rows of a snapshot come from DuckDB's own scan of base
files and from what hudi-bridge merges.

The views are in the schema of an in-memory database, otherwise in the connection's temporary schema: a database file
must not hold a view over a Python object, since the view would outlive the object.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.changes.split import ChangeFormat, change_schema, own_images
from hudi_bridge.common.display import html_of_properties
from hudi_bridge.common.threads import most_at_once
from hudi_bridge.connectors.duckdb.dialect import make_joins_work, quote_identifier
from hudi_bridge.connectors.duckdb.file_system import Errors, Read, Source
from hudi_bridge.connectors.duckdb.merge_folder import merge_store
from hudi_bridge.connectors.duckdb.native_scan import (
    FILE,
    FILE_NUMBER,
    POSITION,
    ROW,
    MergedRows,
    NativeScan,
    NativeScanPlanner,
    ViewPlan,
)
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.engines import MergedSlices, MergeStore
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.inspection import (
    FILESYSTEM_VIEW_SCHEMA,
    METADATA_RECORDS_SCHEMA,
    QUERY_TIMELINE_SCHEMA,
    VIEWS,
    filesystem_view,
    metadata_records,
    query_timeline,
)
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.split_reader import reading_error
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import PathLike, Storage, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, opened
from hudi_bridge.timeline.instant import EARLIEST, InstantLike


def native_view(
    connection: duckdb.DuckDBPyConnection,
    storage: Storage,
    dataset: HudiDataset,
    scan: NativeScan,
    store: MergeStore,
    errors: Errors,
) -> duckdb.DuckDBPyRelation:
    """The rows of a snapshot or read-optimized query; merges of slices are taken from and put into the store."""
    # Rows and positions are asked for at the same time, each of several slices.
    slices = sum(bool(split.log_paths) for split in scan.splits)
    at_once = 1 if slices == 1 else 2 * most_at_once(slices)
    merges = MergedSlices(storage=storage, context=dataset.context, store=store, at_once=at_once)
    merged = MergedRows(storage, dataset, scan, merges)
    rows = Source(dataset.schema, merged.rows, errors, merged.announce).rows_in(connection)
    if scan.sql is None:
        return rows
    names = ", ".join(f"base.{quote_identifier(name)}" for name in dataset.schema.names)
    base = connection.sql(scan.sql).set_alias("base")
    if merged.has_positions:
        gone = Source(merged.positions_schema, merged.positions, errors).rows_in(connection).set_alias("gone")
        # DuckDB turns this into an anti-join. Unlike one, it passes conditions on the columns on to the positions.
        base = base.join(gone, _is_gone(merged), how="left").filter(f"{POSITION} IS NULL")
    base = base.project(names)
    # In this order, DuckDB mostly starts to read the rows before the positions: see ``MergedRows``.
    return rows.union(base) if merged.has_rows else base


def _is_gone(merged: MergedRows) -> str:
    pairs = [(FILE, FILE_NUMBER), (ROW, POSITION), *((name, name) for name in merged.path_columns)]
    return " AND ".join(
        f"base.{quote_identifier(base_column)} = gone.{quote_identifier(other)}" for base_column, other in pairs
    )


@dataclass(frozen=True, slots=True)
class ViewSchema:
    """Where a connection keeps its views."""

    database: str
    schema: str
    is_in_memory: bool

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> "ViewSchema":
        """The current schema of a connection."""
        query = (
            "SELECT database_name, current_schema(), path IS NULL FROM duckdb_databases() "
            "WHERE database_name = current_database()"
        )
        [(database, schema, is_in_memory)] = connection.execute(query).fetchall()
        return cls(database, schema, is_in_memory)

    def refuse_tables(self, connection: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
        """Raises QueryError if a table has one of the names: DuckDB would fail half-way, or hide the table."""
        query = (
            "SELECT table_name FROM duckdb_tables() WHERE list_contains($names, lower(table_name)) "
            "AND (temporary OR (database_name = $database AND schema_name = $schema))"
        )
        lower = [name.lower() for name in names]
        values = {"names": lower, "database": self.database, "schema": self.schema}
        taken = connection.execute(query, values).fetchall()
        if taken:
            raise QueryError(
                "name", f"the table {taken[0][0]!r} of the connection", f"no table named {', '.join(names)}"
            )

    def create(self, connection: duckdb.DuckDBPyConnection, views: Mapping[str, duckdb.DuckDBPyRelation]) -> None:
        """Makes views by name, in place of views of these names."""
        if self.is_in_memory:
            with self._entered(connection):
                for name, rows in views.items():
                    rows.create_view(name, replace=True)
        else:
            for name, rows in views.items():
                connection.register(name, rows)

    def drop(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        """Removes a view, if it is there."""
        if self.is_in_memory:
            connection.execute(f"DROP VIEW IF EXISTS {self._qualified(name)}")
        else:
            connection.unregister(name)

    @contextmanager
    def _entered(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Makes this the current schema: DuckDB creates views over Python objects there."""
        current = ViewSchema.of(connection)
        if current == self:
            yield
            return
        connection.execute(f"USE {self._qualified()}")
        try:
            yield
        finally:
            connection.execute(f"USE {current._qualified()}")  # noqa: SLF001 - of the same class

    def _qualified(self, *name: str) -> str:
        return ".".join(map(quote_identifier, (self.database, self.schema, *name)))


READ_OPTIMIZED, TIMELINE, COMMITS = "_ro", "_timeline", "_commits"
FILE_SLICES, FILES = "_file_slices", "_files"
INCREMENTAL, CHANGES = "_incremental", "_changes"
"""Suffixes of the names of views."""
_ERRORS_KEPT = 16

CACHE_BYTES = 1 << 30
"""The room for merges by default."""


def attach(
    connection: duckdb.DuckDBPyConnection,
    path_or_table: PathLike | HudiTable,
    name: str = "trips",
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
    cache: PathLike | None = None,
    cache_bytes: int = CACHE_BYTES,
    meta_columns: bool = True,
    metadata_views: bool = False,
    sql_functions: bool = False,
) -> "Attached":
    """Creates views of a table, named ``name`` and ``name`` with a suffix.

    DuckDB scans base files itself, where it reads them as Hudi does: see ``Attached.plan``. Log files are merged once
    for each file slice and instant. The merges are kept in memory or, with ``cache``, in that folder, where the next
    process finds them; they take up to ``cache_bytes``, and those used longest ago make room for new ones.

    Until ``refresh``, all views show the table as of ``as_of`` or, without it, as of its newest instant at the time of
    this call. Existing views with these names are replaced. In an in-memory database, cursors of the connection see the
    views, too. In a database file the views are temporary: each connection or cursor attaches the table itself.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, with its ``filesystem``, ``options``, ``payloads``,
    ``log_memory_bytes`` and ``storage_options``, or an open table. ``as_of`` is that of ``HudiTable.snapshot``. With
    ``after``, and optionally ``up_to``, there are also views of that range of commits, as for ``HudiTable.incremental``
    and ``HudiTable.changes``. Without ``meta_columns``, the views of rows lack Hudi's own columns, and so do the images
    of changes. With ``metadata_views``, there is a view for each of ``hudi_bridge.inspection.VIEWS``.
    With ``sql_functions``, there are Hudi's SQL functions as macros, which take the ``name``.

    Raises:
        QueryError: the connection has a table with one of the names, the Hudi table has no columns before its first
            commit, an option is unknown, refused, or given beside an open table, or that was opened with keys.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
    """
    table = opened(
        path_or_table,
        OpenArguments(
            filesystem=filesystem,
            options=options,
            payloads=payloads,
            log_memory_bytes=log_memory_bytes,
            storage_options=storage_options,
        ),
    )
    if up_to is not None and after is None:
        raise QueryError("up_to", repr(up_to), "an after as well, where the range begins")
    merges = merge_store(cache, cache_bytes)
    commits = None if after is None else (after, up_to)
    return Attached(
        connection,
        table,
        name,
        as_of,
        commits,
        merges,
        meta_columns=meta_columns,
        metadata_views=tuple(VIEWS) if metadata_views else (),
        sql_functions=sql_functions,
    )


class Attached:
    """The views of a ``table`` in a DuckDB ``connection``, as returned by ``attach``."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: HudiTable,
        name: str,
        as_of: InstantLike | None,
        commits: tuple[InstantLike, InstantLike | None] | None,
        merges: MergeStore,
        *,
        meta_columns: bool = True,
        metadata_views: Collection[str] = (),
        sql_functions: bool = False,
    ) -> None:
        """Creates the views; ``metadata_views`` are suffixes of ``VIEWS``. Raises like ``attach``."""
        table.storage.require_no_keys("DuckDB")
        make_joins_work(connection)
        self.connection = connection
        self._view_schema = ViewSchema.of(connection)
        self._as_of = as_of
        self._commits = commits
        self._next_after: str | None = None
        self._instant = ""
        self._errors: Errors = deque(maxlen=_ERRORS_KEPT)
        self.table = table
        self.name = name
        self._scans = NativeScanPlanner(connection, table.storage, self._errors)
        self._merges = merges
        self._meta_columns = meta_columns
        self._metadata_suffixes = tuple(
            suffix for suffix, view in VIEWS.items() if suffix in metadata_views or view.is_usual
        )
        self._functions = _MACRO_VIEWS if sql_functions else {}
        self._scanned: dict[str, RealtimeFileSplit] = {}
        self._plans: dict[str, ViewPlan] = {}
        self._create_views()

    def __repr__(self) -> str:
        return f"<Attached {self.name!r}: {len(self.names)} views of {self.table.path!r} as of {self.instant}>"

    def _repr_html_(self) -> str:
        properties = (("path", self.table.path), ("instant", self.instant), ("views", self.names))
        return html_of_properties("Attached", properties)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all views."""
        range_suffixes = (INCREMENTAL, CHANGES) if self._commits else ()
        suffixes = ("", READ_OPTIMIZED, *self._metadata_suffixes, *self._functions, *range_suffixes)
        return tuple(self.name + suffix for suffix in suffixes)

    @property
    def instant(self) -> str:
        """The instant as of which the views show the table."""
        return self._instant

    @property
    def next_after(self) -> str | None:
        """The ``after`` for the next range of commits; None if the table was attached without ``after``."""
        return self._next_after

    def refresh(self) -> None:
        """Shows the table as of its newest instant; with ``as_of``, the instant stays the same.

        A range without ``up_to`` is extended to the newest instant.
        """
        self.table = self.table.refresh()
        self._create_views()

    def detach(self) -> None:
        """Removes the views."""
        for name in self.names:
            self._view_schema.drop(self.connection, name)
        self.release(self.connection)

    def release(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Takes from a connection or its cursors what queries of the views need, apart from the views."""
        self._scans.close(connection)

    def cause_of(self, error: BaseException) -> HudiReadError | None:
        """The error of this table that caused an error of a query; None if there is no such cause.

        DuckDB raises its own error class, which has the text of the original, but not its type and attributes. If its
        error names a base file that it has scanned itself, the slice of that file is read to tell what is wrong.
        """
        recorded = next((recorded for recorded in reversed(self._errors) if str(recorded) in str(error)), None)
        if recorded is not None or not isinstance(error, duckdb.Error):
            return recorded
        named = next((split for path, split in self._scanned.items() if path in str(error)), None)
        return None if named is None else reading_error(self.table.storage, named)

    def show(self, suffix: str, connection: duckdb.DuckDBPyConnection) -> None:
        """Creates one more of the ``VIEWS``; the current schema of the connection must be that of the other views."""
        if suffix not in self._metadata_suffixes:
            name = self.name + suffix
            self._view_schema.refuse_tables(connection, (name,))
            self._view_schema.create(connection, {name: self._source(suffix).rows_in(connection)})
            self._metadata_suffixes = (*self._metadata_suffixes, suffix)

    @property
    def metadata_views(self) -> tuple[str, ...]:
        """The suffixes of the views of metadata."""
        return self._metadata_suffixes

    def plan(self) -> Mapping[str, ViewPlan]:
        """How DuckDB reads the rows of the snapshot and of the read-optimized view, by the name of the view."""
        return dict(self._plans)

    def _create_views(self) -> None:
        self._scanned = {}
        sources, datasets = self._sources(), self._datasets()
        self._view_schema.refuse_tables(self.connection, self.names)
        views = {name: self._rows(name, dataset) for name, dataset in datasets.items()}
        views |= {name: source.rows_in(self.connection) for name, source in sources.items()}
        self._view_schema.create(self.connection, views)
        if self._functions:
            _create_macros(self.connection, is_temporary=not self._view_schema.is_in_memory)
        self._instant = datasets[self.name].instant

    def _datasets(self) -> dict[str, HudiDataset]:
        """What the table was opened for and the read-optimized query, by the name of the view."""
        rows = self.table.query(self._as_of)
        if not rows.schema.names:
            raise QueryError(
                "table", "no columns, since nothing has been written yet", "a table with a completed commit"
            )
        return {self.name: rows, self.name + READ_OPTIMIZED: self.table.read_optimized(self._as_of)}

    def _rows(self, name: str, dataset: HudiDataset) -> duckdb.DuckDBPyRelation:
        storage, scan = self.table.storage, self._scans.plan(dataset)
        self._plans[name] = scan.plan
        scanned = ((split.base_path, split) for split in scan.splits if scan.reads(split))
        self._scanned |= {self._scans.location(path): split for path, split in scanned if path is not None}
        if scan.plan.reason is not None:
            rows = Source(dataset.schema, dataset.to_batches, self._errors).rows_in(self.connection)
        else:
            rows = native_view(self.connection, storage, dataset, scan, self._merges, self._errors)
        if self._meta_columns:
            return rows
        return rows.project(", ".join(map(quote_identifier, own_columns(rows.columns))))

    def _sources(self) -> dict[str, Source]:
        """The other views, by name."""
        table, errors, name = self.table, self._errors, self.name
        sources = {name + suffix: self._source(suffix) for suffix in self._metadata_suffixes}
        for suffix, (schema, rows) in self._functions.items():
            sources[name + suffix] = Source(schema, _read_table(partial(rows, table)), errors)
        if self._commits:
            incremental = table.incremental(*self._commits)
            names = incremental.schema.names
            sources[name + INCREMENTAL] = Source(
                _selected(incremental.schema, self._chosen(names)), incremental.to_batches, errors
            )
            image = _selected(table.schema, self._chosen(table.schema.names))
            sources[name + CHANGES] = Source(change_schema(image, ChangeFormat.ROWS), self._read_changes(), errors)
            self._next_after = incremental.next_after
        return sources

    def _source(self, suffix: str) -> Source:
        view = VIEWS[suffix]
        read = partial(view.passing, self.table, self._as_of)
        return Source(view.schema_of(self.table, self._as_of), _read_table(read), self._errors)

    def _read_changes(self) -> Read:
        """Reads the changes of the range; planned at the first query, since their files may have been removed."""
        table, commits = self.table, self._commits or (EARLIEST, None)
        plan = cache(lambda: table.changes(*commits))
        if self._meta_columns:
            return lambda columns, row_filter: plan().to_batches(list(columns), row_filter)
        own = own_images(change_schema(table.schema, ChangeFormat.ROWS))
        return lambda columns, row_filter: plan().to_batches({name: own[name] for name in columns}, row_filter)

    def _chosen(self, names: list[str]) -> list[str]:
        return names if self._meta_columns else own_columns(names)


def _selected(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _read_table(inspect: Callable[[pc.Expression | None], pa.Table]) -> Read:
    def read(columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        return ds.dataset(inspect(row_filter)).to_batches(columns=list(columns), filter=row_filter)

    return read


_ACTIVE, _ALL = "_hudi_query_timeline", "_hudi_query_timeline_all"
_SLICES, _RECORDS = "_hudi_filesystem_view", "_hudi_metadata"

_MACRO_VIEWS: Mapping[str, tuple[pa.Schema, Callable[[HudiTable, object], pa.Table]]] = {
    _ACTIVE: (QUERY_TIMELINE_SCHEMA, lambda table, _: query_timeline(table)),
    _ALL: (QUERY_TIMELINE_SCHEMA, lambda table, _: query_timeline(table, include_archived=True)),
    _SLICES: (FILESYSTEM_VIEW_SCHEMA, lambda table, _: filesystem_view(table, None)),
    _RECORDS: (
        METADATA_RECORDS_SCHEMA,
        lambda table, _: pa.Table.from_batches(metadata_records(table), METADATA_RECORDS_SCHEMA),
    ),
}
"""The columns and the rows of the views that the macros read, by the suffix of their names. They ignore the filter."""

_TIMELINE_MACRO = (
    "hudi_query_timeline(name, include_archived := false) AS TABLE FROM query_table("
    f"name || if(include_archived::VARCHAR IN ('true', 'TRUE'), '{_ALL}', '{_ACTIVE}'))"
)
# With as many slashes in the path as in the pattern, no star stands for a slash. Nor does one stand for the table.
_SLICES_MACRO = (
    f"hudi_filesystem_view(name, sub_path := '') AS TABLE FROM query_table(name || '{_SLICES}') "
    "WHERE Partition_Path GLOB trim(sub_path, '/') "
    "AND len(string_split(Partition_Path, '/')) = len(string_split(trim(sub_path, '/'), '/')) "
    "AND (Partition_Path = '') = (trim(sub_path, '/') = '')"
)
_METADATA_MACRO = f"hudi_metadata(name) AS TABLE FROM query_table(name || '{_RECORDS}')"


def _create_macros(connection: duckdb.DuckDBPyConnection, *, is_temporary: bool) -> None:
    """Creates the macros; replaces those with the same names."""
    for macro in (_TIMELINE_MACRO, _SLICES_MACRO, _METADATA_MACRO):
        connection.execute(f"CREATE OR REPLACE {'TEMP ' if is_temporary else ''}MACRO {macro}")
