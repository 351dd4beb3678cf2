"""Indexes that are being built, or that lack a commit, are not used, and answers are the same."""

import logging
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge.indexes import data_skipping
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.table import HudiTable
from tests.support.compare import differences
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

Query = Callable[[HudiTable], pa.Table]
OF_CITY = pc.field("city") == "Moved"
OF_TS = pc.field("ts") < 1
# Without those that were deleted: where a delete may come late, the record index is not asked about keys that it lost.
ALL_KEYS = [f"k{number:05}" for number in range(1_000) if number % 45]
OF_FILES = {"bloom_filters", "column_stats", "expr_index_idx_low"}
"""Indexes of files, which serve queries of earlier states too."""


def of_city(table: HudiTable) -> pa.Table:
    return table.snapshot().to_table(filter=OF_CITY)


def step(name: str) -> Callable[[HudiTable], Mapping[str, str]]:
    def why_not(table: HudiTable) -> Mapping[str, str]:
        actual: Any = dict(table._indexes.skipping_by_records.steps).get(
            name, table._indexes.skipping_by_records.groups
        )
        reasons: Mapping[str, str] = actual.why_not
        return reasons

    return why_not


INDEXES: Mapping[str, tuple[str, Query, Callable[[HudiTable], Mapping[str, str | None]]]] = {
    "bloom_filters": (
        "h_bloom_mdt_120",
        lambda table: table.get("k00155"),
        lambda table: table._indexes.key_index.why_not,
    ),
    "column_stats": (
        "h_column_stats_120",
        lambda table: table.get("k00155"),
        lambda table: table._indexes.key_index.why_not,
    ),
    "partition_stats": (
        "h_column_stats_120",
        lambda table: table.read_optimized().to_table(filter=OF_TS),
        lambda table: {"partition_stats": table._indexes.partition_stats.why_not},
    ),
    "record_index": (
        "h_record_index_120",
        lambda table: table.get(ALL_KEYS),
        lambda table: {"record_index": table._indexes.record_index.why_not},
    ),
    "secondary_index_idx_city": ("h_secondary_index_updated_120", of_city, step("secondary index")),
    "expr_index_idx_low": ("h_sql_indexes_updated_102", of_city, step("expression index")),
}


@pytest.fixture(params=one_in(3, sorted(INDEXES)))
def index(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(data_skipping, "_FEW_PARTITIONS", 0)
    return str(request.param)


@pytest.fixture
def looked_into(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The partitions of the metadata table that were looked into."""
    actual: list[str] = []
    file_groups = MetadataTable.file_groups

    def recorded(table: MetadataTable, partition: str) -> Any:
        actual.append(partition)
        return file_groups(table, partition)

    monkeypatch.setattr(MetadataTable, "file_groups", recorded)
    return actual


def test_a_complete_index_is_used(index: str, looked_into: list[str]) -> None:
    name, query, why_not = INDEXES[index]
    table = HudiTable.open(golden_table(name))
    assert query(table).num_rows > 0
    assert index in looked_into
    assert not why_not(table).get(index)


def test_an_index_that_is_being_built(index: str, looked_into: list[str], tmp_path: Path) -> None:
    name, query, _ = INDEXES[index]
    path = tmp_path / "t"
    shutil.copytree(golden_table(name), path)
    properties = path / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "metadata.partitions.inflight" not in line]
    text = re.sub(
        rf"({index},)|(,{index}(?=\n))", "", "\n".join([*lines, f"hoodie.table.metadata.partitions.inflight={index}\n"])
    )
    properties.write_text(text)
    assert differences(query(HudiTable.open(golden_table(name))), query(HudiTable.open(path))) == []
    looked_into.clear()
    query(HudiTable.open(path))
    assert index not in looked_into


def test_an_index_that_lacks_a_commit(
    index: str, looked_into: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, query, why_not = INDEXES[index]
    path = tmp_path / "t"
    shutil.copytree(golden_table(name), path)
    latest = HudiTable.open(path).latest_instant
    for file in (path / ".hoodie/metadata/.hoodie/timeline").glob(f"{latest}_*.deltacommit"):
        file.unlink()
    expected = query(HudiTable.open(golden_table(name)))
    looked_into.clear()
    table = HudiTable.open(path)
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        for _ in range(2):
            assert differences(expected, query(table)) == []
    assert index not in looked_into
    assert f"lacks the commit {latest}" in str(why_not(table)[index])


@pytest.mark.parametrize("later", [1, 2])
def test_an_index_of_a_later_state(
    index: str, later: int, looked_into: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    name, query, why_not = INDEXES[index]
    path = tmp_path / "t"
    shutil.copytree(golden_table(name), path)
    commits = HudiTable.open(path).timeline.commits()
    first = commits[-later].requested_time
    timeline = path / ".hoodie/timeline"
    hidden = [file for file in timeline.glob("*.*") if file.name[: len(first)] >= first]
    for file in hidden:
        file.rename(tmp_path / file.name)
    pinned = HudiTable.open(path)
    without = HudiTable.open(path, options={METADATA_TABLE_KEY: "false"})
    assert (without.latest_instant, pinned.latest_instant) == (commits[-later - 1].requested_time,) * 2
    for file in hidden:
        (tmp_path / file.name).rename(file)
    with caplog.at_level(logging.WARNING, "hudi_bridge"):
        for _ in range(2):
            assert differences(query(without), query(pinned)) == []
    assert (index in looked_into) == (index in OF_FILES)
    if index in OF_FILES:
        return
    assert f"one of a later state, after the instant {first}" in str(why_not(pinned)[index])
    query(pinned.refresh())
    assert index in looked_into
