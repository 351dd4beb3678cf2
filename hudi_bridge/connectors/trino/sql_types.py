"""The types of Arrow in SQL: of Hive tables in Trino and Presto, and of the columns that a view shows. Quoting for SQL.

Hive has neither times of day nor timestamps with a time zone. Times of day are stored as microseconds, and timestamps
with a time zone as timestamps in UTC; the view for Trino converts them back. Timestamps of Presto have milliseconds:
those of microseconds are published and shown as numbers.

Names and values come from a table's schema, paths and properties, which are untrusted input. All are quoted, and those
that an engine's catalog cannot hold are refused.

Source: ``HiveTypeTranslator`` of Trino; ``ColumnReaderFactory`` of Presto, which cuts timestamps of microseconds;
Trino's grammar (``SqlBase.g4``); ``HiveMetadata`` of Trino for column names; ``TypeSignature`` of Presto.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.schema.difference import child_path

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


def unused_prefix(names: Iterable[str], prefix: str) -> str:
    """A prefix that no name has, ignoring case."""
    taken = [name.lower() for name in names]
    while any(name.startswith(prefix) for name in taken):
        prefix = f"_{prefix}"
    return prefix


def options(settings: Mapping[str, str]) -> str:
    """The settings of a ``WITH`` clause."""
    return ", ".join(f"{name} = {literal(value)}" for name, value in settings.items())


ArrowType: TypeAlias = Any

_PRIMITIVES: Mapping[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double",
    pa.string(): "varchar",
    pa.binary(): "varbinary",
    pa.date32(): "date",
}
_TIME, _TIMESTAMP, _INSTANT = "time(6)", "timestamp(6)", "timestamp(6) with time zone"


def stored_type(kind: ArrowType, dialect: Dialect, path: str) -> str:
    """The type of a column of a Hive table; ``path`` names it in errors.

    Raises:
        UnsupportedTableError: Hive has no type for it.
    """
    timestamp = _stored_timestamp(dialect)
    return _type(kind, path, dialect=dialect, time="bigint", timestamp=timestamp, instant=timestamp)


def shown_type(kind: ArrowType, path: str) -> str:
    """The type of a view's column in Trino.

    Raises:
        UnsupportedTableError: Hive has no type to store it in.
    """
    return _type(kind, path, time=_TIME, timestamp=_TIMESTAMP, instant=_INSTANT)


def _stored_timestamp(dialect: Dialect) -> str:
    return _TIMESTAMP if dialect is Dialect.TRINO else "timestamp"


def _type(
    kind: ArrowType,
    path: str,
    *,
    dialect: Dialect = Dialect.TRINO,
    time: str,
    timestamp: str,
    instant: str,
    date: str = "date",
    of_map: str = "map({}, {})",
) -> str:
    def inner(child: ArrowType, name: str) -> str:
        types: dict[str, Any] = {"time": time, "timestamp": timestamp, "instant": instant, "date": date}
        return _type(child, child_path(path, name), dialect=dialect, of_map=of_map, **types)

    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        names = field_identifiers((field.name for field in fields), dialect)
        types = (inner(field.type, field.name) for field in fields)
        return f"row({', '.join(f'{name} {of_field}' for name, of_field in zip(names, types, strict=True))})"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return f"array({inner(kind.value_type, 'element')})"
    if pa.types.is_map(kind):
        return of_map.format(inner(kind.key_type, "key"), inner(kind.item_type, "value"))
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= kind.precision:
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return _PRIMITIVES[pa.binary()]
    if pa.types.is_time(kind) and kind.unit in ("ms", "us"):
        return time
    if pa.types.is_timestamp(kind) and kind.unit in ("ms", "us"):
        return instant if kind.tz is not None else timestamp
    if kind not in _PRIMITIVES:
        raise UnsupportedTableError("column type in Trino", f"{path} of type {kind}", "types of Hive tables")
    return date if pa.types.is_date32(kind) else _PRIMITIVES[kind]


def decoded_type(kind: ArrowType, path: str) -> str:
    """The type in which a Python function gives the values of a column.

    Those of time are whole numbers, maps arrays of their entries. Arrays have an entry more, at their beginning.

    Raises:
        UnsupportedTableError: Hive has no type to store it in.
    """
    of_map = "array(row(k {}, v {}))"
    return _type(kind, path, time="bigint", timestamp="bigint", instant="bigint", date="integer", of_map=of_map)


def shown(expression: str, kind: ArrowType, dialect: Dialect, depth: int = 0) -> str:
    """The SQL expression that converts a stored value to the type of the view's column."""
    if dialect is not Dialect.TRINO or not _changes(kind):
        return expression
    if pa.types.is_time(kind):
        return f"CAST(from_unixtime_nanos({expression} * 1000) AS {_TIME})"
    if pa.types.is_timestamp(kind):
        return f"with_timezone({expression}, 'UTC')"
    entry = f"e{depth}"
    if pa.types.is_list(kind):
        return f"transform({expression}, {entry} -> {shown(entry, kind.value_type, dialect, depth + 1)})"
    if pa.types.is_map(kind):
        value = shown(entry, kind.item_type, dialect, depth + 1)
        return f"transform_values({expression}, (k{depth}, {entry}) -> {value})"
    fields = [kind.field(position) for position in range(kind.num_fields)]
    inner = (shown(f"{expression}.{identifier(field.name)}", field.type, dialect, depth) for field in fields)
    row = f"CAST(ROW({', '.join(inner)}) AS {shown_type(kind, '')})"
    return f"CASE WHEN {expression} IS NOT NULL THEN {row} END"


def _changes(kind: ArrowType) -> bool:
    if pa.types.is_map(kind):
        return _changes(kind.item_type)
    if pa.types.is_nested(kind):
        return any(_changes(kind.field(position).type) for position in range(kind.num_fields))
    return pa.types.is_time(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None)


def passed_type(kind: ArrowType, path: str) -> str:
    """The type in which a Python function gets and gives the values of a view's column: maps are arrays of entries.

    Raises:
        UnsupportedTableError: Hive has no type to store it in.
    """
    return _type(kind, path, time=_TIME, timestamp=_TIMESTAMP, instant=_INSTANT, of_map="array(row(k {}, v {}))")


def to_passed(expression: str, kind: ArrowType, depth: int = 0) -> str:
    """The SQL expression that converts a value of the view's column to the passed type.

    Trino 476 passes an empty map in a way that changes the values after it.
    """
    entry = f"e{depth}"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        value = to_passed(entry, kind.value_type, depth + 1)
        return expression if value == entry else f"transform({expression}, {entry} -> {value})"
    if pa.types.is_map(kind):
        value = to_passed(f"{entry}[2]", kind.item_type, depth + 1)
        return f"transform(map_entries({expression}), {entry} -> ROW({entry}[1], {value}))"
    if not pa.types.is_struct(kind):
        return expression
    fields = [
        (f"{expression}.{identifier(field.name)}", field.type) for field in map(kind.field, range(kind.num_fields))
    ]
    inner = [to_passed(field, of_field, depth) for field, of_field in fields]
    if inner == [field for field, _ in fields]:
        return expression
    return f"CASE WHEN {expression} IS NOT NULL THEN CAST(ROW({', '.join(inner)}) AS {passed_type(kind, '')}) END"


def from_decoded(expression: str, kind: ArrowType) -> str:
    """The SQL expression that converts a value of the decoded type to the stored type of Trino."""
    return _from_given(expression, kind, _decoded, lambda row: stored_type(row, Dialect.TRINO, ""))


def from_returned(expression: str, kind: ArrowType) -> str:
    """The SQL expression that converts a value of the passed type, whose arrays have an entry more, to the view's."""
    return _from_given(expression, kind, lambda value, _: value, lambda row: shown_type(row, ""))


def _decoded(expression: str, kind: ArrowType) -> str:
    if pa.types.is_date(kind):
        return f"date_add('day', {expression}, DATE '1970-01-01')"
    if pa.types.is_timestamp(kind):
        # A decimal, for nanoseconds in 64 bits end in the year 2262.
        return f"CAST(from_unixtime_nanos(CAST({expression} AS decimal(38, 0)) * 1000) AS {_TIMESTAMP})"
    return expression


def _from_given(
    expression: str,
    kind: ArrowType,
    of_primitive: Callable[[str, ArrowType], str],
    row_type: Callable[[ArrowType], str],
    depth: int = 0,
) -> str:
    """A value that a Python function has given, without the first entries of arrays.

    Trino 476 takes what follows an empty array in a row for values of other types, so that none is given empty.
    """
    if not pa.types.is_nested(kind):
        return of_primitive(expression, kind)
    entry, entries = f"e{depth}", f"slice({expression}, 2, cardinality({expression}))"
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        value = _from_given(entry, kind.value_type, of_primitive, row_type, depth + 1)
        return entries if value == entry else f"transform({entries}, {entry} -> {value})"
    if pa.types.is_map(kind):
        value = _from_given(f"{entry}.v", kind.item_type, of_primitive, row_type, depth + 1)
        return f"map_from_entries(transform({entries}, {entry} -> ROW({entry}.k, {value})))"
    fields = [
        (f"{expression}.{identifier(field.name)}", field.type) for field in map(kind.field, range(kind.num_fields))
    ]
    inner = [_from_given(field, of_field, of_primitive, row_type, depth) for field, of_field in fields]
    if inner == [field for field, _ in fields]:
        return expression
    return f"CASE WHEN {expression} IS NOT NULL THEN CAST(ROW({', '.join(inner)}) AS {row_type(kind)}) END"


def types_within(kind: ArrowType) -> Iterator[ArrowType]:
    """A type of Arrow, and all those nested in it."""
    yield kind
    if pa.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from types_within(kind.field(position).type)


def published_type(kind: ArrowType, engine: Engine, *, cut_times: bool = False) -> ArrowType:
    """The Arrow type in which values are published: the engine reads it from Parquet as the stored type.

    For Presto, timestamps of microseconds are numbers, or timestamps of milliseconds with ``cut_times``.
    """

    def published(inner: ArrowType) -> ArrowType:
        return published_type(inner, engine, cut_times=cut_times)

    if pa.types.is_struct(kind):
        fields = [kind.field(position) for position in range(kind.num_fields)]
        return pa.struct([pa.field(field.name, published(field.type)) for field in fields])
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(published(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(published(kind.key_type), published(kind.item_type))
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_time(kind):
        return pa.time64("us")
    if not pa.types.is_timestamp(kind):
        return kind
    if engine is Engine.TRINO:
        return pa.timestamp("us", kind.tz)
    return pa.timestamp("ms", kind.tz) if kind.unit == "ms" or cut_times else pa.int64()
