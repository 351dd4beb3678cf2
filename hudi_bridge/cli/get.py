"""``get``: the rows of record keys."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import (
    note_empty_past,
    note_if_planned_again,
    open_table,
    require_newest,
    rows_look,
)
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.read import column_names
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.replanning import OnFilesGone

_STANDARD_INPUT = "-"


def get(
    table: options.Table,
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY...",
            help="Record keys, as in _hoodie_record_key; of several fields: field:value,field:value.",
            show_default=False,
        ),
    ] = None,
    *,
    keys_from: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A file with a key in each line; - is standard input.", show_default=False),
    ] = None,
    columns: options.Columns = None,
    partition: Annotated[
        str | None, typer.Option(metavar="PATH", help="Search this partition only.", show_default=False)
    ] = None,
    as_of: options.AsOf = None,
    on_files_gone: options.FilesGone = OnFilesGone.ERROR,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Look up the rows of record keys, with the indexes of the table.

    The exit code is 1 if none of the keys has a row.
    """
    if not keys and keys_from is None:
        raise QueryError("KEY", "no key", "record keys, or --keys-from FILE")
    require_newest(on_files_gone, {"--as-of": as_of})
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    wanted = [*(keys or ()), *(_lines(keys_from) if keys_from is not None else ())]
    opened = open_table(table, option, payload, storage_option)
    dataset = opened.query(as_of, on_files_gone=on_files_gone)
    instant = dataset.instant
    rows = dataset.get(wanted, column_names(columns, dataset), partition_path=partition)
    write_rows(rows.to_reader(), destination, limit=rows.num_rows, look=rows_look(opened))
    note_if_planned_again(dataset, instant)
    if not rows.num_rows:
        print_note(f"no row as of {dataset.instant} for {_counted(len(set(wanted)))}")
        note_empty_past(opened, as_of)
        raise typer.Exit(1)


def _lines(path: str) -> list[str]:
    try:
        text = sys.stdin.read() if path == _STANDARD_INPUT else Path(path).read_text(encoding="utf-8")
        # Some programs begin a text with a byte order mark.
        lines = text.removeprefix("\ufeff").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError("--keys-from", f"{path}: {error}", "a file of text in UTF-8") from error
    return [key for line in lines if (key := line.removesuffix("\r"))]


def _counted(keys: int) -> str:
    return "the key" if keys == 1 else f"{keys:,} keys"
