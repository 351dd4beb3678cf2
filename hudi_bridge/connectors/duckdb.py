"""A Hudi table as views of a DuckDB connection.

    trips               the snapshot
    trips_ro            read optimized: base files alone
    trips_timeline      the instants of the active timeline
    trips_file_slices   the file slices of the snapshot
    trips_files         the base and log files of the snapshot
    trips_incremental   with ``after``: the rows that a range of commits wrote
    trips_changes       with ``after``: the changes of records in that range

DuckDB pushes conditions down, and does not check them again.
"""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.changes.split import ChangeFormat, change_schema
from hudi_bridge.connectors.extras import needing_extra
from hudi_bridge.dataset import BatchGenerator, BatchScanner
from hudi_bridge.display import html_of_properties
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.inspection import (
    FILE_SLICES_SCHEMA,
    FILES_SCHEMA,
    TIMELINE_SCHEMA,
    inspect_file_slices,
    inspect_files,
    inspect_timeline,
)
from hudi_bridge.storage import PathLike
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import EARLIEST, InstantLike

with needing_extra("duckdb", "duckdb"):
    import duckdb

READ_OPTIMIZED, TIMELINE, FILE_SLICES, FILES = "_ro", "_timeline", "_file_slices", "_files"
INCREMENTAL, CHANGES = "_incremental", "_changes"
"""Suffixes of the names of views."""
_ERRORS_KEPT = 16

_Errors = deque[HudiReadError]
_Read = Callable[[Sequence[str], pc.Expression | None], Iterable[pa.RecordBatch]]


def attach(
    connection: duckdb.DuckDBPyConnection,
    path_or_table: PathLike | HudiTable,
    name: str = "trips",
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    as_of: InstantLike | None = None,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
) -> "Attached":
    """Creates views of a table, named ``name`` and ``name`` with a suffix.

    Until ``refresh``, all views show the table as of ``as_of`` or, without it, as of its newest instant at the time of
    this call. Existing views with these names are replaced. In an in-memory database, cursors of the connection see the
    views, too. In a database file the views are temporary: each connection or cursor attaches the table itself.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``filesystem`` and ``as_of`` are
    those of ``HudiTable.open`` and ``HudiTable.snapshot``. With ``after``, and optionally ``up_to``, there are also
    views of that range of commits, as for ``HudiTable.incremental`` and ``HudiTable.changes``.

    Raises:
        QueryError: the connection has a table with one of the names, or the Hudi table has no columns before its first
            commit.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
    """
    table = path_or_table if isinstance(path_or_table, HudiTable) else HudiTable.open(path_or_table, filesystem)
    if up_to is not None and after is None:
        raise QueryError("up_to", repr(up_to), "an after as well, where the range begins")
    attached = Attached(connection, table, name, as_of, None if after is None else (after, up_to))
    attached._create()  # noqa: SLF001 - the only caller
    return attached


class Attached:
    """The views of a ``table`` in a DuckDB ``connection``, as returned by ``attach``."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: HudiTable,
        name: str,
        as_of: InstantLike | None,
        commits: tuple[InstantLike, InstantLike | None] | None,
    ) -> None:
        self.connection = connection
        self._view_schema = _ViewSchema.of(connection)
        self._as_of = as_of
        self._commits = commits
        self._next_after: str | None = None
        self._instant = ""
        self._errors: _Errors = deque(maxlen=_ERRORS_KEPT)
        self.table = table
        self.name = name

    def __repr__(self) -> str:
        return f"<Attached {self.name!r}: {len(self.names)} views of {self.table.path!r} as of {self.instant}>"

    def _repr_html_(self) -> str:
        properties = (("path", self.table.path), ("instant", self.instant), ("views", self.names))
        return html_of_properties("Attached", properties)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all views."""
        range_suffixes = (INCREMENTAL, CHANGES) if self._commits else ()
        suffixes = ("", READ_OPTIMIZED, TIMELINE, FILE_SLICES, FILES, *range_suffixes)
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
        self._create()

    def detach(self) -> None:
        """Removes the views."""
        for name in self.names:
            self._view_schema.drop(self.connection, name)

    def cause_of(self, error: BaseException) -> HudiReadError | None:
        """The error of this table that caused an error of a query; None if there is no such cause.

        DuckDB raises its own error class, which has the text of the original, but not its type and attributes.
        """
        return next((known for known in reversed(self._errors) if str(known) in str(error)), None)

    def _create(self) -> None:
        sources, instant = self._sources(), self.table.snapshot(self._as_of).instant
        self._view_schema.refuse_tables(self.connection, sources)
        for name, source in sources.items():
            self._view_schema.create(self.connection, name, source)
        self._instant = instant

    def _sources(self) -> dict[str, "_Source"]:
        table, as_of, errors = self.table, self._as_of, self._errors
        snapshot, read_optimized = table.snapshot(as_of), table.read_optimized(as_of)
        if not snapshot.schema.names:
            raise QueryError(
                "table", "no columns, since nothing has been written yet", "a table with a completed commit"
            )
        sources = [
            _Source(snapshot.schema, snapshot.to_batches, errors),
            _Source(read_optimized.schema, read_optimized.to_batches, errors),
            _Source(TIMELINE_SCHEMA, _read_table(lambda: inspect_timeline(table)), errors),
            _Source(FILE_SLICES_SCHEMA, _read_table(lambda: inspect_file_slices(table, as_of)), errors),
            _Source(FILES_SCHEMA, _read_table(lambda: inspect_files(table, as_of)), errors),
        ]
        if self._commits:
            incremental = table.incremental(*self._commits)
            sources.append(_Source(incremental.schema, incremental.to_batches, errors))
            sources.append(_Source(change_schema(table.schema, ChangeFormat.ROWS), self._read_changes(), errors))
            self._next_after = incremental.next_after
        return dict(zip(self.names, sources, strict=True))

    def _read_changes(self) -> _Read:
        """Reads the changes of the range; planned at the first query, since their files may have been removed."""
        table, commits = self.table, self._commits or (EARLIEST, None)
        plan = cache(lambda: table.changes(*commits))
        return lambda columns, row_filter: plan().to_batches(list(columns), row_filter)


class _Source(ds.Dataset):
    """A dataset for DuckDB that reads its batches anew for each query and records errors of the table."""

    def __init__(self, schema: pa.Schema, read: _Read, errors: _Errors) -> None:
        self._schema = schema
        self._read = read
        self._errors = errors

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(  # type: ignore[override]
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: object,
    ) -> BatchScanner:
        names = self._schema.names if columns is None else list(columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        return BatchScanner(schema, lambda: self._batches(names, filter))

    def _batches(self, names: Sequence[str], row_filter: pc.Expression | None) -> BatchGenerator:
        with self._recording_errors():
            yield from self._read(names, row_filter)

    @contextmanager
    def _recording_errors(self) -> Iterator[None]:
        try:
            yield
        except HudiReadError as error:
            # A copy has no traceback, which would keep the batches of the failed scan alive.
            self._errors.append(copy.copy(error))
            raise


@dataclass(frozen=True, slots=True)
class _ViewSchema:
    """The schema of the views: that of an in-memory database, otherwise the connection's temporary schema.

    A database file must not hold a view over a Python object: the view would outlive the object.
    """

    database: str
    schema: str
    is_in_memory: bool

    @classmethod
    def of(cls, connection: duckdb.DuckDBPyConnection) -> "_ViewSchema":
        query = (
            "SELECT database_name, current_schema(), path IS NULL FROM duckdb_databases() "
            "WHERE database_name = current_database()"
        )
        [(database, schema, is_in_memory)] = connection.execute(query).fetchall()
        return cls(database, schema, is_in_memory)

    def refuse_tables(self, connection: duckdb.DuckDBPyConnection, names: Mapping[str, Any]) -> None:
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

    def create(self, connection: duckdb.DuckDBPyConnection, name: str, source: _Source) -> None:
        if self.is_in_memory:
            with self._entered(connection):
                connection.from_arrow(source).create_view(name, replace=True)
        else:
            connection.register(name, source)

    def drop(self, connection: duckdb.DuckDBPyConnection, name: str) -> None:
        if self.is_in_memory:
            connection.execute(f"DROP VIEW IF EXISTS {self._qualified(name)}")
        else:
            connection.unregister(name)

    @contextmanager
    def _entered(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Makes this the current schema: DuckDB creates views over Python objects there."""
        current = _ViewSchema.of(connection)
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


def quote_identifier(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def _read_table(inspect: Callable[[], pa.Table]) -> _Read:
    def read(columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        return ds.dataset(inspect()).to_batches(columns=list(columns), filter=row_filter)

    return read
