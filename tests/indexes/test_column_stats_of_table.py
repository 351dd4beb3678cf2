"""Queries pass over slices by column stats, with the same rows as without; stats that are damaged are done without."""

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from hudi_bridge.indexes.data_skipping import stats_of_files
from hudi_bridge.indexes.record_kinds import KEY, column_id, file_id, partition_id
from hudi_bridge.options import DATA_SKIPPING_KEY, METADATA_TABLE_KEY
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

TABLES = ("h_all_indexes_120", "h_column_stats_0150", "h_column_stats_120")


def slices(table: HudiTable, row_filter: pc.Expression) -> int:
    return len(table.splits(filter=row_filter))


def condition_on_ts(table: HudiTable) -> pc.Expression:
    """A condition that only the row with the least value meets."""
    least = pc.min(table.snapshot().to_table(columns=["ts"]).column("ts"))
    return pc.field("ts") == pa.scalar(least.as_py(), pa.int64())


@pytest.mark.parametrize("name", one_in(2, TABLES))
@pytest.mark.parametrize("switch", [DATA_SKIPPING_KEY, METADATA_TABLE_KEY])
def test_rows_are_the_same_with_and_without(name: str, switch: str) -> None:
    path = golden_table(name)
    table, without = HudiTable.open(path), HudiTable.open(path, options={switch: "false"})
    condition = condition_on_ts(table)
    assert 0 < slices(table, condition) < slices(without, condition)
    for query in ("snapshot", "read_optimized"):
        actual, expected = (getattr(item, query)().to_table(filter=condition) for item in (table, without))
        assert differences(actual, expected) == []
    assert table.snapshot().to_table(filter=condition).num_rows > 0


def test_earlier_states_are_read_with_them_too() -> None:
    table = HudiTable.open(golden_table("h_column_stats_120"))
    first = table.timeline.commits()[0].requested_time
    earlier = table.snapshot(first)
    low = pc.min(earlier.to_table(columns=["ts"]).column("ts"))
    condition = pc.field("ts") < low
    assert list(earlier.splits(condition)) == []
    assert list(earlier.splits()) != []


@pytest.mark.parametrize("name", one_in(2, TABLES))
def test_ranges_of_commits_are_read_with_them_too(name: str) -> None:
    path = golden_table(name)
    table, without = HudiTable.open(path), HudiTable.open(path, options={METADATA_TABLE_KEY: "false"})
    unread = HudiTable.open(path, options={METADATA_TABLE_KEY: "false"})
    commits = [commit.requested_time for commit in table.timeline.commits()]
    values = without.snapshot().to_table(columns=["ts"]).column("ts")
    least, greatest = pc.min(values), pc.max(values)
    for after in ("earliest", commits[0], commits[-2]):
        actual, expected = (item.incremental(after) for item in (table, without))
        for condition in (pc.field("ts") <= least, pc.field("ts") == greatest, pc.field("ts") > greatest):
            assert differences(actual.to_table(filter=condition), expected.to_table(filter=condition)) == []
            assert len(list(actual.splits(condition))) <= len(list(unread.incremental(after).splits(condition)))
        assert list(actual.splits(pc.field("ts") > greatest)) == []
    assert list(unread.incremental("earliest").splits(pc.field("ts") > greatest)) != []


def test_a_partition_is_no_reason_to_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table("h_column_stats_120"))
    monkeypatch.setattr("hudi_bridge.indexes.data_skipping.stats_of_files", None)
    assert table.snapshot().to_table(filter=pc.field("part") == "a").num_rows > 0


@pytest.mark.parametrize("damage", [b"", b"\xff"])
def test_damaged_stats_are_reported_once_and_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: bytes
) -> None:
    copy = tmp_path / "t"
    shutil.copytree(golden_table("h_column_stats_120"), copy)
    files = [path for path in (copy / ".hoodie/metadata/column_stats").iterdir() if path.suffix == ".hfile"]
    assert files
    for path in files:
        path.write_bytes(damage * path.stat().st_size)
    table = HudiTable.open(copy)
    condition = condition_on_ts(table)
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        assert slices(table, condition) == len(table.splits())
        assert table.snapshot().to_table(filter=condition).num_rows > 0
    assert sum("column stats are not used" in record.message for record in caplog.records) == 1


def test_the_column_stats_of_a_file_with_nan_are_those_of_zeros() -> None:
    table = HudiTable.open(golden_table("h_stats_of_nan_120"))
    files = [split.base_path for split in table.splits() if split.base_path is not None]
    keys = [
        f"{column_id('price')}{partition_id(path)}{file_id(name)}" for path, name in (file.split("/") for file in files)
    ]
    stats = stats_of_files(table._metadata_table, "price", keys).select([KEY, "min_value", "max_value"]).to_pylist()
    ranges = {item[KEY]: (item["min_value"]["double"], item["max_value"]["double"]) for item in stats}
    wrong = 0
    for key, path in zip(keys, files, strict=True):
        values = pq.read_table(golden_table("h_stats_of_nan_120") / path).column("price")
        if pc.any(pc.is_nan(values)).as_py():
            assert ranges[key] == (0.0, 0.0)
            wrong += 1
        else:
            assert ranges[key] == (pc.min(values).as_py(), pc.max(values).as_py())
    assert wrong > 1
    price = pc.field("price")
    # Nine files without logs; Hudi passes over the one that has this row.
    assert table.snapshot().to_table(filter=price == 14).num_rows == 1
    assert "they do not tell of price" in str(table.snapshot().explain(price == 14))
    # What has been read is another matter.
    everything = table.snapshot().to_table()
    for row_filter in (
        price == 14,
        price > 100,
        price < 0,
        price != 14,
        (price > 100) | pc.is_nan(price),
        ~(price < 15),
    ):
        expected = everything.filter(row_filter)
        for _ in range(2):
            assert differences(table.snapshot().to_table(filter=row_filter), expected) == []
    assert len(table.splits(filter=price == 104)) < len(table.splits())
