"""What is kept of a slice is used again as long as nothing that matters has changed, and never afterwards."""

from dataclasses import fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge import RealtimeFileSplit, RecordPayload
from hudi_bridge.engines import context_identity, identity, slice_identity
from hudi_bridge.engines.merged_slices import NOT_IDENTIFYING
from hudi_bridge.releases import FloatWidening
from hudi_bridge.splits.split import ReadContext
from tests.support.table_writer import TableWriter, at


class Keeps(RecordPayload):
    """A payload with an attribute."""

    def __init__(self, most: int) -> None:
        self.most = most


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    table = TableWriter(folder=tmp_path / "table").create()
    for file_id in ("f1-0", "f2-0"):
        table.base_file(at(1), [{"id": file_id, "ts": 5, "value": "base"}], file_id=file_id)
    table.commit(at(1))
    return table


def identities(table: TableWriter) -> dict[str, str]:
    splits = table.open().splits()
    return {split.file_id: slice_identity(split, context_identity(split.context)) for split in splits}


def changed(name: str, value: Any) -> Any:
    """Another value of a field of a split or a context."""
    match value:
        case FloatWidening():
            return next(item for item in FloatWidening if item is not value)
        case bool():
            return not value
        case int():
            return value + 1
        case str():
            return value + "x"
        case frozenset():
            return value | {"x"}
        case tuple():
            return (
                *value,
                (("x", "y") if name == "field_defaults" else ("x", pa.scalar(1)) if "values" in name else "x"),
            )
        case dict():
            return value | {"x": "y"}
        case pa.Schema():
            return value.append(pa.field("x", pa.int8()))
        case None:
            return frozenset({"x"}) if name == "commit_times" else 7 if name == "log_memory_bytes" else "x"
        case _:
            assert name == "merge_rule"
            return replace(value, ordering_fields=("x",))


def test_every_field_counts_but_those_that_are_named(table: TableWriter) -> None:
    (split, _) = table.open().splits()
    context = split.context
    for field in fields(context):
        other = replace(context, **{field.name: changed(field.name, getattr(context, field.name))})
        is_same = context_identity(other) == context_identity(context)
        assert is_same == (field.name in NOT_IDENTIFYING), field.name
    for field in fields(split):
        if field.name != "context":
            moved = replace(split, **{field.name: changed(field.name, getattr(split, field.name))})
            assert slice_identity(moved, "") != slice_identity(split, ""), field.name


@pytest.mark.parametrize("kind", [ReadContext, RealtimeFileSplit])
def test_a_field_that_is_new_counts(table: TableWriter, kind: Any) -> None:
    (split, _) = table.open().splits()
    grown = make_dataclass("Grown", [("added", object)], bases=(kind,), frozen=True, slots=True, kw_only=True)
    source = split.context if kind is ReadContext else split
    given = {field.name: getattr(source, field.name) for field in fields(source)}

    def identity_of(added: object) -> str:
        one = grown(**given, added=added)
        return context_identity(one) if kind is ReadContext else slice_identity(one, "")

    values: list[object] = [None, False, 0, "", "0", b"0", ("a", "b"), (("a", "b"),), frozenset({"a"}), {"a": 1}, 1.5]
    values += [pa.int32(), pa.scalar(0, pa.int32()), pa.scalar(0, pa.int64()), pa.schema([("a", pa.int8())])]
    assert len({identity_of(value) for value in values}) == len(values)
    with pytest.raises(TypeError, match="object has no identity"):
        identity_of(object())


def test_a_commit_that_does_not_touch_a_slice_leaves_its_identity(table: TableWriter) -> None:
    before = identities(table)
    rows = [{"id": "f2-0", "ts": 9, "value": "log"}]
    table.log_file(at(2), [table.data_block(at(2), rows, file_id="f2-0")], file_id="f2-0")
    table.commit(at(2))
    table.pending(at(3))
    after = identities(table)
    assert before["f1-0"] == after["f1-0"]
    assert before["f2-0"] != after["f2-0"]


def test_a_payload_counts_with_its_attributes(table: TableWriter) -> None:
    (split, _) = table.open().splits()
    rule = split.context.merge_rule
    assert rule is not None
    actual = {
        context_identity(replace(split.context, merge_rule=replace(rule, payload=payload)))
        for payload in (None, RecordPayload(), Keeps(1), Keeps(2), Keeps(1))
    }
    assert len(actual) == 4


def test_settings_and_tokens(table: TableWriter) -> None:
    context = table.open().read_context()
    assert context_identity(context, 1) != context_identity(context, 2)
    uris = ("https://host/t?sig=one", "https://host/t?sig=two", "https://other/t?sig=one")
    signed = [context_identity(replace(context, table_path=uri)) for uri in uris]
    assert signed[0] == signed[1] != signed[2]


def test_sets_and_mappings_have_no_order() -> None:
    assert identity({"a": 1, "b": {"x", "y"}}) == identity({"b": {"y", "x"}, "a": 1})
    assert identity(("a", "b")) != identity(("b", "a"))
