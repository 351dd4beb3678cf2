"""Hypothesis strategies for Avro schemas, and for values of a schema."""

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
MILLIS_OF_A_DAY = 86_400_000

_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
)
_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def _decimals() -> st.SearchStrategy[Any]:
    def of(precision: int, scale: int, size: int | None) -> dict[str, Any]:
        carrier = {"type": "bytes"} if size is None else {"type": "fixed", "name": "", "size": size}
        return {**carrier, "logicalType": "decimal", "precision": precision, "scale": min(scale, precision)}

    return st.one_of(
        st.builds(of, st.integers(1, 76), st.integers(0, 76), st.none()),
        st.builds(of, st.integers(1, 38), st.integers(0, 38), st.integers(16, 20)),
    )


def _leaves() -> st.SearchStrategy[Any]:
    return st.one_of(
        st.sampled_from(_PLAIN),
        st.sampled_from(_LOGICAL),
        _decimals(),
        st.builds(lambda size: {"type": "fixed", "name": "", "size": size}, st.integers(0, 9)),
        st.builds(
            lambda symbols: {"type": "enum", "name": "", "symbols": symbols},
            st.lists(st.sampled_from("ABCDEFG"), min_size=1, unique=True),
        ),
    )


def _nullable(inner: Any) -> list[Any]:
    return inner if isinstance(inner, list) or inner == "null" else ["null", inner]


def _record(types: list[Any]) -> dict[str, Any]:
    fields = [{"name": f"f{place}", "type": inner} for place, inner in enumerate(types)]
    return {"type": "record", "name": "", "fields": fields}


def _unions(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Unions whose members differ in their Python type, by which fastavro chooses one."""
    plain = st.lists(st.sampled_from(("null", "boolean", "long", "double", "string", "bytes")), unique=True)
    array = st.one_of(st.none(), st.builds(lambda items: {"type": "array", "items": items}, inner))
    entries = st.one_of(st.none(), st.builds(lambda values: {"type": "map", "values": values}, inner))
    widened = st.permutations(["int", "long", "null"]) | st.permutations(["float", "double"])
    members = st.builds(
        lambda *parts: [*parts[0], *(part for part in parts[1:] if part)] or ["null"], plain, array, entries
    )
    return members | widened


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(_nullable, inner),
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "map", "values": values}, inner),
        st.builds(_record, st.lists(inner, max_size=3)),
        _unions(inner),
    )


def record_schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Record schemas of up to five columns, nested a few levels deep; names of types are unique."""
    types = st.recursive(_leaves(), _extend, max_leaves=6)
    return st.lists(types, min_size=1, max_size=5).map(lambda columns: _named(_record(columns), itertools.count()))


def _named(avro: Any, numbers: Iterator[int]) -> Any:
    if isinstance(avro, list):
        return [_named(branch, numbers) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    named = {key: _named(inner, numbers) if key in ("items", "values") else inner for key, inner in avro.items()}
    if "name" in named:
        named["name"] = f"named{next(numbers)}"
    if "fields" in named:
        named["fields"] = [{**field, "type": _named(field["type"], numbers)} for field in named["fields"]]
    return named


def without_logical_types(avro: Any) -> Any:
    """The schema without logical types, for the numbers and bytes that are stored."""
    if isinstance(avro, list):
        return [without_logical_types(branch) for branch in avro]
    if not isinstance(avro, dict):
        return avro
    bare = {key: inner for key, inner in avro.items() if key not in ("logicalType", "precision", "scale")}
    for key in ("items", "values"):
        if key in bare:
            bare[key] = without_logical_types(bare[key])
    if "fields" in bare:
        bare["fields"] = [{**field, "type": without_logical_types(field["type"])} for field in bare["fields"]]
    return bare


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": INT,
    "long": LONG,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=70),
    "string": st.text(max_size=20),
}


@st.composite
def values(draw: st.DrawFn, avro: Any) -> Any:
    """Values of the schema, in the form in which fastavro writes them without logical types."""
    if isinstance(avro, list):
        return draw(values(draw(st.sampled_from(avro))))
    match avro:
        case str(kind):
            return draw(_VALUES[kind])
        case {"logicalType": _}:
            return draw(_logical_values(avro))
        case {"type": "record", "fields": fields}:
            return {field["name"]: draw(values(field["type"])) for field in fields}
        case {"type": "array", "items": items}:
            return draw(st.lists(values(items), max_size=4))
        case {"type": "map", "values": inner}:
            return draw(st.dictionaries(st.text(max_size=3), values(inner), max_size=3))
        case {"type": "enum", "symbols": symbols}:
            return draw(st.sampled_from(symbols))
        case {"type": "fixed", "size": size}:
            return draw(st.binary(min_size=size, max_size=size))
    raise AssertionError(avro)


def _logical_values(avro: dict[str, Any]) -> st.SearchStrategy[Any]:
    match avro["logicalType"]:
        case "decimal":
            most = 10 ** avro["precision"] - 1
            size = avro.get("size")
            return st.integers(-most, most).map(
                lambda value: value.to_bytes(size or (value.bit_length() + 8) // 8, "big", signed=True)
            )
        case "time-millis":
            return st.integers(0, MILLIS_OF_A_DAY - 1)
        case "time-micros":
            return st.integers(0, MILLIS_OF_A_DAY * 1000 - 1)
    return _VALUES[avro["type"]]
