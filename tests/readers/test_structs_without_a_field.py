"""Structs of which a base file has none of the fields: null in base rows, structs of nulls in log records."""

from dataclasses import replace
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
from tests.support.table_writer import Row, TableWriter, at

ROWS: list[Row] = [
    {"id": "base", "s": None, "l": None, "z": {"y": 1, "n": None}},
    {"id": "new", "s": {"b": 2}, "l": [{"b": 2}], "z": {"y": 1, "n": {"b": 2}}},
    {"id": "old", "s": {"b": None}, "l": [{"b": None}], "z": {"y": 1, "n": {"b": None}}},
]
"""The answer of Hudi 0.15 and 1.2 to such a table."""


def fields(name: str) -> tuple[tuple[str, Any], ...]:
    def record(record_name: str, *of: tuple[str, Any]) -> Any:
        named = [{"name": field, "type": ["null", kind], "default": None} for field, kind in of]
        return {"type": "record", "name": record_name, "fields": named}

    items = ["null", record("e", (name, "int"))]
    return (
        ("id", "string"),
        ("ts", "long"),
        ("s", record("s", (name, "int"))),
        ("l", {"type": "array", "items": items}),
        ("z", record("z", ("y", "int"), ("n", record("n", (name, "int"))))),
    )


def row(key: str, ts: int, name: str) -> Row:
    one = {name: ts}
    return {"id": key, "ts": ts, "s": one, "l": [one], "z": {"y": 1, "n": one}}


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    before = TableWriter(folder=tmp_path / "table", fields=fields("a")).create()
    before.base_file(at(1), [row(key, 0, "a") for key in ("base", "old", "new")])
    before.commit(at(1))
    before.log_file(at(2), [before.data_block(at(2), [row("old", 1, "a")])])
    before.commit(at(2))
    since = replace(before, fields=fields("b"))
    since.log_file(at(3), [since.data_block(at(3), [row("new", 2, "b")])], number=2)
    since.commit(at(3))
    return since.open()


def rows_of(rows: Any) -> list[Row]:
    return sorted(rows.select(["id", "s", "l", "z"]).to_pylist(), key=lambda one: str(one["id"]))


def test_base_rows_have_null_and_log_records_structs(table: HudiTable) -> None:
    assert rows_of(table.snapshot().to_table()) == ROWS
    for item in rows_of(table.read_optimized().to_table()):
        assert item == {**ROWS[0], "id": item["id"]}


@pytest.mark.parametrize("column", ["s", "l"])
def test_filters_know_them_as_null(table: HudiTable, column: str) -> None:
    is_null = pc.field(column).is_null()
    assert rows_of(table.snapshot().to_table(filter=is_null)) == ROWS[:1]
    assert rows_of(table.snapshot().to_table(filter=~is_null)) == ROWS[1:]
    assert table.read_optimized().to_table(filter=is_null).num_rows == len(ROWS)


def test_duckdb_shows_null(table: HudiTable) -> None:
    with duckdb.connect() as connection:
        attach(connection, table, "events")
        assert rows_of(connection.sql("FROM events").to_arrow_table()) == ROWS
        for column in ("s", "l"):
            assert connection.sql(f"SELECT id FROM events WHERE {column} IS NULL").fetchall() == [("base",)]


def test_duckdb_reads_such_columns_itself(tmp_path: Path) -> None:
    before = TableWriter(folder=tmp_path / "table", fields=fields("a")[:-1]).create()
    before.base_file(at(1), [{"id": "base", "ts": 1, "s": {"a": 1}, "l": [{"a": 1}]}])
    replace(before, fields=fields("b")[:-1]).commit(at(1))
    with duckdb.connect() as connection:
        attached = attach(connection, before.open(), "events")
        assert attached.plan()["events"].by_duckdb == 1
        assert connection.sql("SELECT id, s, l FROM events").fetchall() == [("base", None, None)]


def test_iceberg_clients_read_a_copy(table: HudiTable, tmp_path: Path) -> None:
    scratch = Scratch.open(str(tmp_path / "scratch"))
    published = publish_table(table.storage, scratch, locations=Locations(), builds=1)
    actual = rows_of(StaticTable.from_metadata(published.metadata_location).scan().to_arrow())
    # PyIceberg has empty lists of structs in place of nulls.
    assert actual == [{**ROWS[0], "l": []}, *ROWS[1:]]


@pytest.mark.parametrize("engine", [Engine.TRINO, Engine.PRESTO])
def test_no_engine_reads_the_base_file_in_place(table: HudiTable, engine: Engine) -> None:
    (split,) = table.snapshot().splits()
    assert isinstance(split, RealtimeFileSplit)
    with slice_delta(split) as delta:
        base = delta.base_file
    assert base is not None
    said = {column.column: str(column) for column in base.columns}
    assert said["s"] == said["z.n"] == "null: the file has none of its fields"
    assert (said["l"], said["z"]) == (said["s"], "changed inside")
    assert reason_file_not_native(split, base, table.snapshot().schema) is not None
    assert why_unreadable(base, LogColumns.of(split.context, engine)) is not None
