"""An interactive SQL prompt. A semicolon ends a statement; errors do not end the prompt."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from hudi_bridge.cli.session import Session
from hudi_bridge.cli.sinks import OutputClosedError
from hudi_bridge.cli.terminal import print_error, print_note

readline: ModuleType | None
try:
    import readline
except ImportError:  # not on Windows
    readline = None

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
