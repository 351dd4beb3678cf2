"""Replicas of an Iceberg service that share a scratch folder."""

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table
from requests import ConnectionError as NoAnswerError

from hudi_bridge.connectors.iceberg.compatibility import FormatVersion
from hudi_bridge.service.server import IcebergService
from tests.service.iceberg_service import service_options


def serve(root: Path, scratch: Path, port: int, version: FormatVersion) -> None:
    """Run a service that keeps little for a short time."""
    settings: dict[str, Any] = {"keep": 2, "keep_seconds": 10.0, "watch_seconds": 0.3}
    IcebergService(service_options(scratch, [root], port=port, format_version=version, **settings)).run()


class Replica:
    """A service in a process of its own."""

    def __init__(self, root: Path, scratch: Path, version: FormatVersion) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._places = (root, scratch, self._port, version)
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload([__name__])
        self._process: BaseProcess
        self.start()

    def start(self) -> None:
        self._process = self._processes.Process(target=serve, args=self._places, daemon=True)
        self._process.start()

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()

    def load(self, as_of: str | None = None) -> Table:
        """The table, newest or as of an instant, as soon as the service lives."""
        name = "default.table" if as_of is None else f"default.table__at_{as_of}"
        until = time.monotonic() + 60
        while True:
            try:
                actual: Table = RestCatalog("test", uri=f"http://127.0.0.1:{self._port}").load_table(name)
            except NoAnswerError:
                assert time.monotonic() < until
                time.sleep(0.02)
            else:
                return actual


@contextmanager
def replicas(root: Path, scratch: Path, format_version: FormatVersion = FormatVersion.V2) -> Iterator[list[Replica]]:
    running = [Replica(root, scratch, format_version) for _ in range(2)]
    try:
        yield running
    finally:
        for replica in running:
            replica.kill()
