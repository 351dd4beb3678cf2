"""Publishes tables as Iceberg tables, for tests."""

from collections.abc import Mapping
from pathlib import Path

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.iceberg.compatibility import IcebergClient, Rewriting
from hudi_bridge.connectors.iceberg.publish import PublishedTable, publish_table
from hudi_bridge.connectors.scratch import Locations, Scratch
from hudi_bridge.storage.storage import Storage

FOR_PRESTO = Rewriting(client=IcebergClient.PRESTO)
_END_BYTES = 8


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


def rename_in_footer(path: Path, names: Mapping[bytes, bytes]) -> None:
    """Rename columns, and groups of lists and maps, in a Parquet file; the new names are as long as the old ones."""
    content = path.read_bytes()
    start = len(content) - _END_BYTES - int.from_bytes(content[-_END_BYTES : 4 - _END_BYTES], "little")
    footer = content[start:]
    for old, new in names.items():
        length = bytes([len(old)])
        assert length + old in footer
        footer = footer.replace(length + old, length + new)
    path.write_bytes(content[:start] + footer)
