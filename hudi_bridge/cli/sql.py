"""``sql``: SQL over a table or all tables of a folder, from the command line, a pipe or a prompt."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from hudi_bridge.catalogs.uris import is_catalog_uri
from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.names_of_tables import path_of
from hudi_bridge.cli.opening import load_payloads, note_empty_past, open_table, parse_storage_options, rows_look
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.prompt import Prompt, iter_statements
from hudi_bridge.cli.session import Session, open_lake_session, open_session
from hudi_bridge.connectors.lakes.merge_settings import MergingByTable
from hudi_bridge.connectors.lakes.roots import Roots, is_folder_of_tables
from hudi_bridge.storage import Storage


def sql(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="The table's folder, or a folder of tables: a path, or a URI (s3://, gs://, abfs://, hdfs://).",
            show_default=False,
        ),
    ],
    statement: Annotated[
        str | None,
        typer.Argument(
            metavar="[SQL]",
            help="The statement to run; without it, statements come from a prompt or a pipe.",
            show_default=False,
        ),
    ] = None,
    *,
    as_of: options.AsOf = None,
    option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[TABLE:]NAME=VALUE",
            help="A read option, in a folder of tables of all of them or of one: "
            "sales.orders:hudi_bridge.read.as.release=1.2; docs/options.md lists them. Repeatable.",
            show_default=False,
        ),
    ] = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Run SQL on the table, which is called t and by its own name, or on all tables of a folder."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    with _session(table, as_of, option, payload, storage_option) as (session, look):

        def run(text: str) -> None:
            session.run(text, lambda rows: write_rows(rows, destination, look=look))

        if statement is not None:
            run(statement)
        elif sys.stdin.isatty():
            Prompt(session, run).ask_until_end()
        else:
            for text in iter_statements(sys.stdin):
                run(text)


@contextmanager
def _session(
    path: str,
    as_of: str | None,
    option: list[str] | None,
    payload: list[str] | None,
    storage_option: list[str] | None,
) -> Iterator[tuple[Session, Look]]:
    named = path_of(path)
    # What a catalog names is a table.
    folder = None if is_catalog_uri(named) else Storage.open(named, options=parse_storage_options(storage_option))
    if folder is not None and is_folder_of_tables(folder):
        roots = Roots(folders=(folder,), tables={})
        merging = MergingByTable.parse(option or [], load_payloads(payload), roots.find_by_name)
        with open_lake_session(roots, merging, as_of) as session:
            yield session, Look(keep=("_hoodie_record_key",))
        return
    table = open_table(path, option, payload, storage_option)
    note_empty_past(table, as_of)
    with open_session(table, as_of) as session:
        yield session, rows_look(table)
