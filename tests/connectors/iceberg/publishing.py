"""Publishes tables as Iceberg tables, for tests."""

from pathlib import Path

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.publish import PublishedTable, publish_table
from hudi_bridge.connectors.iceberg.rewriting import IcebergClient, Rewriting
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.storage import Storage

FOR_PRESTO = Rewriting(client=IcebergClient.PRESTO)


def publish(
    table: Path,
    folder: Path,
    rewriting: Rewriting = FOR_PRESTO,
    as_of: str | None = None,
    query_type: QueryType = QueryType.SNAPSHOT,
) -> PublishedTable:
    return publish_table(
        Storage.open(str(table)),
        Scratch.open(str(folder)),
        locations=Locations(),
        builds=1,
        rewriting=rewriting,
        as_of=as_of,
        query_type=query_type,
    )
