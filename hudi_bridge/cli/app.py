"""The Typer application with all commands of ``hudi-bridge``."""

from typing import Annotated

import typer
from rich.console import Console

from hudi_bridge import __version__
from hudi_bridge.cli import changes, get, iceberg, inspection, metadata, read, sql, trace, trino

app = typer.Typer(
    help="Reads the true, current rows of Apache Hudi merge-on-read tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(inspection.info)
app.command()(inspection.schema)
app.command()(inspection.timeline)
app.command()(inspection.slices)
app.command()(inspection.splits)
app.command()(metadata.metadata)
app.command()(read.read)
app.command()(get.get)
app.command()(changes.changes)
app.command()(sql.sql)
app.command()(trace.trace)
app.add_typer(iceberg.serve_app, name="serve")
app.add_typer(iceberg.publish_app, name="publish")
iceberg.publish_app.command("log-records")(trino.log_records)
iceberg.publish_app.command("delta", hidden=True)(trino.delta)
app.add_typer(trino.trino_app, name="trino")


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - Typer calls it with the option's value
    if wanted:
        Console().print(f"hudi-bridge {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
    _debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error comes from. Also: HUDI_BRIDGE_DEBUG=1.")
    ] = False,
) -> None:
    """Reads the true, current rows of Apache Hudi merge-on-read tables."""
