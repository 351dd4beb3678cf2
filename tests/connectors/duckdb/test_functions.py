"""Hudi's table-valued functions as macros over attached tables."""

from pathlib import Path

import duckdb
import pytest

from hudi_bridge import HudiTable
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.inspection import filesystem_view, query_timeline
from tests.support.golden_cases import golden_table
from tests.support.sql_functions import Answer, answers
from tests.support.strength import one_in

FUNCTIONS = {"hudi_query_timeline", "hudi_filesystem_view", "hudi_metadata"}
TABLES = ("d_archived_120", "e_multilevel_hive_120", "e_nonpart_120", "i_cdc_120")
ASKED = [
    answer
    for answer in answers()
    # DuckDB's GLOB has no alternatives.
    if answer.table in TABLES and answer.function in FUNCTIONS and "," not in "".join(answer.arguments)
]


@pytest.mark.parametrize("answer", one_in(7, ASKED), ids=lambda answer: answer.name)
def test_columns_and_numbers_of_rows_are_those_of_hudi(answer: Answer) -> None:
    connection = duckdb.connect()
    attach(connection, golden_table(answer.table), "t", sql_functions=True)
    rows = connection.sql(f"FROM {answer.call.replace('{table}', 't')}")
    assert rows.columns == [name for name, _ in answer.columns]
    assert len(rows.fetchall()) == len(answer.rows)


def test_each_macro_is_asked_for_rows() -> None:
    assert {answer.function for answer in ASKED if answer.rows} == FUNCTIONS


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_rows_are_those_of_the_functions_in_python(tmp_path: Path, *, is_in_memory: bool) -> None:
    connection = duckdb.connect(":memory:" if is_in_memory else tmp_path / "some.duckdb")
    table = HudiTable.open(golden_table("i_cdc_120"))
    attached = attach(connection, table, "trips", sql_functions=True)
    other = attach(connection, golden_table("d_archived_120"), "other", sql_functions=True)
    slices = connection.sql("FROM hudi_filesystem_view('trips', sub_path := '[ab]')").arrow().read_all()
    assert slices.to_pylist() == filesystem_view(table, "[ab]").to_pylist() != []
    instants = connection.sql("FROM hudi_query_timeline('trips', include_archived := true)").arrow().read_all()
    assert instants.to_pylist() == query_timeline(table, include_archived=True).to_pylist()
    assert len(connection.sql("FROM hudi_query_timeline('other', true)").fetchall()) == 20
    attached.detach()
    with pytest.raises(duckdb.Error):
        connection.sql("FROM hudi_metadata('trips')")
    assert connection.sql("SELECT count(*) FROM hudi_metadata('other') WHERE type = 1").fetchall() == [(1,)]
    other.detach()
    assert connection.sql("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall() == []


def test_macros_are_made_when_they_are_asked_for() -> None:
    connection = duckdb.connect()
    attach(connection, golden_table("i_cdc_120"), "trips")
    with pytest.raises(duckdb.Error, match="hudi_metadata"):
        connection.sql("FROM hudi_metadata('trips')")
