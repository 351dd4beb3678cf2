"""Tables by their names in a Hive metastore, over its own protocol."""

import errno
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from hive_metastore.ttypes import Table

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.hive import HiveSecurity
from hudi_bridge.catalogs.uris import find_in_catalog, open_catalog, uri_in_catalog
from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError, StorageError, TableNotFoundError
from tests.catalogs.metastore import READ_OPTIMIZED_FORMAT, REALTIME_FORMAT, Metastore, hive_table, served
from tests.catalogs.rows import rows_of
from tests.service.certificates import certificate
from tests.support.golden_cases import golden_trips


@pytest.fixture
def location() -> str:
    return f"file:{golden_trips() / 'trips'}"


@pytest.fixture
def metastore(location: str) -> Iterator[Metastore]:
    orders = [
        hive_table("orders", location, input_format=REALTIME_FORMAT, as_read_optimized=False),
        hive_table("orders_rt", location, input_format=REALTIME_FORMAT, as_read_optimized=False),
        hive_table("orders_ro", location, input_format=READ_OPTIMIZED_FORMAT, as_read_optimized=True),
        hive_table("old_ro", location, input_format=READ_OPTIMIZED_FORMAT, as_read_optimized=None),
        Table(tableName="plain", parameters={}),
    ]
    with served(Metastore(databases={"sales": orders, "empty": []})) as metastore:
        yield metastore


def test_databases_and_the_tables_of_hudi_are_listed(metastore: Metastore) -> None:
    catalog = open_catalog(metastore.uri)
    assert catalog.namespaces() == [("empty",), ("sales",)]
    assert catalog.namespaces(("sales",)) == []
    assert catalog.table_names(("sales",)) == ["old_ro", "orders", "orders_ro", "orders_rt"]
    assert catalog.table_names(("empty",)) == catalog.table_names(("missing",)) == []


def test_many_tables_are_asked_for_in_groups(metastore: Metastore, location: str) -> None:
    names = [f"t{number:04}" for number in range(450)]
    metastore.databases["many"] = [
        hive_table(name, location, input_format=REALTIME_FORMAT, as_read_optimized=False) for name in names
    ]
    assert open_catalog(metastore.uri).table_names(("many",)) == names
    assert [len(asked) for asked in metastore.asked] == [200, 200, 50]


@pytest.mark.parametrize(
    ("name", "query_type"),
    [
        ("orders", QueryType.SNAPSHOT),
        ("ORDERS", QueryType.SNAPSHOT),
        ("orders_rt", QueryType.SNAPSHOT),
        ("orders_ro", QueryType.READ_OPTIMIZED),
        ("old_ro", QueryType.READ_OPTIMIZED),
    ],
)
def test_names_stand_for_query_types(metastore: Metastore, name: str, query_type: QueryType) -> None:
    table = HudiTable.open(f"{metastore.uri}/sales.{name}")
    assert table.query_type is query_type
    expected = table.snapshot() if query_type is QueryType.SNAPSHOT else table.read_optimized()
    assert rows_of(table.query()) == rows_of(expected)


def test_a_query_type_that_is_given_comes_before_that_of_the_name(metastore: Metastore) -> None:
    given = {"hoodie.datasource.query.type": "snapshot"}
    table = HudiTable.open(f"{metastore.uri}/sales.orders_ro", options=given)
    assert rows_of(table.query()) == rows_of(table.snapshot())


def test_other_query_types_are_no_option_of_a_table(location: str) -> None:
    with pytest.raises(QueryError, match="expected snapshot or read_optimized"):
        HudiTable.open(location, options={"hoodie.datasource.query.type": "incremental"})


@pytest.mark.parametrize("name", ["sales.plain", "sales.missing", "missing.orders"])
def test_what_is_no_table_of_hudi_is_not_found(metastore: Metastore, name: str) -> None:
    with pytest.raises(TableNotFoundError, match=f"hive://127.0.0.1:{metastore.port} has no Hudi table '{name}'"):
        find_in_catalog(f"{metastore.uri}/{name}")


@pytest.mark.parametrize("name", ["", "/orders", "/sales.", "/.orders"])
def test_a_table_has_a_database(metastore: Metastore, name: str) -> None:
    with pytest.raises(QueryError, match=r"DATABASE\.TABLE"):
        HudiTable.open(metastore.uri + name)


def test_what_the_metastore_refuses_is_told(metastore: Metastore) -> None:
    metastore.refuses = True
    with pytest.raises(StorageError, match="no right to list databases"):
        open_catalog(metastore.uri).namespaces()


def test_a_metastore_that_is_not_there_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(StorageError, match=f"hive://127.0.0.1:{port}"):
        HudiTable.open(f"hive://127.0.0.1:{port}/sales.orders")


def test_a_server_of_another_protocol_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "2")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        uri = f"hive://127.0.0.1:{server.getsockname()[1]}"
        # It accepts the connection, and never answers.
        with pytest.raises(StorageError, match="list the databases"):
            open_catalog(uri).namespaces()


def test_a_metastore_with_tls(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = certificate(tmp_path, "metastore")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tls.certificate, tls.key)
    table = hive_table("orders", location, input_format=REALTIME_FORMAT, as_read_optimized=False)
    with served(Metastore(databases={"sales": [table]}), context) as metastore:
        for parameters in (f"tls=true&ca-file={tls.certificate}", f"ca-file={tls.certificate}"):
            uri = f"{metastore.uri}?{parameters}"
            assert open_catalog(uri).table_names(("sales",)) == ["orders"]
            assert HudiTable.open(uri_in_catalog(uri, "sales.orders")).snapshot().count_rows()
        with pytest.raises(StorageError, match="certificate verify failed: self-signed certificate") as caught:
            open_catalog(f"{metastore.uri}?tls=true").namespaces()
        assert caught.value.errno == errno.EIO
        other = metastore.uri.replace("127.0.0.1", "localhost")
        with pytest.raises(StorageError, match="Hostname mismatch, certificate is not valid for 'localhost'"):
            open_catalog(f"{other}?ca-file={tls.certificate}").namespaces()
        # As for all of this process, it can be said by the environment.
        monkeypatch.setenv("SSL_CERT_FILE", str(tls.certificate))
        assert open_catalog(f"{metastore.uri}?tls=true").table_names(("sales",)) == ["orders"]
        with pytest.raises(StorageError, match=r"needs \?kerberos=true in the URI, one with TLS \?tls=true"):
            open_catalog(metastore.uri).namespaces()
    with (
        served(Metastore(databases={})) as plain,
        pytest.raises(StorageError, match=r"(?i)list the databases: .*(ssl|tls|reset|eof|connection)"),
    ):
        open_catalog(f"{plain.uri}?tls=true").namespaces()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("kerberos=yes", "found kerberos='yes', expected true or false"),
        ("tls=1", "found tls='1', expected true or false"),
        ("sasl=true", "found the parameter 'sasl', expected kerberos, kerberos-principal, tls, ca-file"),
    ],
)
def test_wrong_parameters(parameters: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        open_catalog(f"hive://metastore:9083?{parameters}")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({}, HiveSecurity()),
        ({"kerberos": "false", "tls": "false"}, HiveSecurity()),
        ({"kerberos": "true"}, HiveSecurity(service="hive@node.example")),
        ({"kerberos-principal": "metastore"}, HiveSecurity(service="metastore@node.example")),
        ({"kerberos-principal": "hive/_HOST@REALM"}, HiveSecurity(service="hive/node.example@REALM")),
        ({"ca-file": "ca.pem"}, HiveSecurity(tls=True, ca_file="ca.pem")),
    ],
)
def test_parameters(parameters: dict[str, str], expected: HiveSecurity) -> None:
    assert HiveSecurity.of_parameters("node.example", parameters) == expected


def test_a_ca_file_that_is_missing(metastore: Metastore) -> None:
    with pytest.raises(StorageError, match="list the databases: No such file"):
        open_catalog(f"{metastore.uri}?ca-file=/nowhere").namespaces()
