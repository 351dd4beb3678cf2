"""Who may read: tokens with rights, client credentials, tokens of an issuer, TLS, rates, and the access log."""

import base64
import json
import logging
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, OAuthError, UnauthorizedError

from hudi_bridge.errors import QueryError
from hudi_bridge.service import access as access_module
from hudi_bridge.service import gate, oidc
from hudi_bridge.service.access import Access, IssuerUnavailableError, Reader, TokenRefusedError
from hudi_bridge.service.config import access_of
from hudi_bridge.service.gate import RateLimit
from hudi_bridge.service.oidc import OidcIssuer
from hudi_bridge.service.server import IcebergService
from tests.service.certificates import certificate
from tests.service.iceberg_service import client, rows, running, service_options, wait_for_line
from tests.service.oidc_issuer import AUDIENCE, LoopbackIssuer, running_issuer
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at
from tests.support.waiting import wait_for

SALES = Reader.of("sales", ["sales"])
EU = Reader.of("eu", ["sales.eu"])
ALL = Reader.of("all", ["*"])
ACCESS = Access(
    tokens={"of-sales": SALES, "of-eu": EU, "of-all": ALL},
    clients={"eu": ("secret of eu", EU), "all": ("secret:with:colons", ALL)},
)
HIDDEN = (
    "namespaces/hr",
    "namespaces/hr/tables",
    "namespaces/hr/tables/pay",
    "namespaces/hr/tables/nothing",
    "namespaces/hr/views",
    "namespaces?parent=hr",
    "namespaces/default/tables/trips",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("lake") / "root"
    for location in ("trips", "sales/orders", "sales/eu/orders", "hr/pay"):
        table = TableWriter(folder=root / location).create()
        table.base_file(at(1), [{"id": "a", "ts": 1, "value": location}])
        table.commit(at(1))
    return root


@pytest.fixture
def service(root: Path, tmp_path: Path) -> Iterator[IcebergService]:
    with running(service_options(tmp_path / "scratch", [root], access=ACCESS)) as service:
        yield service


def asked(
    service: IcebergService, path: str, token: str | None, body: bytes | None = None, **headers: str
) -> tuple[int, Any]:
    """Status and content of an answer below ``/v1``."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{service.url}/v1/{path}", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.status or 0, json.loads(error.read())


def connection_to(service: IcebergService) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(service.url.rpartition(":")[2])), timeout=20)


def test_readers_see_what_they_may_read(service: IcebergService) -> None:
    catalog = client(service, token="of-sales")
    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_namespaces(("sales",)) == [("sales", "eu")]
    assert catalog.list_tables("sales") == [("sales", "orders")]
    assert rows(catalog.load_table(("sales", "eu", "orders"))).num_rows == 1
    narrow = client(service, token="of-eu", warehouse="planned")
    assert narrow.list_namespaces() == [("sales",)]
    assert narrow.list_tables("sales") == []
    assert rows(narrow.load_table(("sales", "eu", "orders"))).num_rows == 1
    for hidden in (("sales", "orders"), ("hr", "pay"), ("default", "trips")):
        assert not narrow.table_exists(hidden)
        with pytest.raises(NoSuchTableError):
            narrow.load_table(hidden)
    with pytest.raises(NoSuchNamespaceError):
        narrow.list_tables("hr")
    everything = client(service, token="of-all")
    assert everything.list_namespaces() == [("default",), ("hr",), ("sales",)]
    assert everything.table_exists(("hr", "pay"))


@pytest.mark.parametrize("path", one_in(2, HIDDEN))
@pytest.mark.parametrize("prefix", ["", "planned/"])
def test_what_a_reader_may_not_see_is_like_what_is_not_there(service: IcebergService, path: str, prefix: str) -> None:
    hidden = asked(service, prefix + path, "of-eu")
    absent = asked(service, prefix + path.replace("hr", "rh").replace("default", "defaults"), "of-eu")
    assert hidden[0] == 404
    assert json.dumps(hidden).replace("hr", "rh") == json.dumps(absent)


@pytest.mark.parametrize("path", ["plan", "tasks"])
def test_scans_of_hidden_tables_are_not_planned(service: IcebergService, path: str) -> None:
    body = b'{"plan-task": "x"}'
    status, answer = asked(service, f"planned/namespaces/hr/tables/pay/{path}", "of-eu", body)
    assert (status, answer["error"]["type"]) == (404, "NoSuchTableException")
    assert asked(service, f"planned/namespaces/hr/tables/pay/{path}", None, body)[0] == 401


def test_metrics_are_for_readers_of_everything(service: IcebergService) -> None:
    for token, status in (("of-eu", 403), ("of-all", 200), ("other", 401)):
        request = urllib.request.Request(f"{service.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        if status == 200:
            with urllib.request.urlopen(request) as response:
                assert response.status == status
            continue
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value as error:
            assert error.status == status


def test_clients_get_tokens_for_their_credentials(service: IcebergService, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"oauth2-server-uri": f"{service.url}/v1/oauth/tokens"}
    for credential, name in (("eu:secret of eu", ("sales", "eu", "orders")), ("all:secret:with:colons", ("hr", "pay"))):
        assert client(service, credential=credential, **where).table_exists(name)
    for wrong in ("eu:secret", "sales:of-sales", "nobody:", "eu:"):
        with pytest.raises((OAuthError, UnauthorizedError)):
            client(service, credential=wrong, **where)
    monkeypatch.setattr(access_module, "TOKEN_SECONDS", -1)
    body = b"grant_type=client_credentials&client_id=eu&client_secret=secret+of+eu"
    status, issued = asked(service, "oauth/tokens", None, body)
    assert (status, issued["token_type"]) == (200, "bearer")
    assert asked(service, "config", issued["access_token"])[0] == 401


def forwarded(service: IcebergService, claimed: bytes, token: bytes = b"of-nobody") -> int:
    """The status of an answer to a request whose header tells another address."""
    request = b"GET /v1/config HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
    with connection_to(service) as connection:
        connection.sendall(request + b"Authorization: Bearer %s\r\nX-Forwarded-For: %s\r\n\r\n" % (token, claimed))
        with connection.makefile("rb") as answer:
            return int(answer.read().split()[1])


def test_nobody_tells_the_address_of_a_client_unless_it_is_a_proxy_by_configuration(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = service_options(tmp_path / "scratch", [root], access=ACCESS, access_log=True)
    with caplog.at_level(logging.INFO), running(options) as service:
        statuses = {forwarded(service, b"10.0.0.%d" % number) for number in range(30)}
        assert statuses == {401, 429}
        assert "10.0.0." not in caplog.text
    with caplog.at_level(logging.INFO), running(replace(options, proxies=("127.0.0.0/8",))) as service:
        assert {forwarded(service, b"10.0.0.%d" % number) for number in range(30)} == {401}
        forged = b"\x1b[2J 192.0.2.1 'operations' GET '/v1/namespaces/hr' 200 3 ms"
        assert forwarded(service, forged, b"of-all") == 200
        wait_for_line("10.0.0.29 '-' GET '/v1/config' 401", caplog)
        wait_for_line("- 'all' GET '/v1/config' 200", caplog)
    assert "192.0.2.1" not in caplog.text
    assert "\x1b" not in caplog.text


def test_a_proxy_is_an_address(root: Path, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"--proxy.*'lake.example.com'"):
        service_options(tmp_path, [root], proxies=("10.0.0.0/8", "lake.example.com")).validate()


def test_tokens_are_asked_for_as_oauth_has_it(service: IcebergService) -> None:
    basic = {"Authorization": "Basic ZXU6c2VjcmV0IG9mIGV1"}
    status, issued = asked(service, "oauth/tokens", None, b"grant_type=client_credentials", **basic)
    assert status == 200
    token = issued["access_token"]
    assert asked(service, "namespaces", token) == (200, {"namespaces": [["sales"]]})
    exchange = "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token="
    status, issued = asked(service, "oauth/tokens", None, (exchange + token).encode())
    assert status == 200
    assert asked(service, "namespaces", issued["access_token"])[0] == 200
    for body, status, kind in (
        (exchange.encode(), 400, "invalid_grant"),
        ((exchange + "of-eu").encode(), 400, "invalid_grant"),
        (b"grant_type=password", 400, "unsupported_grant_type"),
        (b"\xff=%ff", 400, "invalid_request"),
        (b"a=b&" * 50, 400, "invalid_request"),
        (b"x" * 100_000, 400, "invalid_request"),
        (b"grant_type=client_credentials&client_id=eu&client_secret=", 401, "invalid_client"),
    ):
        actual, answer = asked(service, "oauth/tokens", None, body)
        assert (actual, answer["error"]) == (status, kind), body
    name, expires, signature = token.split("~")
    forgeries = [f"{name}~{int(expires) + 1}~{signature}", f"YWxs~{expires}~{signature}", "~~", "é~1~2", "%~1~a"]
    # A header may have bytes that are not UTF-8.
    for forged in (*forgeries, f"{name}~1\udcff~0", f"{name}~1~\udcff"):
        assert ACCESS.own_reader_of(forged) is None


def test_clients_without_a_token_cannot_hold_a_connection_by_half_a_body(
    service: IcebergService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gate, "REQUEST_TIMEOUT_SECONDS", 0.1)
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.05)
    with caplog.at_level(logging.INFO), connection_to(service) as connection:
        connection.sendall(b"POST /v1/oauth/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\ngrant_type=")
        with suppress(ConnectionResetError):
            assert connection.recv(1) == b""
        wait_for_line("400 for POST: invalid_request", caplog)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("header", "size"), [(b"", 1 << 20), (b"Expect: 100-continue\r\n", 10)], ids=["long", "asks first"]
)
def test_connections_stay_open_while_the_service_does_not_take_the_body(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: bytes, size: int
) -> None:
    class SlowIssuer:
        def keys_coming(self, _: str) -> None:
            return None

        def reader_of(self, token: str) -> Reader:
            time.sleep(1.0)
            return Reader(name=token)

    monkeypatch.setattr(gate, "REQUEST_TIMEOUT_SECONDS", 0.4)
    monkeypatch.setattr(gate, "_POLL_SECONDS", 0.05)
    path = b"/v1/planned/namespaces/sales/tables/orders/tasks"
    with (
        running(service_options(tmp_path / "scratch", [root], access=Access(issuer=SlowIssuer()))) as service,
        connection_to(service) as connection,
    ):
        head = b"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\n%sContent-Length: %d\r\n\r\n"
        connection.sendall(head % (path, header, size))
        if header:
            assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"x" * size)
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_a_client_may_renew_its_expired_token_with_its_secret(
    service: IcebergService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr(access_module, "TOKEN_SECONDS", -1)
        expired = ACCESS.issue("eu", "secret of eu")
    exchange = f"grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={expired}".encode()
    assert asked(service, "oauth/tokens", None, exchange)[0] == 400
    status, issued = asked(service, "oauth/tokens", None, exchange, Authorization="Basic ZXU6c2VjcmV0IG9mIGV1")
    assert (status, asked(service, "namespaces", issued["access_token"])[0]) == (200, 200)
    of_all = base64.b64encode(b"all:secret:with:colons").decode()
    with caplog.at_level(logging.INFO):
        # Whoever it is, a token of somebody else is not renewed.
        status, refused = asked(service, "oauth/tokens", None, exchange, Authorization=f"Basic {of_all}")
        wait_for_line("invalid_grant: a token that was not issued here, or has expired", caplog)
    assert (status, refused["error"]) == (400, "invalid_grant")


def test_a_wrong_secret_is_told_in_the_log_with_the_name_of_the_client(
    service: IcebergService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        asked(service, "oauth/tokens", None, b"grant_type=client_credentials&client_id=eu&client_secret=guessed")
        wait_for_line("invalid_client: no client 'eu' with this secret", caplog)
    assert "guessed" not in caplog.text


@pytest.fixture(scope="module")
def issuer() -> Iterator[LoopbackIssuer]:
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def by_issuer(issuer: LoopbackIssuer, root: Path, tmp_path: Path) -> Iterator[IcebergService]:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE, scopes=("lake",), namespaces_claim=None, keys_url=None)
    access = Access(tokens={"of-eu": EU}, issuer=checked)
    with running(service_options(tmp_path / "scratch", [root], access=access)) as service:
        yield service


def test_tokens_of_the_issuer_are_taken(issuer: LoopbackIssuer, by_issuer: IcebergService) -> None:
    assert client(by_issuer, token=issuer.token()).table_exists(("hr", "pay"))
    assert client(by_issuer, token="of-eu").table_exists(("sales", "eu", "orders"))
    fetched = client(by_issuer, credential="id:secret", **{"oauth2-server-uri": f"{issuer.url}/token"})
    assert fetched.table_exists(("hr", "pay"))
    assert asked(by_issuer, "config", issuer.token(aud=["other", AUDIENCE], scope=None, scp=["lake"]))[0] == 200


def test_a_subject_of_the_issuer_does_not_use_up_what_a_configured_reader_of_its_name_may_ask(
    issuer: LoopbackIssuer, root: Path, tmp_path: Path
) -> None:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE, scopes=("lake",), namespaces_claim=None, keys_url=None)
    access = Access(tokens={"of-eu": Reader(name="someone")}, issuer=checked)
    options = service_options(tmp_path / "scratch", [root], access=access, requests_per_second=0.01)
    with running(options) as service:
        assert [asked(service, "config", issuer.token())[0] for _ in range(2)] == [200, 429]
        assert asked(service, "config", "of-eu")[0] == 200


def test_other_tokens_are_refused(issuer: LoopbackIssuer, by_issuer: IcebergService) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    claims = jwt.decode(issuer.token(), options={"verify_signature": False})
    forged = jwt.encode(claims, other, algorithm="RS256", headers={"kid": "first"})
    symmetric = jwt.encode(claims, "x" * 64, algorithm="HS256", headers={"kid": "first"})
    unsigned = jwt.encode(claims, "", algorithm="none", headers={"kid": "first"})
    refused = [
        issuer.token(exp=1),
        issuer.token(exp=None),
        issuer.token(aud="other"),
        issuer.token(aud=None),
        issuer.token(iss="http://127.0.0.1:1"),
        issuer.token(nbf=10**10),
        forged,
        symmetric,
        unsigned,
        "a.b.c",
        "",
    ]
    for token in refused:
        assert asked(by_issuer, "config", token)[0] == 401, token
    for scope in (None, "", "lakes", ["read"]):
        status, answer = asked(by_issuer, "config", issuer.token(scope=scope))
        assert (status, answer["error"]["type"]) == (403, "ForbiddenException")


def test_the_issuer_is_asked_again_for_new_keys_but_not_by_everybody(
    issuer: LoopbackIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE)
    assert checked.reader_of(issuer.token()).name == "someone"
    issuer.new_key("second")
    assert checked.reader_of(issuer.token()).may_read(("hr",))
    before = len(issuer.asked)
    unknown = jwt.encode({"aud": AUDIENCE}, issuer.keys["first"], algorithm="RS256", headers={"kid": "no"})
    for _ in range(5):
        with pytest.raises(TokenRefusedError, match="does not have"):
            checked.reader_of(unknown)
    assert len(issuer.asked) == before
    monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
    with pytest.raises(TokenRefusedError):
        checked.reader_of(unknown)
    assert len(issuer.asked) == before + 1


def test_a_claim_names_the_namespaces_that_may_be_read(issuer: LoopbackIssuer) -> None:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE, namespaces_claim="lake", keys_url=f"{issuer.url}/keys")
    reader = checked.reader_of(issuer.token(lake=["sales.eu"]))
    assert reader.may_read(("sales", "eu", "north"))
    assert reader.may_see(("sales",))
    assert not reader.may_read(("sales",))
    nothing: tuple[Any, ...] = (None, 7, {}, [])
    for claim in nothing:
        assert not checked.reader_of(issuer.token(lake=claim)).may_see(("sales",))


def test_an_issuer_that_cannot_be_reached_is_a_matter_of_trying_again(
    issuer: LoopbackIssuer, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = Access(issuer=OidcIssuer(url=issuer.url, audience=AUDIENCE))
    with running(service_options(tmp_path / "scratch", [root], access=access)) as service:
        monkeypatch.setattr(issuer, "up", False)
        status, answer = asked(service, "config", issuer.token())
        assert (status, answer["error"]["type"]) == (503, "ServiceUnavailableException")
        assert issuer.url not in answer["error"]["message"]
        monkeypatch.setattr(issuer, "up", True)
        before = len(issuer.asked)
        assert asked(service, "config", issuer.token())[0] == 503
        assert len(issuer.asked) == before
        monkeypatch.setattr(oidc, "_REFRESH_SECONDS", 0.0)
        assert asked(service, "config", issuer.token())[0] == 200


def test_readers_do_not_wait_for_an_issuer_that_does_not_answer(
    issuer: LoopbackIssuer, by_issuer: IcebergService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(issuer, "up", False)
    before = len(issuer.asked)
    issuer.may_answer.clear()
    statuses: list[int] = []
    # More than there are threads for requests.
    waiting = [Thread(target=lambda: statuses.append(asked(by_issuer, "config", issuer.token())[0])) for _ in range(60)]
    for thread in waiting:
        thread.start()
    wait_for(lambda: len(issuer.asked) > before)
    time.sleep(0.5)
    assert asked(by_issuer, "config", "of-eu")[0] == 200
    assert statuses == []
    issuer.may_answer.set()
    for thread in waiting:
        thread.join()
    assert statuses == [503] * len(waiting)
    assert len(issuer.asked) == before + 1


def test_known_keys_are_used_while_the_issuer_does_not_answer(
    issuer: LoopbackIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE)
    assert checked.reader_of(issuer.token()).name == "someone"
    unknown = jwt.encode({"aud": AUDIENCE}, issuer.keys["first"], algorithm="RS256", headers={"kid": "no"})
    monkeypatch.setattr(issuer, "up", False)
    issuer.may_answer.clear()
    coming = checked.keys_coming(unknown)
    assert coming is not None
    assert checked.keys_coming(unknown) is coming
    assert checked.reader_of(issuer.token()).name == "someone"
    issuer.may_answer.set()
    coming.result()
    with pytest.raises(IssuerUnavailableError):
        checked.reader_of(unknown)
    assert checked.reader_of(issuer.token()).name == "someone"


def test_keys_that_are_too_old_are_not_used(issuer: LoopbackIssuer, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE)
    assert checked.reader_of(issuer.token()).name == "someone"
    monkeypatch.setattr(oidc, "_KEYS_SECONDS", 0)
    monkeypatch.setattr(issuer, "up", False)
    with pytest.raises(IssuerUnavailableError):
        checked.reader_of(issuer.token())


@pytest.mark.parametrize("answer", ["no keys", {"keys": []}, {"keys": [1]}, ["keys"]])
def test_an_answer_without_keys_is_that_of_an_issuer_that_is_not_available(
    issuer: LoopbackIssuer, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    monkeypatch.setattr(issuer, "answer", lambda _: answer)
    checked = OidcIssuer(url=issuer.url, audience=AUDIENCE, keys_url=f"{issuer.url}/keys")
    with pytest.raises(IssuerUnavailableError):
        checked.reader_of(issuer.token())


@pytest.mark.parametrize("address", ["http://example.org/", "file:///etc/passwd", "ftp://localhost/"])
def test_issuers_whose_keys_could_be_changed_on_the_way_are_refused(address: str) -> None:
    with pytest.raises(QueryError, match="https://"):
        OidcIssuer(url=address, audience=AUDIENCE)
    with pytest.raises(QueryError, match="https://"):
        OidcIssuer(url="https://example.org/", audience=AUDIENCE, keys_url=address)


@pytest.mark.parametrize(
    "document",
    [
        {"reader": {"name": "x"}},
        {"reader": ["x"]},
        {"reader": [{"name": "x"}]},
        {"reader": [{"token-file": "{token}"}]},
        {"reader": [{"name": "x", "token-file": "/nowhere"}]},
        {"reader": [{"name": "x", "token-file": "{token}", "namespaces": "sales"}]},
        {"reader": [{"name": "x", "token-file": "{token}", "namespaces": [1]}]},
        {"reader": [{"name": "x", "token-file": "{token}"}, {"name": "y", "token-file": "{token}"}]},
        {"reader": [{"name": "x", "client-secret-file": "{token}"}] * 2},
        {"reader": [{"name": "x", "token": "open"}]},
        {"oidc": {"issuer": "https://example.org/"}},
        {"oidc": {"issuer": "https://example.org/", "audience": "x", "scopes": [1]}},
        {"oidc": []},
    ],
)
def test_readers_that_are_not_understood_are_refused(document: dict[str, Any], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("open sesame")
    complete = json.loads(json.dumps(document).replace("{token}", str(token)))
    with pytest.raises(QueryError):
        access_of(complete)


def test_readers_are_read_from_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("open sesame\n")
    secret = str(tmp_path / "token")
    access = access_of(
        {
            "reader": [{"name": "eu", "token-file": secret, "client-secret-file": secret, "namespaces": ["sales.eu"]}],
            "oidc": {"issuer": "https://example.org/", "audience": "x", "scopes": ["a"], "jwks": "https://e.org/keys"},
        }
    )
    assert access is not None
    assert access.own_reader_of("open sesame") == EU
    assert access.own_reader_of(access.issue("eu", "open sesame") or "") == EU
    assert isinstance(access.issuer, OidcIssuer)
    assert access_of({}) is None


def test_each_reader_has_a_rate_of_its_own(root: Path, tmp_path: Path) -> None:
    options = service_options(tmp_path / "scratch", [root], access=ACCESS, requests_per_second=0.01)
    with running(options) as service:
        assert [asked(service, "config", "of-eu")[0] for _ in range(3)] == [200, 429, 429]
        assert asked(service, "config", "of-all")[0] == 200
        refusals = [asked(service, "config", "wrong")[0] for _ in range(25)]
        assert (refusals[0], refusals[-1]) == (401, 429)
        assert asked(service, "config", "of-sales")[0] == 200
        with urllib.request.urlopen(f"{service.url}/health") as response:
            assert response.status == 200


def test_rates_recover() -> None:
    limit = RateLimit(1000.0, 2.0)
    assert limit.take("a")
    while limit.take("b"):
        pass
    assert limit.take("a")


def test_the_access_log_says_who_has_asked_for_what(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO, "hudi_bridge.access"),
        running(service_options(tmp_path / "scratch", [root], access=ACCESS, access_log=True)) as service,
    ):
        asked(service, "namespaces", "of-eu")
        asked(service, "namespaces/%0A127.0.0.1", "wrong")
        wait_for_line(" 401 ", caplog)
        wait_for_line(" 200 ", caplog)
    lines = [record.getMessage() for record in caplog.records if record.name == "hudi_bridge.access"]
    assert any(line.startswith("127.0.0.1 'eu' GET '/v1/namespaces' 200 ") for line in lines)
    assert any(line.startswith("127.0.0.1 '-' GET '/v1/namespaces/\\n127.0.0.1' 401 ") for line in lines)
    assert not any("wrong" in line or "of-eu" in line for line in lines)


def test_tls_by_files_of_a_certificate(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tls = certificate(tmp_path)
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    trusting = ssl.create_default_context(cafile=str(tls.certificate))
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusting))
    monkeypatch.setattr(urllib.request, "urlopen", opener.open)
    with running(service_options(tmp_path / "scratch", [root], access=ACCESS, tls=tls)) as service:
        assert service.url.startswith("https://127.0.0.1:")
        assert asked(service, "namespaces", "of-eu") == (200, {"namespaces": [["sales"]]})
        catalog = client(service, token="of-eu", ssl={"cabundle": str(tls.certificate)})  # type: ignore[arg-type]
        assert catalog.table_exists(("sales", "eu", "orders"))
        # The service would wait for half a minute for the client to end its connection.
        catalog._session.close()
    tls.key.write_text("no key")
    with pytest.raises(QueryError, match="TLS"):
        IcebergService(service_options(tmp_path / "scratch", [root], access=ACCESS, tls=tls))
