"""The Typer application with all commands of ``hudi-bridge``."""

from typing import Annotated

import typer
from rich.console import Console

from hudi_bridge import __version__
from hudi_bridge.cli.commands_later import SETTINGS, CommandPlace, group_of
from hudi_bridge.cli.names_of_tables import name_tables_as_in

_COMMANDS = {
    "info": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="info",
        help="What the table is: type, version, merge mode, keys, size.",
    ),
    "schema": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="schema",
        help="The columns and their Arrow types, or how they came to be.",
    ),
    "timeline": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="timeline",
        help="The instants of the active timeline, oldest first.",
    ),
    "show": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="show",
        help="What a commit has done: operation, rows, bytes, partitions, duration, the writer's extra metadata.",
    ),
    "slices": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="slices",
        help="The file slices that a snapshot reads, with the number and size of their files.",
    ),
    "splits": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="splits",
        help="The splits of a query: the files that one task reads together.",
    ),
    "metadata": CommandPlace(
        module="hudi_bridge.cli.metadata",
        name="metadata",
        help="The indexes in the metadata table, or the records of one of them.",
    ),
    "read": CommandPlace(
        module="hudi_bridge.cli.read",
        name="read",
        help="Read the rows of the newest snapshot, or with --after those that later commits have written.",
    ),
    "get": CommandPlace(
        module="hudi_bridge.cli.get",
        name="get",
        help="Look up the rows of record keys, with the indexes of the table.",
    ),
    "explain": CommandPlace(
        module="hudi_bridge.cli.explain",
        name="explain",
        help="What read would read with the same options: files found, ruled out by which index, and left to read.",
    ),
    "changes": CommandPlace(
        module="hudi_bridge.cli.changes",
        name="changes",
        help="How records have changed: inserts, updates with the images before and after, deletes.",
    ),
    "diff": CommandPlace(
        module="hudi_bridge.cli.diff",
        name="diff",
        help="Show which records differ between two instants, and how.",
    ),
    "sql": CommandPlace(
        module="hudi_bridge.cli.sql",
        name="sql",
        help="Run SQL on the table, which is called t and by its own name, or on all tables of a folder.",
    ),
    "trace": CommandPlace(
        module="hudi_bridge.cli.trace",
        name="trace",
        help="Show all versions of a record, with their values, why each wins or loses, and the resulting row.",
    ),
    "doctor": CommandPlace(
        module="hudi_bridge.cli.doctor",
        name="doctor",
        help="Examine a table, or all tables of a folder: what is damaged, stuck or costly, and what to do.",
    ),
    "report": CommandPlace(
        module="hudi_bridge.cli.report",
        name="report",
        help="Write a page about a table: timeline, file slices, compaction, schema, findings, stories of records.",
    ),
    "compare": CommandPlace(
        module="hudi_bridge.cli.compare",
        name="compare",
        help="Read a table, or all tables of a folder, here and by another reader, and show where the rows differ.",
    ),
    "serve": CommandPlace(
        module="hudi_bridge.cli.iceberg",
        name="serve_app",
        help="Serve tables to engines, live.",
    ),
    "publish": CommandPlace(
        module="hudi_bridge.cli.publish",
        name="publish_app",
        help="Write tables once in the form of other engines.",
    ),
    "trino": CommandPlace(
        module="hudi_bridge.cli.trino",
        name="trino_app",
        help="SQL for Trino and Presto, and which way there fits a table.",
    ),
}

app = typer.Typer(
    cls=group_of(_COMMANDS),
    help="Reads the true, current rows of Apache Hudi merge-on-read tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it with the option's value
    if wanted:
        Console().print(f"hudi-bridge {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    *,
    catalog: Annotated[
        str | None,
        typer.Option(
            "--catalog",
            envvar="HUDI_BRIDGE_CATALOG",
            metavar="URI",
            help="Tables are named as a catalog has them, such as sales.orders: hive://HOST:PORT, glue://REGION or "
            "rest:https://HOST/PATH.",
            show_default=False,
        ),
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from. Also: HUDI_BRIDGE_DEBUG=1.")
    ] = False,
) -> None:
    """Reads the true, current rows of Apache Hudi merge-on-read tables."""
    name_tables_as_in(catalog)
