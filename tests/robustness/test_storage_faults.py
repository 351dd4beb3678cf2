"""A file system that fails: every answer is right, or an error that names what failed."""

import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from hudi_bridge import (
    CorruptBaseFileError,
    CorruptTableError,
    DataFileGoneError,
    HudiReadError,
    HudiTable,
    QueryError,
    RealtimeFileSplit,
    StorageError,
    open_reader,
)
from hudi_bridge.merge.record_map import LogRecordMap
from hudi_bridge.storage.masking import Location
from hudi_bridge.storage.ranges import RangesOfHandles
from hudi_bridge.storage.storage import Storage
from tests.robustness.failing_files import FAULTS, SHORT, Faults, failing, is_named
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column


@pytest.fixture(autouse=True)
def no_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every failure reaches the reader."""
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "0")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions, each with a base file and a log file, in two commits."""
    writer = TableWriter(folder=tmp_path_factory.mktemp("t") / "trips", partition_fields=("value",)).create()
    bases, logs = [], []
    for partition in ("x", "y"):
        first, second = ({"id": f"{partition}{ts}", "ts": ts, "value": partition} for ts in (1, 2))
        bases.append(writer.base_file(at(1), [first], partition=partition, file_id=f"{partition}-0"))
        blocks = [writer.data_block(at(2), [second])]
        logs.append(writer.log_file(at(2), blocks, partition=partition, file_id=f"{partition}-0"))
    writer.commit(at(1), wrote=bases)
    writer.commit(at(2), wrote=logs)
    return writer.folder


def snapshot(opened: HudiTable) -> pa.Table:
    return opened.snapshot().to_table(use_threads=False)


def incremental(opened: HudiTable) -> pa.Table:
    return opened.incremental("earliest").to_table(use_threads=False)


def changes(opened: HudiTable) -> pa.Table:
    return opened.changes("earliest").to_table(use_threads=False)


def rows(table: Path, query: Callable[[HudiTable], pa.Table], faults: Faults) -> list[str]:
    return sorted(map(repr, query(HudiTable.open(str(table), failing(faults))).to_pylist()))


def asked(table: Path, query: Callable[[HudiTable], pa.Table], faults: Faults) -> list[str] | HudiReadError:
    """The rows, or the error."""
    try:
        return rows(table, query, faults)
    except HudiReadError as error:
        return error


@pytest.mark.parametrize("query", one_in(2, [snapshot, incremental, changes]))
@pytest.mark.parametrize("kind", one_in(2, [*FAULTS, SHORT]))
def test_an_answer_is_right_or_an_error_that_names_the_file(
    table: Path, query: Callable[[HudiTable], pa.Table], kind: str
) -> None:
    counted = Faults()
    expected = rows(table, query, counted)
    failed = 0
    for number in range(counted.count):
        faults = Faults(kind, number)
        actual = asked(table, query, faults)
        if isinstance(actual, HudiReadError):
            failed += 1
            assert is_named(faults.path, actual), (number, faults.path, actual)
            assert kind in {"gone", SHORT} or isinstance(actual, StorageError), (number, actual)
        else:
            assert actual == expected, (number, faults.path)
    assert failed >= counted.count // 3
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hudi-bridge-")]


@pytest.mark.parametrize(
    ("kind", "number"), one_in(2, starmap(pytest.param, [("io", errno.EIO), ("denied", errno.EACCES), ("own", None)]))
)
def test_a_failing_read_is_no_damage(table: Path, kind: str, number: int | None) -> None:
    counted = Faults()
    rows(table, snapshot, counted)
    actual = [asked(table, snapshot, Faults(kind, at)) for at in range(counted.count)]
    failures = [item for item in actual if isinstance(item, StorageError)]
    assert len(failures) == counted.count
    assert {failure.operation for failure in failures} == {"list", "open", "read"}
    assert {failure.errno for failure in failures} == {number}
    assert all(failure.path.startswith(str(table)) for failure in failures)


def test_what_was_read_is_let_go_of_after_a_failure(table: Path) -> None:
    def alive() -> int:
        gc.collect()
        return sum(isinstance(get_object, LogRecordMap) for get_object in gc.get_objects())

    before = alive()
    for number in range(40):
        asked(table, snapshot, Faults("io", number))
    assert alive() == before


class DenyingMemory(MemoryFileSystem):  # type: ignore[misc]
    """A file system of fsspec that denies one listing, or one file."""

    cachable = False
    protocol = "denying"
    denied = ""

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if self.denied and path.rstrip("/").endswith(self.denied):
            raise PermissionError(errno.EACCES, "Access denied")
        return super().ls(path, detail, **options)

    def info(self, path: str, **options: Any) -> Any:
        if self.denied and path.rstrip("/").endswith(self.denied):
            raise PermissionError(errno.EACCES, "Access denied")
        return super().info(path, **options)

    def cat_file(self, path: str, *arguments: Any, **options: Any) -> Any:
        if self.denied and path.rstrip("/").endswith(self.denied):
            raise PermissionError(errno.EACCES, "Access denied")
        return super().cat_file(path, *arguments, **options)

    def open(self, path: str, *arguments: Any, **options: Any) -> Any:
        if self.denied and path.rstrip("/").endswith(self.denied):
            raise PermissionError(errno.EACCES, "Access denied")
        return super().open(path, *arguments, **options)


@pytest.fixture
def denying(table: Path) -> Iterator[DenyingMemory]:
    """The table in memory."""
    memory = DenyingMemory()
    memory.put(str(table), "/trips", recursive=True)
    yield memory
    memory.denied = ""
    memory.rm("/trips", recursive=True)


@pytest.mark.parametrize("denied", ["/trips", "/trips/x", "/trips/.hoodie/timeline"])
def test_a_listing_that_fails_is_no_empty_folder(denying: DenyingMemory, denied: str) -> None:
    assert len(snapshot(HudiTable.open("/trips", denying))) == 4
    denying.denied = denied
    with pytest.raises(StorageError, match=f"{denied}: cannot list: .*[Dd]enied"):
        snapshot(HudiTable.open("/trips", denying))


@pytest.mark.parametrize("suffix", [".parquet", ".log.1_0-1-1", ".deltacommit", "hoodie.properties"])
def test_a_file_that_is_denied_is_not_gone(denying: DenyingMemory, suffix: str) -> None:
    denying.denied = suffix
    with pytest.raises(StorageError, match=r"cannot (open|read): .*[Dd]enied"):
        snapshot(HudiTable.open("/trips", denying))


def test_a_folder_that_is_known_to_exist_and_is_not_found_is_an_error(table: Path) -> None:
    storage = Storage.open(str(table))
    assert storage.list_directory("nope") == ()
    with pytest.raises(StorageError, match="nope: cannot list: No such file"):
        storage.list_directory("nope", must_exist=True)
    with pytest.raises(StorageError, match=r"hoodie\.properties: cannot list: Not a directory"):
        storage.list_directory(".hoodie/hoodie.properties")


def test_a_log_that_is_shorter_than_it_was_listed_is_no_torn_block(table: Path, tmp_path: Path) -> None:
    local = fsspec.filesystem("file")
    local.put(str(table), str(tmp_path / "t"), recursive=True)
    dataset = HudiTable.open(str(tmp_path / "t")).snapshot()
    assert list(dataset.splits())
    log = next((tmp_path / "t" / "x").glob(".*.log.*"))
    os.truncate(log, log.stat().st_size - 1)
    message = rf"{log.name}: cannot read: the file has \d+ bytes, and had \d+ when listed"
    with pytest.raises(StorageError, match=message):
        dataset.to_table()


def test_a_log_that_has_grown_hides_no_other_that_was_cut_off(tmp_path: Path) -> None:
    table = TableWriter(folder=tmp_path).create()
    first, second = (
        table.log_file(at(1), [table.data_block(at(1), [{"id": key, "ts": 1, "value": "x"}])], number=number)
        for number, key in enumerate("ab", start=1)
    )
    table.commit(at(1))
    (split,) = HudiTable.open(tmp_path).splits()
    os.truncate(first, first.stat().st_size - 5)
    # Of a split that knows the sum alone, nothing tells more.
    with pytest.raises(StorageError, match=f"{first.name}: cannot read: the log files from this one on have"):
        open_reader(replace(split, log_sizes=())).to_table()
    second.write_bytes(second.read_bytes() + table.data_block(at(2), [{"id": "c", "ts": 1, "value": "x"}]))
    with pytest.raises(StorageError, match=f"{first.name}: cannot read: the file has"):
        open_reader(split).to_table()


def test_a_commit_that_is_gone_since_the_table_was_opened_is_told(table: Path, tmp_path: Path) -> None:
    local = fsspec.filesystem("file")
    local.put(str(table), str(tmp_path / "t"), recursive=True)
    opened = HudiTable.open(str(tmp_path / "t"))
    for commit in (tmp_path / "t" / ".hoodie" / "timeline").glob("*.deltacommit"):
        commit.unlink()
    with pytest.raises(DataFileGoneError, match="open it again"):
        opened.snapshot()


class Rereading(Storage):
    """A storage whose first reads of Parquet files fail as those of Arrow's own stores do: without saying why."""

    @property
    def is_local(self) -> bool:
        return False


def test_arrows_own_stores_do_not_tell_a_failure_from_damage(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "whole.parquet")
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and more PAR1")
    storage = Rereading(origin=Location(str(tmp_path)), root=str(tmp_path), filesystem=Storage.open("/").filesystem)
    error = OSError("When reading information: AWS Error NETWORK_CONNECTION")
    failure = storage.failure_of("whole.parquet", error, pq.ParquetFile)
    assert isinstance(failure, StorageError)
    assert "NETWORK_CONNECTION" in str(failure)
    assert storage.failure_of("damaged.parquet", error, pq.ParquetFile) is None
    assert isinstance(storage.failure_of("gone.parquet", error, pq.ParquetFile), FileNotFoundError)


@pytest.mark.parametrize(("is_there", "kind"), [(True, StorageError), (False, FileNotFoundError)])
def test_a_file_that_goes_after_it_was_opened_is_gone(tmp_path: Path, is_there: bool, kind: type[Exception]) -> None:
    def failing() -> Any:
        raise OSError("AWS Error RESOURCE_NOT_FOUND during GetObject operation")

    if is_there:
        (tmp_path / "log").touch()
    storage = Rereading(origin=Location(str(tmp_path)), root=str(tmp_path), filesystem=Storage.open("/").filesystem)
    with pytest.raises(kind, match=r"/log\b"):
        storage._request("read", "log", failing)


class Claiming:
    """Fills half of what it is given, and says that it was all, as Arrow's client of S3 does; so ``times`` times."""

    def __init__(self, times: int) -> None:
        self.times = times

    def size(self) -> int:
        return 64

    def seek(self, offset: int) -> None:
        assert offset == 0

    def readinto(self, piece: memoryview) -> int:
        self.times -= 1
        filled = len(piece) // 2 if self.times >= 0 else len(piece)
        piece[:filled] = b"x" * filled
        return len(piece)

    def close(self) -> None:
        pass


def test_a_client_that_counts_what_has_not_arrived_is_found_out(tmp_path: Path) -> None:
    storage = Rereading(origin=Location(str(tmp_path)), root=str(tmp_path), filesystem=Storage.open("/").filesystem)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").touch()
    request: Any = partial(storage._request_for, "a/b")
    file: Any = Claiming(1000)
    with pytest.raises(StorageError, match="a/b: cannot read: it ends before its 64 bytes"):
        RangesOfHandles(request, lambda: file, is_marked=True).read(0, 64)


def test_an_answer_that_is_cut_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "10")
    storage = Rereading(origin=Location(str(tmp_path)), root=str(tmp_path), filesystem=Storage.open("/").filesystem)
    request: Any = partial(storage._request_for, "a/b")
    file: Any = Claiming(1)
    assert RangesOfHandles(request, lambda: file, is_marked=True).read(0, 64).to_pybytes() == b"x" * 64


def test_a_damaged_base_file_is_still_damage(table: Path, tmp_path: Path) -> None:
    fsspec.filesystem("file").put(str(table), str(tmp_path / "t"), recursive=True)
    base = next((tmp_path / "t" / "x").glob("*.parquet"))
    base.write_bytes(base.read_bytes()[:-20])
    for filesystem in (None, failing(Faults())):
        with pytest.raises(CorruptBaseFileError, match=base.name):
            snapshot(HudiTable.open(str(tmp_path / "t"), filesystem))


def test_text_that_is_cut_is_no_split() -> None:
    with pytest.raises(QueryError, match="split"):
        RealtimeFileSplit.from_json(
            '{"format": 1, "split": {"partition_columns": "AAAA", "partition_values": "////EAAAAA=="}}'
        )


@pytest.mark.parametrize("link", ["loop", "x/loop", "a", "zz"])
@pytest.mark.parametrize("target", [".", "..", "x", "../trips/y"])
def test_a_folder_is_listed_once_whatever_its_names(table: Path, tmp_path: Path, link: str, target: str) -> None:
    copied = tmp_path / "lake" / "trips"
    copied.parent.mkdir()
    fsspec.filesystem("file").put(str(table), str(copied), recursive=True)
    (tmp_path / "by_link").symlink_to(tmp_path / "lake")
    (copied / link).symlink_to(os.path.relpath(copied / target, (copied / link).parent))
    for path in (copied, tmp_path / "by_link" / "trips"):
        opened = HudiTable.open(str(path))
        assert sorted_column(opened.snapshot().to_table(), "id") == ["x1", "x2", "y1", "y2"]
        assert {split.partition_path for split in opened.splits()} == {"x", "y"}


def test_a_partition_elsewhere_is_read_through_its_link(table: Path, tmp_path: Path) -> None:
    fsspec.filesystem("file").put(str(table), str(tmp_path / "t"), recursive=True)
    (tmp_path / "t" / "x").rename(tmp_path / "elsewhere")
    (tmp_path / "t" / "x").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "t" / "x_again").symlink_to(tmp_path / "elsewhere")
    opened = HudiTable.open(str(tmp_path / "t"))
    assert sorted_column(opened.snapshot().to_table(), "id") == ["x1", "x2", "y1", "y2"]


def test_a_pipe_is_not_waited_for(table: Path, tmp_path: Path) -> None:
    fsspec.filesystem("file").put(str(table), str(tmp_path / "t"), recursive=True)
    for path in (tmp_path / "t" / "x").glob(".*.log.*"):
        path.unlink()
        os.mkfifo(path)
    with pytest.raises(StorageError, match="no regular file"):
        snapshot(HudiTable.open(str(tmp_path / "t")))


def test_names_that_are_not_utf_8(table: Path, tmp_path: Path) -> None:
    fsspec.filesystem("file").put(str(table), str(tmp_path / "t"), recursive=True)
    folder = os.fsencode(tmp_path / "t")
    for name in (b"x/bad\xff.parquet", b".hoodie/timeline/bad\xff.commit"):
        Path(os.fsdecode(folder + b"/" + name)).touch()
    assert snapshot(HudiTable.open(str(tmp_path / "t"))).num_rows == 4
    Path(os.fsdecode(folder + b"/bad\xff")).mkdir()
    with pytest.raises(CorruptTableError, match="UTF-8"):
        snapshot(HudiTable.open(str(tmp_path / "t")))
