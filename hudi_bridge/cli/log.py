"""``log``: the blocks of log files, or the records in them."""

from collections.abc import Iterator
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.output import Destination, write_rows
from hudi_bridge.cli.read import RowCondition, column_names, row_condition
from hudi_bridge.cli.sql import table_name
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import inspect_log_blocks, inspect_log_records
from hudi_bridge.table import HudiTable

_BLOCKS = Look(keep=("kind", "instant_time", "counts", "rows", "deletes", "block", "why_not", "problem"), sizes=True)
_RECORDS = Look(keep=("record_key", "operation", "instant_time", "counts", "row", "problem"))
_ROW = "row"


def log(
    table: options.Table,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A log file, by its path in the table or its name.", show_default=False),
    ] = None,
    *,
    file_slice: Annotated[
        str | None, typer.Option("--slice", metavar="ID", help="The logs of this file id.", show_default=False)
    ] = None,
    records: Annotated[bool, typer.Option("--records", help="The records in the blocks, one row each.")] = False,
    columns: options.Columns = None,
    where: options.Where = None,
    limit: options.Limit = None,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The blocks of log files, or the records in them: what counts, and why the rest does not."""
    if file is not None and file_slice is not None:
        raise QueryError("FILE", "a file and --slice", "one of the two")
    if not records and (columns is not None or where is not None):
        raise QueryError("--columns" if where is None else "--where", "blocks", "--records, which have columns")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    if not records:
        blocks = inspect_log_blocks(opened, file, file_id=file_slice, as_of=as_of)
        write_rows(blocks.to_reader(), destination, limit=limit, look=_BLOCKS)
        return
    dataset = opened.snapshot(as_of)
    names = None if columns is None else column_names(columns, dataset)
    if where is None:
        rows = inspect_log_records(opened, file, file_id=file_slice, columns=names, as_of=as_of)
        write_rows(rows, destination, limit=limit, look=_RECORDS)
        return
    with row_condition(dataset, table_name(opened), where) as test:
        shown = tuple(dataset.schema.names) if names is None else tuple(names)
        rows = _records_where(opened, test, shown, file=file, file_id=file_slice, as_of=as_of)
        write_rows(rows, destination, limit=limit, look=_RECORDS)


def _records_where(
    table: HudiTable, test: RowCondition, names: tuple[str, ...], **arguments: str | None
) -> pa.RecordBatchReader:
    """The records with rows that meet a condition, with some columns of their rows."""
    needed = tuple(dict.fromkeys((*names, *test.columns)))
    reader = inspect_log_records(
        table,
        arguments["file"],
        file_id=arguments["file_id"],
        columns=needed,
        filter=test.row_filter,
        as_of=arguments["as_of"],
    )
    position = reader.schema.get_field_index(_ROW)
    row = pa.struct([reader.schema.field(position).type.field(name) for name in names])
    schema = reader.schema.set(position, pa.field(_ROW, row))

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            structs: Any = batch.column(_ROW)
            values = dict(zip(needed, structs.flatten(), strict=True))
            tested = pa.record_batch([values[name] for name in test.columns], names=list(test.columns))
            has_row = structs.is_valid()
            passes = pa.array(test.passes(tested))
            shown = pa.StructArray.from_arrays([values[name] for name in names], fields=list(row))
            columns = [*batch.columns[:position], shown]
            yield pa.record_batch(columns, schema=schema).filter(pc.and_(passes, has_row))

    return pa.RecordBatchReader.from_batches(schema, batches())
