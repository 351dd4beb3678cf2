"""Rows -> a table on the screen that fits its width: cells are shortened, columns left out.

A last line says how much is not shown.
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyarrow import types
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hudi_bridge.cli.terminal import plain
from hudi_bridge.cli.values import is_nested, readable_values, to_json

_WIDEST_CELL = 40
_NEVER_CUT = 17
"""The length of an instant."""
_NARROWEST_CUT = 12
_WIDEST_OF_ANY = 1 << 20
_PADDING = 3
"""Of a column: a blank on both sides and a line."""
_ELLIPSIS = "…"
_META_PREFIX = "_hoodie_"


@dataclass(kw_only=True)
class _Column:
    """A column to be shown ``width`` characters wide, or, with None, not."""

    name: str
    cells: tuple[str | None, ...]
    is_number: bool
    width: int | None = None

    @cached_property
    def cells_width(self) -> int:
        return max((cell_len("null" if cell is None else cell) for cell in self.cells), default=0)

    @property
    def natural_width(self) -> int:
        return max(cell_len(self.name), self.cells_width)

    @property
    def least_width(self) -> int:
        """As narrow as it may get: numbers are whole, names break at underscores."""
        name = max(map(cell_len, _pieces(self.name)))
        is_whole = self.is_number or self.cells_width <= _NEVER_CUT
        return max(name, self.cells_width if is_whole else _NARROWEST_CUT)


def print_grid(rows: pa.Table, limit: int | None = None) -> None:
    """The rows, or the first of them, on standard output; in a pipe nothing is shortened."""
    is_terminal = sys.stdout.isatty()
    columns = [
        _Column(
            name=plain(field.name),
            cells=tuple(_cells(rows.column(position).slice(0, limit))),
            is_number=types.is_integer(field.type) or types.is_floating(field.type) or types.is_decimal(field.type),
        )
        for position, field in enumerate(rows.schema)
    ]
    room = shutil.get_terminal_size().columns if is_terminal else _WIDEST_OF_ANY
    _fit(columns, room)
    console = Console(width=room, highlight=False)
    if columns:
        console.print(_grid(columns), crop=is_terminal)
    if footer := _footer(rows, limit, columns):
        console.print(Text(footer, style="dim"))


def _cells(column: "pa.ChunkedArray[Any]") -> list[str | None]:
    values = [value for chunk in column.chunks for value in readable_values(chunk)]
    to_text = to_json if is_nested(column.type) else _scalar_text
    return [None if value is None else plain(to_text(value)) for value in values]


def _scalar_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fit(columns: Sequence[_Column], room: int) -> None:
    """Decide on widths: Hudi's own columns give way first, then long names and cells, then columns in the middle."""
    for column in columns:
        column.width = min(column.natural_width, room)
    meta = [column for column in columns if column.name.startswith(_META_PREFIX)]
    if sum(min(column.natural_width, _WIDEST_CELL) + _PADDING for column in columns) >= room and len(meta) < len(
        columns
    ):
        _leave_out(meta)
    _narrow(columns, room, lambda column: max(column.least_width, column.cells_width))
    _narrow(columns, room, lambda column: column.least_width)
    middle = len(columns) / 2
    for position in sorted(range(1, len(columns)), key=lambda position: abs(position - middle)):
        if _needed(columns) > room and any(one.width for one in columns if one is not columns[position]):
            _leave_out([columns[position]])


def _narrow(columns: Sequence[_Column], room: int, least: Callable[[_Column], int]) -> None:
    """Take from the widest columns what is too much."""
    excess = _needed(columns) - room
    while excess > 0:
        widths = [(column.width, column) for column in columns if column.width and column.width > least(column)]
        if not widths:
            return
        widest = max(width for width, _ in widths)
        for width, column in widths:
            if width == widest and excess > 0:
                column.width = width - 1
                excess -= 1


def _leave_out(columns: Iterable[_Column]) -> None:
    for column in columns:
        column.width = None


def _needed(columns: Sequence[_Column]) -> int:
    gaps = sum(1 for _ in _shown(columns)) - sum(one.width is not None for one in columns)
    widths = [one.width for one in columns if one.width is not None] + [len(_ELLIPSIS)] * gaps
    return 1 + sum(width + _PADDING for width in widths)


def _shown(columns: Sequence[_Column]) -> Iterator[_Column | None]:
    """The columns, with one None for each run of those left out."""
    was_left_out = False
    for column in columns:
        is_left_out = column.width is None
        if not is_left_out:
            yield column
        elif not was_left_out:
            yield None
        was_left_out = is_left_out


def _grid(columns: Sequence[_Column]) -> Table:
    grid = Table(box=box.ROUNDED, header_style="bold")
    shown = list(_shown(columns))
    for column in shown:
        if column is None:
            grid.add_column(Text(_ELLIPSIS), no_wrap=True, width=len(_ELLIPSIS))
            continue
        grid.add_column(
            Text("\n".join(_wrapped(column.name, column.width or 0))),
            justify="right" if column.is_number else "left",
            no_wrap=True,
            overflow="ellipsis",
            width=column.width,
        )
    for row in range(len(columns[0].cells)):
        grid.add_row(*(_cell(column, row) for column in shown))
    return grid


def _cell(column: _Column | None, row: int) -> Text:
    if column is None:
        return Text(_ELLIPSIS, style="dim")
    text = column.cells[row]
    return Text("null", style="dim") if text is None else Text(text)


def _pieces(name: str) -> list[str]:
    return re.findall("[^_]*_+|[^_]+", name) or [""]


def _wrapped(name: str, width: int) -> list[str]:
    """A name in lines of a width, broken after underscores."""
    lines = [""]
    for piece in _pieces(name):
        if lines[-1] and cell_len(lines[-1] + piece) > width:
            lines.append("")
        lines[-1] += piece
    return lines


def _footer(rows: pa.Table, limit: int | None, columns: Sequence[_Column]) -> str:
    parts = []
    if rows.num_rows == 0:
        parts.append("no rows")
    is_cut = limit is not None and rows.num_rows > limit
    if is_cut:
        parts.append(f"the first {limit} rows")
    shown = sum(column.width is not None for column in columns)
    if shown < len(columns):
        parts.append(f"{shown} of {len(columns)} columns")
        is_cut = True
    return ", ".join(parts) + ("; all with --format json" if is_cut else "")
