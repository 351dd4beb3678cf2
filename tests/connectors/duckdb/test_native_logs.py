"""Native log files in views of DuckDB, and those that it wrote, with metadata, pages and nulls of its own."""

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import attach
from tests.logformat.native_writer import footer
from tests.support.compare import differences
from tests.support.table_writer import KEY_AND_VALUE, META_FIELDS, TableWriter, at, sorted_column
from tests.support.version_10 import UNRELEASED


def test_native_logs_that_duckdb_wrote_are_read(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path, version=10).create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": "base"} for key in "abc"])
    table.commit(at(1))
    meta = ", ".join(f"'{text}' AS {name}" for name, text in zip(META_FIELDS, (at(2), "0", "a", "", "f"), strict=True))
    selects = {
        "log": f"SELECT {meta}, 'a' AS id, 2::BIGINT AS ts, NULL::VARCHAR AS value",
        "deletes": "SELECT unnest(['b', 'c']) AS _hoodie_record_key, unnest([NULL::BIGINT, 0]) AS ts",
    }
    for kind, select in selects.items():
        path = tmp_path / f"f1-0_0-1-1_{at(2)}_1.{kind}.parquet"
        pairs = footer({0: at(2), 2: json.dumps(table.avro_schema)}).items()
        metadata = ", ".join(f"'{name}': '{text}'" for name, text in pairs)
        duckdb.sql(f"COPY ({select}) TO '{path}' (FORMAT parquet, KV_METADATA {{{metadata}}})")
    table.commit(at(2))
    rows = HudiTable.open(str(tmp_path), options=UNRELEASED).snapshot().to_table()
    assert {row["id"]: row["value"] for row in rows.to_pylist()} == {"a": None, "c": "base"}


CONDITIONS = {
    "id = 'a'": pc.field("id") == "a",
    "ts >= 20": pc.field("ts") >= 20,
    "value = 'base'": pc.field("value") == "base",
    "value IS NULL": pc.field("value").is_null(),
    "p = 'y' AND id < 'i'": (pc.field("p") == "y") & (pc.field("id") < "i"),
}


@pytest.mark.parametrize("file_format", ["parquet", "hfile"])
def test_views_have_the_rows_of_native_logs(tmp_path: Path, file_format: str) -> None:
    table = TableWriter(
        folder=tmp_path, version=10, fields=(*KEY_AND_VALUE, ("p", "string")), partition_fields=("p",)
    ).create()
    bases = []
    for partition, keys in {"x": "abcdefg", "y": "hijk"}.items():
        rows = [{"id": key, "ts": 10, "value": "base", "p": partition} for key in keys]
        bases.append(table.base_file(at(1), rows, partition=partition, row_group_size=2, with_key_index=True))
    table.commit(at(1), wrote=bases)
    records = (("a", 20, None), ("n", 1, "new"), ("b", 5, "late"))
    newer = [{"id": key, "ts": ts, "value": value, "p": "x"} for key, ts, value in records]
    deletes = table.native_deletes(at(2), [("c", 20), ("d", 5), ("e", None)], file_format, partition="x")
    table.commit(at(2), wrote=[table.native_log(at(2), newer, file_format, partition="x"), deletes])
    partial = [{"id": "h", "ts": 30, "value": "partial"}]
    only = ["id", "ts", "value"]
    table.commit(at(3), wrote=[table.native_log(at(3), partial, file_format, partition="y", only=only)])
    opened = HudiTable.open(tmp_path, options=UNRELEASED)
    expected = opened.snapshot().to_table()
    with duckdb.connect() as connection:
        attach(connection, opened, "t")
        for view, whole in {"t": expected, "t_ro": opened.read_optimized().to_table()}.items():
            for sql, condition in CONDITIONS.items():
                chosen = whole.filter(condition)
                query = connection.sql(f"FROM {view} WHERE {sql}")
                assert differences(chosen, pa.RecordBatchReader.from_stream(query).read_all()) == [], (view, sql)
                counts = connection.sql(f"SELECT count(*) FROM {view} WHERE {sql}").fetchall()
                assert counts == [(chosen.num_rows,)], (view, sql)
                ids = connection.sql(f"SELECT id FROM {view} WHERE {sql} ORDER BY id").fetchall()
                assert [key for (key,) in ids] == sorted_column(chosen, "id"), (view, sql)
            assert connection.sql(f"SELECT count(*) FROM {view}").fetchall() == [(whole.num_rows,)]
            assert len(connection.sql(f"SELECT value FROM {view} LIMIT 3").fetchall()) == 3
