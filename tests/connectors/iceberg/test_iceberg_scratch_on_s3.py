"""A scratch folder in S3, as moto's server simulates it, with several services."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.table import StaticTable

from hudi_bridge.connectors.iceberg import table_snapshots
from hudi_bridge.connectors.iceberg.served_table import Published
from hudi_bridge.connectors.scratch import Scratch
from tests.connectors.iceberg.test_iceberg_snapshots import SLICES, Client, builders, table, update
from tests.support.compare import differences
from tests.support.table_writer import TableWriter, at

__all__ = ["builders", "table"]  # fixtures


@pytest.fixture
def endpoint() -> Iterator[str]:
    """The address of a store with an empty bucket ``views``."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        address = "{}:{}".format(*server.get_host_and_port())
        store(address).create_bucket(Bucket="views")
        yield address
    finally:
        server.stop()


def store(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=f"http://{endpoint}",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        region_name="us-east-1",
    )


def names(endpoint: str, folder: str) -> set[str]:
    listing = store(endpoint).list_objects_v2(Bucket="views", Prefix=f"t/{folder}/")
    return {one["Key"].rpartition("/")[2] for one in listing.get("Contents", ())} - {""}


def iceberg_rows(published: Published, endpoint: str) -> pa.Table:
    properties = {
        "s3.endpoint": f"http://{endpoint}",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    return StaticTable.from_metadata(published.location, properties).scan().to_arrow()


def test_services_share_a_scratch_folder_in_s3(
    table: TableWriter, endpoint: str, builders: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"s3://key:secret@views/t?scheme=http&region=us-east-1&endpoint_override={endpoint}"
    scratch = Scratch.open(uri)
    monkeypatch.setattr(table_snapshots, "_CHECK_SECONDS", 0.0)
    first, second = (Client(table, scratch, builders, keep=1, keep_seconds=60) for _ in range(2))
    before = first.load()
    expected = table.open().snapshot().to_table()
    assert second.load() == before
    assert (first.built, second.built) == (SLICES, 0)
    update(table, 3, 0)
    table.commit(at(3))
    after = second.load()
    assert first.load() == after
    assert second.built == 1
    assert differences(expected, iceberg_rows(before, endpoint)) == []
    assert differences(table.open().snapshot().to_table(), iceberg_rows(after, endpoint)) == []
    now, data = time.time(), names(endpoint, "data")
    removed = []
    for commit, later in ((4, 61), (5, 122)):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        update(table, commit, 1)
        table.commit(at(commit))
        restarted = Client(table, scratch, builders, keep=1, keep_seconds=60)
        newest = restarted.load()
        assert restarted.built == 1
        assert len(names(endpoint, "snapshots")) == 1
        assert differences(table.open().snapshot().to_table(), iceberg_rows(newest, endpoint)) == []
        removed.append(len(data - names(endpoint, "data")))
    # The files of two slices that have changed.
    assert removed == [0, 4]
    lost = next(iter(sorted(names(endpoint, "data"))))
    store(endpoint).delete_object(Bucket="views", Key=f"t/data/{lost}")
    assert differences(table.open().snapshot().to_table(), iceberg_rows(first.load(), endpoint)) == []
