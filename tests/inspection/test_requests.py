"""How much each view of a table reads of a store: upper bounds."""

from pathlib import Path

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.inspection import VIEWS
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table

OF_LOGS, OF_BASE_FILES = ("_log_blocks", "_log_records"), ("_overlap", "_key_filters")
WITHOUT_FOLDERS = ("_timeline", "_commits", "_commit_files", "_write_amplification", "_properties")
FOLDERS = 2
"""Those that are listed to find the partitions, or the archive."""
FILES_OF_METADATA_TABLE = 4


def number(folder: Path, *patterns: str) -> int:
    return len([path for pattern in patterns for path in folder.rglob(pattern) if path.suffix != ".crc"])


@pytest.mark.parametrize("name", ["l_storm_120", "d_archived_0150", "h_all_indexes_120"])
@pytest.mark.parametrize("suffix", VIEWS)
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
