"""An in-memory DuckDB connection with a table, or with all tables of a folder."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from hudi_bridge.cli.sources import SHORT_NAME, LakeSource, Source, TableSource
from hudi_bridge.connectors.duckdb import CACHE_BYTES, Lake, attach, quote_identifier
from hudi_bridge.connectors.lakes.merge_settings import MergingByTable
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.engines import MemoryStore
from hudi_bridge.table import HudiTable
from hudi_bridge.threads import Workers

_LAKE = "lake"
_NOT_IN_NAMES = re.compile(r"\W+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open connection, and what its statements ask."""

    connection: duckdb.DuckDBPyConnection
    source: Source

    def run(self, statement: str, take: Callable[[pa.RecordBatchReader], None]) -> None:
        """Runs a statement and passes its rows, if any, to ``take`` as they arrive.

        Ctrl-C stops the query; DuckDB alone would ignore it while it streams. Errors of the table are raised as they
        were before DuckDB wrapped them.
        """
        answer = self.source.answer(statement)
        if answer is not None:
            take(answer.to_reader())
            return
        self.source.prepare(statement)
        workers = Workers([lambda: self._run(statement, take)], 1, 1)
        try:
            workers.start()
            list(workers.items())
        except KeyboardInterrupt:
            workers.stopped = True
            # Repeated, since an interrupt before the query starts has no effect.
            workers.end(self.connection.interrupt)
            raise
        finally:
            workers.stopped = True
            workers.end()

    def _run(self, statement: str, take: Callable[[pa.RecordBatchReader], None]) -> Iterator[None]:
        try:
            relation = self.connection.sql(statement)
            if relation is not None:
                take(pa.RecordBatchReader.from_stream(relation))
            yield
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            cause = self.source.cause_of(error)
            if cause is None:
                raise
            raise cause from error


@contextmanager
def open_session(
    table: HudiTable, as_of: str | None, after: str | None = None, up_to: str | None = None
) -> Iterator[Session]:
    """Opens a session with views of a table under its own name and under ``SHORT_NAME``."""
    with connection_in_utc() as connection:
        attached = attach(connection, table, table_name(table), as_of=as_of, after=after, up_to=up_to)
        if table_name(table) != SHORT_NAME:
            connection.execute(f"CREATE VIEW {SHORT_NAME} AS FROM {quote_identifier(attached.name)}")
        yield Session(connection=connection, source=TableSource(attached))


@contextmanager
def open_lake_session(roots: Roots, merging: MergingByTable, as_of: str | None) -> Iterator[Session]:
    """Opens a session in which the tables below a folder have their names, after those of their namespaces."""
    with connection_in_utc() as connection:
        lake = Lake(connection, roots, _LAKE, merging, MemoryStore(CACHE_BYTES), as_of)
        connection.execute(f"USE {_LAKE}")
        yield Session(connection=connection, source=LakeSource(lake, roots.folders[0].shown_path))


@contextmanager
def connection_in_utc() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database; its time zone is UTC, so that results do not depend on the machine."""
    # Without this, DuckDB would find Python variables of this program as tables.
    with closing(duckdb.connect(config={"python_enable_replacements": "false"})) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        yield connection


def table_name(table: HudiTable) -> str:
    """The name of the table, turned into a SQL identifier that needs no quotes."""
    name = _NOT_IN_NAMES.sub("_", table.config.name).strip("_").lower()
    return f"t_{name}" if not name or name[0].isdigit() else name
