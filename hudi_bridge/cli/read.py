"""``read``: rows of a table, streamed."""

import csv
from collections.abc import Iterator
from typing import Annotated

import pyarrow as pa
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.session import open_session, table_name
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.connectors.duckdb import READ_OPTIMIZED, quote_identifier
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import QueryError
from hudi_bridge.table import HudiTable


def read(
    table: options.Table,
    *,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these columns, in this order.", show_default=False)
    ] = None,
    where: Annotated[
        str | None, typer.Option(metavar="SQL", help="Only rows for which this is true.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=0, help="Not more rows than this.", show_default=False)] = None,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """Rows of the table: by default the true, current ones."""
    destination = Destination.of(output_format, output)
    opened = HudiTable.open(table)
    dataset = opened.read_optimized(as_of) if read_optimized else opened.snapshot(as_of)
    if left_out := dataset.left_out_log_files():
        print_note(f"read optimized: changes in {left_out:,} log {'file' if left_out == 1 else 'files'} are left out")
    names = _column_names(columns, dataset)
    schema = pa.schema([dataset.schema.field(name) for name in names])
    if where is None:
        write_rows(pa.RecordBatchReader.from_batches(schema, dataset.to_batches(names)), destination, limit=limit)
    else:
        view = quote_identifier(table_name(opened) + READ_OPTIMIZED if read_optimized else table_name(opened))
        # Line ends keep a comment at the end of the condition from reaching what follows.
        statement = f"SELECT {', '.join(map(quote_identifier, names))} FROM {view} WHERE (\n{where}\n)"
        with open_session(opened, as_of) as session:
            session.run(statement, lambda rows: write_rows(_with_schema(rows, schema), destination, limit=limit))
    if limit is None and not read_optimized and (damaged := dataset.skipped_log_blocks().corrupt):
        print_note(f"{damaged:,} damaged log {'block' if damaged == 1 else 'blocks'} left out, as Hudi does")


def _column_names(text: str | None, dataset: HudiDataset) -> list[str]:
    """The names in a list with commas; those with commas in them stand in double quotes."""
    if text is None:
        return list(dataset.schema.names)
    names = next(csv.reader([text], skipinitialspace=True), [])
    for name in names:
        if name not in dataset.schema.names:
            raise QueryError("--columns", repr(name), f"columns among {', '.join(dataset.schema.names)}")
    return names


def _with_schema(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows in the table's own types: DuckDB returns some columns in a wider one."""
    batches: Iterator[pa.RecordBatch] = (batch.cast(schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
