"""Where tables may lie, and what of them may be opened."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.fs as pafs  # noqa: TID251 - file systems that users pass
import pytest

from hudi_bridge import HudiTable, StorageError, TableNotFoundError
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.storage.storage import FileInfo, Storage
from tests.support.s3_server import S3Server
from tests.support.table_writer import TableWriter, at, sorted_column


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A partitioned table of one row."""
    writer = TableWriter(folder=tmp_path / "trips", partition_fields=("value",)).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "p q"}], partition="p q")
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "ts": 1, "value": "p q"}])], partition="p q")
    writer.commit(at(1))
    writer.commit(at(2))
    return writer.folder


def ids(path: str, filesystem: Any = None) -> list[str]:
    opened = HudiTable.open(path, filesystem)
    assert [split.partition_path for split in opened.splits()] == ["p q"]
    return sorted_column(opened.snapshot().to_table(), "id")


def test_local_paths(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    monkeypatch.setenv("HOME", str(table.parent))
    for path in (
        str(table),
        f"{table}/",
        f"{table}//",
        "trips",
        "./trips",
        "../" + table.parent.name + "/trips/",
        "~/trips",
    ):
        assert ids(path) == ["a", "b"], path
    for uri in (f"file://{table}", f"file://{table}/", f"file:{table}"):
        assert ids(uri) == ["a", "b"], uri


def test_a_table_path_is_absolute_whatever_was_given(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    opened = HudiTable.open("trips/")
    monkeypatch.chdir("/")
    assert opened.path == str(table)
    assert opened.snapshot().count_rows() == 2


def test_a_folder_with_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c#d?e=\u00e9"
    writer = TableWriter(folder=folder, partition_fields=("value",)).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}], partition="p q")
    writer.commit(at(1))
    assert ids(str(folder)) == ["a"]
    assert ids(folder.as_uri()) == ["a"]


def test_file_systems_of_pyarrow(table: Path) -> None:
    local = pafs.LocalFileSystem()
    assert ids(str(table), local) == ["a", "b"]
    parent = pafs.SubTreeFileSystem(str(table.parent), local)
    for path in ("trips", "trips/"):
        assert ids(path, parent) == ["a", "b"], path
    assert ids("", pafs.SubTreeFileSystem(str(table), local)) == ["a", "b"]


@pytest.mark.parametrize("path", ["memory://trips", "memory:///trips", "trips", "/trips", "/trips/"])
def test_file_systems_of_fsspec(table: Path, path: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(table), "/trips", recursive=True)
    try:
        assert ids(path, memory) == ["a", "b"]
    finally:
        memory.rm("/trips", recursive=True)


def test_a_local_file_system_of_fsspec(table: Path) -> None:
    local = fsspec.filesystem("file")
    assert ids(str(table), local) == ["a", "b"]
    assert ids(f"file://{table}", local) == ["a", "b"]


def test_places_without_a_table(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    for name, reason in (("nope", "no such folder"), ("file", "a file"), ("empty", "empty")):
        with pytest.raises(TableNotFoundError, match=reason) as caught:
            HudiTable.open(str(tmp_path / name))
        assert caught.value.path == str(tmp_path / name)
    for uri in ("nope://bucket/trips", "://trips"):
        with pytest.raises(TableNotFoundError):
            HudiTable.open(uri)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "a/..", "..", "..\\x", "a\\..\\..\\x", "a/..\\x", "a\0b"]
)
def test_paths_that_leave_the_table_are_refused(tmp_path: Path, path: str) -> None:
    storage = Storage.open(str(tmp_path))
    for use in (storage.resolve, storage.read_bytes, storage.open_input, storage.exists, storage.list_directory):
        with pytest.raises(CorruptTableError, match="leaves the table"):
            use(path)


def test_a_backslash_is_refused_where_it_separates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, other = Storage.open(str(tmp_path)), Storage.open("/t", fsspec.filesystem("memory"))
    assert (local.resolve("a\\b/c"), other.resolve("\\a")) == (f"{tmp_path}/a\\b/c", "/t/\\a")
    monkeypatch.setattr("hudi_bridge.storage.storage._BACKSLASH_SEPARATES", True)
    for path in ("a\\b/c", "\\a", "C:\\a"):
        assert other.resolve(path) == f"/t/{path}"
        with pytest.raises(CorruptTableError, match="leaves the table"):
            local.resolve(path)


@pytest.mark.parametrize("version", [6, 9])
def test_a_partition_may_have_backslashes(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "lake" / "trips"
    writer = TableWriter(folder=folder, version=version, partition_fields=("value",)).create()
    paths = ("DOM\\user", "\\a\\", "DOM/user")
    for number, path in enumerate(paths):
        row = {"id": path, "ts": 1, "value": path}
        writer.base_file(at(1), [row], partition=path, file_id=f"f{number}-0")
    writer.commit(at(1))

    def keys(path: str, filesystem: Any = None) -> list[str]:
        return sorted_column(HudiTable.open(path, filesystem).snapshot().to_table(), "id")

    memory = fsspec.filesystem("memory")
    memory.put(str(folder), "/trips", recursive=True)
    try:
        assert keys("/trips", memory) == sorted(paths)
    finally:
        memory.rm("/trips", recursive=True)
    assert keys(str(folder)) == sorted(paths)
    with S3Server(tmp_path).running() as server:
        assert keys(server.uri("lake/trips")) == sorted(paths)


def test_paths_below_the_table_resolve(tmp_path: Path) -> None:
    storage = Storage.open(str(tmp_path))
    assert storage.resolve("") == str(tmp_path)
    assert storage.resolve("a/b..c/.d") == f"{tmp_path}/a/b..c/.d"


def test_listings_are_sorted_and_relative(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_text("xyz")
    (tmp_path / ".a").write_text("x")
    storage = Storage.open(str(tmp_path))
    assert storage.list_directory("") == (
        FileInfo(path=".a", size_bytes=1, is_dir=False),
        FileInfo(path="b", size_bytes=0, is_dir=True),
    )
    assert storage.list_directory("b") == (FileInfo(path="b/c", size_bytes=3, is_dir=False),)
    assert storage.list_directory("nope") == ()
    with pytest.raises(StorageError, match=f"{tmp_path}/nope: cannot list: No such file"):
        storage.list_directory("nope", must_exist=True)
    assert storage.list_directory("b")[0].name == "c"


def test_only_folders_are_counted(tmp_path: Path) -> None:
    for name in ("a", "b", ".c", "d"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    storage = Storage.open(str(tmp_path))
    assert [storage.has_more_folders("", most) for most in (0, 4, 5)] == [True, True, False]
    assert not storage.has_more_folders("missing", 0)
    assert not storage.has_more_folders("file", 0)
    given = Storage.open(str(tmp_path), fsspec.filesystem("memory"))
    assert not given.is_local
    assert not given.has_more_folders("", 0)


def test_files_are_read_whole_or_in_part(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    storage = Storage.open(str(tmp_path))
    assert storage.read_bytes("f") == b"abc"
    with storage.open_input("f") as file:
        file.seek(1)
        assert file.read(1) == b"b"
    assert storage.exists("f")
    assert not storage.exists("g")
    for read in (storage.read_bytes, storage.open_input):
        with pytest.raises(FileNotFoundError):
            read("g")


def test_a_storage_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    copy: Storage = pickle.loads(pickle.dumps(Storage.open(str(tmp_path))))
    assert copy.read_bytes("f") == b"abc"


def test_only_local_files_are_local(tmp_path: Path) -> None:
    assert Storage.open(str(tmp_path)).is_local
    assert Storage.open(tmp_path.as_uri()).is_local
    assert not Storage.open("trips", fsspec.filesystem("memory")).is_local


def test_schemes_of_hadoop_are_those_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def from_uri(uri: str) -> Any:
        asked.append(uri)
        raise pa.ArrowNotImplementedError("no network in tests")

    monkeypatch.setattr("hudi_bridge.storage.file_systems.fs.FileSystem", SimpleNamespace(from_uri=from_uri))
    for uri in ("s3a://b/t", "s3n://b/t", "wasb://c@a/t", "wasbs://c@a/t", "gs://b/t"):
        with pytest.raises(TableNotFoundError, match="no network"):
            Storage.open(uri)
    assert asked == ["s3://b/t", "s3://b/t", "abfs://c@a/t", "abfss://c@a/t", "gs://b/t"]
