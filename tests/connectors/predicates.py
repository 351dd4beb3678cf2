"""Random SQL conditions on a table, from its columns and from values at or near those that occur in them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa
from pyarrow import types

from hudi_bridge.connectors.duckdb import quote_identifier

COMPARISONS: tuple[str, ...] = ("=", "<>", "<", "<=", ">", ">=")
if not duckdb.__version__.startswith("1."):  # which refuses these below OR
    COMPARISONS += ("IS DISTINCT FROM", "IS NOT DISTINCT FROM")
_VALUES_PER_COLUMN = 12

ArrowType: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A column or field in SQL, and literals of its type in SQL."""

    sql: str
    literals: tuple[str, ...]
    is_text: bool


def terms_of(table: pa.Table) -> list[Term]:
    """The terms for conditions: columns of flat types, and fields of structs of such types."""
    actual = []
    for field, column in zip(table.schema, table.columns, strict=True):
        actual += _terms(quote_identifier(field.name), field.type, column.to_pylist()[:200])
    return actual


def random_condition(terms: Sequence[Term], choice: random.Random, depth: int = 2) -> str:
    """A condition: comparisons, null tests and lists under AND, OR and NOT."""
    if depth and choice.random() < 0.6:
        joined = choice.choice((" AND ", " OR ")).join(
            f"({random_condition(terms, choice, depth - 1)})" for _ in range(choice.randint(2, 3))
        )
        return f"NOT ({joined})" if choice.random() < 0.15 else joined
    term = choice.choice(terms)
    kind = choice.random()
    if kind < 0.15 or not term.literals:
        return f"{term.sql} IS {choice.choice(('', 'NOT '))}NULL"
    if kind < 0.35:
        literals = ", ".join(choice.sample(term.literals, min(len(term.literals), choice.randint(1, 4))))
        return f"{term.sql} {choice.choice(('', 'NOT '))}IN ({literals})"
    if kind < 0.45:
        low, high = choice.choice(term.literals), choice.choice(term.literals)
        return f"{term.sql} BETWEEN {low} AND {high}"
    if kind < 0.55 and term.is_text:
        literal = choice.choice(term.literals)
        return f"{term.sql} LIKE {literal[:3].rstrip(chr(39))}%'" if len(literal) > 2 else f"{term.sql} LIKE '%'"
    return f"{term.sql} {choice.choice(COMPARISONS)} {choice.choice(term.literals)}"


def literal(value: Any, kind: ArrowType) -> str:
    """The value as a literal of DuckDB."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        zone = "TIMESTAMPTZ" if types.is_timestamp(kind) and kind.tz else "TIMESTAMP"
        return f"'{value.isoformat(' ')}'::{zone}"
    if isinstance(value, time):
        return f"'{value.isoformat()}'::TIME"
    if isinstance(value, date):
        return f"'{value.isoformat()}'::DATE"
    if isinstance(value, Decimal):
        return f"'{value:f}'::DECIMAL({kind.precision}, {kind.scale})"
    if isinstance(value, float):
        return f"'{value!r}'::{'FLOAT' if types.is_float32(kind) else 'DOUBLE'}"
    return f"({value})"


def _terms(sql: str, kind: ArrowType, values: Sequence[Any]) -> list[Term]:
    if types.is_struct(kind):
        return [
            term
            for field in kind
            for term in _terms(
                f"{sql}.{quote_identifier(field.name)}",
                field.type,
                [row[field.name] for row in values if row is not None],
            )
        ]
    if types.is_nested(kind):
        return []
    # A text with a null character cannot be written in SQL.
    plain = (value for value in values if value is not None and not (isinstance(value, str) and "\0" in value))
    seen = list(dict.fromkeys(plain))[:_VALUES_PER_COLUMN]
    literals = [literal(item, kind) for value in seen for item in _near(value, kind)]
    return [Term(sql=sql, literals=tuple(dict.fromkeys(literals)), is_text=types.is_string(kind))]


def _near(value: Any, kind: ArrowType) -> list[Any]:
    """The value, and the next one if the type has one."""
    if isinstance(value, bool):
        return [value]
    if isinstance(value, int):
        return [value, value + 1] if value < 2**31 - 1 else [value]
    if isinstance(value, datetime) and value.year < 9999:
        return [value, value + timedelta(microseconds=1 if kind.unit == "us" else 1000)]
    if isinstance(value, str):
        return [value, value + "a"]
    return [value]
