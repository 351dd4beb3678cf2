"""``--catalog``: tables by the names that a catalog has for them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from hudi_bridge.cli.main import run
from tests.catalogs.metastore import Metastore, of_trips, served
from tests.support.golden_cases import golden_trips


@pytest.fixture
def folder() -> Path:
    return golden_trips() / "trips"


@pytest.fixture
def metastore(folder: Path) -> Iterator[Metastore]:
    with served(Metastore(databases={"city": of_trips(folder)})) as metastore:
        yield metastore


def _output(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """The lines, sorted: rows come in any order."""
    assert run(arguments) == 0
    return sorted(capsys.readouterr().out.splitlines())


@pytest.mark.parametrize(
    "command",
    [
        ("read", "TABLE", "--format", "csv"),
        ("sql", "TABLE", "select * from t", "--format", "csv"),
        ("doctor", "TABLE", "--format", "json"),
        ("info", "TABLE"),
        ("explain", "TABLE"),
    ],
)
def test_commands_find_the_table(
    metastore: Metastore, folder: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...]
) -> None:
    def of(table: str, *options: str) -> list[str]:
        return _output(capsys, *(table if item == "TABLE" else item for item in command), *options)

    expected = of(f"file://{folder}")
    assert of("city.trips", "--catalog", metastore.uri) == expected
    assert of(f"{metastore.uri}/city.trips") == expected
    assert of(f"file://{folder}", f"--catalog={metastore.uri}") == expected


def test_the_catalog_may_be_set_for_the_session(
    metastore: Metastore, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _output(capsys, "read", str(folder), "--read-optimized", "--format", "csv")
    monkeypatch.setenv("HUDI_BRIDGE_CATALOG", metastore.uri)
    assert _output(capsys, "read", "city.trips_ro", "--format", "csv") == expected


def test_a_table_that_the_catalog_lacks(metastore: Metastore, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(("read", "city.missing", "--catalog", metastore.uri)) == 1
    assert "has no Hudi table 'city.missing'" in " ".join(capsys.readouterr().err.split())


def test_what_is_published_is_what_the_name_stands_for(
    metastore: Metastore, folder: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def rows(name: str, table: str, *options: str) -> int:
        (metadata,) = _output(capsys, "publish", "iceberg", table, "--to", str(tmp_path / name), *options)
        return StaticTable.from_metadata(metadata).scan().to_arrow().num_rows

    snapshot = rows("snapshot", str(folder))
    base_files = rows("base files", str(folder), "--read-optimized")
    assert snapshot != base_files
    assert rows("trips", "city.trips", "--catalog", metastore.uri) == snapshot
    assert rows("trips_ro", "city.trips_ro", "--catalog", metastore.uri) == base_files
    as_snapshot = ("--option", "hoodie.datasource.query.type=snapshot")
    assert rows("told", "city.trips_ro", "--catalog", metastore.uri, *as_snapshot) == snapshot


def test_splits_are_those_of_what_the_name_stands_for(
    metastore: Metastore, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base_files = _output(capsys, "splits", str(folder), "--read-optimized", "--format", "csv")
    assert _output(capsys, "splits", "city.trips_ro", "--catalog", metastore.uri, "--format", "csv") == base_files
    assert _output(capsys, "splits", "city.trips", "--catalog", metastore.uri, "--format", "csv") != base_files


def test_log_records_of_base_files_alone_are_refused(
    metastore: Metastore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ("publish", "log-records", "city.trips_ro", "--catalog", metastore.uri, "--to", str(tmp_path / "own"))
    assert run(command) == 1
    assert "opened as read_optimized" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "own").exists()
