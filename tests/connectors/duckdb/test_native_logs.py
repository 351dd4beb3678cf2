"""Native log files that another engine wrote than Arrow: their metadata, their pages and their nulls are DuckDB's."""

import json
from pathlib import Path

import duckdb

from hudi_bridge import HudiTable
from tests.logformat.native_writer import footer
from tests.support.table_writer import META_FIELDS, TableWriter, at
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
