"""The survivors of a few blocks, by hand."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.merge.record_map import (
    LogRecordMap,
    LogRecords,
    _numbered,
    build_record_map,
    data_records,
    delete_records,
)
from hudi_bridge.merge.rules import (
    COMMIT_TIME,
    DEFAULT_PAYLOAD,
    EVENT_TIME,
    OVERWRITE_LATEST,
    FieldFill,
    MergeRule,
    Precedence,
)
from tests.support.strength import examples

TYPES: dict[str, pa.DataType] = {
    "_hoodie_record_key": pa.string(),
    "ts": pa.int64(),
    "a": pa.string(),
    "b": pa.string(),
}
SCHEMA = pa.schema(TYPES)


def schema_with(**columns: pa.DataType) -> pa.Schema:
    """The key, and some columns."""
    return pa.schema({"_hoodie_record_key": pa.string()} | columns)


def rule(precedence: Precedence, **changes: Any) -> MergeRule:
    return MergeRule(precedence=precedence, ordering_fields=("ts",), **changes)


def upserts(
    merge_rule: MergeRule, *rows: tuple[Any, ...], absent: Sequence[str] = (), schema: pa.Schema = SCHEMA
) -> LogRecords:
    """A data block of rows (key, ts, a, b, ...)."""
    batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=False)) for row in rows], schema)
    return data_records(batch, batch.column(0), merge_rule, absent=frozenset(absent))


def deletes(merge_rule: MergeRule, *records: tuple[str, int | None]) -> LogRecords:
    """A delete block of keys with ordering values, None for none."""
    values: Any = pa.array([value for _, value in records], pa.int64())
    return delete_records(
        pa.array([key for key, _ in records], pa.string()),
        (values,) if merge_rule.uses_ordering else (),
        np.array([value is None for _, value in records], dtype=np.bool_),
    )


def survivors(merge_rule: MergeRule, *blocks: LogRecords) -> LogRecordMap:
    return build_record_map(blocks, merge_rule, SCHEMA, {})


def rows_of(found: LogRecordMap) -> dict[str, tuple[Any, ...]]:
    """For each key its row without the key; () for a delete."""
    assert len(found) == len(found.keys) == len(found.is_delete) == len(found.marked) == len(found.always_deletes)
    rows = [tuple(row.values())[1:] for row in found.rows.to_pylist()]
    assert found.keys.slice(0, len(rows)).to_pylist() == found.rows.column(0).to_pylist()
    keys: list[Any] = found.keys.to_pylist()
    return dict(zip(keys, [*rows, *[()] * (len(found) - len(rows))], strict=True))


def test_blocks_without_repeated_keys_pass_as_they_are() -> None:
    event_time = rule(EVENT_TIME)
    actual = survivors(event_time, upserts(event_time, ("k", 1, "x")), upserts(event_time, ("l", 0, "y")))
    assert rows_of(actual) == {"k": (1, "x", None), "l": (0, "y", None)}
    assert not actual.is_delete.any()


def test_no_blocks_have_no_survivors() -> None:
    actual = survivors(rule(EVENT_TIME))
    assert rows_of(actual) == {}
    assert actual.rows.schema == SCHEMA


def test_the_higher_ordering_survives_and_the_later_of_equals() -> None:
    event_time = rule(EVENT_TIME)
    actual = survivors(
        event_time,
        upserts(event_time, ("k", 2, "first"), ("l", 2, "first")),
        upserts(event_time, ("k", 1, "late"), ("l", 2, "second")),
    )
    assert rows_of(actual) == {"k": (2, "first", None), "l": (2, "second", None)}


def test_commit_time_asks_for_no_ordering() -> None:
    commit_time = rule(COMMIT_TIME)
    actual = survivors(commit_time, upserts(commit_time, ("k", 2, "first")), upserts(commit_time, ("k", 1, "late")))
    assert rows_of(actual) == {"k": (1, "late", None)}
    assert actual.ordering == ()


def test_deletes_come_after_the_rows() -> None:
    event_time = rule(EVENT_TIME)
    actual = survivors(
        event_time, deletes(event_time, ("d", 4), ("e", None)), upserts(event_time, ("k", 1, "x"), ("d", 3, "late"))
    )
    assert rows_of(actual) == {"k": (1, "x", None), "d": (), "e": ()}
    assert actual.is_delete.tolist() == [False, True, True]
    assert actual.ordering[0].to_pylist() == [1, 4, None]
    assert actual.always_deletes.tolist() == [False, False, True]


def test_a_flagged_row_is_a_delete() -> None:
    schema = schema_with(ts=pa.int64(), _hoodie_is_deleted=pa.bool_())
    event_time = rule(EVENT_TIME)
    block = upserts(event_time, ("k", 1, True), ("l", 1, None), ("m", 1, False), schema=schema)
    actual = build_record_map([block], event_time, schema, {})
    assert dict(zip(actual.keys.to_pylist(), actual.is_delete.tolist(), strict=True)) == {
        "k": True,
        "l": False,
        "m": False,
    }


def test_operations_that_delete() -> None:
    schema = schema_with(ts=pa.int64(), _hoodie_operation=pa.string())
    event_time = rule(EVENT_TIME)
    block = upserts(
        event_time, ("i", 1, "I"), ("b", 1, "-U"), ("u", 1, "U"), ("d", 1, "D"), ("n", 1, None), schema=schema
    )
    actual = build_record_map([block], event_time, schema, {})
    assert actual.rows.column(0).to_pylist() == ["i", "u", "n"]


def test_a_marked_row_folds_as_a_delete_in_1x_and_as_a_row_in_0x() -> None:
    blocks = (("k", 5, "gone"),), (("k", 3, "late"),)
    newer = rule(EVENT_TIME, delete_marker=("a", "gone"))
    assert rows_of(survivors(newer, *(upserts(newer, *rows) for rows in blocks))) == {"k": ()}
    older = rule(DEFAULT_PAYLOAD, delete_marker=("a", "gone"))
    actual = survivors(older, *(upserts(older, *rows) for rows in blocks))
    assert rows_of(actual) == {"k": ()}
    assert actual.marked.tolist() == [True]
    revived = survivors(older, upserts(older, ("k", 3, "gone")), upserts(older, ("k", 4, "back")))
    assert rows_of(revived) == {"k": (4, "back", None)}


def test_an_int_zero_is_the_default_ordering_of_a_delete_and_a_long_zero_is_none() -> None:
    for kind, always in ((pa.int32(), True), (pa.int64(), False)):
        schema = schema_with(ts=kind, _hoodie_is_deleted=pa.bool_())
        block = upserts(rule(EVENT_TIME), ("k", 0, True), ("l", None, True), ("m", 0, False), schema=schema)
        assert block.always_deletes.tolist() == [always, True, False]


def test_a_partial_update_leaves_fields_to_older_versions() -> None:
    event_time = rule(EVENT_TIME)
    actual = survivors(
        event_time,
        upserts(event_time, ("k", 1, "old", "kept"), ("l", 9, "high", None)),
        upserts(event_time, ("k", 2, "new", None), ("l", 1, "late", None), absent=["b"]),
    )
    assert rows_of(actual) == {"k": (2, "new", "kept"), "l": (9, "high", None)}
    assert {name: unset.tolist() for name, unset in actual.unset.items()} == {"b": [False, False]}


def test_a_partial_update_without_an_older_version_still_lacks_its_fields() -> None:
    event_time = rule(EVENT_TIME)
    actual = survivors(event_time, upserts(event_time, ("k", 2, "new", None), absent=["b"]))
    assert rows_of(actual) == {"k": (2, "new", None)}
    assert actual.unset["b"].tolist() == [True]


def test_nulls_are_filled_from_older_versions_but_not_across_a_delete() -> None:
    partial = rule(DEFAULT_PAYLOAD, fill=FieldFill.NULLS)
    actual = survivors(
        partial,
        upserts(partial, ("k", 1, "a1", "b1"), ("l", 1, "a1", "b1")),
        deletes(partial, ("l", 1)),
        upserts(partial, ("k", 2, None, "b2"), ("l", 2, None, "b2")),
    )
    assert rows_of(actual) == {"k": (2, "a1", "b2"), "l": (2, None, "b2")}
    assert actual.unset["a"].tolist() == [False, True]


def test_defaults_count_as_lacking_only_where_they_are_stated() -> None:
    partial = rule(COMMIT_TIME, fill=FieldFill.DEFAULTS)
    blocks = [upserts(partial, ("k", 1, "a1", "b1")), upserts(partial, ("k", 2, "-", "-"))]
    actual = build_record_map(blocks, partial, SCHEMA, {"b": pa.scalar("-")})
    assert rows_of(actual) == {"k": (2, "-", "b1")}


def test_a_log_version_that_wins_keeps_its_unavailable_value() -> None:
    fills = rule(EVENT_TIME, fill=FieldFill.UNAVAILABLE)
    unavailable = fills.unavailable_value
    late = survivors(fills, upserts(fills, ("k", 2, unavailable, "b2")), upserts(fills, ("k", 1, "late", "b1")))
    assert rows_of(late) == {"k": (2, unavailable, "b2")}
    assert late.unset["a"].tolist() == [True]
    newer = survivors(fills, upserts(fills, ("k", 1, "a1", "b1")), upserts(fills, ("k", 2, unavailable, "b2")))
    assert rows_of(newer) == {"k": (2, "a1", "b2")}


def test_rules_that_fill_from_the_base_alone_leave_log_versions_unmerged() -> None:
    partial = rule(OVERWRITE_LATEST, fill=FieldFill.DEFAULTS, fills_in_logs=False)
    actual = survivors(partial, upserts(partial, ("k", 1, "a1", "b1")), upserts(partial, ("k", 2, None, "b2")))
    assert rows_of(actual) == {"k": (2, None, "b2")}
    assert actual.unset["a"].tolist() == [True]


def test_in_0x_only_d_deletes_and_only_once_it_has_survived() -> None:
    schema = schema_with(ts=pa.int64(), _hoodie_operation=pa.string())
    for precedence in (DEFAULT_PAYLOAD, OVERWRITE_LATEST):
        older = rule(precedence)
        first = upserts(older, ("late", 5, "D"), ("back", 5, "D"), ("b", 5, "U"), schema=schema)
        second = upserts(older, ("late", 3, "U"), ("back", 6, "I"), ("b", 6, "-U"), schema=schema)
        actual = build_record_map([first, second], older, schema, {})
        assert dict(zip(actual.keys.to_pylist(), actual.is_delete.tolist(), strict=True)) == {
            "late": True,
            "back": False,
            "b": False,
        }
        assert actual.marked.tolist() == [False, False, True]


def placed(records: LogRecords, *positions: int) -> LogRecords:
    """The same block, with the positions of its records in the base file."""
    return replace(records, base_positions=np.array(positions))


def test_records_of_one_position_are_versions_of_one_record() -> None:
    event_time = rule(EVENT_TIME)
    blocks = [
        placed(upserts(event_time, ("a", 5, "x"), ("a", 5, "x"), ("b", 1, "x")), 0, 2, 3),
        placed(upserts(event_time, ("a", 4, "late"), ("a", 6, "newer")), 0, 2),
        placed(deletes(event_time, ("b", 2)), 3),
    ]
    actual = build_record_map(blocks, event_time, SCHEMA, {}, by_position=True)
    assert actual.keys.to_pylist() == ["a", "a", "b"]
    assert actual.rows["a"].to_pylist() == ["x", "newer"]
    assert actual.base_positions is not None
    assert actual.base_positions.tolist() == [0, 2, 3]


def test_where_a_block_has_no_positions_one_position_of_each_key_counts() -> None:
    event_time = rule(EVENT_TIME, fill=FieldFill.NULLS)
    # What came at position 0 is left out: Hudi goes on with the versions of position 2 alone.
    blocks = [
        placed(upserts(event_time, ("a", 9, "gone", "gone"), ("a", 5, "x"), ("b", 1, "x")), 0, 2, 3),
        upserts(event_time, ("a", 6, None, "y")),
    ]
    for by_position in (False, True):
        actual = build_record_map(blocks, event_time, SCHEMA, {}, by_position=by_position)
        assert actual.base_positions is None
        assert dict(zip(actual.keys.to_pylist(), actual.rows.to_pylist(), strict=True)) == {
            "a": {"_hoodie_record_key": "a", "ts": 6, "a": "x", "b": "y"},
            "b": {"_hoodie_record_key": "b", "ts": 1, "a": "x", "b": None},
        }


@settings(max_examples=examples(80), deadline=None)
@given(
    numbers=st.lists(st.integers(0, 40), max_size=30) | st.lists(st.integers(0, 10**6), max_size=30),
    ascend=st.booleans(),
)
def test_records_are_numbered_as_they_appear(numbers: list[int], *, ascend: bool) -> None:
    numbers = sorted(set(numbers)) if ascend else numbers
    appeared = list(dict.fromkeys(numbers))
    expected = [appeared.index(number) for number in numbers], len(appeared)
    for values, positions in (
        (pa.array([f"{number:07}" for number in numbers], pa.string()), None),
        (pa.array(numbers, pa.int64()), np.array(numbers, np.int64)),
    ):
        codes, records = _numbered(values, positions)
        assert (codes.tolist(), records) == expected
