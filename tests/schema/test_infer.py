from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema import infer
from hudi_bridge.schema.avro import parse_avro_schema
from hudi_bridge.schema.evolve import FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.infer import (
    SchemaAmbiguityKind,
    SchemaProposal,
    infer_schema_history,
    writer_schema_from_arrow,
    writer_schema_from_avro,
)
from hudi_bridge.schema.internal import (
    Field,
    FieldType,
    InternalSchema,
    RecordType,
    internal_from_arrow,
    parse_schema_history,
    to_arrow,
)

INT: Any = pa.int32()
LONG: Any = pa.int64()
TEXT: Any = pa.string()


def inferred(*schemas: dict[str, Any]) -> SchemaProposal:
    """The proposal for the schemas of instants 1, 2, …"""
    without_ids = (internal_from_arrow(pa.schema([*schema.items()])) for schema in schemas)
    return infer_schema_history((str(number), schema) for number, schema in enumerate(without_ids, 1))


def ids(schema: InternalSchema) -> dict[str, int]:
    return {field.name: field.id for field in schema.fields}


def record_ids(record: FieldType, path: str = "") -> dict[str, int]:
    assert isinstance(record, RecordType)
    actual = {}
    for field in record.fields:
        actual[path + field.name] = field.id
        if isinstance(field.type, RecordType):
            actual |= record_ids(field.type, f"{path}{field.name}.")
    return actual


def test_a_name_keeps_its_id_and_a_new_one_gets_the_next() -> None:
    proposal = inferred({"a": INT, "b": TEXT}, {"c": INT, "a": LONG, "b": TEXT}, {"b": TEXT, "d": TEXT, "c": INT})
    assert [ids(version) for version in proposal.versions] == [
        {"a": 0, "b": 1},
        {"c": 2, "a": 0, "b": 1},
        {"b": 1, "d": 3, "c": 2},
    ]
    assert [version.version_id for version in proposal.versions] == [0, 2, 3]
    assert [version.max_column_id for version in proposal.versions] == [1, 2, 3]
    assert proposal.instants == ("1", "2", "3")


def test_the_changes_are_told_by_the_proposed_ids() -> None:
    proposal = inferred({"a": INT}, {"b": TEXT, "a": LONG})
    assert [[str(change) for change in changes] for changes in proposal.changes] == [
        [],
        ["added b string first", "promoted a from int to long"],
    ]
    assert inferred().changes == ()


def test_schemas_that_are_like_the_one_before_are_no_versions() -> None:
    proposal = inferred({"a": INT}, {"a": INT}, {"a": LONG}, {"a": LONG})
    assert proposal.instants == ("1", "3")


def test_ids_of_what_is_inside_come_after_those_of_the_siblings() -> None:
    before = {"s": pa.struct({"x": INT}), "l": pa.list_(INT), "m": pa.map_(TEXT, INT), "z": INT}
    after = before | {"s": pa.struct({"x": INT, "y": pa.struct({"p": INT, "q": INT})}), "t": pa.struct({"x": INT})}
    first, second = inferred(before, after).versions
    assert first == internal_from_arrow(pa.schema([*before.items()]))
    assert ids(second) == {"s": 0, "l": 1, "m": 2, "z": 3, "t": 8}
    s, *_, t = (record_ids(field.type) for field in second.fields if field.name in "st")
    assert (s, t) == ({"x": 4, "y": 9, "y.p": 10, "y.q": 11}, {"x": 12})
    assert (first.max_column_id, second.max_column_id) == (7, 12)


def test_a_column_that_goes_while_a_like_one_comes_may_have_been_renamed() -> None:
    proposal = inferred({"a": INT, "b": TEXT, "c": INT}, {"a": INT, "bb": TEXT, "c": INT})
    (ambiguity,) = proposal.ambiguities
    assert (ambiguity.kind, ambiguity.instant) == (SchemaAmbiguityKind.RENAME_OR_NEW, "2")
    assert str(ambiguity) == ("b went and bb came: could be a rename of b to bb, or a drop and an add (proposed)")
    assert ids(proposal.versions[1]) == {"a": 0, "bb": 3, "c": 2}


@pytest.mark.parametrize(
    ("after", "candidates"),
    [
        ({"a": INT, "x": TEXT, "c": TEXT}, {("b", "x")}),
        ({"x": LONG, "a": INT, "c": TEXT}, {("b", "x")}),
        ({"a": INT, "c": TEXT, "x": LONG}, {("b", "x")}),
        ({"a": INT, "x": pa.bool_(), "c": TEXT}, set()),
        ({"a": INT, "x": LONG, "y": TEXT, "c": TEXT}, {("b", "x"), ("b", "y")}),
        ({"a": INT, "c": TEXT}, set()),
        ({"a": INT, "b": INT, "x": INT, "c": TEXT}, set()),
    ],
)
def test_only_a_readable_type_at_a_near_place_may_be_a_rename(
    after: dict[str, Any], candidates: set[tuple[str, str]]
) -> None:
    proposal = inferred({"a": INT, "b": INT, "c": TEXT}, after)
    assert {(ambiguity.before, ambiguity.after) for ambiguity in proposal.ambiguities} == candidates


def test_a_column_that_comes_at_the_other_end_is_no_rename() -> None:
    assert inferred({"x": INT, "a": INT, "b": INT}, {"a": INT, "b": INT, "y": INT}).ambiguities == ()


def test_few_columns_that_all_change_may_each_be_any_other() -> None:
    names = range(9)
    proposal = inferred({f"a{name}": INT for name in names}, {f"b{name}": INT for name in names})
    pairs = [(ambiguity.before, ambiguity.after) for ambiguity in proposal.ambiguities]
    assert pairs == [(f"a{name}", f"b{other}") for name in names for other in names]


@pytest.mark.parametrize(("gone", "come"), [(300, 300), (300, 250), (250, 300)])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_of_many_columns_that_change_at_one_place_only_near_ones_may_be_renames(
    gone: int, come: int, at_the_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0

    def counted(old: FieldType, new: FieldType) -> bool:
        nonlocal compared
        compared += 1
        return old == new

    monkeypatch.setattr(infer, "_may_be_same", counted)
    dropped, added = range(gone), range(come)
    if at_the_end:
        added = range(gone - come, gone)
    before = {"k": INT, **{f"a{item}": INT for item in dropped}, "z": INT}
    after = {"k": INT, **{f"b{item}": INT for item in added}, "z": INT}
    pairs = {(ambiguity.before, ambiguity.after) for ambiguity in inferred(before, after).ambiguities}
    assert {(f"a{item}", f"b{item}") for item in dropped if item in added} <= pairs
    assert compared == len(pairs) <= 2 * 17 * gone


def test_columns_that_change_at_places_far_apart_do_not_meet() -> None:
    class Named(dict[str, Field]):
        asked = 0

        def __contains__(self, name: object) -> bool:
            self.asked += 1
            return super().__contains__(name)

    names = [f"a{number}" for number in range(200)]
    before, after = (
        internal_from_arrow(pa.schema(dict.fromkeys(some, INT))).fields
        for some in (names, [f"b{one}" if number % 2 else one for number, one in enumerate(names)])
    )
    named = Named({field.name: field for field in before})
    actual = list(infer._possible_renames("2", before, after, "", named))
    assert len(actual) == 100 + 2 * 99
    assert named.asked <= 100


def test_renames_within_records_of_lists_and_maps() -> None:
    inner, changed = pa.struct({"x": INT, "y": TEXT}), pa.struct({"x": INT, "yy": TEXT})
    proposal = inferred(
        {"l": pa.list_(inner), "m": pa.map_(TEXT, inner)}, {"l": pa.list_(changed), "m": pa.map_(TEXT, changed)}
    )
    assert [(ambiguity.before, ambiguity.after) for ambiguity in proposal.ambiguities] == [
        ("l.element.y", "l.element.yy"),
        ("m.value.y", "m.value.yy"),
    ]


def test_a_record_may_be_a_rename_of_one_that_shares_a_field() -> None:
    first, like, unlike = (
        {"s": pa.struct({"x": INT, "y": INT})},
        {"t": pa.struct({"x": LONG})},
        {"t": pa.struct({"z": INT})},
    )
    assert [(ambiguity.before, ambiguity.after) for ambiguity in inferred(first, like).ambiguities] == [("s", "t")]
    assert inferred(first, unlike).ambiguities == ()


def test_a_name_that_comes_back_keeps_its_id_if_its_old_values_can_be_read() -> None:
    proposal = inferred({"a": INT, "b": INT}, {"a": INT}, {"a": INT, "b": LONG})
    assert ids(proposal.versions[2]) == {"a": 0, "b": 1}
    (ambiguity,) = proposal.ambiguities
    assert (ambiguity.kind, ambiguity.after) == (SchemaAmbiguityKind.SAME_OR_ANOTHER, "b")
    assert str(ambiguity) == "b came back: could be the same column (proposed), or another one of that name"


def test_a_name_that_comes_back_with_another_type_is_another_column() -> None:
    proposal = inferred({"a": INT, "b": TEXT}, {"a": INT}, {"a": INT, "b": LONG})
    assert ids(proposal.versions[2]) == {"a": 0, "b": 2}
    assert proposal.ambiguities == ()


def test_the_parts_of_a_variant_keep_the_ids_by_which_hudi_knows_it() -> None:
    parts = '[{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}]'
    variant = f'{{"type": "record", "name": "v", "logicalType": "variant", "fields": {parts}}}'
    text = f'{{"type": "record", "name": "r", "fields": [{{"name": "v", "type": ["null", {variant}]}}]}}'
    schema = writer_schema_from_avro(parse_avro_schema(text, "a test"), (), ("part",))
    (version,) = infer_schema_history([("1", schema)]).versions
    kind = version.fields[0].type
    assert isinstance(kind, RecordType)
    assert [(part.name, part.id, part.optional) for part in kind.fields] == [
        ("metadata", -2, False),
        ("value", -1, False),
    ]
    assert (ids(version), version.max_column_id) == ({"v": 0, "part": 1}, 1)


def test_reading_by_proposed_ids_is_reading_by_name() -> None:
    schemas = (
        {"a": INT, "s": pa.struct({"x": INT, "y": TEXT}), "b": TEXT},
        {"a": INT, "s": pa.struct({"y": TEXT, "z": INT}), "bb": TEXT},
        {"s": pa.struct({"x": LONG, "y": TEXT, "z": INT}), "b": TEXT, "a": LONG},
    )
    versions = inferred(*schemas).versions
    values: dict[Any, Any] = {INT: 1, LONG: 2, TEXT: "t"}
    for written in versions:
        arrow = to_arrow(written)
        row = {
            item.name: {inner.name: values[inner.type] for inner in item.type}
            if item.name == "s"
            else values[item.type]
            for item in arrow
        }
        batch = pa.RecordBatch.from_pylist([row], arrow)
        by_id, by_name = (
            plan_evolution(
                arrow,
                to_arrow(versions[-1]),
                file_ids=file_ids,
                query_ids=versions[-1],
                path="file",
                stored_as=StoredAs.PARQUET,
                floats_by_text=FloatsByText.EVERYWHERE,
            ).apply(batch)
            for file_ids in (written, None)
        )
        assert by_id.equals(by_name)


def test_the_json_is_that_of_hudi() -> None:
    proposal = inferred({"a": INT}, {"a": INT, "l": pa.list_(pa.decimal128(10, 2)), "m": pa.map_(TEXT, LONG)})
    assert proposal.to_json() == (
        '{"schemas":[{"max_column_id":5,"version_id":2,"type":"record","fields":['
        '{"id":0,"name":"a","optional":true,"type":"int"},'
        '{"id":1,"name":"l","optional":true,"type":{"type":"array","element_id":3,"element":"decimal(10, 2)",'
        '"element_optional":true}},'
        '{"id":2,"name":"m","optional":true,"type":{"type":"map","key_id":4,"key":"string","value_id":5,'
        '"value":"long","value_optional":true}}]},'
        '{"max_column_id":0,"version_id":0,"type":"record","fields":['
        '{"id":0,"name":"a","optional":true,"type":"int"}]}]}'
    )
    assert parse_schema_history(proposal.to_json(), "text") == proposal.versions[::-1]


def test_a_type_that_hudi_has_no_name_for_is_refused() -> None:
    with pytest.raises(UnsupportedTableError, match=r"timestamp\[ns\]"):
        inferred({"a": pa.timestamp("ns")}).to_json()


def required(name: str, type_: Any) -> Any:
    return pa.field(name, type_, nullable=False)


AVRO = """{"type": "record", "name": "r", "fields": [
  {"name": "_hoodie_commit_time", "type": "string"},
  {"name": "k", "type": "string"},
  {"name": "n", "type": ["null", "int"]},
  {"name": "s", "type": ["null", {"type": "record", "name": "s", "fields": [{"name": "x", "type": "long"}]}]},
  {"name": "l", "type": {"type": "array", "items": ["null", "int"]}},
  {"name": "m", "type": ["null", {"type": "map", "values": "int"}]},
  {"name": "u", "type": ["null", "int", "long"]}
]}"""


LEADING = ["_hoodie_commit_time", "_hoodie_record_key"]


def test_a_plain_schema_is_as_optional_as_avro_has_it() -> None:
    schema = writer_schema_from_avro(parse_avro_schema(AVRO, "text"), LEADING, ["n", "part"])
    assert [(field.id, field.name, field.optional) for field in schema.fields] == [
        (0, "_hoodie_commit_time", True),
        (1, "_hoodie_record_key", True),
        (2, "k", False),
        (3, "n", True),
        (4, "s", True),
        (5, "l", False),
        (6, "m", True),
        (7, "u", True),
        (8, "part", True),
    ]
    assert schema == writer_schema_from_arrow(
        pa.schema(
            [
                required("k", TEXT),
                pa.field("n", INT),
                pa.field("s", pa.struct([required("x", LONG)])),
                required("l", pa.list_(INT)),
                pa.field("m", pa.map_(TEXT, required("value", INT))),
                pa.field("u", LONG),
            ]
        ),
        LEADING,
        ["part"],
    )
