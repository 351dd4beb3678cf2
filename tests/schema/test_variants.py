"""Shredded VARIANT values: those of the specification's tables, random ones, and ones that are no VARIANT."""

import datetime as dt
import pickle
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge.errors import SchemaEvolutionError
from hudi_bridge.schema.variants import MalformedVariantError, is_shredded, plan_shredded
from tests.support.variants import Primitive, decoded

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


def rebuilt(kind: Any, rows: Sequence[Any]) -> list[Any]:
    """The values that the rows of a shredded column have; None for a row that is null."""
    assert is_shredded(kind, PARTS)
    plan = pickle.loads(pickle.dumps(plan_shredded(kind, PARTS, "v", "f.parquet")))
    array = pa.array([rows[0], *rows, None], kind)
    result = plan(array.slice(1))
    result.validate(full=True)
    assert result.type == PARTS
    assert plan(array.slice(1, 0)).to_pylist() == []
    assert plan(array.slice(len(array) - 1)).to_pylist() == [None]
    parts: list[Any] = result.to_pylist()
    *values, last = parts
    assert last is None
    return [None if row is None else ("value", decoded(row["metadata"], row["value"])) for row in values]


def values_of(kind: pa.DataType, rows: Sequence[tuple[bytes | None, Any]]) -> list[Any]:
    """The values of rows of ``value`` and ``typed_value``."""
    return [
        value
        for _, value in rebuilt(
            shredded(kind), [{"metadata": NONE, "value": value, "typed_value": typed} for value, typed in rows]
        )
    ]


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


@pytest.mark.parametrize(("kind", "stored", "expected"), PRIMITIVES, ids=lambda value: str(value)[:20])
def test_a_primitive_has_the_type_of_its_column(kind: pa.DataType, stored: Any, expected: Primitive) -> None:
    rows = [(None, stored), (NULL, None), (encoded("n/a", []), None), (None, None), (None, stored)]
    assert values_of(kind, rows) == [expected, None, Primitive("string", "n/a"), None, expected]


def test_uuids() -> None:
    kind = shredded(pa.uuid())
    uuid = UUID("00112233-4455-6677-8899-aabbccddeeff")
    typed = pa.array([b"before" * 2 + b"more", uuid.bytes, None], pa.binary(16)).cast(pa.uuid())
    values = pa.array([None, None, NULL])
    structs = pa.StructArray.from_arrays([pa.array([NONE] * 3), values, typed], fields=list(kind)).slice(1)
    rows: list[Any] = plan_shredded(kind, PARTS, "v", "f")(structs).to_pylist()
    assert [decoded(**row) for row in rows] == [Primitive("uuid", uuid), None]


def test_decimals_of_many_digits() -> None:
    kind = pa.decimal256(38, 2)
    assert values_of(kind, [(None, Decimal("-1.25"))]) == [Primitive("decimal16", Decimal("-1.25"))]


class TestObjects:
    NAMES = ("event_ts", "zone", "event_type", "email", "é", "ﬀ", "😀")
    KIND = shredded(pa.struct([("event_type", group(pa.string())), ("event_ts", group(pa.int64()))]))

    def rows(self, *rows: Any, width: int = 1) -> list[Any]:
        metadata = metadata_of(self.NAMES, width)
        return rebuilt(self.KIND, [row and {"metadata": metadata, **row} for row in rows])

    def test_the_table_of_the_specification(self) -> None:
        def row(value: Any, kind: Any = (None, None), time: Any = (None, None)) -> dict[str, Any]:
            typed = {
                "event_type": dict(zip(("value", "typed_value"), kind, strict=True)),
                "event_ts": dict(zip(("value", "typed_value"), time, strict=True)),
            }
            return {"value": None if value is None else encoded(value, self.NAMES), "typed_value": typed}

        noop, at = Primitive("string", "noop"), Primitive("int64", 1)
        actual = self.rows(
            row(None, (None, "noop"), (None, 1)),
            row({"email": "a"}, (None, "noop"), (None, 1)),
            row({"zone": 1, "é": [None], "😀": {"ﬀ": {}}}),
            {"value": encoded("no object", self.NAMES), "typed_value": None},
            None,
            row(None, (NULL, None), (None, 1)),
            row(None, (None, "noop"), (encoded("2024", self.NAMES), None)),
            row(None),
            {"value": NULL, "typed_value": None},
            {"value": None, "typed_value": None},
            {"value": encoded({"event_type": 5}, self.NAMES), "typed_value": None},
        )
        five = Primitive("int64", 5)
        assert actual == [
            ("value", {"event_type": noop, "event_ts": at}),
            ("value", {"email": Primitive("string", "a"), "event_type": noop, "event_ts": at}),
            ("value", {"zone": at, "é": [None], "😀": {"ﬀ": {}}}),
            ("value", Primitive("string", "no object")),
            None,
            ("value", {"event_type": None, "event_ts": at}),
            ("value", {"event_type": noop, "event_ts": Primitive("string", "2024")}),
            ("value", {}),
            ("value", None),
            ("value", None),
            ("value", {"event_type": five}),
        ]

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ({"value": encoded({"event_type": "x"}, NAMES), "typed_value": {}}, "twice"),
            ({"value": encoded("a", NAMES), "typed_value": {}}, "beside a typed_value"),
            ({"value": encoded({"zone": 1}, NAMES)[:-1], "typed_value": {}}, "cut off"),
            ({"value": encoded({"zone": 1}, NAMES)[:3], "typed_value": {}}, "cut off"),
            ({"value": b"", "typed_value": {}}, "cut off"),
            ({"value": encoded({"x": 1}, ["x"] * 99)[:5] + b"\x63\x00\x09" + bytes(9), "typed_value": {}}, "id of"),
            ({"value": None, "typed_value": {"event_ts": {}, "event_type": None}}, "event_type"),
            ({"value": None, "typed_value": {"event_ts": {"value": NULL, "typed_value": 1}}}, "no object"),
            ({"metadata": None, "value": NULL}, "null in metadata"),
            ({"metadata": b"\x02\x00\x00", "value": NULL}, "version 2"),
            ({"metadata": b"", "value": NULL}, "cut off"),
            ({"metadata": metadata_of(NAMES)[:-1], "value": NULL}, "cut off"),
            ({"metadata": metadata_of(["zone"]), "typed_value": {"event_ts": {"typed_value": 1}}}, "event_ts"),
        ],
    )
    def test_what_is_no_variant_is_refused(self, row: dict[str, Any], reason: str) -> None:
        typed = row.get("typed_value")
        if typed is not None:
            typed = {"event_type": {}, "event_ts": {}} | typed
        with pytest.raises(MalformedVariantError, match=reason):
            self.rows({**row, "typed_value": typed})

    def test_fields_of_null_objects_do_not_count(self) -> None:
        typed = pa.array(
            [{"event_type": {"typed_value": "x"}, "event_ts": {}}] * 2, self.KIND.field("typed_value").type
        )
        hidden = pa.StructArray.from_arrays(
            [typed.field(0), typed.field(1)], fields=list(typed.type), mask=pa.array([True, False])
        )
        metadata = pa.array([metadata_of(self.NAMES)] * 2)
        structs = pa.StructArray.from_arrays(
            [metadata, pa.array([NULL, None], pa.binary()), hidden], fields=list(self.KIND)
        )
        rows: list[Any] = plan_shredded(self.KIND, PARTS, "v", "f")(structs).to_pylist()
        null, other = rows
        assert decoded(**null) is None
        assert decoded(**other) == {"event_type": Primitive("string", "x")}


class TestLists:
    def test_elements_of_all_kinds(self) -> None:
        kind = pa.list_(group(pa.string()))
        rows = [
            (None, [{"typed_value": "comedy"}, {"typed_value": "drama"}]),
            (None, [{"typed_value": "horror"}, {"value": NULL}, {"value": None}]),
            (None, []),
            (NULL, None),
            (None, [{"typed_value": "x"}] * 300),
        ]
        texts = [Primitive("string", text) for text in ("comedy", "drama", "horror", "x")]
        assert values_of(kind, rows) == [texts[:2], [texts[2], None, None], [], None, [texts[3]] * 300]

    def test_elements_without_a_value_or_a_typed_value(self) -> None:
        typed_only = pa.list_(pa.struct([("typed_value", pa.int32())]))
        assert values_of(typed_only, [(None, [{"typed_value": 1}])]) == [[Primitive("int32", 1)]]
        value_only = pa.large_list(group(None))
        assert values_of(value_only, [(None, [{"value": encoded([1], [])}])]) == [[[Primitive("int64", 1)]]]

    @pytest.mark.parametrize(
        ("row", "reason"),
        [
            ((NULL, []), "no object"),
            ((None, [None]), "element"),
            ((None, [{"value": NULL, "typed_value": 1}]), "both|two"),
        ],
    )
    def test_what_is_no_array_is_refused(self, row: tuple[bytes | None, Any], reason: str) -> None:
        with pytest.raises(MalformedVariantError, match=reason):
            values_of(pa.list_(group(pa.int32())), [row])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (shredded(pa.uint32()), "uint32"),
        (shredded(pa.binary(4)), "fixed_size_binary"),
        (shredded(pa.binary(16)), "fixed_size_binary"),
        (shredded(pa.timestamp("ms")), "timestamp"),
        (shredded(pa.decimal256(39, 0)), "decimal256"),
        (shredded(pa.map_(pa.string(), pa.string())), "map"),
        (shredded(pa.list_(pa.int32())), "group"),
        (shredded(pa.struct([("a", pa.int32())])), "group"),
        (shredded(pa.struct([("a", pa.struct([("typed", pa.int32())]))])), "group of typed"),
        (shredded(pa.struct([("a", pa.struct([("value", pa.int32())]))])), "value of type int32"),
        (shredded(pa.struct([("a", group(None)), ("a", group(None))])), "two fields"),
        (pa.struct([("metadata", pa.int32()), ("typed_value", pa.int32())]), "metadata of type"),
    ],
)
def test_types_that_are_not_specified_are_refused(kind: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaEvolutionError, match=f"f.parquet: .*{reason}"):
        plan_shredded(kind, PARTS, "v", "f.parquet")


def test_parts_by_name_and_without_value() -> None:
    kind = shredded(pa.int32(), "typed_value", "metadata")
    other_order = pa.struct([PARTS.field("value"), PARTS.field("metadata")])
    array = pa.array([{"typed_value": 1, "metadata": b"\x01\x00"}, {"metadata": NONE}], kind)
    rows: list[Any] = plan_shredded(kind, other_order, "v", "f")(array).to_pylist()
    assert [list(row) for row in rows] == [["value", "metadata"]] * 2
    assert [row["value"] for row in rows] == [b"\x14\x01\x00\x00\x00", NULL]
    assert not is_shredded(pa.struct([*kind, ("more", pa.int32())]), PARTS)
    assert not is_shredded(PARTS, PARTS)


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


@given(
    kind=KINDS.filter(lambda kind: kind is not None),
    rows=st.lists(st.tuples(st.none() | VALUES, st.permutations(NAMES), st.integers(1, 4)), min_size=1, max_size=6),
)
def test_random_values_are_what_was_shredded(kind: Any, rows: Sequence[tuple[Any, list[str], int]]) -> None:
    stored = [
        {"metadata": metadata_of(names, width), **shred(value, kind, names, width)} for value, names, width in rows
    ]
    assert rebuilt(shredded(kind), stored) == [("value", as_decoded(value)) for value, _, _ in rows]


HEADS = st.sampled_from(
    [b"", NONE, metadata_of(["a", "b"]), metadata_of(["a"], 4)[:4], encoded({"b": 1}, ["a", "b"])[:6]]
)


@given(st.lists(st.tuples(HEADS, st.binary(max_size=12), HEADS, st.binary(max_size=12)), min_size=1, max_size=3))
def test_any_bytes_are_rebuilt_or_refused(rows: Sequence[tuple[bytes, bytes, bytes, bytes]]) -> None:
    kind = shredded(pa.struct([("a", group(pa.int8()))]))
    typed = {"a": {"value": None, "typed_value": 1}}
    stored = [
        {"metadata": head + names, "value": start + rest, "typed_value": typed} for head, names, start, rest in rows
    ]
    try:
        result = plan_shredded(kind, PARTS, "v", "f")(pa.array(stored, kind))
    except MalformedVariantError:
        return
    result.validate(full=True)
    assert len(result) == len(rows)
