"""Look-ups by the record index list no other partitions than those that it names."""

import logging
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.indexes import record_index
from hudi_bridge.indexes.record_index import LOCATIONS
from hudi_bridge.splits import table_files
from tests.support.golden_cases import golden_random_tables, golden_table
from tests.support.strength import one_in

FEW = pytest.mark.parametrize("few_folders", [0, 8])


@FEW
@pytest.mark.parametrize(
    "case", one_in(2, ["h_record_index_0150", "h_all_indexes_120", "h_partitioned_record_index_120"])
)
def test_only_the_partitions_of_the_keys_are_listed(
    case: str, few_folders: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", few_folders)
    everything = HudiTable.open(golden_table(case)).snapshot().to_table()
    row = everything.filter(pc.field("id") == "k00001")
    table = HudiTable.open(golden_table(case))
    explanation = table.snapshot().explain(pc.field("id") == "k00001")
    assert {item.partition_path for item in explanation.slices} == set(row["_hoodie_partition_path"].to_pylist())
    assert explanation.slices_listed < len(HudiTable.open(golden_table(case)).splits())
    assert table.get("k00001").equals(row)
    assert table.get("nowhere").num_rows == 0
    # All splits are known then.
    assert len(table.splits()) > explanation.slices_listed
    assert table.get("k00001").equals(row)
    assert [split.file_id for split in table.splits(filter=pc.field("id") == "k00001")] == [
        explanation.slices[0].file_id
    ]


def test_a_key_in_another_partition_than_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)
    table = HudiTable.open(golden_table("h_record_index_0150"))
    path = table.get("k00001")["_hoodie_partition_path"][0].as_py()
    assert table.get("k00001", partition_path=path).num_rows == 1
    assert table.get("k00001", partition_path="elsewhere").num_rows == 0
    actual = table.snapshot().to_table(
        filter=(pc.field("id") == "k00001") & (pc.field("part") != path.rpartition("=")[2])
    )
    assert actual.num_rows == 0


@pytest.mark.parametrize("path", ["../outside", "/etc", "a/../../b"])
def test_an_index_with_paths_that_leave_the_table_is_not_used(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def elsewhere(*_: object) -> pa.Table:
        return pa.table({"key": ["k00001"], "partition": [path], "file_id": ["f"], "instant": [None]}, schema=LOCATIONS)

    monkeypatch.setattr(record_index, "record_locations", elsewhere)
    table = HudiTable.open(golden_table("h_record_index_0150"))
    with caplog.at_level(logging.WARNING):
        assert table.get("k00001").num_rows == 1
        assert table.get("k00001").num_rows == 1
    (message,) = [record.message for record in caplog.records if "record index" in record.message]
    assert "leaves the table" in message


def test_a_partition_that_is_gone_has_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> pa.Table:
        return pa.table({"key": ["k"], "partition": ["gone"], "file_id": ["f"], "instant": [None]}, schema=LOCATIONS)

    monkeypatch.setattr(record_index, "record_locations", gone)
    for few_folders in (0, 8):
        monkeypatch.setattr(table_files, "_FEW_FOLDERS", few_folders)
        assert HudiTable.open(golden_table("h_record_index_0150")).get("k").num_rows == 0


@pytest.mark.parametrize("keys", ["k00001", {"id": "k00001"}, ["k00001"], [{"id": "k00001"}, "k00001"]])
def test_keys_are_located_as_they_are_looked_up(keys: Any) -> None:
    actual = HudiTable.open(golden_table("h_record_index_0150")).record_locations(keys)
    assert actual is not None
    assert actual.column("key").to_pylist() == ["k00001"]
    assert actual.schema.field("instant").type == pa.timestamp("ms", "UTC")


@pytest.mark.parametrize("keys", [[1.5], [None], [b"k00001"], {"name": "k00001"}, ["\ud800"]])
def test_what_is_no_key_is_not_located(keys: Any) -> None:
    table = HudiTable.open(golden_table("h_record_index_0150"))
    for look_up in (table.record_locations, table.get):
        with pytest.raises(QueryError) as caught:
            look_up(keys)
        assert caught.value.argument == "keys"


def test_the_number_of_a_key_is_located_by_its_text() -> None:
    actual = HudiTable.open(golden_table("h_record_index_0150")).record_locations([1])
    assert actual is not None
    assert actual.num_rows == 0


def test_a_late_delete_takes_a_key_out_of_the_index_whose_row_stays() -> None:
    (folder,) = (folder for folder in golden_random_tables() if folder.name == "late_delete_in_index_102")
    path, key = str(folder / "table"), "id:k011,k2:2"
    is_late = pc.field("_hoodie_record_key") == key
    assert HudiTable.open(path).snapshot().to_table().filter(is_late).num_rows == 1
    table = HudiTable.open(path)
    assert table.record_locations(key) == LOCATIONS.empty_table()
    assert table.get(key).num_rows == 1
    assert table.snapshot().to_table(filter=is_late).num_rows == 1
    # Spark looks keys up otherwise, too.
    assert table.snapshot().record_locations([key]) is None
    (step,) = [step for step in table.snapshot().explain(is_late).steps if step.name == "record index"]
    assert step.why_not == "it has lost 1 of the keys, whose rows stay if they were deleted late"
    # A key that the index has never had is absent.
    actual = table.snapshot().record_locations(["id:absent,k2:1"])
    assert actual is not None
    assert actual.num_rows == 0


def test_an_overwrite_of_partitions_may_put_a_key_into_a_second_one(caplog: pytest.LogCaptureFixture) -> None:
    (folder,) = (folder for folder in golden_random_tables() if folder.name == "key_in_two_partitions_0150")
    path, is_twice = str(folder / "table"), pc.field("id") == "k0015"
    rows = HudiTable.open(path).snapshot().to_table().filter(is_twice)
    assert set(rows["_hoodie_partition_path"].to_pylist()) == {"a/2020/2024-02-28", "a/2021/2024-02-29"}
    with caplog.at_level(logging.WARNING):
        table = HudiTable.open(path)
        assert table.get("k0015").num_rows == 2
        assert table.snapshot().to_table(filter=is_twice).num_rows == 2
        assert table.record_locations("k0015") is None
    (message,) = [record.message for record in caplog.records if "record index" in record.message]
    assert "INSERT_OVERWRITE at 20261127030924330 may have put keys into a second partition" in message
    (step,) = [step for step in table.snapshot().explain(is_twice).steps if step.name == "record index"]
    assert "INSERT_OVERWRITE" in str(step.why_not)
