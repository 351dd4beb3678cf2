from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import QueryError
from hudi_bridge.connectors.spark import cause_of, locate_keys
from tests.connectors.damage import copy_with_damaged_logs
from tests.connectors.spark.native_tables import Home, homes_in_snapshot
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

NOWHERE: Home = (None, None, None)
CASES = (
    "a_story_v5_0122",  # both kinds of filters are among these, and both names of their key
    "a_story_v9_120",
    "d_log_only_0150",
    "d_compacted_then_logs_0150",
    "e_virtual_keys_120",
    "e_odd_keys_0150",
    "e_composite_keys_120",
    "h_column_stats_120",
    "h_partitioned_record_index_120",
    "h_record_index_120",
    "i_cow_120",
    "i_all_deleted_120",
)


@pytest.mark.parametrize("case", CASES)
def test_keys_are_found_where_the_snapshot_has_them(spark: SparkSession, case: str) -> None:
    path = str(golden_table(case))
    expected = homes_in_snapshot(path)
    lost = ["", "no such key", "k", "\U0001f600"]
    keys = spark.createDataFrame([(key,) for key in [*expected, *lost, *lost]], "k string")
    actual: dict[str, set[Home]] = defaultdict(set)
    for row in locate_keys(spark, path, keys).collect():
        actual[row.record_key].add((row.partition_path, row.file_id, row.instant))
    assert actual == expected | {key: {NOWHERE} for key in lost if key not in expected}


def test_a_record_index_is_asked_instead_of_files(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(golden_table("h_record_index_120"))
    keys = spark.createDataFrame([("k00001",), ("nowhere",), (None,)], "k string")
    monkeypatch.setattr("hudi_bridge.connectors.spark.key_lookup._read_ranges", None)
    actual = {row.record_key: row.partition_path for row in locate_keys(spark, path, keys).collect()}
    assert actual == {"k00001": "a", "nowhere": None, None: None}
    for options in ({"hoodie.metadata.enable": "false"}, {"hoodie.enable.data.skipping": "false"}):
        with pytest.raises(TypeError):
            locate_keys(spark, path, keys, options=options)
    monkeypatch.setattr("hudi_bridge.connectors.spark.key_lookup._MAX_KEYS_BY_INDEX", 2)
    with pytest.raises(TypeError):
        locate_keys(spark, path, keys)


def test_a_read_optimized_query_has_the_keys_that_logs_delete(spark: SparkSession) -> None:
    path, keys = str(golden_table("h_record_index_120")), spark.createDataFrame([("k00000",)], "k string")
    for query_type, partitions in (("read_optimized", ["a"]), ("snapshot", [None])):
        rows = locate_keys(spark, path, keys, options={"hoodie.datasource.query.type": query_type}).collect()
        assert [row.partition_path for row in rows] == partitions


def test_keys_are_looked_for_in_the_partition_given(spark: SparkSession) -> None:
    path = str(golden_table("a_story_v9_120"))
    expected = homes_in_snapshot(path)
    homes = {(key, str(partition), str(file)) for key, actual in expected.items() for partition, file, _ in actual}
    elsewhere = {(key, "zz") for key in expected}
    pairs = [(partition, key) for key, partition, _ in homes] + [(partition, key) for key, partition in elsewhere]
    keys = spark.createDataFrame(pairs, "part string, key string")
    rows = locate_keys(spark, path, keys, key_column="key", partition_column="part").collect()
    assert len(rows) == len(pairs)
    assert {(row.record_key, row.partition_path, row.file_id) for row in rows if row.file_id} == homes


def test_a_key_that_a_log_deletes_or_inserts(spark: SparkSession, tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "table").create()
    writer.base_file(at(1), [{"id": name, "ts": 1, "value": "x"} for name in ("a", "b")])
    writer.commit(at(1))
    inserted = writer.data_block(at(2), [{"id": "new", "ts": 2, "value": "y"}])
    writer.log_file(at(2), [inserted, writer.delete_block(at(2), [("a", 2)])])
    writer.commit(at(2))
    keys = spark.createDataFrame([("a",), ("b",), ("new",)], "k string")
    actual = {row.record_key: row.file_id for row in locate_keys(spark, str(writer.folder), keys).collect()}
    assert actual == {"a": None, "b": "f1-0", "new": "f1-0"}
    before = locate_keys(spark, str(writer.folder), keys, options={"as.of.instant": at(1)})
    assert {row.record_key: row.file_id for row in before.collect()} == {"a": "f1-0", "b": "f1-0", "new": None}


def test_errors(spark: SparkSession, tmp_path: Path) -> None:
    path = str(golden_table("a_story_v9_120"))
    keys = spark.createDataFrame([("k00001",)], "k string")
    with pytest.raises(QueryError, match="nope"):
        locate_keys(spark, path, keys, key_column="nope")
    damaged = copy_with_damaged_logs("a_story_v9_120", tmp_path)
    with pytest.raises(PySparkException) as caught:
        locate_keys(spark, str(damaged), keys).collect()
    assert cause_of(caught.value) is not None
