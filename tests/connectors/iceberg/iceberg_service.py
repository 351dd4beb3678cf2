"""Runs the catalog service in a thread of the test process, with PyIceberg as its client."""

import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from hudi_bridge.connectors.iceberg.server import IcebergService, ServiceOptions
from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.scratch import Scratch


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
def running(options: ServiceOptions) -> Iterator[IcebergService]:
    """A service that runs during the block."""
    service = IcebergService(options)
    thread = Thread(target=service.run)
    thread.start()
    try:
        wait_until_ready(service)
        yield service
    finally:
        service.stop()
        thread.join()


def wait_until_ready(service: IcebergService) -> None:
    """Wait until the service responds; until then its socket queues connections."""
    with urllib.request.urlopen(f"{service.url}/health") as answer:
        assert answer.status == 200


def client(service: IcebergService, **properties: str) -> RestCatalog:
    return RestCatalog("test", uri=service.url, **properties)


def rows(table: Table, **scan: Any) -> pa.Table:
    return table.scan(**scan).to_arrow()
