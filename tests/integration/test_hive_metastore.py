"""Tables that Hudi's own sync has registered in a real Hive metastore, which is asked with and without Kerberos."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hudi_bridge import HudiTable, QueryType, StorageError
from hudi_bridge.catalogs.uris import open_catalog, open_namespace
from hudi_bridge.errors import TableNotFoundError
from hudi_bridge.service.server import Tls
from tests.catalogs.rows import rows_of
from tests.integration.hive_metastore import KEY_STORE_PASSWORD, running_metastore, sync
from tests.integration.loopback_kdc import HOST, REALM, Kdc
from tests.service.certificates import certificate, key_store
from tests.support.golden_cases import golden_trips

pytestmark = pytest.mark.jvm
PROTECTIONS = ("auth", "auth-int", "auth-conf", "auth-conf,auth-int,auth")
PRINCIPAL = f"hive/{HOST}@{REALM}"
TABLES = ["trips", "trips_ro", "trips_rt"]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def uris(kdc: Kdc, tls: Tls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Those of a metastore: without a login, with one of each protection, and one with TLS."""
    properties = {
        "hadoop.security.authentication": "kerberos",
        "hive.metastore.kerberos.keytab.file": str(kdc.keytab("hive", f"hive/{HOST}")),
        "hive.metastore.kerberos.principal": PRINCIPAL,
    }
    folder = tmp_path_factory.mktemp("metastore")
    protections = (*PROTECTIONS, f"auth-conf:{key_store(tls, folder, KEY_STORE_PASSWORD)}")
    with running_metastore(folder, protections, properties, kdc.jvm_option) as uris:
        sync(golden_trips() / "trips", uris[0], "city", "trips", "city")
        yield uris


@pytest.fixture(scope="module")
def user(kdc: Kdc) -> Path:
    return kdc.keytab("user", "user")


@pytest.fixture
def ticket(kdc: Kdc, user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a user, without those of services, which are asked for."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.settings))
    monkeypatch.setenv("KRB5CCNAME", kdc.ticket("user", user, "user"))


def test_tables_are_found_by_the_names_that_hudi_has_registered(uris: list[str]) -> None:
    by_path = HudiTable.open(golden_trips() / "trips")
    uri = uris[0]
    catalog = open_catalog(uri)
    assert catalog.namespaces() == [("city",), ("default",)]
    assert catalog.table_names(("city",)) == TABLES
    assert catalog.table_names(("default",)) == catalog.table_names(("missing",)) == []
    tables = {name: HudiTable.open(f"{uri}/city.{name}") for name in catalog.table_names(("city",))}
    for database in ("city", "missing"):
        with pytest.raises(TableNotFoundError, match="has no Hudi table"):
            HudiTable.open(f"{uri}/{database}.missing")
    assert tables["trips_ro"].query_type is QueryType.READ_OPTIMIZED
    assert rows_of(tables["trips_ro"].query()) == rows_of(by_path.read_optimized())
    for name in ("trips", "trips_rt"):
        assert rows_of(tables[name].query()) == rows_of(by_path.snapshot())


@pytest.mark.usefixtures("ticket")
@pytest.mark.parametrize("protection", PROTECTIONS)
def test_a_login_by_kerberos(uris: list[str], protection: str) -> None:
    # The host of the URI is an address, for which there is no principal.
    parameters = f"kerberos-principal={PRINCIPAL}"
    uri = uris[1 + PROTECTIONS.index(protection)]
    catalog, namespace = open_namespace(f"{uri}/city?{parameters}")
    assert catalog.table_names(namespace) == TABLES
    assert rows_of(HudiTable.open(f"{uri}/city.trips?{parameters}").query()) == rows_of(
        HudiTable.open(golden_trips() / "trips").snapshot()
    )
    assert open_catalog(f"{uri.replace('127.0.0.1', HOST)}?kerberos=true").table_names(("city",)) == TABLES
    assert (
        open_catalog(f"{uri.replace('127.0.0.1', HOST)}?kerberos-principal=hive/_HOST@{REALM}").table_names(("city",))
        == TABLES
    )


@pytest.mark.usefixtures("ticket")
def test_a_login_through_tls(uris: list[str], tls: Tls) -> None:
    parameters = f"kerberos-principal={PRINCIPAL}&tls=true"
    assert open_catalog(f"{uris[-1]}?{parameters}&ca-file={tls.certificate}").table_names(("city",)) == TABLES
    with pytest.raises(StorageError, match="certificate verify failed: self-signed certificate"):
        open_catalog(f"{uris[-1]}?{parameters}").namespaces()


@pytest.mark.usefixtures("ticket")
def test_logins_that_fail(uris: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    host = uris[1].replace("127.0.0.1", HOST)
    with pytest.raises(StorageError, match=r"needs \?kerberos=true in the URI"):
        open_catalog(host).namespaces()
    with pytest.raises(StorageError, match=r"no Kerberos login: .*(?i:not found)"):
        open_catalog(f"{host}?kerberos-principal=other").namespaces()
    with pytest.raises(StorageError, match="list the databases"):
        open_catalog(f"{uris[0]}?kerberos-principal={PRINCIPAL}").namespaces()
    monkeypatch.setenv("KRB5CCNAME", "FILE:/nowhere")
    with pytest.raises(StorageError, match=r"no Kerberos login: .*FILE:/nowhere.*; run kinit"):
        open_catalog(f"{host}?kerberos=true").namespaces()
