"""Bootstrapped tables and other base files than Parquet through DuckDB and Polars, and what Trino merges by itself."""

import re
from pathlib import Path

import duckdb
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.connectors.duckdb import INCREMENTAL, READ_OPTIMIZED, attach
from hudi_bridge.connectors.polars import scan_dataset
from hudi_bridge.connectors.trino.publish import publish_log_records
from tests.support.compare import differences
from tests.support.golden_cases import GoldenQuery, golden_base_formats, golden_bootstrapped
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.other_golden import MERGED_BY_TRINO, ONE_OF_EACH_KIND, OTHERS, source_of
from tests.support.polars_rows import differences_in_polars
from tests.support.strength import one_in

KINDS = {kind for _, kind in ONE_OF_EACH_KIND}
SNAPSHOTS = {case: name for (case, kind), name in ONE_OF_EACH_KIND.items() if kind == "snapshot"}
TABLES = {query.case: query for query in (*golden_bootstrapped(), *golden_base_formats())}


def test_there_are_queries_of_all_kinds_to_all_formats() -> None:
    assert {"snapshot", "read_optimized", "time_travel", "incremental"} == KINDS
    assert {case.partition("_")[0] for case in SNAPSHOTS} >= {"metadata", "full", "mixed", "tests", "orc", "lance"}


@pytest.mark.parametrize("name", one_in(10, OTHERS))
def test_duckdb(name: str) -> None:
    query, options = OTHERS[name]
    table = HudiTable.open(query.table, options=options)
    with duckdb.connect() as connection:
        if query.kind == "incremental":
            view = attach(connection, table, "rows", after=query.after, up_to=query.up_to).name + INCREMENTAL
        else:
            view = attach(connection, table, "rows", as_of=query.as_of).name
            view += READ_OPTIMIZED if query.kind == "read_optimized" else ""
        assert differences(answer_of(query), connection.sql(f"FROM {view}").to_arrow_table()) == []


@pytest.mark.parametrize("name", one_in(10, OTHERS))
def test_polars(name: str) -> None:
    query, options = OTHERS[name]
    frame = scan_dataset(dataset_of(query, HudiTable.open(query.table, options=options))).collect()
    assert differences_in_polars(answer_of(query), frame.to_arrow()) == []


@pytest.mark.parametrize("query", one_in(4, TABLES.values()), ids=TABLES)
def test_trino_merges_by_itself_only_over_parquet_with_all_columns(query: GoldenQuery, tmp_path: Path) -> None:
    table = HudiTable.open(query.table, options=source_of(query))
    if query.case in MERGED_BY_TRINO:
        assert not publish_log_records(table, str(tmp_path), unmerged=True).publication.is_merged
        return
    with pytest.raises(UnsupportedTableError, match=re.escape("it is no Parquet file with all columns")):
        publish_log_records(table, str(tmp_path), unmerged=True)
