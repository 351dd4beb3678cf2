"""``changes``: the changes of records in a range of commits, read once or followed until interrupted."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from hudi_bridge.changes.split import ChangeFormat
from hudi_bridge.cli import options
from hudi_bridge.cli.follow_state import FollowState, read_state, write_state
from hudi_bridge.cli.following import follow_changes
from hudi_bridge.cli.opening import open_table, rows_look
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError


def changes(
    table: options.Table,
    *,
    after: options.After = None,
    up_to: options.UpTo = None,
    limit: options.Limit = None,
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
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    state = read_state(state_file, opened.path) if state_file is not None else None
    begin = after if state is None else state.after
    if begin is None:
        raise QueryError("--after", "nothing", "the time after which changes count, or earliest")
    change_format = ChangeFormat.CDC if cdc else ChangeFormat.ROWS
    if follow:
        if up_to is not None:
            raise QueryError("--up-to", repr(up_to), "no end where changes are followed")
        start = state or FollowState(table=opened.path, after=begin, written_bytes=None)
        follow_changes(opened, change_format, destination, start, interval, state_file)
        return
    dataset = opened.changes(begin, up_to, format=change_format)
    rows = _Counted(dataset.to_batches())
    write_rows(
        pa.RecordBatchReader.from_batches(dataset.schema, iter(rows)), destination, limit=limit, look=rows_look(opened)
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
