"""The rows of one query in DuckDB, for the condition of ``--where``.

DuckDB passes on what it can of the condition, so that indexes rule out files. It checks the rest itself.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.cli.session import Session, connection_in_utc
from hudi_bridge.cli.sources import SHORT_NAME
from hudi_bridge.connectors.duckdb import quote_identifier
from hudi_bridge.connectors.duckdb.sources import Errors, Read, Source
from hudi_bridge.connectors.duckdb.sql_text import sql_names
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import HudiReadError, QueryError


@dataclass(frozen=True, slots=True)
class RowsSource:
    """The rows of a query, by the name of the table."""

    name: str
    errors: Errors
    example: str = SHORT_NAME

    @property
    def greeting(self) -> str:
        """The name of the rows."""
        return f"rows named {self.name} or {SHORT_NAME}"

    def prepare(self, statement: str) -> None:
        """Nothing: the view is there."""

    def answer(self, statement: str) -> None:
        """Nothing: all statements are DuckDB's."""

    def cause_of(self, error: BaseException) -> HudiReadError | None:
        """The error of the table that caused an error of DuckDB, whose text it has."""
        return next((known for known in reversed(self.errors) if str(known) in str(error)), None)


@contextmanager
def open_rows_session(dataset: HudiDataset, name: str, read: Read | None = None) -> Iterator[Session]:
    """Opens a session with the rows of a query under a name and under ``SHORT_NAME``; ``read`` reads them."""
    errors: Errors = deque(maxlen=1)
    source = Source(dataset.schema, read or dataset.to_batches, errors)
    with connection_in_utc() as connection:
        rows = source.rows_in(connection)
        for view in dict.fromkeys((name, SHORT_NAME)):
            rows.create_view(view)
        yield Session(connection=connection, source=RowsSource(name, errors))


def rows_where(name: str, columns: Sequence[str], condition: str) -> str:
    """The statement that selects columns, by their names in SQL, of the rows that meet a condition."""
    # With the line break, a comment at the end of the condition does not hide the closing parenthesis.
    selected = ", ".join(map(quote_identifier, columns))
    return f"SELECT {selected} FROM {quote_identifier(name)} WHERE (\n{condition}\n)"


def in_sql(schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """The names in SQL of some columns of a table."""
    names = dict(zip(schema.names, sql_names(schema.names), strict=True))
    return [names[column] for column in columns]


def pushed_filter(
    dataset: HudiDataset, name: str, columns: Sequence[str], condition: str
) -> tuple[list[str], pc.Expression | None]:
    """The columns and the filter with which DuckDB would scan the rows for a condition; nothing is read.

    Raises:
        QueryError: the condition reads the table again, as in a subquery.
    """
    asked: list[tuple[list[str], pc.Expression | None]] = []

    def ask(columns: Sequence[str], row_filter: pc.Expression | None) -> Iterable[pa.RecordBatch]:
        asked.append((list(columns), row_filter))
        return ()

    selected = in_sql(dataset.schema, columns)
    with open_rows_session(dataset, name, ask) as session:
        session.run(rows_where(name, selected, condition), lambda rows: deque(rows, 0).clear())
    if len(asked) > 1:
        raise QueryError("--where", condition, "a condition without subqueries")
    # DuckDB does not ask if no row can pass.
    return asked[0] if asked else (list(columns), pc.scalar(False))  # noqa: FBT003 - a literal of the language
