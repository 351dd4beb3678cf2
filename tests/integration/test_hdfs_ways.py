"""Tables on a real HDFS by HTTP, in a catalog and in the service, and what they take of a NameNode."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from hudi_bridge import HudiTable, StorageError
from hudi_bridge.catalogs.uris import open_catalog
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.lakes.tables import CatalogTables
from hudi_bridge.storage.storage import Storage
from tests.catalogs.metastore import READ_OPTIMIZED_FORMAT, REALTIME_FORMAT, Metastore, hive_table, served
from tests.integration.hdfs_cluster import HdfsCluster, running_hdfs
from tests.service.iceberg_service import client, running, service_options
from tests.support.compare import differences
from tests.support.golden_cases import golden_table, golden_trips

pytestmark = pytest.mark.jvm
CASE = "h_all_indexes_120"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """A cluster of its own: nodes that were stopped and started count calls no more, and answer HTTP in pieces."""
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lake(hdfs: HdfsCluster) -> str:
    """The URI of a folder with a table."""
    hdfs.put(golden_trips() / "trips", "/ways/trips")
    return f"{hdfs.uri}/ways"


@pytest.fixture(autouse=True)
def variables(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.settings))


@pytest.fixture(scope="module")
def local() -> HudiTable:
    return HudiTable.open(golden_trips() / "trips")


def ids(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.select(["id", "fare"]).to_pylist()))


@pytest.mark.usefixtures("lake")
def test_webhdfs(hdfs: HdfsCluster, local: HudiTable) -> None:
    uri = f"webhdfs://127.0.0.1:{hdfs.http_port}/ways/trips"
    for options in ({}, {"user": "alice"}):
        table = HudiTable.open(uri, storage_options=options)
        assert differences(local.snapshot().to_table(), table.snapshot().to_table()) == []
    hdfs.client.set_permission("/ways/trips/sf", 0o700)
    try:
        with pytest.raises(StorageError, match="Permission denied: user=alice, access="):
            HudiTable.open(uri, storage_options={"user": "alice"}).snapshot().to_table()
    finally:
        hdfs.client.set_permission("/ways/trips/sf", 0o755)


def test_a_catalog(lake: str, local: HudiTable) -> None:
    tables = [
        hive_table("trips", f"{lake}/trips", input_format=REALTIME_FORMAT, as_read_optimized=False),
        hive_table("trips_ro", f"{lake}/trips", input_format=READ_OPTIMIZED_FORMAT, as_read_optimized=True),
    ]
    with served(Metastore(databases={"city": tables})) as metastore:
        for name, expected in (("trips", local.snapshot()), ("trips_ro", local.read_optimized())):
            table = HudiTable.open(f"{metastore.uri}/city.{name}")
            assert table.path == f"{lake}/trips"
            assert differences(expected.to_table(), table.query().to_table()) == []


def test_the_service(lake: str, local: HudiTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Clients read the base files by a client of HDFS of their own. That of PyIceberg needs a JVM.
    monkeypatch.setattr(
        PyArrowFileIO, "_initialize_hdfs_fs", lambda _, scheme, host: Storage.open(f"{scheme}://{host}/").filesystem
    )
    options = service_options(tmp_path / "scratch", [golden_trips()])
    table = hive_table("trips", f"{lake}/trips", input_format=REALTIME_FORMAT, as_read_optimized=False)
    with served(Metastore(databases={"default": [table]})) as metastore:
        for tables in (Roots.of([lake], []), CatalogTables(open_catalog(metastore.uri))):
            with running(replace(options, tables=tables)) as service:
                catalog = client(service)
                assert catalog.list_tables("default") == [("default", "trips")]
                for name, expected in (("trips", local.snapshot()), ("trips__ro", local.read_optimized())):
                    assert ids(catalog.load_table(("default", name)).scan().to_arrow()) == ids(expected.to_table())


def test_requests(hdfs: HdfsCluster) -> None:
    """A file takes one call for its blocks, and one for its size unless that is listed; a folder takes one."""
    uri = hdfs.put(golden_table(CASE), f"/ways/{CASE}")
    table: list[HudiTable] = []
    before = hdfs.requests()
    for query, blocks, sizes, listings in REQUESTS:
        query(table, uri)
        after = hdfs.requests()
        made = after - before
        most = {"GetBlockLocations": blocks, "BlocksRead": blocks, "GetFileInfo": sizes, "GetListing": listings}
        assert {name: number for name, number in made.items() if number > most[name]} == {}
        assert 0 < made["BlocksRead"] == made["GetBlockLocations"]
        before = after


def opened(table: list[HudiTable], uri: str) -> None:
    table.append(HudiTable.open(uri))
    assert table[0].splits()


def read(table: list[HudiTable], uri: str) -> None:
    assert table[0].snapshot().to_table().num_rows, uri


def looked_up(table: list[HudiTable], uri: str) -> None:
    assert table[0].get("k00001").num_rows == 1, uri


REQUESTS: tuple[tuple[Callable[[list[HudiTable], str], None], int, int, int], ...] = (
    # What is asked, with the most files that are read, files whose size is asked for, and folders that are listed.
    (opened, 13, 13, 6),
    (read, 54, 0, 0),
    (read, 54, 0, 0),
    (looked_up, 22, 18, 2),
    (looked_up, 4, 0, 0),
)
