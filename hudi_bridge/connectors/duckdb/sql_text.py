"""Names and values as text of DuckDB's SQL."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import pyarrow as pa


def quote_identifier(name: str) -> str:
    """A name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def sql_names(names: Sequence[str]) -> list[str]:
    """The names of columns in SQL, where case makes no difference: those that differ in case alone get numbers.

    ``name`` and ``Name`` become ``name_1`` and ``Name_2``. DuckDB would take both for the first one; so it finds
    neither, and its error has the names with the numbers.
    """
    counts, taken = Counter(map(str.lower, names)), {name.lower() for name in names}
    numbers = {name: count(1) for name, times in counts.items() if times > 1}
    found = []
    for name in names:
        unique = name
        while unique.lower() in taken and name.lower() in numbers:
            unique = f"{name}_{next(numbers[name.lower()])}"
        taken.add(unique.lower())
        found.append(unique)
    return found


def quote_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("'", "''") + "'"


def list_of_texts(texts: Iterable[str]) -> str:
    """A list literal of strings."""
    return f"[{', '.join(map(quote_text, texts))}]"


def literal(value: "pa.Scalar[Any]") -> str | None:
    """A literal of a text, a whole number, a truth value, a date or null; None for a value of another type."""
    kind: Any = value.type
    if not value.is_valid:
        return "NULL"
    if pa.types.is_string(kind):
        return quote_text(value.as_py())
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return str(value.as_py())
    if pa.types.is_date32(kind):
        return f"DATE {quote_text(value.cast(pa.string()).as_py())}"
    return None
