"""Slices of LSM trees, written by hand after Hudi's main branch: sorted files that are merged by record key."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import CorruptLogFileError, HudiTable, UnsupportedTableError
from hudi_bridge.config import QueryType
from hudi_bridge.engines import iter_log_blocks, slice_delta
from hudi_bridge.engines.log_blocks import log_record_keys
from hudi_bridge.errors import CorruptBaseFileError, CorruptTableError
from hudi_bridge.split_reader import open_reader
from hudi_bridge.splits.split import RealtimeFileSplit, in_order
from hudi_bridge.timeline.instant_range import ordering_time
from hudi_bridge.tools.checks.examination import examine_storage
from tests.support.compare import differences
from tests.support.counting_files import CountingFileSystem
from tests.support.lsm_tables import (
    ANSWERS,
    COMMIT_TIME,
    EVENT_TIME,
    LATER,
    ROWS,
    TWICE,
    opened,
    sort_file,
    started,
    values_of,
    written,
)
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at
from tests.support.version_10 import UNRELEASED

FLAGGED = (("id", "string"), ("ts", "long"), ("value", "string"), ("_hoodie_is_deleted", "boolean"))


@pytest.mark.parametrize("mode", ANSWERS)
def test_rows_are_merged_in_the_order_of_their_keys(tmp_path: Path, mode: str) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": mode}))
    rows = table.snapshot().to_table()
    assert values_of(rows) == ANSWERS[mode]
    assert rows["id"].to_pylist() == sorted(ANSWERS[mode])
    assert values_of(table.snapshot(at(1)).to_table()) == dict.fromkeys("bcdefg", "base")
    assert values_of(table.read_optimized().to_table()) == dict.fromkeys("bcdefg", "base")
    # A column alone: neither the record key nor the ordering field.
    assert table.snapshot().to_table(["value"])["value"].to_pylist() == list(ANSWERS[mode].values())
    assert table.snapshot().to_table([]).num_rows == len(ANSWERS[mode])


@pytest.mark.parametrize("mode", ANSWERS)
@pytest.mark.parametrize(
    "condition",
    one_in(3, [pc.field("value") == "late", pc.field("value") == "base", pc.field("ts") > 10, pc.field("ts") < 10]),
    ids=str,
)
def test_a_filter_never_changes_what_is_merged(tmp_path: Path, mode: str, condition: pc.Expression) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": mode}))
    expected = table.snapshot().to_table().filter(condition)
    for _ in range(2):
        # The second time, statistics are known.
        assert differences(expected, table.snapshot().to_table(filter=condition)) == []


def test_row_groups_that_cannot_pass_are_left_out_if_no_base_row_wins(tmp_path: Path) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": COMMIT_TIME}))
    condition = pc.field("value") == "new"
    (plan,) = table.snapshot().explain(condition).slices
    assert (plan.row_groups, plan.row_groups_read) == (3, 0)
    assert values_of(table.snapshot().to_table(filter=condition)) == {"b": "new"}


@pytest.mark.parametrize("mode", ANSWERS)
def test_look_ups(tmp_path: Path, mode: str) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": mode}))
    for keys in (["a"], ["d"], ["c", "f", "x"], list("abcdefg")):
        expected = {key: value for key, value in ANSWERS[mode].items() if key in keys}
        assert values_of(table.get(keys)) == expected
        assert values_of(table.snapshot().to_table(filter=pc.field("id").isin(keys))) == expected


def test_ranges_have_the_rows_of_their_commits(tmp_path: Path) -> None:
    table = opened(written(tmp_path))
    first, second, third = (ordering_time(commit, table.config) for commit in table.timeline.commits())
    assert values_of(table.incremental(first, second).to_table()) == {"a": "in", "b": "new", "c": "late"}
    assert values_of(table.incremental(second, third).to_table()) == {"d": "after a delete", "f": "back"}
    # Log files outside of the range are not merged.
    assert values_of(table.incremental("0", first).to_table()) == dict.fromkeys("bcdefg", "base")


@pytest.mark.parametrize("mode", ANSWERS)
def test_changes_lead_from_one_state_to_the_other(tmp_path: Path, mode: str) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": mode}))
    begin, _, end = (ordering_time(commit, table.config) for commit in table.timeline.commits())
    images = {}
    for change in table.changes(begin, end).to_table().to_pylist():
        images[change["op"], (change["before"] or change["after"])["id"]] = (change["after"] or {}).get("value")
    before, after = dict.fromkeys("bcdefg", "base"), ANSWERS[mode]
    expected: dict[tuple[str, str], str | None] = {("i", key): after[key] for key in after.keys() - before.keys()}
    expected |= {("d", key): None for key in before.keys() - after.keys()}
    expected |= {("u", key): after[key] for key in after.keys() & before.keys() if after[key] != before[key]}
    assert images == expected


@pytest.mark.parametrize(
    ("mode", "merged"), [(EVENT_TIME, ["first", "b", "fourth"]), (COMMIT_TIME, ["second", "b", "fourth"])]
)
def test_rows_of_one_key_in_a_base_file_are_one_beside_logs(tmp_path: Path, mode: str, merged: list[str]) -> None:
    writer = started(tmp_path, TWICE, options={"hoodie.record.merge.mode": mode})
    alone = opened(writer).snapshot().to_table()
    assert alone["value"].to_pylist() == ["first", "second", "b", "third", "fourth"]
    writer.commit(at(2), wrote=[writer.native_log(at(2), [{"id": "z", "ts": 0, "value": "z"}])])
    table = opened(writer)
    assert table.snapshot().to_table()["value"].to_pylist() == [*merged, "z"]
    assert table.read_optimized().to_table().num_rows == len(TWICE)
    (split,) = table.splits()
    with slice_delta(split) as delta:
        assert pa.Table.from_batches(delta.rows())["value"].to_pylist() == ["z"]
        assert len(delta.deleted_positions) == 2
    begin, end = (ordering_time(commit, table.config) for commit in table.timeline.commits())
    # Rows that the second write has not touched become one.
    assert set(table.changes(begin, end).to_table()["op"].to_pylist()) >= {"i", "d"}


def test_delete_markers_count_in_base_rows_whose_key_is_elsewhere_too(tmp_path: Path) -> None:
    def flagged(key: str, ts: int, *, deleted: bool) -> dict[str, Any]:
        return {"id": key, "ts": ts, "value": f"{key}{ts}", "_hoodie_is_deleted": deleted}

    rows = [flagged("a", 10, deleted=True), flagged("b", 10, deleted=True), flagged("c", 10, deleted=False)]
    writer = started(tmp_path, rows, fields=FLAGGED)
    writer.commit(at(2), wrote=[writer.native_log(at(2), [flagged("a", 5, deleted=False)])])
    assert values_of(opened(writer).snapshot().to_table()) == {"b": "b10", "c": "c10"}


def test_the_base_row_is_the_first_version(tmp_path: Path) -> None:
    """As the versions in logs are merged beside another layout, the base row would win over the last of them."""
    writer = started(tmp_path, [{"id": "a", "ts": 10, "value": "base"}])
    writer.commit(at(2), wrote=[writer.native_deletes(at(2), [("a", None)])])
    writer.commit(at(3), wrote=[writer.native_log(at(3), [{"id": "a", "ts": 5, "value": "late"}])])
    assert values_of(opened(writer).snapshot().to_table()) == {"a": "late"}


def test_fields_are_filled_from_base_rows_and_between_logs(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("other", "string"))
    options = {"hoodie.record.merge.mode": COMMIT_TIME, "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    writer = started(tmp_path, [{"id": "a", "ts": 1, "value": "v", "other": "o"}], fields=fields, options=options)
    writer.commit(at(2), wrote=[writer.native_log(at(2), [{"id": "a", "ts": 2, "value": "w", "other": None}])])
    writer.commit(at(3), wrote=[writer.native_log(at(3), [{"id": "a", "ts": 3, "value": None, "other": None}])])
    table = opened(writer)
    columns = ["ts", "value", "other"]
    assert table.snapshot().to_table(columns).to_pylist() == [{"ts": 3, "value": "w", "other": "o"}]
    (split,) = table.splits()
    with slice_delta(split, columns=columns) as delta:
        assert pa.Table.from_batches(delta.rows()).to_pylist() == [{"ts": 3, "value": "w", "other": "o"}]
        assert delta.deleted_positions.tolist() == [0]


def test_columns_that_files_lack_or_store_otherwise(tmp_path: Path) -> None:
    writer = written(tmp_path, fields=(("id", "string"), ("ts", "int"), ("value", "string")))
    later = replace(writer, fields=(("id", "string"), ("ts", "long"), ("value", "string"), ("more", "string")))
    row = {"id": "g", "ts": 2**40, "value": "new", "more": "added"}
    later.commit(at(4), wrote=[later.native_log(at(4), [row])])
    rows = opened(later).snapshot().to_table()
    assert rows.schema.field("ts").type == pa.int64()
    assert values_of(rows) == ANSWERS[EVENT_TIME] | {"g": "new"}
    assert dict(zip(rows["id"].to_pylist(), rows["more"].to_pylist(), strict=True)) == dict.fromkeys("abcef") | {
        "g": "added"
    }


def test_keys_that_are_built_from_fields(tmp_path: Path) -> None:
    writer = written(tmp_path, options={"hoodie.populate.meta.fields": "false"})
    assert values_of(opened(writer).snapshot().to_table()) == ANSWERS[EVENT_TIME]


def test_a_slice_of_logs_alone(tmp_path: Path) -> None:
    writer = started(tmp_path, ())
    writer.commit(at(2), wrote=[writer.native_log(at(2), ROWS)])
    writer.commit(at(3), wrote=[writer.native_deletes(at(3), [("b", 30), ("x", 1)])])
    table = opened(writer)
    assert values_of(table.snapshot().to_table()) == {"a": "in", "c": "late"}
    assert values_of(table.get(["a", "b"])) == {"a": "in"}


def test_logs_of_a_write_that_has_not_completed_do_not_count(tmp_path: Path) -> None:
    writer = started(tmp_path, TWICE)
    writer.native_log(at(2), ROWS)
    writer.pending(at(2))
    assert opened(writer).snapshot().to_table().num_rows == len(TWICE)


def test_each_small_file_of_a_store_is_one_request(tmp_path: Path) -> None:
    files = CountingFileSystem()
    table = HudiTable.open(str(written(tmp_path).folder), files, UNRELEASED)
    assert table.schema.names
    for columns in (None, ["value"]):
        requests = files.reset()
        assert table.snapshot().to_table(columns)["value"].to_pylist() == list(ANSWERS[EVENT_TIME].values())
        assert set(requests.by_file.values()) == {1}
        assert requests.reads == 4


def test_splits_are_read_elsewhere(tmp_path: Path) -> None:
    table = opened(written(tmp_path))
    (split,) = table.splits()
    assert isinstance(split, RealtimeFileSplit)
    for copy in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        assert copy.context.is_lsm_tree
        with open_reader(copy) as reader:
            assert values_of(pa.Table.from_batches(reader.batches())) == ANSWERS[EVENT_TIME]
    # JSON of an earlier release does not say what it is.
    document = json.loads(split.to_json())
    del document["split"]["context"]["is_lsm_tree"]
    assert not RealtimeFileSplit.from_json(json.dumps(document)).context.is_lsm_tree


@pytest.mark.parametrize("mode", ANSWERS)
def test_what_engines_add_to_the_base_file_makes_the_same_rows(tmp_path: Path, mode: str) -> None:
    table = opened(written(tmp_path, options={"hoodie.record.merge.mode": mode}))
    (split,) = table.splits()
    assert isinstance(split, RealtimeFileSplit)
    for columns in (None, ["value", "id"]):
        with slice_delta(split, columns=columns) as delta:
            base = table.read_optimized().to_table(columns)
            assert delta.deleted_positions.tolist() == sorted(delta.deleted_positions.tolist())
            staying = base.take(np.setdiff1d(np.arange(len(base)), delta.deleted_positions))
            added = pa.Table.from_batches(delta.rows(), delta.schema)
            assert values_of(pa.concat_tables([staying, added])) == ANSWERS[mode]
            assert delta.counted_instants == {at(2): True, at(3): True}
            reason = "in an LSM tree, rows of one key in its base file are merged, too"
            assert delta.log_records() == delta.why_keys_not_unique() == reason
    storage = split.context.open_storage()
    keys = [key for part in log_record_keys(storage, split) for key in part.to_pylist()]
    assert set(keys) == {"a", "b", "c", "d", "f"}
    assert [block.block_type for block in iter_log_blocks(storage, split)] == ["parquet_data", "delete", "parquet_data"]


def damaged(folder: Path, change: Callable[[TableWriter], object]) -> HudiTable:
    writer = written(folder)
    change(writer)
    return opened(writer)


def with_rows(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    rows = pq.read_table(path)
    metadata = pq.read_schema(path).metadata
    pq.write_table(change(rows).replace_schema_metadata(metadata), path, row_group_size=2)


BASE_FILE, LOG, DELETE_LOG = "f1-0_0-1-1_{}.parquet", "f1-0_0-1-1_{}_1.log.parquet", "f1-0_0-1-1_{}_1.deletes.parquet"


@pytest.mark.parametrize(
    ("name", "error", "found"),
    [
        (BASE_FILE.format(at(1)), CorruptBaseFileError, "record key 'f' in row 1 after 'g' in row 0"),
        (LOG.format(at(2)), CorruptLogFileError, "record key 'b' in row 1 after 'c' in row 0"),
        (DELETE_LOG.format(at(2)), CorruptLogFileError, "record key 'e' in row 1 after 'f' in row 0"),
    ],
)
def test_files_that_are_not_sorted_are_an_error(
    tmp_path: Path, name: str, error: type[CorruptTableError], found: str
) -> None:
    table = damaged(tmp_path, lambda writer: with_rows(writer.folder / name, lambda rows: rows[::-1]))
    with pytest.raises(error, match=found) as raised:
        table.snapshot().to_table()
    assert raised.value.path == name
    sort_file(tmp_path / name)
    diagnosis = examine_storage(table.splits()[0].context.open_storage(), options=UNRELEASED)
    assert "rows" not in {finding.check for finding in diagnosis.findings}


@pytest.mark.parametrize("name", [BASE_FILE.format(at(1)), LOG.format(at(2)), DELETE_LOG.format(at(2))])
def test_rows_without_a_record_key_are_an_error(tmp_path: Path, name: str) -> None:
    def without_first_key(rows: pa.Table) -> pa.Table:
        position = rows.schema.get_field_index("_hoodie_record_key")
        keys = [None, *rows["_hoodie_record_key"].to_pylist()[1:]]
        return rows.set_column(position, "_hoodie_record_key", pa.array(keys, pa.string()))

    table = damaged(tmp_path, lambda writer: with_rows(writer.folder / name, without_first_key))
    with pytest.raises(CorruptTableError, match="no record key in row 0"):
        table.snapshot().to_table()


@pytest.mark.parametrize("name", [BASE_FILE.format(at(1)), LOG.format(at(2)), DELETE_LOG.format(at(2))])
def test_files_without_the_column_of_record_keys_are_an_error(tmp_path: Path, name: str) -> None:
    def without_keys(rows: pa.Table) -> pa.Table:
        return rows.drop_columns(["_hoodie_record_key"])

    table = damaged(tmp_path, lambda writer: with_rows(writer.folder / name, without_keys))
    with pytest.raises(CorruptTableError, match="_hoodie_record_key") as raised:
        table.snapshot().to_table()
    assert raised.value.path == name
    assert isinstance(raised.value, CorruptLogFileError) == (".log." in name or ".deletes." in name)


def test_a_log_file_that_was_cut_off_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / LOG.format(at(2))
    table = damaged(tmp_path, lambda _: path.write_bytes(path.read_bytes()[:-20]))
    with pytest.raises(CorruptLogFileError) as raised:
        table.snapshot().to_table()
    assert raised.value.path == path.name


def inline_log(writer: TableWriter) -> None:
    writer.log_file(at(4), [writer.data_block(at(4), LATER)])
    writer.commit(at(4))


def orc_log(writer: TableWriter) -> None:
    writer.native_log(at(4), LATER, "orc")
    writer.commit(at(4))


def partial_log(writer: TableWriter) -> None:
    writer.native_log(at(4), [{"id": "b", "value": "some"}], only=["id", "value"])
    writer.commit(at(4))


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (inline_log, r"log file of an LSM tree: found \.f1-0.*, supported: native log files in Parquet"),
        (orc_log, r"log file of an LSM tree: found f1-0.*\.log\.orc, supported: native log files in Parquet"),
        (partial_log, "partial update: found rows of some columns in f1-0.*, in an LSM tree"),
    ],
)
def test_logs_that_are_not_merged_as_sorted_runs_are_refused(
    tmp_path: Path, change: Callable[[TableWriter], object], found: str
) -> None:
    table = damaged(tmp_path, change)
    with pytest.raises(UnsupportedTableError, match=found):
        table.snapshot().to_table()
    assert values_of(table.read_optimized().to_table()) == dict.fromkeys("bcdefg", "base")


def test_what_is_refused_by_the_properties(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedTableError, match="storage layout: found lsm_tree, supported: default"):
        started(tmp_path / "9", version=9).open()
    options = {"hoodie.record.merge.mode": "CUSTOM"}
    payload = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"}
    custom = written(tmp_path / "custom", options=options | payload)
    with pytest.raises(UnsupportedTableError, match=r"merge mode of an LSM tree: found partial update \(1\.1\)"):
        opened(custom).snapshot().to_table()
    (split,) = opened(written(tmp_path / "10")).splits()
    assert isinstance(split, RealtimeFileSplit)
    with pytest.raises(UnsupportedTableError, match="bootstrapped table: found an LSM tree with"):
        in_order(replace(split, source_path="source.parquet"))


def test_the_query_type_decides_whether_logs_are_merged(tmp_path: Path) -> None:
    table = opened(written(tmp_path))
    assert table.splits()[0].context.merge_rule is not None
    assert table.planner().context(QueryType.READ_OPTIMIZED).merge_rule is None
