"""Credentials for Google Cloud Storage: tokens that read a table and its scratch folder, and nothing else."""

import ast
import json
import logging
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyiceberg.exceptions import ServerError, ServiceUnavailableError

from hudi_bridge.cli.iceberg import LogFormat, LogLevel, log_to_standard_error
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.service import google_tokens
from hudi_bridge.service.config import vending_of
from hudi_bridge.service.credentials import CredentialsRefusedError, CredentialsUnavailableError
from hudi_bridge.service.google_tokens import GcsTokens, GoogleTokens, access_boundary, cel_text
from hudi_bridge.service.server import ServiceOptions
from hudi_bridge.storage.storage import Storage
from tests.connectors.iceberg.asking import (
    ACCESS,
    Serve,
    asked,
    asked_for_keys,
    changed,
    serving,
    written_tables,
)
from tests.service.google_store import GoogleStore, google_store
from tests.service.iceberg_service import client, rows, service_options, wait_for_line
from tests.support.compare import differences
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter

PLACES = ("gs://lake/t",)
NOBODY = {
    "header.X-Iceberg-Access-Delegation": "",
    "gcs.oauth2.token": "nobody's",
    "gcs.oauth2.token-expires-at": "4102444800000",
}
REFRESH = "gcs.oauth2.refresh-credentials-endpoint"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableWriter]:
    return written_tables(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def whole_store(tables: dict[str, TableWriter]) -> Iterator[GoogleStore]:
    with google_store() as store:
        for place, table in tables.items():
            store.upload(table.folder, f"lake/{place}")
        yield store


@pytest.fixture
def store(whole_store: GoogleStore) -> Iterator[GoogleStore]:
    """The store, whose faults and times are as usual after a test."""
    yield whole_store
    for path in ("/token", "/sts"):
        whole_store.services.fail(path, None)
    whole_store.services.hold_for(3600)


def rule(store: GoogleStore, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """A rule that fits, but for the changes; those to None leave something out."""
    usual = {
        "prefix": "gs://lake",
        "kind": "gcs",
        "endpoint": store.endpoint,
        "project-id": "lake",
        "service-account-file": str(store.key_file(tmp_path)),
        "sts-endpoint": f"{store.endpoint}/sts",
    }
    return changed(usual, changes)


@pytest.fixture
def serve(store: GoogleStore, tmp_path: Path) -> Iterator[Serve]:
    """Starts a service whose tables and scratch folder are in the store, with some rules for credentials."""

    def options(*rules: dict[str, Any]) -> ServiceOptions:
        return replace(
            service_options(tmp_path / "unused", [], [f"x={tmp_path}"], access=ACCESS, access_log=True),
            tables=Roots.of(["gs://lake"], [], store.options),
            scratch=Scratch(storage=Storage.open(f"gs://views/{tmp_path.name}", options=store.options)),
            vending=vending_of({"credentials": list(rules)}),
        )

    with serving(options) as serve:
        yield serve


def tokens(store: GoogleStore, tmp_path: Path, **changes: str) -> GcsTokens:
    return GcsTokens(GoogleTokens(store.key_file(tmp_path, **changes)), sts_endpoint=f"{store.endpoint}/sts")


def status_of(store: GoogleStore, token: str, method: str, path: str, query: str = "") -> int:
    """The status of an answer of the store, for an object or, if its name is empty, for a bucket's objects."""
    bucket, _, name = path.partition("/")
    position = f"{store.endpoint}/storage/v1/b/{bucket}/o{'/' if name else ''}{quote(name, safe='')}{query}"
    request = urllib.request.Request(position, method=method, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request) as answer:
            answer.read()
            return answer.status or 0
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("warehouse", one_in(2, [{}, {"warehouse": "planned"}]))
def test_a_client_reads_with_the_token_that_it_gets(
    serve: Serve, store: GoogleStore, tables: dict[str, TableWriter], tmp_path: Path, warehouse: dict[str, str]
) -> None:
    service = serve(rule(store, tmp_path))
    loaded = client(service, token="of-sales", **warehouse).load_table("sales.orders")
    assert loaded.metadata_location.startswith("gs://views/")
    assert differences(tables["sales/orders"].open().snapshot().to_table(), rows(loaded)) == []
    without = client(service, token="of-sales", **warehouse, **NOBODY, **{"gcs.service.host": store.endpoint})
    with pytest.raises(OSError, match="no token that holds"):
        rows(without.load_table("sales.orders"))


def test_a_token_opens_the_table_and_its_scratch_folder_for_reading_and_nothing_else(
    serve: Serve, store: GoogleStore, tmp_path: Path
) -> None:
    service = serve(rule(store, tmp_path))
    (of_sales,), (of_hr,) = (
        asked_for_keys(service, f"namespaces/{namespace}/tables/{table}")["storage-credentials"]
        for namespace, table in (("sales", "orders"), ("hr", "pay"))
    )
    assert of_sales["prefix"] == of_hr["prefix"] == "gs://"
    sales, hr = (item["config"]["gcs.oauth2.token"] for item in (of_sales, of_hr))
    files = {
        f"{bucket}/{name}"
        for bucket, name in store.services.objects()
        if not name.endswith("/") and (bucket == "lake" or name.startswith(tmp_path.name))
    }
    readable = {path for path in files if status_of(store, sales, "GET", path) == 200}
    assert readable == {path for path in files if "/orders" in path}
    assert {path.partition("/")[0] for path in readable} == {"lake", "views"}
    assert {path for path in files if status_of(store, hr, "GET", path) == 200} == {
        path for path in files if "/pay" in path
    }
    assert {status_of(store, sales, "DELETE", path) for path in readable} == {403}
    assert status_of(store, sales, "GET", "lake", "?prefix=sales/orders/") == 403
    rules = store.narrowed()[-2].boundary
    assert rules is not None
    assert [item["availableResource"].rpartition("/")[2] for item in rules] == ["lake", "views"]
    assert {tuple(item["availablePermissions"]) for item in rules} == {("inRole:roles/storage.legacyObjectReader",)}


def test_only_those_who_ask_get_tokens_and_they_know_when_they_end(
    serve: Serve, store: GoogleStore, tmp_path: Path
) -> None:
    service = serve(rule(store, tmp_path))
    before, table = len(store.narrowed()), "namespaces/sales/tables/orders"
    status, answer, _ = asked(service, table)
    assert (status, answer["config"], len(store.narrowed())) == (200, {}, before)
    status, answer, headers = asked(service, table, **{"X-Iceberg-Access-Delegation": "vended-credentials"})
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    (given,) = answer["storage-credentials"]
    assert answer["config"] == {**given["config"], REFRESH: f"v1/{table}/credentials"}
    expires_at = given["config"].pop("gcs.oauth2.token-expires-at")
    assert 3_590_000 < int(expires_at) - 1000 * time.time() <= 3_600_000
    assert given["config"] == {
        "gcs.oauth2.token": store.narrowed()[-1].text,
        "gcs.project-id": "lake",
        "gcs.service.host": store.endpoint,
    }


@pytest.mark.parametrize("prefix", one_in(2, ["", "planned/"]))
def test_tokens_are_given_again_until_half_of_their_time_is_over(
    serve: Serve, store: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    service = serve(rule(store, tmp_path))
    loaded = asked_for_keys(service, f"{prefix}namespaces/sales/tables/orders")
    again, before = loaded["config"][REFRESH].removeprefix("v1/"), len(store.narrowed())
    assert service._options.vending is not None
    for later, more in ((0, 0), (1750, 0), (1850, 1)):
        source = service._options.vending.rules[0].source
        monkeypatch.setattr(source, "_clock", lambda later=later: time.time() + later)
        status, answer, _ = asked(service, again, "of-sales")
        assert (status, len(store.narrowed()) - before) == (200, more)
        assert (answer["storage-credentials"] == loaded["storage-credentials"]) == (more == 0)
    assert answer["storage-credentials"][0]["config"]["gcs.oauth2.token"] == store.narrowed()[-1].text


@pytest.mark.parametrize("scratch", ["s3://views/t", "file:///views/t", "abfss://views@lake.dfs.core.windows.net/t"])
def test_a_scratch_folder_in_another_kind_of_store_is_left_to_clients(
    store: GoogleStore, tmp_path: Path, scratch: str
) -> None:
    vending = vending_of({"credentials": [rule(store, tmp_path)]})
    assert vending is not None
    vended = vending.for_table("gs://lake/t", scratch)
    assert vended is not None
    assert vended.prefixes == ("gs://lake/t/",)
    assert (
        store.narrowed()[-1].boundary
        == access_boundary(("gs://lake/t",)).to_json()["accessBoundary"]["accessBoundaryRules"]
    )
    assert vending.for_table("gs://other/t", scratch) is None


def test_tokens_are_made_of_ones_that_are_at_most_five_minutes_old(store: GoogleStore, tmp_path: Path) -> None:
    now = time.time()
    own = GoogleTokens(store.key_file(tmp_path), clock=lambda: now)
    given, before = [own.token()], len(store.own())
    for later in (299, 2):
        now += later
        given.append(own.token())
    assert (given[0] is given[1], given[1].text == given[2].text, len(store.own()) - before) == (True, False, 1)
    assert given[0].text not in repr(given[0])


@pytest.mark.parametrize("told", [True, False])
def test_a_token_ends_with_the_one_that_it_is_made_of(store: GoogleStore, tmp_path: Path, *, told: bool) -> None:
    store.services.hold_for(1200, told=told)
    given = tokens(store, tmp_path).credentials_for(PLACES)
    assert given.expires_at is not None
    assert abs(given.expires_at - store.narrowed()[-1].expires_at) < 2
    assert given.properties["gcs.oauth2.token-expires-at"] == str(int(1000 * given.expires_at))
    assert given.expires_at - given.made_at > 1195


@pytest.mark.parametrize(
    ("places", "expressions"),
    [
        (
            ("gs://lake/sales/orders/", "gs://lake/views/x"),
            {
                "lake": "resource.name.startsWith('projects/_/buckets/lake/objects/sales/orders/')"
                " || resource.name.startsWith('projects/_/buckets/lake/objects/views/x/')"
            },
        ),
        (
            ("gs://lake", "gs://views/a?b#c"),
            {
                "lake": "resource.name.startsWith('projects/_/buckets/lake/objects/')",
                "views": "resource.name.startsWith('projects/_/buckets/views/objects/a?b#c/')",
            },
        ),
        (
            ("gs://lake/x') || true || ('",),
            {"lake": r"resource.name.startsWith('projects/_/buckets/lake/objects/x\') || true || (\'/')"},
        ),
    ],
)
def test_boundaries_have_a_rule_for_each_bucket(places: tuple[str, ...], expressions: dict[str, str]) -> None:
    rules = access_boundary(places).to_json()["accessBoundary"]["accessBoundaryRules"]
    assert rules == [
        {
            "availableResource": f"//storage.googleapis.com/projects/_/buckets/{bucket}",
            "availablePermissions": ["inRole:roles/storage.legacyObjectReader"],
            "availabilityCondition": {"expression": expression},
        }
        for bucket, expression in expressions.items()
    ]


@pytest.mark.parametrize("name", ["it's", "a\\", "\\'", 'a"b', "größe/日本/🙂", "a\nb\tc\x7f", "\u2028", "{x}$%"])
def test_names_of_folders_are_texts_in_expressions_whatever_signs_they_have(name: str) -> None:
    text = cel_text(name)
    # Texts with these escapes are read in Python as they are there.
    assert ast.literal_eval(text) == name
    assert text.isprintable()


def test_an_answer_that_says_to_try_again_is_a_matter_of_trying_again(
    serve: Serve, store: GoogleStore, tmp_path: Path
) -> None:
    service = serve(rule(store, tmp_path))
    position = "namespaces/sales/tables/orders/credentials"
    for path, fault in (("/token", 503), ("/token", 429), ("/sts", 500)):
        store.services.fail(path, fault, b"hush")
        status, answer, headers = asked(service, position)
        assert (status, answer["error"]["type"], headers["Retry-After"]) == (503, "ServiceUnavailableException", "5")
        store.services.fail(path, None)
    store.services.fail("/sts", 503)
    with pytest.raises(ServiceUnavailableError):
        client(service, token="of-sales").load_table("sales.orders")
    store.services.fail("/sts", None)
    assert asked(service, position)[0] == 200


@pytest.mark.parametrize("content", [b"<html>hush</html>", b"{}", b"[]", b'{"access_token": "x", "expires_in": []}'])
def test_an_answer_that_is_none_is_a_matter_of_trying_again(store: GoogleStore, tmp_path: Path, content: bytes) -> None:
    source = tokens(store, tmp_path)
    store.services.fail("/sts", 200, content)
    with pytest.raises(CredentialsUnavailableError, match="no token in the answer") as refused:
        source.credentials_for(PLACES)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize(
    ("token_uri", "sts_endpoint"),
    [("{silent}", "{store}/sts"), ("{store}/token", "{silent}"), ("{nobody}", "{nobody}")],
)
def test_services_that_cannot_be_reached_are_waited_for_a_bounded_time(
    store: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token_uri: str, sts_endpoint: str
) -> None:
    monkeypatch.setattr(google_tokens, "_TIMEOUT", (0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = {"store": store.endpoint, "nobody": "http://127.0.0.1:9"}
        places["silent"] = f"http://127.0.0.1:{silent.getsockname()[1]}"
        file = store.key_file(tmp_path, token_uri=token_uri.format(**places))
        source = GcsTokens(GoogleTokens(file), sts_endpoint=sts_endpoint.format(**places))
        start = time.monotonic()
        with pytest.raises(CredentialsUnavailableError, match="TransportError"):
            source.credentials_for(PLACES)
        assert time.monotonic() - start < 5


def test_what_google_refuses_is_an_error_that_tells_clients_nothing(
    serve: Serve, store: GoogleStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = serve(rule(store, tmp_path))
    with google_store() as other:
        key = other.services.private_key()
    store.key_file(tmp_path, private_key=key)
    with caplog.at_level(logging.INFO):
        with pytest.raises(ServerError, match="storage credentials cannot be had"):
            client(service, token="of-sales").load_table("sales.orders")
        wait_for_line("Google's token service: RefreshError, invalid_grant", caplog)
    assert "not signed" not in caplog.text
    status, answer, _ = asked(service, "namespaces/sales/tables/orders/credentials")
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")
    assert "oogle" not in json.dumps(answer)
    # The file is read anew.
    store.key_file(tmp_path)
    assert asked_for_keys(service)["storage-credentials"]
    refusals = {b'{"error": "invalid_request", "error_description": "hush"}': "OAuthError, invalid_request"}
    for content, text in (refusals | {b'{"error": "hush, hush"}': "OAuthError", b"hush": "OAuthError"}).items():
        store.services.fail("/sts", 403, content)
        with pytest.raises(CredentialsRefusedError) as refused:
            tokens(store, tmp_path).credentials_for(PLACES)
        assert str(refused.value) == f"Google's Security Token Service: {text}"


def test_without_a_file_the_credentials_are_those_of_the_machine(
    store: GoogleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = GcsTokens(GoogleTokens(), sts_endpoint=f"{store.endpoint}/sts")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nothing"))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    with pytest.raises(CredentialsRefusedError, match="DefaultCredentialsError"):
        source.credentials_for(PLACES)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(store.key_file(tmp_path)))
    assert source.credentials_for(PLACES).properties["gcs.oauth2.token"] == store.narrowed()[-1].text
    assert vending_of({"credentials": [{"prefix": "gs://lake", "kind": "gcs"}]}) is not None


def test_a_key_that_is_taken_away_is_missed(store: GoogleStore, tmp_path: Path) -> None:
    source = tokens(store, tmp_path)
    (tmp_path / "service-account.json").unlink()
    with pytest.raises(CredentialsRefusedError, match=r"service-account.json has no key .*FileNotFoundError"):
        source.credentials_for(PLACES)


def test_no_token_or_key_is_logged(
    serve: Serve,
    store: GoogleStore,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_to_standard_error(LogFormat.TEXT, LogLevel.DEBUG)
    with caplog.at_level(logging.DEBUG):
        service = serve(rule(store, tmp_path), rule(store, tmp_path, prefix="gs://lake/hr"))
        given = asked_for_keys(service)["config"]
        own = store.own()[-1].text
        store.services.fail("/sts", 400, f'{{"error": "{given["gcs.oauth2.token"]}"}}'.encode())
        assert asked(service, "namespaces/hr/tables/pay/credentials")[0] == 500
        wait_for_line("/v1/namespaces/hr/tables/pay/credentials", caplog)
    output = caplog.text + "".join(capfd.readouterr()) + repr(service._options) + service.counters.prometheus()
    line_of_key = store.services.private_key().splitlines()[1]
    assert given["gcs.oauth2.token"].startswith("narrowed-")
    for secret in (given["gcs.oauth2.token"], own, line_of_key):
        assert secret not in output.replace(store.endpoint, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": "s3://lake"}, "credentials.prefix"),
        ({"prefix": "gcs://lake"}, "credentials.prefix"),
        ({"prefix": "gs://"}, "credentials.prefix"),
        ({"prefix": "gs://anonymous@lake"}, "credentials.prefix"),
        ({"region": "eu-west-1"}, "credentials.region"),
        ({"endpoint": "127.0.0.1"}, "credentials.endpoint"),
        ({"sts_endpoint": "127.0.0.1"}, "credentials.sts-endpoint"),
        ({"project_id": 1}, "credentials.project-id"),
        ({"service_account_file": "/nowhere"}, "credentials.service-account-file"),
        ({"service_account_file": "{secret}"}, "the key of a service account"),
        ({"service_account_key": "hush"}, "credentials.service-account-key"),
    ],
)
def test_rules_that_are_not_understood_are_refused(
    store: GoogleStore, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    given = rule(store, tmp_path, **changes)
    if given["service-account-file"] == "{secret}":
        given["service-account-file"] = str(tmp_path / "secret")
    for content in (b"hush", b"[]", b'{"private_key": "hush"}', json.dumps(key_without_type(store, tmp_path)).encode()):
        (tmp_path / "secret").write_bytes(content)
        with pytest.raises(QueryError, match=message) as refused:
            vending_of({"credentials": [given]})
        assert "hush" not in str(refused.value)


def key_without_type(store: GoogleStore, tmp_path: Path) -> dict[str, str]:
    """The content of a key file whose key is no key."""
    content: dict[str, str] = json.loads(store.key_file(tmp_path).read_text())
    return content | {"private_key": "-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n"}
