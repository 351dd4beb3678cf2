"""Tables of external files: Parquet files of other writers that replace commits register, as Apache XTable's do."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge import (
    CorruptTableError,
    DataFileGoneError,
    HudiDataset,
    HudiTable,
    UnsupportedTableError,
    tools,
)
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.trino.publication import read_slices
from hudi_bridge.connectors.trino.publish import publish_log_records
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.splits.file_slice import parse_base_file_name, stored_path
from hudi_bridge.storage.storage import Storage
from hudi_bridge.tools.checks.findings import Severity
from tests.support.compare import differences
from tests.support.golden_cases import golden_external
from tests.support.golden_queries import answer_of, dataset_of
from tests.support.other_golden import WITHOUT_ENDING, WITHOUT_METADATA_TABLE
from tests.support.strength import one_in

QUERIES = {query.name: query for query in golden_external()}
TABLES = {query.case: query.table for query in QUERIES.values()}
ARCHIVED = "archived_v6"
"""A table whose commits have been archived, without what they registered."""
ANSWERED = [
    name
    for name, query in QUERIES.items()
    if query.answer is not None and query.case not in (WITHOUT_METADATA_TABLE, WITHOUT_ENDING)
]
SNAPSHOTS = [name for name in ANSWERED if QUERIES[name].kind == "snapshot"]
LISTED = {METADATA_TABLE_KEY: "false"}
CONDITIONS = {
    "key": pc.field("id") == 21,
    "key of a file of Hudi": pc.field("id") == 45,
    "range": pc.field("id") < 23,
    "text": pc.field("name") == "n26",
    "partition": pc.field("part") == "a",
    "other partition": pc.field("part") == "c",
    "both": (pc.field("part") == "a") & (pc.field("id") > 26),
    "null": pc.field("name").is_null(),
}


def copied(name: str, folder: Path) -> Path:
    """A copy of a table that a test may change."""
    return Path(shutil.copytree(TABLES[name], folder / name))


@pytest.mark.parametrize("name", one_in(4, ANSWERED))
def test_rows_are_those_of_hudi(name: str) -> None:
    assert differences(answer_of(QUERIES[name]), dataset_of(QUERIES[name]).to_table()) == []


@pytest.mark.parametrize("name", [name for name in ANSWERED if QUERIES[name].case != ARCHIVED])
def test_rows_are_the_same_by_what_the_commits_name(name: str) -> None:
    query = QUERIES[name]
    actual = dataset_of(query, HudiTable.open(query.table, options=LISTED)).to_table()
    assert differences(answer_of(query), actual) == []


def test_without_a_metadata_table_commits_name_the_files_that_hudi_does_not_find() -> None:
    named = 0
    for name, query in QUERIES.items():
        if query.case == WITHOUT_METADATA_TABLE and query.answer is not None:
            assert not answer_of(query).num_rows
            # The same commits, with a metadata table.
            other = QUERIES[name.replace(WITHOUT_METADATA_TABLE, "parts_v9")]
            assert differences(answer_of(other), dataset_of(query).to_table()) == []
            named += 1
    assert named == 5


def test_an_archived_commit_that_does_not_tell_its_files_is_refused_without_a_metadata_table() -> None:
    with pytest.raises(UnsupportedTableError, match="the archived commit 20260101000000000, which does not tell"):
        HudiTable.open(TABLES[ARCHIVED], options=LISTED).snapshot().to_table()


def test_a_file_that_hudi_passes_over_is_refused() -> None:
    query = QUERIES[f"{WITHOUT_ENDING}-0-snapshot"]
    assert answer_of(query)["id"].to_pylist() == [*range(5)]
    with pytest.raises(UnsupportedTableError, match="000000_0_20260101000000000_hudiext"):
        dataset_of(query).to_table()


@pytest.mark.parametrize("options", [{}, LISTED], ids=["indexed", "listed"])
@pytest.mark.parametrize("name", one_in(3, [name for name in SNAPSHOTS if QUERIES[name].case != ARCHIVED]))
def test_a_filter_has_the_rows_of_the_snapshot_that_pass(name: str, options: dict[str, str]) -> None:
    table = HudiTable.open(QUERIES[name].table, options=options)
    whole = table.snapshot().to_table()
    for condition in CONDITIONS.values():
        assert differences(whole.filter(condition), table.snapshot().to_table(filter=condition)) == []
        assert table.snapshot().count_rows(condition) == whole.filter(condition).num_rows


def test_column_stats_pass_over_external_files() -> None:
    explained = HudiTable.open(TABLES["flat_v9"]).snapshot().explain(filter=pc.field("id") == 21)
    assert [part.base_path for part in explained.slices] == ["part-00001.parquet"]


def test_slices_have_the_files_in_storage() -> None:
    slices = HudiTable.open(TABLES["parts_v9"]).file_slices()
    assert [(part.partition_path, part.file_id, part.base_file and part.base_file.path) for part in slices] == [
        ("a", "bucket-1/f2.parquet", "a/bucket-1/f2.parquet"),
        ("a", "bucket-1/f3_1.parquet", "a/bucket-1/f3_1.parquet"),
        ("b", "bucket-1/x=y z/f2.parquet", "b/bucket-1/x=y z/f2.parquet"),
    ]
    assert all(part.is_external for part in slices)
    inserted = HudiTable.open(TABLES["inserted_v9"])
    assert sorted(file_slice.is_external for file_slice in inserted.file_slices()) == [False, False, True, True, True]
    columns = inserted.file_columns("b/bucket-1/x=y z/f2.parquet")
    assert [column.column for column in columns[0].columns] == ["id", "name", "price", "part"]


def test_ranges_need_commit_times() -> None:
    with pytest.raises(UnsupportedTableError, match="a table without meta columns"):
        HudiTable.open(TABLES["parts_v6"]).incremental("000").to_table()
    table = HudiTable.open(TABLES["meta_columns_v9"])
    with pytest.raises(UnsupportedTableError, match="whose rows have no commit times"):
        table.incremental("000").to_table()
    later = str(table.timeline.commits()[2].completion_time)
    assert table.incremental(later).to_table()["id"].to_pylist() == [*range(40, 50)] * 2


def test_changes_compare_the_files_of_two_states_by_record_key() -> None:
    table = HudiTable.open(TABLES["inserted_v9"])
    first, second = (str(commit.completion_time) for commit in table.timeline.commits()[:2])
    assert operations(table.changes(first)) == {"d": [*range(20)], "i": [*range(20, 33), *range(40, 50)]}
    assert operations(table.changes(first, second)) == {"d": [*range(10)], "i": [*range(20, 25)]}
    with pytest.raises(UnsupportedTableError, match="no meta columns and no record key fields"):
        HudiTable.open(TABLES["parts_v9"]).changes("000").to_table()


def operations(changes: HudiDataset) -> dict[str, list[int]]:
    """The keys of changed rows by operation."""
    actual: dict[str, set[int]] = {}
    for row in changes.to_table().to_pylist():
        image = row["after"] or row["before"]
        actual.setdefault(row["op"], set()).add(json.loads(image)["id"] if isinstance(image, str) else image["id"])
    return {operation: sorted(keys) for operation, keys in actual.items()}


@pytest.mark.parametrize("name", one_in(4, SNAPSHOTS))
def test_doctor_takes_external_files_for_those_of_the_table(name: str) -> None:
    findings = tools.doctor(HudiTable.open(QUERIES[name].table), deep=True).findings
    assert [finding for finding in findings if finding.severity in (Severity.ERROR, Severity.WARNING)] == []
    assert not any("run_clean" in (finding.remedy or "") for finding in findings)


@pytest.mark.parametrize("name", ["parts_v9", WITHOUT_METADATA_TABLE])
def test_a_missing_external_file_is_gone_and_doctor_says_so(name: str, tmp_path: Path) -> None:
    path = copied(name, tmp_path)
    (path / "a" / "bucket-1" / "f2.parquet").unlink()
    with pytest.raises(DataFileGoneError, match=re.escape("a/bucket-1/f2.parquet")):
        HudiTable.open(path).snapshot().to_table()
    findings = [finding for finding in tools.doctor(HudiTable.open(path)).findings if finding.check == "missing-files"]
    assert [item.path for item in findings] == ["a/bucket-1/f2.parquet"]


def test_files_beside_external_ones_are_no_part_of_the_table(tmp_path: Path) -> None:
    path = copied("parts_v9", tmp_path)
    rows = HudiTable.open(path).snapshot().to_table()
    pq.write_table(rows, path / "a" / "stray.parquet")
    assert HudiTable.open(path).snapshot().to_table().num_rows == rows.num_rows
    assert HudiTable.open(path, options=LISTED).snapshot().to_table().num_rows == rows.num_rows


@pytest.mark.parametrize("name", one_in(4, SNAPSHOTS))
def test_iceberg_and_trino_get_the_files_where_they_are(name: str, tmp_path: Path) -> None:
    query = QUERIES[name]
    published = publish_table(
        Storage.open(str(query.table)), Scratch.open(str(tmp_path / "iceberg")), locations=Locations(), builds=1
    )
    rows = StaticTable.from_metadata(published.metadata_location).scan()
    assert differences(answer_of(query), rows.to_arrow()) == []
    table = HudiTable.open(query.table)
    paths = {
        f"file://{query.table}/{file_slice.base_file.path}"
        for file_slice in table.file_slices()
        if file_slice.base_file
    }
    publication = publish_log_records(table, str(tmp_path / "trino")).publication
    slices = read_slices(Scratch.open(str(tmp_path / "trino")), publication)
    assert {item.base_uri for item in slices} == paths
    assert paths.issuperset(task.file.file_path for task in rows.plan_files())


def test_names_in_commits_tell_the_file_in_storage() -> None:
    assert stored_path("a/b.parquet_1_hudiext") == "a/b.parquet"
    assert stored_path("a/x/b_2.parquet_1_fg%3Dx_hudiext") == "a/x/b_2.parquet"
    assert stored_path("a/x=1/y/b.parquet_1_fg%3Dx%3D1%2Fy_hudiext") == "a/x=1/y/b.parquet"
    assert stored_path("a/0_1-1-1_2.parquet") == "a/0_1-1-1_2.parquet"
    name = parse_base_file_name("b_2.parquet_1_fg%3Dx%3D1%2Fy_hudiext")
    assert name is not None
    assert (name.file_id, name.instant_time, name.extension) == ("x=1/y/b_2.parquet", "1", "parquet")
    with pytest.raises(CorruptTableError, match="one in 'y'"):
        stored_path("a/x/b.parquet_1_fg%3Dy_hudiext")
    with pytest.raises(CorruptTableError, match="without an instant"):
        stored_path("a/b.parquet_hudiext")
