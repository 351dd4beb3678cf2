"""``diff``: which records differ between two instants, and how."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import pyarrow as pa
import typer

from hudi_bridge.cli import options
from hudi_bridge.cli.grid import Look, print_grid
from hudi_bridge.cli.opening import open_table
from hudi_bridge.cli.output import ROWS_IN_TABLE, Destination, Format, write, write_rows
from hudi_bridge.cli.read import column_names, row_condition
from hudi_bridge.cli.sql import table_name
from hudi_bridge.cli.terminal import counting_rows, print_note
from hudi_bridge.common.display import Array, ArrowType, counted, is_nested, to_json, values_as_text
from hudi_bridge.tools.differences import table_difference
from hudi_bridge.tools.differences.states import (
    AFTER,
    BEFORE,
    CHANGED,
    DELETE,
    INSERT,
    KEY,
    MOVED_FROM,
    OPERATION,
    PARTITION,
    UPDATE,
)
from hudi_bridge.tools.differences.table_difference import DifferenceCounts, TableDifference

_VALUES = "values"
_ARROW = "→"
_READABLE = pa.schema([(name, pa.string()) for name in (OPERATION, PARTITION, KEY, _VALUES)])
_LOOK = Look(keep=(KEY, OPERATION, _VALUES, PARTITION))


def diff(
    table: options.Table,
    before: Annotated[
        str, typer.Argument(metavar="A", help="An instant, as for --as-of, or earliest.", show_default=False)
    ],
    after: Annotated[
        str | None,
        typer.Argument(metavar="B", help="Another instant; by default the newest commit.", show_default=False),
    ] = None,
    *,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Compare and show only these columns.", show_default=False)
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(metavar="SQL", help="Only records for which this is true, before or after.", show_default=False),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Only this record key, as in _hoodie_record_key. Repeatable.",
            show_default=False,
        ),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only count the records, by partition.")] = False,
    limit: options.Limit = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Show which records differ between two instants, and how.

    Records are inserted, deleted, or updated, with the values before and after.

    Only files that differ are read. Records that are written again with the same values, or only moved to other files,
    do not differ.
    """
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    difference = table_difference.diff(opened, before, after, keys=key)
    with ExitStack() as stack:
        newer = opened.snapshot(max(difference.instants))
        if columns is not None:
            difference = difference.of_columns(column_names(columns, newer))
        if where is not None:
            condition = stack.enter_context(row_condition(newer, table_name(opened), where))
            difference = difference.where(condition.passes, condition.columns)
        if summary:
            write(difference.summary().to_reader(), destination, limit=limit)
        elif destination.format is Format.TABLE:
            _print(difference, limit)
        else:
            write_rows(difference.to_reader(), destination, limit=limit)
    compared, unchanged = difference.file_groups
    print_note(
        f"from {difference.instants[0]} to {difference.instants[1]}, with the columns of the later one: "
        f"{counted(compared, 'file group')} compared, {unchanged:,} without changes"
    )


def _print(difference: TableDifference, limit: int | None) -> None:
    """Prints the first records, and how many there are; without a limit, all are counted."""
    shown_rows = ROWS_IN_TABLE if limit is None else limit
    counts, shown, missing = DifferenceCounts(), [], shown_rows
    with counting_rows(difference.to_reader(), show=True) as batches:
        for batch in batches if shown_rows or limit is None else ():
            counts.add(batch)
            # One row beyond those shown tells whether there are more.
            shown.append(_readable(batch.slice(0, max(0, missing + 1))))
            missing -= batch.num_rows
            if limit is not None and missing < 0:
                break
    rows = pa.Table.from_batches(shown, _READABLE)
    print_grid(rows.sort_by([(PARTITION, "ascending"), (KEY, "ascending")]), shown_rows, _LOOK)
    if limit is None:
        numbers = ((INSERT, "inserted"), (UPDATE, "updated"), (DELETE, "deleted"))
        print_note(", ".join(f"{counts.total(operation):,} {name}" for operation, name in numbers))


def _readable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the values in one column; an update has only the changed values, before and after."""
    befores, afters = (_texts(batch.column(name)) for name in (BEFORE, AFTER))
    images = zip(batch.column(CHANGED).to_pylist(), befores, afters, strict=True)
    values = [_values_text(changed, before, after) for changed, before, after in images]
    moves = zip(*(batch.column(name).to_pylist() for name in (MOVED_FROM, PARTITION)), strict=True)
    partitions = [to if origin is None else f"{origin} {_ARROW} {to}" for origin, to in moves]
    columns = [
        batch.column(OPERATION),
        pa.array(partitions, pa.string()),
        batch.column(KEY),
        pa.array(values, pa.string()),
    ]
    return pa.record_batch(columns, schema=_READABLE)


def _texts(images: Array) -> list[dict[str, str] | None]:
    """The values of each image as texts, None where there is none."""
    structs: Any = images
    named = zip(structs.type.names, structs.flatten(), strict=True)
    columns = {name: [_text(value, column.type) for value in values_as_text(column)] for name, column in named}
    rows = ({name: texts[index] for name, texts in columns.items()} for index in range(len(images)))
    return [row if is_valid else None for row, is_valid in zip(rows, images.is_valid().to_pylist(), strict=True)]


def _text(value: object, kind: ArrowType) -> str:
    if value is None:
        return "null"
    return to_json(value) if is_nested(kind) or isinstance(value, bool) else str(value)


def _values_text(changed: list[str] | None, before: dict[str, str] | None, after: dict[str, str] | None) -> str:
    if before is not None and after is not None:
        return ", ".join(f"{name} {before[name]} {_ARROW} {after[name]}" for name in changed or ())
    return ", ".join(f"{name} {text}" for name, text in _items(before or after))


def _items(image: dict[str, str] | None) -> Iterator[tuple[str, str]]:
    return iter((image or {}).items())
