"""A real HDFS out of jars of Maven Central: two NameNodes, of which one is active, and a DataNode, on 127.0.0.1."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.maven_jar import MavenJar
from tests.integration.java_program import JavaProgram, running_java
from tests.integration.server_process import LOOPBACK

SERVER = Path(__file__).parent / "LoopbackHdfs.java"
SERVICE = "Pair"
PROVIDER = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
UPLOADS_AT_ONCE = 16
"""Most of them wait for the DataNode."""
_CALLS = "NumOps"
_OF_CLIENTS = ("GetBlockLocations", "GetFileInfo", "GetListing")
"""Calls that no server makes."""
_HADOOP = "org.apache.hadoop"
JARS = tuple(
    MavenJar(group=group, artifact=artifact, version=version, sha256=sha256)
    for group, artifact, version, sha256 in (
        (_HADOOP, "hadoop-client-api", "3.4.1", "a964d4daa054c9615bbafb4553efbb140fa7fb9ac6f358a24393f183a5703438"),
        (
            _HADOOP,
            "hadoop-client-minicluster",
            "3.4.1",
            "5b90be54a39d856f237a4530e25f62aea4b67c180c73b5cfb1aff35c502b2d29",
        ),
        (_HADOOP, "hadoop-client-runtime", "3.4.1", "f6a800a159f918670db533606d33560d6c13b7e13f14eda493280ae33b9eeb2f"),
        (
            "commons-logging",
            "commons-logging",
            "1.2",
            "daddea1ea0be0f56978ab3006b8ac92834afeefbd9b7e4e6316fca57df0fa636",
        ),
        # Of HTTP, which would be in older JDKs.
        ("javax.xml.bind", "jaxb-api", "2.3.1", "88b955a0df57880a26a74708bc34f74dcaf8ebf4e78843a28b50eae945732b06"),
        ("junit", "junit", "4.13.2", "8e495b634469d64fb8acfa3495a065cbacc8a0fff55ce1e31007be4c16dc57d3"),
        ("org.mockito", "mockito-core", "4.11.0", "4b909690cab288c761eb94c0bf0e814496cf3921d8affac84cd87774530351e5"),
        ("org.slf4j", "slf4j-api", "1.7.36", "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
        ("org.slf4j", "slf4j-nop", "1.7.36", "c214958b07816cb4412b30c7bdbd4308ffdc6ba2a83767b8f3a9229cbd9274d6"),
    )
)
LOGGING = JARS[-2:]
"""What other programs of Apache need to say nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsCluster:
    """A cluster that runs. ``settings`` is a folder with Hadoop's settings for its clients.

    ``http_port`` is that of the first NameNode, ``properties`` what clients need beside the names of NameNodes.
    """

    program: JavaProgram
    ports: tuple[int, int]
    http_port: int
    settings: Path
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def uri(self) -> str:
        """The URI of the root, by the name service."""
        return f"hdfs://{SERVICE}"

    @property
    def options(self) -> dict[str, str]:
        """The properties that name the NameNodes, and the others of clients."""
        return {**properties_of(self.ports), **self.properties}

    @property
    def client(self) -> Any:
        """A client that may write, of a package without types."""
        from hdfs_native import Client  # noqa: PLC0415 - other servers are started without it

        # Only heeded where there is Kerberos.
        protection = {"dfs.data.transfer.protection": "authentication"}
        return Client(self.uri, self.options | protection, os.devnull)

    def command(self, text: str) -> None:
        """Have the cluster do something, and wait until it is done."""
        self.program.command(text)

    def requests(self) -> "Counter[str]":
        """How many calls the first NameNode has got so far, by name, and from how many blocks the DataNode has read."""
        path = self.settings / "metrics"
        self.command(f"metrics {path}")
        values = dict(line.rsplit(" ", 1) for line in path.read_text().splitlines())
        calls = {name.removesuffix(_CALLS): int(value) for name, value in values.items() if name.endswith(_CALLS)}
        return Counter({name: calls.get(name, 0) for name in _OF_CLIENTS} | {"BlocksRead": int(values["BlocksRead"])})

    def put(self, folder: Path, path: str) -> str:
        """Upload a folder; returns its URI."""
        client = self.client
        files = [file for file in folder.rglob("*") if file.is_file()]
        for parent in {file.parent for file in files}:
            client.mkdirs(f"{path}/{parent.relative_to(folder).as_posix()}", create_parent=True)
        with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
            list(
                pool.map(
                    lambda file: self.write(f"{path}/{file.relative_to(folder).as_posix()}", file.read_bytes(), client),
                    files,
                )
            )
        return f"{self.uri}{path}"

    def write(self, path: str, content: bytes, client: Any = None) -> None:
        """Write a new file."""
        with (client or self.client).create(path) as file:
            if content:
                file.write(content)


def properties_of(ports: tuple[int, ...]) -> dict[str, str]:
    """The properties for NameNodes on these ports."""
    names = [f"nn{number}" for number in range(len(ports))]
    return {
        "dfs.nameservices": SERVICE,
        f"dfs.ha.namenodes.{SERVICE}": ", ".join(names),
        f"dfs.client.failover.proxy.provider.{SERVICE}": PROVIDER,
    } | {
        f"dfs.namenode.rpc-address.{SERVICE}.{name}": f"{LOOPBACK}:{port}"
        for name, port in zip(names, ports, strict=True)
    }


def write_settings(folder: Path, properties: dict[str, str]) -> None:
    """Write the file that Hadoop's clients read."""
    folder.mkdir(exist_ok=True)
    texts = (f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items())
    (folder / "core-site.xml").write_text(f"<configuration>{''.join(texts)}</configuration>")


@contextmanager
def running_hdfs(
    folder: Path,
    of_servers: Mapping[str, str] | None = None,
    of_clients: Mapping[str, str] | None = None,
    *options: str,
) -> Iterator[HdfsCluster]:
    """A cluster whose files, settings and log are in a folder, with properties; ``options`` are those of its JVM."""
    properties = [f"{name}={value}" for name, value in (of_servers or {}).items()]
    arguments = [str(folder / "files"), *properties]
    with running_java(SERVER, arguments, JARS, folder / "cluster.log", "-Xmx512m", *options) as program:
        first, second, http = map(int, program.ready)
        cluster = HdfsCluster(
            program=program,
            ports=(first, second),
            http_port=http,
            settings=folder / "conf",
            properties=of_clients or {},
        )
        write_settings(cluster.settings, {"fs.defaultFS": cluster.uri, **cluster.options})
        yield cluster
