"""Trino as a client that shows who it is, over HTTP and TLS, or that asks for scans that the service plans."""

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from trino.exceptions import TrinoQueryError

from hudi_bridge.service import access, gate
from hudi_bridge.service.access import Access, Reader
from hudi_bridge.service.server import IcebergService
from tests.integration.trino_catalogs import iceberg_properties
from tests.integration.trino_server import Trino, running_server
from tests.service.certificates import certificate, trust_store
from tests.service.iceberg_service import running, service_options
from tests.support.snippets import blocks_of
from tests.support.table_writer import TableWriter, at

SALES = Reader.of("sales", ["sales"])
EU = Reader.of("eu", ["sales.eu"])
ACCESS = Access(
    tokens={"of-sales": SALES},
    clients={"eu": ("secret: of eu", EU), "sales": ("of sales", SALES), "analytics": ("THE-SECRET", SALES)},
)
OAUTH2 = "iceberg.rest-catalog.oauth2."
PASSWORD = "open sesame"
NESTED = {"iceberg.rest-catalog.nested-namespace-enabled": "true"}
VISIBLE = "SELECT table_schema, table_name FROM {}.information_schema.tables WHERE table_schema LIKE 'sales%'"
READERS: Mapping[str, Mapping[str, str]] = {
    "a token": {"token": "of-sales"},
    "credentials": {"credential": "sales:of sales", "scope": "lake.read"},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables with an updated row in several namespaces."""
    root = tmp_path_factory.mktemp("lake") / "root"
    for location in ("trips", "sales/orders", "sales/eu/orders", "hr/pay"):
        table = TableWriter(folder=root / location).create()
        table.base_file(at(1), [{"id": "a", "ts": 1, "value": "old"}, {"id": "b", "ts": 1, "value": location}])
        table.commit(at(1))
        table.log_file(at(2), [table.data_block(at(2), [{"id": "a", "ts": 2, "value": f"new in {location}"}])])
        table.commit(at(2))
    return root


@pytest.fixture
def service(root: Path, tmp_path: Path) -> Iterator[IcebergService]:
    with running(service_options(tmp_path / "scratch", [root], access=ACCESS)) as service:
        yield service


def catalog(
    trino: Trino, service: IcebergService, shown: Mapping[str, str], **others: str
) -> AbstractContextManager[str]:
    """A catalog that shows a token or credentials to the service."""
    own = {f"{OAUTH2}{name}": value for name, value in shown.items()}
    if "credential" in shown:
        own[f"{OAUTH2}server-uri"] = f"{service.url}/v1/oauth/tokens"
    security = {"iceberg.rest-catalog.security": "OAUTH2"}
    return trino.catalog("guarded", "iceberg", iceberg_properties(service.url, **security, **own, **others))


@pytest.mark.parametrize("shown", READERS.values(), ids=READERS)
def test_a_reader_sees_what_it_may_read(trino: Trino, service: IcebergService, shown: Mapping[str, str]) -> None:
    with catalog(trino, service, shown, **NESTED) as name:
        schemas = {schema for (schema,) in trino.query(f"SHOW SCHEMAS FROM {name}")}
        assert schemas - {"information_schema", "system"} == {"sales", "sales.eu"}
        assert trino.query(f"SHOW TABLES FROM {name}.sales") == [["orders"]]
        rows = f"SELECT id, value FROM {name}.{{}}.orders ORDER BY id"
        assert trino.query(rows.format("sales")) == [["a", "new in sales/orders"], ["b", "sales/orders"]]
        assert trino.query(rows.format('"sales.eu"')) == [["a", "new in sales/eu/orders"], ["b", "sales/eu/orders"]]
        assert sorted(trino.query(VISIBLE.format(name))) == [["sales", "orders"], ["sales.eu", "orders"]]


def test_what_a_reader_may_not_read_is_like_what_is_not_there(trino: Trino, service: IcebergService) -> None:
    with catalog(trino, service, {"credential": "eu:secret: of eu"}, **NESTED) as name:
        assert trino.query(f'SELECT count(*) FROM {name}."sales.eu".orders') == [[2]]
        assert trino.query(f"SHOW TABLES FROM {name}.sales") == []
        assert trino.query(VISIBLE.format(name)) == [["sales.eu", "orders"]]
        for query in ("SHOW TABLES FROM {}.hr", "SELECT * FROM {}.hr.pay", "SELECT * FROM {}.hr.nothing"):
            with pytest.raises(TrinoQueryError, match="Schema 'hr' does not exist"):
                trino.query(query.format(name))
        for table in ("orders", "nothing"):
            with pytest.raises(TrinoQueryError, match=rf"Table '{name}\.sales\.{table}' does not exist"):
                trino.query(f"SELECT * FROM {name}.sales.{table}")


def test_the_settings_of_the_guide(trino: Trino, service: IcebergService) -> None:
    ((block,),) = blocks_of("tests/integration/test_trino_access.py").values()
    written = block.text.replace("https://lake.example.com", service.url).splitlines()
    properties = iceberg_properties(service.url, **dict(line.split("=", 1) for line in written))
    with trino.catalog("guide_of_access", "iceberg", properties) as name:
        assert trino.query(f"SELECT count(*) FROM {name}.sales.orders") == [[2]]


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        ({"token": "of-nobody"}, "Not authorized: a bearer token is needed"),
        ({"credential": "eu:guessed"}, "Not authorized: invalid_client: there is no client with this id and secret"),
    ],
)
def test_who_is_not_known_sees_nothing(
    trino: Trino, service: IcebergService, shown: Mapping[str, str], message: str
) -> None:
    with catalog(trino, service, shown) as name:
        for query in (f"SHOW SCHEMAS FROM {name}", f"SELECT * FROM {name}.sales.orders"):
            with pytest.raises(TrinoQueryError, match=message):
                trino.query(query)


def test_queries_go_on_when_tokens_have_expired(
    trino: Trino, service: IcebergService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (access, gate):
        monkeypatch.setattr(module, "TOKEN_SECONDS", 1)
    with catalog(trino, service, {"credential": "sales:of sales"}) as name:
        query = f"SELECT count(*) FROM {name}.sales.orders"
        assert trino.query(query) == [[2]]
        time.sleep(2.1)
        assert trino.query(query) == [[2]]


def test_a_catalog_whose_scans_the_service_plans_is_as_any_other(trino: Trino, root: Path, tmp_path: Path) -> None:
    """Trino 476 cannot let a service plan its scans: it has to get tables whose slices are merged."""
    with (
        running(service_options(tmp_path / "scratch", [root])) as service,
        trino.catalog(
            "planned", "iceberg", iceberg_properties(service.url, **{"iceberg.rest-catalog.warehouse": "planned"})
        ) as name,
    ):
        rows = trino.query(f"SELECT id, value FROM {name}.sales.orders ORDER BY id")
        assert rows == [["a", "new in sales/orders"], ["b", "sales/orders"]]
        assert trino.query(f'SELECT count(*) FROM {name}.sales."orders$files"') == [[3]]
        assert trino.query(f"SELECT count(*) FROM {name}.sales.orders__ro") == [[2]]


@pytest.mark.jvm
def test_trino_trusts_a_certificate_in_a_trust_store(root: Path, tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    store = trust_store(tls, tmp_path, PASSWORD)
    options = service_options(tmp_path / "scratch", [root], access=ACCESS, tls=tls)
    # A trust store is that of the whole server.
    trusting = (f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}")
    with running(options, tls.certificate) as service, running_server(tmp_path / "trino", jvm=trusting) as trino:
        assert service.url.startswith("https://")
        with catalog(trino, service, {"credential": "sales:of sales"}) as name:
            rows = trino.query(f"SELECT value FROM {name}.sales.orders WHERE id = 'a'")
            assert rows == [["new in sales/orders"]]


def test_trino_does_not_talk_to_whom_it_does_not_trust(trino: Trino, root: Path, tmp_path: Path) -> None:
    tls = certificate(tmp_path)
    options = service_options(tmp_path / "scratch", [root], access=ACCESS, tls=tls)
    with (
        running(options, tls.certificate) as service,
        catalog(trino, service, {"credential": "sales:of sales"}) as name,
        pytest.raises(TrinoQueryError, match="Error occurred while processing POST request"),
    ):
        trino.query(f"SELECT * FROM {name}.sales.orders")
    answered = [line for line in service.counters.prometheus().splitlines() if "requests_total{" in line]
    assert all('operation="health"' in line for line in answered)
