"""What a load costs, what it builds, and what is left behind: snapshots of tables of the test's own."""

import logging
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import starmap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion, Rewriting
from hudi_bridge.connectors.iceberg.served_table import Published
from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError, QueryError, UnsupportedTableError
from hudi_bridge.readers import log_scan
from hudi_bridge.readers.base_formats.parquet import ParquetBaseFile
from hudi_bridge.split_reader import open_reader_in
from tests.connectors.iceberg.snapshots import (
    SLICES,
    Client,
    builders,
    iceberg_rows,
    lists,
    table,
    update,
    update_lists,
)
from tests.service.iceberg_service import built_snapshots
from tests.support.compare import differences
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, completion_of, sorted_column

__all__ = ["builders", "lists", "table"]  # fixtures


def opened_data_files(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The data files that are opened from now on."""
    opened: list[str] = []
    open_base, read_log = ParquetBaseFile.open, log_scan.read_log_file

    def open_recorded(storage: Any, split: Any, path: str, **options: Any) -> Any:
        opened.append(path)
        return open_base(storage, split, path, **options)

    def read_recorded(storage: Any, split: Any, path: str, size_bytes: int | None, **options: Any) -> Any:
        opened.append(path)
        return read_log(storage, split, path, size_bytes, **options)

    monkeypatch.setattr(ParquetBaseFile, "open", open_recorded)
    monkeypatch.setattr(log_scan, "read_log_file", read_recorded)
    return opened


def test_an_iceberg_snapshot_has_the_rows_of_hudi_s(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    published = Client(table, tmp_path / "scratch", builders).load()
    assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_base_files_stay_where_they_are(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    published = Client(table, tmp_path / "scratch", builders).load()
    files = StaticTable.from_metadata(published.location).scan().plan_files()
    bases = {task.file.file_path: len(task.delete_files) for task in files if task.delete_files}
    expected = {f"file://{path}": 1 for path in table.folder.glob("*.parquet")}
    assert bases == expected


def test_an_unchanged_table_is_not_read_again(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    first = client.load()
    opened = opened_data_files(monkeypatch)
    assert client.load() == first
    assert Client(table, tmp_path / "scratch", builders).load() == first
    assert opened == []


def test_one_changed_slice_is_the_only_one_built(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load()
    update(table, 3, 4)
    table.commit(at(3))
    opened = opened_data_files(monkeypatch)
    published = client.load()
    assert {Path(path).name.lstrip(".").partition("_")[0] for path in opened} == {"f4-0"}
    assert client.built == SLICES + 1
    assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []


@pytest.mark.parametrize("version", [6, 9])
def test_a_block_counts_from_the_completion_of_its_write_on(
    tmp_path: Path, builders: ThreadPoolExecutor, version: int
) -> None:
    """Up to version 7, a log file holds blocks of several writes, and does not change when one of them completes."""
    table = TableWriter(folder=tmp_path / "table", version=version).create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}])
    table.commit(at(1))
    blocks = [table.data_block(at(number), [{"id": "a", "ts": number, "value": f"by {number}"}]) for number in (2, 3)]
    if version == 6:
        table.log_file(at(2), blocks, base_instant=at(1))
    else:
        for number, block in enumerate(blocks, 2):
            table.log_file(at(number), [block], number=number)
    table.commit(at(3))
    table.pending(at(2))
    client = Client(table, tmp_path / "scratch", builders)
    assert sorted_column(iceberg_rows(client.load()), "value") == ["by 3"]
    table.pending(at(4))
    assert sorted_column(iceberg_rows(client.load()), "value") == ["by 3"]
    assert client.built == 1
    (table.timeline_folder / f"{at(2)}.deltacommit.requested").unlink()
    table.commit(at(2))
    assert differences(table.open().snapshot().to_table(), iceberg_rows(client.load())) == []
    assert client.built == 2


def test_earlier_commits_are_snapshots(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load()
    update(table, 3, 0)
    table.commit(at(3))
    published = client.load()
    iceberg = StaticTable.from_metadata(published.location)
    assert built_snapshots(iceberg) == [int(at(2)), int(at(3))]
    earlier = iceberg.scan(snapshot_id=int(at(2))).to_arrow()
    assert differences(table.open().snapshot(at(2)).to_table(), earlier) == []


def test_a_time_never_finds_an_older_snapshot_than_the_commit_before_it(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load(at(1))
    update(table, 3, 0)
    table.commit(at(3))
    iceberg = StaticTable.from_metadata(client.load().location)
    times = {entry.snapshot_id: entry.timestamp_ms for entry in iceberg.history()}
    assert list(times) == [int(at(1)), int(at(2)), int(at(3))]
    # No snapshot of the second commit has been built; clients choose by the log or by the snapshots.
    assert [(snapshot.snapshot_id, snapshot.timestamp_ms) for snapshot in iceberg.snapshots()] == list(times.items())
    unbuilt = iceberg.snapshot_as_of_timestamp(times[int(at(2))])
    assert unbuilt is not None
    with pytest.raises(FileNotFoundError, match=f"snapshot-{at(2)}-is-not-built-yet"):
        iceberg.scan(snapshot_id=unbuilt.snapshot_id).to_arrow()
    actual = iceberg.snapshot_as_of_timestamp(times[int(at(2))] - 1)
    assert actual is not None
    assert actual.snapshot_id == int(at(1))


def test_following_builds_a_snapshot_of_each_commit(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load(at(1))
    client.snapshots.follow()
    iceberg = StaticTable.from_metadata(client.load().location)
    assert built_snapshots(iceberg) == [int(at(1)), int(at(2))]


def test_old_snapshots_go_with_all_their_files(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders, keep=1, keep_seconds=0)
    client.load()
    before = {folder: client.names(folder) for folder in ("data", "slices", "metadata", "snapshots")}
    update(table, 3, 0)
    table.commit(at(3))
    published = client.load()
    after = {folder: client.names(folder) for folder in before}
    # The rows and deletes of one slice are new; the manifests list other files.
    assert {folder: len(before[folder] - after[folder]) for folder in ("data", "slices", "snapshots")} == {
        "data": 2,
        "slices": 1,
        "snapshots": 1,
    }
    assert {folder: len(names) for folder, names in after.items()} == {
        folder: len(names) for folder, names in before.items()
    }
    assert before["snapshots"].isdisjoint(after["snapshots"])
    assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_files_stay_as_long_as_queries_may_take(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders, keep=1, keep_seconds=3600)
    first = client.load()
    expected = table.open().snapshot().to_table()
    update(table, 3, 0)
    table.commit(at(3))
    client.load()
    assert differences(expected, iceberg_rows(first)) == []


@pytest.mark.long
def test_a_crash_leaves_no_snapshot_and_no_harm(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the process ends, what is on disk is read as if the unfinished part were not there."""
    expected = table.open().snapshot().to_table()
    places = 0
    while True:
        scratch = tmp_path / f"scratch{places}"
        with monkeypatch.context() as patched:
            crashed = crashing_after(patched, places)
            client = Client(table, scratch, builders)
            try:
                client.load()
            except Crash:
                complete = crashed[0].endswith(".metadata.json")
                assert complete == bool(list(scratch.glob("snapshots/*.json")))
        published = Client(table, scratch, builders).load()
        assert differences(expected, iceberg_rows(published)) == []
        if not crashed:
            break
        places += 1
    assert places > 3 * SLICES


class Crash(BaseException):
    """The end of the process."""


def crashing_after(monkeypatch: pytest.MonkeyPatch, files: int) -> list[str]:
    """Have the process end instead of making the next file appear, once so many have appeared."""
    lock, appeared = threading.Lock(), [0]
    crashed: list[str] = []
    replace = os.replace

    def replace_or_crash(part: str, target: str) -> None:
        with lock:
            if crashed or appeared[0] == files:
                crashed.append(target)
                raise Crash
            appeared[0] += 1
        replace(part, target)

    monkeypatch.setattr(os, "replace", replace_or_crash)
    return crashed


@pytest.mark.parametrize(
    "lost", one_in(3, ["", "data", "metadata", "tables", "snapshots", "slices", "data/*-rows*", "metadata/snap*"])
)
def test_files_that_are_gone_from_the_scratch_folder_are_made_again(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, lost: str
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    before = client.load()
    expected = iceberg_rows(before)
    remove(tmp_path / "scratch", lost)
    assert differences(expected, iceberg_rows(client.load())) == []
    remove(tmp_path / "scratch", lost)
    restarted = Client(table, tmp_path / "scratch", builders)
    assert differences(expected, iceberg_rows(restarted.load())) == []
    built = restarted.built
    assert restarted.load() == restarted.load()
    assert restarted.built == built


def remove(folder: Path, lost: str) -> None:
    for path in folder.glob(lost) if lost else [folder]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_only_what_is_gone_is_built_again(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load()
    next(iter((tmp_path / "scratch" / "data").glob("*-rows*"))).unlink()
    client.load()
    assert client.built == SLICES + 1


def test_a_snapshot_some_of_whose_files_are_gone_is_not_listed_any_more(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load(at(1))
    remove(tmp_path / "scratch", f"metadata/snap-{int(at(1))}*")
    assert built_snapshots(StaticTable.from_metadata(client.load().location)) == [int(at(2))]


@pytest.mark.parametrize("content", one_in(4, [b"", b"{", b"[]", b'{"format":1}', b'{"format":1,"instant":7}']))
def test_damaged_records_are_made_again(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, content: bytes
) -> None:
    expected = iceberg_rows(Client(table, tmp_path / "scratch", builders).load())
    for record in (*(tmp_path / "scratch").glob("*/*.json"), tmp_path / "scratch" / "orphan_files.json"):
        record.write_bytes(content)
    assert differences(expected, iceberg_rows(Client(table, tmp_path / "scratch", builders).load())) == []


def test_many_clients_wait_for_one_build(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    with ThreadPoolExecutor(8) as clients:
        published = list(clients.map(lambda _: client.load(), range(8)))
    assert all(item == published[0] for item in published)
    assert client.built == SLICES


def test_an_error_of_a_slice_is_the_table_s(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    log = next(iter(table.folder.glob(".f3-0*.log.*")))
    log.write_bytes(b"no log" + log.read_bytes())
    client = Client(table, tmp_path / "scratch", builders)
    with pytest.raises(CorruptLogFileError, match="f3-0"):
        client.load()


def test_nothing_is_written_into_the_table(table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    before = {path: path.stat().st_mtime_ns for path in table.folder.rglob("*")}
    Client(table, tmp_path / "scratch", builders).load()
    assert {path: path.stat().st_mtime_ns for path in table.folder.rglob("*")} == before
    (tmp_path / "link").symlink_to(table.folder)
    for folder in (table.folder / "snapshots", tmp_path / "link" / "snapshots"):
        with pytest.raises(QueryError, match="lies in the table"):
            Client(table, folder, builders)


def test_data_files_outside_the_roots_are_not_shown(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    base = next(iter(table.folder.glob("f0-0*.parquet")))
    outside = tmp_path / "outside.parquet"
    base.rename(outside)
    base.symlink_to(outside)
    client = Client(table, tmp_path / "scratch", builders, roots=(table.folder.resolve(),))
    with pytest.raises(UnsupportedTableError, match="f0-0"):
        client.load()


def test_a_slice_whose_rows_are_all_gone_has_no_base_file(tmp_path: Path, builders: ThreadPoolExecutor) -> None:
    table = TableWriter(folder=tmp_path / "table").create()
    table.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}])
    table.commit(at(1))
    table.log_file(at(2), [table.delete_block(at(2), [("a", 2)])])
    table.commit(at(2))
    published = Client(table, tmp_path / "scratch", builders).load()
    assert iceberg_rows(published).num_rows == 0
    assert list(StaticTable.from_metadata(published.location).scan().plan_files()) == []


def test_what_is_left_over_goes_when_its_time_has_come(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what a crash has left unfinished, and whichever process noticed first."""
    Client(table, tmp_path / "scratch", builders, keep=1, keep_seconds=60).load()
    left = tmp_path / "scratch" / "data" / "x.parquet.1-abc.part"
    left.write_bytes(b"half")
    old = set((tmp_path / "scratch" / "data").glob("*-rows.parquet"))
    now = time.time()
    remaining = []
    for commit, later in ((3, 0), (4, 59), (5, 61)):
        update(table, commit, 0)
        table.commit(at(commit))
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        Client(table, tmp_path / "scratch", builders, keep=1, keep_seconds=60).load()
        remaining.append((left.exists(), sum(path.exists() for path in old)))
    assert remaining == [(True, SLICES), (True, SLICES), (False, SLICES - 1)]


def test_a_snapshot_that_changes_leaves_its_files_to_queries_that_have_begun(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    """The newest commit is the same, but one before it is taken back."""
    client = Client(table, tmp_path / "scratch", builders)
    first = client.load()
    expected = table.open().snapshot().to_table()
    (table.timeline_folder / f"{at(1)}_{completion_of(at(1))}.deltacommit").rename(
        table.timeline_folder / f"{at(1)}.deltacommit.inflight"
    )
    assert client.load() != first
    assert differences(expected, iceberg_rows(first)) == []


def test_position_deletes_are_sorted_and_of_one_file(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    client.load()
    names = [name for name in client.names("data") if name.endswith("-deletes.parquet")]
    assert len(names) == SLICES
    for name in names:
        deletes = pq.read_table(tmp_path / "scratch" / "data" / name)
        assert deletes.schema.names == ["file_path", "pos"]
        assert len(set(deletes["file_path"].to_pylist())) == 1
        assert deletes["pos"].to_pylist() == [0, 1]
        stored = pq.read_metadata(tmp_path / "scratch" / "data" / name).row_group(0)
        assert [stored.column(location).has_dictionary_page for location in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("above", "rewritten"),
    one_in(4, starmap(pytest.param, [(None, False), (0.66, True), (0.67, False), (1.0, False), (0.0, True)])),
)
def test_slices_that_have_changed_much_are_rewritten_on_demand(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, above: float | None, rewritten: bool
) -> None:
    """Two of three rows of each base file are gone."""
    rewriting = Rewriting(above=above)
    published = Client(table, tmp_path / "scratch", builders, rewriting=rewriting).load()
    tasks = list(StaticTable.from_metadata(published.location).scan().plan_files())
    own = {task.file.file_path.rpartition("/")[2] for task in tasks if "/scratch/" in task.file.file_path}
    assert len(tasks) == (SLICES if rewritten else 2 * SLICES)
    assert sum(name.endswith("-whole.parquet") for name in own) == (SLICES if rewritten else 0)
    assert any(task.delete_files for task in tasks) is not rewritten
    assert {path.name for path in (tmp_path / "scratch" / "data").glob("*-rows.parquet")} <= own
    assert differences(table.open().snapshot().to_table(), iceberg_rows(published)) == []


def copies(client: Client) -> set[str]:
    return {name for name in client.names("data") if name.endswith("-whole.parquet")}


@pytest.mark.parametrize("version", one_in(2, list(FormatVersion)))
def test_a_base_file_whose_lists_are_misread_is_copied_once(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, version: FormatVersion
) -> None:
    """Also by other processes, and when the snapshots with its first logs are gone."""
    bases = {path.name for path in lists.folder.glob("*.parquet")}
    settings: dict[str, Any] = {"keep": 1, "keep_seconds": 0, "format_version": version}
    client = Client(lists, tmp_path / "scratch", builders, **settings)
    first = client.load()
    written = copies(client)
    assert (len(written), client.built) == (2, 2)
    assert differences(lists.open().snapshot().to_table(), iceberg_rows(first)) == []
    for commit in (3, 4, 5):
        update_lists(lists, commit, commit % 2)
        lists.commit(at(commit))
        if commit == 4:
            client = Client(lists, tmp_path / "scratch", builders, **settings)
        published = client.load()
        assert copies(client) == written
        tasks = list(StaticTable.from_metadata(published.location).scan().plan_files())
        files = {task.file.file_path.rpartition("/")[2]: task.delete_files for task in tasks}
        assert written <= files.keys()
        assert bases.isdisjoint(files)
        assert differences(lists.open().snapshot().to_table(), iceberg_rows(published)) == []
    # Each slice has logs now: a delete file for the copy, and new rows.
    assert sum(bool(files[name]) for name in written) == 2
    assert len(client.names("data")) == 6
    assert len(client.names("slices")) == 4


@pytest.mark.parametrize(("above", "is_merged"), [(None, False), (0.33, True), (0.34, False)])
def test_no_copy_is_made_for_a_slice_that_is_rewritten_anyway(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, above: float | None, is_merged: bool
) -> None:
    client = Client(lists, tmp_path / "scratch", builders, rewriting=Rewriting(above=above))
    published = client.load()
    assert len(copies(client)) == 2
    assert any("-rows." in name or "-deletes." in name for name in client.names("data")) is not is_merged
    number = 1 if is_merged else 2
    assert published.notes[0].startswith(f"{number} base file{'s' * (number > 1)} written anew, ")
    assert differences(lists.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_no_copy_is_made_of_a_base_file_whose_rows_are_all_gone(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    deletes = [lists.delete_block(at(3), [(f"0-{key}", 3) for key in ("a", "b", "c")])]
    lists.log_file(at(3), deletes, file_id="f0-0", number=3)
    lists.commit(at(3))
    client = Client(lists, tmp_path / "scratch", builders)
    published = client.load()
    assert len(copies(client)) == 1
    assert differences(lists.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_a_copy_that_lacks_rows_is_never_shown_with_deletes_by_position(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_short(*arguments: Any, **options: Any) -> Any:
        batches = open_reader_in(*arguments, **options).batches()
        return SimpleNamespace(batches=lambda: (batch[1:] for batch in batches))

    monkeypatch.setattr("hudi_bridge.connectors.iceberg.slice_builder.open_reader_in", open_short)
    with pytest.raises(CorruptBaseFileError, match="found 2 rows, expected 3"):
        Client(lists, tmp_path / "scratch", builders).load()


def test_lists_stay_as_stored_for_clients_that_read_them(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor
) -> None:
    client = Client(lists, tmp_path / "scratch", builders, rewriting=Rewriting(lists_as_stored=True))
    published = client.load()
    assert copies(client) == set()
    files = {task.file.file_path for task in StaticTable.from_metadata(published.location).scan().plan_files()}
    assert {f"file://{path}" for path in lists.folder.glob("*.parquet")} < files
    assert differences(lists.open().snapshot().to_table(), iceberg_rows(published)) == []


def test_a_service_logs_how_many_base_files_are_written_anew(
    lists: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "hudi_bridge"):
        Client(lists, tmp_path / "scratch", builders).load()
    (line,) = [record.getMessage() for record in caplog.records if "written anew" in record.getMessage()]
    assert "2 base files written anew" in line
    assert "--lists-as-stored" in line
    assert repr(str(lists.folder)) in line


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_a_share_is_one(percent: float) -> None:
    with pytest.raises(QueryError, match="--rewrite-above"):
        Rewriting.of(lists_as_stored=False, above_percent=percent)


class CountingLock:
    """A lock that counts who has asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = threading.Lock()
        self.asked = 0

    def __enter__(self) -> None:
        with self._counts:
            self.asked += 1
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_loads_that_wait_share_the_one_that_began_after_they_came(
    table: TableWriter, tmp_path: Path, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(table, tmp_path / "scratch", builders)
    load, begun, may_end, commits = client.snapshots._load, threading.Event(), threading.Event(), iter(range(3, 20))

    def slowly(*arguments: Any) -> Published:
        begun.set()
        assert may_end.wait(60)
        published = load(*arguments)
        commit = next(commits)
        update(table, commit, 0)
        table.commit(at(commit))
        return published

    lock = CountingLock()
    monkeypatch.setattr(client.snapshots, "_lock", lock)
    monkeypatch.setattr(client.snapshots, "_load", slowly)
    with ThreadPoolExecutor(9) as pool:
        first = pool.submit(client.load)
        assert begun.wait(60)
        others = [pool.submit(client.load) for _ in range(8)]
        while lock.asked < 9:
            time.sleep(0.01)
        may_end.set()
        # The first had begun before the others came.
        actual = {other.result().location for other in others}
        assert len(actual) == 1
        assert first.result().location not in actual
    monkeypatch.undo()
    assert client.load().location not in actual
