"""``sql``: SQL over a table or all tables of a folder, from the command line, a pipe or a prompt.

A session is an in-memory DuckDB connection. At the prompt, a semicolon ends a statement, and errors do not end it.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Protocol

import duckdb
import pyarrow as pa
import typer

from hudi_bridge.catalogs.uris import is_catalog_uri
from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import load_payloads, note_empty_past, open_table, parse_storage_options, rows_look
from hudi_bridge.cli.options import path_of
from hudi_bridge.cli.output import Destination, OutputClosedError, write_rows
from hudi_bridge.cli.terminal import print_error, print_note
from hudi_bridge.common.threads import Workers
from hudi_bridge.connectors.duckdb import CACHE_BYTES, Attached, Lake, attach, quote_identifier
from hudi_bridge.connectors.lakes.roots import Roots, is_folder_of_tables
from hudi_bridge.connectors.lakes.tables import MergingByTable
from hudi_bridge.engines import MemoryStore
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import HudiTable

SHORT_NAME = "t"
_SHOW_TABLES = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
_LAKE = "lake"
_NOT_IN_NAMES = re.compile(r"\W+")
readline: ModuleType | None
_HISTORY = Path("~/.hudi_bridge_history")
_LINES_IN_HISTORY = 1000
_QUIT = (".quit", ".exit", r"\q")
_QUIT_AS_FIRST_LINE = ("quit", "exit")
_HINT = "SQL ends with a semicolon. .help says more, .quit or Ctrl-D ends."
_HELP_WORDS = (".help", "help", r"\?", r"\h")
_HELP = """\
SELECT ...;   SQL of DuckDB, in one line or more, up to a semicolon
{describe:13} the columns of a table or view
.tables       what can be queried, as SHOW TABLES; does
.help         this text
.quit         ends, and so does Ctrl-D; Ctrl-C drops what has been typed, or stops a query
"""
_FROM_FILE = "hudi-bridge sql TABLE < FILE, outside of this prompt"
_TO_FILE = "the options --output and --format of hudi-bridge sql"
_INSTEAD = {
    r"\d": "SHOW TABLES; or {describe}",
    r"\dt": "SHOW TABLES;",
    r"\dv": "SHOW TABLES;",
    r"\l": "SHOW TABLES;",
    r"\i": _FROM_FILE,
    r"\o": _TO_FILE,
    ".schema": "{describe}",
    ".read": _FROM_FILE,
    ".mode": _TO_FILE,
    ".output": _TO_FILE,
}
"""Replacements for commands of psql and the DuckDB shell."""
_DESCRIBING = (r"\d", ".schema")
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1""",
    re.DOTALL,
)
_OPEN = re.compile(r"""['"]|/\*|\$\w*\$""")


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
        yield connection


def table_name(table: HudiTable) -> str:
    """The name of the table, turned into a SQL identifier that needs no quotes."""
    name = _NOT_IN_NAMES.sub("_", table.config.name).strip("_").lower()
    return f"t_{name}" if not name or name[0].isdigit() else name


try:
    import readline
except ImportError:  # not on Windows
    readline = None


def iter_statements(lines: Iterable[str]) -> Iterator[str]:
    """Splits lines into statements; a statement ends at a line that ends with a semicolon."""
    gathered = ""
    for line in lines:
        gathered += line
        if is_complete(gathered):
            yield gathered
            gathered = ""
    if gathered.strip():
        yield gathered


def is_complete(text: str) -> bool:
    """Whether the text ends with a semicolon outside quotes and comments."""
    rest = _QUOTED.sub("", text)
    return rest.rstrip().endswith(";") and _OPEN.search(rest) is None


class Prompt:
    """Reads statements from the user and executes them until the user quits."""

    def __init__(self, session: Session, execute: Callable[[str], None]) -> None:
        self._session = session
        self._execute = execute
        self._describe = f"DESCRIBE {session.source.example};"

    def ask_until_end(self) -> None:
        """Runs the prompt until the end of the input."""
        print_note(self._session.source.greeting)
        print_note(_HINT)
        _load_history()
        try:
            while (text := _ask()) is not None:
                self._answer(text)
        finally:
            _save_history()

    def _answer(self, text: str) -> None:
        command = text.strip().rstrip(";").rstrip()
        if command in _HELP_WORDS:
            for line in _HELP.format(describe=self._describe).splitlines():
                print_note(line)
        elif command.startswith((".", "\\")) and command != ".tables":
            print_note(_advice(command, self._describe))
        elif command:
            try:
                self._execute("SHOW TABLES" if command == ".tables" else text)
            except KeyboardInterrupt:
                print_note("interrupted")
            except OutputClosedError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends the statement and not the prompt
                print_error(error)


def _advice(command: str, describe: str) -> str:
    """The advice for an unknown command."""
    word, _, argument = command.partition(" ")
    name = word.rstrip("+")
    if name in _DESCRIBING and argument.strip():
        return f"{word} is no command here. Instead: DESCRIBE {argument.strip()};"
    if name in _INSTEAD:
        return f"{word} is no command here. Instead: {_INSTEAD[name].format(describe=describe)}"
    return f"{word} is no command here; .help says what there is"


def _ask() -> str | None:
    """The next statement or command; None at the end."""
    lines: list[str] = []
    while True:
        try:
            lines.append(input("hudi> " if not lines else "  ... "))
        except EOFError:
            sys.stdout.write("\n")
            return None
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            lines = []
            continue
        text = "\n".join(lines)
        word = text.strip()
        if lines[-1].strip() in _QUIT or word.rstrip(";") in _QUIT_AS_FIRST_LINE:
            return None
        if not word or word.startswith((".", "\\")) or word in _HELP_WORDS or is_complete(text):
            return text


def _load_history() -> None:
    if readline is not None:
        readline.set_history_length(_LINES_IN_HISTORY)
        with suppress(OSError):
            readline.read_history_file(_HISTORY.expanduser())


def _save_history() -> None:
    if readline is not None:
        with suppress(OSError):
            readline.write_history_file(_HISTORY.expanduser())


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
            help="A read option, in a folder of tables of all of them or of one: "
            "sales.orders:hudi_bridge.read.as.release=1.2; docs/options.md lists them. Repeatable.",
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
    with _session(table, as_of, option, payload, storage_option, meta_columns=not no_meta_columns) as (session, look):

        def run(text: str) -> None:
            session.run(text, lambda rows: write_rows(rows, destination, look=look))

        if statement is not None:
            run(statement)
        elif sys.stdin.isatty():
            Prompt(session, run).ask_until_end()
        else:
            for text in iter_statements(sys.stdin):
                run(text)


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
