"""``trace``: the history of one record, as text to read or as rows to query."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import note_empty_past, open_table
from hudi_bridge.cli.output import Destination, Format, write
from hudi_bridge.cli.read import row_condition
from hudi_bridge.cli.sql import table_name
from hudi_bridge.cli.terminal import escape_control, print_note
from hudi_bridge.errors import QueryError
from hudi_bridge.schema.meta_columns import META_COLUMNS
from hudi_bridge.splits.split import stored_context
from hudi_bridge.table import HudiTable
from hudi_bridge.tools.trace.key_search import BaseCheck
from hudi_bridge.tools.trace.record_trace import FileGroupHistory, RecordHistory, history_of, history_schema
from hudi_bridge.tools.trace.verdicts import RecordVersion, ordering_text, shown_values
from hudi_bridge.tools.trace.version_search import PARTITION_PATH, RECORD_KEY, ROW, find_versions

_WIDTH_IN_PIPE = 80
_INDENT = 4
_MOST_GROUPS = 20
_Line = tuple[int, Text]
"""The indentation of a line, and its text."""


def trace(
    table: options.Table,
    key: Annotated[
        str | None,
        typer.Argument(metavar="KEY", help="The record key, as in _hoodie_record_key.", show_default=False),
    ] = None,
    *,
    where: Annotated[
        str | None,
        typer.Option(
            metavar="SQL",
            help="Instead of KEY: all records of which any version meets this, also one that has lost.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="With --where: at most this many records.")] = 10,
    values: Annotated[
        bool, typer.Option("--values", help="Show all values of each version, not only those that the row has not.")
    ] = False,
    partition: Annotated[
        str | None, typer.Option(metavar="PATH", help="Search this partition only.", show_default=False)
    ] = None,
    as_of: options.AsOf = None,
    option: options.Option = None,
    payload: options.Payload = None,
    storage_option: options.StorageOption = None,
    output_format: options.FormatChoice = None,
    output: options.OutputFile = None,
    no_clobber: options.NoClobber = False,
) -> None:
    """Show all versions of a record, with their values, why each wins or loses, and the resulting row.

    The exit code is 1 if no record is found.
    """
    if (key is None) == (where is None):
        raise QueryError("KEY", "none" if key is None else "a key and --where", "a record key, or --where SQL")
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    records = [(partition, key)] if key is not None else _records_where(opened, str(where), partition, as_of, limit + 1)
    histories = [
        history_of(opened, str(record_key), partition_path=path, as_of=as_of)
        for path, record_key in records[: max(1, limit)]
    ]
    if destination.format is not Format.TABLE:
        schema = history_schema(stored_context(opened.read_context(as_of)).schema)
        tables = [history.to_table() for history in histories]
        write(pa.concat_tables([schema.empty_table(), *tables]).to_reader(), destination)
    else:
        _print_histories([history for history in histories if history.file_groups], all_values=values)
    if len(records) > len(histories):
        print_note(f"further records meet the condition: --limit {limit} tells of the first that were found")
    if any(history.file_groups for history in histories):
        return
    for line in _search_lines(histories[0]) if histories else ["no version of any record meets the condition"]:
        print_note(line)
    note_empty_past(opened, as_of)
    raise typer.Exit(1)


def _records_where(
    table: HudiTable, condition: str, partition: str | None, as_of: str | None, limit: int
) -> list[tuple[str | None, str | None]]:
    """The first partitions and keys of records with a version that meets a condition."""
    records: dict[tuple[str | None, str | None], None] = {}
    with row_condition(table.snapshot(as_of), table_name(table), condition) as test:
        reader = find_versions(table, test.row_filter, test.columns, partition_path=partition, as_of=as_of)
        with closing(reader):
            for batch in reader:
                structs: Any = batch.column(ROW)
                passes = test.passes(pa.record_batch(structs.flatten(), names=list(test.columns)))
                matching = batch.select([PARTITION_PATH, RECORD_KEY]).filter(pa.array(passes))
                records |= dict.fromkeys(zip(*(column.to_pylist() for column in matching.columns), strict=True))
                if len(records) >= limit:
                    break
    return sorted(list(records)[:limit], key=str)


def _print_histories(histories: Sequence[RecordHistory], *, all_values: bool) -> None:
    for number, history in enumerate(histories):
        if number:
            Console().print()
        _print_history(history, all_values=all_values)


def _print_history(history: RecordHistory, *, all_values: bool) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_IN_PIPE
    console = Console(width=width, highlight=False)
    console.print(_text(f"{history.record_key} as of {history.instant}", "bold"))
    console.print(_text(f"merged by {history.rule}", "dim"))
    for group in history.file_groups:
        console.print()
        for indent, line in _group_lines(group, all_values=all_values):
            console.print(Padding(line, (0, 0, 0, indent), expand=False))


def _group_lines(group: FileGroupHistory, *, all_values: bool) -> Iterator[_Line]:
    yield 0, _text(f"partition {group.partition_path or '(none)'}, file group {group.file_id}", "bold")
    for number, version in enumerate(group.versions, start=1):
        yield from _version_lines(f"{number:>2}", version, "green" if number == group.winner else "")
        yield from _values_lines(version, group.result, all_values=all_values)
        for verdict in group.verdict_texts(number):
            yield _INDENT, _text(verdict)
    if group.uncounted:
        yield 0, _text("does not count:", "bold")
    for uncounted in group.uncounted:
        yield from _version_lines(" -", uncounted.version, "dim")
        yield from _values_lines(uncounted.version, group.result, all_values=all_values)
        yield _INDENT, _text(uncounted.reason)
    if group.unreadable:
        yield 0, _text("unreadable, may have held the record:", "bold")
    for unreadable in group.unreadable:
        yield _INDENT, _text(unreadable.text(_name(unreadable.path)))
    yield from _result_lines(group)


def _version_lines(mark: str, version: RecordVersion, style: str) -> Iterator[_Line]:
    parts = [f"{version.kind:<14}", version.instant_time]
    if version.ordering:
        parts.append("no ordering" if version.always_deletes else f"ordering {ordering_text(version.ordering)}")
    if version.delete is not None:
        parts.append(f"by {version.delete}")
    yield 0, _text(f"{mark}  {'  '.join(parts)}", style)
    if version.commit_time not in (None, version.instant_time):
        yield _INDENT, _text(f"written by {version.commit_time}", "dim")
    yield _INDENT, _text(_name(version.path), "dim")
    if version.block_number is not None:
        yield _INDENT, _text(f"block {version.block_number} at byte {version.offset:,}", "dim")


def _values_lines(version: RecordVersion, result: pa.Table, *, all_values: bool) -> Iterator[_Line]:
    """The values that a version carries and the resulting row has not, or all of them, without Hudi's own columns."""
    names = [name for name in version.carried if name not in META_COLUMNS]
    carried = shown_values(version.row.select(names)) if names else {}
    resulting = {} if all_values or not result.num_rows else shown_values(result.slice(0, 1))
    parts = [f"{name} {text}" for name, text in carried.items() if resulting.get(name) != text]
    if parts:
        yield _INDENT, _text(f"values: {', '.join(parts)}")


def _result_lines(group: FileGroupHistory) -> Iterator[_Line]:
    if not group.result.num_rows:
        ending = f"no row: {group.winner} deletes the record" if group.winner else "no row"
        yield 0, _text(ending, "bold red")
        return
    sources = dict(group.sources)
    is_mixed = len(set(sources.values())) > 1
    yield 0, _text("the row:" if group.result.num_rows == 1 else f"{group.result.num_rows} rows, the first:", "bold")
    widest = max(map(len, group.result.schema.names))
    for name, shown in shown_values(group.result.slice(0, 1)).items():
        source = f"  (from {sources[name]})" if is_mixed else ""
        yield _INDENT, _text(f"{name:<{widest}}  {shown}{source}")


def _search_lines(history: RecordHistory) -> Iterator[str]:
    """Which file groups were searched for a key, and how."""
    searched = history.searched_file_groups
    groups_text = _count(len(searched), "file group")
    yield f"{history.record_key} is not in the table as of {history.instant}; searched {groups_text}:"
    for check, groups in Counter(group.base_check for group in searched).items():
        if check is not BaseCheck.NO_BASE_FILE:
            yield f"  {_count(groups, 'base file')} {check}"
    yield f"  {_count(sum(group.log_files for group in searched), 'log file')} read"
    for group in searched[:_MOST_GROUPS]:
        location = f"{group.partition_path}/{group.file_id}" if group.partition_path else group.file_id
        yield f"  {location}: base file {group.base_check}, {_count(group.log_files, 'log file')} read"
    if len(searched) > _MOST_GROUPS:
        yield f"  and {len(searched) - _MOST_GROUPS:,} more"
    for group in searched:
        for unreadable in group.unreadable:
            yield f"  unreadable, may have held the record: {unreadable.text()}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _text(text: str, style: str = "") -> Text:
    return Text(escape_control(text), style=style, overflow="fold")
