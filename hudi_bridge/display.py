"""Numbers for people, and HTML tables for notebooks.

Names of tables, columns, files and records are not trusted: all text is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

_MAX_CHARACTERS = 300
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024
_MAX_ROWS = 200


def counted(number: int, noun: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_text(size_bytes: float) -> str:
    """A number of bytes for people: ``512 B``, ``7.8 KiB``, ``1.2 GiB``."""
    size, unit = float(size_bytes), -1
    # A size that rounds to 1024.0 is shown as 1.0 of the next unit.
    while round(size, 1) >= _UNIT and unit + 1 < len(_UNITS):
        size, unit = size / _UNIT, unit + 1
    return f"{size_bytes:,.0f} B" if unit < 0 else f"{size:,.1f} {_UNITS[unit]}"


def clipped(text: str) -> str:
    """The text, without its end if it is long."""
    return text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]}…"


def html_of_properties(title: str, properties: Iterable[tuple[str, object]]) -> str:
    """A table with one row per name and value, without values that are None or empty."""
    shown = [(name, value) for name, value in properties if value not in (None, "", (), [])]
    rows = (f"<tr><th>{_text(name)}</th><td>{_text(_joined(value))}</td></tr>" for name, value in shown)
    return _table(title, rows)


def html_of_rows(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a header; shows the first rows only, and how many more there are."""
    listed = list(rows)
    head = "<tr>" + "".join(f"<th>{_text(name)}</th>" for name in header) + "</tr>"
    cells = (
        "<tr>" + "".join(f"<td>{_text('' if value is None else value)}</td>" for value in row) + "</tr>"
        for row in listed[:_MAX_ROWS]
    )
    more = len(listed) - _MAX_ROWS
    last = [f'<tr><td colspan="{len(header)}">and {more:,} more</td></tr>'] if more > 0 else []
    return _table(title, [head, *cells, *last])


def _table(title: str, rows: Iterable[str]) -> str:
    return f"<table><caption>{_text(title)}</caption>{''.join(rows)}</table>"


def _joined(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value


def _text(value: object) -> str:
    text = clipped(str(value))
    # Lone surrogates, which file names may have, cannot be encoded for a browser.
    return escape(text.encode("utf-8", "backslashreplace").decode("utf-8"))
