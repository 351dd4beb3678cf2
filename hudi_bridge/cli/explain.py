"""``explain``: what a query reads, and why."""

import sys
from enum import StrEnum
from typing import Annotated

import pyarrow.compute as pc
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import open_query, open_table
from hudi_bridge.cli.read import column_names
from hudi_bridge.cli.rows_session import pushed_filter
from hudi_bridge.cli.session import table_name
from hudi_bridge.cli.sinks import noticing_closed_pipe
from hudi_bridge.cli.terminal import escape_control


class ExplanationFormat(StrEnum):
    """How an explanation is written."""

    TABLE = "table"
    JSON = "json"


def explain(
    table: options.Table,
    *,
    columns: options.Columns = None,
    where: options.Where = None,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    after: options.After = None,
    up_to: options.UpTo = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: Annotated[
        ExplanationFormat, typer.Option("--format", "-f", help="Text for people, or one JSON object with all slices.")
    ] = ExplanationFormat.TABLE,
) -> None:
    """What read would read with the same options: files found, ruled out by which index, and left to read."""
    opened = open_table(table, option, payload, storage_option)
    dataset = open_query(opened, read_optimized=read_optimized, as_of=as_of, after=after, up_to=up_to)
    names = column_names(columns, dataset)
    row_filter: pc.Expression | None = None
    if where is not None:
        names, row_filter = pushed_filter(dataset, table_name(opened), names, where)
    found = dataset.explain(row_filter, names)
    lines = [found.to_json()] if output_format is ExplanationFormat.JSON else str(found).splitlines()
    with noticing_closed_pipe():
        sys.stdout.writelines(f"{escape_control(line)}\n" for line in lines)
        sys.stdout.flush()
