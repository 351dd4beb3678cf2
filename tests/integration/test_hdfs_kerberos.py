"""Tables on a real HDFS with Kerberos and encrypted transfers, by tickets, keytabs and delegation tokens."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hudi_bridge import HudiTable, StorageError
from tests.integration.hdfs_cluster import SERVICE, HdfsCluster, running_hdfs
from tests.integration.loopback_kdc import HOST, REALM, Kdc
from tests.support.compare import differences
from tests.support.deviations import ANSWERED, NOT_A_NUMBER
from tests.support.golden_cases import golden_table, golden_trips
from tests.support.golden_queries import QUERIES, answer_of, dataset_of, rows_through_arrow

pytestmark = pytest.mark.jvm
KERBEROS = {"hadoop.security.authentication": "kerberos"}
CASE = "a_story_v9_120_nomdt"
QUERIES_OF_CASE = sorted(key for key in ANSWERED - NOT_A_NUMBER if key[0] == CASE)
COUNTING = "import sys; from hudi_bridge import HudiTable; print(HudiTable.open(sys.argv[1]).snapshot().count_rows())"


@pytest.fixture(scope="module")
def keytabs(kdc: Kdc) -> dict[str, Path]:
    return {
        "servers": kdc.keytab("servers", f"hdfs/{HOST}", f"HTTP/{HOST}"),
        "alice": kdc.keytab("alice", "alice"),
    }


@pytest.fixture(scope="module")
def secured(kdc: Kdc, keytabs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """A cluster with the golden tables, which the user of its servers has written."""
    of_servers = KERBEROS | {
        "hadoop.security.authorization": "true",
        "hadoop.rpc.protection": "privacy",
        "dfs.data.transfer.protection": "privacy",
        "dfs.block.access.token.enable": "true",
        "dfs.web.authentication.kerberos.principal": f"HTTP/{HOST}@{REALM}",
        "dfs.web.authentication.kerberos.keytab": str(keytabs["servers"]),
        # Of HTTP: otherwise, it would have to be HTTPS.
        "ignore.secure.ports.for.testing": "true",
    }
    for server in ("namenode", "datanode"):
        of_servers[f"dfs.{server}.kerberos.principal"] = f"hdfs/{HOST}@{REALM}"
        of_servers[f"dfs.{server}.keytab.file"] = str(keytabs["servers"])
    folder = tmp_path_factory.mktemp("secured")
    with (
        pytest.MonkeyPatch.context() as patch,
        running_hdfs(folder, of_servers, KERBEROS, kdc.jvm_option) as cluster,
    ):
        patch.setenv("KRB5_CONFIG", str(kdc.settings))
        patch.setenv("KRB5CCNAME", kdc.ticket("hdfs", keytabs["servers"], f"hdfs/{HOST}"))
        cluster.put(golden_trips() / "trips", "/lake/trips")
        cluster.put(golden_table(CASE), f"/golden/{CASE}")
        yield cluster


@pytest.fixture
def trips(secured: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URI of a table, which nobody has a ticket for yet."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(secured.settings))
    monkeypatch.setenv("KRB5CCNAME", "FILE:/nowhere")
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "1")
    return f"{secured.uri}/lake/trips"


@pytest.fixture(scope="module")
def rows() -> int:
    return HudiTable.open(golden_trips() / "trips").snapshot().count_rows()


@pytest.fixture(scope="module")
def ticket(kdc: Kdc, keytabs: dict[str, Path]) -> str:
    return kdc.ticket("alice", keytabs["alice"], "alice")


@pytest.mark.usefixtures("trips")
def test_a_golden_table(secured: HdfsCluster, ticket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", ticket)
    table = HudiTable.open(f"{secured.uri}/golden/{CASE}")
    for query in map(QUERIES.__getitem__, QUERIES_OF_CASE):
        assert differences(answer_of(query), rows_through_arrow(dataset_of(query, table), query)) == []


def test_without_a_ticket(trips: str, rows: int, ticket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError, match=r"no Kerberos login: .*FILE:/nowhere.*; run kinit") as caught:
        HudiTable.open(trips)
    assert caught.value.errno == errno.EACCES
    # As after kinit.
    monkeypatch.setenv("KRB5CCNAME", ticket)
    assert HudiTable.open(trips).snapshot().count_rows() == rows


def test_a_ticket_that_has_expired(
    kdc: Kdc, trips: str, rows: int, keytabs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", kdc.ticket("old", keytabs["alice"], "alice", -60))
    with pytest.raises(StorageError, match="no Kerberos login: Ticket expired; run kinit"):
        HudiTable.open(trips)
    kdc.ticket("old", keytabs["alice"], "alice")
    assert HudiTable.open(trips).snapshot().count_rows() == rows


def test_keytabs_and_caches_as_options(trips: str, rows: int, ticket: str, keytabs: dict[str, Path]) -> None:
    alice = {"kerberos_principal": f"alice@{REALM}"}
    for given in ({"kerberos_keytab": str(keytabs["alice"])}, {"kerberos_cache": ticket}):
        assert HudiTable.open(trips, storage_options=alice | given).snapshot().count_rows() == rows
    with pytest.raises(StorageError, match=f"no Kerberos login by the keytab {keytabs['alice']}"):
        HudiTable.open(trips, storage_options={"kerberos_principal": "bob", "kerberos_keytab": str(keytabs["alice"])})


def test_a_delegation_token(
    secured: HdfsCluster, trips: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As YARN hands them to the executors of Spark, which have no ticket."""
    secured.command(f"token {tmp_path / 'tokens'} {SERVICE}")
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "tokens"))
    assert HudiTable.open(trips).snapshot().count_rows() == rows


def test_a_second_name_node_takes_over(
    secured: HdfsCluster, trips: str, rows: int, ticket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", ticket)
    table = HudiTable.open(trips)
    secured.command("deactivate 0")
    secured.command("activate 1")
    try:
        assert table.snapshot().count_rows() == rows
    finally:
        secured.command("deactivate 1")
        secured.command("activate 0")


def test_rights_are_those_of_the_ticket(
    secured: HdfsCluster, trips: str, keytabs: dict[str, Path], kdc: Kdc, ticket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", kdc.ticket("owner", keytabs["servers"], f"hdfs/{HOST}"))
    owner = secured.client
    owner.set_permission("/lake/trips/sf", 0o700)
    try:
        monkeypatch.setenv("KRB5CCNAME", ticket)
        # Not heeded where there is Kerberos.
        monkeypatch.setenv("HADOOP_USER_NAME", "hdfs")
        with pytest.raises(StorageError, match="Permission denied: user=alice, access=EXECUTE"):
            HudiTable.open(trips).snapshot().to_table()
    finally:
        owner.set_permission("/lake/trips/sf", 0o755)


@pytest.mark.usefixtures("trips")
def test_a_client_without_kerberos(secured: HdfsCluster) -> None:
    options = {"hadoop.security.authentication": "simple"}
    with pytest.raises(StorageError, match=r"needs hadoop\.security.authentication=kerberos, which is not set"):
        HudiTable.open(f"hdfs://127.0.0.1:{secured.ports[0]}/lake/trips", storage_options=options)


def test_a_kdc_that_is_not_found(trips: str, tmp_path: Path, kdc: Kdc, keytabs: dict[str, Path]) -> None:
    (tmp_path / "krb5.conf").write_text(kdc.settings.read_text().partition("[realms]")[0])
    fresh = kdc.ticket("fresh", keytabs["alice"], "alice")
    text = _failure(trips, KRB5_CONFIG=str(tmp_path / "krb5.conf"), KRB5CCNAME=fresh)
    assert text.endswith(f'cannot open: no Kerberos login: Cannot find KDC for realm "{REALM}"')


def test_a_machine_without_the_library(trips: str, ticket: str, tmp_path: Path) -> None:
    (tmp_path / "libgssapi_krb5.so.2").write_text("none")
    text = _failure(trips, LD_LIBRARY_PATH=str(tmp_path), KRB5CCNAME=ticket)
    assert "cannot open: Kerberos needs the system's libgssapi_krb5: install libgssapi-krb5-2 (Debian" in text


def _failure(uri: str, **variables: str) -> str:
    """The last line of a process that cannot read the table."""
    command = (sys.executable, "-c", COUNTING, uri)
    done = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stdout
    return done.stderr.splitlines()[-1]
