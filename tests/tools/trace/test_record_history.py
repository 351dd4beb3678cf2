"""The story of a record, held against snapshots of the same tables and against the rules themselves."""

import base64
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyroaring import BitMap64

from hudi_bridge import HudiTable, QueryError, QueryType, tools
from hudi_bridge.logformat.layout import BlockType, HeaderKey
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge import ordering
from hudi_bridge.merge.custom_payload import RecordPayload, Row
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_file import BaseFileColumns
from hudi_bridge.readers.split_columns import record_keys
from hudi_bridge.tools.trace.key_search import BaseCheck
from hudi_bridge.tools.trace.record_trace import FileGroupHistory, RecordHistory, history_schema
from hudi_bridge.tools.trace.verdicts import RecordVersion
from tests.logformat.log_writer import log_block
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at

STORIES = (
    "b_commit_time_120",
    "b_default_payload_0150",
    "b_delete_marker_0150",
    "b_delete_marker_120",
    "b_event_time_120",
    "b_event_time_decimal_120",
    "b_event_time_timestamp_120",
    "b_event_time_v6_by120",
    "b_multi_ordering_120",
    "b_no_ordering_120",
    "b_null_ordering_int_120",
    "b_overwrite_latest_0150",
    "b_partial_update_payload_0150",
    "b_postgres_debezium_120",
    "b_sql_partial_120",
)
"""Tables whose keys are all asked for."""
SAMPLED = (
    "a_story_v5_0122",
    "c_corrupt_middle_0150",
    "c_hfile_blocks_0150",
    "c_inflight_middle_0150",
    "c_many_blocks_120",
    "c_parquet_blocks_120",
    "c_rollback_120",
    "c_rollback_block_0150",
    "d_clustering_done_120",
    "d_log_compaction_0150",
    "d_log_only_pending_120",
    "d_pending_compaction_120",
    "e_composite_keys_120",
    "e_drop_part_cols_120",
    "e_odd_keys_120",
    "e_virtual_keys_0150",
    "e_virtual_keys_120",
    "f_types_120",
    "g_sor_rename_120",
    "i_all_deleted_120",
    "i_cow_120",
)
KEYS_OF_SAMPLE = 6
OPTIONS = {"b_delete_marker_0150": {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}}


class Numbered(RecordPayload):
    """Adds up values, and has a record disappear where they come to nothing."""

    def pre_combine(self, older: Row, newer: Row) -> Row:
        return {**newer, "value": str(int(older["value"]) + int(newer["value"]))}

    def combine_and_get_update_value(self, current: Row, incoming: Row) -> Row | None:
        total = int(current["value"]) + int(incoming["value"])
        return {**incoming, "value": str(total)} if total else None


def open_golden(case: str) -> HudiTable:
    return HudiTable.open(str(golden_table(case)), options=OPTIONS.get(case))


def keys_by_row(table: HudiTable, as_of: str | None = None) -> tuple[pa.Table, list[str]]:
    rows = table.snapshot(as_of).to_table().combine_chunks()
    context = table.planner(as_of).context(QueryType.SNAPSHOT)
    batches = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]
    return rows, [str(key) for key in record_keys(batches[0], context).to_pylist()]


def check_story(
    table: HudiTable, key: str, rows: pa.Table, keys: Sequence[str], as_of: str | None = None
) -> RecordHistory:
    history = tools.history_of(table, key, as_of=as_of)
    expected = rows.filter(pa.array([item == key for item in keys], pa.bool_()))
    assert differences(expected, history.result) == []
    rule = table.planner(as_of).context(QueryType.SNAPSHOT).merge_rule
    for group in history.file_groups:
        check_sources(group)
        if rule is not None:
            check_replay(group, rule)
    facts = history.to_table()
    assert facts.schema == history_schema(history.schema)
    assert pc.sum(facts["counts"]).as_py() == sum(len(group.versions) for group in history.file_groups) or not len(
        facts
    )
    return history


def check_sources(group: FileGroupHistory) -> None:
    """Each value of the resulting row stands in the version that it is said to come from."""
    assert bool(group.sources) == bool(group.result.num_rows)
    for name, number in group.sources:
        assert differences(group.result.select([name]), group.versions[number - 1].row.select([name])) == []


def check_replay(group: FileGroupHistory, rule: MergeRule) -> None:
    """The rules, one record at a time, come to the stated winner."""
    base = [version for version in group.versions if version.is_base_row]
    log = [version for version in group.versions if not version.is_base_row]
    if not log:
        assert group.winner == (1 if base else None)
        assert group.verdicts == ()
        return
    winner = ordering.survivor(rule.precedence.in_logs, [as_plain(version, rule) for version in log])
    number = len(base) + winner + 1
    assert len(group.verdicts) == len(log) - 1 + len(base)
    if base:
        survivor = as_plain(log[winner], rule)
        kind = ordering.DELETE if survivor[1] == ordering.MARKED else survivor[1]
        values = plain_values(base[0], rule)
        wins = ordering.log_replaces_base(rule.precedence.over_base_row, values, (survivor[0], kind))
        assert (group.verdicts[-1].winner, group.verdicts[-1].loser) == ((number, 1) if wins else (1, number))
        number = number if wins else 1
    assert group.winner == number


def as_plain(version: RecordVersion, rule: MergeRule) -> ordering.Version:
    kind = ordering.what_is(is_delete=version.is_delete, always_deletes=version.always_deletes, marked=version.marked)
    return plain_values(version, rule), kind


def plain_values(version: RecordVersion, rule: MergeRule) -> tuple[object, ...]:
    return tuple(0 if value is None and rule.precedence.nulls_as_zero else value for value in version.ordering)


@pytest.mark.heavy
@pytest.mark.parametrize("case", one_in(11, STORIES))
def test_every_story_ends_in_the_row_of_the_snapshot(case: str) -> None:
    table = open_golden(case)
    rows, keys = keys_by_row(table)
    deleted = [form.format(number) for number in range(24) for form in ("k{}", "k{:02}", "k{:03}")]
    actual = [check_story(table, key, rows, keys) for key in sorted({*keys, *deleted})]
    assert sum(len(group.verdicts) for history in actual for group in history.file_groups) >= 3


@pytest.mark.parametrize("case", one_in(5, SAMPLED))
def test_some_stories_of_other_tables(case: str) -> None:
    table = open_golden(case)
    rows, keys = keys_by_row(table)
    sample = sorted(set(keys))
    for key in [*sample[:: len(sample) // KEYS_OF_SAMPLE + 1], "no such key"]:
        history = check_story(table, key, rows, keys)
        assert bool(history.file_groups) == (key in sample)


@pytest.mark.parametrize("case", one_in(2, ["a_story_v9_120", "c_rollback_block_0150", "g_sor_rename_0150"]))
def test_stories_as_of_an_instant(case: str) -> None:
    table = open_golden(case)
    for instant in [commit.requested_time for commit in table.timeline.commits()][:-1]:
        rows, keys = keys_by_row(table, instant)
        for key in sorted(set(keys))[::15]:
            assert check_story(table, key, rows, keys, instant).instant == instant


@pytest.mark.parametrize(
    ("case", "key", "reasons"),
    [
        ("b_event_time_120", "k00", ["lower ordering 5 than 10"]),
        ("b_event_time_120", "k01", ["later, equal ordering 10"]),
        ("b_event_time_120", "k02", ["higher ordering 20 than 10"]),
        ("b_event_time_120", "k04", ["lower ordering 5 than 10"]),
        ("b_event_time_120", "k07", ["delete without an ordering value"]),
        (
            "b_event_time_120",
            "k13",
            ["a row after a delete without an ordering value", "lower ordering 5 than 10"],
        ),
        ("b_event_time_120", "k10", ["lower ordering 15 than 20", "higher ordering 20 than 10"]),
        ("b_commit_time_120", "k00", ["commit-time ordering: the later one"]),
        ("b_no_ordering_120", "k00", ["commit-time ordering: the later one"]),
        ("b_default_payload_0150", "k04", ["a delete in the log, whatever its ordering"]),
        (
            "b_default_payload_0150",
            "k10",
            ["a row after a delete, whatever its ordering", "higher ordering 15 than 10"],
        ),
        ("b_overwrite_latest_0150", "k00", ["the log replaces the base row, whatever its ordering"]),
        ("b_stored_decimal_partial_0150", "k8", ["the log replaces the base row, whatever its ordering"]),
    ],
)
def test_reasons_name_the_rule(case: str, key: str, reasons: list[str]) -> None:
    (group,) = tools.history_of(open_golden(case), key).file_groups
    assert [verdict.reason for verdict in group.verdicts] == reasons


@pytest.mark.parametrize(
    ("kind", "newer", "late", "reason"),
    [
        ("string", "2", "1", "a delete, whatever its ordering"),
        ({"type": "int", "logicalType": "date"}, date(2026, 1, 2), date(2026, 1, 1), "a delete, whatever its ordering"),
        ("long", 2, 1, "lower ordering 1 than 2"),
        ("int", 2, 0, "delete without an ordering value"),
    ],
)
def test_deletes_that_0x_does_not_compare_are_named(
    tmp_path: Path, kind: object, newer: object, late: object, reason: str
) -> None:
    fields = (("id", "string"), ("ts", kind))
    table = TableWriter(folder=tmp_path / "table", version=6, fields=fields).create()
    blocks = [table.data_block(at(1), [{"id": "k", "ts": newer}]), table.delete_block(at(1), [("k", late)])]
    table.log_file(at(1), blocks)
    table.commit(at(1))
    (group,) = tools.history_of(table.open(), "k").file_groups
    assert [verdict.reason for verdict in group.verdicts] == [reason]


def test_versions_say_what_they_are(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("op", "string"), ("_hoodie_is_deleted", "boolean"))
    table = TableWriter(folder=tmp_path / "table", version=6, fields=fields).create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1}])
    table.commit(at(2))
    rows = [
        {"id": "k1", "ts": 2, "op": "U"},
        {"id": "k1", "ts": 3, "op": "U", "_hoodie_is_deleted": True},
        {"id": "k1", "ts": 4, "op": "D"},
    ]
    blocks = [table.data_block(at(2), rows), table.delete_block(at(2), [("k1", 4)])]
    table.log_file(at(2), blocks, base_instant=at(1))
    options = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    (group,) = tools.history_of(HudiTable.open(str(table.folder), options=options), "k1").file_groups
    assert [(version.kind, version.delete, version.block_number) for version in group.versions] == [
        ("base row", None, None),
        ("log row", None, 1),
        ("delete", "_hoodie_is_deleted", 1),
        ("delete", "op = D", 1),
        ("delete", "delete block", 2),
    ]
    assert (group.winner, group.result.num_rows) == (5, 0)


def test_a_row_with_a_delete_mark_wins_as_a_row_and_leaves_none(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("op", "string"))
    options = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    table = TableWriter(folder=tmp_path / "table", version=6, fields=fields, options=options).create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 9}, {"id": "k2", "ts": 1}])
    table.commit(at(2))
    rows = [{"id": "k1", "ts": 5, "op": "D"}, {"id": "k2", "ts": 5, "op": "D"}]
    table.log_file(at(2), [table.data_block(at(2), rows)], base_instant=at(1))
    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    opened = HudiTable.open(str(table.folder), options=marker)
    snapshot, keys = keys_by_row(opened)
    assert keys == ["k1"]
    (lost,) = check_story(opened, "k1", snapshot, keys).file_groups
    assert lost.verdict_texts(2) == ("loses to 1: lower ordering 5 than 9",)
    (won,) = check_story(opened, "k2", snapshot, keys).file_groups
    assert won.verdict_texts(2) == ("replaces 1: higher ordering 5 than 1",)


def test_versions_name_the_block_that_holds_them() -> None:
    table = open_golden("c_many_blocks_0150")
    (group,) = tools.history_of(table, "k00004").file_groups
    (version,) = [item for item in group.versions if not item.is_base_row][-1:]
    content = (golden_table("c_many_blocks_0150") / version.path).read_bytes()
    assert version.offset is not None
    assert version.block_number is not None
    assert content[version.offset : version.offset + 6] == b"#HUDI#"
    assert content[: version.offset].count(b"#HUDI#") == version.block_number - 1
    end = content.find(b"#HUDI#", version.offset + 6)
    assert b"k00004" in content[version.offset : end]


def test_fields_come_from_the_versions_named() -> None:
    (group,) = tools.history_of(open_golden("b_partial_update_payload_0150"), "k1").file_groups
    by_log, by_base = group.verdicts
    assert (by_log.winner, by_log.loser, by_log.reason) == (2, 3, "lower ordering 9 than 11")
    assert by_log.filled == ("a", "c")
    assert (by_base.winner, by_base.loser, by_base.filled) == (2, 1, ("d",))
    assert {name: number for name, number in group.sources if name in "abcd"} == {"a": 3, "b": 2, "c": 3, "d": 1}
    assert group.verdict_texts(3) == ("loses to 2: lower ordering 9 than 11; but a, c from it",)
    assert group.verdict_texts(2) == ("replaces 1: higher ordering 11 than 10; d from 1",)


def test_a_partial_update_takes_what_it_left_out_from_the_base_row() -> None:
    table = open_golden("b_sql_partial_120")
    before_compaction = table.timeline.commits()[3].requested_time
    rows, keys = keys_by_row(table, before_compaction)
    stories = [check_story(table, key, rows, keys, before_compaction) for key in keys]
    partial = [
        group
        for story in stories
        for group in story.file_groups
        if any(version.kind == "partial update" for version in group.versions)
    ]
    assert len(partial) == 5
    assert sum(len(set(dict(group.sources).values())) > 1 for group in partial) >= 3
    for group in partial:
        sources = dict(group.sources)
        for number, version in enumerate(group.versions, start=1):
            assert version.absent.isdisjoint(name for name, source in sources.items() if source == number)


@pytest.mark.parametrize("case", ["h_bloom_footer_0150", "h_bloom_footer_120"])
def test_footers_keep_base_files_from_being_read(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    stored_batches = BaseFileColumns.stored_batches

    def spied(columns: BaseFileColumns, row_group: int, *arguments: Any, **named: Any) -> object:
        read.add(columns._base.path)
        return stored_batches(columns, row_group, *arguments, **named)

    monkeypatch.setattr(BaseFileColumns, "stored_batches", spied)
    table = open_golden(case)
    history = tools.history_of(table, "k00610")
    assert len(history.searched_file_groups) == 18
    assert len(read) == 1
    checks = [group.base_check for group in history.searched_file_groups]
    assert checks.count(BaseCheck.READ) == 1
    assert checks.count(BaseCheck.BLOOM_FILTER) >= 1
    assert checks.count(BaseCheck.KEY_RANGE) >= 12
    read.clear()
    nowhere = tools.history_of(table, "k00610x")
    assert read == set()
    assert nowhere.file_groups == ()
    assert nowhere.result.num_rows == 0


def reasons_of(case: str, as_of: str | None = None, every: int = 1) -> dict[str, list[str]]:
    """What is said of the versions that do not count, by key, of all keys or of every so many."""
    table = open_golden(case)
    _, keys = keys_by_row(table)
    actual = {}
    for key in sorted(set(keys))[::every]:
        history = tools.history_of(table, key, as_of=as_of)
        said = [uncounted.reason for group in history.file_groups for uncounted in group.uncounted]
        if said:
            actual[key] = said
    return actual


def test_versions_that_were_rolled_back_are_told() -> None:
    said = reasons_of("c_rollback_block_0150")
    assert len(said) >= 5
    reasons = {reason for of_key in said.values() for reason in of_key}
    assert reasons == {"rolled back by 20261121134927545", "rolled back by 20261121134931917"}


@pytest.mark.parametrize(
    "case", one_in(2, ["c_inflight_middle_0150", "c_inflight_middle_120", "c_inflight_leftover_0150"])
)
def test_versions_of_an_unfinished_commit_are_told(case: str) -> None:
    said = reasons_of(case)
    assert len(said) >= 5
    assert {reason for of_key in said.values() for reason in of_key} == {"uncommitted: its commit is pending"}


@pytest.mark.parametrize("case", ["a_story_v6_0150", "a_story_v9_120"])
def test_versions_after_the_instant_are_told(case: str) -> None:
    commits = [commit.requested_time for commit in open_golden(case).timeline.commits()]
    said = reasons_of(case, commits[1], every=6)
    assert f"later than {commits[1]}" in {reason for of_key in said.values() for reason in of_key}
    assert reasons_of(case, every=6) == {}


def test_versions_that_a_log_compaction_replaced_are_told() -> None:
    said = reasons_of("d_log_compaction_120")
    assert {reason for of_key in said.values() for reason in of_key} == {"replaced by the block of a log compaction"}


def test_corrupt_blocks_may_have_held_the_record() -> None:
    for group in tools.history_of(open_golden("c_corrupt_middle_0150"), "k00003").file_groups:
        (place,) = group.unreadable
        assert place.offset is not None
        assert place.offset > 0
        assert "trailing length" in place.reason or "ends at byte" in place.reason


def test_a_key_that_only_an_unfinished_commit_wrote_is_found_without_a_row(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1, "value": "a"}])
    table.pending(at(2))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "k2", "ts": 1, "value": "b"}])], file_id="f2-0")
    history = tools.history_of(table.open(), "k2")
    (group,) = history.file_groups
    assert (group.file_id, group.versions, group.winner) == ("f2-0", (), None)
    assert [uncounted.reason for uncounted in group.uncounted] == ["uncommitted: its commit is pending"]
    assert history.result.num_rows == 0
    (fact,) = history.to_table().to_pylist()
    assert (fact["counts"], fact["wins"], fact["number"], fact["ordering"]) == (False, False, None, "1")


def test_a_file_of_an_unfinished_commit_that_nobody_can_read_is_told(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1, "value": "a"}])
    table.pending(at(2))
    table.log_file(at(2), [b"no log file at all"])
    (group,) = tools.history_of(table.open(), "k1").file_groups
    (place,) = group.unreadable
    assert place.offset is None
    assert place.path.endswith(f".f1-0_{at(2)}.log.1_0-1-1")
    assert group.result["value"].to_pylist() == ["a"]


def test_a_block_of_an_unfinished_commit_that_cannot_be_decoded_is_told(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1, "value": "a"}])
    table.pending(at(2))
    broken = log_block(BlockType.AVRO_DATA, b"\0\0\0\3\0\0\0\1\0\0\0\2k1", {HeaderKey.INSTANT_TIME: at(2)})
    table.log_file(at(2), [broken])
    (group,) = tools.history_of(table.open(), "k1").file_groups
    (place,) = group.unreadable
    assert place.offset == 0
    assert place.reason.startswith("uncommitted: its commit is pending; ")


def test_a_key_in_several_partitions_has_several_stories(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("part", "string"))
    table = TableWriter(folder=tmp_path / "table", fields=fields, partition_fields=("part",)).create()
    table.commit(at(1))
    for part in ("a", "b"):
        rows = [{"id": "k1", "ts": 1, "part": part}]
        table.base_file(at(1), rows, file_id=f"{part}-0", partition=part)
    opened = table.open()
    both = tools.history_of(opened, "k1")
    assert [group.partition_path for group in both.file_groups] == ["a", "b"]
    assert both.result["part"].to_pylist() == ["a", "b"]
    one = tools.history_of(opened, "k1", partition_path="b/")
    assert [group.partition_path for group in one.searched_file_groups] == ["b"]
    assert one.result["part"].to_pylist() == ["b"]
    assert tools.history_of(opened, "k1", partition_path="c").searched_file_groups == ()


def test_the_log_meets_only_one_of_several_base_rows(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    rows = [
        {"id": "k1", "ts": 1, "value": "a"},
        {"id": "k0", "ts": 1, "value": "z"},
        {"id": "k1", "ts": 2, "value": "b"},
    ]
    table.base_file(at(1), rows, row_group_size=2)
    table.commit(at(2))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "k1", "ts": 3, "value": "c"}])])
    opened = table.open()
    snapshot, keys = keys_by_row(opened)
    history = tools.history_of(opened, "k1")
    (group,) = history.file_groups
    assert differences(snapshot.filter(pa.array([key == "k1" for key in keys])), history.result) == []
    assert set(history.result["value"].to_pylist()) == {"b", "c"}
    assert [(verdict.winner, verdict.loser) for verdict in group.verdicts] == [(3, 1)]
    texts = [group.verdict_texts(number) for number in (1, 2, 3)]
    assert texts == [(), ("no log version meets this row",), ("replaces 1: higher ordering 3 than 1",)]


def test_where_log_blocks_tell_places_the_log_meets_the_row_of_that_place(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    rows = [
        {"id": "k1", "ts": 1, "value": "a"},
        {"id": "k0", "ts": 1, "value": "z"},
        {"id": "k1", "ts": 2, "value": "b"},
    ]
    table.base_file(at(1), rows)
    table.commit(at(2))
    plain = table.data_block(at(2), [{"id": "k1", "ts": 3, "value": "c"}])
    table.log_file(at(2), [with_positions(plain, [2], at(1))])
    opened = table.open()
    snapshot, keys = keys_by_row(opened)
    history = tools.history_of(opened, "k1")
    (group,) = history.file_groups
    assert differences(snapshot.filter(pa.array([key == "k1" for key in keys])), history.result) == []
    assert set(history.result["value"].to_pylist()) == {"a", "c"}
    assert [(verdict.winner, verdict.loser) for verdict in group.verdicts] == [(3, 2)]
    assert group.verdict_texts(1) == ("no log version meets this row",)


def test_where_log_blocks_tell_places_each_row_of_a_key_has_versions_of_its_own(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    rows = [
        {"id": "k1", "ts": 5, "value": "a"},
        {"id": "k0", "ts": 1, "value": "z"},
        {"id": "k1", "ts": 1, "value": "b"},
    ]
    table.base_file(at(1), rows)
    for number, ts in ((2, 3), (3, 4)):
        table.commit(at(number))
        block = table.data_block(at(number), [{"id": "k1", "ts": ts, "value": f"c{number}"}] * 2)
        table.log_file(at(number), [with_positions(block, [0, 2], at(1))])
    opened = table.open()
    snapshot, keys = keys_by_row(opened)
    history = tools.history_of(opened, "k1")
    (group,) = history.file_groups
    assert differences(snapshot.filter(pa.array([key == "k1" for key in keys])), history.result) == []
    assert set(history.result["value"].to_pylist()) == {"a", "c3"}
    assert [(verdict.winner, verdict.loser) for verdict in group.verdicts] == [(5, 3), (1, 5), (6, 4), (6, 2)]
    assert group.winner == 1


def with_positions(block: bytes, positions: Sequence[int], base_instant: str) -> bytes:
    (parsed,) = scan_blocks(block, "test").blocks
    header = {
        **parsed.header,
        HeaderKey.RECORD_POSITIONS: base64.b64encode(BitMap64(positions).serialize()).decode(),
        HeaderKey.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: base_instant,
    }
    return log_block(parsed.block_type, parsed.content.to_pybytes(), header)


def test_keys_of_a_table_without_meta_columns_are_built_from_their_fields(tmp_path: Path) -> None:
    fields = (("id", "long"), ("ts", "long"))
    table = TableWriter(folder=tmp_path / "table", fields=fields, options={"hoodie.populate.meta.fields": "false"})
    table.create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": number, "ts": 1} for number in range(10)], row_group_size=4)
    table.commit(at(2))
    table.log_file(at(2), [table.data_block(at(2), [{"id": 7, "ts": 2}])])
    opened = table.open()
    (group,) = tools.history_of(opened, "7").file_groups
    assert group.result.to_pylist() == [{"id": 7, "ts": 2}]
    assert [version.commit_time for version in group.versions] == [None, None]
    for key, check in (("70", BaseCheck.KEY_RANGE), ("seven", BaseCheck.READ)):
        (searched,) = tools.history_of(opened, key).searched_file_groups
        assert (searched.holds_key, searched.base_check) == (False, check)


def test_a_delete_that_comes_with_an_ordering_value_after_one_without_loses(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 5, "value": "a"}])
    for number, value in ((2, None), (3, 9)):
        table.commit(at(number))
        table.log_file(at(number), [table.delete_block(at(number), [("k1", value)])])
    (group,) = tools.history_of(table.open(), "k1").file_groups
    assert [(verdict.winner, verdict.loser, verdict.reason) for verdict in group.verdicts] == [
        (2, 3, "delete with an ordering value after one without"),
        (2, 1, "delete without an ordering value"),
    ]
    assert (group.winner, group.result.num_rows, group.sources) == (2, 0, ())


def test_a_payload_of_ones_own_combines_versions(tmp_path: Path) -> None:
    options = {"hoodie.compaction.payload.class": "com.acme.Numbered", "hoodie.record.merge.mode": "CUSTOM"}
    table = TableWriter(folder=tmp_path / "table", options=options).create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": 1, "value": "1"}, {"id": "k2", "ts": 1, "value": "-5"}])
    for number in (2, 3):
        rows = [{"id": "k1", "ts": number, "value": "10"}, {"id": "k2", "ts": number, "value": str(number)}]
        table.commit(at(number))
        table.log_file(at(number), [table.data_block(at(number), rows)])
    opened = HudiTable.open(str(table.folder), payloads={"com.acme.Numbered": Numbered()})
    (combined,) = tools.history_of(opened, "k1").file_groups
    assert combined.result["value"].to_pylist() == ["21"]
    assert [verdict.reason for verdict in combined.verdicts] == ["combined by Numbered"] * 2
    (gone,) = tools.history_of(opened, "k2").file_groups
    assert (gone.result.num_rows, gone.sources) == (0, ())


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        ("string", ("b", "a"), "higher ordering b than a"),
        ("boolean", (True, True), "later, equal ordering true"),
        ("bytes", (b"\x0a", b"\x0b"), "lower ordering 0a than 0b"),
        ("double", (0.5, 0.25), "higher ordering 0.5 than 0.25"),
        ("long", (0, None), "later, equal ordering 0 and null"),
    ],
)
def test_ordering_values_of_many_types_are_shown(
    tmp_path: Path, kind: str, values: tuple[object, object], text: str
) -> None:
    later, earlier = values
    table = TableWriter(folder=tmp_path / "table", fields=(("id", "string"), ("ts", kind))).create()
    table.commit(at(1))
    table.base_file(at(1), [{"id": "k1", "ts": earlier}])
    table.commit(at(2))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "k1", "ts": later}])])
    (group,) = tools.history_of(table.open(), "k1").file_groups
    assert [verdict.reason for verdict in group.verdicts] == [text]


def test_facts_tell_the_story_row_by_row() -> None:
    facts = tools.history_of(open_golden("b_event_time_120"), "k13").to_table().to_pylist()
    assert [fact["number"] for fact in facts] == [1, 2, 3]
    assert [fact["wins"] for fact in facts] == [True, False, False]
    assert [fact["ordering"] for fact in facts] == ["10", "null", "5"]
    assert facts[2]["verdict"] == (
        "replaces 2: a row after a delete without an ordering value; loses to 1: lower ordering 5 than 10"
    )
    assert facts[0]["offset"] is None
    assert facts[1]["delete"] == "delete block"


def test_what_a_version_carries_is_found_out_once_for_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    history = tools.history_of(open_golden("b_event_time_120"), "k13")
    carried: Any = RecordVersion.carried
    asked = 0

    def counted(version: RecordVersion) -> Any:
        nonlocal asked
        asked += 1
        return carried.fget(version)

    monkeypatch.setattr(RecordVersion, "carried", property(counted))
    facts = history.to_table()
    # Once for the names of absent columns, and once for the values.
    assert asked <= 2 * facts.num_rows


def test_ordering_values_keep_their_types() -> None:
    (decimal,) = tools.history_of(open_golden("b_event_time_decimal_120"), "k02").file_groups
    (moment,) = tools.history_of(open_golden("b_event_time_timestamp_120"), "k02").file_groups
    assert {type(version.ordering[0]) for version in decimal.versions} == {Decimal}
    assert {type(version.ordering[0]) for version in moment.versions} == {datetime}


@pytest.mark.parametrize("arguments", [{"record_key": "\ud800"}, {"record_key": "a", "partition_path": "\udc80"}])
def test_what_is_no_text_is_refused(arguments: dict[str, str]) -> None:
    table = HudiTable.open(str(golden_table("a_story_v9_120")))
    with pytest.raises(QueryError, match="lone surrogates"):
        tools.history_of(table, **arguments)
