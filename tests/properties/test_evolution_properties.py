"""Random histories of random schemas: reading old batches by id equals rewriting their values version by version."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hudi_bridge.schema.difference import SchemaChangeKind, schema_changes
from hudi_bridge.schema.evolve import Evolution, FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.file_columns import map_columns
from hudi_bridge.schema.infer import schema_history_json
from hudi_bridge.schema.internal import (
    ArrayType,
    Field,
    FieldType,
    InternalSchema,
    MapType,
    RecordType,
    parse_schema_history,
    to_arrow,
)
from tests.support.strength import examples

NAMES = ("a", "b", "c", "d", "e")
NARROW, WIDE, WIDEST = pa.decimal128(10, 2), pa.decimal128(12, 2), pa.decimal128(20, 4)

QUARTERS = st.integers(-4000, 4000).map(lambda quarters: quarters / 4)
TEXTS = st.sampled_from(["", "x", "é", "1.25", "-3", "2020-02-29", "2021-02-29"])
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(10**6), 10**6),
    pa.int64(): st.integers(-(10**6), 10**6),
    pa.float32(): QUARTERS,
    pa.float64(): QUARTERS,
    **dict.fromkeys((NARROW, WIDE), st.integers(-(10**6), 10**6).map(lambda cents: Decimal(cents).scaleb(-2))),
    WIDEST: st.integers(-(10**8), 10**8).map(lambda units: Decimal(units).scaleb(-4)),
    pa.string(): TEXTS,
    pa.binary(): TEXTS.map(str.encode),
    pa.date32(): st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
}
"""Such values that a chain of numeric promotions ends where a single one does, whatever its steps."""

NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64(), WIDE, WIDEST)
FIRST_PROMOTIONS: dict[Any, tuple[Any, ...]] = {
    pa.int32(): (*NUMBERS[1:], pa.string()),
    pa.int64(): (*NUMBERS[2:], pa.string()),
    pa.float32(): (*NUMBERS[3:], pa.string()),
    pa.float64(): (WIDE, WIDEST, pa.string()),
    NARROW: (WIDE, WIDEST, pa.string()),
    WIDE: (WIDEST, pa.string()),
    WIDEST: (pa.string(),),
    pa.date32(): (pa.string(),),
    pa.string(): (pa.date32(), WIDE, pa.binary()),
    pa.binary(): (pa.string(),),
}


def further_promotions(first: Any, current: Any) -> tuple[Any, ...]:
    """Promotions of a field that has been promoted before; the text of a number depends on the way it has come."""
    if first == current:
        return FIRST_PROMOTIONS[current]
    if current not in NUMBERS:
        return ()
    numbers = NUMBERS[NUMBERS.index(current) + 1 :]
    return (*numbers, pa.string()) if (first, current) == (pa.int32(), pa.int64()) else numbers


@dataclass(kw_only=True)
class Editor:
    """Draws schemas and their changes; ``first_types`` holds what the fields were when they were added."""

    draw: st.DrawFn
    next_id: int = 0
    first_types: dict[int, Any] = field(default_factory=dict)

    def new_id(self) -> int:
        self.next_id += 1
        return self.next_id - 1

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.draw(st.integers(0, len(options) - 1))]

    def new_type(self, id_: int, depth: int) -> FieldType:
        kind = self.pick(("primitive", "primitive", "record", "list", "map")) if depth else "primitive"
        if kind == "record":
            return self.new_record(depth - 1)
        if kind == "list":
            element_id = self.new_id()
            element = self.new_inner_type(element_id, depth - 1)
            return ArrayType(element_id=element_id, element=element, element_optional=True)
        if kind == "map":
            key_id, value_id = self.new_id(), self.new_id()
            value = self.new_inner_type(value_id, depth - 1)
            return MapType(key_id=key_id, key=pa.string(), value_id=value_id, value=value, value_optional=True)
        primitive = self.pick(list(VALUES))
        self.first_types[id_] = primitive
        return primitive  # type: ignore[no-any-return]

    def new_inner_type(self, id_: int, depth: int) -> FieldType:
        """The type of elements or values, in every other case a record."""
        return self.new_record(depth) if self.draw(st.booleans()) else self.new_type(id_, depth)

    def new_field(self, name: str, depth: int) -> Field:
        id_ = self.new_id()
        return Field(id=id_, name=name, optional=True, type=self.new_type(id_, depth))

    def new_record(self, depth: int) -> RecordType:
        names = NAMES[: self.draw(st.integers(1, 3))]
        return RecordType(fields=tuple(self.new_field(name, depth) for name in names))

    def changed_record(self, record: RecordType) -> RecordType:
        fields = list(record.fields)
        at = self.draw(st.integers(0, len(fields) - 1))
        unused = [name for name in NAMES if name not in {item.name for item in fields}]
        match self.pick(("add", "drop", "rename", "replace", "move", "inside", "inside", "inside")):
            case "add" if unused:
                fields.insert(at, self.new_field(self.pick(unused), 2))
            case "drop" if len(fields) > 1:
                del fields[at]
            case "rename" if unused:
                fields[at] = replace(fields[at], name=self.pick(unused))
            case "replace":
                fields[at] = self.new_field(fields[at].name, 2)
            case "move":
                fields.insert(at, fields.pop())
            case _:
                nested = [place for place, one in enumerate(fields) if not isinstance(one.type, pa.DataType)]
                at = self.pick(nested) if nested and self.pick([True, False]) else at
                fields[at] = replace(fields[at], type=self.changed_type(fields[at].type, fields[at].id))
        return RecordType(fields=tuple(fields))

    def changed_type(self, type_: FieldType, id_: int) -> FieldType:
        match type_:
            case RecordType():
                return self.changed_record(type_)
            case ArrayType():
                return replace(type_, element=self.changed_type(type_.element, type_.element_id))
            case MapType():
                return replace(type_, value=self.changed_type(type_.value, type_.value_id))
        promotions = further_promotions(self.first_types[id_], type_)
        return self.pick(promotions) if promotions else type_

    def schema(self, version_id: int, record: RecordType) -> InternalSchema:
        return InternalSchema(version_id=version_id, max_column_id=self.next_id - 1, fields=record.fields)


@st.composite
def histories(draw: st.DrawFn) -> tuple[InternalSchema, ...]:
    """The versions of a schema, each a change or two after the one before."""
    editor = Editor(draw=draw)
    record = editor.new_record(2)
    versions = [editor.schema(0, record)]
    for version_id in range(1, draw(st.integers(1, 4)) + 1):
        for _ in range(draw(st.integers(1, 2))):
            record = editor.changed_record(record)
        versions.append(editor.schema(version_id, record))
    return tuple(versions)


def values_of(type_: FieldType) -> st.SearchStrategy[Any]:
    match type_:
        case RecordType():
            return st.none() | rows_of(type_.fields)
        case ArrayType():
            return st.none() | st.lists(values_of(type_.element), max_size=2)
        case MapType():
            return st.none() | st.dictionaries(TEXTS, values_of(type_.value), max_size=2).map(
                lambda map_: [*map_.items()]
            )
    return st.none() | VALUES[type_]


def rows_of(fields: Sequence[Field]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({item.name: values_of(item.type) for item in fields})


def rewritten(value: Any, old: FieldType, new: FieldType) -> Any:
    """One value of a version as one of the next: fields are found by id, and what is new is null."""
    if value is None:
        return None
    match old, new:
        case RecordType(), RecordType():
            known = {item.id: item for item in old.fields}
            return {
                item.name: rewritten(value[known[item.id].name], known[item.id].type, item.type)
                if item.id in known
                else None
                for item in new.fields
            }
        case ArrayType(), ArrayType():
            return [rewritten(item, old.element, new.element) for item in value]
        case MapType(), MapType():
            return [(key, rewritten(item, old.value, new.value)) for key, item in value]
    return value if old == new else promoted(value, new)


def promoted(value: Any, new: Any) -> Any:
    """One value as one of a type that its own may become."""
    if pa.types.is_decimal(new):
        try:
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-new.scale), ROUND_HALF_UP)
        except InvalidOperation:
            return None
    if pa.types.is_date(new):
        try:
            return dt.date.fromisoformat(value)
        except ValueError:
            return None
    if pa.types.is_floating(new):
        return float(value)
    if pa.types.is_binary(new):
        return value.encode()
    if pa.types.is_string(new):
        return value.decode() if isinstance(value, bytes) else str(value)
    return value


def plan(file_ids: InternalSchema, query_ids: InternalSchema) -> Evolution:
    return plan_evolution(
        to_arrow(file_ids),
        to_arrow(query_ids),
        file_ids=file_ids,
        query_ids=query_ids,
        path="file",
        stored_as=StoredAs.AVRO,
        floats_by_text=FloatsByText.EVERYWHERE,
    )


def as_record(schema: InternalSchema) -> RecordType:
    return RecordType(fields=schema.fields)


@given(histories(), st.data())
@settings(
    deadline=None, max_examples=examples(120), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
def test_reading_by_id_is_rewriting_step_by_step(versions: tuple[InternalSchema, ...], data: st.DataObject) -> None:
    for position, written in enumerate(versions):
        rows = data.draw(st.lists(rows_of(written.fields), max_size=3))
        expected: list[Any] = list(rows)
        for old, new in pairwise(versions[position:]):
            expected = [rewritten(row, as_record(old), as_record(new)) for row in expected]
        batch = pa.RecordBatch.from_pylist(rows, to_arrow(written))
        evolution = plan(written, versions[-1])
        actual = evolution.apply(batch)
        actual.validate(full=True)
        assert actual.schema.equals(to_arrow(versions[-1]))
        assert actual.to_pylist() == expected


@given(histories())
@settings(deadline=None, max_examples=examples(100))
def test_no_change_is_no_difference_and_every_change_is_one(versions: tuple[InternalSchema, ...]) -> None:
    for before, after in pairwise(versions):
        changes = schema_changes(before, after, by_id=True)
        assert (not changes) == (before.fields == after.fields)
        assert all(change.kind is not SchemaChangeKind.RETYPED for change in changes)


@given(histories())
@settings(deadline=None, max_examples=examples(100))
def test_the_columns_of_a_file_are_said_to_come_from_where_they_are_read(versions: tuple[InternalSchema, ...]) -> None:
    for written in versions:
        evolution = plan(written, versions[-1])
        mappings = map_columns(
            to_arrow(written),
            to_arrow(versions[-1]),
            file_ids=written,
            query_ids=versions[-1],
            path_columns=(),
            stored_as=StoredAs.AVRO,
        )
        top = [mapping for mapping in mappings if mapping.column is not None and "." not in mapping.column]
        assert [(item.column, item.file_column) for item in top] == [
            (c.field.name, c.source) for c in evolution.columns
        ]
        unread = {
            mapping.file_column
            for mapping in mappings
            if mapping.column is None and "." not in (mapping.file_column or "")
        }
        assert unread == {item.name for item in written.fields} - set(evolution.file_columns)


@given(histories())
@settings(deadline=None, max_examples=examples(50))
def test_the_json_of_a_history_reads_back(versions: tuple[InternalSchema, ...]) -> None:
    assert parse_schema_history(schema_history_json(versions), "text") == tuple(reversed(versions))
