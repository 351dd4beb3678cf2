"""File slices of all times, beside what snapshots read and what the timeline says."""

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.inspection import ALL_SLICES_SCHEMA, FILE_GROUP_SCHEMA, inspect_all_slices, inspect_file_group
from tests.support.compatibility_page import golden_tables
from tests.support.golden_cases import golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at
from tests.timeline.timeline_files import clean

Files = dict[tuple[str, str], set[str]]
ROW = {"id": "a", "ts": 1, "value": "x"}


def files_by_state(slices: pa.Table, state: str) -> Files:
    files: Files = defaultdict(set)
    for row in slices.to_pylist():
        if row["state"] == state:
            base = [row["base_path"]] if row["base_path"] else []
            files[row["partition_path"], row["file_id"]].update((*row["log_paths"], *base))
    return files


def files_of_snapshot(table: HudiTable) -> Files:
    return {
        (part.partition_path, part.file_id): {
            *(log.path for log in part.log_files),
            *([part.base_file.path] if part.base_file is not None else []),
        }
        for part in table.file_slices()
    }


@pytest.mark.parametrize("name", one_in(5, [table.name for table in spread(golden_tables(), 60)]))
def test_the_current_slices_are_those_of_a_snapshot_and_no_file_is_left_out(name: str) -> None:
    folder = golden_table(name)
    table = HudiTable.open(folder)
    slices = inspect_all_slices(table)
    assert slices.schema == ALL_SLICES_SCHEMA
    assert files_by_state(slices, "current") == files_of_snapshot(table)
    shown = [path for row in slices.to_pylist() for path in (row["base_path"], *row["log_paths"]) if path is not None]
    stored = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and ".hoodie" not in path.parts and not path.name.endswith((".crc", ".cdc"))
    }
    data = {path for path in stored if not path.rpartition("/")[2].startswith(".hoodie_partition_metadata")}
    assert sorted(shown) == sorted(data)


def test_what_became_of_each_slice(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=9).create()
    first = writer.base_file(at(1), [ROW], file_id="f1-0")
    writer.commit(at(1), wrote=[first])
    log = writer.log_file(at(2), [writer.data_block(at(2), [ROW])])
    writer.commit(at(2), wrote=[log])
    writer.commit(at(3), action="commit", wrote=[writer.base_file(at(3), [ROW])], operation="COMPACT")
    writer.commit(at(4), wrote=[writer.base_file(at(4), [ROW], file_id="f2-0")])
    clustered = writer.base_file(at(5), [ROW], file_id="f3-0")
    writer.commit(at(5), action="replacecommit", wrote=[clustered], replaced={"": ["f2-0"]}, operation="CLUSTER")
    writer.base_file(at(6), [ROW], file_id="f4-0")
    writer.base_file(at(7), [ROW], file_id="f5-0")
    writer.pending(at(7))
    rows = {(row["file_id"], row["base_instant_time"]): row for row in inspect_all_slices(writer.open()).to_pylist()}
    assert {key: (row["state"], row["ended_by"], row["operation"]) for key, row in rows.items()} == {
        ("f1-0", at(1)): ("superseded", at(3), "UPSERT"),
        ("f1-0", at(3)): ("current", None, "COMPACT"),
        ("f2-0", at(4)): ("replaced", at(5), "UPSERT"),
        ("f3-0", at(5)): ("current", None, "CLUSTER"),
        ("f4-0", at(6)): ("failed", None, None),
        ("f5-0", at(7)): ("pending", None, None),
    }
    assert rows["f1-0", at(1)]["committed_size_bytes"] == first.stat().st_size + log.stat().st_size
    earlier = {(row["file_id"], row["state"]) for row in inspect_all_slices(writer.open(), at(2)).to_pylist()}
    assert earlier == {("f1-0", "current"), ("f1-0", "later")} | {
        ("f2-0", "later"),
        ("f3-0", "later"),
        ("f4-0", "failed"),
        ("f5-0", "pending"),
    }


def test_what_the_last_clean_would_not_keep_waits_for_the_cleaner(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    for number in (1, 2, 3):
        writer.commit(at(number), action="commit", wrote=[writer.base_file(at(number), [ROW])])
    (writer.timeline_folder / f"{at(4)}.clean").write_bytes(clean(at(3)))
    rows = inspect_all_slices(writer.open()).to_pylist()
    assert [(row["state"], row["ended_by"], row["waits_for_cleaner"]) for row in rows] == [
        ("superseded", at(2), True),
        ("superseded", at(3), False),
        ("current", None, False),
    ]


def test_the_files_of_a_group_beside_what_commits_say() -> None:
    folder = golden_table("a_story_v9_120")
    table = HudiTable.open(folder)
    group = next(row for row in inspect_all_slices(table).to_pylist() if row["log_files"])
    files = inspect_file_group(table, group["file_id"])
    assert files.schema == FILE_GROUP_SCHEMA
    for row in files.to_pylist():
        assert row["size_bytes"] == row["committed_size_bytes"] == (folder / row["path"]).stat().st_size
        assert row["action"] in ("deltacommit", "commit")
        assert row["completion_time"] > row["instant_time"]
    assert files.column("kind").to_pylist() == ["base"] + ["log"] * group["log_files"]


def test_change_data_belong_to_the_group_without_a_slice() -> None:
    table = HudiTable.open(golden_table("i_cdc_120"))
    ids = dict.fromkeys(row["file_id"] for row in inspect_all_slices(table).to_pylist())
    rows = [row for file_id in ids for row in inspect_file_group(table, file_id).to_pylist()]
    changes = [row for row in rows if row["kind"] == "change data"]
    assert changes
    assert {row["state"] for row in changes} == {None}


def test_what_archived_commits_say_of_files() -> None:
    table = HudiTable.open(golden_table("m_call_pending_120"))
    active, every = (inspect_file_group(table, archived=archived).to_pylist() for archived in (False, True))
    assert [row["path"] for row in active] == [row["path"] for row in every]
    counts = [sum(row["rows_written"] is not None for row in rows) for rows in (active, every)]
    assert counts[0] < counts[1] == len(every)
    sizes = [
        sum(row["committed_size_bytes"] or 0 for row in inspect_all_slices(table, archived=archived).to_pylist())
        for archived in (False, True)
    ]
    assert sizes[0] < sizes[1]


def test_files_of_a_commit_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", version=6).create()
    for number in (1, 2):
        writer.commit(at(number), action="commit", wrote=[writer.base_file(at(number), [ROW], file_id=f"f{number}-0")])
    (writer.timeline_folder / f"{at(1)}.commit").write_bytes(b"{")
    for rows in (inspect_all_slices(writer.open()).to_pylist(), inspect_file_group(writer.open()).to_pylist()):
        assert [row["rows_written"] for row in rows] == [None, 0]
        assert f"{at(1)}.commit" in rows[0]["problem"]
        assert rows[1]["problem"] is None


def test_no_such_group() -> None:
    with pytest.raises(QueryError, match="found 'nowhere', expected a file id"):
        inspect_file_group(HudiTable.open(golden_table("a_story_v9_120")), "nowhere")


def test_some_partitions() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    every = inspect_all_slices(table).to_pylist()
    assert inspect_all_slices(table, partitions=["a/"]).to_pylist() == [
        row for row in every if row["partition_path"] == "a"
    ]


def test_a_partition_of_which_the_files_cannot_be_told_apart_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", partition_fields=("value",)).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW], partition="a")])
    (writer.partition("b") / f"f2-0_0-1-1_{at(1)}.orc").write_bytes(b"ORC")
    rows = inspect_all_slices(writer.open()).to_pylist()
    assert [(row["partition_path"], row["state"]) for row in rows] == [("a", "current"), ("b", None)]
    assert "expected" in rows[1]["problem"] or "supported" in rows[1]["problem"]
