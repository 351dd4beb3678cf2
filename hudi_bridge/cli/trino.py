"""``trino sql``, ``trino explain`` and ``publish log-records``: Hudi tables in Trino and Presto."""

import sys
from typing import Annotated

import typer

from hudi_bridge.cli import iceberg, options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import load_payloads, open_table
from hudi_bridge.cli.output import Destination, Format, noticing_closed_pipe, write
from hudi_bridge.cli.sql import table_name
from hudi_bridge.cli.terminal import print_note, telling_work
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.explain import explain_routes
from hudi_bridge.connectors.trino.publication import Publication, read_slices
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.connectors.trino.sql_types import Dialect, Engine
from hudi_bridge.connectors.trino.views import statements
from hudi_bridge.errors import QueryError

trino_app = typer.Typer(no_args_is_help=True, help="SQL for Trino and Presto, and which way there fits a table.")
_ROUTES = Look(keep=("route", "fits", "reason"), sizes=True)

Published = Annotated[
    str, typer.Option("--published", metavar="FOLDER", help="The folder that publish log-records wrote to.")
]
publish_app = typer.Typer(no_args_is_help=True, help="Write tables once in the form of other engines.")


@trino_app.command()
def sql(
    *,
    table: options.Table,
    published: Published,
    catalog: Annotated[str, typer.Option(help="A catalog of Trino's Hive connector.")] = "hive",
    schema: Annotated[str, typer.Option(help="The schema of the view and of what belongs to it.")] = "hudi",
    name: Annotated[str | None, typer.Option(help="The view.", show_default="the table's name")] = None,
    dialect: Annotated[
        Dialect | None,
        typer.Option(
            metavar="DIALECT",
            help="The SQL: that of the engine that log records were published for, trino or presto, or ansi.",
            show_default="that of the engine",
        ),
    ] = None,
    base_table: Annotated[
        str | None,
        typer.Option(help="With --dialect ansi: a table of the rows of the latest base files.", show_default=False),
    ] = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
) -> None:
    """The statements that show the newest publication of a table as a view."""
    opened = open_table(table, option, payload, storage_option)
    folder = Scratch.open(published)
    publication = Publication.read(folder, load_payloads(payload))
    if publication is None:
        raise QueryError("--published", published, "a folder that publish log-records wrote to")
    if publication.table_name != opened.config.name:
        raise QueryError("--published", f"the publication of {publication.table_name}", opened.config.name)
    view = name or table_name(opened)
    made = statements(
        publication,
        catalog=catalog,
        schema=schema,
        view=view,
        dialect=dialect,
        base_table=base_table,
        slices=read_slices(folder, publication) if publication.engine is Engine.PRESTO else (),
    )
    with noticing_closed_pipe():
        sys.stdout.writelines(f"{statement};\n\n" for statement in made)
        sys.stdout.flush()


@trino_app.command()
def explain(
    table: options.Table,
    *,
    dialect: Annotated[Dialect, typer.Option(help="The SQL of the engine.")] = Dialect.TRINO,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Which way into Trino or Presto fits the table, and what each costs."""
    routes = explain_routes(open_table(table, option, payload, storage_option), dialect=dialect)
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    if destination.format is Format.TABLE:
        routes = routes.select(["route", "fits", "reason", "log_size_bytes", "contested_rows", "whole_slices"])
    write(routes.to_reader(), destination, look=_ROUTES)


def log_records(
    *,
    table: options.Table,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Where to write, path or URI; not in the table.")],
    engine: Annotated[Engine, typer.Option("--for", help="The engine that the view is for.")] = Engine.TRINO,
    locate: Annotated[
        list[str] | None,
        typer.Option(
            "--locate",
            metavar="OURS=THEIRS",
            help="What the engine calls a folder: /data=local:///, /mnt/lake=s3://lake. Repeatable.",
            show_default=False,
        ),
    ] = None,
    cut_times: Annotated[
        bool,
        typer.Option("--cut-times", help="With --for presto: timestamps as such, though Presto cuts microseconds."),
    ] = False,
    keep: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many publications stay, for views that name them.")
    ] = 2,
    keep_minutes: Annotated[
        float,
        typer.Option(
            min=0, metavar="MINUTES", help="How long files stay that no publication names: as long as a query may take."
        ),
    ] = 60,
    blocks: Annotated[bool, typer.Option("--blocks", help="Publish the log blocks too, to look into.")] = False,
    unmerged: Annotated[
        bool,
        typer.Option("--unmerged", help="Publish the log blocks alone: Trino decodes and merges them in each query."),
    ] = False,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
) -> None:
    """Write the log records that count as Parquet, for the view of trino sql; unchanged slices are not read."""
    opened = open_table(table, option, payload, storage_option)
    with telling_work("log records"):
        done = publish_log_records(
            opened,
            to,
            engine=engine,
            cut_times=cut_times,
            locations=Locations.of(tuple(locate or ())),
            keep=keep,
            leave_seconds=60 * keep_minutes,
            blocks=blocks,
            unmerged=unmerged,
        )
    typer.echo(done.publication.publication)
    instant = done.publication.instant
    print_note(f"as of {instant}: {done.built:,} file slices read, {done.reused:,} unchanged; trino sql shows them")


publish_app.command("iceberg")(iceberg.publish_iceberg)
publish_app.command("log-records")(log_records)
