"""Quotes names and values for SQL.

They come from a table's schema, paths and properties, which are untrusted input. Those that an engine's catalog cannot
hold are refused.

Source: Trino's grammar (``SqlBase.g4``); ``HiveMetadata`` of Trino for column names; ``TypeSignature`` of Presto.
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
# Presto writes the types of a view as text, with unquoted field names, and reads it by a grammar of its own.
_FIELD_NAME_IN_PRESTO = re.compile("[a-z_][a-z0-9_]*")
_DOTTED_I = "\u0130"
"""The only letter whose lower case is two characters in Python, and one where Java compares."""


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
        UnsupportedTableError: a name has a comma or outer spaces, another one in lower case, or two names differ in
            case alone.
    """
    names = list(names)
    for name in names:
        identifier(name)
        if "," in name or name != name.strip():
            raise UnsupportedTableError("column name in Trino", repr(name), "names without commas and outer spaces")
    _check_cases("column", names)


def field_identifiers(names: Iterable[str], dialect: Dialect) -> list[str]:
    """The quoted names of a struct's fields in a type.

    Hive has them in lower case. A type with others would not be that of its values, and SQL drops names of fields that
    differ where it unites types. Fields are found ignoring case, so that an expression may name them either way.

    Raises:
        UnsupportedTableError: a Hive table cannot have fields with these names.
    """
    names = list(names)
    for name in names:
        if not _FIELD_NAME.match(name) or name != name.strip():
            raise UnsupportedTableError("field name in Trino", repr(name), "letters, digits, _ and spaces")
    _check_cases("field", names)
    lower = [name.lower() for name in names]
    if dialect is Dialect.PRESTO and (unread := [name for name in lower if not _FIELD_NAME_IN_PRESTO.fullmatch(name)]):
        raise UnsupportedTableError("field name in Presto", repr(unread[0]), "letters of ASCII, digits and _")
    return list(map(identifier, lower))


def _check_cases(noun: str, names: Iterable[str]) -> None:
    """Refuse names that are not found in lower case, or that another one is found by."""
    names_by_key: dict[str, str] = {}
    for name in names:
        key = _without_case(name)
        if _without_case(name.lower()) != key:
            raise UnsupportedTableError(f"{noun} name in Trino", repr(name), "names of as many letters in lower case")
        if (other := names_by_key.setdefault(key, name)) != name:
            twins = f"{other} and {name}"
            raise UnsupportedTableError(f"{noun} names in Trino", twins, "names that differ in more than case")


def _without_case(name: str) -> str:
    """The key of a name by which Java compares it without case: each character for itself, by its two cases.

    Source: ``String.equalsIgnoreCase``.
    """
    uppers = (upper if len(upper := sign.upper()) == 1 else sign for sign in name)
    return "".join("i" if upper == _DOTTED_I else upper.lower() for upper in uppers)


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
