"""Arrow types -> the types of Hive tables in Trino and Presto, and of the columns that a view shows.

Hive has neither times of day nor timestamps with a time zone. The former are stored as microseconds, the latter as
timestamps in UTC; the view for Trino converts them back. Timestamps of Presto have milliseconds: those of microseconds
are published and shown as numbers.

Source: ``HiveTypeTranslator`` of Trino; ``ColumnReaderFactory`` of Presto, which cuts timestamps of microseconds.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from hudi_bridge.connectors.trino.sql_text import Dialect, Engine, field_identifiers, identifier
from hudi_bridge.engines import child_path
from hudi_bridge.errors import UnsupportedTableError

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
    inner = (shown(f"{expression}.{identifier(one.name)}", one.type, dialect, depth) for one in fields)
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
    fields = [(f"{expression}.{identifier(one.name)}", one.type) for one in map(kind.field, range(kind.num_fields))]
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
    fields = [(f"{expression}.{identifier(one.name)}", one.type) for one in map(kind.field, range(kind.num_fields))]
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
        return pa.struct([pa.field(one.name, published(one.type)) for one in fields])
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
