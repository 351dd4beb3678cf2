"""Names and values of a table -> SQL text in which they can be nothing but names and values.

Identifiers and texts come from a table's schema, paths and properties, which is outside input. They are quoted; those
that an engine's catalog cannot hold are refused.

Source: Trino's grammar (``SqlBase.g4``); ``HiveMetadata`` of Trino for column names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hudi_bridge.errors import QueryError, UnsupportedTableError

_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
# Names of tables become folders of a metastore that lives in files.
_OBJECT_NAME = re.compile(r"[^\W_][\w$-]*")
# Hive writes the type of a struct as text, with the names of its fields as they are.
_FIELD_NAME = re.compile(r"[^\W\d][\w ]*\Z")


class Dialect(StrEnum):
    """Whose SQL: Trino's with Python functions, Presto's, or what the standard has."""

    TRINO = "trino"
    PRESTO = "presto"
    ANSI = "ansi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNames:
    """What the objects of one table are called: ``view`` is the realtime view, others begin with its name.

    ``fingerprint`` tells the objects of different table schemas apart, so that a view goes on to work beside those that
    take its place.
    """

    catalog: str
    schema: str
    view: str
    fingerprint: str

    def __post_init__(self) -> None:
        """Refuse names that a catalog would not take."""
        for argument, name in (("catalog", self.catalog), ("schema", self.schema), ("name", self.view)):
            if not _OBJECT_NAME.fullmatch(name):
                raise QueryError(argument, repr(name), "letters, digits, - _ and $, with a letter or digit first")

    @property
    def of_schema(self) -> str:
        """The schema."""
        return f"{identifier(self.catalog)}.{identifier(self.schema)}"

    @property
    def of_view(self) -> str:
        """The realtime view."""
        return f"{self.of_schema}.{identifier(self.view)}"

    def of_part(self, part: str) -> str:
        """A table or function that belongs to the view."""
        return f"{self.of_schema}.{identifier(f'{self.view}__{part}_{self.fingerprint}')}"


def identifier(name: str) -> str:
    """A name in quotation marks.

    Raises:
        UnsupportedTableError: it has a control character, or nothing.
    """
    if not name or _CONTROL.search(name):
        raise UnsupportedTableError("name in SQL", repr(name), "names without control characters")
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """A text in apostrophes.

    Raises:
        UnsupportedTableError: it holds half of a character, or a null byte, which no engine takes.
    """
    if re.search(r"[\x00\ud800-\udfff]", text):
        raise UnsupportedTableError("text in SQL", repr(text), "Unicode text without null bytes")
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def comment(text: str) -> str:
    """A comment of one line."""
    return f"-- {_CONTROL.sub(' ', text)}"


def check_column_names(names: Iterable[str]) -> None:
    """Raises unless a Hive table can have columns of these names.

    Raises:
        UnsupportedTableError: it cannot.
    """
    seen: dict[str, str] = {}
    for name in names:
        identifier(name)
        if "," in name or name != name.strip():
            raise UnsupportedTableError("column name in Trino", repr(name), "names without commas and outer spaces")
        if (other := seen.setdefault(name.lower(), name)) != name:
            found = f"{other} and {name}"
            raise UnsupportedTableError("column names in Trino", found, "names that differ in more than case")


def field_identifier(name: str) -> str:
    """The name of a field within a struct, in quotation marks.

    Raises:
        UnsupportedTableError: a Hive table cannot have a field of this name.
    """
    if not _FIELD_NAME.match(name) or name != name.strip():
        raise UnsupportedTableError("field name in Trino", repr(name), "letters, digits, _ and spaces")
    return identifier(name)


def python_literal(value: Any) -> str:  # noqa: ANN401 - tuples of texts, numbers, booleans and None
    """A value as Python text of ASCII characters without a dollar sign, which could end a function's body in SQL."""
    return ascii(value).replace("$", "\\x24")


def body(text: str) -> str:
    """The body of a function, between its delimiters.

    Raises:
        UnsupportedTableError: it would end too early.
    """
    if "$$" in text:
        raise UnsupportedTableError("text of a Python function", "two dollar signs in a row", "text without them")
    return f"$$\n{text}\n$$"


def unused_prefix(names: Iterable[str], wanted: str) -> str:
    """A prefix that no name has, whatever its case."""
    taken = [name.lower() for name in names]
    while any(name.startswith(wanted) for name in taken):
        wanted = f"_{wanted}"
    return wanted


def options(settings: Mapping[str, str]) -> str:
    """The settings of a ``WITH`` clause."""
    return ", ".join(f"{name} = {literal(value)}" for name, value in settings.items())
