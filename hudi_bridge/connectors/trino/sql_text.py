"""Quotes names and values for SQL.

They come from a table's schema, paths and properties, which are untrusted input. Those that an engine's catalog cannot
hold are refused.

Source: Trino's grammar (``SqlBase.g4``); ``HiveMetadata`` of Trino for column names.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hudi_bridge.errors import QueryError, UnsupportedTableError

_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
# A file metastore makes folders of table names.
_OBJECT_NAME = re.compile(r"[^\W_][\w$-]*")
# Hive writes struct types as text, with unquoted field names.
_FIELD_NAME = re.compile(r"[^\W\d][\w ]*\Z")


class Engine(StrEnum):
    """Engines that log records are published for. They differ in how they read Parquet, and in what SQL can merge."""

    TRINO = "trino"
    PRESTO = "presto"


class Dialect(StrEnum):
    """SQL dialects: Trino's with Python functions, Presto's, and the standard's."""

    TRINO = "trino"
    PRESTO = "presto"
    ANSI = "ansi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectNames:
    """The names of a table's SQL objects: ``view`` is the realtime view, and the others begin with its name.

    ``fingerprint`` is part of the names of the others, so that a view still works while objects for a new table schema
    are created.
    """

    catalog: str
    schema: str
    view: str
    fingerprint: str

    def __post_init__(self) -> None:
        """Refuse names that a catalog would not accept."""
        for argument, name in (("catalog", self.catalog), ("schema", self.schema), ("name", self.view)):
            if not _OBJECT_NAME.fullmatch(name):
                raise QueryError(argument, repr(name), "letters, digits, - _ and $, with a letter or digit first")

    @property
    def of_schema(self) -> str:
        """The quoted name of the schema."""
        return f"{identifier(self.catalog)}.{identifier(self.schema)}"

    @property
    def of_view(self) -> str:
        """The quoted name of the realtime view."""
        return f"{self.of_schema}.{identifier(self.view)}"

    def of_part(self, part: str) -> str:
        """The quoted name of a table or function for the view."""
        return f"{self.of_schema}.{identifier(f'{self.view}__{part}_{self.fingerprint}')}"


def identifier(name: str) -> str:
    """A quoted name.

    Raises:
        UnsupportedTableError: the name is empty or has a control character.
    """
    if not name or _CONTROL.search(name):
        raise UnsupportedTableError("name in SQL", repr(name), "names without control characters")
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def literal(text: str) -> str:
    """A string literal.

    Raises:
        UnsupportedTableError: the text has a lone surrogate or a null byte, which no engine accepts.
    """
    if re.search(r"[\x00\ud800-\udfff]", text):
        raise UnsupportedTableError("text in SQL", repr(text), "Unicode text without null bytes")
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def comment(text: str) -> str:
    """A one-line comment."""
    return f"-- {_CONTROL.sub(' ', text)}"


def check_column_names(names: Iterable[str]) -> None:
    """Raises UnsupportedTableError unless a Hive table can have columns with these names.

    Raises:
        UnsupportedTableError: a name has a comma or outer spaces, or two names differ in case alone.
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
    """The quoted name of a struct field.

    Raises:
        UnsupportedTableError: a Hive table cannot have a field with this name.
    """
    if not _FIELD_NAME.match(name) or name != name.strip():
        raise UnsupportedTableError("field name in Trino", repr(name), "letters, digits, _ and spaces")
    return identifier(name)


def python_literal(value: Any) -> str:  # noqa: ANN401 - tuples of texts, numbers, booleans and None
    """A Python literal in ASCII without dollar signs, which could end a function's body in SQL."""
    return ascii(value).replace("$", "\\x24")


def body(text: str) -> str:
    """The body of a function, between dollar signs.

    Raises:
        UnsupportedTableError: the text contains the delimiter.
    """
    if "$$" in text:
        raise UnsupportedTableError("text of a Python function", "two dollar signs in a row", "text without them")
    return f"$$\n{text}\n$$"


def unused_prefix(names: Iterable[str], wanted: str) -> str:
    """A prefix that no name has, ignoring case."""
    taken = [name.lower() for name in names]
    while any(name.startswith(wanted) for name in taken):
        wanted = f"_{wanted}"
    return wanted


def options(settings: Mapping[str, str]) -> str:
    """The settings of a ``WITH`` clause."""
    return ", ".join(f"{name} = {literal(value)}" for name, value in settings.items())
