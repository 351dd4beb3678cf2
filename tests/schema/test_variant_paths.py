"""Values at paths of a VARIANT: cut out of whole values, and read in part from files that have shredded them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hudi_bridge import QueryError, variant_path
from hudi_bridge.readers.base_formats.footers import leaf_paths
from hudi_bridge.schema.variant_paths import part_to_read, values_at
from hudi_bridge.schema.variants import MalformedVariantError, plan_shredded
from tests.support.shredded_values import (
    HEADS,
    KINDS,
    NAMES,
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
from tests.support.variants import Primitive, at_path, decoded

PATHS = st.lists(st.lists(st.sampled_from(NAMES) | st.integers(0, 2), max_size=3).map(tuple), min_size=1, max_size=3)


def parts_of(values: Sequence[Any], names: Sequence[str]) -> Any:
    metadata = metadata_of(names)
    return pa.array([value and {"metadata": metadata, "value": encoded(value[0], names)} for value in values], PARTS)


def decoded_at(structs: Any, steps: Sequence[Any]) -> list[Any]:
    """The value of each row at a path, in a tuple; an empty one for a row without it."""
    values = values_at(structs, tuple(steps))
    values.validate(full=True)
    assert values.type == structs.type
    return [() if row is None else (decoded(row["metadata"], row["value"]),) for row in values.to_pylist()]


def test_a_missing_path_is_null_and_a_null_at_a_path_stays_a_value() -> None:
    rows = parts_of([({"a": None, "b": [1, {"a": "x"}]},), None, ([{"a": 5}],), ({"b": {}},), (None,)], ["b", "a"])
    assert decoded_at(rows, ["a"]) == [(None,), (), (), (), ()]
    assert decoded_at(rows, ["b", 1, "a"]) == [(Primitive("string", "x"),), (), (), (), ()]
    assert decoded_at(rows, ["b", 2]) == [()] * 5
    assert decoded_at(rows, [0, "a"]) == [(), (), (Primitive("int64", 5),), (), ()]
    assert decoded_at(rows, ["c"]) == [()] * 5
    assert decoded_at(rows.slice(2, 2), ["b"]) == [(), ({},)]
    assert decoded_at(rows.slice(0, 0), ["b"]) == []
    assert [len(value) for value in decoded_at(rows, [])] == [1, 0, 1, 1, 1]


def test_all_types_are_cut_out() -> None:
    kind = pa.struct([(f"f{number}", group(kind)) for number, (kind, _, _) in enumerate(PRIMITIVES)])
    names = [field.name for field in kind]
    typed = {f"f{number}": {"typed_value": stored} for number, (_, stored, _) in enumerate(PRIMITIVES)}
    plan = plan_shredded(shredded(kind), PARTS, "v", "f")
    whole = plan(pa.array([{"metadata": metadata_of(names), "typed_value": typed}], shredded(kind)))
    assert [decoded_at(whole, [name])[0] for name in names] == [(expected,) for _, _, expected in PRIMITIVES]


def test_parts_in_any_order() -> None:
    metadata = metadata_of(["a", "b"])
    # The value of b comes first.
    value = bytes([2, 2, 0, 1, 2, 0, 3]) + bytes([3 << 2, 7, 0])
    rows = pa.array([{"metadata": metadata, "value": value}], PARTS)
    assert decoded_at(rows, ["a"]) == [(None,)]
    assert decoded_at(rows, ["b"]) == [(Primitive("int8", 7),)]


@pytest.mark.parametrize(
    ("value", "steps", "reason"),
    [
        (encoded({"a": 1}, ["a"])[:-1], ["a"], "cut off"),
        (encoded([1], [])[:-1], [0], "cut off"),
        (encoded([1], [])[:2], [0], "cut off"),
        (encoded("long", [])[:-1], [], "cut off"),
        (b"", [], "cut off"),
        (bytes([63 << 2]), [], "type 63"),
        (bytes([2, 1, 9, 0, 1, 0]), ["a"], "id of"),
        (bytes([2, 2, 0, 0, 0, 1, 2, 0, 0]), ["a"], "twice"),
        (bytes([2, 1, 0, 1, 1, 0]), ["a"], "cut off"),
        (None, ["a"], "null in value"),
    ],
)
def test_what_is_no_variant_is_refused(value: bytes | None, steps: Sequence[Any], reason: str) -> None:
    rows = pa.array([{"metadata": metadata_of(["a"]), "value": value}], PARTS)
    with pytest.raises(MalformedVariantError, match=reason):
        values_at(rows, tuple(steps))


@given(st.lists(st.tuples(HEADS, st.binary(max_size=12), HEADS, st.binary(max_size=12)), min_size=1, max_size=3))
def test_any_bytes_are_cut_or_refused(rows: Sequence[tuple[bytes, bytes, bytes, bytes]]) -> None:
    stored = pa.array([{"metadata": head + names, "value": start + rest} for head, names, start, rest in rows], PARTS)
    for steps in (("b",), (0,), ()):
        try:
            values = values_at(stored, steps)
        except MalformedVariantError:
            continue
        values.validate(full=True)
        assert len(values) == len(rows)


@given(
    kind=KINDS.filter(lambda kind: kind is not None),
    rows=st.lists(st.tuples(st.none() | VALUES, st.permutations(NAMES), st.integers(1, 4)), min_size=1, max_size=6),
    paths=PATHS,
)
def test_what_is_read_in_part_has_the_values_at_its_paths(
    kind: Any, rows: Sequence[tuple[Any, list[str], int]], paths: Sequence[tuple[Any, ...]]
) -> None:
    stored = [
        {"metadata": metadata_of(names, width), **shred(value, kind, names, width)} for value, names, width in rows
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"before": [1] * len(rows), "v": pa.array(stored, shredded(kind)), "after": [1] * len(rows)}), sink
    )
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    leaves = leaf_paths(file.metadata, file.schema_arrow, "v")
    part, numbers = part_to_read(file.schema_arrow.field("v").type, paths)
    assert leaves
    read = file.read(columns=[leaves[number] for number in numbers])
    assert read.schema == pa.schema([("v", part)])
    values = plan_shredded(part, PARTS, "v", "f")(read["v"].combine_chunks())
    for steps in paths:
        assert decoded_at(values, steps) == [at_path(as_decoded(value), steps) for value, _, _ in rows]


def leaf_names(kind: Any, *paths: Any) -> list[str]:
    """The leaves that are read for paths."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema([("v", kind)]).empty_table(), sink)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    _, numbers = part_to_read(file.schema_arrow.field("v").type, paths)
    leaves = leaf_paths(file.metadata, file.schema_arrow, "v")
    return [leaves[number].removeprefix("v.") for number in numbers]


def test_only_the_leaves_of_a_path_are_read() -> None:
    inner = pa.struct([("p", group(pa.int32())), ("q", group(pa.list_(group(pa.string()))))])
    kind = shredded(pa.struct([("a", group(pa.int32())), ("nest", group(inner)), ("b", group(None))]))
    top, nest = "typed_value", "typed_value.nest.typed_value"
    assert leaf_names(kind, ("a",)) == ["metadata", f"{top}.a.value", f"{top}.a.typed_value"]
    assert leaf_names(kind, ("a", "x")) == ["metadata", f"{top}.a.value"]
    assert leaf_names(kind, ("b", "x"), ("a", 0)) == ["metadata", f"{top}.a.value", f"{top}.b.value"]
    assert leaf_names(kind, ("nest", "p")) == ["metadata", f"{nest}.p.value", f"{nest}.p.typed_value"]
    element = f"{nest}.q.typed_value.list.element"
    assert leaf_names(kind, ("nest", "q", 1)) == ["metadata", f"{element}.value", f"{element}.typed_value"]
    assert leaf_names(kind, ("nest", "q", 1, "x")) == ["metadata", f"{element}.value"]
    assert leaf_names(kind, ("other",), (0,)) == ["metadata", "value"]
    assert leaf_names(kind, ("other",), ("a",)) == ["metadata", "value", f"{top}.a.value", f"{top}.a.typed_value"]
    assert len(leaf_names(kind, (), ("a",))) == 11
    # Without a column that could have the path, all is read, to find that no row has it.
    typed_only = shredded(pa.struct([("a", pa.struct([("typed_value", pa.int32())]))]), "metadata", "typed_value")
    assert leaf_names(typed_only, ("other",)) == ["metadata", f"{top}.a.typed_value"]


def test_paths_that_are_ambiguous_are_not_read_apart() -> None:
    kind = shredded(pa.struct([("a", group(None)), ("a.value", group(None))]))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema([("v", kind), ("w", shredded(pa.int32()))]).empty_table(), sink)
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()))
    assert leaf_paths(file.metadata, file.schema_arrow, "v") == ()
    assert leaf_paths(file.metadata, file.schema_arrow, "w") == ["w.metadata", "w.value", "w.typed_value"]


@pytest.mark.parametrize("step", [-1, True, 1.0, None])
def test_other_steps_are_refused(step: Any) -> None:
    with pytest.raises(QueryError, match="positions of elements"):
        variant_path("v", "a", step)
