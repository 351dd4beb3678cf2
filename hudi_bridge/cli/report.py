"""``report``: a page about a table, in one file."""

import sys
from typing import Annotated

import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.sinks import open_sink
from hudi_bridge.cli.terminal import print_note, telling_progress
from hudi_bridge.errors import QueryError
from hudi_bridge.report import gather, html_report


def report(
    table: options.Table,
    *,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Tell the story of this record key, as in _hoodie_record_key. Repeatable.",
            show_default=False,
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read all rows and indexes, too, for findings as of doctor --deep.")
    ] = False,
    now: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The time by which something is too old. Default: now.", show_default=False),
    ] = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Write a page about a table: timeline, file slices, compaction, schema, findings, stories of records.

    The page is one HTML file that loads nothing. Nothing of the table is changed.
    """
    if output is None and sys.stdout.isatty():
        raise QueryError("--output", "a terminal", "a file for the page, such as -o report.html")
    opened = open_table(table, option, payload, storage_option)
    with telling_progress() as tell:
        gathered = gather(opened, key or (), deep=deep, now=now, progress=tell)
    for story in gathered.stories:
        if not story.file_groups:
            print_note(f"{story.record_key} is not in the table as of {story.instant}")
    with open_sink(output, no_clobber=no_clobber) as sink:
        sink.write(html_report(gathered).encode())
