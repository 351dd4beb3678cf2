"""Runs the command line and turns every way in which it can end into an exit code.

0  all went well, or the reader of the output has had enough
1  it could not be done: no table, one that cannot be read, SQL that fails, a file that cannot be written
2  called in a wrong way: a command, an option or an argument that there is not, or a value that it cannot have
130  Ctrl-C
"""

import gc
import os
import sys
from collections.abc import Sequence

from hudi_bridge.errors import InstantNotReadableError, QueryError
from hudi_bridge.waiting import has_abandoned_call

try:
    from hudi_bridge.cli import terminal
    from hudi_bridge.cli.app import app
    from hudi_bridge.cli.sinks import OutputClosedError
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("duckdb", "rich", "typer"):
        raise
    sys.exit(f"hudi-bridge: {missing} is not installed; the command line needs: pip install 'hudi-bridge[cli]'")

FAILED = 1
WRONG_CALL = 2
INTERRUPTED = 130

_DEBUG = "--debug"
_NOT_OF_THE_CALL = ("table", "publication")
"""What errors of a query are about that no other call would mend: a table without columns, a publication in pieces."""


def main() -> None:
    """Run the command line of this process, and end it."""
    code = run(sys.argv[1:])
    # A connection that hangs on to a cycle of an error and its frames would have DuckDB complain when Python ends.
    gc.collect()
    if has_abandoned_call():
        # Arrow would have the end of the process wait for calls to a store that does not answer.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """The exit code of a command line; ``--debug`` may stand anywhere in it."""
    debug = _DEBUG in arguments or bool(os.environ.get("HUDI_BRIDGE_DEBUG"))
    try:
        app([one for one in arguments if one != _DEBUG], prog_name="hudi-bridge")
    except SystemExit as ending:
        # Typer ends on its own after every command, with 2 for wrong usage.
        return ending.code if isinstance(ending.code, int) else FAILED
    except OutputClosedError:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        terminal.print_error(error)
        return WRONG_CALL if _is_wrong_call(error) else FAILED
    return 0


def _is_wrong_call(error: Exception) -> bool:
    """Whether an option or argument has a value that it cannot have; an instant may be right, and its files gone."""
    if isinstance(error, InstantNotReadableError):
        return False
    return isinstance(error, QueryError) and error.argument not in _NOT_OF_THE_CALL
