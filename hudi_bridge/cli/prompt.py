"""A prompt for SQL: lines are gathered until a semicolon ends them, errors do not end it."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import duckdb
import pyarrow as pa

from hudi_bridge.cli.session import SHORT_NAME, Session
from hudi_bridge.cli.terminal import print_error, print_note
from hudi_bridge.errors import HudiReadError

readline: ModuleType | None
try:
    import readline
except ImportError:  # not on Windows
    readline = None

_HISTORY = Path("~/.hudi_bridge_history")
_LINES_IN_HISTORY = 1000
_QUIT = (".quit", ".exit")
_HELP = "SQL ends with a semicolon. .tables lists what can be queried, .quit or Ctrl-D ends."
_QUOTED = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|(\$\w*\$).*?\1""",
    re.DOTALL,
)
_OPEN = re.compile(r"""['"]|/\*|\$\w*\$""")


def iter_statements(lines: Iterable[str]) -> Iterator[str]:
    """The statements in lines of text, each of which ends at a line whose last character is a semicolon."""
    gathered = ""
    for line in lines:
        gathered += line
        if is_complete(gathered):
            yield gathered
            gathered = ""
    if gathered.strip():
        yield gathered


def is_complete(text: str) -> bool:
    """Whether the text ends with a semicolon that is not inside of quotes or a comment."""
    rest = _QUOTED.sub("", text)
    return rest.rstrip().endswith(";") and _OPEN.search(rest) is None


class Prompt:
    """Asks for statements and hands them on until the user has had enough."""

    def __init__(self, session: Session, execute: Callable[[str], None]) -> None:
        self._session = session
        self._execute = execute

    def ask_until_end(self) -> None:
        """Ask until the end of the input."""
        attached = self._session.attached
        print_note(f"{attached.table.config.name} as of {attached.instant}, here named {attached.name} or {SHORT_NAME}")
        print_note(_HELP)
        _load_history()
        try:
            while (text := _ask()) is not None:
                self._answer(text)
        finally:
            _save_history()

    def _answer(self, text: str) -> None:
        command = text.strip().rstrip(";")
        if command == ".help":
            print_note(_HELP)
        elif command.startswith(".") and command != ".tables":
            print_note(f"{command} is no command. {_HELP}")
        elif command:
            try:
                self._execute("SHOW TABLES" if command == ".tables" else text)
            except (HudiReadError, duckdb.Error, pa.ArrowException, OSError) as error:
                print_error(error)
            except KeyboardInterrupt:
                print_note("interrupted")


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
        if lines[-1].strip() in _QUIT:
            return None
        if not text.strip() or text.startswith(".") or is_complete(text):
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
