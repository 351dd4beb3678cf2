"""VARIANT columns, written by Hudi on Spark 4: as Arrow, in DuckDB, and as an Iceberg client sees them."""

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import hudi_bridge.connectors.duckdb
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.schema.avro_types import is_variant
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_variant_queries
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.shredded_tables import KNOWS_VARIANT

QUERIES = golden_variant_queries()
SNAPSHOTS = [query for query in QUERIES if query.kind == "snapshot"]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_parts_are_those_that_hudi_reads(query: GoldenQuery) -> None:
    dataset = dataset_of(query)
    assert is_variant(dataset.schema.field("v"))
    rows = dataset.to_table()
    assert rows.schema.equals(dataset.schema, check_metadata=True)
    assert differences(answer_of(query), rows) == []


@pytest.mark.parametrize("query", SNAPSHOTS, ids=lambda query: query.name)
def test_duckdb_knows_the_type(query: GoldenQuery) -> None:
    with duckdb.connect() as connection:
        attached = hudi_bridge.connectors.duckdb.attach(connection, str(query.table), name="t")
        if KNOWS_VARIANT:
            fields = "v.updated::BOOLEAN, v.new_field::INT"
            actual = attached.connection.sql(f"SELECT id, typeof(v), {fields} FROM t").fetchall()
            assert actual == [(1, "VARIANT", True, 123)]
        else:
            (kind,) = attached.connection.sql("SELECT v FROM t").types
            assert str(kind) == 'STRUCT("value" BLOB, metadata BLOB)'


@pytest.mark.parametrize("query", SNAPSHOTS, ids=lambda query: query.name)
def test_iceberg_clients_see_the_parts(query: GoldenQuery, tmp_path: Path) -> None:
    published = publish_table(
        Storage.open(str(query.table)), Scratch.open(str(tmp_path / "scratch")), locations=Locations(), builds=1
    )
    actual = StaticTable.from_metadata(published.metadata_location).scan().to_arrow()
    assert query.answer is not None
    assert differences(pq.read_table(query.answer), actual) == []
