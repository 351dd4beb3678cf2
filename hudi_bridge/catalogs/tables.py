"""What a catalog knows of a Hudi table, and the rules by which Hudi's own sync registers one.

Source: ``HoodieSyncConfig``, ``HMSDDLExecutor``, ``SparkDataSourceTableUtils``, ``ConfigUtils.IS_QUERY_AS_RO_TABLE``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hudi_bridge.config import QueryType

Namespace: TypeAlias = tuple[str, ...]

_PROVIDER = "spark.sql.sources.provider"
_AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"
_INPUT_FORMATS = ("org.apache.hudi.", "com.uber.hoodie.")
_REALTIME = "realtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A Hudi table of a catalog: the folder that it names, and the query type that its name stands for."""

    location: str
    query_type: QueryType


class TableCatalog(Protocol):
    """A catalog that has Hudi tables, among others. Each call asks the server.

    All calls raise ``StorageError`` if the server does not answer or refuses.
    """

    @property
    def shown_uri(self) -> str:
        """The URI of the catalog, with secrets masked."""

    def namespaces(self, parent: Namespace = ()) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the Hudi tables of a namespace; none if it does not exist."""

    def find(self, namespace: Namespace, name: str) -> CatalogTable | None:
        """The Hudi table of that name; None if there is no table, or none of Hudi."""


def registered_table(
    name: str,
    location: str | None,
    input_format: str | None,
    table_parameters: Mapping[str, str],
    serde_parameters: Mapping[str, str],
) -> CatalogTable | None:
    """The table of an entry of a Hive metastore or of Glue; None if it is not one of Hudi.

    Tables that Hudi's sync registers say in the parameters of their SerDe whether they are read optimized. Entries of
    older releases do not: there, ``_ro`` at the end of the name does, unless the input format merges.
    """
    formats = input_format or ""
    if table_parameters.get(_PROVIDER, "").lower() != "hudi" and not formats.startswith(_INPUT_FORMATS):
        return None
    if not location:
        return None
    said = serde_parameters.get(_AS_READ_OPTIMIZED)
    by_name = name.endswith("_ro") and _REALTIME not in formats
    is_read_optimized = by_name if said is None else said.lower() == "true"
    return CatalogTable(
        location=location, query_type=QueryType.READ_OPTIMIZED if is_read_optimized else QueryType.SNAPSHOT
    )
