"""Runs the catalog service in a thread of the test process, with PyIceberg as its client."""

import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.service.server import IcebergService, ServiceOptions
from tests.support.waiting import wait_for


def service_options(scratch: Path, roots: Sequence[Path], tables: Sequence[str] = (), **changes: Any) -> ServiceOptions:
    usual: dict[str, Any] = {
        "tables": Roots.of([str(root) for root in roots], list(tables)),
        "scratch": Scratch.open(str(scratch)),
        "locations": Locations(),
        "host": "127.0.0.1",
        "port": 0,
        "token": None,
        "builds": 2,
        "keep": 20,
        "keep_seconds": 3600.0,
        "watch_seconds": None,
    }
    return ServiceOptions(**usual | changes)


@contextmanager
def running(options: ServiceOptions, trusted: Path | None = None) -> Iterator[IcebergService]:
    """A service that runs during the block; ``trusted`` is the file of its certificate, if it is reached by HTTPS."""
    service = IcebergService(options)
    thread = Thread(target=service.run)
    thread.start()
    try:
        wait_until_ready(service, trusted)
        yield service
    finally:
        service.stop()
        thread.join()


def wait_until_ready(service: IcebergService, trusted: Path | None = None) -> None:
    """Wait until the service responds; until then its socket queues connections."""
    url = f"{service.url}/health"
    # Without a certificate, as tests have set it up.
    with (
        urllib.request.urlopen(url)
        if trusted is None
        else urllib.request.urlopen(url, context=ssl.create_default_context(cafile=str(trusted)))
    ) as answer:
        assert answer.status == 200


def wait_for_line(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Wait for a line of the log, which the service writes after it has answered."""
    wait_for(lambda: text in caplog.text)


def client(service: IcebergService, **properties: str) -> RestCatalog:
    return RestCatalog("test", uri=service.url, **properties)


def built_snapshots(table: Table) -> list[int]:
    """The ids of the snapshots that can be read; those of the others name files that do not exist."""
    return [
        snapshot.snapshot_id
        for snapshot in table.snapshots()
        if Path(snapshot.manifest_list).name.startswith(("snap-", "scans-"))
    ]


def rows(table: Table, **scan: Any) -> pa.Table:
    return table.scan(**scan).to_arrow()
