"""``changes``: the changes of records in a range of commits, read once or followed until interrupted.

Following polls for new commits. Its position is in a small JSON file that is replaced atomically; output is flushed
before that. After a kill in between, an output file is truncated to the size in the state; in a pipe, changes repeat.
"""

import json
import os
import signal
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Annotated

import pyarrow as pa
import typer

from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.cli import options
from hudi_bridge.cli.grid import print_grid
from hudi_bridge.cli.opening import open_table, rows_look
from hudi_bridge.cli.output import (
    Destination,
    Format,
    OutputFile,
    Sink,
    StandardOutput,
    appearing,
    naming,
    refuse_existing,
    write_rows,
    write_stream,
)
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.scanner import BatchScanner
from hudi_bridge.table import HudiTable

_EXPECTED = "the state of changes of this table, as --state-file writes it"
_FILE_FORMATS = (Format.CSV, Format.SPREADSHEET, Format.JSON)
_PIPE_FORMATS = (Format.TABLE, Format.CSV, Format.SPREADSHEET, Format.JSON, Format.ARROW)


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


def follow_changes(
    table: HudiTable,
    change_format: ChangeFormat,
    destination: Destination,
    state: FollowState,
    interval: float,
    state_file: Path | None,
    *,
    meta_columns: bool = True,
) -> None:
    """Writes the changes after a state, then new ones as they are committed, until Ctrl-C or SIGTERM.

    The current poll is completed first; a second Ctrl-C interrupts it.

    Raises:
        QueryError: output in this format cannot be appended to.
        InstantNotReadableError: files of changes were cleaned before they were read.
    """
    possible = _PIPE_FORMATS if destination.path is None else _FILE_FORMATS
    if destination.format not in possible:
        raise QueryError("--format", f"{destination.format}, which cannot be carried on with", " or ".join(possible))
    with _stopping() as stopped, _open(destination, state) as (sink, written_bytes):
        following = _Following(
            table=table,
            change_format=change_format,
            state=replace(state, written_bytes=written_bytes),
            interval=interval,
            state_file=state_file,
            sink=sink,
            stopped=stopped,
            meta_columns=meta_columns,
        )
        if destination.format is Format.TABLE:
            for rows in following.looks():
                print_grid(rows.to_table())
            return
        schema = table.changes(state.after, format=change_format).scanner(meta_columns=meta_columns).projected_schema
        with closing(following.batches(schema, is_typed=destination.format is Format.ARROW)) as batches:
            write_stream(batches, schema, sink, destination.format, begins=not written_bytes)


class _Following:
    """Polls the table and keeps the state."""

    def __init__(
        self,
        *,
        table: HudiTable,
        change_format: ChangeFormat,
        state: FollowState,
        interval: float,
        state_file: Path | None,
        sink: Sink,
        stopped: "_Stop",
        meta_columns: bool,
    ) -> None:
        self._meta_columns = meta_columns
        self._table = table
        self._change_format = change_format
        self._state = state
        self._interval = interval
        self._state_file = state_file
        self._sink = sink
        self._stopped = stopped

    def looks(self) -> Iterator[BatchScanner]:
        """The changes of each poll that found commits; the caller must write them before it asks for the next."""
        while True:
            dataset = self._table.changes(self._state.after, format=self._change_format)
            if dataset.next_after != self._state.after:
                yield dataset.scanner(meta_columns=self._meta_columns)
                self._written(str(dataset.next_after))
            if self._stopped.wait(self._interval):
                return
            self._table = self._table.refresh()

    def batches(self, schema: pa.Schema, *, is_typed: bool) -> Generator[pa.RecordBatch, None, None]:
        """The changes of all polls.

        Raises:
            QueryError: the columns have changed, and the format (``is_typed``) states their types at its start.
        """
        for rows in self.looks():
            if is_typed and rows.projected_schema != schema:
                raise QueryError(
                    "--follow", "columns that have changed", "the same ones; carry on with the next --after"
                )
            yield from rows.to_batches()

    def _written(self, after: str) -> None:
        self._sink.flush()
        written_bytes = None
        if self._state.written_bytes is not None:
            self._sink.sync()
            written_bytes = self._sink.tell()
        self._state = replace(self._state, after=after, written_bytes=written_bytes)
        if self._state_file is not None:
            write_state(self._state_file, self._state)


@contextmanager
def _open(destination: Destination, state: FollowState) -> Iterator[tuple[Sink, int | None]]:
    """The sink and its current size; an existing file is truncated to the size in the state, if it has one."""
    path = destination.path
    if path is None:
        output = StandardOutput()
        yield output, None
        output.flush()
        return
    if destination.no_clobber and state.written_bytes is None:
        refuse_existing(path)
    with OutputFile(path, "r+b" if path.exists() else "w+b", path) as file:
        with naming(path):
            end = file.seek(0, os.SEEK_END)
        if state.written_bytes is not None and path.is_file():
            if end < state.written_bytes:
                expected = f"the {state.written_bytes} bytes that were written by the state"
                raise QueryError("--output", f"{path} of {end} bytes", expected)
            end = file.seek(state.written_bytes)
            file.truncate()
        yield file, end


class _Stop:
    """A flag for signal handlers. ``threading.Event`` takes a lock, so setting it in a handler could deadlock."""

    def __init__(self) -> None:
        self._signals: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Sets the flag."""
        self._signals.put(None)

    def is_set(self) -> bool:
        """Whether the flag is set."""
        return not self._signals.empty()

    def wait(self, seconds: float) -> bool:
        """Waits for the flag; returns whether it was set within ``seconds``."""
        try:
            self._signals.get(timeout=seconds)
        except Empty:
            return False
        self._signals.put(None)
        return True


@contextmanager
def _stopping() -> Iterator[_Stop]:
    """Yields a flag that SIGINT and SIGTERM set; a second Ctrl-C raises KeyboardInterrupt."""
    stopped = _Stop()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopped.is_set() and number == signal.SIGINT:
            signal.default_int_handler(number, frame)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def changes(
    table: options.Table,
    *,
    after: options.After = None,
    up_to: options.UpTo = None,
    limit: options.Limit = None,
    no_meta_columns: Annotated[
        bool, typer.Option("--no-meta-columns", help="Leave Hudi's own columns out of the images.")
    ] = False,
    completion_times: options.CompletionTimes = False,
    cdc: Annotated[bool, typer.Option("--cdc", help="Return images as JSON, as Hudi's cdc queries do.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for further changes until interrupted.")] = False,
    interval: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="With --follow: how often to check for new commits.")
    ] = 10.0,
    state_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Continue after the range recorded in this file, if it exists, and record the new range.",
            show_default=False,
        ),
    ] = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """How records have changed: inserts, updates with the images before and after, deletes."""
    if limit is not None and (follow or state_file is not None):
        keeper = "--follow" if follow else "--state-file"
        raise QueryError("--limit", str(limit), f"no limit with {keeper}, which would pass over the changes left out")
    if cdc and no_meta_columns:
        raise QueryError("--no-meta-columns", "--cdc, whose images are JSON as Hudi has it", "one of the two")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option, completion_times=completion_times)
    state = read_state(state_file, opened.path) if state_file is not None else None
    begin = after if state is None else state.after
    if begin is None:
        raise QueryError("--after", "nothing", "the time after which changes count, or earliest")
    change_format = ChangeFormat.CDC if cdc else ChangeFormat.ROWS
    if follow:
        if up_to is not None:
            raise QueryError("--up-to", repr(up_to), "no end where changes are followed")
        start = state or FollowState(table=opened.path, after=begin, written_bytes=None)
        follow_changes(
            opened, change_format, destination, start, interval, state_file, meta_columns=not no_meta_columns
        )
        return
    dataset = opened.changes(begin, up_to, format=change_format)
    scanner = dataset.scanner(meta_columns=not no_meta_columns)
    rows = _Counted(scanner.to_batches())
    write_rows(
        pa.RecordBatchReader.from_batches(scanner.projected_schema, iter(rows)),
        destination,
        limit=limit,
        look=rows_look(opened),
    )
    if limit is not None and not (rows.ended and rows.count <= limit):
        print_note(
            f"--limit {limit}: further changes of the range, which ends at {dataset.next_after}, may be left out"
        )
        return
    if state_file is not None:
        write_state(state_file, FollowState(table=opened.path, after=str(dataset.next_after), written_bytes=None))
    print_note(f"the range that follows begins with --after {dataset.next_after}")


class _Counted:
    """Counts the rows of batches during iteration; ``ended`` is true once all batches have been read."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.count = 0
        self.ended = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.count += batch.num_rows
            yield batch
        self.ended = True
