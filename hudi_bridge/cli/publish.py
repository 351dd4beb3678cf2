"""``publish``: the commands that write tables once in the form of other engines."""

import typer

from hudi_bridge.cli import iceberg, trino

publish_app = typer.Typer(no_args_is_help=True, help="Write tables once in the form of other engines.")
publish_app.command("iceberg")(iceberg.publish_iceberg)
publish_app.command("log-records")(trino.log_records)
