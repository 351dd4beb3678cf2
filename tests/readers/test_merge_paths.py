"""Other ways through the same merge: in parts of the record keys, and by key where the logs tell row positions."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiReadError, HudiTable, StorageError, open_reader, tools
from hudi_bridge.errors import CorruptLogFileError, DataFileGoneError, UnsupportedTableError
from hudi_bridge.logformat import avro_columns
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.merge.record_map import LogRecords, part_of_keys
from hudi_bridge.readers import block_decoder, log_scan
from hudi_bridge.readers.base_formats.opening import open_base_file
from hudi_bridge.readers.block_decoder import BlockDecoder
from hudi_bridge.readers.log_scan import LateLogRows, LogScan
from hudi_bridge.splits.split import RealtimeFileSplit
from tests.support.compare import differences
from tests.support.golden_cases import golden_case
from tests.support.slice_reads import slice_read
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, record_positions

TABLES = (
    "a_story_v9_120",
    "b_commit_time_120",
    "b_default_payload_0150",
    "b_event_time_120",
    "b_multi_ordering_120",
    "b_partial_update_payload_0150",
    "b_partial_update_payload_120",
    "b_sql_partial_120",
    "d_log_only_120",
    "e_virtual_keys_120",
    "g_logs_rename_readd_120",
)


@pytest.mark.parametrize("name", one_in(4, TABLES))
def test_merging_in_parts_gives_the_same_rows(name: str) -> None:
    path = str(golden_case(name) / "table")
    whole, parts = HudiTable.open(path), HudiTable.open(path, log_memory_bytes=300)
    split = max(parts.splits(), key=lambda one: one.log_size_bytes)
    assert LogScan(slice_read(parts._state.storage, split, 300)).parts > 1
    assert not differences(whole.snapshot().to_table(), parts.snapshot().to_table())


def read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> mock.Mock:
    """Has the contents of all log blocks read in small pieces; returns what counts these contents."""
    monkeypatch.setattr(log_scan, "_LARGE_FILE_BYTES", 0)
    monkeypatch.setattr(log_scan, "_LARGE_BLOCK_BYTES", 0)
    monkeypatch.setattr(avro_columns, "_PIECE_BYTES", 300)
    contents = mock.Mock(side_effect=block_decoder._pieces_of)
    monkeypatch.setattr(block_decoder, "_pieces_of", contents)
    return contents


@pytest.mark.parametrize("name", one_in(4, TABLES))
def test_contents_that_are_read_in_pieces_have_the_same_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = HudiTable.open(str(golden_case(name) / "table")).splits()
    expected = [open_reader(split).to_table() for split in splits]
    contents = read_in_pieces(monkeypatch)
    for split, rows in zip(splits, expected, strict=True):
        assert not differences(rows, open_reader(split).to_table())
    assert contents.called


def outcome(split: RealtimeFileSplit) -> list[dict[str, object]] | str:
    """The rows of a split, or what is wrong with it."""
    try:
        return open_reader(split).to_table().sort_by("id").to_pylist()
    except HudiReadError as error:
        return str(error)


@pytest.mark.long
def test_damage_is_told_in_the_same_words_where_contents_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableWriter(folder=tmp_path).create()
    rows: list[dict[str, object]] = [{"id": f"k{number}", "ts": number, "value": "v" * number} for number in range(30)]
    log = table.log_file(at(1), [table.data_block(at(1), rows)])
    table.commit(at(1))
    (split,) = HudiTable.open(tmp_path).splits()
    whole = log.read_bytes()
    (block,) = scan_blocks(whole, log.name).blocks
    damaged = [
        whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :]
        for position in range(block.content_offset, block.content_offset + block.content_bytes, 7)
    ]
    expected = []
    for content in damaged:
        log.write_bytes(content)
        expected.append(outcome(split))
    assert sum(isinstance(one, str) for one in expected) > len(damaged) // 8
    contents = read_in_pieces(monkeypatch)
    for content, told in zip(damaged, expected, strict=True):
        log.write_bytes(content)
        assert outcome(split) == told
    assert contents.called


def test_a_log_that_is_gone_or_cut_off_is_told_where_contents_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in_pieces(monkeypatch)
    table = TableWriter(folder=tmp_path).create()
    log = table.log_file(at(1), [table.data_block(at(1), [{"id": "a", "ts": 1, "value": "x"}])])
    table.commit(at(1))
    (split,) = HudiTable.open(tmp_path).splits()
    log.write_bytes(log.read_bytes()[:-5])
    with pytest.raises(StorageError, match="when listed"):
        open_reader(split).to_table()
    log.unlink()
    with pytest.raises(DataFileGoneError):
        open_reader(split).to_table()


@pytest.mark.parametrize("name", [name for name in TABLES if name.endswith("_120")])
def test_merging_by_position_gives_the_same_rows_as_by_key(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(golden_case(name) / "table")
    by_position = HudiTable.open(path).snapshot().to_table()
    monkeypatch.setattr(block_decoder, "parse_record_positions", lambda *_: None)
    assert not differences(by_position, HudiTable.open(path).snapshot().to_table())


@pytest.mark.heavy
@pytest.mark.parametrize("name", one_in(6, TABLES))
def test_decoding_columns_of_log_records_late_gives_the_same_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = HudiTable.open(str(golden_case(name) / "table")).snapshot()
    rows = dataset.to_table()
    filters: list[Any] = [pc.field(column).is_valid() for column in rows.schema.names]
    filters += [pc.field(column) == rows.column(column)[0] for column in (rows.schema.names[0], "id")]
    expected = [dataset.to_table(filter=row_filter) for row_filter in filters]
    monkeypatch.setattr(log_scan, "_MIN_LATE_BYTES", 0)
    for row_filter, actual in zip(filters, expected, strict=True):
        assert not differences(actual, dataset.to_table(filter=row_filter))


def test_only_the_rows_that_are_left_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_scan, "_MIN_LATE_BYTES", 0)
    dataset = HudiTable.open(str(golden_case("d_log_only_120") / "table")).snapshot()
    times = dataset.to_table(columns=["_hoodie_commit_time"]).column(0)
    row_filter = pc.field("_hoodie_commit_time") == times[0]
    with mock.patch.object(LateLogRows, "rows", autospec=True, side_effect=LateLogRows.rows) as decoded:
        actual = dataset.to_table(filter=row_filter).num_rows
    assert 0 < actual < len(times)
    assert sum(len(call.args[1]) for call in decoded.call_args_list) == actual


def test_positions_are_used_where_all_blocks_tell_them() -> None:
    table = HudiTable.open(str(golden_case("b_event_time_120") / "table"))
    split = max(table.splits(), key=lambda one: one.log_size_bytes)
    with open_base_file(table._state.storage, split, str(split.base_path), use_threads=False) as base:
        rows = base.num_rows
    records = LogScan(slice_read(table._state.storage, split), base_rows=rows).records()
    assert records.base_positions is not None
    assert len(records.base_positions) == len(records)


def test_equal_keys_are_in_one_part_and_parts_are_about_equal(tmp_path: Path) -> None:
    del tmp_path
    keys = pa.array([f"order-{number:09d}" for number in range(20_000)] + ["", "ü✓", "x" * 5_000])
    parts = part_of_keys(keys, 8)
    assert np.array_equal(parts, part_of_keys(pa.concat_arrays([pa.array(["a"]), keys]).slice(1), 8))
    sizes = np.bincount(parts, minlength=8)
    assert sizes.min() > 2_000
    assert len(part_of_keys(keys.slice(0, 0), 8)) == 0


def test_log_records_are_held_at_about_the_size_of_their_columns(tmp_path: Path) -> None:
    count, kinds = 20_000, ("string", "long", "int", "double")
    extra = tuple((f"c{number}", kinds[number % 4]) for number in range(18))
    writer = TableWriter(folder=tmp_path / "t", fields=(("id", "string"), ("ts", "long"), *extra)).create()
    writer.base_file(at(1), [])
    writer.commit(at(1))
    values = {name: "some text" if kind == "string" else 7 for name, kind in extra}
    for number in range(4):
        rows = [{"id": f"key-{row:08d}", "ts": row} | values for row in range(number, count, 4)]
        writer.log_file(at(2 + number), [writer.data_block(at(2 + number), rows)])
        writer.commit(at(2 + number))
    table = writer.open()
    (split,) = table.splits()
    records = LogScan(slice_read(table._state.storage, split)).records()
    assert len(records) == count
    beside = sum(column.nbytes for column in (records.keys, *records.ordering))
    beside += records.always_deletes.nbytes + records.marked.nbytes
    assert records.rows.nbytes + beside < 1.5 * records.rows.nbytes


def test_log_records_may_be_asked_for_again() -> None:
    table = HudiTable.open(str(golden_case("b_event_time_120") / "table"))
    split = max(table.splits(), key=lambda one: one.log_size_bytes)
    scan = LogScan(slice_read(table._state.storage, split, 300))
    whole = scan.records()
    again = scan.records()
    parts = [scan.records_of_part(part) for part in range(scan.parts)]
    assert len(whole) > 0
    assert again.keys.equals(whole.keys)
    assert again.rows.equals(whole.rows)
    assert sorted(str(key) for part in parts for key in part.keys) == sorted(map(str, whole.keys))


def test_parts_are_no_larger_than_arrays_can_be_however_much_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(golden_case("b_event_time_120") / "table")
    whole, parts = HudiTable.open(path), HudiTable.open(path, log_memory_bytes=1 << 40)
    expected = whole.snapshot().to_table()
    monkeypatch.setattr(log_scan, "_MAX_COLUMN_BYTES", 300)
    split = max(parts.splits(), key=lambda one: one.log_size_bytes)
    assert LogScan(slice_read(parts._state.storage, split, 1 << 40)).parts > 1
    assert not differences(expected, parts.snapshot().to_table())


@pytest.mark.parametrize("is_large", [True, False])
def test_records_of_a_part_that_are_larger_than_arrays_can_be_are_refused(
    is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where most of the records have one key."""
    table = HudiTable.open(str(golden_case("b_event_time_120") / "table"))
    error = pa.ArrowInvalid("offset overflow while concatenating arrays")
    monkeypatch.setattr(log_scan, "build_record_map", mock.Mock(side_effect=error))
    split = max(table.splits(), key=lambda one: one.log_size_bytes)
    scan = LogScan(slice_read(table._state.storage, split))
    if is_large:
        monkeypatch.setattr(log_scan, "_MAX_COLUMN_BYTES", 1)
        with pytest.raises(UnsupportedTableError, match=r"size of log records: .*\.log\..*lower log_memory_bytes"):
            scan.records_of_part(0)
    else:
        with pytest.raises(pa.ArrowInvalid):
            scan.records_of_part(0)


def test_a_reader_that_failed_does_not_go_on_without_its_first_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = HudiTable.open(str(golden_case("c_data_and_delete_block_111") / "table"))
    split = max(table.splits(), key=lambda one: one.log_size_bytes)
    scan = LogScan(slice_read(table._state.storage, split))
    whole = len(scan.records())
    decode = BlockDecoder.decode
    failing = iter([True])

    def decode_once_in_vain(self: BlockDecoder, block: LogBlock) -> LogRecords:
        if next(failing, False):
            raise CorruptLogFileError(block.path, block.offset, "a passing fault", "none")
        return decode(self, block)

    monkeypatch.setattr(BlockDecoder, "decode", decode_once_in_vain)
    with pytest.raises(CorruptLogFileError):
        scan.records()
    assert len(scan.records()) == whole


def duplicates(folder: Path) -> TableWriter:
    """A table with a base file that has a key twice, for both rows of which a log has a new version."""
    table = TableWriter(folder=folder).create()
    rows = [("k1", "one"), ("k2", "x"), ("k1", "two"), ("k3", "y")]
    table.base_file(at(1), [{"id": key, "ts": 1, "value": value} for key, value in rows], row_group_size=2)
    table.commit(at(1))
    new = [{"id": "k1", "ts": 2, "value": "new"}] * 2
    table.log_file(at(2), [table.data_block(at(2), new, positions=record_positions([0, 2], at(1)))])
    table.commit(at(2))
    return table


def rows_by_every_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Keys and values, which are the same whatever way they are read."""
    columns = ["id", "value"]
    monkeypatch.setattr(log_scan, "_MIN_LATE_BYTES", 0)
    whole, parts = HudiTable.open(folder), HudiTable.open(folder, log_memory_bytes=300)
    rows = whole.snapshot().to_table(columns=columns)
    expected = rows.filter(pc.field("id") == "k1")
    for table in (whole, parts):
        assert not differences(rows, table.snapshot().to_table(columns=columns))
        assert not differences(rows, table.snapshot().to_table(columns=columns, filter=pc.field("ts") > 0))
        assert not differences(expected, table.snapshot().to_table(columns=columns, filter=pc.field("id") == "k1"))
        assert not differences(expected, table.get(["k1"]).select(columns))
        assert not differences(expected, tools.history_of(table, "k1").result.select(columns))
    return sorted((row["id"], row["value"]) for row in rows.to_pylist())


def test_rows_of_equal_keys_are_replaced_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    duplicates(tmp_path)
    assert rows_by_every_path(tmp_path, monkeypatch) == [("k1", "new"), ("k1", "new"), ("k2", "x"), ("k3", "y")]


def test_rows_are_the_same_by_every_path_where_contents_are_read_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duplicates(tmp_path)
    expected = rows_by_every_path(tmp_path, monkeypatch)
    contents = read_in_pieces(monkeypatch)
    assert rows_by_every_path(tmp_path, monkeypatch) == expected
    assert contents.called


def test_rows_of_equal_keys_are_deleted_by_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = duplicates(tmp_path)
    block = table.delete_block(at(3), [("k1", 3)] * 2, positions=record_positions([0, 2], at(1)))
    table.log_file(at(3), [block])
    table.commit(at(3))
    assert rows_by_every_path(tmp_path, monkeypatch) == [("k2", "x"), ("k3", "y")]


def test_after_a_block_without_positions_only_the_first_row_of_a_key_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = duplicates(tmp_path)
    table.log_file(at(3), [table.data_block(at(3), [{"id": "k2", "ts": 3, "value": "newer"}])])
    table.commit(at(3))
    block = table.data_block(at(4), [{"id": "k3", "ts": 3, "value": "newer"}], positions=record_positions([3], at(1)))
    table.log_file(at(4), [block])
    table.commit(at(4))
    expected = [("k1", "new"), ("k1", "two"), ("k2", "newer"), ("k3", "newer")]
    assert rows_by_every_path(tmp_path, monkeypatch) == expected


@pytest.mark.parametrize("position", [1, 2])
def test_a_position_of_another_key_is_told_where_logs_are_merged_in_parts(tmp_path: Path, position: int) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in "abcdefgh"])
    table.commit(at(1))
    places = sorted({position, 3, 4, 5, 6, 7})
    rows = [{"id": "b", "ts": 2, "value": "new"}] + [
        {"id": "abcdefgh"[item], "ts": 2, "value": "v"} for item in places[1:]
    ]
    table.log_file(at(2), [table.data_block(at(2), rows, positions=record_positions(places, at(1)))])
    table.commit(at(2))
    snapshot = HudiTable.open(tmp_path, log_memory_bytes=300).snapshot()
    if position == 1:
        assert snapshot.to_table(columns=["value"]).num_rows == 8
        return
    with pytest.raises(CorruptLogFileError, match=r"2 in the logs for the record key 'b'|logs have a position of 'b'"):
        snapshot.to_table(columns=["value"])


@pytest.mark.parametrize("columns", [None, ["_hoodie_record_key", "value"]])
def test_a_position_of_another_key_is_told_where_keys_are_read(tmp_path: Path, columns: list[str] | None) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in "abc"])
    table.commit(at(1))
    block = table.data_block(at(2), [{"id": "b", "ts": 2, "value": "new"}], positions=record_positions([2], at(1)))
    table.log_file(at(2), [block], base_instant=at(1))
    table.commit(at(2))
    with pytest.raises(CorruptLogFileError, match="'c' where the logs have a position of 'b'"):
        table.open().snapshot().to_table(columns=columns)
