import pytest

from hudi_bridge.indexes.record_kinds import COLUMN_STATS, column_id, file_id, partition_id
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table


def test_ids_are_those_of_hudi() -> None:
    assert column_id("part") == "+WGrmgkN3io="
    assert partition_id("a") == "BFHqp2KLzrM="


@pytest.mark.parametrize("name", ["h_all_indexes_120", "h_column_stats_0150", "h_column_stats_120"])
def test_keys_of_real_records_are_made_of_the_ids(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    partitions = [partition_id(split.partition_path) for split in table.splits()]
    checked = 0
    for records in table._metadata_table.all(COLUMN_STATS):
        for row in records.to_pylist():
            start, end = column_id(row["column"]), file_id(row["file_name"])
            assert row["key"].startswith(start)
            assert row["key"].endswith(end)
            assert row["key"].removeprefix(start).removesuffix(end) in partitions
            checked += 1
    assert checked > 400
