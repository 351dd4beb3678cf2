"""``metadata``: what is in the metadata table of a table."""

from typing import Annotated

import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.output import Destination, write, write_rows
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection_of_metadata import inspect_metadata_records, inspect_metadata_table

_PARTITIONS = Look(keep=("partition", "usable", "why_not"))
_RECORDS = Look(keep=("key",))


def metadata(
    table: options.Table,
    partition: Annotated[
        str | None,
        typer.Argument(metavar="[INDEX]", help="The index to show: files, record_index, …", show_default=False),
    ] = None,
    *,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="Only the record of this key.", show_default=False)
    ] = None,
    limit: options.Limit = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The indexes in the metadata table, or the records of one of them."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, storage_option=storage_option)
    if partition is not None:
        write_rows(inspect_metadata_records(opened, partition, key), destination, limit=limit, look=_RECORDS)
        return
    if key:
        raise QueryError("--key", "a key without INDEX", "the index to look in")
    write(inspect_metadata_table(opened).to_reader(), destination, limit=limit, look=_PARTITIONS)
