"""A URI with credentials: tables are read with it, and nobody is shown them."""

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pyarrow.compute as pc
import pytest
from pyarrow import fs  # noqa: TID251 - a file system that URIs stand for

from hudi_bridge import (
    HudiReadError,
    HudiTable,
    RealtimeFileSplit,
    StorageError,
    TableNotFoundError,
    open_reader,
    tools,
)
from hudi_bridge.cli.main import run
from hudi_bridge.connectors.duckdb import attach
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.storage.masking import Location, masked, without_secrets
from hudi_bridge.storage.storage import Storage
from tests.robustness.failing_files import Faults, failing
from tests.support.table_writer import TableWriter, at

USER, SECRET, TOKEN = "AKIAOFMINE", "sEcrEt%2Fofmine", "tOkenOfMine"
SECRETS = (USER, SECRET, "sEcrEt", TOKEN)
URI = f"s3://{USER}:{SECRET}@bucket/trips?region=eu&session_token={TOKEN}"


@pytest.mark.parametrize(
    ("uri", "shown", "location"),
    [
        ("s3://KEY:S%2FT@b/t", "s3://***@b/t", "s3://b/t"),
        ("s3a://KEY:S/T+@b/t/", "s3a://***@b/t/", "s3a://b/t"),
        ("s3://b/t?region=x&secret_key=S&a=b", "s3://b/t?region=x&secret_key=***&a=***", "s3://b/t"),
        ("s3://b/t?jwt=PW&bearer=PW", "s3://b/t?jwt=***&bearer=***", "s3://b/t"),
        ("s3://b/t?PW", "s3://b/t?***", "s3://b/t"),
        ("s3://b/t?endpoint_override=u:PW@host", "s3://b/t?endpoint_override=***", "s3://b/t"),
        ("http://h/t#access_token=PW", "http://h/t#access_token=***", "http://h/t"),
        ("rest:https://u:PW@h/api?warehouse=w#a.b", "rest:https://***@h/api?warehouse=w#a.b", None),
        ("https://PW@h/t", "https://***@h/t", "https://h/t"),
        ("s3://minio:x'PW@b/t", "s3://***@b/t", "s3://b/t"),
        ('s3://minio:x"PW@b/t', "s3://***@b/t", "s3://b/t"),
        ("s3://minio:x@PW@b/t", "s3://***@b/t", "s3://b/t"),
        ("s3://minio:x PW@b/t", "s3://***@b/t", "s3://b/t"),
        ("s3://KEY:12/PW@b/t", "s3://***@b/t", "s3://b/t"),
        ("s3://KEY:1?PW@b/t?region=x", "s3://***@b/t?region=x", "s3://b/t"),
        ("abfss://c@a.dfs.core.windows.net/t?sv=1&sig=S%3D", None, "abfss://c@a.dfs.core.windows.net/t"),
        ("abfs://c:PW@a.dfs.core.windows.net/t", "abfs://c:***@a.dfs.core.windows.net/t", None),
        ("abfs://:PW@a.blob.core.windows.net/t", "abfs://:***@a.blob.core.windows.net/t", None),
        ("gs://anonymous@b/t", "gs://***@b/t", "gs://b/t"),
        ("hdfs://host:8020/user/a@b/t", "hdfs://host:8020/user/a@b/t", "hdfs://host:8020/user/a@b/t"),
        ("/data/a:b@c?token=x/t", "/data/a:b@c?token=x/t", "/data/a:b@c?token=x/t"),
    ],
)
def test_what_is_masked(uri: str, shown: str | None, location: str | None) -> None:
    if shown is not None:
        assert masked(uri) == shown
        assert masked(f"cannot parse '{uri}', (see {uri})") == f"cannot parse '{shown}', (see {shown})"
    if location is not None:
        assert without_secrets(uri) == location
    for text in (masked(uri), without_secrets(uri)):
        assert "PW" not in text
        assert "S%" not in text


# Each of them separates or escapes something in URIs.
NAMES = ("hr?x", "?", "#", "a%20b", "a b", "x@y:z", "ü", "[*]", "a&b=c", "+")


@pytest.mark.parametrize(
    ("given", "public"),
    [
        ("s3://KEY:S@lake?region=x", "s3://lake"),
        ("s3://lake/a%20b/?region=x&secret_key=S", "s3://lake/a b"),
        ("gs://anonymous@lake", "gs://lake"),
        ("abfss://c:PW@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
        ("file:///lake", "file:///lake"),
        ("file:///", "file://"),
        ("memory://lake", "memory://lake"),
        ("/lake?x", "/lake?x"),
    ],
)
@pytest.mark.parametrize("name", NAMES)
def test_names_from_outside_are_no_part_of_a_uri(given: str, public: str, name: str) -> None:
    below = Location(given).child(name)
    assert below.public() == f"{public}/{name}"
    assert below.public("x/y") == f"{public}/{name}/x/y"
    assert f"/{name}/x" in below.shown("x")
    assert "PW" not in below.shown()
    if given.startswith("s3:"):
        options = "?region=x&endpoint_override=localhost:1"
        opened, path = fs.FileSystem.from_uri(Location(f"s3://k:s@lake{options}").child(name).uri())
        assert isinstance(opened, fs.S3FileSystem)
        assert path == f"lake/{name}"


@pytest.mark.parametrize(
    ("catalog", "opened"),
    [
        ("s3://lake/hr?x", "s3://lake/hr%3Fx"),
        ("hdfs://nn:8020/a b%20", "hdfs://nn:8020/a%20b%2520"),
        ("file:/lake/a b", "file:///lake/a%20b"),
        ("/lake/a?b", "/lake/a?b"),
    ],
)
def test_nothing_in_the_locations_of_catalogs_is_escaped(catalog: str, opened: str) -> None:
    assert Location.of_unescaped(catalog).uri() == opened


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_any_name_are_read_from_their_splits(tmp_path: Path, name: str) -> None:
    """Workers open the table by the URI in the split, in which names are escaped."""
    writer = TableWriter(folder=tmp_path / name).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "p"}])
    writer.commit(at(1))
    lake = Storage.open(f"file://{tmp_path}")
    assert lake.child(name).location() == f"file://{tmp_path}/{name}"
    (split,) = HudiTable.open(lake.child(name).table_path).splits()
    for copied in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        assert [row["id"] for batch in open_reader(copied).batches() for row in batch.to_pylist()] == ["a"]


def test_a_uri_with_a_file_system_is_a_path(tmp_path: Path) -> None:
    storage = Storage.open(f"memory://user:PW@{tmp_path}/a?b", fs.LocalFileSystem())
    assert storage.location("x").endswith("/a?b/x")
    assert "PW" not in storage.location() + storage.shown_path


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """A table of two records that the URI leads to; the faults of its file system."""
    writer = TableWriter(folder=tmp_path / "trips").create()
    written = writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "p"}])
    writer.commit(at(1), wrote=[written])
    written = writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "ts": 2, "value": "q"}])])
    writer.commit(at(2), wrote=[written])
    faults = Faults()

    def from_uri(uri: str) -> Any:
        assert uri == URI
        return failing(faults), str(writer.folder)

    stand_in = SimpleNamespace(**{name: getattr(fs, name) for name in dir(fs) if name[0].isupper()})
    stand_in.FileSystem = type("FileSystem", (), {"from_uri": from_uri})
    monkeypatch.setattr("hudi_bridge.storage.file_systems.fs", stand_in)
    return faults


def test_prompts_and_notebooks_show_none(table: Faults) -> None:
    del table
    opened = HudiTable.open(URI)
    with duckdb.connect() as connection:
        shown = [
            opened,
            opened.snapshot(),
            opened.changes("earliest"),
            opened.snapshot().filter(pc.field("id") == "a"),
            tools.history_of(opened, "a"),
            attach(connection, opened, "trips"),
            opened.timeline,
            opened.schema_history,
            opened.snapshot().explain(),
            tools.doctor(opened),
            tools.diff(opened, "earliest"),
        ]
        for item in shown:
            require_no_secrets(item, item._repr_html_())  # type: ignore[attr-defined]
    assert "***@bucket/trips" in repr(opened)


def require_no_secrets(*texts: object) -> None:
    for text in texts:
        assert not [secret for secret in SECRETS if secret in str(text) or secret in repr(text)], text


@pytest.mark.usefixtures("table")
def test_a_table_is_read_and_shows_no_secrets() -> None:
    opened = HudiTable.open(URI)
    assert opened.path == "s3://***@bucket/trips?region=eu&session_token=***"
    (split,) = opened.splits()
    require_no_secrets(opened, opened.config, split, split.context, opened._state.storage, opened.latest_instant)
    for copied in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        assert copied.table_path == URI
        rows = [row for batch in open_reader(copied).batches() for row in batch.to_pylist()]
        assert sorted(row["id"] for row in rows) == ["a", "b"]


@pytest.mark.parametrize("kind", ["io", "gone"])
def test_errors_show_no_secrets(table: Faults, kind: str) -> None:
    HudiTable.open(URI).snapshot().to_table()
    errors: list[HudiReadError] = []
    harmless: list[str] = []
    # Requests of one round are counted in any order, so each is known by its path, not by its number.
    for number in range(table.count):
        table.kind, table.at, table.count, table.path = kind, number, 0, None
        try:
            HudiTable.open(URI).snapshot().to_table()
            harmless.append(str(table.path))
        except HudiReadError as error:
            errors.append(error)
    assert len(errors) >= 8
    # Commits may have been archived; and the log that tells of operations is opened again for its rows.
    assert [path for path in harmless if kind == "io" or not (".deltacommit" in path or ".log." in path)] == []
    for failure in errors:
        require_no_secrets(failure, failure.args, failure.__dict__)
        if isinstance(failure, StorageError):
            assert failure.path.startswith("s3://***@bucket/trips")


def test_a_uri_that_cannot_be_opened_is_not_shown() -> None:
    for uri in (f"nope://{USER}:{SECRET}@b/t", f"s3://{USER}:a%zz{SECRET}@b/t", f"s3://{USER}:{SECRET}@"):
        with pytest.raises(TableNotFoundError) as caught:
            HudiTable.open(uri)
        require_no_secrets(caught.value, caught.value.__cause__, caught.value.filename)


@pytest.mark.usefixtures("table")
def test_the_command_line_shows_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["info", URI], ["splits", URI], ["trino", "explain", URI]):
        run(command)
        shown = capsys.readouterr()
        require_no_secrets(shown.out, shown.err)


@pytest.mark.usefixtures("table")
def test_a_view_names_files_without_secrets(tmp_path: Path) -> None:
    published = publish_table(Storage.open(URI), Scratch.open(str(tmp_path / "view")), locations=Locations(), builds=1)
    require_no_secrets(published)
    files = [path for path in (tmp_path / "view").rglob("*") if path.is_file()]
    actual = b"".join(path.read_bytes() for path in files)
    assert b"s3://bucket/trips/" in actual
    assert not [secret for secret in SECRETS if secret.encode() in actual]
    located = Locations.of((f"s3://{USER}:{SECRET}@bucket=local:///mine",))
    assert located.uri(Storage.open(URI), "x/y") == "local:///mine/trips/x/y"
