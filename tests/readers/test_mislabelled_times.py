"""Tables whose files and log blocks say microseconds where the table, since Hudi 1.1, says milliseconds."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import HudiTable, RealtimeFileSplit
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.spark.native_columns import reason_file_not_native
from hudi_bridge.connectors.trino.compatibility import LogColumns, why_unreadable
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.engines import slice_delta
from hudi_bridge.schema.file_columns import Outcome
from hudi_bridge.tools.checks.examination import examine
from tests.support.table_writer import Row, TableWriter, at

FIRST = datetime(2024, 7, 10, 17, 7, 4, 939000, UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def fields(unit: str) -> tuple[tuple[str, Any], ...]:
    time = {"type": "long", "logicalType": f"timestamp-{unit}"}
    nested = {"type": "record", "name": "s", "fields": [{"name": "t", "type": ["null", time], "default": None}]}
    return ("id", "string"), ("ts", "long"), ("t", time), ("s", nested)


def time_of(number: int) -> datetime:
    return FIRST + timedelta(seconds=number)


def mislabelled(row: Row) -> Row:
    milliseconds = (row["t"] - EPOCH) // timedelta(milliseconds=1)
    time = EPOCH + timedelta(microseconds=milliseconds)
    return {**row, "t": time, "s": {"t": time}}


def row(number: int, ts: int) -> Row:
    return {"id": f"{number}", "ts": ts, "t": time_of(number + 100 * ts), "s": {"t": time_of(number + 100 * ts)}}


@pytest.fixture(params=["base", "logs"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[HudiTable, list[Row]]:
    """Eight rows in four row groups, of which logs, if there are some, change one; and the rows that they are."""
    rows = [row(number, 1) for number in range(8)]
    writer = TableWriter(folder=tmp_path / "table", fields=fields("micros")).create()
    writer.base_file(at(1), list(map(mislabelled, rows)), row_group_size=2)
    since = replace(writer, fields=fields("millis"))
    since.commit(at(1))
    if request.param == "logs":
        rows[3] = row(3, 2)
        writer.log_file(at(2), [writer.data_block(at(2), [mislabelled(rows[3])])])
        since.commit(at(2))
    return writer.open(), rows


def rows_of(batches: Any) -> list[Row]:
    actual = batches.select(["id", "ts", "t", "s"]).to_pylist()
    return sorted(actual, key=lambda one: str(one["id"]))


def test_their_numbers_are_milliseconds(table: tuple[HudiTable, list[Row]]) -> None:
    opened, rows = table
    assert rows_of(opened.snapshot().to_table()) == rows


@pytest.mark.parametrize(
    "condition",
    [
        pc.field("t") == time_of(101),
        pc.field("t") >= time_of(104),
        pc.field("t") < time_of(102),
        pc.field("t").isin([time_of(100), time_of(203), time_of(107)]),
        pc.field("s", "t") > time_of(105),
    ],
    ids=str,
)
def test_filters_compare_milliseconds(table: tuple[HudiTable, list[Row]], condition: pc.Expression) -> None:
    opened, rows = table
    for _ in range(2):
        # What the first read has learnt of ranges does not mislead the second.
        actual = rows_of(opened.snapshot().to_table(filter=condition))
        assert actual == rows_of(opened.snapshot().to_table().filter(condition))
        assert actual == [item for item in rows if item in actual] != []


def test_duckdb_shows_milliseconds(table: tuple[HudiTable, list[Row]]) -> None:
    opened, rows = table
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        attach(connection, opened, "events")
        actual = connection.sql("SELECT id, ts, t, s FROM events ORDER BY id").to_arrow_table()
        assert rows_of(actual) == rows
        asked = "SELECT count(*) FROM events WHERE t >= TIMESTAMPTZ '2024-01-01 00:00:00+00'"
        assert connection.sql(asked).fetchall() == [(len(rows),)]


def test_iceberg_clients_read_copies(table: tuple[HudiTable, list[Row]], tmp_path: Path) -> None:
    opened, rows = table
    scratch = Scratch.open(str(tmp_path / "scratch"))
    published = publish_table(opened.storage, scratch, locations=Locations(), builds=1)
    assert rows_of(StaticTable.from_metadata(published.metadata_location).scan().to_arrow()) == rows


@pytest.mark.parametrize("engine", [Engine.TRINO, Engine.PRESTO])
def test_no_engine_reads_the_base_file_in_place(table: tuple[HudiTable, list[Row]], engine: Engine) -> None:
    opened, _ = table
    (split,) = opened.snapshot().splits()
    assert isinstance(split, RealtimeFileSplit)
    with slice_delta(split) as delta:
        base = delta.base_file
    assert base is not None
    outcomes = {column.column: column.outcome for column in base.columns}
    assert outcomes["t"] is outcomes["s.t"] is Outcome.MILLISECONDS
    assert "labelled" in str(reason_file_not_native(split, base, opened.snapshot().schema))
    assert why_unreadable(base, LogColumns.of(split.context, engine)) is not None


def told_by_the_doctor(table: Path) -> set[str]:
    findings = [finding for finding in examine(table, deep=True).findings if finding.check == "timestamp-units"]
    assert all("as milliseconds, they are 2024-" in str(finding.expected) for finding in findings), findings
    return {column for finding in findings for column in ("t", "s.t") if f"column {column!r}" in finding.found}


@pytest.mark.parametrize(("stored", "columns"), [(mislabelled, {"t", "s.t"}), (dict, set())])
def test_the_doctor_tells_them_by_their_range(stored: Callable[[Row], Row], columns: set[str], tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path / "t", fields=fields("micros")).create()
    writer.base_file(at(1), [stored(row(number, 1)) for number in range(4)])
    writer.commit(at(1))
    assert told_by_the_doctor(writer.folder) == columns


def test_the_doctor_is_silent_once_the_table_says_milliseconds(table: tuple[HudiTable, list[Row]]) -> None:
    assert told_by_the_doctor(Path(table[0].path)) == set()
