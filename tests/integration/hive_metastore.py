"""A real Hive metastore, out of the jars of PySpark 3.5, and Hudi's own sync that registers tables in it."""

import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from benchmarks.hudi_bundle import hudi_bundle
from tests.connectors.spark.processes import JVM_OPTIONS, PYTHON35
from tests.integration.server_process import LOOPBACK, TIMEOUT_SECONDS
from tests.support.jdks import SPARK35, jdk_home

SETTINGS = {
    "javax.jdo.option.ConnectionURL": "jdbc:derby:memory:metastore;create=true",
    "datanucleus.schema.autoCreateAll": "true",
    "hive.metastore.schema.verification": "false",
    "hive.async.log.enabled": "false",
}
KEY_STORE_PASSWORD = "password"
SERVER = Path(__file__).parent / "LoopbackMetastore.java"


@contextmanager
def running_metastore(
    folder: Path, protections: Sequence[str] = (), properties: Mapping[str, str] | None = None, *options: str
) -> Iterator[list[str]]:
    """The URIs of a metastore, which keeps what it has in memory; ``folder`` is for its settings and its log.

    The first is without a login, and there is one more for each of the ``protections``, as LoopbackMetastore takes
    them. ``options`` are those of its JVM.
    """
    warehouse = {"hive.metastore.warehouse.dir": str(folder / "warehouse")}
    texts = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in (SETTINGS | warehouse | dict(properties or {})).items()
    )
    for name in ("core-site.xml", "hive-site.xml"):
        (folder / name).write_text(f"<configuration>{texts}</configuration>")
    ports = _free_ports(1 + len(protections))
    arguments = [
        ":".join((str(port), *filter(None, (of,)))) for port, of in zip(ports, ("", *protections), strict=True)
    ]
    log = folder / "metastore.log"
    command = [*_java(str(folder), str(_jars())), *options, str(SERVER), *arguments]
    with log.open("wb") as output, subprocess.Popen(command, cwd=folder, stdout=output, stderr=output) as process:
        try:
            for port in ports:
                _wait(process, port, log)
            yield [f"hive://{LOOPBACK}:{port}" for port in ports]
        finally:
            process.kill()


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(number)]
        return [server.getsockname()[1] for server in servers]


def sync(table: Path, uri: str, database: str, name: str, partition_field: str) -> None:
    """Have Hudi register a table, as its writers do with ``hoodie.datasource.hive_sync.mode=hms``."""
    options = {
        "sync-mode": "hms",
        "metastore-uris": uri.replace("hive://", "thrift://"),
        "base-path": str(table),
        "database": database,
        "table": name,
        "partitioned-by": partition_field,
        "partition-value-extractor": "org.apache.hudi.hive.MultiPartKeysValueExtractor",
    }
    arguments = [text for option, value in options.items() for text in (f"--{option}", value)]
    command = [*_java(str(_jars()), str(hudi_bundle())), "org.apache.hudi.hive.HiveSyncTool", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]


def _java(*places: str) -> list[str]:
    return [str(jdk_home(SPARK35) / "bin" / "java"), *JVM_OPTIONS.split(), "-cp", os.pathsep.join(places)]


def _jars() -> Path:
    (packages,) = (PYTHON35.parents[1] / "lib").glob("python3*/site-packages")
    return packages / "pyspark" / "jars" / "*"


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    for _ in range(TIMEOUT_SECONDS):
        with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
            return
        with suppress(subprocess.TimeoutExpired):
            process.wait(1)
            break
    raise AssertionError(f"the metastore has not started: {log.read_text(errors='replace')[-4000:]}")
