"""Runs the command line and maps its outcome to an exit code.

0  success, or the reader of the output closed the pipe
1  failure: an unreadable table, a failed SQL statement, a file that cannot be written
2  usage error
3  ``doctor`` has found warnings, and no errors
130  Ctrl-C
"""

import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hudi_bridge.common.imports import how_to_install
from hudi_bridge.common.threads import has_abandoned_call
from hudi_bridge.errors import InstantNotReadableError, QueryError

FAILED = 1
WRONG_CALL = 2
INTERRUPTED = 130
_DEBUG = "--debug"
_CATALOG = "--catalog"
_WITH_ITS_OWN = "trino"
"""The command whose option ``--catalog`` is a catalog of Trino."""
_NOT_USAGE_ERRORS = ("table", "publication")
"""Arguments of a QueryError that is no usage error: a table without columns, an incomplete publication."""


def _exit_if_of_extra(error: ModuleNotFoundError) -> None:
    """Ends with a message if the missing module is one that the command line needs."""
    missing = (error.name or "").partition(".")[0]
    if missing in ("duckdb", "rich", "typer"):
        sys.exit(f"hudi-bridge: {missing} is not installed; the command line needs: {how_to_install('cli')}")


# Arrow's own allocator, where the package does not choose the C library's, is not to ask Linux for huge pages.
os.environ.setdefault("MIMALLOC_ALLOW_THP", "0")

try:
    from hudi_bridge.cli import terminal
    from hudi_bridge.cli.app import app
    from hudi_bridge.cli.output import OutputClosedError, noticing_closed_pipe
except ModuleNotFoundError as error:
    _exit_if_of_extra(error)
    raise


def main() -> None:
    """Runs the command line of this process and exits."""
    if sys.stdout is None:
        # It was closed (``>&-``).
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for the whole process
    code = run(sys.argv[1:])
    with suppress(OutputClosedError), noticing_closed_pipe():
        sys.stdout.flush()
    # DuckDB complains at exit about a connection that a reference cycle of an error and its frames keeps alive.
    gc.collect()
    if has_abandoned_call():
        # A normal exit would wait for Arrow's calls to a store that does not answer.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs a command line and returns its exit code; ``--debug`` and ``--catalog`` may stand anywhere in it."""
    debug = _DEBUG in arguments or bool(os.environ.get("HUDI_BRIDGE_DEBUG"))
    try:
        app(_options_of_all_first([argument for argument in arguments if argument != _DEBUG]), prog_name="hudi-bridge")
    except SystemExit as ending:
        # Typer and Rich exit with 1 if the reader of the output has gone.
        if isinstance(ending.__context__, BrokenPipeError):
            return 0
        # Typer exits after every command, with 2 for a usage error.
        return ending.code if isinstance(ending.code, int) else FAILED
    except OutputClosedError:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, ModuleNotFoundError):
            _exit_if_of_extra(error)
        if debug:
            raise
        terminal.print_error(error)
        return WRONG_CALL if _is_wrong_call(error) else FAILED
    return 0


def _options_of_all_first(arguments: Sequence[str]) -> list[str]:
    position = next(
        (position for position, argument in enumerate(arguments) if argument.split("=")[0] == _CATALOG), None
    )
    if position is None or arguments[0] == _WITH_ITS_OWN:
        return list(arguments)
    end = position + (1 if "=" in arguments[position] else 2)
    return [*arguments[position:end], *arguments[:position], *arguments[end:]]


def _is_wrong_call(error: Exception) -> bool:
    """Whether an option or argument has an invalid value. An instant whose files were removed is not invalid."""
    if isinstance(error, InstantNotReadableError):
        return False
    return isinstance(error, QueryError) and error.argument not in _NOT_USAGE_ERRORS
