"""``partitions``, ``stats``, and the lists of table services: ``compactions``, ``clusterings``, ``cleans``, …"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import pyarrow as pa
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look
from hudi_bridge.cli.opening import note_empty_past, open_table
from hudi_bridge.cli.output import Destination, write
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import (
    inspect_bootstrap,
    inspect_file_sizes,
    inspect_key_filters,
    inspect_overlap,
    inspect_partitions,
    inspect_properties,
    inspect_services,
    inspect_write_amplification,
)
from hudi_bridge.table import HudiTable

_PARTITIONS = Look(
    keep=("partition_path", "base_rows", "file_slices", "base_size", "log_size", "newest_commit", "log_share"),
    sizes=True,
)


class Figures(StrEnum):
    """What ``stats`` shows."""

    AMPLIFICATION = "amplification"
    SIZES = "sizes"
    OVERLAP = "overlap"
    KEYS = "keys"
    BOOTSTRAP = "bootstrap"
    PROPERTIES = "properties"


_INSPECT: Mapping[Figures, Callable[[HudiTable, str | None], pa.Table]] = {
    Figures.SIZES: inspect_file_sizes,
    Figures.OVERLAP: lambda table, as_of: inspect_overlap(table, as_of=as_of),
    Figures.KEYS: inspect_key_filters,
    Figures.BOOTSTRAP: lambda table, _: inspect_bootstrap(table),
    Figures.PROPERTIES: lambda table, _: inspect_properties(table),
}
_LOOKS = {
    Figures.AMPLIFICATION: Look(keep=("requested_time", "write_amplification", "rows_changed", "rows_written")),
    Figures.SIZES: Look(keep=("instant_time", "kind", "files", "p50_bytes", "max_bytes")),
    Figures.OVERLAP: Look(keep=("column", "partition_path", "mean_overlap", "files", "max_overlap")),
    Figures.KEYS: Look(keep=("path", "false_positive_rate", "rows", "min_record_key", "max_record_key", "problem")),
    Figures.BOOTSTRAP: Look(keep=("base_path", "source_path")),
    Figures.PROPERTIES: Look(keep=("name", "value", "source")),
}


def partitions(
    table: options.Table,
    *,
    as_of: options.AsOf = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The partitions: values, files, bytes, rows as far as commits tell, share of the logs, newest commit."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, storage_option=storage_option)
    write(inspect_partitions(opened, as_of).to_reader(), destination, look=_PARTITIONS)
    note_empty_past(opened, as_of)


def stats(
    table: options.Table,
    figures: Annotated[
        Figures,
        typer.Argument(
            metavar="FIGURES",
            help="amplification of writes, sizes of files, overlap of column ranges, keys and their Bloom filters, "
            "bootstrap files, or properties.",
        ),
    ],
    *,
    archived: Annotated[bool, typer.Option("--archived", help="With amplification: archived commits, too.")] = False,
    as_of: options.AsOf = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Figures: write amplification, sizes, overlap of column ranges, key filters, bootstrap files, properties."""
    if archived and figures is not Figures.AMPLIFICATION:
        raise QueryError("--archived", str(figures), "amplification, which is of commits")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, storage_option=storage_option)
    inspect = _INSPECT.get(figures)
    shown = inspect_write_amplification(opened, archived=archived) if inspect is None else inspect(opened, as_of)
    write(shown.to_reader(), destination, look=_LOOKS[figures])


_SERVICES = Look(
    keep=("requested_time", "service", "state", "files_planned", "files_done", "age_seconds", "hudi_command")
)


def _command(kind: str, help_text: str) -> Callable[..., None]:
    def show_services(
        table: options.Table,
        *,
        archived: options.Archived = False,
        option: options.Option = None,
        storage_option: options.StorageOption = None,
        output_format: options.FormatChoice = None,
        output: options.OutputFile = None,
        no_clobber: options.NoClobber = False,
    ) -> None:
        destination = Destination.of(output_format, output, no_clobber=no_clobber)
        opened = open_table(table, option, storage_option=storage_option)
        write(inspect_services(opened, [kind], archived=archived).to_reader(), destination, look=_SERVICES)

    show_services.__name__ = kind
    show_services.__doc__ = help_text
    return show_services


compactions = _command(
    "compactions", "Compactions and log compactions: what was planned, what is written, how to run it."
)
clusterings = _command("clusterings", "Clusterings: what was planned, what is written, how to run it.")
cleans = _command("cleans", "Cleans: what was to be deleted, what was deleted, and the earliest instant that is kept.")
rollbacks = _command("rollbacks", "Rollbacks and restores: what they take back, and what they deleted.")
savepoints = _command("savepoints", "Savepoints: the files that they keep, by whom and why.")
indexings = _command("indexings", "Indexes that were built: up to which instant, and whether they are complete.")
