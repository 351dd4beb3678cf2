"""Credentials for Azure Data Lake Storage: signatures that read a table's folder and its scratch folder."""

import json
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import AzureFileSystem  # noqa: TID251 - a client of the store
from pyiceberg.exceptions import ServerError

from hudi_bridge.cli.iceberg import LogFormat, LogLevel, log_to_standard_error
from hudi_bridge.connectors.scratch import Locations
from hudi_bridge.errors import QueryError
from hudi_bridge.service.azure_signatures import AzureSignatures
from hudi_bridge.service.config import vending_of
from hudi_bridge.service.credential_kinds import AzurePlace
from hudi_bridge.service.credentials import CredentialsRefusedError, Secret
from hudi_bridge.service.server import ServiceOptions
from tests.connectors.iceberg.asking import (
    ACCESS,
    Serve,
    asked,
    asked_for_keys,
    changed,
    serving,
    written_tables,
)
from tests.service.azure_store import KEYS, azure_store, fields_of, is_signed, opens
from tests.service.iceberg_service import client, service_options, wait_for_line

LAKE, VIEWS = "lake.dfs.core.windows.net", "views.dfs.core.windows.net"
TABLE = "namespaces/sales/tables/orders"
SECRETS = {"LAKE_KEY": KEYS["lake"], "VIEWS_KEY": KEYS["views"]}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def rule(**changes: Any) -> dict[str, Any]:
    """A rule that fits, but for the changes; those to None leave something out."""
    usual = {
        "prefix": f"abfss://tables@{LAKE}",
        "kind": "azure",
        "account-key-env": "LAKE_KEY",
        "scratch-account-key-env": "VIEWS_KEY",
        "session-seconds": 900,
    }
    return changed(usual, changes)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts a service whose tables and scratch folder clients know by URIs of Azure; it reads them on the disk."""
    written_tables(tmp_path / "lake" / "tables")

    def options(*rules: dict[str, Any], scratch: str | None = f"abfss://scratch@{VIEWS}") -> ServiceOptions:
        folder, lake = tmp_path / "views" / "scratch", tmp_path / "lake" / "tables"
        located = [f"{lake}=abfss://tables@{LAKE}", *([f"{folder}={scratch}"] if scratch else [])]
        return replace(
            service_options(folder, [lake], access=ACCESS, access_log=True),
            locations=Locations.of(tuple(located)),
            vending=vending_of({"credentials": list(rules)}),
        )

    with serving(options) as serve:
        yield serve


def signatures(key: str = "LAKE_KEY", scratch_key: str | None = None) -> AzureSignatures:
    scratch = None if scratch_key is None else Secret(option="scratch", variable=scratch_key)
    return AzureSignatures("lake", key=Secret(option="key", variable=key), scratch_key=scratch, seconds=900)


def arrow_client(account: str, sas: str, address: str) -> Any:
    """Arrow's client of the store, which opens blobs with a signature."""
    kind: Any = AzureFileSystem  # the stubs do not know all arguments
    return kind(account, sas_token=f"?{sas}", blob_storage_authority=address, blob_storage_scheme="http")


def test_signatures_open_the_table_and_its_scratch_folder_and_nothing_else(serve: Serve, tmp_path: Path) -> None:
    service = serve(rule())
    (of_table, of_scratch) = asked_for_keys(service)["storage-credentials"]
    asked_for_keys(service, "namespaces/hr/tables/pay")
    assert of_table["config"] == of_scratch["config"]
    files = [path.relative_to(tmp_path) for path in sorted(tmp_path.rglob("*")) if path.is_file()]
    readable, refused = [], []
    with azure_store(tmp_path) as store:
        opened = {
            account: arrow_client(account, of_table["config"][f"adls.sas-token.{host}"], store.address)
            for account, host in (("lake", LAKE), ("views", VIEWS))
        }
        for path in files:
            account, *inside = path.parts
            try:
                with opened[account].open_input_file("/".join(inside)) as file:
                    assert file.read() == (tmp_path / path).read_bytes()
            except OSError as error:
                refused.append("403 Forbidden" in str(error))
            else:
                readable.append(str(path))
    assert readable == [str(path) for path in files if "/orders" in str(path)]
    assert {path.partition("/")[0] for path in readable} == {"lake", "views"}
    assert refused == [True] * len([path for path in files if "/pay" in str(path)]) != []


def test_clients_find_the_signature_of_each_account(serve: Serve, tmp_path: Path) -> None:
    service = serve(rule())
    _, answer, headers = asked(service, TABLE, **{"X-Iceberg-Access-Delegation": "vended-credentials"})
    assert headers["Cache-Control"] == "no-store"
    given = answer["storage-credentials"]
    for host, actual in ((LAKE, given[0]), (VIEWS, given[1])):
        # By this, clients in Java choose when they renew; they refuse two.
        assert [item for item in given if host in item["prefix"]] == [actual]
        assert 890_000 < int(actual["config"][f"adls.sas-token-expires-at-ms.{host}"]) - 1000 * time.time() <= 900_000
    (folder,) = {path.parent for path in (tmp_path / "views").rglob("metadata") if "orders" in str(path)}
    assert [item["prefix"] for item in given] == [
        f"abfss://tables@{LAKE}/sales/orders/",
        f"abfss://scratch@{VIEWS}/{folder.relative_to(tmp_path / 'views' / 'scratch')}/",
    ]
    assert answer["config"] == {**given[0]["config"], "adls.refresh-credentials-endpoint": f"v1/{TABLE}/credentials"}
    assert given[0]["config"].keys() == {
        f"adls.{name}.{host}" for name in ("sas-token", "sas-token-expires-at-ms") for host in (LAKE, VIEWS)
    }
    loaded = client(service, token="of-sales").load_table("sales.orders")
    assert loaded.io.properties[f"adls.sas-token.{LAKE}"] == given[0]["config"][f"adls.sas-token.{LAKE}"]


@pytest.mark.parametrize(
    ("place", "container", "folder", "depth"),
    [
        ("abfss://tables@lake.dfs.core.windows.net/sales/orders/", "tables", "sales/orders", 2),
        ("abfs://$root@lake.dfs.core.windows.net/a?b#c/größe 日本/it's+1%20", "$root", "a?b#c/größe 日本/it's+1%20", 3),
        ("wasbs://tables@lake.blob.core.windows.net/x", "tables", "x", 1),
    ],
)
def test_a_signature_is_for_reading_below_one_directory(place: str, container: str, folder: str, depth: int) -> None:
    given = signatures().credentials_for((place,))
    host = place.split("/")[2].partition("@")[2]
    sas = given.properties[f"adls.sas-token.{host}"]
    assert is_signed(sas, "lake", f"{container}/{folder}")
    fields = fields_of(sas)
    assert {name: fields[name] for name in ("sp", "spr", "sr", "sdd")} == {
        "sp": "r",
        "spr": "https",
        "sr": "d",
        "sdd": str(depth),
    }
    assert fields["se"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(given.expires_at))
    assert opens(sas, "lake", f"{container}/{folder}/x/y.parquet")
    assert not opens(sas, "lake", f"{container}/{folder}x/y.parquet")
    assert not opens(sas, "lake", f"{container}/other/y.parquet")


def test_a_table_that_is_a_whole_container_gets_a_signature_of_the_container() -> None:
    given = signatures().credentials_for((f"abfss://tables@{LAKE}",))
    sas = given.properties[f"adls.sas-token.{LAKE}"]
    fields = fields_of(sas)
    assert (fields["sp"], fields["sr"], "sdd" in fields) == ("r", "c", False)
    assert is_signed(sas, "lake", "tables")
    assert not is_signed(sas, "lake", "other")


@pytest.mark.parametrize("scratch", [f"abfss://scratch@{LAKE}/x", "wasbs://scratch@lake.blob.core.windows.net"])
def test_a_scratch_folder_in_the_account_of_the_tables_is_refused(
    serve: Serve, caplog: pytest.LogCaptureFixture, scratch: str
) -> None:
    service = serve(rule(), scratch=scratch)
    with caplog.at_level(logging.INFO), pytest.raises(ServerError, match="storage credentials cannot be had"):
        client(service, token="of-sales").load_table("sales.orders")
    wait_for_line("are in one account of Azure, lake:", caplog)
    assert "Let the scratch folder be in another account, with scratch-account-key-file" in caplog.text
    status, answer, _ = asked(service, f"{TABLE}/credentials")
    assert (status, "account" in json.dumps(answer)) == (500, False)


def test_a_scratch_folder_in_an_account_without_a_key_is_refused() -> None:
    places = (f"abfss://tables@{LAKE}/t", f"abfss://scratch@{VIEWS}/t")
    with pytest.raises(CredentialsRefusedError, match=r"account views of Azure, .* scratch-account-key-file or -env"):
        signatures().credentials_for(places)
    given = signatures(scratch_key="VIEWS_KEY").credentials_for(places)
    assert is_signed(given.properties[f"adls.sas-token.{VIEWS}"], "views", "scratch/t")


@pytest.mark.parametrize("scratch", [None, "s3://scratch/x"])
def test_a_scratch_folder_in_another_kind_of_store_is_left_to_clients(serve: Serve, scratch: str | None) -> None:
    service = serve(rule(scratch_account_key_env=None), scratch=scratch)
    (given,) = asked_for_keys(service)["storage-credentials"]
    assert given["prefix"] == f"abfss://tables@{LAKE}/sales/orders/"
    assert given["config"].keys() == {f"adls.sas-token.{LAKE}", f"adls.sas-token-expires-at-ms.{LAKE}"}


@pytest.mark.parametrize("uri", ["abfss://tables/t", "abfss://a:b@lake.dfs/t", "abfss://lake.dfs.core.windows.net/t"])
def test_folders_whose_account_is_not_told_are_refused(uri: str) -> None:
    with pytest.raises(CredentialsRefusedError, match="abfss://CONTAINER@ACCOUNT"):
        AzurePlace.of(uri)


def test_signatures_are_given_again_until_half_of_their_time_is_over(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(rule())
    assert service._options.vending is not None
    given = []
    for later in (0, 440, 460):
        source, now = service._options.vending.rules[0].source, time.time() + later
        monkeypatch.setattr(source, "_clock", lambda now=now: now)
        monkeypatch.setattr("hudi_bridge.service.azure_signatures.time.time", lambda now=now: now)
        given.append(asked(service, f"{TABLE}/credentials")[1]["storage-credentials"])
    assert (given[0] == given[1], given[1] == given[2]) == (True, False)
    expiry = f"adls.sas-token-expires-at-ms.{LAKE}"
    assert int(given[2][0]["config"][expiry]) >= int(given[0][0]["config"][expiry]) + 459_000


def test_keys_are_read_for_each_signature(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{KEYS['views']}\n")
    source = AzureSignatures("lake", key=Secret(option="the-key", file=file), scratch_key=None, seconds=900)
    places, name = (f"abfss://tables@{LAKE}/t",), f"adls.sas-token.{LAKE}"
    assert not is_signed(source.credentials_for(places).properties[name], "lake", "tables/t")
    file.write_text(KEYS["lake"])
    assert is_signed(source.credentials_for(places).properties[name], "lake", "tables/t")
    for content in ("hush, hush", "aHVzaA", ""):
        file.write_text(content)
        with pytest.raises(CredentialsRefusedError, match="the-key") as refused:
            source.credentials_for(places)
        assert "hush" not in str(refused.value)
        assert "aHVzaA" not in str(refused.value)


def test_no_signature_or_key_is_logged(
    serve: Serve, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_to_standard_error(LogFormat.TEXT, LogLevel.DEBUG)
    with caplog.at_level(logging.DEBUG):
        service = serve(rule())
        given = asked_for_keys(service)["config"]
        monkeypatch.setenv("LAKE_KEY", "no key, hush")
        assert asked(service, "namespaces/hr/tables/pay/credentials")[0] == 500
        wait_for_line("/v1/namespaces/hr/tables/pay/credentials", caplog)
    output = caplog.text + "".join(capfd.readouterr()) + repr(service._options) + service.counters.prometheus()
    marks = [fields_of(given[f"adls.sas-token.{host}"])["sig"] for host in (LAKE, VIEWS)]
    for secret in (*marks, *KEYS.values(), "hush"):
        assert len(secret) > 3
        assert secret not in output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefix": "s3://lake"}, "credentials.prefix"),
        ({"prefix": "abfss://tables"}, "credentials.prefix"),
        ({"prefix": f"abfss://{LAKE}/t"}, "credentials.prefix"),
        ({"prefix": f"abfss://tables:hush@{LAKE}"}, "credentials.prefix"),
        ({"prefix": f"abfss://tables@{LAKE}/t?sig=hush"}, "credentials.prefix"),
        ({"account_key_env": None}, "no key"),
        ({"account_key_env": "NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE"),
        ({"account_key_env": "HUSH_KEY"}, "in base64"),
        ({"scratch_account_key_env": "HUSH_KEY"}, "credentials.scratch-account-key-env"),
        ({"account_key_file": "/nowhere"}, "two places"),
        ({"account_key": "hush"}, "credentials.account-key"),
        ({"session_seconds": 899}, "900 to 43200"),
        ({"region": "eu-west-1"}, "credentials.region"),
    ],
)
def test_rules_that_are_not_understood_are_refused(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setenv("HUSH_KEY", "hush, hush")
    with pytest.raises(QueryError, match=message) as refused:
        vending_of({"credentials": [rule(**changes)]})
    assert "hush" not in str(refused.value)
