"""LSM trees in Spark: by its own scan of base files, told what is replaced, and by record key."""

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import read
from tests.support.lsm_tables import ANSWERS, COMMIT_TIME, TWICE, opened, started, written
from tests.support.table_writer import at
from tests.support.version_10 import UNRELEASED

pytestmark = pytest.mark.jvm


def test_rows_are_those_of_the_tree(spark: SparkSession, tmp_path: Path) -> None:
    table = opened(written(tmp_path))
    frame = read(spark, str(tmp_path), options=UNRELEASED)
    answer = ANSWERS["EVENT_TIME_ORDERING"]
    assert {row["id"]: row["value"] for row in frame.collect()} == answer
    assert {row["id"] for row in frame.where("value = 'base'").collect()} == {
        key for key, value in answer.items() if value == "base"
    }
    assert table.snapshot().to_table(filter=pc.field("value") == "base").num_rows == 3
    assert [row["value"] for row in frame.where("_hoodie_record_key = 'f'").collect()] == ["back"]


def test_rows_of_one_key_in_a_base_file_are_one(spark: SparkSession, tmp_path: Path) -> None:
    writer = started(tmp_path, TWICE, options={"hoodie.record.merge.mode": COMMIT_TIME})
    writer.commit(at(2), wrote=[writer.native_log(at(2), [{"id": "z", "ts": 0, "value": "z"}])])
    frame = read(spark, str(tmp_path), options=UNRELEASED)
    assert sorted(row["value"] for row in frame.collect()) == ["b", "fourth", "second", "z"]
