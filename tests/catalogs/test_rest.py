"""Tables by their names among the generic tables of a REST catalog, such as Polaris."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from hudi_bridge import HudiTable
from hudi_bridge.catalogs.uris import open_catalog, uri_in_catalog
from hudi_bridge.errors import StorageError, TableNotFoundError
from tests.catalogs.rows import rows_of
from tests.golden_cases import golden_trips

TOKEN = "a-token"
TABLES = "polaris/v1/prod/namespaces"


class Polaris(ThreadingHTTPServer):
    """A catalog with the answers of Polaris to ``answers`` by path."""

    def __init__(self, location: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
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
        return f"rest:http://127.0.0.1:{self.server_port}/api/catalog?warehouse=prod"


class _Handler(BaseHTTPRequestHandler):
    server: Polaris

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items() if name != "warehouse"}
        asked = unquote(parts.path.removeprefix("/api/catalog/"))
        asked += "".join(f"?{name}={value}" for name, value in query.items())
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            status, answer = 401, _error("NotAuthorizedException", 401)
        elif asked in self.server.answers:
            status, answer = 200, self.server.answers[asked]
        else:
            status, answer = 404, _error("NoSuchNamespaceException", 404)
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
