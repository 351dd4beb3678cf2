"""What a session asks: one table, or a folder of tables."""

import re
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hudi_bridge.connectors.duckdb import Attached, Lake

SHORT_NAME = "t"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)


class Source(Protocol):
    """The tables of a session."""

    @property
    def greeting(self) -> str:
        """What the prompt begins with."""

    @property
    def example(self) -> str:
        """A name for the help."""

    def prepare(self, statement: str) -> None:
        """Makes what the statement names, before it is run."""

    def answer(self, statement: str) -> pa.Table | None:
        """The answer to a statement that is none of DuckDB's; None for all others."""

    def cause_of(self, error: BaseException) -> Exception | None:
        """The error of a table that caused an error of DuckDB."""


@dataclass(frozen=True, slots=True)
class TableSource:
    """The views of one table."""

    attached: Attached
    example: str = SHORT_NAME

    @property
    def greeting(self) -> str:
        """The table, its instant and its names."""
        attached = self.attached
        return f"{attached.table.config.name} as of {attached.instant}, here named {attached.name} or {SHORT_NAME}"

    def prepare(self, statement: str) -> None:
        """Nothing: all views are there."""

    def answer(self, statement: str) -> None:
        """Nothing: all statements are DuckDB's."""

    def cause_of(self, error: BaseException) -> Exception | None:
        """See ``Attached.cause_of``."""
        return self.attached.cause_of(error)


@dataclass(frozen=True, slots=True)
class LakeSource:
    """The tables of a folder, which are opened when a statement names them."""

    lake: Lake
    path: str
    example: str = "NAME"

    @property
    def greeting(self) -> str:
        """The folder, and how its tables are listed."""
        return f"the tables of {self.path}, which .tables lists; each is opened when SQL first names it"

    def prepare(self, statement: str) -> None:
        """Opens the tables that the statement names."""
        self.lake.attach_named_in(statement)

    def answer(self, statement: str) -> pa.Table | None:
        """For ``SHOW TABLES``: all tables of the folder, of which DuckDB only knows the open ones, and its own."""
        if _SHOW_TABLES.fullmatch(statement) is None:
            return None
        made = self.lake.connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        return pa.table({"name": pa.array([*self.lake.tables(), *(name for (name,) in made)], pa.string())})

    def cause_of(self, error: BaseException) -> Exception | None:
        """See ``Lake.cause_of``."""
        return self.lake.cause_of(error)
