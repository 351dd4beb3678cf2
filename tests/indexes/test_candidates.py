"""What a look-up reads of a table: requests and bytes, with each index and without."""

import shutil
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc
import pytest

from hudi_bridge.table import HudiTable
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.table_writer import TableWriter, at

SLICES = 12
KEYS_IN_SLICE = 20
NO_SKIPPING = {"hoodie.enable.data.skipping": "false"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}


def written(folder: Path, *, with_key_index: bool, logs: Sequence[int] = (), spread: bool = True) -> Path:
    """A table of slices whose key ranges overlap if keys are spread; those of ``logs`` have a log with a key more."""
    writer = TableWriter(folder=folder).create()
    for number in range(SLICES):
        places = [item * SLICES + number if spread else number * KEYS_IN_SLICE + item for item in range(KEYS_IN_SLICE)]
        rows = [{"id": f"k{location:05d}", "ts": 1, "value": "base"} for location in places]
        writer.base_file(at(1), rows, file_id=f"f{number:02d}-0", with_key_index=with_key_index)
    writer.commit(at(1))
    for number in logs:
        block = writer.data_block(at(2), [{"id": f"log{number:02d}", "ts": 2, "value": "log"}])
        writer.log_file(at(2), [block], base_instant=at(1), file_id=f"f{number:02d}-0")
    if logs:
        writer.commit(at(2))
    return folder


@dataclass(frozen=True)
class Count:
    """Requests for data files by a cold and a warm look-up of one key."""

    cold: int
    warm: int
    rows: int


def counted(folder: Path, key: str, options: Mapping[str, str] | None = None) -> Count:
    files = CountingFileSystem()
    table = HudiTable.open(str(folder), files, options)
    cold = files.reset()
    rows = table.get(key).num_rows
    warm = files.reset()
    assert table.get(key).num_rows == rows
    return Count(cold=cold.reads, warm=warm.reads, rows=rows)


def test_key_ranges(tmp_path: Path) -> None:
    table = written(tmp_path / "t", with_key_index=True, spread=False)
    actual = counted(table, "k00025")
    assert actual.rows == 1
    # One footer for each file, then all columns of the only candidate, which is small.
    assert actual.cold <= SLICES + 1
    assert actual.warm <= 1
    without = counted(table, "k00025", NO_SKIPPING)
    assert without.rows == 1
    # The statistics of row groups rule out the same files.
    assert without.cold <= SLICES + 2


@pytest.mark.parametrize(("key", "rows", "warm"), [("k00025", 1, 1), ("k99999", 0, 0), ("k00025x", 0, 0)])
def test_bloom_filters_where_all_ranges_overlap(tmp_path: Path, key: str, rows: int, warm: int) -> None:
    table = written(tmp_path / "t", with_key_index=True)
    actual = counted(table, key)
    assert actual.rows == rows
    assert actual.cold <= SLICES + warm
    assert actual.warm <= warm
    without = counted(table, key, NO_SKIPPING)
    assert without.rows == rows
    if key == "k00025":
        # Files as small as these are read whole, and then only for the rows of those that may hold the key.
        assert without.cold == SLICES
        assert without.warm >= SLICES


def test_footers_that_a_filter_was_asked_of_are_kept(tmp_path: Path) -> None:
    filesystem = CountingFileSystem()
    table = HudiTable.open(str(written(tmp_path / "t", with_key_index=False, spread=False)), filesystem)
    for name, read in (("k00025", SLICES), ("k00065", 1), ("k00065", 1), ("k1", 0)):
        requests = filesystem.reset()
        actual = table.snapshot().to_table(["id"], (pc.field("id") >= name) & (pc.field("id") <= name))
        assert actual["id"].to_pylist() == ([] if name == "k1" else [name])
        assert len(requests.by_file) == read


def test_logs_may_hold_any_key(tmp_path: Path) -> None:
    table = written(tmp_path / "t", with_key_index=True, logs=(3, 7))
    in_log = counted(table, "log07")
    assert in_log.rows == 1
    # The footers, the keys of two logs, and then the log with the key once more.
    assert in_log.cold <= SLICES + 2 + 1
    assert in_log.warm <= 1
    nowhere = counted(table, "log05")
    assert nowhere.rows == 0
    assert nowhere.warm == 0


def test_at_most_three_requests_for_each_candidate(tmp_path: Path) -> None:
    files = CountingFileSystem()
    folder = written(tmp_path / "t", with_key_index=True, logs=(3, 7))
    keys = [f"k{number:05d}" for number in range(SLICES * KEYS_IN_SLICE)]
    requests = files.reset()
    assert HudiTable.open(str(folder), files).get(keys).num_rows == len(keys)
    assert max(requests.by_file.values()) <= 3


def test_columns_are_read_where_a_key_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._ALWAYS_WHOLE_BYTES", 0)
    monkeypatch.setattr("hudi_bridge.readers.fetch_ahead._WHOLE_BYTES", 0)
    # The end of the files with their footers, but not their rows.
    monkeypatch.setattr("hudi_bridge.readers.base_formats.footers._USUAL_FOOTER_BYTES", 1900)
    folder = written(tmp_path / "t", with_key_index=False, spread=False)
    reads = {}
    for value, rows in (("nowhere", 0), ("base", SLICES * KEYS_IN_SLICE)):
        files = CountingFileSystem()
        dataset = HudiTable.open(str(folder), files).snapshot()
        requests = files.reset()
        assert dataset.to_table(filter=pc.field("value").isin([value, f"{value}x"])).num_rows == rows
        reads[value] = requests.reads
    # Statistics rule out one of them only.
    assert reads["nowhere"] <= 2 * SLICES < reads["base"] <= 3 * SLICES


def test_a_record_index_names_the_file_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Index:
        asked = 0
        why_not: str | None = None

        def file_groups(self, record_keys: Sequence[str]) -> AbstractSet[tuple[str, str]] | None:
            self.asked += 1
            return None if "unsure" in record_keys else {("", "f01-0")}

    folder = written(tmp_path / "t", with_key_index=True)
    files = CountingFileSystem()
    index = Index()
    table = HudiTable.open(str(folder), files)
    monkeypatch.setattr(table._indexes, "record_index", index)
    dataset = table.snapshot()
    assert dataset.schema
    requests = files.reset()
    assert dataset.get("k00025").num_rows == 1
    assert requests.reads <= 3
    assert list(requests.by_file) == [f"f01-0_0-1-1_{at(1)}.parquet"]
    assert dataset.get(["k00025", "k00026", "unsure"]).num_rows == 2
    assert index.asked == 2


@pytest.mark.parametrize(
    ("case", "option"),
    [
        ("h_record_index_120", {"hoodie.metadata.enable": "false"}),
        ("d_bucket_index_120", {}),
    ],
)
def test_indexes_of_hudi_save_requests(case: str, option: Mapping[str, str]) -> None:
    folder = golden_table(case)
    key = HudiTable.open(str(folder)).snapshot().to_table()["_hoodie_record_key"][5].as_py()
    with_index = counted(folder, key, BUCKETS if "bucket" in case else {})
    without = counted(folder, key, option)
    assert with_index.rows == without.rows == 1
    assert with_index.cold < without.cold


def test_a_damaged_footer_hides_no_key(tmp_path: Path) -> None:
    folder = written(tmp_path / "t", with_key_index=True)
    path = next(folder.glob("f01-0_*.parquet"))
    damaged = path.read_bytes().replace(b"hoodie_bloom_filter_type_code", b"hoodie_bloom_filter_type_xxxx")
    damaged = damaged.replace(b"org.apache.hudi.bloomfilter", b"org.apache.hudi.bloomfilxxx")
    path.write_bytes(damaged.replace(b"hoodie_min_record_key", b"hoodie_min_record_xxx"))
    assert counted(folder, "k00025").rows == 1


def test_a_later_log_is_found_after_a_refresh(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    shutil.copytree(written(tmp_path / "first", with_key_index=True), folder)
    table = HudiTable.open(str(folder))
    assert table.get("log03").num_rows == 0
    writer = TableWriter(folder=folder)
    block = writer.data_block(at(2), [{"id": "log03", "ts": 2, "value": "log"}])
    writer.log_file(at(2), [block], base_instant=at(1), file_id="f03-0")
    writer.commit(at(2))
    assert table.refresh().get("log03").num_rows == 1
