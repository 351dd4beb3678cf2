import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome
from tests.support.golden_cases import golden_table

Call = Callable[..., Outcome]


@pytest.fixture
def indexed() -> str:
    return str(golden_table("h_all_indexes_120"))


def lines_of(outcome: Outcome) -> list[dict[str, str]]:
    assert outcome.code == 0, outcome.err
    return [*csv.DictReader(io.StringIO(outcome.text))]


def test_the_indexes_of_a_table(hudi_bridge: Call, indexed: str) -> None:
    lines = lines_of(hudi_bridge("metadata", indexed))
    assert [(line["partition"], line["file_groups"], line["usable"], line["why_not"]) for line in lines] == [
        ("bloom_filters", "4", "true", ""),
        ("column_stats", "2", "true", ""),
        ("files", "1", "true", ""),
        ("partition_stats", "1", "true", ""),
        ("record_index", "2", "true", ""),
    ]
    assert {line["latest_instant"] for line in lines} == {"20261121141851700"}
    assert (lines[2]["base_records"], lines[2]["log_records"]) == ("4", "50")


def test_a_table_without_a_metadata_table(hudi_bridge: Call, tmp_path: Path) -> None:
    table = shutil.copytree(golden_table("h_bloom_footer_120"), tmp_path / "table")
    properties = table / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.table.metadata.partitions=files", ""))
    assert lines_of(hudi_bridge("metadata", str(table))) == []
    outcome = hudi_bridge("metadata", str(table), "files")
    assert outcome.code != 0
    assert "the table has no metadata table" in outcome.err


@pytest.mark.parametrize(
    ("partition", "rows", "first"),
    [
        ("files", 57, {"key": "__all_partitions__", "name": "a", "size_bytes": "0"}),
        ("record_index", 880, {"key": "k00001", "partition": "a"}),
        ("column_stats", 486, {"column": "part", "min_value": "a", "max_value": "a", "null_count": "0"}),
        ("partition_stats", 27, {"file_name": "a", "column": "part", "min_value": "a", "is_tight": "true"}),
        ("bloom_filters", 18, {"type": "DYNAMIC_V0", "instant": "20261121141835799"}),
    ],
)
def test_the_records_of_an_index(
    hudi_bridge: Call, indexed: str, partition: str, rows: int, first: dict[str, str]
) -> None:
    lines = lines_of(hudi_bridge("metadata", indexed, partition))
    assert len(lines) == rows
    assert first.items() <= lines[0].items()


def test_records_of_some_keys(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("metadata", indexed, "record_index", "--key", "k00001", "--key", "none", "-f", "json")
    (row,) = [json.loads(line) for line in outcome.text.splitlines()]
    assert (row["key"], row["partition"]) == ("k00001", "a")


@pytest.mark.long
def test_records_on_a_screen(in_terminal: Callable[..., str], indexed: str) -> None:
    assert "__all_partitions__" in in_terminal("metadata", indexed, "files", "--limit", "3")


def test_a_damaged_index_is_told(hudi_bridge: Call, tmp_path: Path) -> None:
    table = shutil.copytree(golden_table("h_bloom_footer_120"), tmp_path / "table")
    for path in (table / ".hoodie/metadata/files").glob("files-*.hfile"):
        path.write_bytes(b"")
    (line,) = lines_of(hudi_bridge("metadata", str(table)))
    assert (line["partition"], line["usable"]) == ("files", "false")
    assert "found 0 bytes" in line["why_not"]


def test_a_partition_that_is_none_is_told_with_those_there_are(hudi_bridge: Call, indexed: str) -> None:
    outcome = hudi_bridge("metadata", indexed, "other")
    assert outcome.code != 0
    assert "expected bloom_filters, column_stats, files" in outcome.err
    assert hudi_bridge("metadata", indexed, "--key", "k").code != 0
