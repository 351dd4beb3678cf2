"""How much each view of a table reads of a store: upper bounds."""

from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.inspection import VIEWS, filesystem_view, metadata_records, query_timeline
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.strength import one_in

OF_LOGS, OF_BASE_FILES = ("_log_blocks", "_log_records"), ("_overlap", "_key_filters")
WITHOUT_FOLDERS = ("_timeline", "_commits", "_commit_files", "_write_amplification", "_properties")
FOLDERS = 2
"""Those that are listed to find the partitions, or the archive."""
FILES_OF_METADATA_TABLE = 4


def number(folder: Path, *patterns: str) -> int:
    return len([path for pattern in patterns for path in folder.rglob(pattern) if path.suffix != ".crc"])


@pytest.mark.parametrize("name", ["l_storm_120", "d_archived_0150", "h_all_indexes_120"])
@pytest.mark.parametrize("suffix", one_in(5, VIEWS))
def test_a_view_takes_few_requests(name: str, suffix: str) -> None:
    folder, files = golden_table(name), CountingFileSystem()
    table = HudiTable.open(str(folder), filesystem=files)
    partitions = {part.partition_path for part in HudiTable.open(folder).file_slices()}
    requests = files.reset()
    VIEWS[suffix].rows(table, None)
    # Each partition has a file that says so, of which one is read to know how deep they are.
    data = sum(number(folder / path, "*.parquet") for path in partitions) if suffix in OF_BASE_FILES else 0
    data += sum(number(folder / path, ".*.log.*") for path in partitions) if suffix in OF_LOGS else 0
    assert requests.reads <= data + len(partitions)
    assert max(requests.by_file.values(), default=0) <= (2 if suffix == "_log_records" else 1)
    commits = len(table.timeline.commits())
    plans = 2 * (len(table.timeline.instants) - commits) + commits
    archive = number(folder / ".hoodie", "history/*", ".commits_*") if "archived" in suffix else 0
    assert requests.other_reads <= commits + plans + archive + FILES_OF_METADATA_TABLE
    assert requests.listings <= (0 if suffix in WITHOUT_FOLDERS else len(partitions) + FOLDERS)


@pytest.mark.parametrize("name", ["l_storm_120", "d_archived_0150", "h_all_indexes_120"])
def test_what_sql_functions_show_takes_few_requests(name: str) -> None:
    folder, files = golden_table(name), CountingFileSystem()
    table = HudiTable.open(str(folder), filesystem=files)
    partitions = {part.partition_path for part in HudiTable.open(folder).file_slices()}
    timeline = files.reset()
    query_timeline(table)
    # Of each instant, one file; up to table version 7, the times of files are those of the listed folder.
    assert timeline.reads == 0
    assert timeline.listings <= 1
    assert 0 < timeline.other_reads <= len(table.timeline.instants)
    view = files.reset()
    filesystem_view(table)
    assert view.reads <= len(partitions)
    assert view.listings <= len(partitions) + FOLDERS


@pytest.mark.parametrize("name", one_in(2, ["d_archived_0150", "h_all_indexes_120"]))
def test_records_of_the_metadata_table_take_a_request_for_each_of_its_files(name: str) -> None:
    folder, files = golden_table(name), CountingFileSystem()
    table = HudiTable.open(str(folder), filesystem=files)
    metadata = folder / ".hoodie" / "metadata"
    requests = files.reset()
    assert sum(batch.num_rows for batch in metadata_records(table))
    assert requests.reads == 0
    assert max(requests.by_file.values(), default=0) <= 1
    assert 0 < requests.other_reads <= number(metadata, "*.hfile", ".*.log.*", "*commit", "hoodie.properties")
