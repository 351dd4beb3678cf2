"""Types of columns as Spark spells them, the same types in Arrow, values of them at random, and values as SQL."""

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from random import Random
from typing import Any, TypeVar

import pyarrow as pa

T = TypeVar("T")

TEXTS = ("", "plain", "ünïcødé ✓", "\U0001f600", 'line\nbreak\t"q"', " pad ", "日本語", "\\back", "it's")
DATES = (dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31))
TIMES = (
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(1970, 1, 1),
    dt.datetime(1900, 1, 1, 0, 0, 0, 1),
    dt.datetime(2262, 4, 11, 23, 47, 16, 854775),
)
LEAST_DOUBLE = 5e-324
LEAST_FLOAT = 1e-45

COLUMN_TYPES: Mapping[str, float] = {
    "string": 6,
    "int": 6,
    "bigint": 5,
    "boolean": 2,
    "double": 4,
    "float": 3,
    "decimal(10,2)": 3,
    "decimal(20,5)": 2,
    "decimal(38,18)": 1,
    "date": 4,
    "timestamp": 4,
    "timestamp_ntz": 2,
    "binary": 2,
    "smallint": 1,
    "tinyint": 1,
    "array<int>": 2,
    "array<string>": 2,
    "map<string,int>": 2,
    "map<string,struct<a:int,t:timestamp>>": 1,
    "struct<x:int,y:string>": 3,
    "struct<x:bigint,s:struct<a:double,b:date>>": 2,
    "array<struct<k:string,v:decimal(12,3)>>": 2,
    "struct<x:int,l:array<bigint>>": 1,
}
"""The types of columns, and how often each is drawn."""
ORDERING_TYPES: Mapping[str, float] = {
    "int": 8,
    "bigint": 8,
    "string": 2,
    "timestamp": 3,
    "date": 1,
    "decimal(20,4)": 1,
    "double": 2,
    "float": 1,
    "timestamp_ntz": 1,
}
"""The types of ordering columns, and how often each is drawn."""
WIDER: Mapping[str, Sequence[str]] = {
    "int": ("bigint", "double"),
    "bigint": ("double",),
    "float": ("double",),
    "struct<x:int,y:string>": ("struct<x:bigint,y:string>",),
    "array<int>": ("array<bigint>",),
}
"""What a column may become by a write."""
ALTERED: Mapping[str, Sequence[str]] = {
    "int": ("bigint", "double", "string", "decimal(14,2)"),
    "bigint": ("double", "string", "decimal(24,2)"),
    "float": ("double", "string"),
    "decimal(10,2)": ("decimal(14,2)", "string"),
    "date": ("string",),
    "double": ("string",),
}
"""What a column may become by ALTER TABLE, where it has an id."""

_PLAIN: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "boolean": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}


def column_types(release: tuple[int, ...]) -> dict[str, float]:
    """The types that a release can write and read: 1.0 fails with small numbers in logs, 0.15 and 1.0 have no NTZ."""
    absent = set() if release >= (1, 1) else {"timestamp_ntz"}
    if release[:2] == (1, 0):
        absent |= {"tinyint", "smallint"}
    return {kind: weight for kind, weight in COLUMN_TYPES.items() if kind not in absent}


def pick(chance: Random, weights: Mapping[T, float]) -> T:
    """A key, as often as its weight says."""
    return chance.choices(list(weights), list(weights.values()))[0]


def arrow_type(spelled: str) -> pa.DataType:
    """The type that Spark spells like ``struct<x:int,y:array<string>>``."""
    kind, end = _parsed(spelled.replace(" ", ""), 0)
    assert end == len(spelled.replace(" ", "")), spelled
    return kind


def _parsed(text: str, start: int) -> tuple[pa.DataType, int]:
    """The type that begins at a position, and the position after it."""
    end = start
    while end < len(text) and text[end] not in "<>,(:":
        end += 1
    name = text[start:end]
    if name == "decimal":
        close = text.index(")", end)
        precision, scale = text[end + 1 : close].split(",")
        return pa.decimal128(int(precision), int(scale)), close + 1
    if name == "array":
        item, end = _parsed(text, end + 1)
        return pa.list_(item), end + 1
    if name == "map":
        key, end = _parsed(text, end + 1)
        item, end = _parsed(text, end + 1)
        return pa.map_(key, item), end + 1
    if name == "struct":
        fields = []
        while text[end] in "<,":
            colon = text.index(":", end + 1)
            kind, after = _parsed(text, colon + 1)
            fields.append(pa.field(text[end + 1 : colon], kind))
            end = after
        return pa.struct(fields), end + 1
    return _PLAIN[name], end


def value(chance: Random, kind: Any, nulls: float = 0.15) -> Any:
    """A value of a type for Arrow, often one at an edge, and null as often as ``nulls`` says."""
    if chance.random() < nulls:
        return None
    if pa.types.is_nested(kind):
        return _nested_value(chance, kind, nulls)
    if pa.types.is_integer(kind):
        return _integer(chance, kind)
    if pa.types.is_boolean(kind):
        return chance.random() < 0.5
    if pa.types.is_floating(kind):
        return _float(chance, is_double=kind == pa.float64())
    if pa.types.is_decimal(kind):
        return _decimal(chance, kind.precision, kind.scale)
    if pa.types.is_temporal(kind):
        return _time(chance, is_date=pa.types.is_date(kind))
    if pa.types.is_binary(kind):
        return chance.randbytes(chance.choice([0, 1, 5]))
    assert pa.types.is_string(kind), kind
    if chance.random() < 0.3:
        return chance.choice(TEXTS)
    return f"{chance.choice(['s', 'sx', 't'])}{chance.randrange(40)}"


def _nested_value(chance: Random, kind: Any, nulls: float) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: value(chance, field.type, nulls) for field in kind}
    if pa.types.is_map(kind):
        entries = [
            (value(chance, kind.key_type, 0), value(chance, kind.item_type, 0)) for _ in range(chance.randrange(3))
        ]
        return list(dict(entries).items())
    return [value(chance, kind.value_type, 0) for _ in range(chance.randrange(3))]


def _integer(chance: Random, kind: pa.DataType) -> int:
    if kind == pa.int8():
        return chance.randrange(-128, 128)
    if kind == pa.int16():
        return chance.randrange(-(2**15), 2**15)
    if kind == pa.int32():
        edges, most = (-(2**31), 2**31 - 1, 0), 1000
    else:
        edges, most = (-(2**63), 2**63 - 1, 2**53 + 1), 2**40
    return chance.choice(edges) if chance.random() < 0.15 else chance.randrange(-50, most)


def _float(chance: Random, *, is_double: bool) -> float:
    if chance.random() < 0.3:
        least = LEAST_DOUBLE if is_double else LEAST_FLOAT
        return chance.choice([0.0, -0.0, float("nan"), float("inf"), float("-inf"), least])
    return chance.uniform(-1000, 1000) if is_double else chance.randrange(-4000, 4000) / 16


def _time(chance: Random, *, is_date: bool) -> dt.date:
    if chance.random() < 0.15:
        return chance.choice(DATES if is_date else TIMES)
    if is_date:
        return dt.date(2024, 1, 1) + dt.timedelta(chance.randrange(400))
    return dt.datetime(2024, 1, 1) + dt.timedelta(microseconds=chance.randrange(10**13))


def _decimal(chance: Random, precision: int, scale: int) -> Decimal:
    most = 10**precision - 1
    few = 10 ** min(precision, 9)
    digits = chance.choice([most, -most, 0, 1, -1]) if chance.random() < 0.2 else chance.randrange(-few, few)
    return Decimal(digits).scaleb(-scale, Context(prec=60))


def ordering_value(kind: str, level: int | None) -> Any:
    """A whole number as an ordering value of a type, which orders as the number does."""
    if level is None:
        return None
    if kind in ("int", "bigint"):
        return level
    if kind == "string":
        return f"{level:05d}"
    if kind.startswith("timestamp"):
        return dt.datetime(2024, 1, 1, 0, 0, 0, 123456) + dt.timedelta(seconds=level)
    if kind == "date":
        return dt.date(2024, 1, 1) + dt.timedelta(level)
    return Decimal(level) / 4 if kind.startswith("decimal") else level + 0.5


def sql_literal(literal: Any) -> str:
    """A value in Spark's SQL; a float needs a cast around it."""
    if literal is None:
        return "null"
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, str):
        return "'" + literal.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if isinstance(literal, float):
        return f"'{literal!r}'".replace("inf", "Infinity").replace("nan", "NaN")
    if isinstance(literal, dt.datetime):
        return f"timestamp'{literal}'"
    if isinstance(literal, dt.date):
        return f"date'{literal}'"
    return str(literal)
