"""What DuckDB scans through Python: datasets that read their batches anew for each query."""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hudi_bridge.connectors.duckdb.sql_text import quote_identifier, sql_names
from hudi_bridge.dataset import BatchGenerator, BatchScanner
from hudi_bridge.errors import HudiReadError

Errors = deque[HudiReadError]
Read = Callable[[Sequence[str], pc.Expression | None], Iterable[pa.RecordBatch]]
"""Reads some columns of the rows that pass a condition, which is checked exactly: DuckDB does not check it again."""


@contextmanager
def recording(errors: Errors) -> Iterator[None]:
    """A context whose errors of the table are recorded, for ``Attached.cause_of``."""
    try:
        yield
    except HudiReadError as error:
        # A copy has no traceback, which would keep the batches of the failed scan alive.
        errors.append(copy.copy(error))
        raise


def with_sql_names(rows: duckdb.DuckDBPyRelation, names: Sequence[str]) -> duckdb.DuckDBPyRelation:
    """Rows whose columns have ``names`` in Arrow, with those of ``sql_names``."""
    found = sql_names(names)
    if found == list(names):
        return rows
    # DuckDB has numbered those that it takes for the same, beginning with the second.
    pairs = zip(rows.columns, found, strict=True)
    return rows.project(", ".join(f"{quote_identifier(old)} AS {quote_identifier(new)}" for old, new in pairs))


class Source(ds.Dataset):
    """A dataset for DuckDB that records errors of the table."""

    def __init__(
        self,
        schema: pa.Schema,
        read: Read,
        errors: Errors,
        announce: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        """A dataset; ``announce`` is called with the columns of a query before the source is asked for its rows."""
        self._schema = schema
        self._read = read
        self._errors = errors
        self._announce = announce

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._schema

    def scanner(  # type: ignore[override]
        self,
        columns: Sequence[str] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **_: object,
    ) -> BatchScanner:
        """A scan of some columns, for the rows that pass a condition."""
        names = self._schema.names if columns is None else list(columns)
        schema = pa.schema([self._schema.field(name) for name in names])
        if self._announce is not None:
            self._announce(names)
        return BatchScanner(schema, lambda: self._batches(names, filter))

    def rows_in(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        """The rows as a relation, whose columns have the names of ``sql_names``."""
        return with_sql_names(connection.from_arrow(self), self._schema.names)

    def _batches(self, names: Sequence[str], row_filter: pc.Expression | None) -> BatchGenerator:
        with recording(self._errors):
            yield from self._read(names, row_filter)
