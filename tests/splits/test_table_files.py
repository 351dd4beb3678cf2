"""Listings of folders come back as they were, and splits are made of them one after another."""

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hudi_bridge.config import QueryType
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.splits.file_slice import FileGroup
from hudi_bridge.splits.file_system_view import FILES, TimelineView, build_file_groups
from hudi_bridge.splits.partitions import QueryColumns
from hudi_bridge.splits.table_files import FolderListings, TableFiles, open_state
from hudi_bridge.storage.storage import FileInfo, Storage
from hudi_bridge.timeline.timeline import TableState
from tests.support.table_writer import TableWriter, at

NAMES = (
    ".f1-0_20260101.log.1_0-1-1",
    "plain.parquet",
    'quo"te',
    "line\nbreak",
    "na\u00efve-\u03a9-\U0001f600",
    "\udcff",
)


@pytest.mark.parametrize("must_exist", [True, False])
def test_listings_come_back_as_they_were(must_exist: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = TableWriter(folder=tmp_path).create().open()._state
    entries = tuple(
        FileInfo(path=f"day=1/{name}", size_bytes=number << 40, is_dir=number % 2 == 1)
        for number, name in enumerate(NAMES)
    )
    asked: list[tuple[str, bool]] = []

    def listed(_: Storage, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        asked.append((path, must_exist))
        return entries

    monkeypatch.setattr(Storage, "list_directory", listed)
    listings = FolderListings(state)
    for _ in range(2):
        assert listings.entries("day=1", must_exist=must_exist) == entries
    assert asked == [("day=1", must_exist)]


@pytest.mark.parametrize("pattern", ["*.parquet", ".*.log.*"])
def test_folders_with_the_names_of_data_files_are_an_error(tmp_path: Path, pattern: str) -> None:
    table = TableWriter(folder=tmp_path).create()
    table.base_file(at(1), [{"id": "a", "value": "1", "ts": 1}])
    table.commit(at(1))
    table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "value": "2", "ts": 2}])])
    table.commit(at(2))
    (file,) = tmp_path.glob(pattern)
    file.unlink()
    file.mkdir()
    with pytest.raises(CorruptTableError, match=f"{re.escape(file.name)}: found a folder, expected a file of rows"):
        table.open().snapshot().to_table()


def test_file_slices_are_made_a_partition_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    for part in "pqr":
        writer.base_file(at(1), [{"id": part, "value": part, "ts": 1}], partition=part, file_id=f"{part}-0")
    writer.commit(at(1))
    made: list[str] = []

    def recorded(path: str, files: Iterable[FileInfo], timeline: TimelineView) -> tuple[FileGroup, ...]:
        made.append(path)
        return build_file_groups(path, files, timeline)

    monkeypatch.setattr("hudi_bridge.splits.table_files.build_file_groups", recorded)
    splits = writer.open().snapshot().splits()
    assert (next(splits).slices[0].partition_path, made) == ("p", ["p"])
    assert ([split.slices[0].partition_path for split in splits], made) == (["q", "r"], ["p", "q", "r"])


def few(folder: Path) -> bool:
    return FolderListings(open_state(Storage.open(str(folder)), {}, {}, None)).are_few()


def test_a_table_of_few_folders_has_no_folders_in_its_partitions(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    for number in range(8):
        writer.partition(f".p{number}")
    assert few(tmp_path)
    writer.partition(".p0/b")
    assert not few(tmp_path)
    shutil.rmtree(tmp_path / ".p0/b")
    writer.partition("ninth")
    assert not few(tmp_path)


def test_the_folder_of_the_table_may_be_one_of_few_partitions(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path).create()
    assert few(tmp_path)
    (tmp_path / "a/b").mkdir(parents=True)
    assert not few(tmp_path)
    shutil.rmtree(tmp_path / "a")
    for number in range(8):
        assert few(tmp_path)
        writer.partition(f"p{number}")
    assert not few(tmp_path)


class ListedFiles:
    """An index that lists folders; ``asked`` tells how many partitions it was asked for at once."""

    why_not = None

    def __init__(self, storage: Storage, partitions: Sequence[str]) -> None:
        self.asked: list[int] = []
        self._storage, self._partitions = storage, partitions

    def partitions(self) -> Sequence[str]:
        return self._partitions

    def files(self, partition_paths: Sequence[str]) -> pa.Table:
        self.asked.append(len(partition_paths))
        actual = ((path, info) for path in partition_paths for info in self._storage.list_directory(path))
        return pa.Table.from_pylist(
            [
                dict(zip(FILES.names, (path, info.name, info.size_bytes), strict=True))
                for path, info in actual
                if info.name.endswith(".parquet")
            ],
            schema=FILES,
        )


def test_the_timeline_is_listed_again_a_few_times_for_many_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    parts = [f"p{number:02d}" for number in range(20)]
    for part in parts:
        writer.base_file(at(1), [{"id": part, "value": part, "ts": 1}], partition=part, file_id=f"{part}-0")
    writer.commit(at(1))
    monkeypatch.setattr("hudi_bridge.splits.table_files._PARTITIONS_AT_FIRST", 1)
    monkeypatch.setattr("hudi_bridge.splits.table_files._MOST_PARTITIONS_AT_ONCE", 8)
    columns = QueryColumns(schema=writer.open().schema, from_path=())
    state = open_state(Storage.open(str(tmp_path)), {}, {}, None)
    index = ListedFiles(state.storage, parts)
    files = TableFiles(state, FolderListings(state, index))
    again: list[int] = []
    load: Any = TableState.load

    def counted(*arguments: Any) -> TableState:
        again.append(sum(index.asked))
        loaded: TableState = load(*arguments)
        return loaded

    monkeypatch.setattr(TableState, "load", counted)
    slices = files.file_slices(QueryType.SNAPSHOT, columns, None)
    assert (next(slices).partition_path, again) == ("p00", [1])
    assert [item.partition_path for item in slices] == parts[1:]
    assert (index.asked, again) == ([1, 2, 4, 8, 5], [1, 3, 7, 15, 20])
    # Slices that are known are not checked again.
    assert [file_slice.partition_path for file_slice in files.file_slices(QueryType.SNAPSHOT, columns, None)] == parts
    assert len(again) == 5


def test_the_files_of_a_partition_are_looked_up_once_for_the_groups_of_all_states(tmp_path: Path) -> None:
    writer = TableWriter(folder=tmp_path, partition_fields=("value",)).create()
    groups = [(f"p{number:02d}", f"f{number:02d}-0") for number in range(20)]
    for part, file_id in groups:
        writer.base_file(at(1), [{"id": part, "value": part, "ts": 1}], partition=part, file_id=file_id)
    writer.commit(at(1))
    state = open_state(Storage.open(str(tmp_path)), {}, {}, None)
    index = ListedFiles(state.storage, [part for part, _ in groups])
    listings = FolderListings(state, index)
    for _ in range(2):
        slices = TableFiles(state, listings).slices_of([*groups, ("p00", "f01-0"), ("gone", "f00-0")])
        assert slices.keys() == set(groups)
        assert all(f"{file_id}_" in str(slices[part, file_id].base_file) for part, file_id in groups)
    assert index.asked == [21]
    assert TableFiles(state, FolderListings(state)).slices_of(groups) == slices
