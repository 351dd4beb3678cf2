"""Splits as JSON and as pickles."""

import datetime as dt
import json
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge import QueryError, QueryType, RealtimeFileSplit
from hudi_bridge.merge.rules import CUSTOM_PAYLOAD, PAYLOAD_RULES, FieldFill, MergeRule
from hudi_bridge.releases import FloatWidening
from hudi_bridge.splits.split import ReadContext
from tests.support.strength import examples
from tests.support.table_writer import TableWriter, at

TEXT = st.text(max_size=6)
NAMES = st.tuples() | st.tuples(TEXT) | st.tuples(TEXT, TEXT)
INSTANTS = st.text("0123456789", min_size=1, max_size=17)
PRECEDENCES = (CUSTOM_PAYLOAD, *(entry.rule.precedence for entry in PAYLOAD_RULES))
VALUES: tuple[tuple[pa.DataType, st.SearchStrategy[Any]], ...] = (
    (pa.string(), TEXT),
    (pa.int32(), st.integers(-5, 5)),
    (pa.date32(), st.just(dt.date(2026, 1, 1))),
    (pa.decimal128(10, 2), st.just(Decimal("1.50"))),
    (pa.timestamp("us", "UTC"), st.just(dt.datetime(2026, 1, 1, tzinfo=dt.UTC))),
    (pa.float64(), st.just(0.5)),
    (pa.binary(), st.binary(max_size=3)),
)
SCHEMAS = st.sampled_from(
    [
        pa.schema([]),
        pa.schema([("a", pa.string()), ("b", pa.list_(pa.struct([("c", pa.map_(pa.string(), pa.int64()))])))]),
        pa.schema([pa.field("a", pa.timestamp("us", "UTC"), nullable=False)], metadata={"k": "v"}),
    ]
)
RULES = st.builds(
    MergeRule,
    precedence=st.sampled_from(PRECEDENCES),
    ordering_fields=NAMES,
    delete_marker=st.none() | st.tuples(TEXT, TEXT),
    fill=st.none() | st.sampled_from(FieldFill),
    fills_in_logs=st.booleans(),
    newest_meta=st.booleans(),
    unavailable_value=TEXT,
    sequences_against_base=st.booleans(),
    equal_sequences_keep_base=st.booleans(),
)
CONTEXTS = st.builds(
    ReadContext,
    table_path=TEXT,
    query_type=st.sampled_from(QueryType),
    latest_instant=INSTANTS,
    schema=SCHEMAS,
    merge_rule=st.none() | RULES,
    record_key_fields=NAMES,
    populates_meta_fields=st.booleans(),
    committed_instants=st.frozensets(INSTANTS, max_size=3),
    pending_instants=st.frozensets(INSTANTS, max_size=3),
    timeline_start=INSTANTS,
    path_columns=NAMES,
    float_widening=st.sampled_from(FloatWidening),
    field_defaults=st.tuples() | st.tuples(st.tuples(TEXT, TEXT)),
    schema_ids=st.none() | TEXT,
    schema_history=st.none() | TEXT,
    commit_times=st.none() | st.frozensets(INSTANTS, max_size=3),
    filters_base_rows_before_merge=st.booleans(),
    filters_parquet_blocks=st.booleans(),
)


@st.composite
def partition_values(draw: st.DrawFn) -> tuple[tuple[str, Any], ...]:
    names = draw(st.lists(TEXT, max_size=3, unique=True))
    chosen = [(name, *draw(st.sampled_from(VALUES))) for name in names]
    return tuple((name, pa.scalar(draw(st.none() | values), kind)) for name, kind, values in chosen)


SPLITS = st.builds(
    RealtimeFileSplit,
    context=CONTEXTS,
    partition_path=TEXT,
    partition_values=partition_values(),
    file_id=TEXT,
    base_instant_time=INSTANTS,
    base_path=st.none() | TEXT,
    log_paths=NAMES,
    base_size_bytes=st.integers(0, 2**40),
    log_size_bytes=st.integers(0, 2**40),
)


def through_json(split: RealtimeFileSplit) -> RealtimeFileSplit:
    return RealtimeFileSplit.from_json(split.to_json())


def through_pickle(split: RealtimeFileSplit) -> RealtimeFileSplit:
    copy: RealtimeFileSplit = pickle.loads(pickle.dumps(split))
    return copy


@pytest.mark.parametrize("travel", [through_json, through_pickle])
@settings(max_examples=examples(80), deadline=None)
@given(split=SPLITS)
def test_splits_travel_whole(
    travel: Callable[[RealtimeFileSplit], RealtimeFileSplit], split: RealtimeFileSplit
) -> None:
    actual = travel(split)
    assert actual == split
    assert actual.context.schema.equals(split.context.schema, check_metadata=True)
    assert [value.type for _, value in actual.partition_values] == [value.type for _, value in split.partition_values]
    assert hash(actual.context.committed_instants) == hash(split.context.committed_instants)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """The JSON of a split with one value replaced or left out."""
    document = json.loads(draw(SPLITS).to_json())
    position: Any = document
    while True:
        key = draw(st.sampled_from(sorted(position)))
        if not isinstance(position[key], dict) or draw(st.integers(0, 2)) == 0:
            break
        position = position[key] or {"": None}
    if draw(st.booleans()):
        position.pop(key)
    else:
        position[key] = draw(st.sampled_from([None, 7, "?", "AAAA", [], ["x"], {}, [[]], [["a"]], True]))
    return json.dumps(document)


@settings(max_examples=examples(200), deadline=None)
@given(text=damaged())
def test_damaged_text_is_an_error_or_a_split(text: str) -> None:
    actual = None
    with suppress(QueryError):
        actual = RealtimeFileSplit.from_json(text)
    assert actual is None or through_json(actual) == actual


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"x"', "{}", '{"format": 1}', "[" * 100_000])
def test_text_that_is_no_split_is_an_error(text: str) -> None:
    with pytest.raises(QueryError, match="split"):
        RealtimeFileSplit.from_json(text)


@pytest.mark.parametrize("marker", [["x"], "x", [], 7, [1, 2]])
@pytest.mark.parametrize("name", ["ordering_fields", "delete_marker"])
def test_a_damaged_rule_is_an_error_or_a_rule(tmp_path: Path, name: str, marker: Any) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.log_file(at(1), [table.data_block(at(1), [])])
    table.commit(at(1))
    document = json.loads(table.open().splits()[0].to_json())
    document["split"]["context"]["merge_rule"][name] = marker
    with suppress(QueryError):
        assert RealtimeFileSplit.from_json(json.dumps(document)).context.merge_rule is not None


def test_another_format_is_named() -> None:
    with pytest.raises(QueryError, match="format 2"):
        RealtimeFileSplit.from_json('{"format": 2, "split": {}}')


@pytest.mark.parametrize(
    ("instant", "counts"), [("005", True), ("006", False), ("001", True), ("002", False), ("009", False)]
)
def test_instants_that_count(tmp_path: Path, instant: str, counts: bool) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.log_file(at(1), [table.data_block(at(1), [])])
    table.commit(at(1))
    context = replace(
        table.open().splits()[0].context,
        committed_instants=frozenset({"005"}),
        pending_instants=frozenset({"002", "006"}),
        timeline_start="004",
    )
    assert context.is_committed(instant) is counts
