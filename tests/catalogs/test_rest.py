"""Tables by their names among the generic tables of a REST catalog, such as Polaris."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.uris import open_catalog, uri_in_catalog
from hudi_bridge.errors import StorageError, TableNotFoundError
from tests.catalogs.rows import rows_of
from tests.support.golden_cases import golden_trips
from tests.support.strength import one_in

pytestmark = pytest.mark.extra  # the catalog is reached through pyiceberg

TOKEN = "a-token"
TABLES = "polaris/v1/prod/namespaces"


class Polaris(ThreadingHTTPServer):
    """A catalog with the answers of Polaris to ``answers`` by path.

    It takes ``token`` alone, and refuses others with ``refusal``, a status of HTTP; each token that it gives is a new
    one. To paths that begin with ``silent_at`` it does not answer.
    """

    def __init__(self, location: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.token = TOKEN
        self.tokens_given = 0
        self.refusal = 401
        self.silent_at: str | None = None
        self.is_over = Event()
        names = [{"namespace": ["sales", "eu"], "name": name} for name in ("orders", "delta", "folderless")]
        tables = f"{TABLES}/sales\x1feu/generic-tables"
        self.answers: dict[str, Any] = {
            "v1/config": {"defaults": {}, "overrides": {"prefix": "prod"}},
            "v1/prod/namespaces": {"namespaces": [["sales"]]},
            "v1/prod/namespaces?parent=sales": {"namespaces": [["sales", "eu"]]},
            tables: {"identifiers": names[:2], "next-page-token": "2"},
            f"{tables}?pageToken=2": {"identifiers": names[2:]},
            f"{tables}/orders": _table("orders", "hudi", f"file:{location}"),
            f"{tables}/delta": _table("delta", "delta", f"file:{location}"),
            f"{tables}/folderless": _table("folderless", "hudi", None),
        }

    @property
    def uri(self) -> str:
        url = f"http://127.0.0.1:{self.server_port}/api/catalog"
        return f"rest:{url}?warehouse=prod&oauth2-server-uri={url}/v1/oauth/tokens"


class _Handler(BaseHTTPRequestHandler):
    server: Polaris

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items() if name != "warehouse"}
        asked = unquote(parts.path.removeprefix("/api/catalog/"))
        asked += "".join(f"?{name}={value}" for name, value in query.items())
        if self.is_silent(asked):
            return
        if self.headers["Authorization"] != f"Bearer {self.server.token}":
            status, answer = self.server.refusal, _error("NotAuthorizedException", self.server.refusal)
        elif asked in self.server.answers:
            status, answer = 200, self.server.answers[asked]
        else:
            status, answer = 404, _error("NoSuchNamespaceException", 404)
        self.send(status, answer)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.is_silent(self.path.removeprefix("/api/catalog/")):
            return
        self.server.tokens_given += 1
        self.server.token = f"token {self.server.tokens_given}"
        self.send(200, {"access_token": self.server.token, "token_type": "bearer", "expires_in": 3600})

    def is_silent(self, path: str) -> bool:
        """Whether there is no answer; if so, waits until the server ends."""
        return (
            self.server.silent_at is not None and path.startswith(self.server.silent_at) and self.server.is_over.wait()
        )

    def send(self, status: int, answer: Any) -> None:
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base class calls it
        """Tests print nothing."""


def _table(name: str, kind: str, location: str | None) -> dict[str, Any]:
    return {"table": {"name": name, "format": kind, "base-location": location, "properties": {}}}


def _error(kind: str, code: int) -> dict[str, Any]:
    return {"error": {"message": "refused", "type": kind, "code": code}}


@pytest.fixture
def polaris(monkeypatch: pytest.MonkeyPatch) -> Iterator[Polaris]:
    monkeypatch.setenv("HUDI_BRIDGE_CATALOG_TOKEN", TOKEN)
    server = Polaris(golden_trips() / "trips")
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.is_over.set()
    server.shutdown()
    server.server_close()


def test_namespaces_and_the_tables_of_hudi_are_listed(polaris: Polaris) -> None:
    catalog = open_catalog(polaris.uri)
    assert catalog.namespaces() == [("sales",)]
    assert catalog.namespaces(("sales",)) == [("sales", "eu")]
    assert catalog.namespaces(("missing",)) == []
    assert catalog.table_names(("sales", "eu")) == ["orders"]
    assert catalog.table_names(("missing",)) == []


def test_a_table_is_opened_by_its_name(polaris: Polaris) -> None:
    table = HudiTable.open(uri_in_catalog(polaris.uri, "sales.eu.orders"))
    assert rows_of(table.query()) == rows_of(HudiTable.open(golden_trips() / "trips").snapshot())


@pytest.mark.parametrize("name", ["sales.eu.delta", "sales.eu.folderless", "sales.eu.missing", "sales.orders"])
def test_what_is_no_table_of_hudi_is_not_found(polaris: Polaris, name: str) -> None:
    with pytest.raises(TableNotFoundError, match="has no Hudi table"):
        HudiTable.open(uri_in_catalog(polaris.uri, name))


def test_without_a_right_the_catalog_refuses(polaris: Polaris, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_CATALOG_TOKEN", "another")
    with pytest.raises(StorageError, match="open the catalog") as caught:
        open_catalog(polaris.uri).namespaces()
    assert "another" not in str(caught.value)


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b'{"identifiers": 1}', b'{"identifiers": [1]}'])
def test_an_answer_of_another_form_is_an_error(polaris: Polaris, answer: bytes) -> None:
    polaris.answers[f"{TABLES}/sales\x1feu/generic-tables"] = answer
    with pytest.raises(StorageError, match=r"list the tables of 'sales\.eu'"):
        open_catalog(polaris.uri).table_names(("sales", "eu"))


@pytest.fixture
def by_credential(polaris: Polaris, monkeypatch: pytest.MonkeyPatch) -> Polaris:
    """The catalog, of which tokens are had for a client's id and secret."""
    monkeypatch.delenv("HUDI_BRIDGE_CATALOG_TOKEN")
    monkeypatch.setenv("HUDI_BRIDGE_CATALOG_CREDENTIAL", "id:secret")
    return polaris


@pytest.mark.parametrize("refusal", [401, 419])
def test_a_token_that_is_over_is_renewed(by_credential: Polaris, refusal: int) -> None:
    by_credential.refusal = refusal
    catalog = open_catalog(by_credential.uri)
    assert catalog.find(("sales", "eu"), "orders") is not None
    for call in (lambda: catalog.find(("sales", "eu"), "orders"), lambda: catalog.table_names(("sales", "eu"))):
        given, by_credential.token = by_credential.tokens_given, "a later one"
        assert call()
        assert by_credential.tokens_given == given + 1


def test_a_token_that_cannot_be_renewed_is_an_error(polaris: Polaris) -> None:
    catalog = open_catalog(polaris.uri)
    assert catalog.find(("sales", "eu"), "orders") is not None
    polaris.token = "a later one"
    with pytest.raises(StorageError, match=r"find the table sales\.eu\.orders"):
        catalog.find(("sales", "eu"), "orders")


@pytest.mark.parametrize("silent_at", one_in(3, ["v1/oauth/tokens", "v1/config", "v1/prod/namespaces"]))
def test_a_catalog_that_does_not_answer_is_an_error(
    by_credential: Polaris, silent_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "0.5")
    by_credential.silent_at = silent_at
    with pytest.raises(StorageError, match="timed out"):
        open_catalog(by_credential.uri).namespaces()


def test_a_catalog_that_does_not_answer_for_a_table_is_an_error(
    polaris: Polaris, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "0.5")
    catalog = open_catalog(polaris.uri)
    assert catalog.namespaces() == [("sales",)]
    polaris.silent_at = TABLES
    with pytest.raises(StorageError, match="timed out"):
        catalog.find(("sales", "eu"), "orders")
