"""Trino on tables in a store that it has no key for: it reads with those that the catalog service gives it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from trino.exceptions import TrinoQueryError

from hudi_bridge.connectors.lakes.roots import Roots
from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.service.access import Access, Reader
from hudi_bridge.service.config import vending_of
from hudi_bridge.service.server import IcebergService
from tests.integration.trino_server import Trino
from tests.service.guarded_store import REGION, GuardedStore, guarded_store
from tests.service.iceberg_service import running, service_options
from tests.support.table_writer import TableWriter, at

VENDED = {"iceberg.rest-catalog.vended-credentials-enabled": "true"}
ACCESS = Access(tokens={"of-sales": Reader.of("sales", ["sales"])})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedStore]:
    """A store with a table that has an updated, a deleted and a new row."""
    table = TableWriter(folder=tmp_path_factory.mktemp("lake") / "orders").create()
    table.base_file(at(1), [{"id": key, "ts": 1, "value": "old"} for key in "abc"])
    table.commit(at(1))
    rows = [{"id": key, "ts": 2, "value": "new"} for key in "ad"]
    table.log_file(at(2), [table.data_block(at(2), rows), table.delete_block(at(2), [("b", 2)])])
    table.commit(at(2))
    with guarded_store() as store:
        store.upload(table.folder, "lake/sales/orders")
        yield store


@pytest.fixture
def service(store: GuardedStore, tmp_path: Path) -> Iterator[IcebergService]:
    """A service that gives sessions for the table."""
    for name, secret in (("id", store.access_key_id), ("secret", store.secret_access_key)):
        (tmp_path / name).write_text(secret)
    rule = {
        "prefix": "s3://lake",
        "kind": "sts",
        "region": REGION,
        "endpoint": store.endpoint,
        "role": store.role,
        "sts-endpoint": store.endpoint,
        "access-key-id-file": str(tmp_path / "id"),
        "secret-access-key-file": str(tmp_path / "secret"),
    }
    options = replace(
        service_options(tmp_path / "unused", [], [f"x={tmp_path}"], access=ACCESS),
        tables=Roots.of([store.uri("lake")], []),
        scratch=Scratch.open(store.uri("views")),
        vending=vending_of({"credentials": [rule]}),
    )
    with running(options) as service:
        yield service


def properties(service: IcebergService, store: GuardedStore, **more: str) -> dict[str, str]:
    return {
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": service.url,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.token": "of-sales",
        "fs.native-s3.enabled": "true",
        "s3.endpoint": store.endpoint,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        # Without any, Trino would look for those of the machine.
        "s3.aws-access-key": "nobody",
        "s3.aws-secret-key": "nobody",
        **more,
    }


def test_trino_reads_with_the_credentials_of_the_service(
    trino: Trino, service: IcebergService, store: GuardedStore
) -> None:
    sessions = len(store.sessions())
    with trino.catalog("vended", "iceberg", properties(service, store, **VENDED)) as catalog:
        for _ in range(2):
            actual = trino.query(f"SELECT id, value FROM {catalog}.sales.orders ORDER BY id")
            assert actual == [["a", "new"], ["c", "old"], ["d", "new"]]
    assert len(store.sessions()) == sessions + 1


def test_without_them_trino_reads_nothing(trino: Trino, service: IcebergService, store: GuardedStore) -> None:
    with (
        trino.catalog("keyless", "iceberg", properties(service, store)) as catalog,
        pytest.raises(TrinoQueryError, match="Error processing metadata for table"),
    ):
        trino.query(f"SELECT id, value FROM {catalog}.sales.orders")
