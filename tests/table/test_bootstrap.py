"""Bootstrapped tables by real Hudi: base files with meta columns only, and the files that have the other columns."""

import json
import re
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptTableError,
    DataFileGoneError,
    HudiDataset,
    HudiTable,
    RealtimeFileSplit,
    UnsupportedTableError,
    open_reader,
    tools,
)
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.compatibility import IcebergClient, Rewriting
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.lakes.tables import MergeSettings
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.engines import slice_delta
from hudi_bridge.options import BOOTSTRAP_SOURCE_KEY
from hudi_bridge.splits.planner import INDEX_PATH
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_bootstrapped
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.other_golden import DEVIATIONS, source_of
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_bootstrapped()}
SNAPSHOTS = [name for name, query in QUERIES.items() if query.kind == "snapshot"]
BOOTSTRAPPED = [name for name in SNAPSHOTS if not name.startswith("full_")]
METADATA = QUERIES["metadata_v9-0-snapshot"]


def dataset(query: GoldenQuery) -> HudiDataset:
    return dataset_of(query, HudiTable.open(query.table, options=source_of(query)))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of a table, with its source, that a test may change."""
    shutil.copytree(METADATA.table.parent, tmp_path / "copy")
    return tmp_path / "copy"


def opened(copy: Path) -> HudiTable:
    return HudiTable.open(copy / "table", options={BOOTSTRAP_SOURCE_KEY: str(copy / "source")})


@pytest.mark.parametrize("name", one_in(5, QUERIES))
def test_rows_are_those_of_hudi(name: str) -> None:
    query = QUERIES[name]
    actual = differences(answer_of(query), dataset(query).to_table())
    if name in DEVIATIONS:
        assert actual, "no deviation any more"
        return
    assert not actual


def test_the_table_of_hudis_own_tests_has_the_records_that_these_expect() -> None:
    query = QUERIES["tests_of_hudi-0-snapshot"]
    expected = json.loads((query.table / "merged_records.json").read_text())
    fields = {
        "recordKey": "_row_key",
        "orderingVal": "timestamp",
        "partitionPath": "partition_path",
        "riderValue": "rider",
    }
    actual = dataset(query).to_table(columns=list(fields.values())).to_pylist()
    rows = sorted([str(row[name]) for name in fields.values()] for row in actual)
    assert rows == sorted([record[name] for name in fields] for record in expected)


def test_a_range_of_0x_has_the_columns_of_the_source() -> None:
    query = QUERIES["flat_v6-4-incremental"]
    rows = dataset(query).to_table()
    everything = dataset(QUERIES["flat_v6-0-snapshot"]).to_table()
    assert not differences(everything, rows)


@pytest.mark.parametrize("name", BOOTSTRAPPED)
def test_what_is_elsewhere_is_not_read_unless_it_is_allowed(name: str) -> None:
    table = HudiTable.open(QUERIES[name].table)
    with pytest.raises(UnsupportedTableError, match=f"{BOOTSTRAP_SOURCE_KEY} with the path of that folder"):
        table.snapshot().to_table()


def test_a_table_with_all_records_needs_no_source() -> None:
    query = QUERIES["full_v9-0-snapshot"]
    assert not differences(answer_of(query), HudiTable.open(query.table).snapshot().to_table())


@pytest.mark.parametrize(
    "row_filter",
    one_in(
        3,
        [
            pc.field("id") == "k012",
            pc.field("_hoodie_record_key") == "k012",
            pc.field("_hoodie_record_key").isin(["k013", "k014", "k044"]),
            pc.field("part") == "b",
            pc.field("ts") > 1,
            (pc.field("price") < 4) & pc.field("place").is_valid(),
            pc.field("_hoodie_commit_time") == "00000000000001",
            pc.field("name").is_null(),
        ],
    ),
    ids=str,
)
@pytest.mark.parametrize("columns", one_in(2, [None, ["name"], ["_hoodie_record_key", "place"], ["part"], []]), ids=str)
@pytest.mark.parametrize("name", ["metadata_v9-0-snapshot", "metadata_v6-1-read_optimized"])
def test_filters_and_columns(name: str, columns: list[str] | None, row_filter: pc.Expression) -> None:
    actual = dataset(QUERIES[name]).to_table(columns=columns, filter=row_filter)
    expected = answer_of(QUERIES[name]).filter(row_filter)
    assert not differences(expected if columns is None else expected.select(columns), actual)


def test_row_groups_of_the_source_are_skipped() -> None:
    rows = dataset(QUERIES["flat_v9-1-read_optimized"])
    everything, few = rows.explain(), rows.explain(pc.field("price") == 1.25)
    assert 0 < few.row_groups_read < everything.row_groups_read == everything.row_groups
    assert few.base_bytes < everything.base_bytes


def test_a_split_is_all_that_a_worker_needs() -> None:
    rows = dataset(METADATA)
    texts = [split.to_json() for split in rows.splits()]
    tables = [open_reader(RealtimeFileSplit.from_json(text)).to_table() for text in texts]
    assert not differences(rows.to_table(), pa.concat_tables(tables))


def test_engines_do_not_read_base_files_with_meta_columns_only() -> None:
    for split in dataset(METADATA).splits():
        (piece,) = split.slices
        with slice_delta(split) as delta:
            base = delta.base_file
            if base is not None and piece.source_path is not None:
                assert base.reason_unreadable() == "it is no Parquet file with all columns"
                with pytest.raises(UnsupportedTableError):
                    _ = base.footer


@pytest.mark.parametrize("name", one_in(4, SNAPSHOTS))
def test_duckdb(name: str) -> None:
    query = QUERIES[name]
    with duckdb.connect() as connection:
        attach(connection, HudiTable.open(query.table, options=source_of(query)), "trips")
        assert not differences(answer_of(query), connection.sql("FROM trips").to_arrow_table())
        column = answer_of(query).schema.names[-1]
        value = answer_of(query).column(column)[0].as_py()
        counted = connection.sql(f"SELECT count(*) FROM trips WHERE {column} = '{value}'").fetchall()
        assert counted == [(answer_of(query).filter(pc.field(column) == value).num_rows,)]


@pytest.mark.parametrize("client", [None, IcebergClient.PRESTO])
@pytest.mark.parametrize("name", one_in(4, SNAPSHOTS))
def test_iceberg(name: str, client: IcebergClient | None, tmp_path: Path) -> None:
    query = QUERIES[name]
    published = publish_table(
        Storage.open(str(query.table)),
        Scratch.open(str(tmp_path)),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=source_of(query), payloads={}),
        rewriting=Rewriting(client=client),
    )
    rows = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    assert not differences(answer_of(query), rows)


def test_trino_gets_the_rows_of_slices_that_it_cannot_read(tmp_path: Path) -> None:
    table = HudiTable.open(METADATA.table, options=source_of(METADATA))
    published = publish_log_records(table, str(tmp_path))
    assert published.publication.why_whole == "it is no Parquet file with all columns"


def test_the_versions_of_a_record_begin_in_the_source() -> None:
    table = HudiTable.open(METADATA.table, options=source_of(METADATA))
    (group,) = tools.history_of(table, "k012").file_groups
    assert [version.row["name"].to_pylist() for version in group.versions] == [["n12-1"], ["n12-2"]]


def test_a_source_that_is_gone(copy: Path) -> None:
    next((copy / "source").rglob("*.parquet")).unlink()
    with pytest.raises(DataFileGoneError):
        opened(copy).snapshot().to_table()


def test_a_source_with_another_number_of_rows(copy: Path) -> None:
    for path in (copy / "source").rglob("*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)
    with pytest.raises(CorruptBaseFileError, match="rows, expected"):
        opened(copy).snapshot().to_table()


def test_an_index_that_is_gone(copy: Path) -> None:
    (copy / "table" / INDEX_PATH).unlink()
    with pytest.raises(CorruptTableError, match="no such base file"):
        opened(copy).snapshot().to_table()


def test_an_index_that_is_damaged(copy: Path) -> None:
    path = copy / "table" / INDEX_PATH
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptTableError):
        opened(copy).snapshot().to_table()


def test_a_name_in_the_index_does_not_leave_the_source(copy: Path) -> None:
    path = copy / "table" / INDEX_PATH
    # Of two fields, the first is the folder in the source.
    changed = re.sub(rb"(?s)\x0cpart=(?=.{,250}part-)", b"\x0c../..", path.read_bytes())
    path.write_bytes(changed)
    with pytest.raises(CorruptTableError, match="leaves the table's folder"):
        opened(copy).snapshot().to_table()
