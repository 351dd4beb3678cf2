"""Values of read options, and storage options, through every entrance: each is followed alike, or refused by its name.

``tests/table/test_read_options.py`` has the names that are taken and refused. Spark's entrance is its options and plan
here, without a JVM; ``tests/connectors/spark`` has what needs a session.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hudi_bridge import HudiTable, QueryError
from hudi_bridge.cli.main import run
from hudi_bridge.connectors import duckdb as connector_of_duckdb
from hudi_bridge.connectors import polars
from hudi_bridge.connectors.iceberg.publish import publish_table
from hudi_bridge.connectors.iceberg.served_table import SnapshotSettings
from hudi_bridge.connectors.iceberg.slice_cache import Counters
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import DEFAULT_NAMESPACE, MergeSettings, MergingByTable
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.connectors.spark.jobs import read_task
from hudi_bridge.connectors.spark.options import STORAGE, parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery
from hudi_bridge.connectors.split_tasks import TableQuery
from hudi_bridge.options import QUERY_TYPE_KEY, VIEW_TYPE_KEY
from hudi_bridge.service.catalog import Catalog
from hudi_bridge.storage.storage import Storage
from hudi_bridge.table import OpenArguments, RowsArguments
from hudi_bridge.tools.checks.examination import examine
from tests.support.s3_server import S3Server
from tests.support.table_writer import TableWriter, at

NEWEST, OF_BASE_FILES = ["new", "other"], ["old", "other"]
NAME = "trips"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A table, named by its folder and its name there, and what an entrance opens it with."""

    folder: str
    scratch: Path
    options: Mapping[str, Any]
    storage_options: Mapping[str, Any]

    @property
    def path(self) -> str:
        return f"{self.folder}/{NAME}"

    @property
    def arguments(self) -> OpenArguments:
        return OpenArguments(
            filesystem=None,
            options=self.options,
            payloads=None,
            log_memory_bytes=None,
            storage_options=self.storage_options,
        )

    @property
    def of_command(self) -> list[Any]:
        given = [("--option", self.options), ("--storage-option", self.storage_options)]
        return [text for name, values in given for key, value in values.items() for text in (name, f"{key}={value}")]


Entrance = Callable[[Asked], list[Any]]


def through_table(asked: Asked) -> list[Any]:
    return HudiTable.open(asked.path, **asked.arguments).query().to_table(["value"])["value"].to_pylist()


def through_attach(asked: Asked) -> list[Any]:
    with duckdb.connect() as connection:
        connector_of_duckdb.attach(connection, asked.path, NAME, **asked.arguments)
        return [value for (value,) in connection.sql(f"SELECT value FROM {NAME}").fetchall()]


def through_lake(asked: Asked) -> list[Any]:
    with duckdb.connect() as connection:
        lake = connector_of_duckdb.attach_all(connection, asked.folder, **asked.arguments)
        rows = lake.sql(f"SELECT value FROM lake.{NAME}")
        assert rows is not None
        return [value for (value,) in rows.fetchall()]


def through_polars(asked: Asked) -> list[Any]:
    return polars.scan(asked.path, **asked.arguments).collect()["value"].to_list()


def through_tasks(asked: Asked) -> list[Any]:
    """As Dask, Ray and Daft read."""
    rows = RowsArguments(as_of=None, read_optimized=False, after=None, up_to=None)
    query = TableQuery.of("tests", asked.path, asked.arguments, rows, ["value"], meta_columns=True)
    return [value for task in query.tasks() for batch in task.batches() for value in batch["value"].to_pylist()]


def through_spark(asked: Asked) -> list[Any]:
    of_store = {f"{STORAGE}{name}": value for name, value in asked.storage_options.items()}
    query = PinnedQuery.of(parse_options({**asked.options, **of_store, "path": asked.path, "columns": "value"}))
    plan = query.plan()
    return [
        value for task in plan.tasks for batch in read_task(plan.reading, task) for value in batch["value"].to_pylist()
    ]


def settings(builders: ThreadPoolExecutor) -> SnapshotSettings:
    return SnapshotSettings(locations=Locations(), builders=builders, at_once=1, counters=Counters())


def rows_of_query_type(metadata: str) -> list[Any]:
    """What a client of Iceberg would read of the table."""
    return NEWEST if json.loads(metadata)["properties"]["hudi.query-type"] == "snapshot" else OF_BASE_FILES


def through_service(asked: Asked) -> list[Any]:
    tables = Roots.of([asked.folder], [], asked.storage_options)
    given = [f"{name}={value}" for name, value in asked.options.items()]
    merging = MergingByTable.parse(given, {}, tables.find_by_name)
    with ThreadPoolExecutor(1) as builders:
        catalog = Catalog(tables, Scratch.open(str(asked.scratch)), settings(builders), merging)
        loaded = catalog.load(DEFAULT_NAMESPACE, NAME)
        assert catalog.planned(DEFAULT_NAMESPACE, NAME).load().instant == loaded.instant
    return rows_of_query_type(loaded.metadata)


def through_publication(asked: Asked) -> list[Any]:
    published = publish_table(
        Storage.open(asked.path, options=asked.storage_options),
        Scratch.open(str(asked.scratch)),
        locations=Locations(),
        builds=1,
        merging=MergeSettings(options=asked.options),
    )
    return rows_of_query_type(Path(published.metadata_location.removeprefix("file://")).read_text())


ENTRANCES: Mapping[str, Entrance] = {
    "table": through_table,
    "attach": through_attach,
    "lake": through_lake,
    "polars": through_polars,
    "tasks": through_tasks,
    "spark": through_spark,
    "service": through_service,
    "publication": through_publication,
}
COMMANDS: Mapping[str, tuple[list[str], list[str]]] = {
    "read": (["read"], ["--columns", "value", "--format", "csv"]),
    "sql": (["sql"], [f"SELECT value FROM {NAME}", "--format", "csv"]),
    "splits": (["splits"], []),
    "explain": (["explain"], []),
    "doctor": (["doctor"], []),
    "report": (["report"], []),
    "trace": (["trace"], ["a"]),
    "diff": (["diff"], [at(1)]),
    "changes": (["changes"], ["--after", "earliest"]),
}
"""Commands that open a table, before and after its path."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a table, whose log file replaces one of two rows."""
    writer = TableWriter(folder=tmp_path / "bucket" / "lake" / NAME).create()
    rows = [{"id": "a", "ts": 1, "value": "old"}, {"id": "b", "ts": 1, "value": "other"}]
    writer.commit(at(1), wrote=[writer.base_file(at(1), rows)])
    log = writer.log_file(at(2), [writer.data_block(at(2), [{"id": "a", "ts": 2, "value": "new"}])])
    writer.commit(at(2), wrote=[log])
    return tmp_path / "bucket" / "lake"


def asked(
    folder: str | Path, options: Mapping[str, Any] | None = None, storage_options: Mapping[str, Any] | None = None
) -> Asked:
    scratch = Path(folder if isinstance(folder, Path) else "/").parent / "scratch"
    return Asked(folder=str(folder), scratch=scratch, options=options or {}, storage_options=storage_options or {})


FOLLOWED: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "none": ({}, NEWEST),
    "read optimized": ({QUERY_TYPE_KEY: "READ_OPTIMIZED"}, OF_BASE_FILES),
    "snapshot": ({QUERY_TYPE_KEY: "snapshot"}, NEWEST),
    # By the words of Hudi before 0.6.
    "view": ({VIEW_TYPE_KEY: "read_optimized"}, NEWEST),
    "both": ({VIEW_TYPE_KEY: "realtime", QUERY_TYPE_KEY: "read_optimized"}, OF_BASE_FILES),
    "without indexes": ({"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "False"}, NEWEST),
    "without effect": (
        {"hoodie.memory.merge.max.size": "1", "hoodie.datasource.merge.type": "payload_combine"},
        NEWEST,
    ),
}
REFUSED: Mapping[str, str] = {
    "hoodie.metadata.enabled": "false",
    "hoodie.metadata.enable": "maybe",
    "hoodie.enable.data.skipping": "0",
    "hoodie.schema.on.read.enable": "",
    "hudi_bridge.read.unreleased": "yes",
    "hudi_bridge.paths.tell.values": "yes",
    "hudi_bridge.completion.times": "yes",
    "hoodie.allow.operation.metadata.field": "yes",
    "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "yes",
    "hoodie.datasource.read.schema.use.end.instanttime": "yes",
    "hoodie.datasource.read.incr.table.version": "eight",
    "hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME",
    "hoodie.read.blob.inline.mode": "BYTES",
    "hoodie.bucket.index.num.buckets": "many",
    "hudi_bridge.read.as.release": "0.15",
    QUERY_TYPE_KEY: "cdc",
    VIEW_TYPE_KEY: "snapshot",
    "hoodie.datasource.merge.type": "skip_merge",
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
}
"""Options with a value that nothing follows."""


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_read_option_is_followed_alike(entrance: str, folder: Path) -> None:
    actual = {name: sorted(ENTRANCES[entrance](asked(folder, options))) for name, (options, _) in FOLLOWED.items()}
    assert actual == {name: expected for name, (_, expected) in FOLLOWED.items()}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_read_option_that_nothing_follows_is_refused_by_its_name(entrance: str, folder: Path) -> None:
    for name, value in REFUSED.items():
        with pytest.raises(QueryError) as caught:
            ENTRANCES[entrance](asked(folder, {name: value}))
        assert name in str(caught.value)


@pytest.mark.parametrize("entrance", [name for name in ENTRANCES if name != "service"])
def test_the_value_of_a_read_option_is_a_text(entrance: str, folder: Path) -> None:
    with pytest.raises(
        QueryError, match=r"hoodie\.metadata\.enable: found False, a bool, expected a text, such as 'false'"
    ):
        ENTRANCES[entrance](asked(folder, {"hoodie.metadata.enable": False}))


def test_the_settings_of_a_service_are_checked_before_it_starts(folder: Path) -> None:
    tables = Roots.of([str(folder)], [])
    for name, value in REFUSED.items():
        if name == "hudi_bridge.read.as.release":
            # It depends on the table.
            continue
        for text in (f"{name}={value}", f"{NAME}:{name}={value}"):
            with pytest.raises(QueryError, match=name):
                MergingByTable.parse([text], {}, tables.find_by_name)


def test_an_option_of_one_served_table_is_of_that_one_alone(folder: Path) -> None:
    TableWriter(folder=folder / "empty").create()
    tables = Roots.of([str(folder)], [])
    merging = MergingByTable.parse([f"{NAME}:{QUERY_TYPE_KEY}=read_optimized"], {}, tables.find_by_name)
    with ThreadPoolExecutor(1) as builders:
        catalog = Catalog(tables, Scratch.open(str(folder.parent / "scratch")), settings(builders), merging)
        names = (NAME, f"{NAME}@{at(2)}", f"{NAME}$ro")
        assert {tuple(rows_of_query_type(catalog.load(DEFAULT_NAMESPACE, name).metadata)) for name in names} == {
            tuple(OF_BASE_FILES)
        }


def test_the_memory_of_a_publication_is_checked(folder: Path) -> None:
    with pytest.raises(QueryError, match="log_memory_bytes: found 0"):
        publish_table(
            Storage.open(f"{folder}/{NAME}"),
            Scratch.open(str(folder.parent / "scratch")),
            locations=Locations(),
            builds=1,
            merging=MergeSettings(log_memory_bytes=0),
        )


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_refuse_the_same_options(command: str, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before, after = COMMANDS[command]
    for name in ("hoodie.metadata.enabled", "hoodie.metadata.enable", "hoodie.datasource.merge.type"):
        assert run([*before, f"{folder}/{NAME}", *after, "--option", f"{name}={REFUSED[name]}"]) == 2
        out, err = capfd.readouterr()
        assert (out, name in err) == ("", True)
    for given in (["region=x"], ["nothing=x"]):
        assert run([*before, f"{folder}/{NAME}", *after, "--storage-option", *given]) == 2
        out, err = capfd.readouterr()
        assert (out, "--storage-option" in err) == ("", True)


class SigningServer(S3Server):
    """Remembers who has signed the requests, and for which region."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.signed: set[tuple[str, str, str | None]] = set()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, target: str, headers: dict[str, str]) -> bool:
        key, _, region = headers["authorization"].partition("Credential=")[2].split("/")[:3]
        self.signed.add((key, region, headers.get("x-amz-security-token")))
        return await super()._answer(writer, method, target, headers)


SIGNED = ("ours", "of-the-options", "a-token")


@pytest.fixture
def store(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SigningServer]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "theirs")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "of-the-machine")
    with SigningServer(folder.parent.parent).running() as server:
        yield server


def of_store(store: S3Server) -> dict[str, str]:
    key, region, token = SIGNED
    return {
        "AWS_ACCESS_KEY_ID": key,
        "aws_secret_access_key": "secret",
        "session_token": token,
        "region": region,
        "endpoint_url": f"http://127.0.0.1:{store.port}",
    }


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_storage_options_go_with_every_request(entrance: str, store: SigningServer, tmp_path: Path) -> None:
    given = Asked(folder="s3://bucket/lake", scratch=tmp_path / "scratch", options={}, storage_options=of_store(store))
    assert sorted(ENTRANCES[entrance](given)) == NEWEST
    assert store.signed == {SIGNED}


@pytest.mark.parametrize("command", COMMANDS)
def test_storage_options_of_commands_go_with_every_request(
    command: str, store: SigningServer, capfd: pytest.CaptureFixture[str]
) -> None:
    before, after = COMMANDS[command]
    given = [text for name, value in of_store(store).items() for text in ("--storage-option", f"{name}={value}")]
    assert run([*before, f"s3://bucket/lake/{NAME}", *after, *given]) in (
        (0, 1, 3) if command in ("doctor", "diff") else (0,)
    )
    assert "secret" not in "".join(capfd.readouterr())
    assert store.signed == {SIGNED}


def test_the_doctor_takes_storage_options(store: SigningServer) -> None:
    assert examine(f"s3://bucket/lake/{NAME}", deep=True, storage_options=of_store(store)).findings is not None
    assert store.signed == {SIGNED}


STORAGE_REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "misspelt": ({"acces_key_id": "x"}, "acces_key_id"),
    "of another store": ({"account_name": "x"}, "account_name"),
    "twice": ({"region": "x", "aws_region": "y"}, "aws_region"),
    "no flag": ({"anonymous": "maybe"}, "anonymous"),
    "no text": ({"session_token": 5}, "session_token"),
    "no time": ({"timeout": "soon"}, "timeout"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_a_storage_option_that_nothing_follows_is_refused_by_its_name(entrance: str, folder: Path) -> None:
    for options, name in STORAGE_REFUSED.values():
        given = Asked(folder="s3://bucket/lake", scratch=folder.parent / "scratch", options={}, storage_options=options)
        with pytest.raises(QueryError, match=f"storage_options: .*{name}"):
            ENTRANCES[entrance](given)
    with pytest.raises(QueryError, match="storage_options: found 'region', expected none for a path on this machine"):
        ENTRANCES[entrance](asked(folder, {}, {"region": "x"}))
