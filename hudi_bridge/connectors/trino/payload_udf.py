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


def combined(payload: Any, base: Any, log: Any, shape: Any) -> Any:  # noqa: ANN401 - any payload and row
    """The merged row of a base row and a log version; None if the record is deleted."""
    answer = payload.combine_and_get_update_value(to_payload(base, shape), to_payload(log, shape))
    return from_payload(answer, shape)
