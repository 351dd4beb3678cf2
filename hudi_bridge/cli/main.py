"""Runs the command line and turns every way in which it can end into an exit code.

0  all went well, or the reader of the output has had enough
1  the question was wrong: options, SQL, not a table, a table that cannot be read correctly
2  the table is damaged, a file of it is gone, or its files cannot be reached
130  Ctrl-C
"""

import gc
import os
import sys
from collections.abc import Sequence

from hudi_bridge.errors import HudiReadError, QueryError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.waiting import is_left_behind

try:
    from hudi_bridge.cli import terminal
    from hudi_bridge.cli.app import app
    from hudi_bridge.cli.sinks import OutputClosedError
except ModuleNotFoundError as error:
    missing = (error.name or "").partition(".")[0]
    if missing not in ("duckdb", "rich", "typer"):
        raise
    sys.exit(f"hudi-bridge: {missing} is not installed; the command line needs: pip install 'hudi-bridge[cli]'")

USER_ERROR = 1
DAMAGED_TABLE = 2
INTERRUPTED = 130

_DEBUG = "--debug"
_USER_ERRORS = (QueryError, TableNotFoundError, UnsupportedTableError)


def main() -> None:
    """Run the command line of this process, and end it."""
    code = run(sys.argv[1:])
    # A connection that hangs on to a cycle of an error and its frames would have DuckDB complain when Python ends.
    gc.collect()
    if is_left_behind():
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
        if ending.code == INTERRUPTED:
            return INTERRUPTED
        return USER_ERROR if ending.code else 0
    except OutputClosedError:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        if debug:
            raise
        terminal.print_error(error)
        return DAMAGED_TABLE if isinstance(error, HudiReadError) and not isinstance(error, _USER_ERRORS) else USER_ERROR
    return 0
