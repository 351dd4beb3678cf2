"""Tables whose clients get storage credentials, the service that gives them, and requests as any client makes them."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fastavro

from hudi_bridge.service.access import Access, Reader
from hudi_bridge.service.credentials import VENDED
from hudi_bridge.service.server import IcebergService, ServiceOptions
from tests.service.iceberg_service import running
from tests.support.table_writer import TableWriter, at

ACCESS = Access(tokens={"of-sales": Reader.of("sales", ["sales"]), "of-all": Reader.of("all", ["*"])})
TABLES = ("sales/orders", "hr/pay")

Serve = Callable[..., IcebergService]
"""Starts a service with some rules for credentials, which ends with the test."""


def written_tables(lake: Path) -> dict[str, TableWriter]:
    """The tables, below a folder, which have a log file each."""
    written = {}
    for location in TABLES:
        table = TableWriter(folder=lake / location).create()
        table.base_file(at(1), [{"id": key, "ts": 1, "value": location} for key in "abc"])
        table.commit(at(1))
        table.log_file(at(2), [table.data_block(at(2), [{"id": "b", "ts": 2, "value": "new"}])])
        table.commit(at(2))
        written[location] = table
    return written


def changed(usual: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A rule with other options, named with underscores; those that are changed to None are left out."""
    given = usual | {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in given.items() if value is not None}


@contextmanager
def serving(options_of: Callable[..., ServiceOptions]) -> Iterator[Serve]:
    """What starts services with the options that are made of its arguments; they end with the block."""
    with ExitStack() as started:
        yield lambda *rules, **more: started.enter_context(running(options_of(*rules, **more)))


def asked(service: IcebergService, path: str, token: str | None = "of-all", **headers: str) -> tuple[int, Any, Any]:
    """Status, content and headers of an answer below ``/v1``."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{service.url}/v1/{path}", headers=headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, json.loads(response.read()), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.status or 0, json.loads(error.read()), error.headers


def asked_for_keys(service: IcebergService, path: str = "namespaces/sales/tables/orders") -> Any:
    status, answer, _ = asked(service, path, **{"X-Iceberg-Access-Delegation": f"remote-signing, {VENDED}"})
    assert status == 200, answer
    return answer


DATA, DELETES = 0, 1


def row_ids(snapshot: dict[str, Any]) -> dict[str, range]:
    """The ids of the rows of each data file, by the rules of the specification: missing ones are inherited."""
    actual = {}
    for listed in avro(snapshot["manifest-list"])[1]:
        if listed["content"] == DATA:
            following = listed["first_row_id"]
            for entry in avro(listed["manifest_path"])[1]:
                file = entry["data_file"]
                first = file["first_row_id"]
                if first is None:
                    first, following = following, following + file["record_count"]
                actual[file["file_path"]] = range(first, first + file["record_count"])
    return actual


def avro(location: str) -> tuple[dict[str, str], Sequence[dict[str, Any]]]:
    """The header and the records of an Avro file."""
    with local(location).open("rb") as file:
        reader = fastavro.reader(file)
        return reader.metadata, list(reader)  # type: ignore[arg-type]  # they are


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))
