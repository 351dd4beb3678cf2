"""Where a reader of changes stands: a small JSON file that is replaced as a whole."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hudi_bridge.cli.sinks import appearing
from hudi_bridge.errors import QueryError

_EXPECTED = "the state of changes of this table, as --state-file writes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowState:
    """The ``after`` to carry on with, and how many bytes of the output file were written by then, None without one."""

    table: str
    after: str
    written_bytes: int | None


def read_state(path: Path, table: str) -> FollowState | None:
    """What ``write_state`` wrote for a table, None if there is no such file yet.

    Raises:
        QueryError: the file holds something else, or the state of another table.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        state = FollowState(**json.loads(text))
        is_whole = isinstance(state.after, str) and (state.written_bytes is None or state.written_bytes >= 0)
    except (ValueError, TypeError) as error:
        raise QueryError("--state-file", f"{path}, which is no state ({error})", _EXPECTED) from error
    if not is_whole:
        raise QueryError("--state-file", f"{path}, which is no state", _EXPECTED)
    if state.table != table:
        raise QueryError("--state-file", f"{path}, the state of {state.table}", f"{_EXPECTED}, which is {table}")
    return state


def write_state(path: Path, state: FollowState) -> None:
    """Replace the file; whoever reads it, even after a crash, finds the old state or the new one.

    Raises:
        UnwritableFileError: it cannot be written.
    """
    with appearing(path) as file:
        file.write(json.dumps(asdict(state)).encode())
        file.sync()
