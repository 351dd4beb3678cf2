"""The service over the tables of a catalog: by their names there, with the query types that these stand for."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.uris import open_catalog
from hudi_bridge.connectors.lakes.tables import CatalogTables
from tests.catalogs.metastore import REALTIME_FORMAT, Metastore, hive_table, of_trips, served
from tests.service.iceberg_service import client, running, service_options
from tests.support.golden_cases import golden_trips


@pytest.fixture
def folder() -> Path:
    return golden_trips() / "trips"


@pytest.fixture
def metastore(folder: Path) -> Iterator[Metastore]:
    gone = hive_table("gone", f"file:{folder}/gone", input_format=REALTIME_FORMAT, as_read_optimized=False)
    with served(Metastore(databases={"city": [*of_trips(folder), gone], "empty": []})) as metastore:
        yield metastore


def ids(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.select(["id", "fare"]).to_pylist()))


def test_tables_are_served_by_the_names_of_the_catalog(metastore: Metastore, folder: Path, tmp_path: Path) -> None:
    tables = CatalogTables(open_catalog(metastore.uri))
    hudi = HudiTable.open(folder)
    first = hudi.timeline.commits()[0].requested_time
    with running(replace(service_options(tmp_path / "scratch", [folder.parent]), tables=tables)) as service:
        catalog = client(service)
        assert sorted(catalog.list_namespaces()) == [("city",), ("empty",)]
        assert sorted(catalog.list_tables("city")) == [("city", name) for name in ("gone", "trips", "trips_ro")]
        assert catalog.list_tables("empty") == []
        for name, expected in (
            ("trips", hudi.snapshot()),
            ("trips_ro", hudi.read_optimized()),
            ("trips__ro", hudi.read_optimized()),
            (f"trips@{first}", hudi.snapshot(first)),
            (f"trips_ro@{first}", hudi.read_optimized(first)),
        ):
            actual = catalog.load_table(("city", name)).scan().to_arrow()
            assert ids(actual) == ids(expected.to_table()), name
        with pytest.raises(NoSuchTableError):
            catalog.load_table("city.missing")
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables("missing")
        with pytest.raises(NoSuchTableError) as caught:
            catalog.load_table("city.gone")
        assert str(folder) not in str(caught.value)


def test_a_catalog_that_does_not_answer_is_not_shown_to_clients(
    metastore: Metastore, folder: Path, tmp_path: Path
) -> None:
    tables = CatalogTables(open_catalog(metastore.uri))
    with running(replace(service_options(tmp_path / "scratch", [folder.parent]), tables=tables)) as service:
        catalog = client(service)
        metastore.refuses = True
        with pytest.raises(Exception, match="no right to list databases") as caught:
            catalog.list_namespaces()
        assert str(metastore.port) not in str(caught.value)


def test_new_commits_of_all_tables_are_followed(metastore: Metastore) -> None:
    failures: list[str] = []
    tables = CatalogTables(open_catalog(metastore.uri))
    walked = list(tables.walk(lambda name, _: failures.append(name)))
    assert sorted(walked) == [(("city",), name) for name in ("gone", "trips", "trips_ro")]
    metastore.refuses = True
    assert not list(tables.walk(lambda name, _: failures.append(name)))
    assert failures == [metastore.uri]
