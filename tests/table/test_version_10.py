"""Table version 10, by tables of version 9 that Hudi wrote: the same records in native logs have the same answers."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pytest

from hudi_bridge import HudiTable, UnsupportedTableError
from hudi_bridge.indexes.metadata_table import MetadataTable
from hudi_bridge.splits import table_files
from hudi_bridge.splits.notes import METADATA_TABLE
from tests.support.compare import differences
from tests.support.deviations import ANSWERED, NOT_A_NUMBER
from tests.support.golden_cases import golden_table
from tests.support.golden_queries import QUERIES, answer_of, dataset_of, query_id, rows_through_arrow
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter
from tests.support.version_10 import UNRELEASED, Version10

CASES = [
    pytest.param("a_story_v9_120", "hfile"),
    pytest.param("a_story_v9_120", "parquet"),
    pytest.param("b_event_time_120", "orc"),
    pytest.param("b_null_ordering_int_120", "hfile"),
    pytest.param("b_sql_partial_120", "parquet"),
    pytest.param("c_data_and_delete_block_111", "lance", marks=pytest.mark.extra),
    pytest.param("c_hfile_blocks_120", "hfile"),
    pytest.param("c_parquet_blocks_120", "parquet"),
    pytest.param("c_rollback_120", "orc"),
    pytest.param("d_log_compaction_120", "hfile"),
    pytest.param("d_pending_compaction_120", "parquet"),
    pytest.param("e_duplicate_keys_120", "parquet"),
    pytest.param("e_virtual_keys_120", "hfile"),
    pytest.param("f_types_120", "hfile"),
    pytest.param("g_sor_rename_readd_120", "parquet"),
    pytest.param("h_all_indexes_120", "hfile"),
    pytest.param("i_cdc_120", "parquet"),
]
"""Tables of Hudi 1.1 and 1.2, and the format of their logs here."""
INDEXED = {
    "h_all_indexes_120": [pc.field("ts") < 20, pc.field("_hoodie_record_key").isin(["k00155", "k00003"])],
    "h_column_stats_120": [pc.field("ts") < 20, pc.field("ts") > 2158, pc.field("name") == "u9-9"],
    "h_record_index_120": [pc.field("_hoodie_record_key") == "k00155"],
    "h_partitioned_record_index_120": [(pc.field("_hoodie_record_key") == "k00155") & (pc.field("part") == "a")],
    "h_secondary_index_updated_120": [pc.field("city") == "moved"],
    "h_bloom_mdt_120": [pc.field("_hoodie_record_key") == "k00155"],
}
"""Conditions that indexes in the metadata table answer."""


@pytest.fixture(autouse=True)
def _of_many_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The metadata table lists the files, of few folders too."""
    monkeypatch.setattr(table_files, "_FEW_FOLDERS", 0)


def changed(case: str, folder: Path, file_format: str) -> Version10:
    shutil.copytree(golden_table(case), folder / case)
    return Version10(folder / case, file_format).change()


@pytest.mark.parametrize(("case", "file_format"), one_in(5, CASES))
def test_answers_of_hudi_hold_in_native_logs(tmp_path: Path, case: str, file_format: str) -> None:
    version_10 = changed(case, tmp_path, file_format)
    assert version_10.renamed
    table = version_10.open()
    wrong = {}
    for key in sorted(ANSWERED - NOT_A_NUMBER):
        if key[0] == case:
            query = QUERIES[key]
            wrong[query_id(key)] = differences(answer_of(query), rows_through_arrow(dataset_of(query, table), query))
    assert wrong
    assert {name: actual for name, actual in wrong.items() if actual} == {}


@pytest.mark.parametrize("case", one_in(4, INDEXED))
def test_indexes_answer_as_in_version_9(tmp_path: Path, case: str) -> None:
    before, after = HudiTable.open(golden_table(case)), changed(case, tmp_path, "parquet").open()
    assert after.snapshot().explain().files_found_by == METADATA_TABLE
    for condition in INDEXED[case]:
        expected, actual = (table.snapshot().explain(condition) for table in (before, after))
        assert len(actual.slices) < len(after.file_slices())
        assert (actual.files_found_by, actual.steps, actual.slices_listed, len(actual.slices)) == (
            expected.files_found_by,
            expected.steps,
            expected.slices_listed,
            len(expected.slices),
        )
        rows = [table.snapshot().to_table(filter=condition) for table in (before, after)]
        assert differences(*rows) == []


@pytest.mark.parametrize("case", one_in(4, INDEXED))
def test_records_of_the_metadata_table_are_those_of_version_9(tmp_path: Path, case: str) -> None:
    before, after = HudiTable.open(golden_table(case)), changed(case, tmp_path, "hfile").open()
    tables = [MetadataTable(table._state) for table in (before, after)]
    for partition in tables[0].partitions:
        # The names of log files, which these two have, are others.
        if partition not in ("files", "column_stats"):
            expected, actual = (list(table.all(partition)) for table in tables)
            assert [part.to_pylist() for part in actual] == [part.to_pylist() for part in expected]


def files_of(folder: Path) -> Iterator[Path]:
    return (path for path in (folder / ".hoodie/metadata").rglob("*.log.*") if path.suffix != ".crc")


def test_files_of_the_metadata_table_are_native_and_some_have_no_records(tmp_path: Path) -> None:
    version_10 = changed("h_record_index_120", tmp_path, "parquet")
    logs = list(files_of(version_10.folder))
    assert logs
    assert all(path.name.endswith(".log.hfile") for path in logs)
    empty = [path for path in logs if b"DATABLK*" not in path.read_bytes()]
    assert empty
    assert version_10.open().get("k00155").num_rows == 1


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"hoodie.table.version": "11"}, "table version: found 11, supported: 5, 6, 8, 9"),
        ({"hoodie.table.format": "iceberg"}, "table format: found iceberg, supported: native"),
        ({"hoodie.table.base.file.format": "VORTEX"}, "base file format: found VORTEX, supported: PARQUET"),
        ({"hoodie.table.log.file.format": "VORTEX"}, "log file format: found VORTEX, supported: HOODIE_LOG, PARQUET"),
    ],
)
def test_what_comes_after_version_10_is_refused_with_what_was_found(
    tmp_path: Path, properties: dict[str, str], found: str
) -> None:
    writer = TableWriter(folder=tmp_path, version=10, options=properties).create()
    with pytest.raises(UnsupportedTableError, match=found):
        HudiTable.open(str(writer.folder), options=UNRELEASED)


@pytest.mark.parametrize("log_format", ["HOODIE_LOG", "parquet", "ORC", "HFILE", "LANCE"])
def test_formats_of_logs_in_the_properties(tmp_path: Path, log_format: str) -> None:
    options = {"hoodie.table.log.file.format": log_format}
    writer = TableWriter(folder=tmp_path / "10", version=10, options=options).create()
    assert HudiTable.open(str(writer.folder), options=UNRELEASED).config.table_version == 10
    older = TableWriter(folder=tmp_path / "9", options=options).create()
    if log_format != "HOODIE_LOG":
        with pytest.raises(UnsupportedTableError, match=f"log file format: found {log_format}, supported: HOODIE_LOG"):
            older.open()
