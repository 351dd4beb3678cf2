"""Terminal output: escaped text, notes and errors on standard error, progress.

Rows and names are untrusted: their control characters could move the cursor or retitle the window.
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from hudi_bridge.common.operations import watching_work
from hudi_bridge.errors import QueryError
from hudi_bridge.timeline.instant import TIMES_OF_PYTHON

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_CONTROL_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_ARGUMENTS = {
    "a": "A",
    "after": "--after",
    "as_of": "--as-of",
    "b": "B",
    "file": "--file",
    "folder": "--to",
    "instant": "INSTANT",
    "keys": "KEY",
    "now": "--now",
    "options": "--option",
    "partition": "INDEX",
    "partition_path": "--partition",
    "record_key": "KEY",
    "storage_options": "--storage-option",
    "up_to": "--up-to",
}
"""What the command line calls the argument of a ``QueryError``, up to a colon if it has one."""
_TRACEBACK = re.compile(r"\.? (?:Detail: Python exception: Traceback|At:\n).*", re.DOTALL)


def escape_control(text: str, *, keep_lines: bool = False) -> str:
    """The text with control characters replaced by escapes; ``keep_lines`` keeps line breaks and tabs."""
    pattern = _CONTROL_BUT_LINES if keep_lines else _CONTROL
    return pattern.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def print_note(text: str) -> None:
    """Prints a note on standard error."""
    _print(Text(escape_control(text), style="dim"))


def print_error(error: BaseException) -> None:
    """Prints an error on standard error; an error of DuckDB includes its place in the statement."""
    text = _TRACEBACK.sub("", _sentence(error)).strip() or type(error).__name__
    if isinstance(error, (MemoryError, RecursionError, AssertionError, TypeError, AttributeError, LookupError)):
        text = f"{type(error).__name__}: {text}; this should not happen, --debug shows where"
    _print(Text.assemble(("hudi-bridge: ", "bold red"), escape_control(text, keep_lines=True)))


def _sentence(error: BaseException) -> str:
    if isinstance(error, QueryError):
        argument = error.argument.partition(":")[0]
        text = str(error).removesuffix(TIMES_OF_PYTHON)
        return text.replace(argument, _ARGUMENTS.get(argument, argument), 1)
    if type(error).__module__ == "builtins" and isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


@contextmanager
def counting_rows(batches: pa.RecordBatchReader, *, show: bool) -> Iterator[pa.RecordBatchReader]:
    """The same batches; shows the rows, file slices and bytes read on standard error, if ``show``, on a terminal."""
    if not (show and sys.stderr.isatty()):
        yield batches
        return
    columns = (SpinnerColumn(), TextColumn("{task.completed:,} rows{task.description}"), TimeElapsedColumn())
    with (
        Progress(*columns, console=_stderr(), transient=True) as progress,
        watching_work(lambda work: progress.update(task, description=f", {work}")),
    ):
        task = progress.add_task("", total=None)

        def counted() -> Iterator[pa.RecordBatch]:
            for batch in batches:
                progress.advance(task, batch.num_rows)
                yield batch

        yield pa.RecordBatchReader.from_batches(batches.schema, counted())


@contextmanager
def telling_progress() -> Iterator[Callable[[str, int, int], None]]:
    """A function that shows what is being done, how much of it is done and how much there is (0: not known).

    It shows that on standard error, if that is a terminal.
    """
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=_stderr(), transient=True) as progress:
        task = progress.add_task("", total=None)

        def tell(what: str, done: int, total: int) -> None:
            of_total = f"/{total:,}" if total else ""
            number = f" {done:,}{of_total}" if done else ""
            progress.update(task, description=escape_control(what) + number)

        yield tell


@contextmanager
def telling_work(what: str) -> Iterator[None]:
    """Shows how many file slices are done within, and how many bytes, like ``telling_progress``."""
    if not sys.stderr.isatty():
        yield
        return
    with telling_progress() as tell, watching_work(lambda work: tell(f"{what}: {work}", 0, 0)):
        yield


def _print(text: Text) -> None:
    _stderr().print(text, soft_wrap=True)


def _stderr() -> Console:
    return Console(stderr=True, highlight=False)
