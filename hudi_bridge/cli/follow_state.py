"""The position of a reader of changes, in a small JSON file that is replaced atomically."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hudi_bridge.cli.sinks import appearing
from hudi_bridge.errors import QueryError

_EXPECTED = "the state of changes of this table, as --state-file writes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowState:
    """The ``after`` to continue with, and the size of the output file at that point; None without an output file."""

    table: str
    after: str
    written_bytes: int | None


def read_state(path: Path, table: str) -> FollowState | None:
    """The state that ``write_state`` wrote for a table; None if the file does not exist.

    Raises:
        QueryError: the file holds the state of another table, or no state at all.
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
    """Replaces the file; a reader finds the old state or the new one, even after a crash.

    Raises:
        UnwritableFileError: the file cannot be written.
    """
    with appearing(path) as file:
        file.write(json.dumps(asdict(state)).encode())
        file.sync()
