"""Partitions are passed over by their stats before they are listed, and only if no row of them passes."""

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hudi_bridge.config import QueryType
from hudi_bridge.indexes import data_skipping
from hudi_bridge.indexes.data_skipping import partitions_that_may_pass, skippable_columns
from hudi_bridge.indexes.metadata_table import INDEX_DEFINITIONS
from hudi_bridge.options import DATA_SKIPPING_KEY, METADATA_TABLE_KEY
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import examples, one_in

TABLES = (
    "a_story_v8_102",
    "a_story_v9_120",
    "d_cleaned_120",
    "d_clustering_done_120",
    "d_compacted_then_logs_120",
    "d_insert_overwrite_120",
    "d_pending_compaction_120",
    "d_restore_120",
    "e_multilevel_120",
    "g_add_column_120",
    "g_widen_120",
    "h_all_indexes_120",
    "h_column_stats_120",
    "i_all_deleted_120",
    "i_cow_120",
)
PATH = "_hoodie_partition_path"
STATS = "h_column_stats_120"


@pytest.fixture(autouse=True)
def _few_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_skipping, "_FEW_PARTITIONS", 0)


class Partitions:
    """The base files of a table: its partitions, and the rows of each."""

    def __init__(self, name: str) -> None:
        self.table = HudiTable.open(golden_table(name))
        self.query = self.table.read_optimized()
        self.paths = sorted({split.partition_path for split in self.table.splits(query_type=QueryType.READ_OPTIMIZED)})
        self.rows = self.query.to_table()
        self.columns = skippable_columns(self.query.schema.names, self.query.context)

    def kept(self, row_filter: pc.Expression) -> list[str]:
        columns, context = self.columns, self.query.context
        remaining = partitions_that_may_pass(self.table._metadata_table, self.paths, row_filter, columns, context)
        assert set(self.rows.filter(row_filter)[PATH].to_pylist()) <= set(remaining)
        return remaining


@pytest.fixture(params=one_in(5, TABLES), scope="module")
def partitions(request: pytest.FixtureRequest) -> Partitions:
    return Partitions(request.param)


def conditions(column: str, value: Any) -> Iterator[pc.Expression]:
    field = pc.field(column)
    if value is None:
        yield from (field.is_null(), ~field.is_null())
    else:
        yield from (field == value, field < value, field > value, ~(field <= value), (field == value) | field.is_null())


@pytest.mark.heavy
def test_no_row_is_lost(partitions: Partitions) -> None:
    for column in partitions.columns:
        values = partitions.rows.column(column).unique().sort()
        for index in {0, len(values) // 2, len(values) - 1} if len(values) else ():
            for condition in conditions(column, values[index].as_py()):
                partitions.kept(condition)


def test_partitions_are_saved() -> None:
    partitions = Partitions(STATS)
    assert partitions.kept(pc.field("ts") < 1) == ["a"]
    assert partitions.kept(pc.field("ts") > 10_000) == []
    assert len(partitions.kept(pc.field("ts").is_null())) == len(partitions.paths)


@pytest.fixture(scope="module")
def stats() -> Partitions:
    return Partitions(STATS)


@settings(max_examples=examples(15), deadline=None)
@given(ts=st.integers(-5, 2200), qty=st.integers(-(2**31), 2**31 - 1), is_or=st.booleans(), is_less=st.booleans())
def test_any_filter_keeps_its_partitions(stats: Partitions, ts: int, qty: int, *, is_or: bool, is_less: bool) -> None:
    of_ts = pc.field("ts") < ts if is_less else pc.field("ts") >= ts
    of_qty = pc.field("qty") < qty
    stats.kept(of_ts | of_qty if is_or else of_ts & of_qty)


@pytest.mark.parametrize("query_type", [QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED])
def test_only_queries_without_logs_use_them(monkeypatch: pytest.MonkeyPatch, query_type: QueryType) -> None:
    asked = []

    def ask(*arguments: Any) -> list[str]:
        asked.append(arguments[1])
        return partitions_that_may_pass(*arguments)

    monkeypatch.setattr(data_skipping, "partitions_that_may_pass", ask)
    expected = HudiTable.open(golden_table(STATS), options={METADATA_TABLE_KEY: "false"})
    table = HudiTable.open(golden_table(STATS))
    row_filter = pc.field("ts") < 1
    assert {split.partition_path for split in table.splits(None, query_type, row_filter)} <= {"a"}
    assert asked == ([] if query_type is QueryType.SNAPSHOT else [["a", "b", "c"]])
    name = query_type.value.lower()
    assert differences(*(getattr(item, name)().to_table(filter=row_filter) for item in (table, expected))) == []


@pytest.mark.parametrize("option", [DATA_SKIPPING_KEY, METADATA_TABLE_KEY])
def test_they_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(data_skipping, "partitions_that_may_pass", None)
    table = HudiTable.open(golden_table(STATS), options={option: "false"})
    assert table.read_optimized().to_table(filter=pc.field("ts") < 1).num_rows == 1


def test_few_partitions_and_earlier_states_are_no_reason_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    table = HudiTable.open(golden_table(STATS))
    monkeypatch.setattr(data_skipping, "partitions_that_may_pass", None)
    first = table.timeline.commits()[0].requested_time
    assert table.read_optimized(first).to_table(filter=pc.field("ts") < 1).num_rows == 1
    monkeypatch.setattr(data_skipping, "_FEW_PARTITIONS", 3)
    assert table.read_optimized().to_table(filter=pc.field("ts") < 1).num_rows == 1


def test_stats_of_fewer_values_than_there_are_keys_do_not_count(
    monkeypatch: pytest.MonkeyPatch, stats: Partitions
) -> None:
    counts = data_skipping._counts
    monkeypatch.setattr(
        data_skipping, "_counts", lambda found: {key: number for number, key in enumerate(counts(found))}
    )
    row_filter = pc.field("ts") > 10_000
    assert stats.kept(row_filter) == []
    numbers = iter(range(1_000))
    monkeypatch.setattr(data_skipping, "_counts", lambda found: {key: next(numbers) for key in counts(found)})
    assert stats.kept(row_filter) == stats.paths


def test_a_column_that_writers_no_longer_keep_stats_of_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_table(STATS), path)
    definitions = json.loads((path / INDEX_DEFINITIONS).read_text())
    row_filter = pc.field("ts") < 1
    for columns, remaining in ((["ts"], {"a"}), (["qty"], {"a", "b", "c"})):
        definitions["indexDefinitions"]["column_stats"]["sourceFields"] = columns
        (path / INDEX_DEFINITIONS).write_text(json.dumps(definitions))
        table = HudiTable.open(path)
        actual = table._indexes.partition_stats.partitions_that_may_pass(
            ["a", "b", "c"], row_filter, table.read_optimized().context
        )
        assert set(actual) == remaining


def test_stats_of_many_partitions_are_read_with_the_others(monkeypatch: pytest.MonkeyPatch, stats: Partitions) -> None:
    monkeypatch.setattr(data_skipping, "_MOST_KEYS", 0)
    assert stats.kept(pc.field("ts") < 1) == ["a"]


def test_damaged_stats_are_reported_once_and_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    shutil.copytree(golden_table(STATS), path)
    for file in (path / ".hoodie/metadata/partition_stats").glob("*.hfile"):
        file.write_bytes(b"\xff" * file.stat().st_size)
    table = HudiTable.open(path)
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        for _ in range(2):
            assert table.read_optimized().to_table(filter=pc.field("ts") < 1).num_rows == 1
    assert sum("partition stats are not used" in record.message for record in caplog.records) == 1
    assert table._indexes.partition_stats.why_not is not None
