"""A Trino server on loopback, for tests: ``python -m tests.integration.trino_server`` runs one until it is interrupted.

Catalogs are created in SQL and kept in its memory.
"""

import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trino.dbapi import Connection, connect

from tests.integration import trino_download
from tests.integration.server_process import LOOPBACK, run_until_interrupted, shared, stop, wait_until_ready
from tests.support.jdks import TRINO, jdk_home

USUAL_PORT = 18080
CONFIG = """\
node.environment=test
node.id=hudi-bridge
node.bind-ip={address}
node.internal-address={address}
coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port={port}
discovery.uri=http://{address}:{port}
query.max-memory=512MB
query.max-memory-per-node=512MB
memory.heap-headroom-per-node=256MB
catalog.management=dynamic
catalog.store=memory
plugin.dir={plugins}
"""
JVM_OPTIONS = (
    "-server",
    "-Xmx1G",
    "-XX:+UseG1GC",
    "-XX:+ExitOnOutOfMemoryError",
    "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=256M",
    "-XX:-OmitStackTraceInFastThrow",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djdk.nio.maxCachedBufferSize=2000000",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
    "-XX:+EnableDynamicAgentLoading",
    "--enable-native-access=ALL-UNNAMED",
    "--sun-misc-unsafe-memory-access=allow",
    "--add-modules=jdk.incubator.vector",
)


@dataclass(frozen=True, slots=True)
class Trino:
    """A running server; ``pid`` is that of its process, None if that is not known."""

    port: int
    pid: int | None = None

    def connect(self) -> Connection:
        """A connection in the time zone UTC; the caller closes it."""
        connection: Connection = connect(  # type: ignore[no-untyped-call]  # the client's is not typed
            host=LOOPBACK, port=self.port, user="test", timezone="UTC"
        )
        return connection

    def query(self, sql: str) -> list[Any]:
        """The rows of one statement."""
        with closing(self.connect()) as connection:
            rows: list[Any] = connection.cursor().execute(sql).fetchall()
        return rows

    @contextmanager
    def catalog(self, name: str, connector: str, properties: Mapping[str, str]) -> Iterator[str]:
        """A catalog that is dropped after the block."""
        settings = ", ".join(f'"{key}" = {_literal(value)}' for key, value in properties.items())
        self.query(f"CREATE CATALOG {name} USING {connector} WITH ({settings})")
        try:
            yield name
        finally:
            self.query(f"DROP CATALOG {name}")


def _literal(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


@contextmanager
def running_server(folder: Path, port: int | None = None, jvm: Sequence[str] = ()) -> Iterator[Trino]:
    """A server of this process, with its configuration and log in a folder; ``jvm`` are further options of Java.

    Raises:
        ServerNotStartedError: it does not start.
        JdkMissingError: there is nothing to run it on.
        DownloadError: it cannot be fetched.
    """
    java = jdk_home(TRINO) / "bin" / "java"
    home = trino_download.ARCHIVE.home()
    port = port or _free_port()
    folder.mkdir(parents=True, exist_ok=True)
    config = CONFIG.format(address=LOOPBACK, port=port, plugins=home / "plugin")
    (folder / "config.properties").write_text(config, encoding="utf-8")
    (folder / "log.properties").write_text("io.trino=INFO\n", encoding="utf-8")
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [
                java,
                *JVM_OPTIONS,
                *jvm,
                f"-Dconfig={folder / 'config.properties'}",
                f"-Dlog.levels-file={folder / 'log.properties'}",
                "-cp",
                f"{home / 'lib'}/*",
                "io.trino.server.TrinoServer",
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until_ready("Trino", process, port, log)
        yield Trino(port, process.pid)
    finally:
        stop(process)


@contextmanager
def shared_server(folder: Path) -> Iterator[Trino]:
    """A server for all processes that pass the same folder; the folder is removed at the end."""
    with shared(folder, running_server, Trino) as trino:
        yield trino


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        port: int = listening.getsockname()[1]
        return port


def main() -> None:
    """Run a server on the usual port until it is interrupted."""
    run_until_interrupted("Trino", running_server, USUAL_PORT, lambda _: "")


if __name__ == "__main__":
    main()
