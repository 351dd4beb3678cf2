"""VARIANT values and what they are when they are shredded: encoded by hand, and random ones."""

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.variants import Primitive

PARTS: Any = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
NONE = b"\x01\x00\x00"
NULL = b"\x00"


def metadata_of(names: Sequence[str], width: int = 1) -> bytes:
    """The metadata of names, whose ids are their positions."""
    ends = [sum(len(name.encode()) for name in names[:end]) for end in range(len(names) + 1)]
    numbers = [len(names), *ends]
    header = bytes([1 | (width - 1) << 6])
    return header + b"".join(number.to_bytes(width, "little") for number in numbers) + "".join(names).encode()


def encoded(value: Any, names: Sequence[str], width: int = 1) -> bytes:
    """A value of objects, arrays, texts, ints and None; ``width`` is the least of ids and offsets."""
    if value is None:
        return NULL
    if isinstance(value, int):
        return bytes([6 << 2]) + value.to_bytes(8, "little", signed=True)
    if isinstance(value, str):
        return bytes([16 << 2]) + len(value.encode()).to_bytes(4, "little") + value.encode()
    items = value if isinstance(value, list) else [value[name] for name in sorted(value, key=str.encode)]
    parts = [encoded(item, names, width) for item in items]
    offsets = [sum(map(len, parts[:end])) for end in range(len(parts) + 1)]
    width = max(width, (offsets[-1].bit_length() + 7) // 8)
    ids = [] if isinstance(value, list) else [names.index(name) for name in sorted(value, key=str.encode)]
    shift = 2 if isinstance(value, list) else 4
    header = (width - 1) | (0 if isinstance(value, list) else (width - 1) << 2) | 1 << shift
    numbers = b"".join(number.to_bytes(width, "little") for number in (*ids, *offsets))
    basic_type = 3 if isinstance(value, list) else 2
    return bytes([header << 2 | basic_type]) + len(parts).to_bytes(4, "little") + numbers + b"".join(parts)


def shredded(kind: pa.DataType, *parts: str) -> Any:
    """A shredded column whose typed values have this type."""
    of = {"metadata": pa.binary(), "value": pa.binary(), "typed_value": kind}
    return pa.struct([(name, of[name]) for name in parts or ("metadata", "value", "typed_value")])


def group(kind: pa.DataType | None) -> Any:
    return pa.struct([("value", pa.binary()), *([("typed_value", kind)] if kind is not None else [])])


PRIMITIVES: list[tuple[pa.DataType, Any, Primitive]] = [
    (pa.bool_(), True, Primitive("boolean", value=True)),
    (pa.bool_(), False, Primitive("boolean", value=False)),
    (pa.int8(), -1, Primitive("int8", -1)),
    (pa.int16(), -300, Primitive("int16", -300)),
    (pa.int32(), 70_000, Primitive("int32", 70_000)),
    (pa.int64(), -(1 << 40), Primitive("int64", -(1 << 40))),
    (pa.float32(), 1.5, Primitive("float", 1.5)),
    (pa.float64(), -2.25, Primitive("double", -2.25)),
    (pa.decimal128(9, 2), Decimal("-12.50"), Primitive("decimal4", Decimal("-12.50"))),
    (pa.decimal128(18, 0), Decimal(-5), Primitive("decimal8", Decimal(-5))),
    (pa.decimal128(38, 10), Decimal("-1e27"), Primitive("decimal16", Decimal("-1e27"))),
    (pa.decimal32(5, 5), Decimal("0.00001"), Primitive("decimal4", Decimal("0.00001"))),
    (pa.decimal64(7, 1), Decimal("-0.5"), Primitive("decimal4", Decimal("-0.5"))),
    (pa.date32(), dt.date(1969, 12, 31), Primitive("date", dt.date(1969, 12, 31))),
    (pa.timestamp("us", "UTC"), -1, Primitive("timestamp", -1)),
    (pa.timestamp("us"), 1 << 50, Primitive("timestamp_ntz", 1 << 50)),
    (pa.timestamp("ns", "UTC"), 5, Primitive("timestamp_ns", 5)),
    (pa.timestamp("ns"), -5, Primitive("timestamp_ntz_ns", -5)),
    (pa.time64("us"), 86_399_999_999, Primitive("time", 86_399_999_999)),
    (pa.binary(), b"\x00\xff", Primitive("binary", b"\x00\xff")),
    (pa.binary(), b"", Primitive("binary", b"")),
    (pa.string(), "", Primitive("string", "")),
    (pa.string(), "é" * 31, Primitive("string", "é" * 31)),
    (pa.string(), "x" * 64, Primitive("string", "x" * 64)),
    (pa.large_string(), "x" * 300, Primitive("string", "x" * 300)),
]


NAMES = ["b", "a", "ab", "é", "z", "", "😀"]
KINDS = st.recursive(
    st.sampled_from([None, pa.string(), pa.int64()]),
    lambda inner: st.one_of(
        st.lists(st.tuples(st.sampled_from(NAMES), inner), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(
            lambda fields: pa.struct([(name, group(kind)) for name, kind in fields])
        ),
        inner.map(lambda kind: pa.list_(group(kind))),
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-5, 1 << 40), st.text("ab😀", max_size=70)),
    lambda inner: st.one_of(st.dictionaries(st.sampled_from(NAMES), inner, max_size=4), st.lists(inner, max_size=3)),
    max_leaves=12,
)


def shred(value: Any, kind: Any, names: Sequence[str], width: int) -> dict[str, Any]:
    """The group of a value, shredded as far as it has the type."""
    if kind is not None and pa.types.is_struct(kind) and isinstance(value, dict):
        typed = {
            field.name: shred(value[field.name], inner_kind(field.type), names, width) if field.name in value else {}
            for field in kind
        }
        rest = {name: item for name, item in value.items() if name not in typed}
        return {"typed_value": typed, "value": encoded(rest, names, width) if rest else None}
    if kind is not None and pa.types.is_list(kind) and isinstance(value, list):
        return {"typed_value": [shred(item, inner_kind(kind.value_type), names, width) for item in value]}
    if (kind == pa.string() and isinstance(value, str)) or (kind == pa.int64() and isinstance(value, int)):
        return {"typed_value": value}
    return {"value": encoded(value, names, width)}


def inner_kind(kind: Any) -> Any:
    return kind.field("typed_value").type if kind.num_fields > 1 else None


def as_decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: as_decoded(item) for name, item in value.items()}
    if isinstance(value, list):
        return [as_decoded(item) for item in value]
    return value if value is None else Primitive("string" if isinstance(value, str) else "int64", value)


HEADS = st.sampled_from(
    [b"", NONE, metadata_of(["a", "b"]), metadata_of(["a"], 4)[:4], encoded({"b": 1}, ["a", "b"])[:6]]
)
