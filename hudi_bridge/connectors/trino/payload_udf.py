"""A Trino function that merges a contested record with a user's payload.

The source text of this module runs in Trino's Python, after that of the payload. Trino passes rows as tuples and maps
as dictionaries; the payload gets dictionaries and lists of pairs, as in a read of the table.

A shape is None for a primitive value, ``("row", ((name, shape), ...))``, ``("array", shape)`` or ``("map", shape)``.
"""

from typing import Any


def to_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - any value and shape
    """A value of Trino as the payload expects it."""
    if value is None or shape is None:
        return value
    kind, inner = shape
    if kind == "row":
        return {name: to_payload(field, of_field) for (name, of_field), field in zip(inner, value, strict=True)}
    if kind == "map":
        return [(key, to_payload(item, inner)) for key, item in value.items()]
    return [to_payload(item, inner) for item in value]


def from_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - any value and shape
    """A value of the payload as Trino expects it."""
    if value is None or shape is None:
        return value
    kind, inner = shape
    if kind == "row":
        return tuple(from_payload(value.get(name), of_field) for name, of_field in inner)
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return {key: from_payload(item, inner) for key, item in pairs}
    return [from_payload(item, inner) for item in value]


def merged_rows(payload: Any, pairs: Any, shape: Any) -> list[Any]:  # noqa: ANN401 - any payload and rows
    """The merged rows of pairs of a base row and a log version, without the records that are deleted."""
    merge = payload.combine_and_get_update_value
    _, fields = shape
    if any(of_field is not None for _, of_field in fields):
        answers = [merge(to_payload(base, shape), to_payload(log, shape)) for base, log in pairs]
        return [from_payload(row, shape) for row in answers if row is not None]
    # A row of plain values is converted within C: each step of Python takes about a microsecond there.
    names = [name for name, _ in fields]
    answers = [merge(dict(zip(names, base)), dict(zip(names, log))) for base, log in pairs]  # noqa: B905
    return [tuple(map(row.get, names)) for row in answers if row is not None]
