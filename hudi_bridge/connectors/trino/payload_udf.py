"""A Trino function that merges a contested record with a user's payload.

The source text of this module runs in Trino's Python, after that of the payload. Trino passes rows as tuples and maps
as lists of entries; the payload gets dictionaries and lists of pairs, as in a read of the table.

Values of columns that the payload only copies stay in Trino: both rows have a mark for them, which tells the side that
the merged row takes the value from.

A shape is None for a primitive value, ``("row", ((name, shape), ...))``, ``("array", shape)`` or ``("map", shape)``; or
a name of ``MOMENTS`` with None, for values that come as text: Trino would pass wrong dates before 1902 and after 2037,
and fail for microseconds before 1970.
"""

import datetime as dt
from itertools import repeat
from operator import itemgetter
from typing import Any

UNSET = "n"
"""The mark of a column that the merged row does not have; those of the base row and the log version are b and l."""

MOMENTS = {
    "date": dt.date.fromisoformat,
    "timestamp": dt.datetime.fromisoformat,
    "instant": dt.datetime.fromisoformat,
}
"""Values from their text."""


def to_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - any value and shape
    """A value of Trino as the payload expects it."""
    if value is None or shape is None:
        return value
    kind, inner = shape
    if kind in MOMENTS:
        return MOMENTS[kind](value)
    if kind == "row":
        return {name: to_payload(field, of_field) for (name, of_field), field in zip(inner, value, strict=True)}
    if kind == "map":
        return [(key, to_payload(item, inner)) for key, item in value]
    return [to_payload(item, inner) for item in value]


def from_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - any value and shape
    """A value of the payload as Trino expects it.

    Arrays, and maps, which are arrays of entries, begin with None: see ``rows_udf``.
    """
    if value is None or shape is None or shape[0] in MOMENTS:
        return value
    kind, inner = shape
    if kind == "row":
        return tuple(from_payload(value.get(name), of_field) for name, of_field in inner)
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return [None, *{key: from_payload(item, inner) for key, item in pairs}.items()]
    return [None, *(from_payload(item, inner) for item in value)]


def merged_rows(payload: Any, pairs: Any, names: Any, passed: Any, make_rows: Any) -> list[Any]:  # noqa: ANN401 - any payload and rows
    """The merged row of each pair of a base row and a log version; None for records that are deleted.

    ``names`` are all columns, ``passed`` the names and shapes of those in the pairs. ``make_rows`` adds their values to
    marks. A merged row is a text with the marks of the columns that are not passed, and a row of the values of others.
    """
    if not pairs:
        return []
    columns = [name for name, _ in passed]
    shapes = [shape for _, shape in passed]
    is_nested = any(shape is not None and shape[0] not in MOMENTS for shape in shapes)
    marked = [name for name in names if name not in columns]
    sides = []
    for mark, values in zip("bl", zip(*pairs)):  # noqa: B905 - two of each
        sides.append(make_rows(values, dict.fromkeys(names, mark)))
    answers = list(map(payload.combine_and_get_update_value, *sides))
    rows = [row for row in answers if row is not None]
    if set(map(type, rows)) - {dict}:
        rows = list(map(dict, rows))
    try:
        merged = picked(rows, marked, columns)
    except KeyError:
        unset = dict.fromkeys(marked, UNSET) | dict.fromkeys(columns)
        merged = picked([{**unset, **row} for row in rows], marked, columns)
    if is_nested:
        merged = [(of_others, tuple(map(from_payload, row, shapes))) for of_others, row in merged]
    if len(merged) == len(answers):
        return merged
    following = iter(merged)
    return [None if row is None else next(following) for row in answers]


def picked(rows: Any, marked: Any, columns: Any) -> list[Any]:  # noqa: ANN401 - any rows
    """The marks and the values of rows. All is done within C: a call from Python takes microseconds in Trino."""
    marks = map("".join, map(itemgetter(*marked), rows)) if marked else repeat("")
    values = map(itemgetter(*columns), rows) if len(columns) > 1 else zip(map(itemgetter(*columns), rows))
    return list(zip(marks, values))  # noqa: B905 - marks may be endless
