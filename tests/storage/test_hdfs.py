"""``hdfs://`` and ``viewfs://``, with what stands for the client; ``tests/integration`` has clusters."""

import errno
import os
import pickle
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import polars as pl
import pytest

from hudi_bridge import HudiTable, QueryError, RealtimeFileSplit, StorageError, TableNotFoundError, open_reader
from hudi_bridge.catalogs.tables import registered_table
from hudi_bridge.cli.main import run
from hudi_bridge.common.imports import how_to_install
from hudi_bridge.connectors.duckdb import attach, attach_all
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.polars import scan
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.storage.hdfs import HdfsHandler, HdfsReader
from hudi_bridge.storage.storage import Storage
from tests.support.counting_files import CountingFileSystem
from tests.support.golden_cases import golden_table
from tests.support.local_hdfs import LocalHdfs, PanicError, local_hdfs
from tests.support.strength import one_in
from tests.support.table_writer import TableWriter, at, sorted_column

NAMES = ("trips", "a b", "x;y", "what?", "#1", "100%", "a%20b", "é", "a:b", "a@b", "a+b&c=d")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalHdfs]:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "0.3")
    with local_hdfs(tmp_path / "files", monkeypatch) as cluster:
        yield cluster


def write(cluster: LocalHdfs, path: str) -> None:
    writer = TableWriter(folder=cluster.local(path)).create()
    writer.base_file(at(1), [{"id": "a", "ts": 1, "value": "x"}, {"id": "b", "ts": 1, "value": "y"}])
    writer.commit(at(1))
    writer.log_file(at(2), [writer.data_block(at(2), [{"id": "b", "ts": 2, "value": "z"}])])
    writer.commit(at(2))


def values(table: HudiTable) -> list[Any]:
    return sorted_column(table.snapshot().to_table(), "value")


@pytest.mark.parametrize("name", one_in(4, NAMES))
def test_tables_of_any_name(cluster: LocalHdfs, name: str) -> None:
    write(cluster, f"/lake/{name}")
    table = HudiTable.open(f"{cluster.uri}/lake/{quote(name)}")
    assert values(table) == values(pickle.loads(pickle.dumps(table))) == ["x", "z"]
    (split,) = table.splits()
    for carried in (pickle.loads(pickle.dumps(split)), RealtimeFileSplit.from_json(split.to_json())):
        assert open_reader(carried).to_table().num_rows == 2
    # As Hadoop and catalogs name it, nothing is escaped.
    actual = registered_table(
        "t", f"{cluster.uri}/lake/{name}", "org.apache.hudi.hadoop.HoodieParquetInputFormat", {}, {}
    )
    assert actual is not None
    assert values(HudiTable.open(actual.location)) == ["x", "z"]
    lake = Storage.open(f"{cluster.uri}/lake")
    assert [info.path for info in lake.list_directory("")] == [name]
    assert values(HudiTable.open(lake.child(name).table_path)) == ["x", "z"]


def test_the_root_is_a_lake(cluster: LocalHdfs) -> None:
    write(cluster, "/trips")
    lake = Storage.open(f"{cluster.uri}/")
    assert [(info.path, info.is_dir) for info in lake.list_directory("")] == [("trips", True)]
    properties = lake.child("trips").list_directory(".hoodie")
    assert {info.path: info.size_bytes for info in properties}[".hoodie/hoodie.properties"] > 0


def test_listings_have_sizes_and_times(cluster: LocalHdfs) -> None:
    write(cluster, "/trips")
    properties = cluster.local("/trips/.hoodie/hoodie.properties")
    os.utime(properties, (1_700_000_000, 1_700_000_000))
    filesystem = Storage.open(f"{cluster.uri}/trips").filesystem
    info = filesystem.get_file_info("/trips/.hoodie/hoodie.properties")
    assert (info.size, info.mtime_ns) == (properties.stat().st_size, 1_700_000_000_000_000_000)


def test_what_is_missing_or_of_another_kind(cluster: LocalHdfs) -> None:
    write(cluster, "/trips")
    storage = Storage.open(f"{cluster.uri}/trips")
    assert storage.list_directory("missing") == ()
    assert not storage.exists("missing")
    for path in ("missing", "missing/file"):
        with pytest.raises(FileNotFoundError):
            storage.read_bytes(path)
    with pytest.raises(StorageError, match="Not a directory"):
        storage.list_directory(".hoodie/hoodie.properties")
    with pytest.raises(StorageError, match="Is a directory"):
        storage.read_bytes(".hoodie")
    with pytest.raises(TableNotFoundError, match="no such folder"):
        HudiTable.open(f"{cluster.uri}/missing")


def test_as_many_requests_as_for_any_other_store(cluster: LocalHdfs) -> None:
    folder = golden_table("h_all_indexes_120")
    counting = CountingFileSystem()
    cluster.folder = folder.parent
    opened = (HudiTable.open(str(folder), counting), HudiTable.open(f"{cluster.uri}/{folder.name}"))
    for _ in range(2):
        requests = counting.reset()
        cluster.calls.clear()
        rows = [sorted_column(table.snapshot().to_table(), "_hoodie_record_key") for table in opened]
        assert rows[0] == rows[1]
        assert 0 < cluster.calls["read_range"] == requests.reads + requests.other_reads
        assert cluster.calls["list_status"] == requests.listings
        # The blocks of a file are asked for once, for all ranges.
        assert cluster.calls["read"] <= cluster.calls["read_range"]


def test_tables_of_a_cluster_share_one_client(cluster: LocalHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        write(cluster, f"/{name}")
    tables = [HudiTable.open(f"{cluster.uri}/{name}") for name in ("a", "b", "a")]
    assert [values(table) for table in tables] == [["x", "z"]] * 3
    assert len(cluster.clients) == 1
    for number, variable in enumerate(("HADOOP_USER_NAME", "KRB5CCNAME"), start=2):
        monkeypatch.setenv(variable, "another")
        assert values(HudiTable.open(f"{cluster.uri}/a")) == ["x", "z"]
        assert len(cluster.clients) == number


SITE = """<?xml version="1.0"?><!-- Hadoop's -->
<configuration xmlns:xi="http://www.w3.org/2001/XInclude">
  <property><name>fs.defaultFS</name><value>hdfs://Prod</value><final>true</final></property>
  <property><name>dfs.nameservices</name><value>Prod, other</value></property>
  <property><name>dfs.ha.namenodes.Prod</name><value>nn1, nn2</value></property>
  <property><name>port</name><value>{port}</value></property>
  <property><name>dfs.namenode.rpc-address.Prod.nn1</name><value>127.0.0.1:{refused}</value></property>
  <property><name>dfs.namenode.rpc-address.Prod.nn2</name><value> 127.0.0.1:${{port}} </value></property>
  <property><name>dfs.client.failover.proxy.provider.Prod</name><value>Observers</value></property>
  <property><name>loop</name><value>${{loop}}</value></property>
  <property><name>empty</name><value/></property>
  <xi:include href="mounts.xml"/>
  <xi:include href="missing.xml"><xi:fallback/></xi:include>
</configuration>
"""
MOUNTS = """<configuration>
  <property><name>fs.viewfs.mounttable.Cluster.link./data/hudi</name><value>hdfs://Prod/lake</value></property>
  <property><name>fs.viewfs.mounttable.Cluster.link./memory</name><value>memory://elsewhere/</value></property>
  <property><name>fs.viewfs.mounttable.default.linkFallback</name><value>hdfs:///lake/</value></property>
</configuration>
"""


@pytest.fixture
def settings(cluster: LocalHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "conf"
    folder.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        refused = free.getsockname()[1]
    (folder / "core-site.xml").write_text(SITE.format(port=cluster.port, refused=refused))
    (folder / "mounts.xml").write_text(MOUNTS)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    write(cluster, "/lake/trips")
    return folder


@pytest.mark.usefixtures("settings")
def test_name_services_of_the_machine(cluster: LocalHdfs) -> None:
    for uri in ("hdfs://Prod/lake/trips", "hdfs:///lake/trips"):
        assert values(HudiTable.open(uri)) == ["x", "z"]
    # A client ends with the last table that uses it.
    url, config, kerberos = cluster.clients[0]
    assert (url, kerberos) == ("hdfs://Prod", {})
    # The NameNode that listens is asked first.
    assert config["dfs.ha.namenodes.Prod"] == "nn0,nn1"
    assert config["dfs.namenode.rpc-address.Prod.nn0"] == f"127.0.0.1:{cluster.port}"
    assert config["dfs.client.failover.proxy.provider.Prod"] == "Observers"
    assert config["dfs.client.failover.max.attempts"] == "4"
    assert config["loop"] == "${loop}"


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("hdfs://other/t", r"dfs\.namenode\.rpc-address\.other is not set \(settings of "),
        ("hdfs://me@Prod/t", "HADOOP_USER_NAME names the user"),
        ("hdfs://Prod/a?b", "expected %3F"),
        ("hdfs://Prod/a#b", "expected %23"),
        ("viewfs://Cluster/data", "links lie below the folder: name one of /data/hudi"),
        ("viewfs://Cluster/else", r"no link .* leads to /else, expected one below /data/hudi, /memory"),
        ("viewfs://nowhere/t", r"expected fs\.viewfs\.mounttable\.nowhere\.link\.PATH to be set"),
    ],
)
def test_uris_that_name_nothing(uri: str, message: str) -> None:
    with pytest.raises(TableNotFoundError, match=message) as caught:
        HudiTable.open(uri)
    assert "me@" not in str(caught.value)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("uri", ["viewfs://Cluster/data/hudi/trips", "viewfs:///trips", "VIEWFS:///trips"])
def test_links_of_viewfs(uri: str) -> None:
    table = HudiTable.open(uri)
    assert values(table) == ["x", "z"]
    assert table.path == uri
    (split,) = pickle.loads(pickle.dumps(table.splits()))
    assert open_reader(split).to_table().num_rows == 2


@pytest.mark.usefixtures("settings")
def test_a_link_of_viewfs_to_another_store() -> None:
    assert Storage.open("viewfs://Cluster/memory/a%20b").root == "/elsewhere/a b"


@pytest.mark.usefixtures("settings")
def test_options_go_before_the_machine(cluster: LocalHdfs) -> None:
    # In lower case, as Spark hands them over.
    given = {
        "dfs.ha.namenodes.prod": "only",
        "dfs.namenode.rpc-address.prod.only": f"127.0.0.1:{cluster.port}",
        "dfs.client.failover.random.order.prod": True,
        "dfs.client.socket-timeout": 5000,
        "kerberos_principal": "me@REALM",
    }
    table = HudiTable.open("hdfs://Prod/lake/trips", storage_options=given)
    assert values(table) == values(pickle.loads(pickle.dumps(table))) == ["x", "z"]
    ((url, config, kerberos),) = cluster.clients
    assert (url, config["dfs.ha.namenodes.Prod"], kerberos) == (
        "hdfs://Prod",
        "nn0",
        {"kerberos_principal": "me@REALM"},
    )
    assert config["dfs.client.failover.random.order.Prod"] == "true"
    assert config["dfs.client.socket-timeout"] == "5000"
    assert "REALM" not in repr(table) + repr(table.storage) + repr(table.splits())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"user": "x"}, "found 'user', expected kerberos_principal, .*config_dir, or a property of Hadoop"),
        ({"dfs.nameservices": ["s3cr3t"]}, "another value of dfs.nameservices, expected a text"),
        ({"config_dir": "/nowhere"}, "a folder with core-site.xml or hdfs-site.xml"),
    ],
)
def test_wrong_options(cluster: LocalHdfs, options: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message) as caught:
        HudiTable.open(f"{cluster.uri}/t", storage_options=options)
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<configuration><property>", "core-site.xml: found no element.*, expected settings of Hadoop as XML"),
        (SITE.replace("mounts.xml", "gone.xml"), "core-site.xml: includes .*gone.xml, which does not exist"),
    ],
)
def test_damaged_settings(settings: Path, text: str, message: str) -> None:
    (settings / "core-site.xml").write_text(text)
    with pytest.raises(TableNotFoundError, match=message):
        HudiTable.open("hdfs://Prod/lake/trips")


@pytest.mark.usefixtures("cluster")
def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        refused = free.getsockname()[1]
    with pytest.raises(StorageError, match=f"127.0.0.1:{refused}: Connection refused") as caught:
        HudiTable.open(f"hdfs://127.0.0.1:{refused}/t")
    assert caught.value.errno == errno.ECONNREFUSED
    with pytest.raises(StorageError, match=r"no-host\.invalid is no name service of the settings, nor a host"):
        HudiTable.open("hdfs://no-host.invalid/t")


def rpc(java: str, text: str) -> RuntimeError:
    """As hdfs-native raises what a NameNode has said."""
    return RuntimeError(f'RPCError("{java}", "{text}\\n\\tat org.apache.hadoop.hdfs.Server.run(Server.java:1)\\n")')


DENIED = 'Permission denied: user=alice, access=READ, inode=\\"/trips\\":root:supergroup:drwx------'
NODE = 'DatanodeInfoProto { id: DatanodeIdProto { ip_addr: \\"10.0.0.7\\", host_name: \\"d7\\", xfer_port: 9866 } }'
GENERAL = "Unspecified GSS failure.  Minor code may provide more"
ERRORS: tuple[tuple[BaseException, str, int], ...] = (
    (rpc("org.apache.hadoop.security.AccessControlException", DENIED), DENIED.replace("\\", ""), errno.EACCES),
    (rpc("org.apache.hadoop.ipc.StandbyException", "READ is not supported"), "READ is not supported", errno.EBUSY),
    (rpc("java.io.IOException", "odd"), "odd", errno.EIO),
    (
        RuntimeError(f'DataTransferError("All DataNodes failed: [{NODE}]")'),
        "no DataNode .*: 10.0.0.7:9866",
        errno.EBUSY,
    ),
    (RuntimeError('DataTransferError("All DataNodes failed: []")'), "no DataNode has a block of it", errno.EBUSY),
    (RuntimeError('SASLError("no ticket")'), "no ticket", errno.EACCES),
    (RuntimeError("NoSASLMechanism"), "NoSASLMechanism", errno.EACCES),
    (
        RuntimeError(f'GSSAPIError(GssMajorCodes {{ raw: "0x000d0000" }}, 5, "{GENERAL} information: Ticket expired")'),
        "no Kerberos login: Ticket expired; run kinit, or renew the ticket that KRB5CCNAME names$",
        errno.EACCES,
    ),
    (
        RuntimeError('GSSAPIError(GssMajorCodes { raw: "7" }, 5, "No Kerberos credentials available (FILE:/tmp/x)")'),
        r"no Kerberos login: No Kerberos credentials available \(FILE:/tmp/x\); run kinit",
        errno.EACCES,
    ),
    (
        RuntimeError(f'GSSAPIError(GSS_S_FAILURE, 5, "{GENERAL} information: Cannot find KDC for realm \\"R\\"")'),
        'no Kerberos login: Cannot find KDC for realm "R"$',
        errno.EACCES,
    ),
    (
        RuntimeError('OperationFailed("Failed to load libgssapi_krb")'),
        "Kerberos needs the system's libgssapi_krb5: install libgssapi-krb5-2",
        errno.ENOTSUP,
    ),
    (NotImplementedError("RS-legacy"), "hdfs-native does not support RS-legacy", errno.ENOTSUP),
    (OSError("Connection refused (os error 111)"), "Connection refused", errno.ECONNREFUSED),
    (
        OSError("RPC listener disconnected"),
        "RPC listener disconnected; a cluster with Kerberos needs hadoop.security.authentication=kerberos",
        errno.ECONNABORTED,
    ),
    (OSError("broken"), "broken", errno.ECONNABORTED),
    (PanicError("index out of bounds"), "index out of bounds", errno.EIO),
)


@pytest.mark.parametrize(("error", "message", "number"), ERRORS)
def test_errors_of_the_client_are_of_one_line(
    cluster: LocalHdfs, error: BaseException, message: str, number: int
) -> None:
    write(cluster, "/trips")
    cluster.failures += [error] * 40
    with pytest.raises(StorageError, match=message) as caught:
        Storage.open(f"{cluster.uri}/trips").list_directory("")
    assert caught.value.errno == number
    assert str(caught.value).startswith(f"{cluster.uri}/trips: cannot list: ")
    assert "Server.java" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kerberos_keytab": "/nowhere"}, "no Kerberos login by the keytab /nowhere: no such file$"),
        ({"kerberos_keytab": __file__}, f"no Kerberos login by the keytab {__file__}: No credentials cache$"),
    ],
)
def test_a_login_by_a_keytab_that_fails(cluster: LocalHdfs, given: dict[str, str], message: str) -> None:
    options = {"hadoop.security.authentication": "kerberos", "kerberos_principal": "me", **given}
    cluster.failures += [RuntimeError('GSSAPIError(GSS_S_NO_CRED, 5, "No credentials cache")')]
    with pytest.raises(StorageError, match=message):
        HudiTable.open(f"{cluster.uri}/t", storage_options=options)


def test_settings_of_a_client_with_kerberos(cluster: LocalHdfs) -> None:
    write(cluster, "/trips")
    protection = "dfs.data.transfer.protection"
    for options, expected in (
        ({}, None),
        ({"hadoop.security.authentication": "simple"}, None),
        ({"hadoop.security.authentication": "kerberos"}, "authentication"),
        ({"hadoop.security.authentication": "kerberos", protection: "privacy"}, "privacy"),
    ):
        assert values(HudiTable.open(f"{cluster.uri}/trips", storage_options=options)) == ["x", "z"]
        assert cluster.clients[-1][1].get(protection) == expected
    # A connection that ends is not for want of a ticket where one is shown.
    cluster.failures += [OSError("RPC listener disconnected")] * 40
    with pytest.raises(StorageError, match=r"RPC listener disconnected$"):
        HudiTable.open(f"{cluster.uri}/t", storage_options={"hadoop.security.authentication": "kerberos"})


def test_what_passes_is_asked_for_again(cluster: LocalHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "5")
    write(cluster, "/trips")
    table = HudiTable.open(f"{cluster.uri}/trips")
    cluster.failures += [rpc("org.apache.hadoop.ipc.StandbyException", "standby"), OSError("broken (os error 104)")]
    assert values(table) == ["x", "z"]


def test_a_file_that_a_writer_has_open(cluster: LocalHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.folder.mkdir()
    cluster.local("/file").write_bytes(b"0123456789")
    cluster.open_for_writing["/file"] = 4
    storage = Storage.open(f"{cluster.uri}/")
    with pytest.raises(StorageError, match="a writer has it open: 4 of its 10 bytes can be read"):
        storage.read_bytes("file")
    monkeypatch.setenv("HUDI_BRIDGE_STORE_RETRY_SECONDS", "5")
    file = storage.open_ranges("file", 10)
    assert file.read_range(0, 4).to_pybytes() == b"0123"
    cluster.open_for_writing.clear()
    assert file.read_range(2, 8).to_pybytes() == b"23456789"


def test_no_byte_after_the_end_is_asked_for(cluster: LocalHdfs) -> None:
    cluster.folder.mkdir()
    cluster.local("/file").write_bytes(b"0123456789")
    handler: Any = Storage.open(f"{cluster.uri}/").filesystem.handler  # type: ignore[attr-defined]
    assert isinstance(handler, HdfsHandler)
    reader: HdfsReader = handler.reader("file")
    assert [reader.read_range(8, 5), reader.read_range(10, 5), reader.read_range(99, 5)] == [b"89", b"", b""]
    with pytest.raises(StorageError, match="it ends before its 12 bytes"):
        Storage.open(f"{cluster.uri}/").read_buffer("file", 12)


def test_a_client_that_does_not_answer_is_replaced(cluster: LocalHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    write(cluster, "/trips")
    storage = Storage.open(f"{cluster.uri}/trips")
    client: Any = storage.filesystem.handler._client  # type: ignore[attr-defined]
    with client.call("/trips"):
        storage.list_directory("")
        assert len(cluster.clients) == 1
        monkeypatch.setenv("HUDI_BRIDGE_STORE_TIMEOUT", "0.001")
        time.sleep(0.01)
        with client.call("/trips"):
            assert len(cluster.clients) == 2


def test_files_that_connectors_write_appear_when_they_are_whole(cluster: LocalHdfs) -> None:
    scratch = Scratch.open(f"{cluster.uri}/published")
    for content in (b"first", b"second"):
        scratch.write("v1/file", content)
        assert scratch.read("v1/file") == content
    with Storage.open(f"{cluster.uri}/").filesystem.open_output_stream("published/v1/other") as file:
        file.write(b"begun")
        assert "other" not in os.listdir(cluster.local("/published/v1"))  # noqa: PTH208
    assert sorted(scratch.names("v1")) == ["file", "other"]
    scratch.remove("v1/file")
    assert scratch.names("v1") == ("other",)


@pytest.mark.parametrize("scheme", ["hdfs", "viewfs"])
def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(TableNotFoundError) as caught:
        HudiTable.open(f"{scheme}://host:8020/trips")
    expected = f"no file system for {scheme}: {scheme}:// needs hdfs_native: {how_to_install('hdfs')}"
    assert str(caught.value) == f"{scheme}://host:8020/trips: not a Hudi table: {expected}"


def test_engines_and_commands(cluster: LocalHdfs, capfd: pytest.CaptureFixture[str]) -> None:
    write(cluster, "/lake/trips")
    uri = "hdfs://Lake/lake"
    options = {"dfs.nameservices": "Lake", "dfs.namenode.rpc-address.Lake": f"127.0.0.1:{cluster.port}"}
    with duckdb.connect() as connection:
        attach(connection, f"{uri}/trips", storage_options=options)
        assert connection.sql("SELECT value FROM trips ORDER BY 1").fetchall() == [("x",), ("z",)]
    with duckdb.connect() as connection:
        counted = attach_all(connection, uri, storage_options=options).sql("SELECT count(*) FROM lake.trips")
        assert counted is not None
        assert counted.fetchall() == [(2,)]
    frame = scan(f"{uri}/trips", storage_options=options)
    assert frame.select(pl.col("value").sort()).collect().to_series().to_list() == ["x", "z"]
    given = [f"--storage-option={name}={value}" for name, value in options.items()]
    for arguments in (("info",), ("timeline",), ("read",), ("sql", "SELECT * FROM t")):
        command, *rest = arguments
        assert run((command, f"{uri}/trips", *rest, *given)) == 0
        assert capfd.readouterr().out
    assert Roots.of([uri], [], options).table_names(("default",)) == ["trips"]
