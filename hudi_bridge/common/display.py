"""How values are shown to people: numbers, HTML for notebooks and pages, Python values that JSON can represent.

Names of tables, columns, files and records are not trusted: all text is escaped, and control characters and characters
that change the direction of text are shown as escapes. An HTML page loads nothing: its policy allows its own style and
script, by their hashes, and no request.

For JSON, times become text such as ``2026-01-31 12:00:00.000000``, with a ``Z`` if the type has a time zone; decimals
text with all digits, bytes hexadecimal text, maps objects.
"""

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

_MAX_CHARACTERS = 300
"""Longer texts are cut: a notebook shows a table, not a document."""
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_UNIT = 1024
_MAX_ROWS = 200
"""As many columns as anyone scrolls through; the rest is counted."""
STYLE = """
:root { color-scheme: light dark; --line: #8885; --dim: #666; --error: #c62828; --warning: #9a5b00; --advice: #1565c0; }
@media (prefers-color-scheme: dark) {
  :root { --dim: #aaa; --error: #ff8a80; --warning: #ffcc66; --advice: #90caf9; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border-top: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.whole { white-space: nowrap; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
.dim, .info { color: var(--dim); }
.error { color: var(--error); font-weight: 600; }
.warning { color: var(--warning); font-weight: 600; }
.advice { color: var(--advice); }
"""
Array: TypeAlias = "pa.Array[Any]"
ArrowType: TypeAlias = Any
_DAYS_OF_CYCLE = 146_097
"""The Gregorian calendar is the same again after 400 years."""
_YEARS_OF_CYCLE = 400
_FURTHEST_DAY = 365 * 30_000
"""Arrow writes years of 16 bits."""
_PER_DAY: dict[str, int] = {unit: 86_400 * 1000**power for power, unit in enumerate(("s", "ms", "us", "ns"))}


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
    rows = (f"<tr>{_cell('th', name)}{_cell('td', _joined(value))}</tr>" for name, value in shown)
    return _table(title, rows)


def html_of_rows(title: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a header; shows the first rows only, and how many more there are. Without rows, nothing."""
    listed = list(rows)
    if not listed:
        return ""
    head = "<tr>" + "".join(_cell("th", name) for name in header) + "</tr>"
    cells = (
        "<tr>" + "".join(_cell("td", "" if value is None else _joined(value)) for value in row) + "</tr>"
        for row in listed[:_MAX_ROWS]
    )
    more = len(listed) - _MAX_ROWS
    last = [f'<tr><td colspan="{len(header)}">and {more:,} more</td></tr>'] if more > 0 else []
    return _table(title, [head, *cells, *last])


def _cell(tag: str, value: object) -> str:
    # Notebooks align cells to the right, which suits numbers alone. Colours are theirs, on light and dark screens.
    return f'<{tag} style="text-align: left; vertical-align: top">{_text(value)}</{tag}>'


def _table(title: str, rows: Iterable[str]) -> str:
    caption = f'<caption style="text-align: left; font-weight: bold">{_text(title)}</caption>'
    return f"<table>{caption}{''.join(rows)}</table>"


def _joined(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else value


def _text(value: object) -> str:
    return page_text(clipped(str(value)))


def page_start(title: str, style: str = STYLE, script: str | None = None) -> str:
    """A page up to the tag of its body, with a policy that allows this style, this script, and no request.

    ``script`` has to stand in the page as the whole content of a ``script`` element.
    """
    scripts = "" if script is None else f" script-src {_hash(script)};"
    policy = f"default-src 'none'; style-src {_hash(style)};{scripts} base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{page_text(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    )


def header_cell(name: str, *, is_number: bool = False) -> str:
    """The head of a column."""
    kind = ' class="number"' if is_number else ""
    return f'<th scope="col"{kind}>{page_text(name)}</th>'


def page_text(text: object) -> str:
    """A text as HTML, also between double quotes; see ``shown``."""
    return escape(shown(str(text)))


def shown(text: str) -> str:
    """The text with escapes for what is not printable: control characters, and lone surrogates of file names."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _hash(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


def values_as_text(column: Array) -> list[Any]:
    """The values of a column as JSON types; NaN and infinities stay floats."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return values_as_text(column.cast(kind.storage_type))
    if types.is_dictionary(kind):
        return values_as_text(column.cast(kind.value_type))
    if types.is_struct(kind):
        return list(_objects(column))
    if types.is_map(kind):
        return list(_maps(column))
    if is_nested(kind) and not types.is_union(kind):
        return list(_lists(column))
    return _flat_values(column)


def is_far(column: Array) -> bool:
    """Whether a column of dates or timestamps has years of more than 16 bits, which Arrow does not write."""
    return bool(np.any(np.abs(_days(column)) > _FURTHEST_DAY))


def to_json(value: object) -> str:
    """A value of ``values_as_text`` as JSON; NaN and infinities become strings."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), ensure_ascii=False, allow_nan=False)


def is_nested(kind: ArrowType) -> bool:
    """Whether values of the type contain other values."""
    return types.is_nested(kind)


def _flat_values(column: Array) -> list[Any]:
    kind = column.type
    if types.is_date(kind) or types.is_timestamp(kind):
        return _days_as_text(column)
    if types.is_decimal(kind) or types.is_time(kind):
        return pc.cast(column, pa.string()).to_pylist()
    if types.is_float32(kind):
        # The number with the fewest digits that rounds to the same single-precision float.
        return [None if text is None else float(text) for text in pc.cast(column, pa.string()).to_pylist()]
    values = column.to_pylist()
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or _is_text(kind):
        return values
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind) or _is_view(kind):
        return [None if value is None else value.hex() for value in values]
    return [None if value is None else str(value) for value in values]


def _objects(column: Any) -> Iterator[dict[str, Any] | None]:  # noqa: ANN401 - a struct array
    names = [field.name for field in column.type]
    fields = [values_as_text(field) for field in column.flatten()]
    rows = zip(*fields, strict=True) if fields else iter([()] * len(column))
    for row, is_valid in zip(rows, column.is_valid().to_pylist(), strict=True):
        yield dict(zip(names, row, strict=True)) if is_valid else None


def _lists(column: Any) -> Iterator[list[Any] | None]:  # noqa: ANN401 - an array of lists of any kind
    lengths = pc.list_value_length(column).to_pylist()
    items = values_as_text(column.flatten())
    ends = accumulate((length or 0 for length in lengths), initial=0)
    for length, (start, end) in zip(lengths, pairwise(ends), strict=True):
        yield None if length is None else items[start:end]


def _maps(column: Array) -> Iterator[dict[str, Any] | None]:
    kind = column.type
    entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
    for entries in _lists(column.cast(pa.list_(entry))):
        yield None if entries is None else {_name(item["key"]): item["value"] for item in entries}


def _name(key: object) -> str:
    return key if isinstance(key, str) else to_json(key)


def _days_as_text(column: Array) -> list[str | None]:
    kind = column.type
    if types.is_timestamp(kind) and kind.tz not in (None, "UTC"):
        column = column.cast(pa.timestamp(kind.unit, "UTC"))
    if not is_far(column):
        return pc.cast(column, pa.string()).to_pylist()
    days = _days(column)
    cycles = np.where(np.abs(days) > _FURTHEST_DAY, days // _DAYS_OF_CYCLE, 0)
    near = _numbers(column) - cycles * _DAYS_OF_CYCLE * _per_day(column.type)
    moved = pa.array(near, mask=column.is_null().to_numpy(zero_copy_only=False))
    texts = pc.cast(moved.cast(_stored(column.type)).view(column.type), pa.string()).to_pylist()
    return [
        f"{int(text[:4]) + _YEARS_OF_CYCLE * cycle}{text[4:]}" if text is not None and cycle else text
        for text, cycle in zip(texts, cycles.tolist(), strict=True)
    ]


def _days(column: Array) -> "np.ndarray[Any, np.dtype[np.int64]]":
    return _numbers(column) // _per_day(column.type)


def _numbers(column: Array) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """The stored numbers of a column of dates or timestamps, 0 for null."""
    integers: Any = column.view(_stored(column.type))
    numbers: np.ndarray[Any, np.dtype[Any]] = pc.fill_null(integers, 0).to_numpy()
    return numbers.astype(np.int64, copy=False)


def _stored(kind: ArrowType) -> pa.DataType:
    return pa.int32() if types.is_date32(kind) else pa.int64()


def _per_day(kind: ArrowType) -> int:
    """The number that is stored for a day."""
    if types.is_date32(kind):
        return 1
    unit: str = "ms" if types.is_date64(kind) else kind.unit
    return _PER_DAY[unit]


def _is_view(kind: ArrowType) -> bool:
    return types.is_binary_view(kind)


def _is_text(kind: ArrowType) -> bool:
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind) or types.is_null(kind)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
