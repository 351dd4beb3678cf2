"""``read``: rows of a table, streamed."""

import csv
from collections.abc import Iterator

import pyarrow as pa

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import note_empty_past, note_if_planned_again, open_query, open_table, rows_look
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.rows_session import in_sql, open_rows_session, rows_where
from hudi_bridge.cli.session import table_name
from hudi_bridge.cli.terminal import print_note
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import QueryError
from hudi_bridge.replanning import OnFilesGone


def read(
    table: options.Table,
    *,
    columns: options.Columns = None,
    where: options.Where = None,
    limit: options.Limit = None,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    after: options.After = None,
    up_to: options.UpTo = None,
    on_files_gone: options.FilesGone = OnFilesGone.ERROR,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Read the rows of the newest snapshot, or with --after those that later commits have written."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    dataset = open_query(
        opened,
        read_optimized=read_optimized,
        as_of=as_of,
        after=after,
        up_to=up_to,
        on_files_gone=on_files_gone,
    )
    note_empty_past(opened, as_of)
    if left_out := dataset.left_out_log_files():
        print_note(f"read optimized: changes in {left_out:,} log {'file' if left_out == 1 else 'files'} are left out")
    look, instant = rows_look(opened), dataset.instant
    names = column_names(columns, dataset)
    schema = pa.schema([dataset.schema.field(name) for name in names])
    if where is None:
        rows = pa.RecordBatchReader.from_batches(schema, dataset.to_batches(names))
        write_rows(rows, destination, limit=limit, look=look)
    else:
        name = table_name(opened)
        with open_rows_session(dataset, name) as session:
            session.run(
                rows_where(name, in_sql(dataset.schema, names), where),
                lambda rows: write_rows(_with_schema(rows, schema), destination, limit=limit, look=look),
            )
    note_if_planned_again(dataset, instant)
    if after is not None:
        print_note(f"the range that follows begins with --after {dataset.next_after}")
    if limit is None and not read_optimized and (damaged := dataset.skipped_log_blocks().corrupt):
        print_note(f"{damaged:,} damaged log {'block' if damaged == 1 else 'blocks'} left out, as Hudi does")


def column_names(text: str | None, dataset: HudiDataset) -> list[str]:
    """The names in a comma-separated list; names with commas are in double quotes."""
    if text is None:
        return list(dataset.schema.names)
    names = next(csv.reader([text], skipinitialspace=True), [])
    for name in names:
        if name not in dataset.schema.names:
            raise QueryError("--columns", repr(name), f"columns among {', '.join(dataset.schema.names)}")
    return names


def _with_schema(rows: pa.RecordBatchReader, schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows with the names and types of the table: DuckDB returns some columns by other names or in wider types."""
    batches: Iterator[pa.RecordBatch] = (batch.rename_columns(schema.names).cast(schema) for batch in rows)
    return pa.RecordBatchReader.from_batches(schema, batches)
