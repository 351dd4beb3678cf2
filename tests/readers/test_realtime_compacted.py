"""The reader of a merged split: streaming, repeatable, and closed behind itself."""

import datetime as dt
import gc
import logging
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import open_reader, tools
from hudi_bridge.errors import CorruptLogFileError, DataFileGoneError
from hudi_bridge.merge.record_map import LogRecordMap
from hudi_bridge.readers.base_file import OpenBaseFile
from tests.support.table_writer import Row, TableWriter, at, nested_ordering_table

GROUPS = 6
DECIMAL = {"type": "fixed", "name": "ts_fixed", "size": 5, "logicalType": "decimal", "precision": 10, "scale": 2}


def row(key: str, ts: int, value: str) -> Row:
    return {"id": key, "ts": ts, "value": value}


@pytest.fixture
def table(tmp_path: Path) -> TableWriter:
    """Six row groups of two rows, an update, a delete and an insert."""
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [row(f"k{number}", 1, "old") for number in range(2 * GROUPS)], row_group_size=2)
    table.commit(at(1))
    blocks = [
        table.data_block(at(2), [row("k3", 2, "new"), row("new", 1, "new")]),
        table.delete_block(at(2), [("k0", 1)]),
    ]
    table.log_file(at(2), blocks)
    table.commit(at(2))
    return table


@pytest.mark.parametrize("version", [6, 9])
def test_a_field_of_a_struct_orders(version: int, tmp_path: Path) -> None:
    table = nested_ordering_table(tmp_path, version).open()
    # Among log records, Hudi 0.x does not find the values, and the last one stays to meet the base row.
    of_logs = "old" if version == 6 else "new"
    expected = {"late": "base", "newer": "log", "logs": of_logs, "own": of_logs, "none": "base"}
    rows = table.snapshot().to_table(columns=["id", "value"]).to_pylist()
    assert {row["id"]: row["value"] for row in rows} == expected
    assert len(rows) == len(expected)
    for key, value in expected.items():
        history = tools.history_of(table, key)
        assert history.result.column("value").to_pylist() == [value]
        assert "ordered by o.a.ts" in history.rule


def test_the_first_batch_arrives_before_the_last_row_group_is_read(
    table: TableWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    iter_batches = pq.ParquetFile.iter_batches

    def recorded(file: pq.ParquetFile, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        if "value" in options["columns"]:
            read.extend(options["row_groups"])
        return iter_batches(file, *arguments, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", recorded)
    (split,) = table.open().splits()
    batches = open_reader(split).batches()
    assert next(batches).num_rows == 1
    # One batch waits for its consumer, and one is being read.
    assert read == list(range(GROUPS))[: len(read)]
    assert len(read) <= 3
    assert sum(batch.num_rows for batch in batches) == 11
    assert read == list(range(GROUPS))


def test_an_abandoned_iterator_closes_the_file(table: TableWriter, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    leave = OpenBaseFile.__exit__

    def recorded(base: OpenBaseFile, *error: object) -> None:
        leave(base, *error)
        closed.append(base.path)

    monkeypatch.setattr(OpenBaseFile, "__exit__", recorded)
    (split,) = table.open().splits()
    batches = open_reader(split).batches()
    next(batches)
    assert closed == []
    del batches
    gc.collect()
    assert closed == [split.base_path]
    for _ in table.open().snapshot().to_batches(filter=pc.field("id") > ""):
        break
    gc.collect()
    assert closed == [split.base_path] * 2


def test_batches_may_be_iterated_again(table: TableWriter) -> None:
    (split,) = table.open().splits()
    reader = open_reader(split, columns=["id", "value"])
    first, second = ([batch.to_pydict() for batch in reader.batches()] for _ in range(2))
    assert first == second
    assert reader.schema.names == ["id", "value"]


def test_a_filter_sees_merged_rows(table: TableWriter) -> None:
    dataset = table.open().snapshot()
    assert dataset.to_table(columns=["id"], filter=pc.field("value") == "new").column("id").to_pylist() == ["k3", "new"]
    assert dataset.count_rows((pc.field("id") == "k3") & (pc.field("value") == "old")) == 0
    assert dataset.count_rows(pc.field("id") == "k0") == 0


def test_a_split_of_logs_alone(tmp_path: Path) -> None:
    for version in (6, 9):
        table = TableWriter(folder=tmp_path / str(version), version=version).create()
        blocks = [table.data_block(at(1), [row("a", 1, "x"), row("b", 1, "x")]), table.delete_block(at(1), [("a", 1)])]
        table.log_file(at(1), blocks)
        table.commit(at(1))
        (split,) = table.open().splits()
        assert split.base_path is None
        assert [key for batch in open_reader(split).batches() for key in batch.column("id").to_pylist()] == ["b"]


def test_blocks_that_do_not_count_are_left_out(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=6).create()
    table.base_file(at(1), [row("a", 1, "base")])
    table.commit(at(1))
    for number, value in ((2, "committed"), (3, "pending"), (4, "later")):
        block = table.data_block(at(number), [row("a", number, value)])
        table.log_file(at(number), [block], base_instant=at(1), number=number)
    table.commit(at(2))
    table.pending(at(3))
    table.commit(at(4))
    assert table.open().snapshot().to_table().column("value").to_pylist() == ["later"]
    as_of = table.open().snapshot(at(2))
    assert as_of.to_table().column("value").to_pylist() == ["committed"]
    skipped = as_of.skipped_log_blocks()
    assert (skipped.later, skipped.uncommitted, skipped.corrupt) == (2, 0, 0)
    assert table.open().snapshot().skipped_log_blocks().uncommitted == 1


def test_a_torn_block_is_skipped_with_a_warning(table: TableWriter, caplog: pytest.LogCaptureFixture) -> None:
    (path,) = table.folder.glob(".f1-0*.log.*")
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:50])
    with caplog.at_level(logging.WARNING):
        assert table.open().snapshot().count_rows() == 12
    assert f"{path.name} at byte {len(whole)}" in caplog.text
    assert table.open().snapshot().skipped_log_blocks().corrupt == 1


def test_what_is_no_log_file_is_an_error_with_its_place(table: TableWriter) -> None:
    (path,) = table.folder.glob(".f1-0*.log.*")
    path.write_bytes(b"no log file")
    with pytest.raises(CorruptLogFileError) as caught:
        table.open().snapshot().to_table()
    assert (caught.value.path, caught.value.offset) == (path.name, 0)


def test_a_log_file_that_was_cleaned_is_named(table: TableWriter) -> None:
    dataset = table.open().snapshot()
    assert list(dataset.splits())
    (path,) = table.folder.glob(".f1-0*.log.*")
    path.unlink()
    with pytest.raises(DataFileGoneError, match=path.name):
        dataset.to_table()


def test_log_records_are_let_go_of_when_their_split_is_read(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    for number in range(4):
        table.log_file(at(1), [table.data_block(at(1), [row("k", 1, "x")])], file_id=f"f{number}-0")
    table.commit(at(1))
    alive = []
    # A filter has each slice read by itself.
    for _ in table.open().snapshot().to_batches(filter=pc.field("id") > "", use_threads=False):
        gc.collect()
        alive.append(sum(isinstance(get_object, LogRecordMap) for get_object in gc.get_objects()))
    assert len(alive) == 4
    assert max(alive) <= 2


@pytest.mark.parametrize(
    ("kind", "late", "newer", "is_ordered_by_0x"),
    [
        ("long", 1, 2, True),
        ("int", 1, 2, True),
        ("string", "1", "2", False),
        ({"type": "int", "logicalType": "date"}, dt.date(2026, 1, 1), dt.date(2026, 1, 2), False),
        (DECIMAL, Decimal("1.00"), Decimal("2.00"), False),
    ],
)
@pytest.mark.parametrize("version", [6, 9])
def test_up_to_1_0_a_late_delete_counts_among_logs_if_its_ordering_has_another_class_than_that_of_rows(
    tmp_path: Path, *, kind: Any, late: object, newer: object, is_ordered_by_0x: bool, version: int
) -> None:
    fields = (("id", "string"), ("ts", kind), ("value", "string"))
    table = TableWriter(folder=tmp_path, version=version, fields=fields).create()
    blocks = [
        table.data_block(at(2), [{"id": "a", "ts": newer, "value": "newer"}]),
        table.delete_block(at(2), [("a", late)]),
    ]
    table.base_file(at(1), [])
    table.log_file(at(2), blocks, base_instant=at(1))
    table.commit(at(1))
    table.commit(at(2))
    assert table.open().snapshot().count_rows() == (1 if is_ordered_by_0x or version == 9 else 0)
