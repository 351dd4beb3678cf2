"""``trino sql``, ``trino explain`` and ``publish delta``: Hudi tables in Trino and Presto by SQL."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Annotated

import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.output import Destination, Format, write
from hudi_bridge.cli.session import table_name
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.connectors.locations import Locations
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.connectors.trino.delta import publish_delta
from hudi_bridge.connectors.trino.explain import explain_routes
from hudi_bridge.connectors.trino.publication import Publication
from hudi_bridge.connectors.trino.sql_text import Dialect
from hudi_bridge.connectors.trino.views import statements
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.table import HudiTable

trino_app = typer.Typer(no_args_is_help=True, help="SQL for Trino and Presto, and which way there fits a table.")

Payload = Annotated[
    list[str] | None,
    typer.Option(
        "--payload",
        metavar="CLASS=FILE:NAME",
        help="What stands for a payload of your own: its Java class, a Python file, and the class in it. Repeatable.",
        show_default=False,
    ),
]
Published = Annotated[
    str, typer.Option("--published", metavar="FOLDER", help="The folder that publish delta wrote to.")
]


@trino_app.command()
def sql(
    *,
    table: options.Table,
    published: Published,
    catalog: Annotated[str, typer.Option(help="A catalog of Trino's Hive connector.")] = "hive",
    schema: Annotated[str, typer.Option(help="The schema of the view and of what belongs to it.")] = "hudi",
    name: Annotated[str | None, typer.Option(help="The view.", show_default="the table's name")] = None,
    dialect: Annotated[
        Dialect, typer.Option(help="Trino's SQL with Python functions, or SQL without.")
    ] = Dialect.TRINO,
    base_table: Annotated[
        str | None,
        typer.Option(help="With --dialect ansi: a table of the rows of the latest base files.", show_default=False),
    ] = None,
    payload: Payload = None,
) -> None:
    """The statements that show the newest publication of a table as a view."""
    opened = HudiTable.open(table, payloads=_payloads(payload))
    publication = Publication.read(Scratch.open(published), _payloads(payload))
    if publication is None:
        raise QueryError("--published", published, "a folder that publish delta wrote to")
    if publication.table_name != opened.config.name:
        raise QueryError("--published", f"the publication of {publication.table_name}", opened.config.name)
    view = name or table_name(opened)
    for one in statements(
        publication, catalog=catalog, schema=schema, view=view, dialect=dialect, base_table=base_table
    ):
        sys.stdout.write(f"{one};\n\n")


@trino_app.command()
def explain(
    table: options.Table,
    *,
    payload: Payload = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """Which way into Trino fits the table, and what each would cost."""
    routes = explain_routes(HudiTable.open(table, payloads=_payloads(payload)))
    destination = Destination.of(output_format, output)
    if destination.format is Format.TABLE:
        routes = routes.select(["route", "fits", "reason", "log_size_bytes", "contested_rows", "whole_slices"])
    write(routes.to_reader(), destination)


def delta(
    *,
    table: options.Table,
    to: Annotated[str, typer.Option("--to", metavar="FOLDER", help="Where to write, path or URI; not in the table.")],
    locate: Annotated[
        list[str] | None,
        typer.Option(
            "--locate",
            metavar="OURS=THEIRS",
            help="What the engine calls a folder: /data=local:///, /mnt/lake=s3://lake. Repeatable.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[int, typer.Option(min=1, help="How many publications stay, for views that name them.")] = 2,
    keep_minutes: Annotated[
        float, typer.Option(min=0, help="How long files stay that no publication names: as long as a query may take.")
    ] = 60,
    blocks: Annotated[bool, typer.Option("--blocks", help="Publish the log blocks too, to look into.")] = False,
    payload: Payload = None,
) -> None:
    """Write what a table's logs say as Parquet, for the view of trino sql; unchanged slices are not read."""
    opened = HudiTable.open(table, payloads=_payloads(payload))
    done = publish_delta(
        opened,
        to,
        locations=Locations.of(tuple(locate or ())),
        keep=keep,
        leave_seconds=60 * keep_minutes,
        blocks=blocks,
    )
    typer.echo(done.publication.publication)
    instant = done.publication.instant
    print_note(f"as of {instant}: {done.built:,} file slices read, {done.reused:,} unchanged; trino sql shows them")


def _payloads(texts: list[str] | None) -> dict[str, RecordPayload]:
    """The payloads of texts like ``com.acme.Counter=payloads.py:Counter``.

    Raises:
        QueryError: a text is no such thing, or the file does not hold the class.
    """
    found = {}
    for text in texts or ():
        java_class, sign, place = text.partition("=")
        path, _, name = place.rpartition(":")
        if not (java_class and sign and path and name):
            raise QueryError("--payload", repr(text), "CLASS=FILE:NAME, such as com.acme.Counter=payloads.py:Counter")
        kind = _class_in(Path(path), name)
        if not (isinstance(kind, type) and issubclass(kind, RecordPayload)):
            raise QueryError("--payload", f"{name} in {path}", "a class that derives from RecordPayload")
        found[java_class] = kind()
    return found


def _class_in(path: Path, name: str) -> object:
    spec = spec_from_file_location(f"hudi_bridge_payloads_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise QueryError("--payload", str(path), "a Python file")
    module = module_from_spec(spec)
    # The text of a class is found through the module that it says it is from.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name, None)
