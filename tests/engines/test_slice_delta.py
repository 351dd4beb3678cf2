"""The base file without the deleted positions, and the rows that come instead, are what a snapshot reads."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryType, RealtimeFileSplit, open_reader
from hudi_bridge.engines import SurvivingLogRecords, slice_delta, slice_delta_in
from hudi_bridge.errors import DataFileGoneError, QueryError
from hudi_bridge.schema.file_columns import Outcome
from tests.support.compare import differences
from tests.support.deviations import ANSWERED
from tests.support.golden_queries import QUERIES, Key, query_id, representative
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

SNAPSHOTS = sorted(key for key in ANSWERED if QUERIES[key].kind in ("snapshot", "time_travel"))


def splits_of(key: Key) -> Iterator[RealtimeFileSplit]:
    query = QUERIES[key]
    yield from HudiTable.open(query.table).splits(query.as_of, QueryType.SNAPSHOT)


def as_seen_by_an_engine(split: RealtimeFileSplit, *, use_threads: bool = False) -> pa.Table:
    """The rows of the base file that are not deleted, and those of the delta."""
    schema = split.context.schema
    pieces = []
    with slice_delta_in(split.context.open_storage(), split, use_threads=use_threads) as delta:
        if delta.base_file is not None:
            alone = open_reader(replace(split, log_paths=(), log_size_bytes=0)).to_table()
            assert alone.num_rows == delta.base_file.rows
            stays = np.ones(alone.num_rows, dtype=np.bool_)
            stays[delta.deleted_positions] = False
            pieces.append(alone.filter(pa.array(stays)))
        before = delta.deleted_positions
        pieces.append(pa.Table.from_batches(delta.rows(), schema))
        assert delta.deleted_positions.tolist() == before.tolist() == sorted(set(before.tolist()))
    return pa.concat_tables(pieces)


@pytest.mark.parametrize("key", one_in(5, representative(SNAPSHOTS, 1)), ids=query_id)
def test_base_rows_and_delta_are_the_snapshot(key: Key, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.readers.merging._MIN_LOG_BYTES_FOR_THREAD", 0)
    for split in splits_of(key):
        merged = open_reader(split).to_table()
        assert differences(merged, as_seen_by_an_engine(split)) == []
        assert differences(merged, as_seen_by_an_engine(split, use_threads=True)) == []
        in_parts = replace(split, context=replace(split.context, log_memory_bytes=max(1, split.log_size_bytes // 2)))
        assert differences(merged, as_seen_by_an_engine(in_parts)) == []


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Base rows a to d; the logs have newer versions of a and b, delete c, and bring a row of their own."""
    table = TableWriter(folder=tmp_path / "table").create()
    table.base_file(at(1), [{"id": key, "ts": 5, "value": "base"} for key in "abcd"])
    table.commit(at(1))
    rows = [{"id": key, "ts": ts, "value": "log"} for key, ts in (("a", 6), ("b", 4), ("new", 1))]
    table.log_file(at(2), [table.data_block(at(2), rows), table.delete_block(at(2), [("c", None)])])
    table.commit(at(2))
    return table


def only_split(table: TableWriter) -> RealtimeFileSplit:
    (split,) = table.open().splits()
    return split


def test_positions_are_those_of_rows_that_log_records_beat(table: TableWriter) -> None:
    with slice_delta(only_split(table), columns=["id", "value"]) as delta:
        assert delta.deleted_positions.tolist() == [0, 2]
        rows = pa.Table.from_batches(delta.rows(), delta.schema).sort_by("id").to_pylist()
        assert rows == [{"id": "a", "value": "log"}, {"id": "new", "value": "log"}]


def test_log_files_do_not_stay_in_memory_once_their_records_are_decoded(table: TableWriter) -> None:
    size = 1 << 20
    table.log_file(at(3), [table.data_block(at(3), [{"id": "d", "ts": 9, "value": "x" * size}])], number=2)
    table.commit(at(3))
    with slice_delta(only_split(table), columns=["id"]) as delta:
        before = pa.total_allocated_bytes()
        rows = [row for batch in delta.rows() for row in batch.to_pylist()]
        assert pa.total_allocated_bytes() - before < size
        assert rows == [row for batch in delta.rows() for row in batch.to_pylist()]


def test_base_rows_that_an_engine_has_to_compare_are_contested(table: TableWriter) -> None:
    with slice_delta(only_split(table)) as delta:
        log = delta.log_records()
    assert isinstance(log, SurvivingLogRecords)
    actual = dict(
        zip(log.keys.to_pylist(), zip(log.contested.tolist(), log.is_delete.tolist(), strict=True), strict=True)
    )
    # A delete without an ordering value wins in any case, and a new record has nothing to be compared with.
    assert actual == {"a": (True, False), "b": (True, False), "new": (False, False), "c": (False, True)}
    assert not log.merges_fields
    assert dict(zip(log.keys.to_pylist(), log.ordering[0].to_pylist(), strict=True))["b"] == 4


def test_partial_updates_are_contested_and_say_what_they_lack(table: TableWriter) -> None:
    block = table.data_block(at(3), [{"id": "d", "ts": 9}], only=["id", "ts"])
    table.log_file(at(3), [block], number=2)
    table.commit(at(3))
    with slice_delta(only_split(table)) as delta:
        log = delta.log_records()
        assert isinstance(log, SurvivingLogRecords)
        position = log.keys.to_pylist().index("d")
        assert log.merges_fields
        assert log.contested[position]
        assert log.unset["value"][position]
        assert not log.unset["value"][log.is_delete].any()
        assert len(log.unset["value"]) == len(log) == log.rows.num_rows
        rows = pa.Table.from_batches(delta.rows(), delta.schema).to_pylist()
    assert [row["value"] for row in rows if row["id"] == "d"] == ["base"]


def test_why_an_engine_must_not_merge_is_said_in_words(table: TableWriter) -> None:
    split = only_split(table)
    with slice_delta(replace(split, context=replace(split.context, log_memory_bytes=1))) as delta:
        assert delta.log_records() == "its log records are larger than the memory for them"
    with slice_delta(replace(split, log_paths=(), log_size_bytes=0)) as delta:
        assert delta.log_records() is None
        assert delta.counted_instants == {}
        assert list(delta.rows()) == []
        assert not len(delta.deleted_positions)


def test_blocks_of_writes_that_have_not_completed_are_named_and_do_not_count(table: TableWriter) -> None:
    rows = [{"id": "d", "ts": 9, "value": "pending"}]
    # Before version 8, blocks of several writes may stand in one file.
    (path,) = table.folder.glob(".f1-0*")
    path.write_bytes(path.read_bytes() + table.data_block(at(3), rows))
    with slice_delta(only_split(table)) as delta:
        assert delta.counted_instants == {at(2): True, at(3): False}
        assert delta.deleted_positions.tolist() == [0, 2]


def test_a_base_file_is_read_as_it_is_unless_a_column_would_be_misread(tmp_path: Path) -> None:
    fields = (("id", "string"), ("ts", "long"), ("value", "string"), ("count", "long"))
    table = TableWriter(folder=tmp_path / "table", fields=fields).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x", "count": 7}])
    table.commit(at(1))
    assert why_not(table) is None
    stored = pq.read_table(path)
    pq.write_table(stored.drop_columns(["value"]), path)
    assert why_not(table) is None
    position = stored.schema.get_field_index("count")
    pq.write_table(stored.set_column(position, "count", stored["count"].cast(pa.int32())), path)
    assert why_not(table) == "count: cast int to long"
    assert why_not(table, widens=[("int", "long")]) is None
    pq.write_table(stored.append_column("COUNT", stored["count"]), path)
    assert why_not(table) is None
    assert why_not(table, ignores_case=True) == "names of its columns differ in nothing but case"
    pq.write_table(stored, path, use_deprecated_int96_timestamps=True)
    with slice_delta(only_split(table)) as delta:
        assert delta.base_file is not None
        assert {column.outcome for column in delta.base_file.columns} == {Outcome.READ}


@pytest.mark.parametrize(("day", "is_read"), [(-141_428, False), (-141_427, True)])
def test_a_base_file_with_dates_in_the_calendar_of_spark_2_is_not_read_as_it_is(
    tmp_path: Path, day: int, is_read: bool
) -> None:
    fields = (*KEY_AND_VALUE, ("d", {"type": "int", "logicalType": "date"}))
    table = TableWriter(folder=tmp_path / "t", fields=fields).create()
    path = table.base_file(at(1), [{"id": "a", "ts": 1, "value": "x", "d": day}])
    table.commit(at(1))
    stored = pq.read_table(path)
    facts = {"org.apache.spark.version": "3.5.9", "org.apache.spark.legacyDateTime": ""}
    pq.write_table(stored.replace_schema_metadata(facts), path)
    assert why_not(table) == (None if is_read else "it has dates in the calendar of Spark 2")


def why_not(table: TableWriter, **engine: object) -> str | None:
    with slice_delta(only_split(table)) as delta:
        assert delta.base_file is not None
        return delta.base_file.reason_incompatible(**engine)  # type: ignore[arg-type]


def test_a_slice_without_a_base_file_has_rows_alone(table: TableWriter) -> None:
    split = replace(only_split(table), base_path=None, base_size_bytes=0)
    with slice_delta(split) as delta:
        assert delta.base_file is None
        assert not len(delta.deleted_positions)
        assert {row["id"] for batch in delta.rows() for row in batch.to_pylist()} == {"a", "b", "new"}


def test_splits_of_ranges_and_columns_that_are_not_there_are_refused(table: TableWriter) -> None:
    split = only_split(table)
    split = replace(split, context=replace(split.context, commit_times=frozenset((at(1),))))
    with pytest.raises(QueryError, match="snapshot or read-optimized"):
        slice_delta(split)
    with pytest.raises(QueryError, match="columns among"):
        slice_delta(only_split(table), columns=["no such"])


def test_files_that_are_gone_are_named(table: TableWriter) -> None:
    split = only_split(table)
    for path in table.folder.glob(".f1-0*"):
        path.unlink()
    with slice_delta(split) as delta, pytest.raises(DataFileGoneError):
        list(delta.rows())
    for path in table.folder.glob("*.parquet"):
        path.unlink()
    with pytest.raises(DataFileGoneError), slice_delta(split):
        pass
