"""``sql``: SQL over a table or all tables of a folder, from the command line, a pipe or a prompt.

A session is an in-memory DuckDB connection. The statements of a text are run in turn, and each gives its result.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Annotated, Protocol

import duckdb
import pyarrow as pa
import typer

from hudi_bridge.catalogs.uris import is_catalog_uri
from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import load_payloads, note_empty_past, open_table, parse_storage_options, rows_look
from hudi_bridge.cli.options import path_of
from hudi_bridge.cli.output import BINARY, Destination, Format, open_sink, write_rows
from hudi_bridge.cli.prompt import Prompt, iter_statements
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.common.display import counted
from hudi_bridge.common.threads import Workers
from hudi_bridge.connectors.duckdb import CACHE_BYTES, Attached, Lake, attach, quote_identifier
from hudi_bridge.connectors.duckdb.dialect import make_joins_work
from hudi_bridge.connectors.duckdb.lake import name_chains
from hudi_bridge.connectors.lakes.roots import Roots, is_folder_of_tables
from hudi_bridge.connectors.lakes.tables import MergingByTable
from hudi_bridge.engines import MemoryStore
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import VIEWS
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable

SHORT_NAME = "t"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_LAKE = "lake"
_NOT_IN_NAMES = re.compile(r"\W+")
_COUNTED = {
    duckdb.StatementType.COPY: "copied",
    duckdb.StatementType.CREATE: "created",
    duckdb.StatementType.DELETE: "deleted",
    duckdb.StatementType.INSERT: "inserted",
    duckdb.StatementType.MERGE_INTO: "merged",
    duckdb.StatementType.UPDATE: "updated",
}
"""Statements whose only result is how many rows they changed, unless they return rows, and what they have done."""
_RETURNING = frozenset(("returning", "return_files", "return_stats"))
_WORDS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|('(?:[^']|'')*'|(?:"(?:[^"]|"")*"|\w+)(?:\.(?:"(?:[^"]|"")*"|\w+))*|[()])""", re.DOTALL
)
_BEFORE_KIND = frozenset(("create", "or", "replace", "temp", "temporary", "persistent", "unique"))


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

    def tables(self) -> Iterable[str]:
        """The names of tables, as SQL has them, that DuckDB may not have yet."""

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
        """Makes the views of metadata that the statement names."""
        for *_, name in name_chains(statement):
            suffix = name.lower().removeprefix(self.attached.name.lower())
            if suffix in VIEWS:
                self.attached.show(suffix, self.attached.connection)

    def tables(self) -> Iterable[str]:
        """None: DuckDB has all."""
        return ()

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

    def tables(self) -> Iterable[str]:
        """Those of the folder."""
        return self.lake.tables()

    def answer(self, statement: str) -> pa.Table | None:
        """For ``SHOW TABLES``: DuckDB's own tables and all tables of the folder, including tables
        that are not open yet.
        """
        if _SHOW_TABLES.fullmatch(statement) is None:
            return None
        made = self.lake.connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY ALL").fetchall()
        return pa.table({"name": pa.array([*self.lake.tables(), *(name for (name,) in made)], pa.string())})

    def cause_of(self, error: BaseException) -> Exception | None:
        """See ``Lake.cause_of``."""
        return self.lake.cause_of(error)


class Results:
    """Where the results of statements are written, one below the other; a file, or a binary format, holds one.

    With ``draws_plans``, those of EXPLAIN are text, and otherwise rows. With ``replaces``, the result of a text takes
    the place of that of the text before it in a file.
    """

    def __init__(self, destination: Destination, look: Look, *, draws_plans: bool, replaces: bool) -> None:
        self.destination = destination
        self.draws_plans = draws_plans
        self._look = look
        self._replaces = replaces
        self._written = 0

    def require_room(self, results: int) -> None:
        """Raises if this number of results cannot be written after the earlier ones.

        Raises:
            QueryError: a file or a binary format is to hold more than one.
        """
        self._written = results if self._replaces else self._written + results
        destination = self.destination
        if self._written > 1 and (destination.path is not None or destination.format in BINARY):
            holder = str(destination.path or destination.format)
            raise QueryError("--output", f"more than one result for {holder}", "statements of which one has rows")

    def write(self, rows: pa.RecordBatchReader) -> None:
        """Writes rows as they arrive."""
        write_rows(rows, self.destination, look=self._look)

    def print(self, text: str) -> None:
        """Writes a text."""
        with open_sink(None) as sink:
            sink.write(f"{text}\n".encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open connection, and what its statements ask."""

    connection: duckdb.DuckDBPyConnection
    source: Source

    def run(self, text: str, results: Results) -> None:
        """Runs the statements of a text in turn; each says what it has done, or its rows are written as they arrive.

        Ctrl-C stops the query; DuckDB alone would ignore it while it streams. Errors of the table are raised as they
        were before DuckDB wrapped them.

        Raises:
            QueryError: one file is to hold the results of more than one statement; none has been run.
        """
        statements = self._parse(text)
        results.require_room(sum(_has_rows(statement, text) for statement in statements))
        for statement in statements:
            query = statement.query or text
            answer = self.source.answer(query)
            if answer is None:
                self.source.prepare(query)
                self._interruptible(partial(self._execute, statement, query, results))
            else:
                results.write(answer.to_reader())

    def query(self, statement: str, take: Callable[[pa.RecordBatchReader], None]) -> None:
        """Runs one SELECT and passes its rows to ``take`` as they arrive; otherwise like ``run``."""
        self.source.prepare(statement)
        self._interruptible(lambda: take(pa.RecordBatchReader.from_stream(self.connection.sql(statement))))

    def _parse(self, text: str) -> "list[duckdb.Statement]":
        try:
            return self.connection.extract_statements(text)
        except duckdb.Error as error:
            # The error may be that of a name.
            self.source.prepare(text)
            cause = self.source.cause_of(error)
            if cause is None:
                raise
            raise cause from error

    def _execute(self, statement: "duckdb.Statement", query: str, results: Results) -> None:
        if _is_counted(statement, query):
            counts = self.connection.execute(statement).fetchall()
            # Without a text of its own, it is a part of another statement.
            if statement.query.strip():
                print_note(outcome(statement.type, query, counts[0][0] if counts else None))
        elif statement.type == duckdb.StatementType.EXPLAIN and results.draws_plans:
            plans = self.connection.execute(statement).fetchall()
            results.print("\n".join(plan.rstrip("\n") for _, plan in plans))
        elif statement.expected_result_type == [duckdb.ExpectedResultType.NOTHING]:
            self.connection.execute(statement)
        elif (relation := self.connection.sql(statement)) is not None:
            results.write(pa.RecordBatchReader.from_stream(relation))

    def _interruptible(self, act: Callable[[], None]) -> None:
        def acting() -> Iterator[None]:
            try:
                act()
                yield
            except (duckdb.Error, pa.ArrowException, OSError) as error:
                cause = self.source.cause_of(error)
                if cause is None:
                    raise
                raise cause from error

        workers = Workers([acting], 1, 1)
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


def _words(query: str) -> list[str]:
    """The names, keywords, strings and parentheses of a statement."""
    return [match[1] for match in _WORDS.finditer(query) if match[1]]


def _is_counted(statement: "duckdb.Statement", query: str) -> bool:
    """Whether all that a statement returns is a number of rows."""
    return statement.type in _COUNTED and _RETURNING.isdisjoint(map(str.lower, _words(query)))


def _has_rows(statement: "duckdb.Statement", text: str) -> bool:
    is_query = duckdb.ExpectedResultType.QUERY_RESULT in statement.expected_result_type
    return is_query and not _is_counted(statement, statement.query or text)


def outcome(kind: duckdb.StatementType, query: str, count: int | None) -> str:
    """What a statement has done, such as ``copied 3 rows to x.csv``."""
    words = _words(query)
    lower = [word.lower() for word in words]
    rows = counted(count or 0, "row")
    try:
        match _COUNTED[kind]:
            case "created":
                return _creation(words, lower, count)
            case "copied":
                return f"copied {rows} {_copied(words, lower)}"
            case "deleted":
                return f"deleted {rows} of {words[lower.index('from', lower.index('delete')) + 1]}"
            case "updated":
                return f"updated {rows} of {words[lower.index('update') + 1]}"
            case done:
                return f"{done} {rows} into {words[lower.index('into') + 1]}"
    except (ValueError, IndexError):
        # A form that has no such words.
        return f"{_COUNTED[kind]} {rows}"


def _creation(words: Sequence[str], lower: Sequence[str], count: int | None) -> str:
    position = [word in _BEFORE_KIND for word in lower].index(False)
    kind, rest = lower[position], position + 1
    if lower[rest : rest + 3] == ["if", "not", "exists"]:
        return f"{kind} {words[rest + 3]} is there"
    name = "" if words[rest] == "(" else f" {words[rest]}"
    has_rows = kind == "table" and count is not None
    return f"created {kind}{name}" + (f" with {counted(count or 0, 'row')}" if has_rows else "")


def _copied(words: Sequence[str], lower: Sequence[str]) -> str:
    """Where COPY has written to, or read from."""
    depths = list(accumulate((word == "(") - (word == ")") for word in lower))
    direction = [depth == 0 and word in ("to", "from") for word, depth in zip(lower, depths, strict=True)].index(True)
    file = words[direction + 1]
    name = file[1:-1].replace("''", "'") if file.startswith("'") else file
    return f"to {name}" if lower[direction] == "to" else f"from {name} into {words[lower.index('copy') + 1]}"


@contextmanager
def open_session(
    table: HudiTable,
    as_of: str | None,
    after: str | None = None,
    up_to: str | None = None,
    *,
    meta_columns: bool = True,
) -> Iterator[Session]:
    """Opens a session with views of a table under its own name and under ``SHORT_NAME``."""
    with connection_in_utc() as connection:
        attached = attach(
            connection, table, table_name(table), as_of=as_of, after=after, up_to=up_to, meta_columns=meta_columns
        )
        if table_name(table) != SHORT_NAME:
            connection.execute(f"CREATE VIEW {SHORT_NAME} AS FROM {quote_identifier(attached.name)}")
        yield Session(connection=connection, source=TableSource(attached))


@contextmanager
def open_lake_session(
    roots: Roots, merging: MergingByTable, as_of: str | None, *, meta_columns: bool = True
) -> Iterator[Session]:
    """Opens a session in which the tables below a folder have names that start with their namespaces."""
    with connection_in_utc() as connection:
        lake = Lake(connection, roots, _LAKE, merging, MemoryStore(CACHE_BYTES), as_of, meta_columns=meta_columns)
        connection.execute(f"USE {_LAKE}")
        yield Session(connection=connection, source=LakeSource(lake, roots.folders[0].shown_path))


@contextmanager
def connection_in_utc() -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database; its time zone is UTC, so that results do not depend on the machine."""
    # Without this, DuckDB would find Python variables of this program as tables.
    with closing(duckdb.connect(config={"python_enable_replacements": "false"})) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_progress_bar = false")
        make_joins_work(connection)
        yield connection


def table_name(table: HudiTable) -> str:
    """The name of the table, turned into a SQL identifier that needs no quotes."""
    name = _NOT_IN_NAMES.sub("_", table.config.name).strip("_").lower()
    return f"t_{name}" if not name or name[0].isdigit() else name


def sql(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="The table's folder, or a folder of tables: a path, or a URI (s3://, gs://, abfs://, hdfs://).",
            show_default=False,
        ),
    ],
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="[SQL]",
            help="The statement to run; without it, statements come from a prompt or a pipe.",
            show_default=False,
        ),
    ] = None,
    *,
    as_of: options.AsOf = None,
    no_meta_columns: Annotated[
        bool, typer.Option("--no-meta-columns", help="Leave Hudi's own columns out of the views.")
    ] = False,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE:]NAME=VALUE",
            help="A read option of docs/options.md, such as hoodie.metadata.enable=false; in a folder, of all tables, "
            "or of one, as sales.orders:NAME=VALUE. Repeatable.",
            show_default=False,
        ),
    ] = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Run SQL on the table, which is called t and by its own name, or on all tables of a folder."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    is_prompt = statement is None and sys.stdin.isatty()
    draws_plans = output is None and output_format in (None, Format.TABLE)
    with _session(table, as_of, option, payload, storage_option, meta_columns=not no_meta_columns) as (session, look):
        results = Results(destination, look, draws_plans=draws_plans, replaces=is_prompt)
        if is_prompt:
            Prompt(session, results).ask_until_end()
            return
        for text in iter_statements(sys.stdin) if statement is None else (statement,):
            session.run(text, results)


@contextmanager
def _session(
    path: str,
    as_of: str | None,
    option: list[str] | None,
    payload: list[str] | None,
    storage_option: list[str] | None,
    *,
    meta_columns: bool,
) -> Iterator[tuple[Session, Look]]:
    named = path_of(path)
    # What a catalog names is a table.
    folder = None if is_catalog_uri(named) else Storage.open(named, options=parse_storage_options(storage_option))
    if folder is not None and is_folder_of_tables(folder):
        roots = Roots(folders=(folder,), tables={})
        merging = MergingByTable.parse(option or [], load_payloads(payload), roots.find_by_name)
        with open_lake_session(roots, merging, as_of, meta_columns=meta_columns) as session:
            yield session, Look(keep=("_hoodie_record_key",))
        return
    table = open_table(path, option, payload, storage_option)
    note_empty_past(table, as_of)
    with open_session(table, as_of, meta_columns=meta_columns) as session:
        yield session, rows_look(table)
