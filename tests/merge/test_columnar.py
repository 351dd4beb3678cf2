"""A base file's rows against surviving log records, by hand."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hudi_bridge.merge.arrays import Column
from hudi_bridge.merge.columnar import FileSliceMerger, KeyMatches, joined, no_matches
from hudi_bridge.merge.record_map import build_record_map, data_records, delete_records
from hudi_bridge.merge.rules import (
    COMMIT_TIME,
    DEFAULT_PAYLOAD,
    EVENT_TIME,
    OVERWRITE_LATEST,
    PAYLOAD_OF_11,
    FieldFill,
    MergeRule,
    Precedence,
)

TYPES: dict[str, pa.DataType] = {
    "_hoodie_commit_time": pa.string(),
    "_hoodie_record_key": pa.string(),
    "ts": pa.int64(),
    "a": pa.string(),
    "b": pa.string(),
}
SCHEMA = pa.schema(TYPES)
Row = tuple[Any, ...]


def rule(precedence: Precedence, **changes: Any) -> MergeRule:
    return MergeRule(precedence=precedence, ordering_fields=("ts",), **changes)


def batch_of(rows: Sequence[Row], commit: str) -> pa.RecordBatch:
    named = [dict(zip(SCHEMA.names, (commit, *row), strict=False)) for row in rows]
    return pa.RecordBatch.from_pylist(named, SCHEMA)


def ordering_of(merge_rule: MergeRule, base: pa.RecordBatch) -> list[Column]:
    return [base.column("ts")] if merge_rule.orders_base else []


def merged(
    merge_rule: MergeRule,
    base: Sequence[Row],
    upserts: Sequence[Row] = (),
    deletes: Sequence[tuple[str, int | None]] = (),
    *,
    batches: int = 1,
) -> list[Row]:
    """The rows of a slice (key, ts, a, b), with the base given in some batches."""
    of_log = batch_of(upserts, "log")
    blocks = [data_records(of_log, of_log.column("_hoodie_record_key"), merge_rule)]
    values: Any = pa.array([value for _, value in deletes], pa.int64())
    blocks.append(
        delete_records(
            pa.array([key for key, _ in deletes], pa.string()),
            (values,) if merge_rule.uses_ordering else (),
            np.array([value is None for _, value in deletes], dtype=np.bool_),
        )
    )
    merge = FileSliceMerger(build_record_map(blocks, merge_rule, SCHEMA, {}), merge_rule, {})
    out = []
    for piece in (batch_of(base[start::batches], "base") for start in range(batches)):
        matches = merge.match(piece.column("_hoodie_record_key"), ordering_of(merge_rule, piece))
        keep = np.ones(piece.num_rows, dtype=np.bool_)
        keep[merge.superseded(matches)] = False
        out.append(piece.filter(pa.array(keep)))
        if merge.merges_rows:
            out.append(merge.merged_rows(piece.take(matches.rows), matches))
    table = pa.concat_tables([pa.Table.from_batches(out, SCHEMA), merge.remaining_log_rows()])
    assert table.column("_hoodie_record_key").null_count == 0
    return sorted((tuple(row.values())[1:] for row in table.to_pylist()), key=str)


def test_rows_that_no_log_touches_pass() -> None:
    assert merged(rule(EVENT_TIME), [("k", 1, "x", "y")]) == [("k", 1, "x", "y")]


def test_logs_without_a_base_row_are_inserts_and_their_deletes_nothing() -> None:
    assert merged(rule(EVENT_TIME), [], [("k", 1, "x", "y")], [("d", 1), ("e", None)]) == [("k", 1, "x", "y")]


def test_the_higher_ordering_wins_over_the_base_and_the_log_if_equal() -> None:
    base = [("low", 1, "base", ""), ("same", 2, "base", ""), ("high", 3, "base", "")]
    log = [(key, 2, "log", "") for key in ("low", "same", "high")]
    for kind in (EVENT_TIME, DEFAULT_PAYLOAD, PAYLOAD_OF_11):
        assert merged(rule(kind), base, log) == [("high", 3, "base", ""), ("low", 2, "log", ""), ("same", 2, "log", "")]
    for kind in (COMMIT_TIME, OVERWRITE_LATEST):
        assert merged(rule(kind), base, log) == [("high", 2, "log", ""), ("low", 2, "log", ""), ("same", 2, "log", "")]


def test_a_late_delete_counts_in_all_rules_but_event_time() -> None:
    base = [("k", 3, "base", "")]
    assert merged(rule(EVENT_TIME), base, deletes=[("k", 2)]) == base
    assert merged(rule(EVENT_TIME), base, deletes=[("k", 3)]) == []
    assert merged(rule(EVENT_TIME), base, deletes=[("k", None)]) == []
    for kind in (COMMIT_TIME, OVERWRITE_LATEST, DEFAULT_PAYLOAD, PAYLOAD_OF_11):
        assert merged(rule(kind), base, deletes=[("k", 2)]) == []


def test_a_key_that_a_base_file_holds_twice_is_merged_at_its_first_row() -> None:
    base = [("k", 1, "first", ""), ("l", 1, "l", ""), ("k", 1, "second", ""), ("k", 1, "third", "")]
    expected = [("k", 1, "second", ""), ("k", 1, "third", ""), ("k", 2, "log", ""), ("l", 1, "l", "")]
    assert merged(rule(EVENT_TIME), base, [("k", 2, "log", "")]) == expected
    assert merged(rule(EVENT_TIME), base, deletes=[("k", 2)]) == [row for row in expected if row[2] != "log"]
    fills = rule(EVENT_TIME, fill=FieldFill.NULLS)
    with_fill = [("k", 1, "second", ""), ("k", 1, "third", ""), ("k", 2, "log", ""), ("l", 1, "l", "")]
    assert merged(fills, base, [("k", 2, "log", None)]) == with_fill


def test_a_key_in_two_batches_of_the_base_is_merged_once() -> None:
    base = [("k", 1, "first", ""), ("k", 1, "second", "")]
    assert merged(rule(EVENT_TIME), base, [("k", 2, "log", "")], batches=2) == [
        ("k", 1, "second", ""),
        ("k", 2, "log", ""),
    ]


def test_the_loser_fills_the_fields_that_the_winner_lacks() -> None:
    fills = rule(EVENT_TIME, fill=FieldFill.NULLS)
    assert merged(fills, [("k", 1, "a", "b")], [("k", 2, None, "new")]) == [("k", 2, "a", "new")]
    assert merged(fills, [("k", 3, None, "b")], [("k", 2, "late", "late")]) == [("k", 3, "late", "b")]
    assert merged(fills, [], [("k", 2, None, "new")]) == [("k", 2, None, "new")]


def test_a_base_row_that_wins_keeps_its_unavailable_value() -> None:
    fills = rule(DEFAULT_PAYLOAD, fill=FieldFill.UNAVAILABLE)
    unavailable = fills.unavailable_value
    assert merged(fills, [("k", 3, unavailable, "b")], [("k", 2, "late", "late")]) == [("k", 3, unavailable, "b")]
    assert merged(fills, [("k", 1, "a", "b")], [("k", 2, unavailable, "new")]) == [("k", 2, "a", "new")]
    by_mode = rule(EVENT_TIME, fill=FieldFill.UNAVAILABLE_TEXTS)
    assert merged(by_mode, [("k", 3, unavailable, "b")], [("k", 2, "late", "late")]) == [("k", 3, "late", "b")]


def test_deletes_are_not_merged_field_by_field() -> None:
    fills = rule(EVENT_TIME, fill=FieldFill.NULLS)
    base = [("k", 3, None, "b"), ("l", 1, None, "b")]
    assert merged(fills, base, [("m", 1, "m", "m")], deletes=[("k", 2), ("l", 2)]) == [
        ("k", 3, None, "b"),
        ("m", 1, "m", "m"),
    ]


def test_a_delete_that_loses_where_no_row_survived() -> None:
    fills = rule(EVENT_TIME, fill=FieldFill.NULLS)
    base = [("k", 10, "a", "b")]
    assert merged(fills, base, [("k", 3, None, "x")], deletes=[("k", 5)]) == base


def test_meta_columns_may_follow_the_log_even_if_it_loses() -> None:
    base = batch_of([("k", 3, "a", "b")], "base")
    for newest_meta, commit in ((True, "log"), (False, "base")):
        fills = rule(DEFAULT_PAYLOAD, fill=FieldFill.NULLS, newest_meta=newest_meta)
        of_log = batch_of([("k", 2, "late", "late")], "log")
        block = data_records(of_log, of_log.column("_hoodie_record_key"), fills)
        merge = FileSliceMerger(build_record_map([block], fills, SCHEMA, {}), fills, {})
        matches = merge.match(base.column("_hoodie_record_key"), ordering_of(fills, base))
        assert merge.merged_rows(base, matches).to_pylist() == [
            dict(zip(SCHEMA.names, (commit, "k", 3, "a", "b"), strict=True))
        ]


def test_matches_are_cut_and_joined_by_base_rows() -> None:
    matches = KeyMatches(
        base_rows=6, rows=np.array([1, 4, 5]), records=np.array([7, 8, 9]), log_wins=np.array([True, False, True])
    )
    cut = matches.between(4, 5)
    assert (cut.base_rows, cut.rows.tolist(), cut.records.tolist(), cut.log_wins.tolist()) == (1, [0], [8], [False])
    assert len(matches.between(2, 4).rows) == 0
    again = joined([no_matches(), *(matches.between(start, start + 2) for start in (0, 2, 4))])
    assert again.base_rows == matches.base_rows
    for name in ("rows", "records", "log_wins"):
        assert getattr(again, name).tolist() == getattr(matches, name).tolist()
