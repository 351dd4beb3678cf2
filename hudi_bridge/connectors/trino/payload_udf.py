"""What a Trino function does with a contested record of a table with a payload of the user's own: it asks the payload.

The text of this module runs in Trino's Python, behind that of the payload. Rows arrive as tuples, whose fields are put
under their names, and maps as dictionaries, which become lists of pairs: as a read of the table hands them over.

A shape is None for a plain value, ``("row", ((name, shape), ...))``, ``("array", shape)`` or ``("map", shape)``.
"""

from typing import Any


def to_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - values and shapes of any type
    """A value of SQL as the payload takes it."""
    if value is None or shape is None:
        return value
    kind, inner = shape
    if kind == "row":
        return {name: to_payload(field, of_field) for (name, of_field), field in zip(inner, value, strict=True)}
    if kind == "map":
        return [(key, to_payload(item, inner)) for key, item in value.items()]
    return [to_payload(item, inner) for item in value]


def from_payload(value: Any, shape: Any) -> Any:  # noqa: ANN401 - values and shapes of any type
    """A value of the payload as SQL takes it."""
    if value is None or shape is None:
        return value
    kind, inner = shape
    if kind == "row":
        return tuple(from_payload(value.get(name), of_field) for name, of_field in inner)
    if kind == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return {key: from_payload(item, inner) for key, item in pairs}
    return [from_payload(item, inner) for item in value]


def combined(payload: Any, base: Any, log: Any, shape: Any) -> Any:  # noqa: ANN401 - of any type
    """What the base row and the log version become; None if there is no row."""
    answer = payload.combine_and_get_update_value(to_payload(base, shape), to_payload(log, shape))
    return from_payload(answer, shape)
