"""The Typer application with all commands of ``hudi-bridge``.

A command's module is imported when it is called: the list of all commands needs no more than their names. Typer by
itself imports all commands of a group at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from hudi_bridge import __version__
from hudi_bridge.cli.options import name_tables_as_in

SETTINGS = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlace:
    """Where a command is: ``name`` in a module is its function, or a ``Typer`` with commands below it.

    ``help`` is the first paragraph of its help.
    """

    module: str
    name: str
    help: str

    def load(self, name: str) -> Any:  # noqa: ANN401 - of Typer, or of Click before
        """The command, imported."""
        command = getattr(import_module(self.module), self.name)
        if isinstance(command, typer.Typer):
            group = get_group(command)
            group.name = name
            for below, single in group.commands.items():
                single.epilog = _epilog(f"{name} {below}")
            return group
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        alone.command(name, context_settings=SETTINGS, epilog=_epilog(name))(command)
        return get_command(alone)


def group_of(commands: Mapping[str, CommandPlace]) -> type[TyperGroup]:
    """A class of groups with the commands at these places, in their order."""
    return type("CommandsLater", (_CommandsLater,), {"places": commands})


class _CommandsLater(TyperGroup):
    places: Mapping[str, CommandPlace]

    def __init__(self, **attributes: Any) -> None:  # noqa: ANN401 - those of TyperGroup
        super().__init__(**attributes)
        for name, command in self.places.items():
            self.commands[name] = TyperCommand(name, help=command.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - of Typer, or of Click before
        """As in Typer; called for the command that is run or completed."""
        if args and args[0] in self.places:
            self.commands[args[0]] = self.places[args[0]].load(args[0])
        return super().resolve_command(ctx, args)


_COMMANDS = {
    "demo": CommandPlace(
        module="hudi_bridge.cli.demo",
        name="demo",
        help="Unpack small tables that Hudi wrote, and show what one says with its logs, and what without.",
    ),
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
        help="What a commit or a table service has done: operation, rows, bytes, files, the writer's extra metadata.",
    ),
    "slices": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="slices",
        help="The file slices that a snapshot reads, with the number and size of their files.",
    ),
    "log": CommandPlace(
        module="hudi_bridge.cli.read",
        name="log",
        help="The blocks of log files, or the records in them: what counts, and why the rest does not.",
    ),
    "splits": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="splits",
        help="The splits of a query: the files that one task reads together.",
    ),
    "partitions": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="partitions",
        help="The partitions: values, files, bytes, rows as far as commits tell, share of the logs, newest commit.",
    ),
    "stats": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="stats",
        help="Figures: write amplification, sizes, overlap of column ranges, key filters, bootstrap files, properties.",
    ),
    "compactions": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="compactions",
        help="Compactions and log compactions: what was planned, what is written, how to run it.",
    ),
    "clusterings": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="clusterings",
        help="Clusterings: what was planned, what is written, how to run it.",
    ),
    "cleans": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="cleans",
        help="Cleans: what was to be deleted, what was deleted, and the earliest instant that is kept.",
    ),
    "rollbacks": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="rollbacks",
        help="Rollbacks and restores: what they take back, and what they deleted.",
    ),
    "savepoints": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="savepoints",
        help="Savepoints: the files that they keep, by whom and why.",
    ),
    "indexings": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="indexings",
        help="Indexes that were built: up to which instant, and whether they are complete.",
    ),
    "metadata": CommandPlace(
        module="hudi_bridge.cli.inspection",
        name="metadata",
        help="The indexes in the metadata table, or the records of one of them.",
    ),
    "read": CommandPlace(
        module="hudi_bridge.cli.read",
        name="read",
        help="Read the rows of the newest snapshot, or with --after those that later commits have written.",
    ),
    "get": CommandPlace(
        module="hudi_bridge.cli.read",
        name="get",
        help="Look up the rows of record keys, with the indexes of the table.",
    ),
    "explain": CommandPlace(
        module="hudi_bridge.cli.read",
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
        module="hudi_bridge.cli.doctor",
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
        module="hudi_bridge.cli.trino",
        name="publish_app",
        help="Write tables once in the form of other engines.",
    ),
    "trino": CommandPlace(
        module="hudi_bridge.cli.trino",
        name="trino_app",
        help="SQL for Trino and Presto, and which way there fits a table.",
    ),
}

EXAMPLES = {
    "": "hudi-bridge demo",
    "demo": "hudi-bridge demo --to tables",
    "info": "hudi-bridge info trips",
    "schema": "hudi-bridge schema trips --history",
    "timeline": "hudi-bridge timeline trips --details",
    "show": "hudi-bridge show trips 20261122081117834 --files",
    "slices": "hudi-bridge slices trips",
    "log": "hudi-bridge log trips",
    "splits": "hudi-bridge splits trips",
    "partitions": "hudi-bridge partitions trips",
    "stats": "hudi-bridge stats trips sizes",
    "compactions": "hudi-bridge compactions trips",
    "clusterings": "hudi-bridge clusterings trips",
    "cleans": "hudi-bridge cleans trips",
    "rollbacks": "hudi-bridge rollbacks trips",
    "savepoints": "hudi-bridge savepoints trips",
    "indexings": "hudi-bridge indexings trips",
    "metadata": "hudi-bridge metadata trips",
    "read": 'hudi-bridge read trips --where "fare > 19" -o fares.parquet',
    "get": "hudi-bridge get trips trip-1 trip-2",
    "explain": "hudi-bridge explain trips --where \"city = 'sf'\"",
    "changes": "hudi-bridge changes trips --after earliest --format json",
    "diff": "hudi-bridge diff trips earliest",
    "sql": 'hudi-bridge sql trips "SELECT city, count(*) FROM t GROUP BY city"',
    "trace": "hudi-bridge trace trips trip-1 --values",
    "doctor": "hudi-bridge doctor lake --severity warning",
    "report": "hudi-bridge report trips --key trip-1 -o report.html",
    "compare": "hudi-bridge compare trips --with hudi",
    "serve iceberg": "hudi-bridge serve iceberg lake --scratch served --port 8181",
    "publish iceberg": "hudi-bridge publish iceberg trips --to iceberg",
    "publish log-records": "hudi-bridge publish log-records trips --to published",
    "trino explain": "hudi-bridge trino explain trips",
    "trino sql": "hudi-bridge trino sql trips --published published",
}
"""Command lines by the name of the command; tests run them on the tables of ``hudi-bridge demo``."""


def _epilog(name: str) -> str | None:
    """The end of a command's help."""
    example = EXAMPLES.get(name)
    # A bracket would begin markup, and two lines are one paragraph.
    return None if example is None else f"Example: {example}".replace("[", r"\[")


app = typer.Typer(
    cls=group_of(_COMMANDS),
    help="Reads the true, current rows of Apache Hudi merge-on-read tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
    epilog=_epilog(""),
)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - Typer calls it with the option's value
    if is_asked:
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
