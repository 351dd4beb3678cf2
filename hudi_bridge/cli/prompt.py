"""The prompt of ``sql``: reads statements from a terminal, completes names, and answers commands that begin with a dot.

A semicolon ends a statement. Errors and Ctrl-C end a statement and not the prompt.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hudi_bridge.cli.output import Destination, Format, OutputClosedError
from hudi_bridge.cli.terminal import escape_control, print_error, print_note
from hudi_bridge.connectors.duckdb import quote_identifier
from hudi_bridge.errors import QueryError

if TYPE_CHECKING:
    from hudi_bridge.cli.sql import Results, Session

readline: ModuleType | None
try:
    import readline
except ImportError:  # not on Windows
    readline = None

_HISTORY = Path("~/.hudi_bridge_history")
_LINES_IN_HISTORY = 1000
_COMMANDS = (".help", ".mode", ".quit", ".tables", ".timer")
_QUIT = (".quit", ".exit", r"\q")
_QUIT_AS_FIRST_LINE = ("quit", "exit")
_HINT = "SQL ends with a semicolon, Tab completes names. .help says more, .quit or Ctrl-D ends."
_HELP_WORDS = (".help", "help", r"\?", r"\h")
_HELP = """\
SELECT ...;   SQL of DuckDB, in one line or more, up to a semicolon; Tab completes names
{describe:13} the columns of a table or view
.tables       what can be queried, as SHOW TABLES; does
.mode FORMAT  how rows are shown: {modes}
.timer on     how long each statement took; off ends that
.help         this text
.quit         ends, and so does Ctrl-D; Ctrl-C drops what has been typed, or stops a query
"""
_MODES = (Format.TABLE, Format.CSV, Format.SPREADSHEET, Format.JSON)
_MODE_NAMES = f"{', '.join(_MODES[:-1])} or {_MODES[-1]}"
_FROM_FILE = "hudi-bridge sql TABLE < FILE, outside of this prompt"
_TO_FILE = "the options --output and --format of hudi-bridge sql"
_INSTEAD = {
    r"\d": "SHOW TABLES; or {describe}",
    r"\dt": "SHOW TABLES;",
    r"\dv": "SHOW TABLES;",
    r"\l": "SHOW TABLES;",
    r"\i": _FROM_FILE,
    r"\o": _TO_FILE,
    r"\timing": ".timer on",
    ".schema": "{describe}",
    ".read": _FROM_FILE,
    ".output": _TO_FILE,
}
"""Replacements for commands of psql and the DuckDB shell."""
_DESCRIBING = (r"\d", ".schema")
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1""",
    re.DOTALL,
)
_OPEN = re.compile(r"""['"]|/\*|\$\w*\$""")
_BARE = re.compile("[a-z_][a-z0-9_]*")
_BETWEEN_NAMES = " \t\n()[]{},;<>=+-*/%|&!:'"
_TABLES = """
SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal
UNION SELECT schema_name, table_name FROM duckdb_tables() WHERE NOT internal"""
_COLUMNS = "SELECT DISTINCT column_name FROM duckdb_columns() WHERE NOT internal"


def iter_statements(lines: Iterable[str]) -> Iterator[str]:
    """Splits lines into texts that end at a line that ends with a semicolon."""
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


class Completion:
    """What Tab completes: commands of the prompt, tables, columns and keywords."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._keywords: dict[str, str] = {}

    def names_like(self, word: str, before: str) -> list[str]:
        """What may stand for an unfinished word, after the text ``before`` it; tables of the text are opened."""
        if word.startswith(".") and not before.strip():
            return [command for command in _COMMANDS if command.startswith(word)]
        with suppress(Exception):
            self._session.source.prepare(before)
        qualifier, dot, rest = word.rpartition(".")
        names = dict.fromkeys(name for name in (*self._tables(), *self._columns()) if _begins(name, word))
        if dot:
            names |= dict.fromkeys(f"{qualifier}.{name}" for name in self._columns() if _begins(name, rest))
        else:
            keywords = (name if word.islower() else name.upper() for name in self._keyword_categories())
            names |= dict.fromkeys(keyword for keyword in keywords if _begins(keyword, word))
        # Names are not to move the cursor.
        return [name for name in names if escape_control(name) == name]

    def _tables(self) -> Iterator[str]:
        yield from self._session.source.tables()
        for schema, name in self._session.connection.execute(_TABLES).fetchall():
            yield ".".join(map(self._spelled, (name,) if schema == "main" else (schema, name)))

    def _columns(self) -> Iterator[str]:
        for (name,) in self._session.connection.execute(_COLUMNS).fetchall():
            yield self._spelled(name)

    def _spelled(self, name: str) -> str:
        is_bare = _BARE.fullmatch(name) and self._keyword_categories().get(name) != "reserved"
        return name if is_bare else quote_identifier(name)

    def _keyword_categories(self) -> dict[str, str]:
        if not self._keywords:
            query = "SELECT keyword_name, keyword_category FROM duckdb_keywords()"
            self._keywords = dict(self._session.connection.execute(query).fetchall())
        return self._keywords


def _begins(name: str, word: str) -> bool:
    return name.lower().startswith(word.lower())


class Prompt:
    """Reads statements from the user and executes them until the user quits."""

    def __init__(self, session: "Session", results: "Results") -> None:
        self._session = session
        self._results = results
        self._describe = f"DESCRIBE {session.source.example};"
        self._completion = Completion(session)
        self._lines: list[str] = []
        self._names: list[str] = []
        self._is_timed = False

    def ask_until_end(self) -> None:
        """Runs the prompt until the end of the input."""
        print_note(self._session.source.greeting)
        print_note(_HINT)
        self._set_up_readline()
        try:
            while (text := self._ask()) is not None:
                self._answer(text)
        finally:
            _save_history()

    def _answer(self, text: str) -> None:
        command = text.strip().rstrip(";").rstrip()
        word, _, argument = command.partition(" ")
        if command in _HELP_WORDS:
            for line in _HELP.format(describe=self._describe, modes=_MODE_NAMES).splitlines():
                print_note(line)
        elif word == ".mode":
            self._catching_errors(lambda: self._set_mode(argument.strip()))
        elif word == ".timer":
            self._catching_errors(lambda: self._set_timer(argument.strip()))
        elif command.startswith((".", "\\")) and command != ".tables":
            print_note(_advice(command, self._describe))
        elif command:
            self._execute("SHOW TABLES" if command == ".tables" else text)

    def _execute(self, text: str) -> None:
        begin = time.perf_counter()
        self._catching_errors(lambda: self._session.run(text, self._results))
        if self._is_timed:
            print_note(f"{time.perf_counter() - begin:.3f} s")

    def _catching_errors(self, act: Callable[[], None]) -> None:
        try:
            act()
        except KeyboardInterrupt:
            print_note("interrupted")
        except OutputClosedError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the statement and not the prompt
            print_error(error)

    def _set_mode(self, name: str) -> None:
        destination = self._results.destination
        if not name:
            print_note(f".mode is {destination.format}")
            return
        if name not in _MODES:
            raise QueryError(".mode", repr(name), _MODE_NAMES)
        if destination.path is not None:
            raise QueryError(".mode", f"{name} for {destination.path}", "a prompt without --output")
        self._results.destination = Destination(format=Format(name), path=None)
        self._results.draws_plans = name == Format.TABLE

    def _set_timer(self, state: str) -> None:
        if state not in ("on", "off", ""):
            raise QueryError(".timer", repr(state), "on or off")
        if state:
            self._is_timed = state == "on"
        else:
            print_note(f".timer is {'on' if self._is_timed else 'off'}")

    def _ask(self) -> str | None:
        """The next statement or command; None at the end."""
        self._lines = []
        while True:
            try:
                self._lines.append(input("hudi> " if not self._lines else "  ... "))
            except EOFError:
                sys.stdout.write("\n")
                return None
            except KeyboardInterrupt:
                sys.stdout.write("\n")
                self._lines = []
                continue
            text = "\n".join(self._lines)
            word = text.strip()
            if self._lines[-1].strip() in _QUIT or word.rstrip(";") in _QUIT_AS_FIRST_LINE:
                return None
            if not word or word.startswith((".", "\\")) or word in _HELP_WORDS or is_complete(text):
                return text

    def _set_up_readline(self) -> None:
        if readline is None:
            return
        readline.set_history_length(_LINES_IN_HISTORY)
        with suppress(OSError):
            readline.read_history_file(_HISTORY.expanduser())
        readline.set_completer(self._complete)
        readline.set_completer_delims(_BETWEEN_NAMES)
        is_libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")

    def _complete(self, word: str, number: int) -> str | None:
        """As readline asks: names with the numbers 0, 1, …, and None after the last."""
        if number == 0:
            assert readline is not None
            line = readline.get_line_buffer()[: readline.get_begidx()]
            try:
                self._names = self._completion.names_like(word, "\n".join((*self._lines, line)))
            except Exception:  # noqa: BLE001 - a transaction that has failed, a folder that cannot be listed
                self._names = []
        return self._names[number] if number < len(self._names) else None


def _advice(command: str, describe: str) -> str:
    """The advice for an unknown command."""
    word, _, argument = command.partition(" ")
    name = word.rstrip("+")
    if name in _DESCRIBING and argument.strip():
        return f"{word} is no command here. Instead: DESCRIBE {argument.strip()};"
    if name in _INSTEAD:
        return f"{word} is no command here. Instead: {_INSTEAD[name].format(describe=describe)}"
    return f"{word} is no command here; .help says what there is"


def _save_history() -> None:
    if readline is not None:
        with suppress(OSError):
            readline.write_history_file(_HISTORY.expanduser())
