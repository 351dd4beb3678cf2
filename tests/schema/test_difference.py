from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, permutations
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.schema.difference import SchemaChangeKind, is_readable_as, primitive_name, schema_changes, type_name
from hudi_bridge.schema.internal import ArrayType, Field, FieldType, InternalSchema, MapType, RecordType

LEAVES: dict[str, pa.DataType] = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "double": pa.float64()}


def field(id_: int, name: str, type_: Any, **other: Any) -> Field:
    return Field(**({"id": id_, "name": name, "optional": True, "type": LEAVES.get(type_, type_)} | other))


def record(*fields: Field) -> RecordType:
    return RecordType(fields=fields)


def array(element: Any, *, optional: bool = True) -> ArrayType:
    return ArrayType(element_id=90, element=LEAVES.get(element, element), element_optional=optional)


def map_of(value: Any, *, optional: bool = True) -> MapType:
    return MapType(key_id=91, key=pa.string(), value_id=92, value=LEAVES.get(value, value), value_optional=optional)


def schema(*fields: Field) -> InternalSchema:
    return InternalSchema(version_id=0, max_column_id=99, fields=fields)


def texts(before: InternalSchema, after: InternalSchema, *, by_id: bool = True) -> list[str]:
    return [str(change) for change in schema_changes(before, after, by_id=by_id)]


A, B, C = field(0, "a", "int"), field(1, "b", "string"), field(2, "c", "double")
INNER = record(field(5, "x", "int"), field(6, "y", "string"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([A, B], [A, B], []),
        ([A, B], [A, B, C], ["added c double"]),
        ([A, B], [C, A, B], ["added c double first"]),
        ([A, B], [A, C, B], ["added c double after a"]),
        ([A], [A, B, C], ["added b string", "added c double"]),
        ([A, B], [B], ["dropped a int"]),
        ([A, B], [A, replace(B, name="bb")], ["renamed b to bb"]),
        ([A, B], [replace(A, name="b"), replace(B, name="a")], ["renamed a to b", "renamed b to a"]),
        ([A, B], [A, field(7, "b", "long")], ["dropped b string", "added b long"]),
        ([A, B], [replace(A, type=pa.int64()), B], ["promoted a from int to long"]),
        ([A, C], [replace(A, type=pa.bool_()), C], ["retyped a from int to boolean"]),
        ([A, B, C], [C, A, B], ["moved c first"]),
        ([A, B, C], [A, C, B], ["moved c after a"]),
        ([A, B, C], [B, C, A], ["moved a after c"]),
        ([A], [replace(A, optional=False)], ["made a required"]),
        ([replace(A, optional=False)], [A], ["made a optional"]),
        ([A], [replace(A, doc="count")], ["changed the comment of a from '' to 'count'"]),
        ([replace(A, doc="")], [A], []),
        (
            [A, B, C],
            [A, replace(C, name="cc", type=pa.string()), B],
            ["renamed c to cc", "promoted cc from double to string", "moved cc after a"],
        ),
    ],
)
def test_columns_by_id(before: list[Field], after: list[Field], expected: list[str]) -> None:
    assert texts(schema(*before), schema(*after)) == expected


def nested(inner: FieldType) -> tuple[InternalSchema, ...]:
    """The same record as a column, as elements of a list and as values of a map."""
    return schema(field(0, "s", inner)), schema(field(0, "s", array(inner))), schema(field(0, "s", map_of(inner)))


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (record(*INNER.fields, field(7, "z", "double")), ["added {}.z double"]),
        (record(field(7, "z", "double"), *INNER.fields), ["added {}.z double first"]),
        (record(INNER.fields[1]), ["dropped {}.x int"]),
        (record(INNER.fields[0], replace(INNER.fields[1], name="yy")), ["renamed {0}.y to {0}.yy"]),
        (record(replace(INNER.fields[0], type=pa.int64()), INNER.fields[1]), ["promoted {}.x from int to long"]),
        (record(*reversed(INNER.fields)), ["moved {}.y first"]),
    ],
)
def test_fields_within_records_lists_and_maps(after: RecordType, expected: list[str]) -> None:
    for path, old, new in zip(("s", "s.element", "s.value"), nested(INNER), nested(after), strict=True):
        assert texts(old, new) == [text.format(path) for text in expected]


def test_a_field_within_a_renamed_column_keeps_its_name() -> None:
    after = schema(field(0, "t", record(INNER.fields[0], replace(INNER.fields[1], name="yy"))))
    assert texts(nested(INNER)[0], after) == ["renamed s to t", "renamed s.y to t.yy"]


def test_elements_and_values() -> None:
    before = schema(field(0, "l", array("int")), field(1, "m", map_of("int")))
    after = schema(field(0, "l", array("long", optional=False)), field(1, "m", map_of("long", optional=False)))
    changes = schema_changes(before, after, by_id=True)
    assert [(change.id, str(change)) for change in changes] == [
        (90, "promoted l.element from int to long"),
        (90, "made l.element required"),
        (92, "promoted m.value from int to long"),
        (92, "made m.value required"),
    ]


def test_one_kind_of_type_in_place_of_another() -> None:
    assert texts(schema(A), schema(field(0, "a", INNER))) == ["retyped a from int to record<x int, y string>"]
    assert texts(schema(field(0, "a", array("int"))), schema(field(0, "a", map_of("int")))) == [
        "retyped a from array<int> to map<string, int>"
    ]


def test_by_name_a_rename_is_a_drop_and_an_add() -> None:
    # Ids by position: the same ones stand for other columns.
    before, after = schema(A, B), schema(field(0, "b", "string"), field(1, "bb", "long"))
    changes = schema_changes(before, after, by_id=False)
    assert [str(change) for change in changes] == ["dropped a int", "added bb long"]
    assert {change.id for change in changes} == {None}


def test_by_name_a_column_that_comes_back_with_another_type_is_the_same() -> None:
    assert texts(schema(A), schema(field(3, "a", "long")), by_id=False) == ["promoted a from int to long"]


def test_changes_know_their_parts() -> None:
    (change,) = schema_changes(schema(A, B), schema(A, C, B), by_id=True)
    assert (change.kind, change.column, change.id) == (SchemaChangeKind.ADDED, "c", 2)
    assert (change.before, change.after, change.place) == (None, "double", "after a")


def moved_one_by_one(order: list[str], moves: list[tuple[str, str | None]]) -> Iterator[list[str]]:
    for name, place in moves:
        order.remove(name)
        order.insert(0 if place == "first" else order.index(str(place).removeprefix("after ")) + 1, name)
        yield order


def subsequences(places: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(places, length) for length in range(len(places) + 1))


def test_moves_are_as_few_as_can_be_and_lead_to_the_new_order() -> None:
    fields = [field(number, name, "int") for number, name in enumerate("abcde")]
    for order in permutations(fields):
        changes = schema_changes(schema(*fields), schema(*order), by_id=True)
        assert {change.kind for change in changes} <= {SchemaChangeKind.MOVED}
        *_, last = ["abcde", *moved_one_by_one([*"abcde"], [(change.column, change.place) for change in changes])]
        assert [*last] == [item.name for item in order]
        rises = (len(some) for some in subsequences([item.id for item in order]) if list(some) == sorted(some))
        assert len(changes) == len(fields) - max(rises)


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        (pa.decimal128(10, 2), "decimal(10, 2)"),
        (pa.timestamp("us", "UTC"), "timestamp"),
        (pa.timestamp("us"), "local_timestamp_micros"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.binary(16), "fixed[16]"),
        (pa.timestamp("ns"), "timestamp[ns]"),
        (pa.decimal256(50, 2), "decimal256(50, 2)"),
        (array(map_of(INNER)), "array<map<string, record<x int, y string>>>"),
    ],
)
def test_types_have_the_names_that_hudi_gives_them(type_: FieldType, expected: str) -> None:
    assert type_name(type_) == expected


@pytest.mark.parametrize("type_", [pa.timestamp("ns"), pa.decimal256(50, 2), pa.null()])
def test_some_types_hudi_has_no_name_for(type_: pa.DataType) -> None:
    assert primitive_name(type_) is None


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (pa.int32(), pa.int64(), True),
        (pa.int64(), pa.int32(), False),
        (pa.int32(), INNER, False),
        (array("int"), array("long"), True),
        (array("int"), map_of("int"), False),
        (map_of("long"), map_of("int"), False),
        (INNER, record(field(8, "x", "long"), field(9, "z", "int")), True),
        (INNER, record(field(8, "x", "string"), field(9, "y", "int")), False),
    ],
)
def test_what_can_be_read_as_what(source: FieldType, target: FieldType, expected: bool) -> None:
    assert is_readable_as(source, target) is expected
