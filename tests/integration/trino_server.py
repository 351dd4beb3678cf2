"""A Trino server on loopback, for tests: ``python -m tests.integration.trino_server`` runs one until it is interrupted.

Catalogs are created in SQL and kept in its memory. A server that is shared by several processes is started by the first
of them, which stops it once the others have finished.
"""

import fcntl
import json
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from trino.dbapi import Connection, connect

from tests.integration.trino_download import trino_home
from tests.jdks import TRINO, jdk_home

USUAL_PORT = 18080
TIMEOUT_SECONDS = 240
LOG_LINES_SHOWN = 40
LOOPBACK = "127.0.0.1"
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


class TrinoNotStartedError(Exception):
    """Raised when the server ends, or is not ready in time; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class Trino:
    """A running server; ``pid`` is that of its process, None if another process has started it."""

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
def running_server(folder: Path, port: int | None = None) -> Iterator[Trino]:
    """A server of this process, with its configuration and log in a folder.

    Raises:
        TrinoNotStartedError: it does not start.
        JdkMissingError: there is nothing to run it on.
        DownloadError: it cannot be fetched.
    """
    java = jdk_home(TRINO) / "bin" / "java"
    home = trino_home()
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
        _wait_until_ready(process, port, log)
        yield Trino(port, process.pid)
    finally:
        _stop(process)


@contextmanager
def shared_server(folder: Path) -> Iterator[Trino]:
    """A server for all processes that pass the same folder; the folder is removed at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "server.json"
    with (folder / "start").open("w") as start, (folder / "users").open("w") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        if state.exists():
            fcntl.flock(users, fcntl.LOCK_SH)
            fcntl.flock(start, fcntl.LOCK_UN)
            yield Trino(json.loads(state.read_text(encoding="utf-8"))["port"])
            return
        with running_server(folder) as trino:
            state.write_text(json.dumps({"port": trino.port}), encoding="utf-8")
            fcntl.flock(start, fcntl.LOCK_UN)
            yield trino
            _wait_for_others(start, users)
            state.unlink()
        shutil.rmtree(folder)


def _wait_for_others(start: TextIO, users: TextIO) -> None:
    """Let no further process join, and wait until those that have joined are done."""
    fcntl.flock(start, fcntl.LOCK_EX)
    fcntl.flock(users, fcntl.LOCK_EX)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        port: int = listening.getsockname()[1]
        return port


def _wait_until_ready(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise TrinoNotStartedError(f"Trino ended with status {process.returncode}:\n{_last_lines(log)}")
        if _is_ready(port):
            return
        time.sleep(0.25)
    raise TrinoNotStartedError(f"Trino was not ready after {TIMEOUT_SECONDS} s:\n{_last_lines(log)}")


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/v1/info", timeout=5) as answer:
            return not json.load(answer)["starting"]
    except OSError:
        return False


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-LOG_LINES_SHOWN:])


def _stop(process: "subprocess.Popen[bytes]") -> None:
    # Nothing of the server outlives it; its orderly end takes many seconds.
    process.kill()
    process.wait()


def main() -> None:
    """Run a server on the usual port until it is interrupted."""
    with TemporaryDirectory(prefix="hudi-bridge-trino-") as folder, running_server(Path(folder), USUAL_PORT) as trino:
        sys.stderr.write(
            f"Trino listens on http://{LOOPBACK}:{trino.port}; end it with Ctrl-C. Log: {folder}/server.log\n"
        )
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            sys.stderr.write("Trino stops.\n")


if __name__ == "__main__":
    main()
