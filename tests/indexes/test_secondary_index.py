"""Filters by a secondary index return the same rows, from the slices that it names alone."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.indexes import secondary_index
from hudi_bridge.indexes.metadata_table import INDEX_DEFINITIONS
from hudi_bridge.indexes.record_index import RecordIndexOfTable
from hudi_bridge.indexes.secondary_index import SecondaryIndexOfTable, keys_with_values
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.releases import Release
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant_files import CommitMetadata, read_commit_metadata
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import examples, one_in

TABLES = ("h_secondary_index_120", "h_secondary_index_updated_120", "h_sql_indexes_updated_102")
UPDATED = TABLES[1]
INDEX = "secondary_index_idx_city"
KEY = "_hoodie_record_key"


class Indexed:
    """A table with its rows and its secondary index."""

    def __init__(self, path: Path) -> None:
        self.table = HudiTable.open(path)
        self.rows = self.table.snapshot().to_table()
        self.context = self.table.snapshot().context
        records = RecordIndexOfTable(self.table._state, lambda: self.table._metadata_table)
        self.index = SecondaryIndexOfTable(self.table._state, lambda: self.table._metadata_table, records)

    def groups(self, row_filter: pc.Expression) -> Any:
        return self.index.file_groups(row_filter, ["city"], self.context)

    def check(self, row_filter: pc.Expression) -> None:
        assert differences(self.rows.filter(row_filter), self.table.snapshot().to_table(filter=row_filter)) == []


@pytest.fixture(params=one_in(2, TABLES), scope="module")
def indexed(request: pytest.FixtureRequest) -> Indexed:
    return Indexed(golden_table(request.param))


def test_the_index_has_the_keys_of_each_value(indexed: Indexed) -> None:
    table = indexed.table._metadata_table
    by_value = indexed.table.config.release is Release.V1_1
    for city in map(str, indexed.rows["city"].unique().drop_null().to_pylist()):
        expected = list(map(str, indexed.rows.filter(pc.field("city") == city)[KEY].to_pylist()))
        assert sorted(keys_with_values(table, INDEX, [city], by_value=by_value)) == sorted(expected)
        groups = indexed.groups(pc.field("city") == city)
        assert 0 < len(groups) <= len(expected)
        indexed.check(pc.field("city") == city)
    assert indexed.index.why_not == {}
    assert keys_with_values(table, INDEX, ["nowhere", "", "City", "$"], by_value=by_value) == []


@pytest.mark.parametrize("name", one_in(2, TABLES[1:]))
def test_slices_are_saved(name: str) -> None:
    indexed = Indexed(golden_table(name))
    without = HudiTable.open(golden_table(name), options={METADATA_TABLE_KEY: "false"})
    unread = HudiTable.open(golden_table(name), options={METADATA_TABLE_KEY: "false"})
    for city, slices in (("Moved", 2), ("New", 1), ("a$b\\c", 2), ("Late", 0), ("nowhere", 0)):
        row_filter = pc.field("city") == city
        assert len(indexed.table.splits(filter=row_filter)) == slices < len(unread.splits(filter=row_filter))
        assert differences(*(item.snapshot().to_table(filter=row_filter) for item in (indexed.table, without))) == []


@settings(max_examples=examples(15), deadline=None)
@given(
    cities=st.lists(st.sampled_from(["City0", "City1", "City11", "Moved", "New", "Late", "city3", "", "a$b\\c"])),
    other=st.sampled_from(["and", "or", "not", "null"]),
    ts=st.integers(0, 6),
)
def test_rows_are_the_same(indexed: Indexed, cities: list[str], other: str, ts: int) -> None:
    listed, of_ts = pc.field("city").isin(pa.array(cities, pa.string())), pc.field("ts") < ts
    combined = {
        "and": listed & of_ts,
        "or": listed | of_ts,
        "not": ~listed,
        "null": listed | pc.field("city").is_null(),
    }
    indexed.check(combined[other])


def test_other_filters_and_queries_are_not_answered() -> None:
    indexed = Indexed(golden_table(UPDATED))
    city, moved = pc.field("city"), pc.field("city") == "Moved"
    for row_filter in (city > "Moved", city.is_null(), moved | (pc.field("ts") > 1), city.isin([None, "Moved"])):
        assert indexed.groups(row_filter) is None
    assert indexed.index.file_groups(pc.field("ts") == 1, ["ts"], indexed.context) is None
    earlier = indexed.table.snapshot(indexed.table.timeline.commits()[0].requested_time)
    assert earlier.to_table(filter=moved).num_rows == 0
    assert earlier.to_table(filter=city == "City0").num_rows == 10
    old = indexed.table.read_optimized()
    assert old.to_table(filter=city == "City0").num_rows == 10
    others: tuple[dict[str, Any], ...] = (
        {"schema_ids": "{}"},
        {"populates_meta_fields": False},
        {"field_defaults": (("city", '"x"'),)},
    )
    for changes in others:
        assert indexed.index.file_groups(moved, ["city"], replace(indexed.context, **changes)) is None


def test_values_of_many_records_are_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    indexed = Indexed(golden_table(UPDATED))
    monkeypatch.setattr(secondary_index, "_MOST_KEYS", 3)
    assert indexed.groups(pc.field("city") == "Moved") is None
    assert indexed.groups(pc.field("city") == "New") is not None
    monkeypatch.setattr(secondary_index, "_MOST_VALUES", 1)
    assert indexed.groups(pc.field("city").isin(["New", "nowhere"])) is None


def copied(folder: Path) -> Path:
    shutil.copytree(golden_table(UPDATED), folder / "t")
    return folder / "t"


def refused(path: Path, caplog: pytest.LogCaptureFixture) -> str:
    """Why the index is not used."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        indexed = Indexed(path)
        for _ in range(2):
            assert indexed.groups(pc.field("city") == "Moved") is None
        indexed.check(pc.field("city") == "Moved")
    reported = [record.message for record in caplog.records if f"{INDEX} is not used" in record.message]
    # Once by this index, once by that of the table.
    assert len(reported) == 2
    return indexed.index.why_not[INDEX]


def test_a_write_that_does_not_enter_its_rows_is_noticed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def of_bulk_insert(state: Any, instant: Any) -> CommitMetadata:
        metadata = read_commit_metadata(state, instant)
        is_insert = metadata.operation_type == "INSERT"
        return replace(metadata, operation_type="BULK_INSERT") if is_insert else metadata

    monkeypatch.setattr(secondary_index, "read_commit_metadata", of_bulk_insert)
    assert "BULK_INSERT" in refused(golden_table(UPDATED), caplog)


def test_an_index_whose_creation_is_archived_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = copied(tmp_path)
    for file in (path / ".hoodie/timeline").glob("*.indexing*"):
        file.unlink()
    assert "when it was made" in refused(path, caplog)


def test_one_of_several_indexes_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = copied(tmp_path)
    properties = path / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace(INDEX, f"{INDEX},secondary_index_idx_zone"))
    assert "secondary_index_idx_zone" in refused(path, caplog)


@pytest.mark.parametrize(
    "text", one_in(4, ["", "[]", "{}", '{"indexDefinitions": 1}', '{"indexDefinitions": {"a": {}}}', None])
)
def test_definitions_that_cannot_be_read_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None
) -> None:
    path = copied(tmp_path)
    definitions = path / INDEX_DEFINITIONS
    if text is None:
        definitions.unlink()
        assert "not known" in refused(path, caplog)
    else:
        definitions.write_text(text)
        assert INDEX_DEFINITIONS in refused(path, caplog)


def test_a_definition_of_another_kind_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = copied(tmp_path)
    definitions = json.loads((path / INDEX_DEFINITIONS).read_text())
    definitions["indexDefinitions"][INDEX]["sourceFields"] = ["city", "zone"]
    (path / INDEX_DEFINITIONS).write_text(json.dumps(definitions))
    assert "not known" in refused(path, caplog)


def test_a_damaged_index_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = copied(tmp_path)
    for file in (path / ".hoodie/metadata" / INDEX).glob("*.hfile"):
        file.write_bytes(b"\0" * file.stat().st_size)
    assert ".hfile" in refused(path, caplog)
