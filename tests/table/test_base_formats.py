"""Tables by real Hudi whose base files are ORC, Lance or HFiles."""

import re
import shutil
import sys
from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptTableError,
    DataFileGoneError,
    HudiReadError,
    HudiTable,
    UnsupportedTableError,
)
from hudi_bridge.common.imports import how_to_install
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.engines import slice_delta
from hudi_bridge.storage.storage import Storage
from tests.support.compare import differences
from tests.support.golden_cases import golden_base_formats
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_base_formats()}
HFILE = next(query for query in QUERIES.values() if query.case == "hfile_mor")
ANSWERED = [name for name, query in QUERIES.items() if query.answer is not None and query.case != "orc_times"]
SNAPSHOTS = [name for name in ANSWERED if QUERIES[name].kind == "snapshot"]
FORMATS = {"orc": "orc_mor-0-snapshot", "hfile": HFILE.name, "lance": "lance_mor-0-snapshot"}
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]


@pytest.mark.parametrize("name", ANSWERED)
def test_rows_are_those_of_hudi(name: str) -> None:
    assert not differences(answer_of(QUERIES[name]), dataset_of(QUERIES[name]).to_table())


def test_hfiles_have_the_rows_that_were_inserted() -> None:
    assert HFILE.hudi_error is not None
    expected = pq.read_table(HFILE.table.with_name("rows.parquet"))
    rows = dataset_of(HFILE).to_table()
    assert not differences(expected, rows.select(expected.column_names))
    assert rows.column("_hoodie_record_key").equals(rows.column("id"))


@pytest.mark.parametrize(
    "row_filter",
    one_in(
        2,
        [
            pc.field("id") == "k012",
            pc.field("_hoodie_record_key").isin(["k013", "k014", "k999"]),
            pc.field("part") == "b",
            (pc.field("price") < 2) & pc.field("place").is_valid(),
            pc.field("name").is_null(),
        ],
    ),
    ids=str,
)
@pytest.mark.parametrize("columns", one_in(2, [None, ["name"], ["_hoodie_record_key", "place"], []]), ids=str)
@pytest.mark.parametrize("format_name", FORMATS)
def test_filters_and_columns(format_name: str, columns: list[str] | None, row_filter: pc.Expression) -> None:
    rows = dataset_of(QUERIES[FORMATS[format_name]])
    everything = rows.to_table()
    actual = rows.to_table(columns=columns, filter=row_filter)
    expected = everything.filter(row_filter)
    assert not differences(expected if columns is None else expected.select(columns), actual)
    assert rows.count_rows() == everything.num_rows


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_engines_get_the_rows_of_files_that_they_do_not_read(name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    for split in dataset_of(query).splits():
        with slice_delta(split) as delta:
            assert delta.base_file is None or delta.base_file.reason_unreadable() is not None
    with duckdb.connect() as connection:
        attach(connection, HudiTable.open(query.table), "trips")
        assert not differences(answer_of(query), connection.sql("FROM trips").to_arrow_table())
    scratch = Scratch.open(str(tmp_path))
    published = publish_table(Storage.open(str(query.table)), scratch, locations=Locations(), builds=1)
    assert not differences(answer_of(query), StaticTable.from_metadata(published.metadata_location).scan().to_arrow())


@pytest.mark.long
def test_each_damaged_byte_of_orc_is_an_error_of_ours_or_changes_nothing(tmp_path: Path) -> None:
    """Also in what is compressed, which Arrow has no kind of error for."""
    shutil.copytree(QUERIES[FORMATS["orc"]].table, tmp_path / "t")
    table = tmp_path / "t"
    path = max(table.rglob("*.orc"), key=lambda path: path.stat().st_size)
    whole = path.read_bytes()
    outcomes = set()
    for position in range(len(whole) - 900, len(whole), 9):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        try:
            HudiTable.open(table).snapshot().to_table()
            outcomes.add("read")
        except HudiReadError as error:
            outcomes.add(type(error).__name__)
    assert "CorruptBaseFileError" in outcomes


def test_timestamps_of_orc_are_refused_by_name() -> None:
    rows = dataset_of(next(query for query in QUERIES.values() if query.case == "orc_times"))
    with pytest.raises(UnsupportedTableError, match="at: timestamp"):
        rows.to_table()
    assert rows.to_table(columns=["id", "amount"]).num_rows == 40


def said_to_be(format_name: str, folder: Path) -> HudiTable:
    """A table of HFiles whose properties name another format."""
    shutil.copytree(HFILE.table, folder)
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("base.file.format=HFILE", f"base.file.format={format_name}"))
    return HudiTable.open(folder)


def test_lance_needs_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(QUERIES[FORMATS["lance"]].table, tmp_path / "table")
    table = HudiTable.open(tmp_path / "table")
    monkeypatch.setitem(sys.modules, "lance.file", None)
    with pytest.raises(UnsupportedTableError, match=re.escape(how_to_install("lance"))):
        table.snapshot().to_table()


@pytest.mark.parametrize("format_name", FORMATS)
def test_files_that_are_damaged_or_gone(format_name: str, tmp_path: Path) -> None:
    shutil.copytree(QUERIES[FORMATS[format_name]].table, tmp_path / "table")
    rows = HudiTable.open(tmp_path / "table").snapshot()
    rows.count_rows()
    path = next((tmp_path / "table").rglob(f"*.{format_name}"))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises((CorruptBaseFileError, CorruptTableError)):
        rows.to_table()
    path.unlink()
    with pytest.raises(DataFileGoneError):
        rows.to_table()


def test_a_table_with_another_format_than_it_says_is_refused(tmp_path: Path) -> None:
    table = said_to_be("ORC", tmp_path / "table")
    with pytest.raises(UnsupportedTableError, match="ORC base files"):
        table.snapshot().to_table()
