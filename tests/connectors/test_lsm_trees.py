"""LSM trees through engines that read base files themselves: told what is replaced, or given the merged rows."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.explain import explain_routes
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.lsm_tables import ANSWERS, COMMIT_TIME, TWICE, opened, started, values_of, written
from tests.support.table_writer import at
from tests.support.version_10 import UNRELEASED


@pytest.fixture(params=["late records", "rows of one key"])
def table(tmp_path: Path, request: pytest.FixtureRequest) -> HudiTable:
    """A tree, and what only a tree merges: rows of one key in a base file, which no log has."""
    if request.param == "late records":
        return opened(written(tmp_path / "t"))
    writer = started(tmp_path / "t", TWICE, options={"hoodie.record.merge.mode": COMMIT_TIME})
    writer.commit(at(2), wrote=[writer.native_log(at(2), [{"id": "z", "ts": 0, "value": "z"}])])
    return opened(writer)


def folder_of(table: HudiTable) -> Path:
    return Path(table.config.table_path)


def test_duckdb_reads_base_files_without_what_is_merged(table: HudiTable) -> None:
    expected = table.snapshot().to_table()
    with duckdb.connect() as connection:
        attach(connection, table, "t")
        for _ in range(2):
            # The second time, the merges are in memory.
            rows = pa.RecordBatchReader.from_stream(connection.sql("FROM t")).read_all()
            assert differences(expected, rows) == []
        rows = pa.RecordBatchReader.from_stream(connection.sql("FROM t WHERE value = 'b'")).read_all()
        assert differences(expected.filter(pc.field("value") == "b"), rows) == []


def test_polars_reads_merged_rows(table: HudiTable) -> None:
    rows = scan(table).select("id", "value").collect()
    assert isinstance(rows, pl.DataFrame)
    assert sorted(rows.rows()) == sorted(
        zip(*table.snapshot().to_table(["id", "value"]).to_pydict().values(), strict=True)
    )


def test_iceberg_clients_see_merged_rows(table: HudiTable, tmp_path: Path) -> None:
    published = publish_table(
        Storage.open(str(folder_of(table))),
        Scratch.open(str(tmp_path / "own")),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=UNRELEASED),
    )
    rows = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    assert differences(table.snapshot().to_table(), rows) == []


def test_trino_gets_merged_rows_and_never_merges_by_itself(table: HudiTable, tmp_path: Path) -> None:
    published = publish_log_records(table, tmp_path / "own").publication
    assert published.records == 0
    reason = "in an LSM tree, rows of one key in its base file are merged, too"
    assert explain_routes(table)["why_whole"].to_pylist() == [None, reason, None]
    with pytest.raises(UnsupportedTableError, match=reason):
        publish_log_records(table, tmp_path / "unmerged", unmerged=True)


def test_the_rows_are_those_of_the_tree(table: HudiTable) -> None:
    rows = values_of(table.snapshot().to_table())
    assert rows in (ANSWERS["EVENT_TIME_ORDERING"], {"a": "second", "b": "b", "c": "fourth", "z": "z"})
