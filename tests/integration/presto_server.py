"""A Presto server for tests: ``python -m tests.integration.presto_server`` runs one until it is interrupted.

It listens in a network of its own, since some of its ports are open to every address whatever its configuration says;
its HTTP port can be reached on loopback. Catalogs are fixed: ``hive``, ``hudi`` over the same metastore, ``iceberg``
with a metastore, and ``iceberg_hadoop``, whose tables are folders.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.integration import presto_download
from tests.integration.own_network import NoOwnNetworkError, started_in_own_network, way_into_own_network
from tests.integration.presto_client import PrestoQueryError, presto_rows
from tests.integration.server_process import (
    LOOPBACK,
    ServerNotStartedError,
    run_until_interrupted,
    shared,
    stop,
    wait_until_ready,
)
from tests.support.jdks import PRESTO, jdk_home

USUAL_PORT = 18081
PORT_WITHIN = 8080
PID_FILE = "server.pid"
CATALOG_TIMEOUT_SECONDS = 60
CONFIG = """\
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery-server.enabled=true
discovery.uri=http://{address}:{port}
query.max-memory=1GB
query.max-memory-per-node=1GB
query.max-total-memory-per-node=1GB
memory.heap-headroom-per-node=512MB
"""
JVM_OPTIONS = (
    "-server",
    "-Xmx2G",
    "-XX:+UseG1GC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=256M",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
)


class PrestoNotStartedError(ServerNotStartedError):
    """Raised where the server cannot be run apart from the network; the message says what was tried."""


@dataclass(frozen=True, slots=True)
class Presto:
    """A running server, with its metastores and tables in a folder; ``pid`` is that of its process."""

    folder: Path
    port: int
    pid: int | None = None

    @classmethod
    def of_another_terminal(cls, folder: Path, port: int) -> "Presto":
        """The server of ``make presto``, which says what its folder is."""
        return cls(folder, port, int((folder / PID_FILE).read_text(encoding="ascii")))

    @property
    def warehouse(self) -> Path:
        """The folder of the catalog ``iceberg_hadoop``: a table is ``SCHEMA/NAME`` below it."""
        return self.folder / "warehouse"

    def query(self, sql: str) -> list[Any]:
        """The rows of one statement; timestamps have milliseconds.

        Raises:
            PrestoQueryError: it is refused, or fails.
        """
        deadline = time.monotonic() + CATALOG_TIMEOUT_SECONDS
        while True:
            try:
                return presto_rows(f"http://{LOOPBACK}:{self.port}", sql)
            except PrestoQueryError as error:
                # For some seconds after its start, the server has not found itself as a worker for all catalogs.
                if error.error_name != "NO_NODES_AVAILABLE" or time.monotonic() > deadline:
                    raise
            time.sleep(0.5)


def catalogs(folder: Path) -> dict[str, dict[str, str]]:
    """The properties of the catalogs, by name, for metastores and a warehouse in a folder."""
    metastore = {"hive.metastore": "file", "hive.metastore.catalog.dir": (folder / "metastore").as_uri()}
    return {
        "hive": {
            "connector.name": "hive-hadoop2",
            **metastore,
            "hive.recursive-directories": "true",
            "hive.non-managed-table-writes-enabled": "true",
            "hive.allow-drop-table": "true",
            "hive.security": "legacy",
            # Presto finds columns by their position in the file otherwise.
            "hive.parquet.use-column-names": "true",
        },
        "hudi": {"connector.name": "hudi", **metastore},
        "iceberg": {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "hive",
            "hive.metastore": "file",
            "hive.metastore.catalog.dir": (folder / "iceberg-metastore").as_uri(),
        },
        "iceberg_hadoop": {
            "connector.name": "iceberg",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": (folder / "warehouse").as_uri(),
        },
    }


@contextmanager
def running_server(folder: Path, port: int = 0) -> Iterator[Presto]:
    """A server of this process, with its configuration, catalogs and log in a folder; any free port if none is given.

    Raises:
        PrestoNotStartedError: it cannot be run apart from the network.
        ServerNotStartedError: it does not start.
        JdkMissingError: there is nothing to run it on.
        DownloadError: it cannot be fetched.
    """
    try:
        way = way_into_own_network()
    except NoOwnNetworkError as error:
        raise PrestoNotStartedError(f"Presto is run in a network of its own only: {error}") from error
    java = jdk_home(PRESTO) / "bin" / "java"
    home = presto_download.ARCHIVE.home()
    folder = folder.resolve()
    _write_configuration(folder)
    properties = {
        "node.environment": "test",
        "node.id": "hudi-bridge",
        "node.data-dir": folder / "var",
        "node.bind-ip": LOOPBACK,
        "node.internal-address": LOOPBACK,
        "plugin.dir": home / "plugin",
        "config": folder / "etc" / "config.properties",
        "catalog.config-dir": folder / "etc" / "catalog",
        "log.levels-file": folder / "etc" / "log.properties",
    }
    settings = (f"-D{name}={value}" for name, value in properties.items())
    command = [
        str(java),
        *JVM_OPTIONS,
        *settings,
        "-cp",
        f"{home / 'lib'}/*",
        "com.facebook.presto.server.PrestoServer",
    ]
    log = folder / "server.log"
    with socket.create_server((LOOPBACK, port)) as listener, log.open("wb") as output:
        reached_at: int = listener.getsockname()[1]
        process = started_in_own_network(way, command, PORT_WITHIN, listener, folder, output)
    (folder / PID_FILE).write_text(str(process.pid), encoding="ascii")
    try:
        wait_until_ready("Presto", process, reached_at, log)
        yield Presto(folder, reached_at, process.pid)
    finally:
        stop(process)


def _write_configuration(folder: Path) -> None:
    (folder / "etc" / "catalog").mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(address=LOOPBACK, port=PORT_WITHIN)
    (folder / "etc" / "config.properties").write_text(config, encoding="utf-8")
    (folder / "etc" / "log.properties").write_text("com.facebook.presto=INFO\n", encoding="utf-8")
    for name, properties in catalogs(folder).items():
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        (folder / "etc" / "catalog" / f"{name}.properties").write_text(lines, encoding="utf-8")
    (folder / "warehouse").mkdir(exist_ok=True)


@contextmanager
def shared_server(folder: Path) -> Iterator[Presto]:
    """A server for all processes that pass the same folder; the folder is removed at the end."""
    with shared(folder, running_server, partial(Presto, folder.resolve())) as presto:
        yield presto


def _about(presto: Presto) -> str:
    return f"For tests: PRESTO_PORT={presto.port} PRESTO_FOLDER={presto.folder}\n"


def main() -> None:
    """Run a server on the usual port until it is interrupted."""
    run_until_interrupted("Presto", running_server, USUAL_PORT, _about)


if __name__ == "__main__":
    main()
