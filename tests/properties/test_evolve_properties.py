from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.schema.evolve import FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.internal import internal_from_arrow
from hudi_bridge.schema.java_text import double_text, float_text, floating_text

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])


@dataclass(frozen=True)
class Pair:
    """A type of a file, one that a query may ask for instead, and values of the first."""

    file: Any
    query: Any
    values: st.SearchStrategy[Any]


INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=3)
LEAVES = st.sampled_from(
    [
        Pair(pa.int32(), pa.int32(), INTS),
        Pair(pa.int32(), pa.int64(), INTS),
        Pair(pa.int32(), pa.string(), INTS),
        Pair(pa.int64(), pa.float64(), INTS),
        Pair(pa.string(), pa.string(), TEXTS),
        Pair(pa.large_string(), pa.string(), TEXTS),
        Pair(pa.string(), pa.binary(), TEXTS),
        Pair(pa.dictionary(pa.int32(), pa.string()), pa.string(), TEXTS),
        Pair(pa.timestamp("ms"), pa.timestamp("us"), st.datetimes().map(lambda t: t.replace(microsecond=0))),
    ]
)


def nullable(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def lists(inner: Pair) -> Pair:
    file = pa.list_(pa.field("item", inner.file))
    query = pa.list_(pa.field("element", inner.query))
    return Pair(file, query, st.lists(nullable(inner.values), max_size=3))


def maps(inner: Pair) -> Pair:
    entries = st.lists(st.tuples(TEXTS, nullable(inner.values)), max_size=3, unique_by=lambda entry: entry[0])
    return Pair(pa.map_(pa.string(), inner.file), pa.map_(pa.string(), inner.query), entries)


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    """Fields of the file, some of which the query drops, in another order, with some that the file lacks."""
    fields = draw(st.dictionaries(NAMES, inner, min_size=1, max_size=3))
    file = pa.struct([(name, pair.file) for name, pair in fields.items()])
    kept = draw(st.lists(st.sampled_from(sorted(fields)), unique=True))
    added = draw(st.dictionaries(NAMES.filter(lambda name: name not in fields), inner, max_size=2))
    asked = draw(
        st.permutations([(name, fields[name].query) for name in kept] + [(n, p.query) for n, p in added.items()])
    )
    values = st.fixed_dictionaries({name: nullable(pair.values) for name, pair in fields.items()})
    return Pair(file, pa.struct(asked), values)


PAIRS = st.recursive(LEAVES, lambda inner: inner.map(lists) | inner.map(maps) | structs(inner), max_leaves=6)


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.Schema]:
    """A batch of a random schema, and a schema to read it with."""
    pair = draw(structs(PAIRS))
    rows = draw(st.lists(pair.values, max_size=6))
    return pa.RecordBatch.from_pylist(rows, pa.schema(list(pair.file))), pa.schema(list(pair.query))


def slowly_evolved(value: Any, file: Any, query: Any) -> Any:
    """One value of the file as the query's type, by the rules as they are told."""
    if value is None:
        return None
    if pa.types.is_struct(query):
        have = {field.name: field.type for field in file}
        return {
            field.name: slowly_evolved(value[field.name], have[field.name], field.type) if field.name in have else None
            for field in query
        }
    if pa.types.is_map(query):
        return [(key, slowly_evolved(item, file.item_type, query.item_type)) for key, item in value]
    if pa.types.is_list(query):
        return [slowly_evolved(item, file.value_type, query.value_type) for item in value]
    if pa.types.is_binary(query) and isinstance(value, str):
        return value.encode()
    if pa.types.is_string(query):
        return str(value)
    return float(value) if pa.types.is_floating(query) else value


def evolve(batch: pa.RecordBatch, query: pa.Schema, *, by_id: bool = False) -> pa.RecordBatch:
    evolution = plan_evolution(
        batch.schema,
        query,
        file_ids=internal_from_arrow(batch.schema) if by_id else None,
        query_ids=internal_from_arrow(query) if by_id else None,
        path="file",
        stored_as=StoredAs.AVRO,
        floats_by_text=FloatsByText.EVERYWHERE,
    )
    result = evolution.apply(batch)
    result.validate(full=True)
    assert result.schema.equals(query)
    return result


@given(batches())
@settings(deadline=None)
def test_whole_columns_become_what_single_values_become(case: tuple[pa.RecordBatch, pa.Schema]) -> None:
    batch, query = case
    whole = pa.struct(list(batch.schema)), pa.struct(list(query))
    assert evolve(batch, query).to_pylist() == [slowly_evolved(row, *whole) for row in batch.to_pylist()]


@given(batches())
@settings(deadline=None)
def test_evolving_twice_is_evolving_once(case: tuple[pa.RecordBatch, pa.Schema]) -> None:
    batch, query = case
    once = evolve(batch, query)
    assert evolve(once, query).equals(once, check_metadata=True)
    assert evolve(once, query, by_id=True).equals(once, check_metadata=True)


@given(batches(), st.data())
@settings(deadline=None)
def test_a_slice_of_the_result_is_the_result_of_the_slice(
    case: tuple[pa.RecordBatch, pa.Schema], data: st.DataObject
) -> None:
    batch, query = case
    start = data.draw(st.integers(0, batch.num_rows))
    length = data.draw(st.integers(0, batch.num_rows - start))
    before = evolve(batch.slice(start, length), query)
    assert before.to_pylist() == evolve(batch, query).slice(start, length).to_pylist()
    # A slice of a slice: offsets of the children differ from those of their parents.
    assert evolve(batch.slice(start).slice(0, length), query).to_pylist() == before.to_pylist()


@given(st.floats(allow_nan=False))
def test_the_text_of_a_double_reads_back(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(allow_nan=False, width=32))
def test_the_text_of_a_float_reads_back(value: float) -> None:
    assert pa.array([float(float_text(value))]).cast(pa.float32(), safe=False).to_pylist() == [value]


EVERYDAY = st.integers(-(10**8), 10**8).map(lambda cents: cents / 100) | st.floats(0.01, 2e7)


@given(st.lists(st.none() | st.floats() | EVERYDAY))
def test_whole_arrays_have_the_texts_of_their_values(values: list[float | None]) -> None:
    doubles = pa.array(values, pa.float64())
    floats = doubles.cast(pa.float32(), safe=False)
    for array, text_of in ((doubles, double_text), (floats, float_text)):
        expected = [None if value is None else text_of(value) for value in array.to_pylist()]
        assert floating_text(array).to_pylist() == expected
