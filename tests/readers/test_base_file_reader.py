"""Read-optimized queries: base files alone."""

from pathlib import Path

import pyarrow.compute as pc

from tests.table_writer import TableWriter, at, sorted_column

NEW = {"id": "a", "ts": 9, "value": "new"}


def table_with_logs(folder: Path, version: int) -> TableWriter:
    table = TableWriter(folder=folder, version=version).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in "ab"])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [NEW]), table.delete_block(at(2), [("b", 9)])], base_instant=at(1))
    table.log_file(at(2), [table.data_block(at(2), [NEW | {"id": "c"}])], file_id="g-0")
    table.commit(at(2))
    return table


def test_logs_are_left_out_and_counted(tmp_path: Path) -> None:
    for version in (6, 9):
        dataset = table_with_logs(tmp_path / str(version), version).open().read_optimized()
        assert sorted_column(dataset.to_table(), "value") == ["a", "b"]
        assert dataset.left_out_log_files() == 2
        assert [piece.log_paths for split in dataset.splits() for piece in split.slices] == [()]
        assert dataset.count_rows(pc.field("id") == "c") == 0


def test_the_newest_base_file_is_read(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path, 9)
    table.base_file(at(3), [NEW])
    table.commit(at(3), action="commit")
    found = table.open().read_optimized().to_table()
    assert found.column("value").to_pylist() == ["new"]
    assert table.open().read_optimized(at(2)).count_rows() == 2


def test_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    keys = [f"k{number}" for number in (3, 1, 2, 0)]
    table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in keys], row_group_size=2)
    table.commit(at(1))
    assert table.open().read_optimized().to_table().column("id").to_pylist() == keys
