"""Prints rows as a table that fits the width of the terminal: cells are truncated, columns left out.

Columns that identify rows are left out last.
"""

import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hudi_bridge.cli.terminal import escape_control
from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.display import is_nested, size_text, to_json, values_as_text

_WIDEST_CELL = 40
_NEVER_CUT = 17
"""The length of an instant time."""
_NARROWEST_CUT = 12
_UNLIMITED_WIDTH = 1 << 20
_PADDING = 3
"""Of a column: a blank on both sides and a border."""
_ELLIPSIS = "…"
_SIZE = "size_bytes"
_META_PREFIX = "_hoodie_"


@dataclass(kw_only=True)
class _Column:
    """A column, shown ``width`` characters wide, or left out if ``width`` is None."""

    name: str
    cells: tuple[str | None, ...]
    is_number: bool
    is_nested: bool = False
    width: int | None = None

    @cached_property
    def cells_width(self) -> int:
        return max((cell_len("null" if cell is None else cell) for cell in self.cells), default=0)

    @property
    def natural_width(self) -> int:
        return max(cell_len(self.name), self.cells_width)

    @property
    def least_width(self) -> int:
        """The minimum width: numbers are never truncated, names break at underscores."""
        name = max(map(cell_len, _split_at_underscores(self.name)))
        is_whole = self.is_number or self.cells_width <= _NEVER_CUT
        return max(name, self.cells_width if is_whole else _NARROWEST_CUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How a table is shown on a terminal.

    Columns named in ``keep`` are left out last, the first of them last of all; in structs they come first. With
    ``sizes``, columns of sizes are shown in KiB, MiB, …; in a pipe they stay in bytes.
    """

    keep: Sequence[str] = ()
    sizes: bool = False


_DEFAULT_LOOK = Look()


def print_grid(rows: pa.Table, limit: int | None = None, look: Look = _DEFAULT_LOOK) -> None:
    """Prints the first ``limit`` rows, or all; in a pipe nothing is truncated."""
    is_terminal = sys.stdout.isatty()
    columns = [
        _column(field, rows.column(position).slice(0, limit), look if is_terminal else _DEFAULT_LOOK)
        for position, field in enumerate(rows.schema)
    ]
    room = shutil.get_terminal_size().columns if is_terminal else _UNLIMITED_WIDTH
    _fit(columns, room, look.keep)
    console = Console(width=room, highlight=False)
    if columns:
        console.print(_grid(columns), crop=is_terminal)
    if footer := _footer(rows, limit, columns):
        console.print(Text(footer, style="dim"))


def print_properties(properties: Mapping[str, str]) -> None:
    """Prints one name and value per line, in a box on a terminal and aligned in a pipe; nothing is truncated."""
    shown = {escape_control(name): escape_control(value) for name, value in properties.items()}
    if sys.stdout.isatty():
        grid = Table(box=box.ROUNDED, show_header=False)
        grid.add_column(no_wrap=True, style="bold")
        grid.add_column(overflow="fold")
        for name, value in shown.items():
            grid.add_row(Text(name), Text(value))
        Console(highlight=False).print(grid)
        return
    widest = max(map(cell_len, shown), default=0)
    for name, value in shown.items():
        sys.stdout.write(f"{name}{' ' * (widest - cell_len(name))}  {value}".rstrip() + "\n")


def _column(field: "pa.Field[Any]", values: "pa.ChunkedArray[Any]", look: Look) -> _Column:
    if look.sizes and field.name.endswith(_SIZE):
        cells = [None if size is None else size_text(size) for size in values.to_pylist()]
        return _Column(name=field.name.removesuffix("_bytes"), cells=tuple(cells), is_number=True)
    kind = field.type
    return _Column(
        name=escape_control(field.name),
        cells=tuple(_cells(values, look.keep)),
        is_number=types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind),
        is_nested=is_nested(kind),
    )


def _cells(column: "pa.ChunkedArray[Any]", keep: Sequence[str]) -> list[str | None]:
    values = [value for chunk in column.chunks for value in values_as_text(chunk)]
    if keep and types.is_struct(column.type):
        # Cells are truncated at the end: Hudi's meta fields, which come first in the schema, go last.
        names = sorted(column.type.names, key=lambda name: _rank(name, keep))
        values = [value and {name: value[name] for name in names} for value in values]
    to_text = to_json if is_nested(column.type) else _scalar_text
    return [None if value is None else escape_control(to_text(value)) for value in values]


def _rank(name: str, keep: Sequence[str]) -> int:
    return keep.index(name) if name in keep else len(keep) + name.startswith(_META_PREFIX)


def _scalar_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _fit(columns: Sequence[_Column], room: int, keep: Sequence[str]) -> None:
    """Sets the width of each column; columns in ``keep`` are left out and truncated last."""
    for column in columns:
        column.width = min(column.natural_width, _WIDEST_CELL)
    meta = [column for column in columns if column.name.startswith(_META_PREFIX) and column.name not in keep]
    if _needed(columns) > room and len(meta) < len(columns):
        _leave_out(meta)
    shown = [column for column in columns if column.width is not None]
    fitting = sorted((column for column in shown if column.name in keep), key=lambda column: keep.index(column.name))
    fitting = fitting or shown[:1]
    others = [column for column in shown if column not in fitting]
    for column in shown:
        column.width = min(column.least_width, room)
    middle = (len(others) - 1) / 2
    from_middle = sorted(range(len(others)), key=lambda position: abs(position - middle))
    for column in (*(others[position] for position in from_middle), *fitting[:0:-1]):
        if _needed(columns) > room:
            _leave_out([column])
    for column in columns:
        if column.width is not None:
            column.width = min(column.natural_width, room)
    _narrow(columns, room, lambda column: max(column.least_width, column.cells_width))
    _narrow([column for column in others if column.width is not None], room, lambda column: column.least_width, columns)
    _narrow(columns, room, lambda column: column.least_width)


def _narrow(
    columns: Sequence[_Column], room: int, least: Callable[[_Column], int], every: Sequence[_Column] | None = None
) -> None:
    """Narrows the widest of ``columns`` until ``every`` column (by default these) fits."""
    excess = _needed(every or columns) - room
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
    gaps = sum(1 for _ in _shown(columns)) - sum(column.width is not None for column in columns)
    widths = [column.width for column in columns if column.width is not None] + [len(_ELLIPSIS)] * gaps
    return 1 + sum(width + _PADDING for width in widths)


def _shown(columns: Sequence[_Column]) -> Iterator[_Column | None]:
    """The shown columns, with one None for each run of columns left out."""
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
    if text is None:
        return Text("null", style="dim")
    return Text(text if column.is_nested or " " in text else _cut_in_middle(text, column.width or 0))


def _cut_in_middle(text: str, width: int) -> str:
    """The text, with its middle replaced by an ellipsis if it is wider than ``width``."""
    if cell_len(text) <= width:
        return text
    head, tail = (width - 1) - (width - 1) // 2, (width - 1) // 2
    return _head(text, head) + _ELLIPSIS + _head(text[::-1], tail)[::-1]


def _head(text: str, width: int) -> str:
    """The longest prefix of a text that fits a width."""
    end = 0
    while end < len(text) and cell_len(text[: end + 1]) <= width:
        end += 1
    return text[:end]


def _split_at_underscores(name: str) -> list[str]:
    return re.findall("[^_]*_+|[^_]+", name) or [""]


def _wrapped(name: str, width: int) -> list[str]:
    """A name broken after underscores into lines of at most ``width``."""
    lines = [""]
    for part in _split_at_underscores(name):
        if lines[-1] and cell_len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part
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
