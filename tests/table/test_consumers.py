"""A table through the libraries that its users have: Polars, pandas, and fsspec's file systems."""

import fsspec
import polars as pl
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge import HudiDataset, HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_case, golden_table

CASE = "a_story_v9_120"
ANSWER = golden_case(CASE) / "expected" / "snapshot.parquet"


def snapshot() -> HudiDataset:
    return HudiTable.open(str(golden_table(CASE))).snapshot()


def test_polars_scans_a_dataset_with_columns_and_a_filter() -> None:
    actual = pl.scan_pyarrow_dataset(snapshot()).filter(pl.col("part") == "b").select("id", "qty").collect()
    expected = pq.read_table(ANSWER, columns=["id", "qty"], filters=pc.field("part") == "b")
    assert expected.num_rows
    assert differences(expected, actual.to_arrow()) == []


def test_pandas_takes_the_rows() -> None:
    frame = snapshot().to_table(columns=["id", "qty"]).to_pandas()
    expected = pq.read_table(ANSWER, columns=["id", "qty"]).to_pandas()
    assert frame.sort_values("id", ignore_index=True).equals(expected.sort_values("id", ignore_index=True))


def test_a_file_system_of_fsspec_can_be_handed_over() -> None:
    table = HudiTable.open(str(golden_table(CASE)), fsspec.filesystem("file"))
    assert differences(pq.read_table(ANSWER), table.snapshot().to_table()) == []
