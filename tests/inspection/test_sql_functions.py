"""What Hudi's table-valued functions show, as Arrow, compared with Hudi's answers."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, QueryError, TableNotFoundError
from hudi_bridge.inspection import (
    FILESYSTEM_VIEW_SCHEMA,
    METADATA_RECORDS_SCHEMA,
    QUERY_TIMELINE_SCHEMA,
    filesystem_view,
    metadata_records,
    query_timeline,
)
from tests.support.golden_cases import golden_table
from tests.support.sql_functions import Answer, answers, rows_as_json, sorted_rows
from tests.support.strength import one_in
from tests.support.table_writer import KEY_AND_VALUE, TableWriter, at

SHOWN = [answer for answer in answers() if answer.function != "hudi_table_changes"]
SCHEMAS = {
    "hudi_query_timeline": QUERY_TIMELINE_SCHEMA,
    "hudi_filesystem_view": FILESYSTEM_VIEW_SCHEMA,
    "hudi_metadata": METADATA_RECORDS_SCHEMA,
}


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(table: HudiTable, answer: Answer) -> list[pa.RecordBatch]:
    match answer.function:
        case "hudi_query_timeline":
            return query_timeline(table, include_archived=answer.arguments in (["true"], ["TRUE"])).to_batches()
        case "hudi_filesystem_view":
            return filesystem_view(table, *answer.arguments).to_batches()
        case _:
            return list(metadata_records(table))


@pytest.mark.parametrize("answer", one_in(5, SHOWN), ids=lambda answer: answer.name)
@pytest.mark.usefixtures("in_utc")
def test_rows_are_those_of_hudi(answer: Answer) -> None:
    path = golden_table(answer.table)
    batches = shown(HudiTable.open(str(path)), answer)
    assert all(batch.schema == SCHEMAS[answer.function] for batch in batches)
    assert [name for name, _ in answer.columns] == SCHEMAS[answer.function].names
    assert sorted_rows(rows_as_json(batches, str(path))) == sorted_rows(answer.rows)


def test_each_function_has_answers_with_rows() -> None:
    assert {answer.function for answer in SHOWN if answer.rows} == SCHEMAS.keys()
    assert sum(bool(answer.rows) for answer in SHOWN) > 100


def test_a_slice_that_a_pending_compaction_opens_has_no_base_file() -> None:
    table = HudiTable.open(str(golden_table("d_pending_compaction_120")))
    rows = filesystem_view(table, "*").filter(pc.field("Base_File_Size") == -1).to_pylist()
    [pending] = [instant.requested_time for instant in table.timeline.instants if not instant.is_completed]
    assert {row["Base_Instant_Time"] for row in rows} == {pending}
    assert {row["Base_File_Path"] for row in rows} == {""}


@pytest.mark.parametrize(
    "table", ["a_story_v5_0122", "a_story_v6_0150", "h_record_index_0150", "h_expression_index_102"]
)
def test_metadata_tables_of_older_releases_which_hudi_cannot_show(table: str) -> None:
    rows = pa.Table.from_batches(metadata_records(HudiTable.open(str(golden_table(table)))), METADATA_RECORDS_SCHEMA)
    kinds = set(rows.column("type").to_pylist())
    assert {1, 2} <= kinds
    files = rows.filter(pc.field("type") == 2)
    assert all(files.column("filesystemMetadata").to_pylist())


def test_a_table_without_a_metadata_table() -> None:
    with pytest.raises(TableNotFoundError, match="no metadata table"):
        list(metadata_records(HudiTable.open(str(golden_table("a_story_v9_120_nomdt")))))


@pytest.mark.parametrize("pattern", ["[a", "{a,b", "a}"])
def test_a_pattern_whose_brackets_are_open(pattern: str) -> None:
    with pytest.raises(QueryError, match="brackets"):
        filesystem_view(HudiTable.open(str(golden_table("a_story_v9_120"))), pattern)


def written(folder: Path) -> TableWriter:
    writer = TableWriter(folder=folder, fields=KEY_AND_VALUE).create()
    for number, part in enumerate(("a b", "a*b", "[x]", "x"), start=1):
        path = writer.base_file(at(number), [{"id": part, "ts": 1, "value": "v"}], partition=part)
        writer.commit(at(number), wrote=[path])
    return writer


@pytest.mark.parametrize(
    ("pattern", "partitions"),
    [
        ("a*", ["a b", "a*b"]),
        (r"a\*b", ["a*b"]),
        ("a?b", ["a b", "a*b"]),
        (r"\[x\]", ["[x]"]),
        ("[a-x]", ["x"]),
        ("[^a]", ["x"]),
        ("{x,a*}", ["a b", "a*b", "x"]),
        ("{x,{x,[x]}}", ["x"]),
        ("..", []),
        (".hoodie", []),
    ],
)
def test_patterns_of_folders(tmp_path: Path, pattern: str, partitions: list[str]) -> None:
    table = HudiTable.open(str(written(tmp_path / "table").folder))
    shown_partitions = filesystem_view(table, pattern).column("Partition_Path").to_pylist()
    assert sorted(map(str, shown_partitions)) == sorted(partitions)


@pytest.mark.usefixtures("in_utc")
def test_the_time_of_a_file_is_in_the_zone_of_the_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table"
    shutil.copytree(golden_table("a_story_v6_0150"), path)
    for file in (path / ".hoodie").glob("*.deltacommit"):
        os.utime(file, (1_700_000_000.5, 1_700_000_000.5))
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    assert set(query_timeline(HudiTable.open(str(path))).column("Completion_Time").to_pylist()) == {"20231115034320500"}
    with (path / ".hoodie" / "hoodie.properties").open("a") as properties:
        properties.write("hoodie.table.timeline.timezone=UTC\n")
    assert set(query_timeline(HudiTable.open(str(path))).column("Completion_Time").to_pylist()) == {"20231114221320500"}


def test_the_totals_of_a_write_whose_file_is_damaged_are_unknown(tmp_path: Path) -> None:
    path = tmp_path / "table"
    shutil.copytree(golden_table("a_story_v9_120"), path)
    [*_, last] = sorted((path / ".hoodie" / "timeline").glob("*.deltacommit"))
    last.write_bytes(last.read_bytes()[:-40])
    *_, row = query_timeline(HudiTable.open(str(path))).to_pylist()
    assert (row["File_Name"], row["Total_Records_Written"]) == (last.name, -1)
