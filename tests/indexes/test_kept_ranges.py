"""Queries pass over slices by the ranges of files that were read before, as long as these are those of the slice."""

import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.indexes.query_indexes import STEP
from hudi_bridge.options import DATA_SKIPPING_KEY
from hudi_bridge.readers.column_ranges import known_ranges
from tests.support.table_writer import TableWriter, at

FIELDS = (("id", "string"), ("ts", "long"), ("x", "double"), ("value", "string"))
EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}


def rows(values: Iterable[float], first: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": f"k{number}", "ts": 1, "x": x, "value": f"v{number}"} for number, x in enumerate(values, start=first)
    ]


class Written:
    """A table of three slices: 0 to 9, 10 to 19 with a log that moves one row to 100, and 20 to 29."""

    def __init__(self, folder: Path, version: int = 9) -> None:
        options = EVENT_TIME if version >= 8 else {}
        self.writer = TableWriter(folder=folder, version=version, fields=FIELDS, options=options).create()
        for number in range(3):
            values = range(number * 10, number * 10 + 10)
            self.writer.base_file(at(1), rows(values, values[0]), file_id=f"f{number}-0")
        self.writer.commit(at(1))
        self.log(at(2), 11, 100.0)
        self.writer.commit(at(2))

    def log(self, instant: str, row: int, x: float, number: int = 1) -> None:
        changed = [rows([x], row)[0] | {"ts": int(instant[-4:])}]
        block = self.writer.data_block(instant, changed, file_id="f1-0")
        self.writer.log_file(instant, [block], base_instant=at(1), number=number, file_id="f1-0")


X = pc.field("x")


def read(table: HudiTable, row_filter: pc.Expression) -> tuple[int, int]:
    """The number of slices, then of rows."""
    slices = len(table.splits(filter=row_filter))
    return slices, table.snapshot().to_table(filter=row_filter).num_rows


@pytest.mark.parametrize("version", [6, 9])
def test_slices_that_were_read_are_passed_over(tmp_path: Path, version: int) -> None:
    Written(tmp_path / "t", version)
    table = HudiTable.open(tmp_path / "t")
    assert read(table, X < 5) == (3, 5)
    assert read(table, X < 5) == (1, 5)
    assert read(table, X >= 100) == (1, 1)
    assert read(table, X > 100) == (0, 0)
    assert read(table, (X > 29) & (X < 100)) == (0, 0)
    assert read(table, (X > 15) & (X < 25)) == (2, 9)
    assert read(table, (X == 3) | (X == 5.5)) == (1, 1)
    assert read(table, (X > 100) | (pc.field("value") == "v3")) == (2, 1)
    assert read(table, (X > 100) | (pc.field("value") == "v3")) == (1, 1)
    assert f"  {STEP}: 0 of 3 file slices" in str(table.snapshot().explain(X > 100))
    without = HudiTable.open(tmp_path / "t", options={DATA_SKIPPING_KEY: "false"})
    assert [read(without, X < 5) for _ in range(2)] == [(3, 5), (3, 5)]


@pytest.mark.parametrize("version", [6, 9])
def test_what_has_been_written_since_is_read(tmp_path: Path, version: int) -> None:
    written = Written(tmp_path / "t", version)
    table = HudiTable.open(tmp_path / "t")
    for _ in range(2):
        assert read(table, X > 50)[1] == 1
    written.log(at(3), 12, 500.0, number=2)
    written.writer.commit(at(3))
    assert read(table.refresh(), X > 200) == (1, 1)
    assert read(table.refresh(), X > 200) == (1, 1)
    assert table.snapshot(at(2)).to_table(filter=X > 200).num_rows == 0


@pytest.mark.parametrize("version", [6, 9])
def test_blocks_that_have_begun_to_count_are_read(tmp_path: Path, version: int) -> None:
    written = Written(tmp_path / "t", version)
    written.log(at(3), 12, 500.0, number=2)
    written.writer.pending(at(3))
    written.log(at(4), 13, 60.0, number=3)
    written.writer.commit(at(4))
    table = HudiTable.open(tmp_path / "t")
    assert read(table, X > 50) == (3, 2)
    assert read(table, X > 200)[1] == 0
    written.writer.commit(at(3))
    assert read(table.refresh(), X > 200) == (1, 1)


def test_rows_without_a_number_are_found(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", fields=FIELDS, options=EVENT_TIME).create()
    writer.base_file(at(1), rows([1.0, math.nan]), row_group_size=2)
    block = writer.data_block(at(2), rows([math.nan, 2.0], 5))
    writer.commit(at(1))
    writer.log_file(at(2), [block])
    writer.commit(at(2))
    table = HudiTable.open(tmp_path / "t")
    assert read(table, X > 5) == (1, 0)
    assert read(table, X > 5) == (0, 0)
    assert read(table, (X > 5) | pc.is_nan(X)) == (1, 2)
    assert read(table, ~(X <= 5)) == (1, 2)
    assert read(table, X != 1) == (1, 3)


def test_row_groups_are_passed_over_by_floats_and_wider_numbers(tmp_path: Path) -> None:
    narrow = TableWriter(folder=tmp_path / "t", fields=(("id", "string"), ("ts", "int"), ("x", "double"))).create()
    narrow.base_file(at(1), [{"id": f"k{n}", "ts": n, "x": n / 2} for n in range(6)], row_group_size=2)
    narrow.commit(at(1))
    wide = TableWriter(folder=tmp_path / "t", fields=(("id", "string"), ("ts", "long"), ("x", "double")))
    wide.commit(at(2))
    dataset = HudiTable.open(tmp_path / "t").snapshot()
    for row_filter, groups, actual in ((pc.field("ts") >= 4, 1, 2), (X < 0.7, 1, 2), (X != 1, 3, 5)):
        explanation = dataset.explain(row_filter)
        assert (explanation.row_groups_read, dataset.to_table(filter=row_filter).num_rows) == (groups, actual)


def test_a_column_with_a_default_is_not_known_of_logs(tmp_path: Path) -> None:
    Written(tmp_path / "t")
    table = HudiTable.open(tmp_path / "t")
    assert read(table, X > 200)[1] == 0
    (split,) = (item for item in table.splits() if item.log_paths)
    assert known_ranges(table.storage, split, "x") == ((10.0, 19.0), (100.0, 100.0))
    since = replace(split, context=replace(split.context, field_defaults=(("x", "900.0"),)))
    assert known_ranges(table.storage, since, "x") is False
