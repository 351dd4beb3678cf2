"""Read-optimized queries: base files alone."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.support.table_writer import TableWriter, at, sorted_column

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
        assert [part.log_paths for split in dataset.splits() for part in split.slices] == [()]
        assert dataset.count_rows(pc.field("id") == "c") == 0


def test_the_newest_base_file_is_read(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path, 9)
    table.base_file(at(3), [NEW])
    table.commit(at(3), action="commit")
    actual = table.open().read_optimized().to_table()
    assert actual.column("value").to_pylist() == ["new"]
    assert table.open().read_optimized(at(2)).count_rows() == 2


def test_rows_keep_the_order_of_the_file(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    keys = [f"k{number}" for number in (3, 1, 2, 0)]
    table.base_file(at(1), [{"id": key, "ts": 1, "value": key} for key in keys], row_group_size=2)
    table.commit(at(1))
    assert table.open().read_optimized().to_table().column("id").to_pylist() == keys


STRUCT: Any = {"type": "record", "name": "s", "fields": [{"name": name, "type": "long"} for name in "ab"]}


@pytest.mark.parametrize(
    "columns", [None, ["id"], ["y", "id"], ["s", "y", "x", "id"], ["ts", "id", "_hoodie_record_key"]]
)
def test_positions_in_a_filter_are_those_of_the_table_and_not_of_the_file(
    tmp_path: Path, columns: list[str] | None
) -> None:
    stored = (("id", "string"), ("ts", "long"), ("y", "long"), ("x", "long"), ("s", STRUCT))
    table = TableWriter(folder=tmp_path, fields=stored).create()
    rows = [{"id": f"k{n}", "ts": 1, "x": n, "y": 1000 + n, "s": {"a": n, "b": 1000 + n}} for n in range(6)]
    written = table.base_file(at(1), rows, row_group_size=2)
    newer = replace(table, fields=(*stored[:2], *stored[2:4][::-1], stored[4]))
    newer.commit(at(1), wrote=[written])
    dataset = table.open().snapshot()
    position = dataset.schema.get_field_index("x")
    assert dataset.schema.names[position:] == ["x", "y", "s"]
    every = dataset.to_table()
    for row_filter in (
        pc.field(position) <= 1,
        pc.field(position + 1) >= 1004,
        (pc.field(position) <= 1) & (pc.field("y") >= 1001),
        pc.field((position + 2, 0)) >= 4,  # type: ignore[arg-type]  # missing from the stubs
        pc.field(("s", 0)) <= 1,  # type: ignore[arg-type]  # missing from the stubs
    ):
        expected = every.filter(row_filter).column("id").to_pylist()
        assert 1 <= len(expected) <= 2
        assert dataset.to_table(columns, row_filter).column("id").to_pylist() == expected
        assert dataset.filter(row_filter).to_table(columns).column("id").to_pylist() == expected
