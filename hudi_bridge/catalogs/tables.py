"""Hudi tables in a catalog, and the rules by which Hudi's sync registers them.

Source: ``HoodieSyncConfig``, ``HMSDDLExecutor``, ``SparkDataSourceTableUtils``, ``ConfigUtils.IS_QUERY_AS_RO_TABLE``;
``HiveExternalCatalog.getLocationFromStorageProps`` of Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from hudi_bridge.config import QueryType
from hudi_bridge.storage.masking import Location

Namespace: TypeAlias = tuple[str, ...]

_PROVIDER = "spark.sql.sources.provider"
_AS_READ_OPTIMIZED = "hoodie.query.as.ro.table"
_INPUT_FORMATS = ("org.apache.hudi.", "com.uber.hoodie.")
_REALTIME = "realtime"
_PATH = "path"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A Hudi table of a catalog: its folder, as a path or URI, and the query type of its name."""

    location: str
    query_type: QueryType


class TableCatalog(Protocol):
    """A catalog with Hudi tables, among others. Each call sends a request to the server.

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
        """The Hudi table of that name; None if there is no table, or it is not a Hudi table."""


def registered_table(
    name: str,
    location: str | None,
    input_format: str | None,
    table_parameters: Mapping[str, str],
    serde_parameters: Mapping[str, str],
) -> CatalogTable | None:
    """The table of an entry in a Hive metastore or in Glue; None if it is not a Hudi table.

    Hudi's sync stores in the parameters of the SerDe whether a table is read optimized. Entries of older releases lack
    the parameter: there, ``_ro`` at the end of the name decides, if the input format is Hudi's and does not merge.

    The folder of a table of Spark's provider ``hudi`` is the parameter ``path`` of its SerDe, where Spark looks for it.
    Without Hudi's session extension, the location that Spark writes is a name that ends with ``-__PLACEHOLDER__``.
    """
    formats = input_format or ""
    is_spark_table = table_parameters.get(_PROVIDER, "").lower() == "hudi"
    has_format = formats.startswith(_INPUT_FORMATS)
    if not (is_spark_table or has_format):
        return None
    paths = [value for key, value in serde_parameters.items() if key.lower() == _PATH and is_spark_table]
    folder = next(filter(None, paths), location)
    if not folder:
        return None
    parameter = serde_parameters.get(_AS_READ_OPTIMIZED)
    by_name = name.endswith("_ro") and has_format and _REALTIME not in formats
    is_read_optimized = by_name if parameter is None else parameter.lower() == "true"
    return CatalogTable(
        location=Location.of_unescaped(folder).uri(),
        query_type=QueryType.READ_OPTIMIZED if is_read_optimized else QueryType.SNAPSHOT,
    )
