"""Everything but the rows: the table, its timeline, files, partitions, table services, indexes, and figures about them.

The commands are ``info``, ``schema``, ``timeline``, ``show``, ``slices``, ``splits``, ``metadata``, ``partitions``,
``stats``, and those that list table services: ``compactions``, ``clusterings``, ``cleans``, …
"""

import sys
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import pyarrow as pa
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look, print_properties
from hudi_bridge.cli.opening import note_empty_past, open_table
from hudi_bridge.cli.output import Destination, Format, write, write_rows
from hudi_bridge.cli.schema_history import File, History, Infer, write_schema_history
from hudi_bridge.common.display import size_text
from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError
from hudi_bridge.inspection import (
    inspect_all_slices,
    inspect_bootstrap,
    inspect_columns,
    inspect_commit,
    inspect_commit_files,
    inspect_commits,
    inspect_file_group,
    inspect_file_sizes,
    inspect_file_slices,
    inspect_key_filters,
    inspect_metadata_records,
    inspect_metadata_table,
    inspect_overlap,
    inspect_partitions,
    inspect_properties,
    inspect_service,
    inspect_service_files,
    inspect_services,
    inspect_splits,
    inspect_table,
    inspect_timeline,
    inspect_write_amplification,
    is_service,
    table_facts,
)
from hudi_bridge.table import HudiTable

_TIMELINE = Look(keep=("requested_time", "action", "state"))
_COMMITS = Look(keep=("requested_time", "operation", "rows_inserted", "rows_updated", "rows_deleted", "action"))
_COMMIT_FILES = Look(keep=("path", "rows_written", "kind"))
_SERVICE_FILES = Look(keep=("path", "what", "state"), sizes=True)
_SLICES = Look(keep=("file_id", "partition_path", "log_size", "base_size", "log_files"), sizes=True)
_ALL_SLICES = Look(
    keep=("file_id", "base_instant_time", "state", "ended_by", "log_files", "base_size", "log_size", "partition_path"),
    sizes=True,
)
_GROUP = Look(keep=("path", "kind", "state", "instant_time", "operation", "size", "ended_by"), sizes=True)
_SPLITS = Look(keep=("file_id", "partition_path", "log_size", "base_size"), sizes=True)
_INDEX_PARTITIONS = Look(keep=("partition", "usable", "why_not"))
_RECORDS = Look(keep=("key",))


def info(
    table: options.Table,
    *,
    as_of: options.AsOf = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """What the table is: type, version, merge mode, keys, size."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber, in_pipe=Format.TABLE)
    opened = open_table(table, option, storage_option=storage_option)
    if destination.format is Format.TABLE:
        # A table of Arrow takes longer to make than all else.
        print_properties(_properties(table_facts(opened, as_of)))
    else:
        write(inspect_table(opened, as_of).to_reader(), destination)
    note_empty_past(opened, as_of)


def schema(
    table: options.Table,
    *,
    history: History = False,
    file: File = None,
    infer: Infer = False,
    as_of: options.AsOf = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The columns and their Arrow types, or how they came to be."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, storage_option=storage_option)
    if history or infer or file is not None:
        write_schema_history(opened, destination, history=history, file=file, infer=infer, as_of=as_of)
        return
    write(inspect_columns(opened, as_of).to_reader(), destination)
    note_empty_past(opened, as_of)


def timeline(
    table: options.Table,
    *,
    details: Annotated[
        bool, typer.Option("--details", help="With what completed commits have done: operation, rows, bytes, duration.")
    ] = False,
    archived: options.Archived = False,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The instants of the active timeline, oldest first."""
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    inspect = inspect_commits if details else inspect_timeline
    opened = open_table(table, option, storage_option=storage_option)
    write(inspect(opened, archived=archived).to_reader(), destination, look=_COMMITS if details else _TIMELINE)


def show(
    table: options.Table,
    instant: Annotated[
        str, typer.Argument(metavar="INSTANT", help="The requested time of a commit or of a table service.")
    ],
    *,
    files: Annotated[bool, typer.Option("--files", help="A row for each file that it has written or deleted.")] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="A row for each file in the plan of a table service and in its result.")
    ] = False,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """What a commit or a table service has done: operation, rows, bytes, files, the writer's extra metadata."""
    in_pipe = Format.CSV if files or plan else Format.TABLE
    destination = Destination.of(output_format, output, no_clobber=no_clobber, in_pipe=in_pipe)
    opened = open_table(table, option, storage_option=storage_option)
    has_service = is_service(opened, instant)
    is_commit = opened.timeline.contains(instant) or not has_service
    if plan or (files and not is_commit):
        write(inspect_service_files(opened, instant).to_reader(), destination, look=_SERVICE_FILES)
        return
    if files:
        write(inspect_commit_files(opened, instant).to_reader(), destination, look=_COMMIT_FILES)
        return
    shown = inspect_commit(opened, instant) if is_commit else inspect_service(opened, instant)
    if destination.format is not Format.TABLE:
        write(shown.to_reader(), destination)
        return
    properties = _facts(shown)
    if is_commit and has_service:
        of_service = _facts(inspect_service(opened, instant))
        properties |= {name: text for name, text in of_service.items() if text and name not in properties}
    print_properties(properties)


def _facts(row: pa.Table) -> dict[str, str]:
    """The names and values of a row, those of its maps among them."""
    (facts,) = row.to_pylist()
    extra = dict(facts.pop("extra_metadata", ()))
    details = dict(facts.pop("details", ()))
    return _properties(facts) | details | {f"extra {name}": text for name, text in extra.items()}


def slices(
    table: options.Table,
    *,
    every: Annotated[
        bool, typer.Option("--all", help="Slices of all times, with what became of each; lists all folders.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="ID", help="All files of one file group, of all times.", show_default=False),
    ] = None,
    archived: Annotated[
        bool, typer.Option("--archived", help="With --all or --group: what archived commits say of files, too.")
    ] = False,
    as_of: options.AsOf = None,
    option: options.Option = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The file slices that a snapshot reads, with the number and size of their files."""
    if archived and group is None and not every:
        raise QueryError("--archived", "the slices of a snapshot", "--all or --group, which show what commits say")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, storage_option=storage_option)
    if group is not None:
        write(inspect_file_group(opened, group, as_of, archived=archived).to_reader(), destination, look=_GROUP)
    elif every:
        write(inspect_all_slices(opened, as_of, archived=archived).to_reader(), destination, look=_ALL_SLICES)
    else:
        write(inspect_file_slices(opened, as_of).to_reader(), destination, look=_SLICES)
    note_empty_past(opened, as_of)


def splits(
    table: options.Table,
    *,
    read_optimized: options.ReadOptimized = False,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """The splits of a query: the files that one task reads together."""
    destination, opened = (
        Destination.of(output_format, output, no_clobber=no_clobber),
        open_table(table, option, payload, storage_option),
    )
    query_type = QueryType.READ_OPTIMIZED if read_optimized else opened.query_type
    write(inspect_splits(opened, as_of, query_type).to_reader(), destination, look=_SPLITS)
    note_empty_past(opened, as_of)


def _properties(facts: Mapping[str, Any]) -> dict[str, str]:
    """The names and values; sizes are in KiB, MiB, … on a terminal and in bytes elsewhere."""
    is_terminal = sys.stdout.isatty()
    properties = {}
    for column, value in facts.items():
        name = column.replace("_", " ")
        if is_terminal and column.endswith("size_bytes"):
            properties[name.removesuffix(" bytes")] = size_text(value)
        elif isinstance(value, list):
            properties[name] = ", ".join(map(str, value))
        else:
            properties[name] = "" if value is None else str(value)
    return properties


def metadata(
    table: options.Table,
    partition: Annotated[
        str | None,
        typer.Argument(metavar="[INDEX]", help="The index to show, such as files or record_index.", show_default=False),
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
    write(inspect_metadata_table(opened).to_reader(), destination, limit=limit, look=_INDEX_PARTITIONS)


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
