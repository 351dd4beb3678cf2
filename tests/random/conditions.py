"""Conditions and projections at random over the rows of a snapshot, as Spark, Arrow and DuckDB spell them."""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.random.draw import Draw

Path = tuple[str, ...]
"""A column, or a field of a struct by its column and its name."""

_CHANGED_BY_THE_CLOCK = ("_hoodie_file_name", "_hoodie_commit_seqno")
_SIGNS = ("=", "=", "in", "<", "<=", ">", ">=", "<>", "null", "not null", "like", "between")
_ARROW_SIGNS = {"=": "==", "<>": "!="}
_PLAIN_TEXT = re.compile(r"[A-Za-z0-9]+")
_LEAST_BIGINT = -(2**63)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, or a literal, in the three languages."""

    where: str
    expression: str
    duckdb: str

    def joined(self, other: "Condition", word: str, sign: str) -> "Condition":
        """Both conditions under AND or OR."""
        return Condition(
            f"{self.where} {word} {other.where}",
            f"({self.expression}) {sign} ({other.expression})",
            f"{self.duckdb} {word} {other.duckdb}",
        )

    def negated(self) -> "Condition":
        """NOT of the condition."""
        return Condition(f"not ({self.where})", f"~({self.expression})", f"not ({self.duckdb})")

    def options(self) -> dict[str, str]:
        """The options of a question."""
        return {"where": self.where, "expression": self.expression, "duckdb": self.duckdb}


def leaves(schema: pa.Schema) -> Iterator[tuple[Path, pa.DataType]]:
    """The columns and the fields of structs that can be compared."""
    for column in schema:
        kind: Any = column.type
        if pa.types.is_struct(kind):
            yield from (((column.name, field.name), field.type) for field in kind if not pa.types.is_nested(field.type))
        elif not pa.types.is_nested(kind):
            yield (column.name,), kind


def values_of(rows: pa.Table, path: Path) -> list[Any]:
    """The values of a column or field that are not null, and that Python has: what Hudi misread may be none."""
    column = rows[path[0]]
    values = []
    for scalar in pc.struct_field(column, path[1]) if len(path) > 1 else column:
        with suppress(OverflowError, UnicodeDecodeError):
            values.append(scalar.as_py())
    return [value for value in values if value is not None]


def names_of(path: Path) -> Condition:
    """A column or field."""
    arrow = ", ".join(map(repr, path))
    return Condition(spark_name(path), f"pc.field({arrow})", ".".join(f'"{name}"' for name in path))


def spark_name(path: Sequence[str]) -> str:
    """A column or field in Spark's SQL."""
    return ".".join(f"`{name}`" for name in path)


def literal(value: Any, kind: Any) -> Condition | None:
    """A value; None if it cannot be said alike in all languages."""
    if pa.types.is_boolean(kind):
        return Condition(str(value).lower(), repr(value), str(value).lower())
    if pa.types.is_integer(kind):
        return None if value == _LEAST_BIGINT else Condition(str(value), repr(value), str(value))
    if pa.types.is_floating(kind):
        return _float_literal(value, "double" if kind == pa.float64() else "float")
    if pa.types.is_decimal(kind):
        name = f"decimal({kind.precision},{kind.scale})"
        text = f"cast('{value:f}' as {name})"
        return Condition(text, f"pa.scalar(Decimal('{value:f}'), {arrow_name(kind)})", text)
    if pa.types.is_timestamp(kind):
        return _time_literal(value.replace(tzinfo=None), kind)
    if pa.types.is_date(kind):
        return Condition(f"date'{value}'", f"dt.date({value.year}, {value.month}, {value.day})", f"date '{value}'")
    if pa.types.is_binary(kind):
        return Condition(
            f"x'{value.hex()}'", repr(value), "'" + "".join(f"\\x{byte:02x}" for byte in value) + "'::blob"
        )
    if any(ord(character) < ord(" ") for character in value):
        return None
    in_spark = value.replace("\\", "\\\\").replace("'", "\\'")
    return Condition(f"'{in_spark}'", repr(value), "'" + value.replace("'", "''") + "'")


def _float_literal(value: float, name: str) -> Condition | None:
    if value != value or value in (float("inf"), float("-inf")):  # noqa: PLR0124 - NaN
        return None
    return Condition(f"cast('{value!r}' as {name})", repr(value), f"'{value!r}'::{name}")


def _time_literal(value: dt.datetime, kind: Any) -> Condition:
    arguments = f"{value.year}, {value.month}, {value.day}, {value.hour}, {value.minute}, {value.second}"
    scalar = f"pa.scalar(dt.datetime({arguments}, {value.microsecond}), {arrow_name(kind)})"
    if kind.tz:
        return Condition(f"timestamp'{value}'", scalar, f"timestamptz '{value}+00'")
    return Condition(f"timestamp_ntz'{value}'", scalar, f"timestamp '{value}'")


def arrow_name(kind: Any) -> str:
    """A type as Arrow's functions name it."""
    if pa.types.is_decimal(kind):
        return f"pa.decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return f"pa.timestamp('us', {kind.tz!r})"
    special = {pa.date32(): "date32", pa.bool_(): "bool_", pa.float64(): "float64", pa.float32(): "float32"}
    return f"pa.{special.get(kind, kind)}()"


def comparison(chance: Random, rows: pa.Table, path: Path, kind: Any) -> Condition | None:
    """A comparison of a column with values that it has; None if there is none that is the same in all languages."""
    column, values, sign = names_of(path), values_of(rows, path), chance.choice(_SIGNS)
    if sign == "null" or not values:
        return Condition(f"{column.where} is null", f"{column.expression}.is_null()", f"{column.duckdb} is null")
    if sign == "not null":
        return Condition(
            f"{column.where} is not null", f"{column.expression}.is_valid()", f"{column.duckdb} is not null"
        )
    special = None
    if sign == "like" and pa.types.is_string(kind):
        special = _like(chance, column, values)
    elif sign == "in" and not pa.types.is_floating(kind):
        special = _among(chance, column, values, kind)
    elif sign == "between" and not pa.types.is_floating(kind) and not pa.types.is_boolean(kind):
        special = _between(chance, column, values, kind)
    if special is not None:
        return special
    return _compared(column, sign if sign in ("<", "<=", ">", ">=", "<>") else "=", chance.choice(values), kind)


def _compared(column: Condition, sign: str, value: Any, kind: Any) -> Condition | None:
    other = literal(value, kind)
    if other is None:
        return None
    arrow = f"({column.expression} {_ARROW_SIGNS.get(sign, sign)} {other.expression})"
    if pa.types.is_floating(kind) and sign in (">", ">=", "<>"):
        # NaN is above all numbers in Spark and DuckDB.
        arrow = f"({arrow} | pc.is_nan({column.expression}))"
    return Condition(f"{column.where} {sign} {other.where}", arrow, f"{column.duckdb} {sign} {other.duckdb}")


def _like(chance: Random, column: Condition, values: list[str]) -> Condition | None:
    begin = chance.choice(values)[: chance.choice([1, 2, 3])]
    if not _PLAIN_TEXT.fullmatch(begin):
        return None
    return Condition(
        f"{column.where} like '{begin}%'",
        f"pc.starts_with({column.expression}, {begin!r})",
        f"{column.duckdb} like '{begin}%'",
    )


def _among(chance: Random, column: Condition, values: list[Any], kind: Any) -> Condition | None:
    chosen = chance.sample(values, min(len(values), chance.choice([1, 2, 4])))
    spelled = [other for other in (literal(value, kind) for value in chosen) if other is not None]
    if pa.types.is_string(kind):
        spelled.append(Condition("'absent'", "'absent'", "'absent'"))
    if not spelled:
        return None
    items = ", ".join(other.expression for other in spelled)
    # Scalars of Arrow are no items of arrays.
    plain = f"[x.as_py() if isinstance(x, pa.Scalar) else x for x in [{items}]]"
    return Condition(
        f"{column.where} in ({', '.join(other.where for other in spelled)})",
        f"{column.expression}.isin(pa.array({plain}, {arrow_name(kind)}))",
        f"{column.duckdb} in ({', '.join(other.duckdb for other in spelled)})",
    )


def _between(chance: Random, column: Condition, values: list[Any], kind: Any) -> Condition | None:
    least, most = (literal(value, kind) for value in sorted([chance.choice(values), chance.choice(values)]))
    if least is None or most is None:
        return None
    return Condition(
        f"{column.where} between {least.where} and {most.where}",
        f"(({column.expression} >= {least.expression}) & ({column.expression} <= {most.expression}))",
        f"{column.duckdb} between {least.duckdb} and {most.duckdb}",
    )


def condition(chance: Random, rows: pa.Table, table: Draw) -> Condition | None:
    """A condition on one or two columns, often on keys or partition columns; None if none could be said."""
    by_time = table.partition_fields if table.partition in ("timestamp", "custom") else ()
    columns = [leaf for leaf in leaves(rows.schema) if leaf[0][0] not in (*by_time, *_CHANGED_BY_THE_CLOCK)]
    keys = [leaf for leaf in columns if leaf[0][0] in (*table.key_fields, "_hoodie_record_key")]
    partitions = [leaf for leaf in columns if leaf[0][0] in table.partition_fields]
    first = chance.choice([keys or columns, partitions or keys or columns, columns, columns])
    groups = [first, columns] if chance.random() < 0.35 else [first]
    parts = [comparison(chance, rows, *chance.choice(group)) for group in groups]
    said = [part for part in parts if part is not None]
    if not said:
        return None
    if len(said) > 1:
        word, sign = ("and", "&") if chance.random() < 0.7 else ("or", "|")
        return said[0].joined(said[1], word, sign)
    (only,) = said
    can_be_negated = "isin" not in only.expression and "is_nan" not in only.expression
    return only.negated() if can_be_negated and chance.random() < 0.1 else only


def projection(chance: Random, rows: pa.Table) -> list[Path]:
    """Some columns and fields."""
    paths = [(name,) for name in rows.column_names] + [path for path, _ in leaves(rows.schema) if len(path) > 1]
    return chance.sample(paths, min(len(paths), chance.choice([1, 1, 2, 3])))
