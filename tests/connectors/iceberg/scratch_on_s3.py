"""A scratch folder on S3, as an Iceberg client reads it."""

from collections.abc import Iterator
from typing import Any

import boto3
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyiceberg.table import StaticTable

from hudi_bridge.connectors.iceberg.served_table import Published


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
    return {item["Key"].rpartition("/")[2] for item in listing.get("Contents", ())} - {""}


def iceberg_rows(published: Published, endpoint: str) -> pa.Table:
    properties = {
        "s3.endpoint": f"http://{endpoint}",
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    return StaticTable.from_metadata(published.location, properties).scan().to_arrow()
