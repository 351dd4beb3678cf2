"""Hudi tables of AWS Glue's data catalog, by boto3, with the credentials that it finds."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hudi_bridge.catalogs.tables import CatalogTable, Namespace, registered_table
from hudi_bridge.common.imports import needing_extra
from hudi_bridge.common.threads import timeout_seconds
from hudi_bridge.errors import StorageError


class GlueCatalog:
    """The databases of a data catalog as namespaces of one level.

    ``region`` and ``catalog_id`` (an account) are taken from boto3's settings by default.
    """

    def __init__(self, region: str | None = None, catalog_id: str | None = None) -> None:
        self._region = region
        self._catalog_id = catalog_id

    @property
    def shown_uri(self) -> str:
        """The URI of the catalog."""
        return f"glue://{self._region or ''}"

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """The databases; they have no children."""
        if parent:
            return []
        with self._client("list the databases") as client:
            pages = client.get_paginator("get_databases").paginate(**self._of_catalog)
            return sorted((database["Name"],) for page in pages for database in page["DatabaseList"])

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the Hudi tables of a database; none if it does not exist."""
        if len(namespace) != 1:
            return []
        with self._client(f"list the tables of {namespace[0]!r}") as client:
            pages = client.get_paginator("get_tables").paginate(DatabaseName=namespace[0], **self._of_catalog)
            try:
                tables = [table for page in pages for table in page["TableList"]]
            except client.exceptions.EntityNotFoundException:
                return []
        return sorted(table["Name"] for table in tables if _table_of_hudi(table) is not None)

    def find(self, namespace: Namespace, name: str) -> CatalogTable | None:
        """The Hudi table of that name; None if there is no table, or it is not a Hudi table."""
        if len(namespace) != 1:
            return None
        with self._client(f"find the table {namespace[0]}.{name}") as client:
            try:
                answer = client.get_table(DatabaseName=namespace[0], Name=name, **self._of_catalog)
            except client.exceptions.EntityNotFoundException:
                return None
        return _table_of_hudi(answer["Table"])

    @property
    def _of_catalog(self) -> dict[str, str]:
        return {"CatalogId": self._catalog_id} if self._catalog_id else {}

    @contextmanager
    def _client(self, doing: str) -> Iterator[Any]:
        with needing_extra("glue", "boto3", "botocore", by="glue://"):
            import boto3  # noqa: PLC0415 - an extra, and slow to import
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        settings = Config(connect_timeout=timeout_seconds(), read_timeout=timeout_seconds())
        try:
            yield boto3.client("glue", region_name=self._region, config=settings)
        except (BotoCoreError, ClientError) as error:
            raise StorageError(self.shown_uri, doing, str(error), errno.EIO) from error


def _table_of_hudi(table: Mapping[str, Any]) -> CatalogTable | None:
    descriptor = table.get("StorageDescriptor", {})
    return registered_table(
        table["Name"],
        descriptor.get("Location"),
        descriptor.get("InputFormat"),
        table.get("Parameters", {}),
        descriptor.get("SerdeInfo", {}).get("Parameters", {}),
    )
