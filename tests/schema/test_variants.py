"""Shredded VARIANT values: those of the specification's tables, random ones, and ones that are no VARIANT."""

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
from tests.support.shredded_values import (
    HEADS,
    KINDS,
    NAMES,
    NONE,
    NULL,
    PARTS,
    PRIMITIVES,
    VALUES,
    as_decoded,
    encoded,
    group,
    metadata_of,
    shred,
    shredded,
)
from tests.support.variants import Primitive, decoded


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


@given(
    kind=KINDS.filter(lambda kind: kind is not None),
    rows=st.lists(st.tuples(st.none() | VALUES, st.permutations(NAMES), st.integers(1, 4)), min_size=1, max_size=6),
)
def test_random_values_are_what_was_shredded(kind: Any, rows: Sequence[tuple[Any, list[str], int]]) -> None:
    stored = [
        {"metadata": metadata_of(names, width), **shred(value, kind, names, width)} for value, names, width in rows
    ]
    assert rebuilt(shredded(kind), stored) == [("value", as_decoded(value)) for value, _, _ in rows]


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
