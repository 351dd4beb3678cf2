"""Completion times through the other libraries: the rows have them, or the option is refused by name."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.connectors.duckdb import attach, attach_all
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.polars import scan, scan_dataset
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.split_tasks import TableQuery
from hudi_bridge.connectors.trino.explain import explain_routes
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.engines import slice_delta
from hudi_bridge.options import COMPLETION_TIMES_KEY
from hudi_bridge.schema.meta_columns import COMPLETION_TIME_COLUMN
from hudi_bridge.table import OpenArguments, RowsArguments
from tests.support.overlapping_writes import EXPECTED, ON, overlapping, times_by_key
from tests.support.table_writer import at

NEWEST = RowsArguments(as_of=None, read_optimized=False, after=None, up_to=None)
NOT_OPENED = OpenArguments(filesystem=None, options=ON, payloads=None, log_memory_bytes=None, storage_options=None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return overlapping(tmp_path / "t", 9).folder


def in_duckdb(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return pa.RecordBatchReader.from_stream(connection.sql(sql)).read_all()


def test_duckdb_views_have_them(folder: Path) -> None:
    with duckdb.connect() as connection:
        attached = attach(connection, folder, "trips", options=ON, after=at(5))
        assert times_by_key(in_duckdb(connection, "FROM trips")) == EXPECTED
        assert set(times_by_key(in_duckdb(connection, "FROM trips_ro")).values()) == {at(2)}
        late = f"FROM trips WHERE {COMPLETION_TIME_COLUMN} > '{at(30)}' AND value = 'new'"
        assert times_by_key(in_duckdb(connection, late)) == {"b": at(40)}
        assert times_by_key(in_duckdb(connection, "FROM trips_incremental")) == {"b": at(40), "c": at(30)}
        changes = in_duckdb(connection, f"SELECT after.id AS id, {COMPLETION_TIME_COLUMN} FROM trips_changes")
        assert times_by_key(changes) == {"b": at(40), "c": at(30)}
        assert not attached.plan()["trips"].is_native


def test_duckdb_views_of_a_folder_have_them(folder: Path) -> None:
    with duckdb.connect() as connection:
        attach_all(connection, folder.parent, options=ON)
        assert times_by_key(in_duckdb(connection, "FROM lake.t")) == EXPECTED


def test_duckdb_views_without_meta_columns_keep_what_was_asked_for(folder: Path) -> None:
    with duckdb.connect() as connection:
        attach(connection, folder, "trips", options=ON, meta_columns=False)
        assert times_by_key(in_duckdb(connection, "FROM trips")) == EXPECTED


def test_polars_frames_have_them(folder: Path) -> None:
    frame = scan(folder, options=ON)
    assert times_by_key(frame.collect().to_arrow()) == EXPECTED
    late = frame.filter(pl.col(COMPLETION_TIME_COLUMN) > at(30)).select("id", COMPLETION_TIME_COLUMN)
    assert times_by_key(late.collect().to_arrow()) == {"b": at(40)}
    changes = scan_dataset(HudiTable.open(str(folder), options=ON).changes(at(5)))
    assert set(changes.collect()[COMPLETION_TIME_COLUMN]) == {at(30), at(40)}


def test_workers_of_other_libraries_give_them(folder: Path) -> None:
    query = TableQuery.of("Dask", folder, NOT_OPENED, NEWEST, None, meta_columns=False)
    batches = [batch for task in query.tasks() for batch in task.batches()]
    assert times_by_key(pa.Table.from_batches(batches, query.schema)) == EXPECTED


def published_as_iceberg(table: HudiTable, folder: Path) -> object:
    return publish_table(
        table.storage,
        Scratch.open(str(folder)),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=ON),
    )


REFUSING: tuple[Callable[[HudiTable, Path], object], ...] = (
    published_as_iceberg,
    publish_log_records,
    lambda table, folder: publish_log_records(table, folder, unmerged=True),
    lambda table, _: explain_routes(table),
    lambda table, _: slice_delta(table.splits()[0]),
)


@pytest.mark.parametrize("use", REFUSING, ids=["iceberg", "log-records", "unmerged", "explain", "delta"])
def test_what_cannot_give_them_refuses_the_option(
    folder: Path, tmp_path: Path, use: Callable[[HudiTable, Path], object]
) -> None:
    with pytest.raises(QueryError, match=COMPLETION_TIMES_KEY):
        use(HudiTable.open(str(folder), options=ON), tmp_path / "published")
