"""Storage credentials for clients: of STS for a table, or static; renewed, shared, and shown to nobody else."""

import json
import logging
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import starmap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.exceptions import ClientError
from pyiceberg.exceptions import NoSuchTableError, ServerError, ServiceUnavailableError

from hudi_bridge.cli.iceberg import LogFormat, LogLevel, log_to_standard_error
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.errors import QueryError
from hudi_bridge.service.assumed_roles import AssumedRole, partition_of, read_policy
from hudi_bridge.service.config import vending_of
from hudi_bridge.service.credentials import (
    VENDED,
    CredentialsRefusedError,
    CredentialsUnavailableError,
    Places,
    RenewedCredentials,
    StorageCredentials,
    asks_for_credentials,
)
from hudi_bridge.service.server import IcebergService, ServiceOptions
from tests.connectors.iceberg.asking import (
    ACCESS,
    Serve,
    asked,
    asked_for_keys,
    changed,
    serving,
    written_tables,
)
from tests.service.guarded_store import EXTERNAL_ID, REGION, GuardedStore, guarded_store
from tests.service.iceberg_service import client, rows, service_options, wait_for_line
from tests.support.compare import differences
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter

NOBODY = {
    "header.X-Iceberg-Access-Delegation": "",
    "s3.access-key-id": "nobody",
    "s3.secret-access-key": "nobody",
    "s3.region": REGION,
}
PLANNED = {"warehouse": "planned"}
PLACES = ("s3://lake/t",)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TableWriter]:
    return written_tables(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def store(tables: dict[str, TableWriter]) -> Iterator[GuardedStore]:
    with guarded_store() as store:
        for place, table in tables.items():
            store.upload(table.folder, f"lake/{place}")
        yield store


def rule(store: GuardedStore, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    """A rule of kind ``sts`` that fits, but for the changes; those to None leave something out."""
    (tmp_path / "secret").write_text(f"{store.secret_access_key}\n")
    usual = {
        "prefix": "s3://lake",
        "kind": "sts",
        "region": REGION,
        "endpoint": store.endpoint,
        "path-style-access": True,
        "role": store.role,
        "external-id": EXTERNAL_ID,
        "session-seconds": 900,
        "sts-endpoint": store.endpoint,
        "access-key-id-env": "KEY_ID_OF_TESTS",
        "secret-access-key-file": str(tmp_path / "secret"),
    }
    return changed(usual, changes)


def static_rule(store: GuardedStore, tmp_path: Path, **changes: Any) -> dict[str, Any]:
    of_sts = dict.fromkeys(("role", "external_id", "session_seconds", "sts_endpoint"))
    return rule(store, tmp_path, kind="static", **{**of_sts, **changes})


@pytest.fixture
def serve(store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Starts a service whose tables and scratch folder are in the store, with some rules for credentials."""
    monkeypatch.setenv("KEY_ID_OF_TESTS", store.access_key_id)
    # The clients of these tests have no keys of their own.
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)

    def options(*rules: dict[str, Any]) -> ServiceOptions:
        return replace(
            service_options(tmp_path / "unused", [], [f"x={tmp_path}"], access=ACCESS, access_log=True),
            tables=Roots.of([store.uri("lake")], []),
            scratch=Scratch.open(store.uri(f"views/{tmp_path.name}")),
            vending=vending_of({"credentials": list(rules)}) if rules else None,
        )

    with serving(options) as serve:
        yield serve


def opened_with(config: dict[str, str]) -> Any:
    """A client of the store with the properties that a client of the service has got."""
    return boto3.client(
        "s3",
        endpoint_url=config["s3.endpoint"],
        region_name=config["client.region"],
        aws_access_key_id=config["s3.access-key-id"],
        aws_secret_access_key=config["s3.secret-access-key"],
        aws_session_token=config.get("s3.session-token"),
    )


def can(call: Callable[..., Any], path: str, **more: Any) -> bool:
    """Whether a client may do something with an object, given with its bucket."""
    bucket, _, key = path.partition("/")
    try:
        call(Bucket=bucket, Key=key, **more)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("AccessDenied", "403"):
            raise
        return False
    return True


# By the part before the question mark, the credentials would open another table, or all of the lake.
@pytest.mark.parametrize(
    ("name", "escaped"), one_in(3, starmap(pytest.param, [("hr?x", "hr${?}x"), ("?", "${?}"), ("sales*", "sales${*}")]))
)
def test_signs_in_a_name_do_not_widen_credentials(
    serve: Serve, store: GuardedStore, tmp_path: Path, tables: dict[str, TableWriter], name: str, escaped: str
) -> None:
    store.upload(tables["hr/pay"].folder, f"lake/{name}")
    keys = asked_for_keys(serve(rule(store, tmp_path)), f"namespaces/default/tables/{quote(name, safe='')}")
    client = opened_with(keys["config"])
    for elsewhere in ("hr/pay", "sales/orders"):
        assert not can(client.get_object, f"lake/{elsewhere}/.hoodie/hoodie.properties")
    allowed = json.loads(store.sessions()[-1].policy)["Statement"][0]["Resource"]
    # The other is the scratch folder.
    assert [item for item in allowed if ":::lake" in item] == [f"arn:aws:s3:::lake/{escaped}/*"]


@pytest.mark.parametrize("warehouse", one_in(2, [{}, PLANNED]))
@pytest.mark.parametrize("kind", one_in(2, [rule, static_rule]))
def test_a_client_reads_with_the_credentials_that_it_gets(
    serve: Serve,
    store: GuardedStore,
    tables: dict[str, TableWriter],
    tmp_path: Path,
    warehouse: dict[str, str],
    kind: Callable[..., dict[str, Any]],
) -> None:
    service = serve(kind(store, tmp_path))
    catalog = client(service, token="of-sales", **warehouse)
    loaded = catalog.load_table("sales.orders")
    expected = tables["sales/orders"].open().snapshot().to_table()
    assert differences(expected, rows(loaded)) == []
    without = client(service, token="of-sales", **warehouse, **NOBODY, **{"s3.endpoint": store.endpoint})
    with pytest.raises(OSError, match="ACCESS_DENIED"):
        rows(without.load_table("sales.orders"))


def test_a_session_opens_the_table_and_its_scratch_folder_for_reading_and_nothing_else(
    serve: Serve, store: GuardedStore, tmp_path: Path
) -> None:
    service = serve(rule(store, tmp_path))
    (of_sales,), (of_hr,) = (
        asked_for_keys(service, f"namespaces/{namespace}/tables/{table}")["storage-credentials"]
        for namespace, table in (("sales", "orders"), ("hr", "pay"))
    )
    assert of_sales["prefix"] == of_hr["prefix"] == "s3://"
    own, sales, hr = store.client("s3"), opened_with(of_sales["config"]), opened_with(of_hr["config"])
    folders = {"lake": "", "views": tmp_path.name}
    listings = {bucket: own.list_objects_v2(Bucket=bucket, Prefix=prefix) for bucket, prefix in folders.items()}
    files = {f"{bucket}/{item['Key']}" for bucket, listing in listings.items() for item in listing["Contents"]}
    readable = {path for path in files if can(sales.get_object, path)}
    assert readable == {path for path in files if "/orders" in path}
    assert {path.partition("/")[0] for path in readable} == {"lake", "views"}
    assert {path for path in files if can(hr.get_object, path)} == {path for path in files if "/pay" in path}
    for path in readable:
        assert not can(sales.put_object, path, Body=b"x")
        assert not can(sales.delete_object, path)
    with pytest.raises(ClientError, match="AccessDenied"):
        sales.list_objects_v2(Bucket="lake")
    assert store.sessions()[-1].external_id == EXTERNAL_ID


def test_only_those_who_ask_get_credentials(serve: Serve, store: GuardedStore, tmp_path: Path) -> None:
    service = serve(rule(store, tmp_path))
    before = len(store.sessions())
    table = "namespaces/sales/tables/orders"
    for headers in ({}, {"X-Iceberg-Access-Delegation": "remote-signing"}):
        status, answer, _ = asked(service, table, **headers)
        assert (status, answer["config"]) == (200, {})
        assert "storage-credentials" not in answer
    assert len(store.sessions()) == before
    _, answer, headers = asked(service, table, **{"X-Iceberg-Access-Delegation": VENDED})
    assert headers["Cache-Control"] == "no-store"
    (given,) = answer["storage-credentials"]
    expires = int(given["config"]["s3.session-token-expires-at-ms"])
    assert 0 < expires - 1000 * time.time() <= 900_000
    assert answer["config"] == {**given["config"], "client.refresh-credentials-endpoint": f"v1/{table}/credentials"}
    assert given["config"].keys() == {
        "s3.access-key-id",
        "s3.secret-access-key",
        "s3.session-token",
        "s3.session-token-expires-at-ms",
        "s3.endpoint",
        "s3.path-style-access",
        "client.region",
    }


@pytest.mark.parametrize("prefix", one_in(2, ["", "planned/"]))
def test_credentials_can_be_asked_for_alone(serve: Serve, store: GuardedStore, tmp_path: Path, prefix: str) -> None:
    service = serve(rule(store, tmp_path))
    config = asked(service, "config?warehouse=planned" if prefix else "config")[1]
    assert "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials" in config["endpoints"]
    loaded = asked_for_keys(service, f"{prefix}namespaces/sales/tables/orders")
    again = loaded["config"]["client.refresh-credentials-endpoint"].removeprefix("v1/")
    status, answer, headers = asked(service, again, "of-sales")
    assert (status, headers["Cache-Control"]) == (200, "no-store")
    # Half of its time is not over.
    assert answer == {"storage-credentials": loaded["storage-credentials"]}
    for hidden in ("hr/tables/pay", "hr/tables/nothing", "sales/tables/nothing"):
        status, answer, _ = asked(service, f"{prefix}namespaces/{hidden}/credentials", "of-sales")
        assert (status, answer["error"]["type"]) == (404, "NoSuchTableException")
    assert asked(service, again, "of-nobody")[0] == asked(service, again, None)[0] == 401
    catalog = client(service, token="of-sales", **(PLANNED if prefix else {}))
    location = loaded["metadata-location"]
    assert catalog.load_credentials("sales.orders", location) == loaded["storage-credentials"][0]["config"]
    with pytest.raises(NoSuchTableError):
        catalog.load_credentials("hr.pay", location)


def test_plans_have_credentials(serve: Serve, store: GuardedStore, tmp_path: Path) -> None:
    service = serve(rule(store, tmp_path))
    position = f"{service.url}/v1/planned/namespaces/sales/tables/orders/plan"
    headers = {"Authorization": "Bearer of-sales"}
    answers = []
    for more in ({}, {"X-Iceberg-Access-Delegation": VENDED}):
        request = urllib.request.Request(position, data=b"{}", headers=headers | more)
        with urllib.request.urlopen(request) as response:
            plan = json.loads(response.read())
            stored = [response.headers["Cache-Control"]]
        request = urllib.request.Request(f"{position}/{plan['plan-id']}", headers=headers | more)
        with urllib.request.urlopen(request) as response:
            assert ("storage-credentials" in json.loads(response.read())) == bool(more)
            stored.append(response.headers["Cache-Control"])
        assert stored == ["no-store" if more else None] * 2
        answers.append(plan)
    assert "storage-credentials" not in answers[0]
    (given,) = answers[1]["storage-credentials"]
    files = [task["data-file"]["file-path"] for task in answers[1]["file-scan-tasks"]]
    files += [answer["file-path"] for answer in answers[1]["delete-files"]]
    assert len(files) == 3
    opened = opened_with(given["config"])
    assert all(can(opened.get_object, path.removeprefix("s3://")) for path in files)


def test_rules_of_longer_prefixes_come_first(serve: Serve, store: GuardedStore, tmp_path: Path) -> None:
    none = {"prefix": "s3://lake/hr/", "kind": "none"}
    service = serve(none, rule(store, tmp_path), rule(store, tmp_path, prefix="s3://lake/sales/ord"))
    assert asked_for_keys(service, "namespaces/hr/tables/pay")["config"] == {}
    assert asked(service, "namespaces/hr/tables/pay/credentials")[1] == {"storage-credentials": []}
    assert asked_for_keys(service)["config"]["client.region"] == REGION


def test_without_rules_there_are_no_credentials(serve: Serve) -> None:
    service = serve()
    assert not [item for item in asked(service, "config")[1]["endpoints"] if item.endswith("/credentials")]
    assert asked_for_keys(service)["config"] == {}
    assert asked(service, "namespaces/sales/tables/orders/credentials")[1] == {"storage-credentials": []}


def test_static_keys_are_read_each_time(
    serve: Serve, store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "session-token"
    token.write_text("of the session")
    service = serve(static_rule(store, tmp_path, session_token_file=str(token)))
    first = asked_for_keys(service)
    monkeypatch.setenv("KEY_ID_OF_TESTS", "another")
    (tmp_path / "secret").write_text("another secret")
    (second,) = asked_for_keys(service)["storage-credentials"]
    assert first["config"]["s3.secret-access-key"] == store.secret_access_key
    assert first["config"]["s3.session-token"] == "of the session"
    assert "client.refresh-credentials-endpoint" not in first["config"]
    key = {"s3.access-key-id": "another", "s3.secret-access-key": "another secret"}
    assert second["config"] == first["storage-credentials"][0]["config"] | key
    (tmp_path / "secret").unlink()
    status, answer, _ = asked(service, "namespaces/sales/tables/orders/credentials")
    assert (status, str(tmp_path) in json.dumps(answer)) == (500, False)


def test_what_sts_refuses_is_an_error_that_tells_clients_nothing(
    serve: Serve, store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    service = serve(rule(store, tmp_path))
    monkeypatch.setenv("KEY_ID_OF_TESTS", "AKIANOBODY")
    with caplog.at_level(logging.INFO):
        with pytest.raises(ServerError, match="storage credentials cannot be had"):
            client(service, token="of-sales").load_table("sales.orders")
        wait_for_line(f"STS for {store.role}: InvalidClientTokenId", caplog)
    status, answer, _ = asked(service, "namespaces/sales/tables/orders/credentials")
    assert (status, answer["error"]["type"]) == (500, "InternalServerError")
    assert store.role not in json.dumps(answer)
    assert asked(service, "namespaces/sales/tables/orders")[0] == 200
    monkeypatch.setenv("KEY_ID_OF_TESTS", store.access_key_id)
    assert asked_for_keys(service)["storage-credentials"]


def test_an_sts_that_cannot_be_reached_is_a_matter_of_trying_again(
    serve: Serve, store: GuardedStore, tmp_path: Path
) -> None:
    service = serve(rule(store, tmp_path, sts_endpoint="http://127.0.0.1:9"))
    status, answer, headers = asked(service, "namespaces/sales/tables/orders/credentials")
    assert (status, answer["error"]["type"]) == (503, "ServiceUnavailableException")
    assert headers["Retry-After"] == "5"
    with pytest.raises(ServiceUnavailableError):
        client(service, token="of-sales").load_table("sales.orders")


def test_no_secret_is_logged(
    serve: Serve,
    store: GuardedStore,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    log_to_standard_error(LogFormat.TEXT, LogLevel.DEBUG)
    service = serve(rule(store, tmp_path), static_rule(store, tmp_path, prefix="s3://lake/hr"))
    given = [asked_for_keys(service)["config"], asked_for_keys(service, "namespaces/hr/tables/pay")["config"]]
    asked(service, "namespaces/sales/tables/orders/credentials")
    (tmp_path / "secret").write_text("no secret of the store")
    asked(service, "namespaces/hr/tables/pay/credentials")
    (tmp_path / "secret").unlink()
    asked(service, "namespaces/hr/tables/pay/credentials")
    wait_for_line("/v1/namespaces/sales/tables/orders/credentials", caplog)
    output = caplog.text + "".join(capfd.readouterr()) + repr(service._options) + service.counters.prometheus()
    secrets = {
        config[name] for config in given for name in ("s3.secret-access-key", "s3.session-token") if name in config
    }
    secrets |= {"no secret of the store", given[0]["s3.access-key-id"], store.access_key_id}
    assert len(secrets) == 6
    assert not [secret for secret in secrets if secret in output]


class Source:
    """Makes credentials that are numbered, which hold for some seconds."""

    def __init__(self, seconds: float = 900.0) -> None:
        self.now = 1000.0
        self.seconds = seconds
        self.made = 0
        self.error: Exception | None = None
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def credentials_for(self, places: Places) -> StorageCredentials:
        self.made += 1
        number = str(self.made)
        assert self.may_go_on.wait(10)
        if self.error is not None:
            raise self.error
        properties = {"number": number, "places": " ".join(places)}
        return StorageCredentials(properties=properties, made_at=self.now, expires_at=self.now + self.seconds)


def test_credentials_are_renewed_when_half_of_their_time_is_over() -> None:
    source = Source()
    renewed = RenewedCredentials(source, clock=lambda: source.now)
    numbers = []
    for later in (0, 449, 1, 449, 1, 2000):
        source.now += later
        given = renewed.credentials_for(PLACES)
        assert (given.expires_at or 0) - source.now >= 450
        numbers.append(given.properties["number"])
    assert numbers == ["1", "1", "2", "2", "3", "4"]
    assert renewed.credentials_for(("s3://lake/other",)).properties["places"] == "s3://lake/other"
    source.now += 2000
    renewed.credentials_for(PLACES)
    assert renewed._cache.keys() == {PLACES}


def test_while_there_are_no_new_credentials_the_old_ones_are_given_as_long_as_they_hold() -> None:
    source = Source()
    renewed = RenewedCredentials(source, clock=lambda: source.now)
    first = renewed.credentials_for(PLACES)
    source.error = CredentialsUnavailableError("down")
    source.now += 600
    assert renewed.credentials_for(PLACES) is first
    source.now += 241
    with pytest.raises(CredentialsUnavailableError):
        renewed.credentials_for(PLACES)
    source.error = None
    assert renewed.credentials_for(PLACES).properties["number"] == "4"
    source.error, source.now = CredentialsRefusedError("taken away"), source.now + 600
    with pytest.raises(CredentialsRefusedError):
        renewed.credentials_for(PLACES)


@pytest.mark.parametrize("error", [None, CredentialsUnavailableError("down")])
def test_requests_that_wait_share_one_call(error: Exception | None) -> None:
    source = Source()
    source.error = error
    renewed = RenewedCredentials(source, clock=lambda: source.now)
    source.may_go_on.clear()
    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(renewed.credentials_for, PLACES) for _ in range(8)]
        until = time.monotonic() + 10
        while not all(item.running() for item in waiting) and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.1)
        source.may_go_on.set()
        if error is None:
            assert len({id(item.result()) for item in waiting}) == 1
        else:
            assert {repr(item.exception()) for item in waiting} == {repr(error)}
    assert source.made == 1
    source.error = None
    assert renewed.credentials_for(PLACES).properties["number"] == ("1" if error is None else "2")


def test_sessions_are_shared_by_loads(serve: Serve, store: GuardedStore, tmp_path: Path) -> None:
    service = serve(rule(store, tmp_path))
    before = len(store.sessions())
    with ThreadPoolExecutor(6) as pool:
        keys = list(pool.map(lambda _: asked_for_keys(service)["config"]["s3.access-key-id"], range(6)))
    assert len(set(keys)) == len(store.sessions()) - before == 1


def test_a_client_that_asks_late_gets_a_new_session(
    serve: Serve, store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(rule(store, tmp_path))
    catalog = client(service, token="of-sales")
    location = catalog.load_table("sales.orders").metadata_location
    given = [catalog.load_credentials("sales.orders", location)]
    assert service._options.vending is not None
    for later in (440, 460):
        source = service._options.vending.rules[0].source
        monkeypatch.setattr(source, "_clock", lambda later=later: time.time() + later)
        given.append(catalog.load_credentials("sales.orders", location))
    keys = [item["s3.access-key-id"] for item in given]
    assert (keys[0] == keys[1], keys[1] == keys[2]) == (True, False)
    assert int(given[2]["s3.session-token-expires-at-ms"]) > int(given[0]["s3.session-token-expires-at-ms"])
    assert opened_with(given[2]).get_object(Bucket=location.split("/")[2], Key=location.split("/", 3)[3])["Body"].read()


@pytest.mark.parametrize(
    ("place", "resource"),
    [
        ("s3://lake/sales/orders", "lake/sales/orders/*"),
        ("s3a://lake", "lake/*"),
        ("s3://lake/*/a?b#c$d/", "lake/${*}/a${?}b#c${$}d/*"),
        ("s3://lake/${aws:username}", "lake/${$}{aws:username}/*"),
    ],
)
def test_names_of_folders_are_no_patterns_in_policies(place: str, resource: str) -> None:
    (statement,) = json.loads(read_policy((place,), "aws-cn"))["Statement"]
    assert statement == {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"arn:aws-cn:s3:::{resource}"]}


def test_sessions_decrypt_with_the_keys_that_are_named(serve: Serve, store: GuardedStore, tmp_path: Path) -> None:
    key = "arn:aws:kms:eu-west-1:123456789012:key/of-the-lake"
    assert asked_for_keys(serve(rule(store, tmp_path, kms_keys=[key])))["storage-credentials"]
    objects, decrypt = json.loads(store.sessions()[-1].policy)["Statement"]
    assert objects["Action"] == ["s3:GetObject"]
    assert decrypt == {"Effect": "Allow", "Action": ["kms:Decrypt"], "Resource": [key]}


def test_policies_are_of_the_partition_of_the_role() -> None:
    roles = {
        "arn:aws-us-gov:iam::1:role/x": "aws-us-gov",
        "arn:minio:iam:::role/x": "aws",
        "arn:aws:iam::1:role/x": "aws",
    }
    assert {role: partition_of(role) for role in roles} == roles


def test_a_role_is_assumed_with_the_keys_of_the_machine_by_default(
    store: GuardedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = AssumedRole(store.role, region=REGION, session_seconds=900, endpoint=store.endpoint)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(CredentialsRefusedError, match="NoCredentialsError"):
        role.credentials_for(PLACES)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", store.access_key_id)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", store.secret_access_key)
    role = AssumedRole(store.role, region=REGION, session_seconds=900, endpoint=store.endpoint)
    assert role.credentials_for(PLACES).expires_at is not None


@pytest.mark.parametrize(
    ("header", "asks"), [(None, False), ("", False), ("remote-signing", False), ("x,Vended-Credentials ", True)]
)
def test_the_header_of_clients(header: str | None, *, asks: bool) -> None:
    assert asks_for_credentials(header) is asks


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "other"}, "credentials.kind"),
        ({"kind": None}, "credentials.kind"),
        ({"prefix": None}, "credentials.prefix"),
        ({"prefix": "gs://lake"}, "credentials.prefix"),
        ({"prefix": "s3://"}, "credentials.prefix"),
        ({"prefix": "/data"}, "credentials.prefix"),
        ({"prefix": "s3://key:hush@lake"}, "credentials.prefix"),
        ({"region": None}, "credentials.region"),
        ({"region": ""}, "credentials.region"),
        ({"role": None}, "credentials.role"),
        ({"role": "reader"}, "credentials.role"),
        ({"session_seconds": 899}, "900 to 43200"),
        ({"session_seconds": "900"}, "credentials.session-seconds"),
        ({"session_seconds": True}, "credentials.session-seconds"),
        ({"endpoint": "127.0.0.1"}, "credentials.endpoint"),
        ({"secret_access_key": "hush"}, "credentials.secret-access-key"),
        ({"secret_access_key_file": "/nowhere"}, "secret-access-key-file"),
        ({"secret_access_key_file": None}, "part of a key"),
        ({"access_key_id_env": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE"),
        ({"access_key_id_file": "{secret}"}, "two places"),
        ({"kind": "static", "role": None}, "credentials.external-id"),
        ({"kind": "none"}, "credentials.region"),
        ({"kms_keys": ["arn:aws:kms:eu-west-1:1:key/*"]}, "credentials.kms-keys"),
        ({"kms_keys": [1]}, "credentials.kms-keys"),
    ],
)
def test_rules_that_are_not_understood_are_refused(
    store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("KEY_ID_OF_TESTS", store.access_key_id)
    given = rule(store, tmp_path, **changes)
    if "access-key-id-file" in given:
        given["access-key-id-file"] = str(tmp_path / "secret")
    with pytest.raises(QueryError, match=message) as refused:
        vending_of({"credentials": [given]})
    assert "hush" not in str(refused.value)
    assert store.secret_access_key not in str(refused.value)


def test_tables_of_rules_that_are_not_understood_are_refused(
    store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY_ID_OF_TESTS", store.access_key_id)
    twice = [rule(store, tmp_path), rule(store, tmp_path, prefix="s3://lake/")]
    no_key = static_rule(store, tmp_path, access_key_id_env=None, secret_access_key_file=None)
    for actual, message in (({}, "one table"), (twice, "two of s3://lake"), (["x"], "kind"), ([no_key], "no key")):
        with pytest.raises(QueryError, match=message):
            vending_of({"credentials": actual})
    assert vending_of({}) is None


def test_secrets_have_one_line(store: GuardedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_ID_OF_TESTS", store.access_key_id)
    given = rule(store, tmp_path)
    for content in (b"hush\nhush", "hüsh".encode(), b" \n"):
        (tmp_path / "secret").write_bytes(content)
        with pytest.raises(QueryError, match="a secret of one line") as refused:
            vending_of({"credentials": [given]})
        assert "sh" not in str(refused.value).replace(str(tmp_path), "").replace("hudi-bridge", "")


def test_credentials_are_for_readers(tmp_path: Path) -> None:
    vending = vending_of({"credentials": [{"prefix": "s3://lake", "kind": "none"}]})
    with pytest.raises(QueryError, match="no readers"):
        IcebergService(service_options(tmp_path / "scratch", [tmp_path], vending=vending))
