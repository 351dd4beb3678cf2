"""Dates that Python does not have: Spark writes years before 1 and after 9999."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, RealtimeFileSplit, open_reader
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.engines import identity
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

DAYS = {"2026-01-01": 20454, "0000-12-30": -719_164, "10000-01-01": 2_932_897}
DATE = {"type": "int", "logicalType": "date"}


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """A partition for each of the dates, with one row whose key is the date."""
    writer = TableWriter(
        folder=tmp_path / "t", fields=(*KEY_AND_VALUE, ("day", DATE)), partition_fields=("day",)
    ).create()
    for number, (text, days) in enumerate(DAYS.items()):
        row = {"id": text, "ts": 1, "value": "", "day": days}
        writer.base_file(at(1), [row], partition=text, file_id=f"f{number}-0")
    writer.commit(at(1))
    return writer.open()


def test_partitions_by_such_dates_can_be_asked_for(table: HudiTable) -> None:
    for text, days in DAYS.items():
        is_day = pc.field("day") == pa.scalar(days, pa.int32()).cast(pa.date32())
        assert table.snapshot().to_table(columns=["id"], filter=is_day)["id"].to_pylist() == [text]


def test_splits_of_such_partitions_travel_as_json(table: HudiTable) -> None:
    splits = table.splits()
    again = [RealtimeFileSplit.from_json(split.to_json()) for split in splits]
    assert again == splits
    assert sum(batch.num_rows for split in again for batch in open_reader(split).batches()) == len(DAYS)
    assert len({identity(split.partition_values) for split in splits}) == len(DAYS)


def test_duckdb_reads_such_partitions(table: HudiTable) -> None:
    with duckdb.connect() as connection:
        attach(connection, table, "trips")
        rows = connection.execute(
            "SELECT id, day::VARCHAR FROM trips WHERE year(day) > 9999 OR year(day) < 1"
        ).fetchall()
    assert sorted(rows) == [("0000-12-30", "0001-12-30 (BC)"), ("10000-01-01", "10000-01-01")]
