"""``info``, ``schema``, ``timeline``, ``slices`` and ``splits``: what there is to know of a table beside its rows."""

import pyarrow as pa

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.output import Destination, Format, write
from hudi_bridge.cli.schema_history import File, History, Infer, write_schema_history
from hudi_bridge.config import QueryType
from hudi_bridge.inspection import inspect_columns, inspect_file_slices, inspect_splits, inspect_table, inspect_timeline
from hudi_bridge.table import HudiTable


def info(
    table: options.Table,
    as_of: options.AsOf = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """What the table is: type, version, merge mode, keys, size."""
    row = inspect_table(HudiTable.open(table), as_of)
    destination = Destination.of(output_format, output)
    _print(_upright(row) if destination.format is Format.TABLE else row, destination)


def schema(
    table: options.Table,
    *,
    history: History = False,
    file: File = None,
    infer: Infer = False,
    as_of: options.AsOf = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """The columns and their Arrow types, or how they came to be."""
    if history or infer or file is not None:
        destination = Destination.of(output_format, output)
        write_schema_history(HudiTable.open(table), destination, history=history, file=file, infer=infer, as_of=as_of)
        return
    _print(inspect_columns(HudiTable.open(table), as_of), Destination.of(output_format, output))


def timeline(
    table: options.Table, output_format: options.FormatChoice = None, output: options.OutputFile = None
) -> None:
    """The instants of the active timeline, oldest first."""
    _print(inspect_timeline(HudiTable.open(table)), Destination.of(output_format, output))


def slices(
    table: options.Table,
    as_of: options.AsOf = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """The file slices that a snapshot reads, with the number and size of their files."""
    _print(inspect_file_slices(HudiTable.open(table), as_of), Destination.of(output_format, output))


def splits(
    table: options.Table,
    *,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
) -> None:
    """The splits of a query: the files that one task reads together."""
    query_type = QueryType.READ_OPTIMIZED if read_optimized else QueryType.SNAPSHOT
    _print(inspect_splits(open_table(table, option, payload), as_of, query_type), Destination.of(output_format, output))


def _print(rows: pa.Table, destination: Destination) -> None:
    write(rows.to_reader(), destination)


def _upright(row: pa.Table) -> pa.Table:
    """A single row turned into one row per column, for reading on a screen."""
    values = row.to_pylist()[0].items()
    return pa.table(
        {"property": [name.replace("_", " ") for name, _ in values], "value": [_shown(value) for _, value in values]}
    )


def _shown(value: object) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
