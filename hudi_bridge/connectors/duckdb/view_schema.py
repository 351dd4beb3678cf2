"""The schema of the views: that of an in-memory database, otherwise the connection's temporary schema.

A database file must not hold a view over a Python object: the view would outlive the object.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb

from hudi_bridge.connectors.duckdb.sql_text import quote_identifier
from hudi_bridge.errors import QueryError


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
