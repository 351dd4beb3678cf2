"""Log blocks and the records in them, beside what snapshots merge."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError, UnsupportedTableError
from hudi_bridge.inspection import LOG_BLOCKS_SCHEMA, inspect_log_blocks, inspect_log_records, log_files
from tests.connectors.damage import copy_with_damaged_logs
from tests.support.compatibility_page import golden_tables
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_merger_table, golden_table, spread
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, record_positions

REASONS = ("later than", "uncommitted", "rolled back by", "replaced by the block of a log compaction")
ROW = {"id": "a", "ts": 1, "value": "x"}


def with_logs() -> list[str]:
    return [table.name for table in golden_tables() if any(golden_table(table.name).rglob(".*.log.*"))]


@pytest.mark.parametrize("name", one_in(5, spread(with_logs(), 60)))
def test_what_counts_is_what_a_snapshot_merges(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    blocks = inspect_log_blocks(table)
    assert blocks.schema == LOG_BLOCKS_SCHEMA
    rows = blocks.to_pylist()
    in_current = {log.path for part in table.file_slices() for log in part.log_files}
    later, uncommitted, rolled_back, compacted = (
        sum((row["why_not"] or "").startswith(start) for row in rows if row["path"] in in_current) for start in REASONS
    )
    skipped = table.snapshot().skipped_log_blocks()
    assert compacted == skipped.compacted
    # A rollback is told first, whatever else holds for the block.
    assert later + uncommitted + rolled_back == skipped.later + skipped.uncommitted + skipped.rolled_back
    assert sum(row["kind"] == "damaged" for row in rows) >= skipped.corrupt


@pytest.mark.parametrize("name", one_in(5, spread(with_logs(), 30)))
def test_as_many_records_as_the_blocks_say(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    blocks, records = inspect_log_blocks(table), inspect_log_records(table).read_all()
    said = {
        (row["path"], row["block"]): (row["rows"] or 0) + (row["deletes"] or 0)
        for row in blocks.to_pylist()
        if row["rows"] is not None or row["deletes"] is not None
    }
    decoded = Counter((row["path"], row["block"]) for row in records.to_pylist() if row["problem"] is None)
    assert decoded == {key: number for key, number in said.items() if number}
    counted = records.filter(pc.field("counts"))
    assert set(counted.column("path").to_pylist()) <= {row["path"] for row in blocks.to_pylist() if row["counts"]}


def story(folder: Path) -> TableWriter:
    """Three rows, an update, a delete, a failed update and its rollback."""
    writer = TableWriter(folder=folder, version=6).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW, ROW | {"id": "b"}, ROW | {"id": "c"}])])
    blocks = [
        writer.data_block(at(2), [ROW | {"ts": 5, "value": "y"}], positions=record_positions([0], at(1))),
        writer.delete_block(at(3), [("b", 7), ("c", None)]),
        writer.data_block(at(4), [ROW | {"ts": 9}]),
    ]
    writer.commit(at(2), wrote=[writer.log_file(at(2), blocks, base_instant=at(1))])
    writer.commit(at(3))
    writer.pending(at(4))
    return writer


def test_the_records_of_a_log_file(tmp_path: Path) -> None:
    table = story(tmp_path / "t").open()
    records = inspect_log_records(table, columns=["value"]).read_all()
    assert records.schema.field("row").type == pa.struct([("value", pa.string())])
    shown = ("block", "record", "counts", "record_key", "ordering", "operation", "position", "row")
    assert [tuple(row[name] for name in shown) for row in records.to_pylist()] == [
        (1, 1, True, "a", ["5"], "upsert", 0, {"value": "y"}),
        (2, 1, True, "b", ["7"], "delete", None, None),
        (2, 2, True, "c", [None], "delete", None, None),
        (3, 1, False, "a", ["9"], "upsert", None, {"value": "x"}),
    ]
    passing = inspect_log_records(table, columns=["id"], filter=pc.field("ts") > 5).read_all()
    assert passing.column("row").to_pylist() == [{"id": "a"}]


def test_the_blocks_of_a_log_file(tmp_path: Path) -> None:
    rows = inspect_log_blocks(story(tmp_path / "t").open()).to_pylist()
    assert [(row["kind"], row["rows"], row["deletes"], row["counts"], row["why_not"]) for row in rows] == [
        ("rows (Avro)", 1, None, True, None),
        ("deletes", None, 2, True, None),
        ("rows (Avro)", 1, None, False, "uncommitted: its commit is pending"),
    ]
    positions = [(row["positions"], row["base_instant_of_positions"]) for row in rows]
    assert positions == [(1, at(1)), (None, None), (None, None)]
    earlier = inspect_log_blocks(story(tmp_path / "u").open(), as_of=at(2)).column("why_not").to_pylist()
    assert earlier == [None, f"later than {at(2)}", "uncommitted: its commit is pending"]


@pytest.mark.parametrize("name", ["a_story_v9_120", "a_story_v6_0150"])
def test_heads_of_large_files_tell_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table(name))
    whole = inspect_log_blocks(table)
    monkeypatch.setattr(log_files, "_WHOLE_FILE_BYTES", 0)
    assert inspect_log_blocks(table) == whole
    assert inspect_log_records(table).read_all().num_rows == sum(
        (row["rows"] or 0) + (row["deletes"] or 0) for row in whole.to_pylist()
    )


@pytest.mark.parametrize("name", [name for name in with_logs() if "parquet_logs" in name or "hfile" in name][:4])
def test_heads_of_columnar_blocks_tell_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table(name))
    whole = inspect_log_blocks(table)
    monkeypatch.setattr(log_files, "_WHOLE_FILE_BYTES", 0)
    assert inspect_log_blocks(table) == whole


def test_one_file_by_its_name_and_one_group() -> None:
    table = HudiTable.open(golden_table("a_story_v9_120"))
    rows = inspect_log_blocks(table).to_pylist()
    path = rows[3]["path"]
    of_file = [row for row in rows if row["path"] == path]
    assert inspect_log_blocks(table, path).to_pylist() == of_file
    assert inspect_log_blocks(table, path.rpartition("/")[2]).to_pylist() == of_file
    file_id = rows[0]["file_id"]
    assert inspect_log_blocks(table, file_id=file_id).to_pylist() == [row for row in rows if row["file_id"] == file_id]
    with pytest.raises(QueryError, match="log file"):
        inspect_log_blocks(table, "a/nothing.log.1")
    with pytest.raises(QueryError, match="file group"):
        inspect_log_blocks(table, file_id="nowhere")


def test_change_data_is_named_and_not_merged() -> None:
    rows = inspect_log_blocks(HudiTable.open(golden_table("i_cdc_120"))).to_pylist()
    kinds = {(row["kind"], row["counts"]) for row in rows if row["kind"] == "change data"}
    assert kinds == {("change data", False)}


def test_records_that_only_a_payload_of_the_users_could_merge_are_shown() -> None:
    for folder in sorted(golden_merger_table().parent.iterdir()):
        table = HudiTable.open(folder / "table")
        with pytest.raises(UnsupportedTableError):
            table.splits()
        blocks, records = inspect_log_blocks(table).to_pylist(), inspect_log_records(table).read_all()
        assert records.num_rows == sum((row["rows"] or 0) + (row["deletes"] or 0) for row in blocks) > 0
        assert records.column("problem").null_count == records.num_rows
        assert any(values and values[0] for values in records.column("ordering").to_pylist())


def test_a_log_in_a_table_that_merges_none_is_shown(tmp_path: Path) -> None:
    writer = story(tmp_path / "t")
    properties = writer.folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("MERGE_ON_READ", "COPY_ON_WRITE"))
    records = inspect_log_records(writer.open()).read_all()
    assert records.column("record_key").to_pylist() == ["a", "b", "c", "a"]
    assert records.column("problem").null_count == 4


def test_a_partition_of_which_the_files_cannot_be_told_apart_is_a_row(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", partition_fields=("value",)).create()
    writer.commit(at(1), wrote=[writer.base_file(at(1), [ROW], partition="a")])
    (writer.partition("b") / f"f2-0_0-1-1_{at(1)}.orc").write_bytes(b"ORC")
    for shown in (inspect_log_blocks(writer.open()), inspect_log_records(writer.open()).read_all()):
        (row,) = shown.to_pylist()
        assert (row["partition_path"], row["path"], row["counts"]) == ("b", None, False)
        assert ".orc" in row["problem"] or "orc" in row["problem"].lower()


def test_a_block_that_cannot_be_decoded_is_a_row_and_the_others_are_read(tmp_path: Path) -> None:
    table = HudiTable.open(copy_with_damaged_logs("a_story_v9_120", tmp_path))
    records = inspect_log_records(table).read_all().to_pylist()
    problems = [row for row in records if row["problem"] is not None]
    assert {(row["counts"], row["row"]) for row in problems} == {(False, None)}
    assert any(row["block"] for row in problems)
    assert len(inspect_log_blocks(table)) == len(inspect_log_blocks(HudiTable.open(golden_table("a_story_v9_120"))))


def test_a_file_that_is_no_log_is_a_row(tmp_path: Path) -> None:
    writer = story(tmp_path / "t")
    writer.commit(at(5), wrote=[(log := writer.log_file(at(5), [b"no block"], base_instant=at(1), number=2))])
    *blocks, last = inspect_log_blocks(writer.open()).to_pylist()
    assert (last["path"], last["kind"], last["counts"]) == (log.name, "damaged", False)
    assert "found b'no blo', expected b'#HUDI#'" in last["problem"]
    assert {row["why_not"] for row in blocks} == {"unknown: another log file of its slice cannot be read"}


@pytest.mark.parametrize("most_bytes", [1 << 20, 0])
def test_a_log_file_of_a_store_takes_few_requests(most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_files, "_WHOLE_FILE_BYTES", most_bytes)
    files = CountingFileSystem()
    table = HudiTable.open(str(golden_table("a_story_v9_120")), filesystem=files)
    requests = files.reset()
    inspect_log_blocks(table)
    # Deletes are counted by reading them.
    assert set(requests.by_file.values()) <= ({1} if most_bytes else {1, 2})
    assert all(".log." in name for name in requests.opened)
    assert requests.listings <= len({part.partition_path for part in table.file_slices()}) + 2
