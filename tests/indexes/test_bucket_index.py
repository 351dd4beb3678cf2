import pyarrow.compute as pc
import pytest

from hudi_bridge.indexes.candidates import BucketIndex, bucket_of_file_id
from hudi_bridge.table import HudiTable
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in
from tests.support.table_writer import sorted_column

BUCKETS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.hash.field": "id",
}


@pytest.mark.parametrize("case", ["d_bucket_index_0150", "d_bucket_index_120"])
def test_records_are_in_the_buckets_of_hudi(case: str) -> None:
    table = HudiTable.open(str(golden_table(case)))
    rows = table.snapshot().to_table(columns=["_hoodie_record_key", "_hoodie_file_name"])
    buckets = {bucket_of_file_id(str(name)) for name in rows["_hoodie_file_name"].to_pylist()}
    index = BucketIndex(buckets=2, hash_fields=("id",))
    assert len(buckets) > 1
    for row in rows.to_pylist():
        assert index.bucket_of(row["_hoodie_record_key"]) == bucket_of_file_id(row["_hoodie_file_name"])


@pytest.mark.parametrize("case", ["d_bucket_index_0150", "d_bucket_index_120"])
@pytest.mark.parametrize("count", one_in(3, ["2", "3", "4", "5"]))
def test_a_number_of_buckets_that_is_not_the_tables_is_noticed(case: str, count: str) -> None:
    table = HudiTable.open(str(golden_table(case)), options=BUCKETS | {"hoodie.bucket.index.num.buckets": count})
    keys = sorted_column(table.snapshot().to_table(), "_hoodie_record_key")
    assert sorted_column(table.get(keys), "_hoodie_record_key") == keys
    read = {split.file_id[:8] for split in table.splits(filter=pc.field("_hoodie_record_key") == keys[0])}
    assert len(read) == 1
    assert all(table.get(key).num_rows == 1 for key in keys[::5])


def test_keys_of_several_fields_hash_the_fields_of_the_index() -> None:
    index = BucketIndex(buckets=1000, hash_fields=("b",))
    assert index.bucket_of("a:1,b:x") == index.bucket_of("x") == 31 + ord("x")


@pytest.mark.parametrize("key", ["a:b:c,d:e", "x:1", "b:__null__", "a:1,b"])
def test_keys_that_releases_take_apart_differently_have_no_bucket(key: str) -> None:
    assert BucketIndex(buckets=8, hash_fields=("b",)).bucket_of(key) is None


def test_other_file_ids_have_no_bucket() -> None:
    assert bucket_of_file_id("12ab5678-0000") is None
