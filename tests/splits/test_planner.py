"""From a table to its splits."""

import os
import pickle
import re
import shutil
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge import HudiTable, QueryType
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.splits.planner import SplitPlanner
from hudi_bridge.storage.storage import FileInfo, Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_queries, golden_table
from tests.support.table_writer import Row, TableWriter, at
from tests.timeline.timeline_files import record_type

MANY, MEASURED = 100_000, 5_000


def row(key: str, ts: int = 1, value: str = "x") -> Row:
    return {"id": key, "ts": ts, "value": value}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    actual: list[str] = []
    list_directory = Storage.list_directory

    def recorded(storage: Storage, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        actual.append(path)
        return list_directory(storage, path, must_exist=must_exist)

    monkeypatch.setattr(Storage, "list_directory", recorded)
    return actual


def test_folders_are_listed_once_however_often_a_dataset_is_read(tmp_path: Path, listed: list[str]) -> None:
    table = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    for part in "pq":
        table.base_file(at(1), [row(part, value=part)], partition=part, file_id=f"{part}-0")
    table.commit(at(1))
    opened = table.open()
    assert opened.snapshot().count_rows() == 2
    before = list(listed)
    assert list(opened.snapshot().splits()) == opened.splits()
    assert sorted(path for path in before if not path.startswith(".hoodie")) == ["", "p", "q"]
    assert opened.snapshot().to_table(filter=pc.field("value") == "p").num_rows == 1
    assert opened.read_optimized().count_rows() == 2
    assert len(opened.splits()) == 2
    assert listed == before
    assert opened.refresh().snapshot().count_rows() == 2
    assert len(listed) > len(before)


def test_opening_a_table_lists_the_timeline_alone(tmp_path: Path, listed: list[str]) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.commit(at(1))
    opened = table.open()
    _ = opened.snapshot().schema
    assert listed == [".hoodie/timeline"]


@pytest.mark.parametrize("version", [6, 9])
def test_splits_name_files_sizes_and_the_instant(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    base = table.base_file(at(1), [row("a")])
    log = table.log_file(at(2), [table.data_block(at(2), [row("a")])], base_instant=at(1))
    table.commit(at(1))
    table.commit(at(2))
    (split,) = table.open().splits()
    assert (split.base_path, split.log_paths) == (base.name, (log.name,))
    assert (split.base_size_bytes, split.log_size_bytes) == (base.stat().st_size, log.stat().st_size)
    assert (split.table_path, split.latest_instant) == (str(tmp_path), at(2))
    assert (split.file_id, split.base_instant_time, split.partition_path) == ("f1-0", at(1), "")
    (plain,) = table.open().splits(query_type=QueryType.READ_OPTIMIZED)
    assert (plain.log_paths, plain.log_size_bytes, plain.context.merge_rule) == ((), 0, None)
    (early,) = table.open().splits(as_of=at(1))
    assert early.latest_instant == at(1)


def test_splits_of_a_plan_share_their_context(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    for number in range(3):
        table.base_file(at(1), [row(str(number))], file_id=f"f{number}-0")
    table.commit(at(1))
    splits = table.open().splits()
    assert len({id(split.context) for split in splits}) == 1
    assert len({id(split.context) for split in pickle.loads(pickle.dumps(splits))}) == 1


def test_replaced_file_groups_are_gone(tmp_path: Path) -> None:
    for version in (6, 9):
        table = TableWriter(folder=tmp_path / str(version), version=version).create()
        table.base_file(at(1), [row("old")], file_id="old-0")
        table.commit(at(1))
        table.base_file(at(2), [row("new")], file_id="new-0")
        table.commit(at(2), action="replacecommit", replaced={"": ["old-0"]})
        assert table.open().snapshot().to_table().column("id").to_pylist() == ["new"]
        assert table.open().read_optimized().to_table().column("id").to_pylist() == ["new"]
        assert table.open().snapshot(at(1)).to_table().column("id").to_pylist() == ["old"]


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_compaction_hides_nothing(tmp_path: Path, version: int) -> None:
    table = TableWriter(folder=tmp_path, version=version).create()
    table.base_file(at(1), [row("a"), row("b"), row("c")])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [row("a", 2, "before")])], base_instant=at(1))
    table.commit(at(2))
    table.pending_compaction(at(3), [("", "f1-0")])
    expected = {"a": "before", "b": "x", "c": "x"}
    assert values(table) == expected
    table.log_file(at(4), [table.data_block(at(4), [row("b", 2, "after")])], base_instant=at(3))
    table.commit(at(4))
    assert values(table) == expected | {"b": "after"}
    table.base_file(at(3), [row("a", 2, "half-written")])
    assert values(table) == expected | {"b": "after"}


def test_a_write_that_completes_after_a_compaction_was_requested_counts(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [row("a")])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [row("a", 2, "slow")])])
    table.pending_compaction(at(3), [("", "f1-0")])
    table.commit(at(2), completed=at(4))
    assert values(table) == {"a": "slow"}
    table.base_file(at(3), [row("a")])
    table.commit(at(3), action="commit", completed=at(5))
    (table.timeline_folder / f"{at(3)}.compaction.requested").unlink()
    assert values(table) == {"a": "slow"}


def test_what_a_failed_write_left_behind_does_not_count(tmp_path: Path) -> None:
    for version in (6, 9):
        table = TableWriter(folder=tmp_path / str(version), version=version).create()
        table.base_file(at(1), [row("a")])
        table.commit(at(1))
        table.pending(at(2))
        table.base_file(at(2), [row("a", 9, "failed")])
        table.base_file(at(2), [row("z", 9, "failed")], file_id="z-0")
        table.log_file(at(2), [table.data_block(at(2), [row("a", 9, "failed")])], base_instant=at(1))
        assert values(table) == {"a": "x"}


def values(table: TableWriter) -> dict[str, str]:
    rows = table.open().snapshot().to_table(columns=["id", "value"]).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["value"] for row in rows}


def test_a_copy_on_write_table_needs_no_merge_rule(tmp_path: Path) -> None:
    options = {"hoodie.table.type": "COPY_ON_WRITE", "hoodie.compaction.payload.class": "com.example.Own"}
    table = TableWriter(folder=tmp_path, options=options).create()
    table.base_file(at(1), [row("a")])
    table.commit(at(1), action="commit")
    assert values(table) == {"a": "x"}


def test_an_ordering_field_that_the_table_does_not_have_orders_nothing(tmp_path: Path) -> None:
    for version in (6, 9):
        table = TableWriter(folder=tmp_path / str(version), version=version, ordering_fields=("nope",)).create()
        table.base_file(at(1), [row("a", 9)])
        table.commit(at(1))
        table.log_file(at(2), [table.data_block(at(2), [row("a", 1, "later")])], base_instant=at(1))
        table.commit(at(2))
        assert values(table) == {"a": "later"}


@pytest.mark.parametrize(("name", "found"), [("value.ts", "no field"), ("o.none", "no field"), ("o", "of type struct")])
def test_an_ordering_field_that_has_no_order_is_refused(name: str, found: str, tmp_path: Path) -> None:
    fields = (("id", "string"), ("value", "string"), ("o", record_type("o", {"ts": ["null", "long"]})[1]))
    table = TableWriter(folder=tmp_path, fields=fields, ordering_fields=(name,)).create()
    table.base_file(at(1), [{"id": "a"}])
    table.commit(at(1))
    with pytest.raises(UnsupportedTableError, match=f"{re.escape(name)}.*{found}"):
        table.open().splits()


def test_a_hundred_thousand_splits_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [row("a")])
    table.log_file(at(2), [table.data_block(at(2), [row("a")])])
    table.commit(at(1))
    table.commit(at(2))
    opened = table.open()
    (piece,) = opened.file_slices()

    def many_slices(*_: object) -> Iterator[object]:
        for number in range(MEASURED):
            name = f"{number:08d}-bee4-49fd-bbf8-28ac514178e5-0"
            base = (
                replace(piece.base_file, path=f"2026/01/01/{name}_0-1-1_{at(1)}.parquet") if piece.base_file else None
            )
            logs = (replace(piece.log_files[0], path=f"2026/01/01/.{name}_{at(2)}.log.1_0-1-1"),)
            yield replace(piece, file_id=name, base_file=base, log_files=logs)

    monkeypatch.setattr(SplitPlanner, "file_slices", many_slices)
    tracemalloc.start()
    splits = opened.splits()
    size_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(splits) == MEASURED
    assert size_bytes / MEASURED * MANY < 100_000_000
    assert len(pickle.dumps(splits[:1000])) < 1_000_000


@pytest.mark.parametrize("name", ["d_compacted_then_logs_0150", "m_min_down6_120"])
@pytest.mark.parametrize("moment", [1_600_000_000, 1_900_000_000])
def test_modification_times_do_not_place_logs(name: str, moment: int, tmp_path: Path) -> None:
    # Hudi 1.x takes them for completion times in layout 1; copies of a table have others.
    path = shutil.copytree(golden_table(name), tmp_path / "table")
    for file in path.rglob("*"):
        os.utime(file, (moment, moment))
    query = next(query for query in golden_queries() if (query.case, query.kind) == (name, "snapshot"))
    assert query.answer is not None
    rows = HudiTable.open(path).snapshot().to_table()
    left_out = ["_hoodie_file_name", "_hoodie_commit_seqno"]
    assert differences(pq.read_table(query.answer).drop_columns(left_out), rows.drop_columns(left_out)) == []
