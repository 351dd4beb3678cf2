"""Options of object stores, and URIs that fsspec opens."""

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import fsspec
import polars as pl
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from hudi_bridge import HudiTable, QueryError, RealtimeFileSplit, TableNotFoundError, open_reader
from hudi_bridge.cli.main import run
from hudi_bridge.connectors.duckdb import attach, attach_all
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.spark.options import parse_options
from hudi_bridge.engines import context_identity, slice_delta
from hudi_bridge.storage.file_systems import arrow_file_system
from hudi_bridge.storage.storage import Storage
from tests.support.s3_server import S3Server
from tests.support.table_writer import TableWriter, at, sorted_column

SECRET = "s3cr3t-of-the-test"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path / "bucket" / "lake" / "trips")
    with S3Server(tmp_path).running() as server:
        yield server


def write(folder: Path) -> None:
    writer = TableWriter(folder=folder).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}, {"id": "b", "ts": 1, "value": "y"}])
    writer.commit(at(1))
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "ts": 2, "value": "z"}])])
    writer.commit(at(2))


def given(store: S3Server) -> dict[str, Any]:
    return {
        "aws_access_key_id": "key",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "region": "us-east-1",
        "endpoint_url": f"http://127.0.0.1:{store.port}",
    }


def test_a_table_of_a_store_and_its_splits(store: S3Server) -> None:
    table = HudiTable.open("s3://bucket/lake/trips", storage_options=given(store))
    assert sorted_column(table.snapshot().to_table(), "value") == ["x", "z"]
    (split,) = table.splits()
    for carried in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        assert open_reader(carried).to_table().num_rows == 2
        with slice_delta(carried) as delta:
            assert sum(rows.num_rows for rows in delta.rows()) == 1
    assert sorted_column(pickle.loads(pickle.dumps(table)).snapshot().to_table(), "value") == ["x", "z"]


def test_no_secret_is_shown(store: S3Server) -> None:
    table = HudiTable.open("s3://bucket/lake/trips", storage_options=given(store))
    shown = [repr(table), table.path, repr(table.storage), repr(table.splits()), repr(table.read_context())]
    assert not any(SECRET in text for text in shown)


def test_caches_of_engines_do_not_depend_on_credentials(store: S3Server) -> None:
    renewed = given(store) | {"session_token": "another"}
    contexts = [
        HudiTable.open("s3://bucket/lake/trips", storage_options=options).read_context()
        for options in (given(store), renewed)
    ]
    assert len({context_identity(context) for context in contexts}) == 1


def test_engines_take_the_options(store: S3Server) -> None:
    options = given(store)
    with duckdb.connect() as connection:
        attach(connection, "s3://bucket/lake/trips", storage_options=options)
        assert connection.sql("SELECT value FROM trips ORDER BY 1").fetchall() == [("x",), ("z",)]
    with duckdb.connect() as connection:
        lake = attach_all(connection, "s3://bucket/lake", storage_options=options)
        counted = lake.sql("SELECT count(*) FROM lake.trips")
        assert counted is not None
        assert counted.fetchall() == [(2,)]
    frame = scan("s3://bucket/lake/trips", storage_options=options)
    assert frame.select(pl.col("value").sort()).collect().to_series().to_list() == ["x", "z"]


@pytest.mark.parametrize("arguments", [("info",), ("timeline",), ("read",), ("sql", "SELECT * FROM t")])
def test_commands_take_the_options(
    store: S3Server, capfd: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    command, *rest = arguments
    options = [f"--storage-option={name}={value}" for name, value in given(store).items()]
    assert run((command, "s3://bucket/lake/trips", *rest, *options)) == 0
    assert capfd.readouterr().out
    assert run((command, "s3://bucket/lake/trips", *rest, "--storage-option", "region")) == 2


def test_anonymous_requests_have_no_signature(store: S3Server) -> None:
    options = {"anon": "true", "region": "us-east-1", "endpoint": f"http://127.0.0.1:{store.port}"}
    storage = Storage.open("s3://bucket/lake/trips", options=options)
    assert storage.exists(".hoodie/hoodie.properties")
    assert storage.filesystem.__reduce__()[1][0]["anonymous"] is True  # type: ignore[index]


@pytest.mark.parametrize(
    ("uri", "options", "expected"),
    [
        ("gs://bucket/t", {"anonymous": True}, {"anonymous": True}),
        ("gs://bucket/t", {"google_token": "t", "endpoint": "http://h:1"}, {"access_token": "t", "scheme": "http"}),
        ("abfs://c@a.dfs.core.windows.net/t", {"azure_storage_sas_token": "?x=1"}, {"account_name": "a"}),
        ("abfss://c/t", {"account_name": "a", "account_key": "a2V5"}, {"account_name": "a", "account_key": "a2V5"}),
    ],
)
def test_clients_get_their_arguments(uri: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    storage = Storage.open(uri, options=options)
    arguments: Any = storage.filesystem.__reduce__()[1]
    assert expected.items() <= arguments[0].items()
    assert storage.root.endswith("/t")


@pytest.mark.parametrize(
    ("uri", "options", "message"),
    [
        ("s3://bucket/t", {"aws_region_name": "x"}, "one of access_key_id, .*region"),
        ("s3://bucket/t", {"anonymous": "yes"}, "true or false"),
        ("s3://bucket/t", {"region": "a", "AWS_REGION": "b"}, "each setting once"),
        ("s3://bucket/t", {"timeout": "soon"}, "a number of seconds"),
        ("gs://bucket/t", {"region": "x"}, "one of anonymous"),
        ("gs://bucket/t?scheme=http", {"anonymous": True}, "parameters of the URI as well: scheme, .*one or the other"),
        ("abfs://c/t?enable_tls=false", {"account_name": "a"}, "parameters of the URI as well: enable_tls"),
        ("hdfs://host/t", {"user": "x"}, "a property of Hadoop"),
        ("file:///t", {"user": "x"}, "none for file://"),
        ("/t", {"user": "x"}, "none for a path on this machine"),
    ],
)
def test_wrong_options(uri: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message):
        HudiTable.open(uri, storage_options=options)


def test_a_wrong_value_is_not_shown() -> None:
    with pytest.raises(QueryError) as caught:
        HudiTable.open("s3://bucket/t", storage_options={"secret_access_key": [SECRET]})
    assert SECRET not in str(caught.value)


def test_a_file_system_has_its_own_options(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="one or the other"):
        HudiTable.open(str(tmp_path), fsspec.filesystem("file"), storage_options={"region": "x"})


def test_fsspec_opens_what_arrow_does_not(tmp_path: Path) -> None:
    write(tmp_path / "trips")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "trips"), "/of-options", recursive=True)
    try:
        table = HudiTable.open("memory://of-options")
        assert sorted_column(table.snapshot().to_table(), "value") == ["x", "z"]
        (split,) = pickle.loads(pickle.dumps(table.splits()))
        assert open_reader(split).to_table().num_rows == 2
    finally:
        memory.rm("/of-options", recursive=True)


class Links(MemoryFileSystem):  # type: ignore[misc]
    """As fsspec's HTTP file system with a plain server: listings without sizes, files without ranges."""

    protocol = "links"

    def ls(self, path: str, detail: bool = True, **others: Any) -> Any:
        return [entry | {"size": None} for entry in super().ls(path, detail=detail, **others)]

    def cat_file(self, path: str, **_: Any) -> Any:
        return super().cat_file(path)


def test_servers_that_tell_no_sizes_and_know_no_ranges(tmp_path: Path) -> None:
    write(tmp_path / "trips")
    links = Links()
    links.put(str(tmp_path / "trips"), "/of-links", recursive=True)
    try:
        table = HudiTable.open("/of-links", links)
        assert sorted_column(table.snapshot().to_table(), "value") == ["x", "z"]
    finally:
        links.rm("/of-links", recursive=True)


def test_what_nobody_opens() -> None:
    with pytest.raises(TableNotFoundError, match=r"no file system for nope: .*nope"):
        HudiTable.open("nope://bucket/t")
    with pytest.raises(TableNotFoundError, match=r"no file system for az: .*adlfs"):
        HudiTable.open("az://container/t", storage_options={"account_key": SECRET})


def test_options_of_spark() -> None:
    parsed = parse_options({"path": "s3://bucket/t", "storage.Region": "x", "STORAGE.anonymous": "true"})
    assert dict(parsed.storage_options) == {"region": "x", "anonymous": "true"}
    with pytest.raises(QueryError, match=r"storage\.NAME"):
        parse_options({"path": "t", "region": "x"})


def test_files_in_memory_are_read_independently_of_one_another() -> None:
    fsspec.filesystem("memory").pipe("/independent/file", b"0123456789")
    storage = Storage.open("memory://independent")
    with storage.open_input("file") as one, storage.open_input("file") as other:
        assert one.read(4) == b"0123"
        assert other.read(2) == b"01"
        assert one.read(2) == b"45"
    with pytest.raises(FileNotFoundError):
        storage.open_input("missing")


@pytest.mark.parametrize("kind", ["fsspec", "pyarrow"])
def test_a_split_of_a_given_file_system_says_that_its_reader_needs_it(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "trips")
    memory = MemoryFileSystem()
    memory.put(str(tmp_path / "trips"), "/needs/trips", recursive=True)
    filesystem = memory if kind == "fsspec" else arrow_file_system(memory)
    (split,) = HudiTable.open("/needs/trips", filesystem=filesystem).splits()
    for carried in (split, pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        for read in (open_reader, slice_delta):
            with pytest.raises(
                QueryError, match=r"filesystem= for its reader, too, since /needs/trips is a path on it"
            ):
                read(carried)
        assert open_reader(carried, filesystem=filesystem).to_table().num_rows == 2
    # A path on this machine and a URI say where the table is.
    (local,) = HudiTable.open(str(tmp_path / "trips"), filesystem=fsspec.filesystem("file")).splits()
    assert open_reader(local).to_table().num_rows == 2
    (by_uri,) = HudiTable.open("memory://needs/trips", filesystem=memory).splits()
    assert open_reader(by_uri).to_table().num_rows == 2


@pytest.mark.parametrize("name", ["allow_http", "AWS_ALLOW_HTTP"])
def test_http_may_be_allowed_as_in_other_libraries_and_forbidden(store: S3Server, name: str) -> None:
    table = HudiTable.open("s3://bucket/lake/trips", storage_options=given(store) | {name: "true"})
    assert table.snapshot().count_rows() == 2
    with pytest.raises(QueryError, match="allow_http=false"):
        HudiTable.open("s3://bucket/lake/trips", storage_options=given(store) | {name: "false"})
