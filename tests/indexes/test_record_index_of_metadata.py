import pytest

from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.indexes.record_index import record_locations
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table

GLOBAL = (
    "h_all_indexes_120",
    "h_expression_index_102",
    "h_record_index_0150",
    "h_record_index_120",
    "h_secondary_index_120",
)
PARTITIONED = "h_partitioned_record_index_120"
NAMES = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name", "_hoodie_commit_time")


def metadata_table(table: HudiTable) -> MetadataTable:
    return MetadataTable(table._state)


def rows_of(table: HudiTable) -> dict[str, tuple[str, str]]:
    rows = table.snapshot().to_table(columns=list(NAMES)).to_pylist()
    return {
        row["_hoodie_record_key"]: (row["_hoodie_partition_path"], row["_hoodie_file_name"].partition("_")[0])
        for row in rows
    }


@pytest.mark.parametrize("name", [*GLOBAL, PARTITIONED])
def test_every_row_is_where_the_index_says(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    expected = rows_of(table)
    actual = record_locations(metadata_table(table), [*expected, "no such key", ""])
    assert {row["key"]: (row["partition"], row["file_id"]) for row in actual.to_pylist()} == expected


@pytest.mark.parametrize("name", [*GLOBAL, PARTITIONED])
def test_keys_that_were_deleted_are_not_in_the_index(name: str) -> None:
    table = HudiTable.open(golden_table(name))
    first = table.snapshot(as_of=table.timeline.commits()[0].requested_time)
    earlier = set(map(str, first.to_table(columns=["_hoodie_record_key"]).column(0).to_pylist()))
    gone = sorted(earlier - set(rows_of(table)))
    assert gone
    assert len(record_locations(metadata_table(table), gone)) == 0


def test_an_index_of_each_partition_is_asked_in_those_named() -> None:
    table = HudiTable.open(golden_table(PARTITIONED))
    metadata, expected = metadata_table(table), rows_of(table)
    assert set(metadata.file_groups("record_index")) == {"part=a", "part=b", "part=c"}
    actual = record_locations(metadata, list(expected), within=["part=a", "part=x"])
    assert set(actual.column("key").to_pylist()) == {key for key, (path, _) in expected.items() if path == "part=a"}


def test_a_global_index_ignores_the_partitions_named() -> None:
    table = HudiTable.open(golden_table("h_record_index_120"))
    assert len(record_locations(metadata_table(table), list(rows_of(table)), within=["a"])) == 880


def test_the_instant_is_that_of_the_insert() -> None:
    table = HudiTable.open(golden_table("h_record_index_120"))
    row = record_locations(metadata_table(table), ["k00001"]).to_pylist()[0]
    inserted = table.timeline.commits()[0].requested_time
    assert f"{row['instant']:%Y%m%d%H%M%S}{row['instant'].microsecond // 1000:03d}" == inserted
