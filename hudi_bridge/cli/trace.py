"""``trace``: the history of one record, as text to read or as rows to query."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hudi_bridge.cli import options
from hudi_bridge.cli.opening import note_empty_past, open_table
from hudi_bridge.cli.output import Destination, Format, write
from hudi_bridge.cli.terminal import escape_control, print_note
from hudi_bridge.plain_values import is_nested, to_json, values_as_text
from hudi_bridge.trace.base_search import BaseCheck
from hudi_bridge.trace.record_history import FileGroupHistory, RecordHistory
from hudi_bridge.trace.versions import RecordVersion, UnreadablePlace, ordering_text, value_text

_WIDTH_IN_PIPE = 80
_INDENT = 4
_MOST_GROUPS = 20
_Line = tuple[int, Text]
"""The indentation of a line, and its text."""


def trace(
    table: options.Table,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The record key, as in _hoodie_record_key.")],
    *,
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
    """Show all versions of a record, why each wins or loses, and the resulting row.

    The exit code is 1 if the key is not found.
    """
    destination = Destination.of(output_format, output, no_clobber=no_clobber)
    opened = open_table(table, option, payload, storage_option)
    history = opened.history_of(key, partition_path=partition, as_of=as_of)
    if destination.format is not Format.TABLE:
        write(history.to_table().to_reader(), destination)
    elif history.file_groups:
        _print_history(history)
    if not history.file_groups:
        for line in _search_lines(history):
            print_note(line)
        note_empty_past(opened, as_of)
        raise typer.Exit(1)


def _print_history(history: RecordHistory) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_IN_PIPE
    console = Console(width=width, highlight=False)
    console.print(_text(f"{history.record_key} as of {history.instant}", "bold"))
    console.print(_text(f"merged by {history.rule}", "dim"))
    for group in history.file_groups:
        console.print()
        for indent, line in _group_lines(group):
            console.print(Padding(line, (0, 0, 0, indent), expand=False))


def _group_lines(group: FileGroupHistory) -> Iterator[_Line]:
    yield 0, _text(f"partition {group.partition_path or '(none)'}, file group {group.file_id}", "bold")
    for number, version in enumerate(group.versions, start=1):
        yield from _version_lines(f"{number:>2}", version, "green" if number == group.winner else "")
        for verdict in group.verdict_texts(number):
            yield _INDENT, _text(verdict)
    if group.uncounted:
        yield 0, _text("does not count:", "bold")
    for uncounted in group.uncounted:
        yield from _version_lines(" -", uncounted.version, "dim")
        yield _INDENT, _text(uncounted.reason)
    if group.unreadable:
        yield 0, _text("unreadable, may have held the record:", "bold")
    for place in group.unreadable:
        yield _INDENT, _text(_place_text(_name(place.path), place))
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


def _result_lines(group: FileGroupHistory) -> Iterator[_Line]:
    if not group.result.num_rows:
        ending = f"no row: {group.winner} deletes the record" if group.winner else "no row"
        yield 0, _text(ending, "bold red")
        return
    sources = dict(group.sources)
    is_mixed = len(set(sources.values())) > 1
    yield 0, _text("the row:" if group.result.num_rows == 1 else f"{group.result.num_rows} rows, the first:", "bold")
    widest = max(map(len, group.result.schema.names))
    for field in group.result.schema:
        (value,) = values_as_text(group.result.column(field.name).slice(0, 1).combine_chunks())
        shown = to_json(value) if is_nested(field.type) and value is not None else value_text(value)
        source = f"  (from {sources[field.name]})" if is_mixed else ""
        yield _INDENT, _text(f"{field.name:<{widest}}  {shown}{source}")


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
        where = f"{group.partition_path}/{group.file_id}" if group.partition_path else group.file_id
        yield f"  {where}: base file {group.base_check}, {_count(group.log_files, 'log file')} read"
    if len(searched) > _MOST_GROUPS:
        yield f"  and {len(searched) - _MOST_GROUPS:,} more"
    for group in searched:
        for place in group.unreadable:
            yield f"  unreadable, may have held the record: {_place_text(place.path, place)}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _place_text(shown_path: str, place: UnreadablePlace) -> str:
    where = "" if place.offset is None else f" at byte {place.offset:,}"
    return f"{shown_path}{where}: {place.reason}"


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _text(text: str, style: str = "") -> Text:
    return Text(escape_control(text), style=style, overflow="fold")
