"""Opens catalogs, and finds tables, by URI.

    hive://HOST[:9083]/DATABASE.TABLE[?kerberos=true&tls=true&...]     (or thrift://)
    glue://[REGION]/DATABASE.TABLE[?catalog-id=ACCOUNT]
    rest:https://HOST/PATH[?warehouse=NAME&...]#NAMESPACE.TABLE

The URI of a database is the same without the table, that of a catalog without the database as well.
"""

from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from hudi_bridge.catalogs.glue import GlueCatalog
from hudi_bridge.catalogs.hive import DEFAULT_PORT, HiveCatalog, HiveSecurity
from hudi_bridge.catalogs.rest import RestCatalog
from hudi_bridge.catalogs.tables import CatalogTable, Namespace, TableCatalog
from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.storage.masking import masked

_SCHEMES: Final = ("hive://", "thrift://", "glue://", "rest:http://", "rest:https://")
_EXPECTED = "hive://HOST:PORT, glue://REGION or rest:https://HOST/PATH"


def is_catalog_uri(text: str) -> bool:
    """Whether the text is the URI of a catalog, or of a table in one."""
    return text.lower().startswith(_SCHEMES)


def open_catalog(uri: str) -> TableCatalog:
    """The catalog of a URI; no request is sent yet.

    Raises:
        QueryError: it is not the URI of a catalog.
    """
    catalog, name = _parse(uri)
    if name:
        raise QueryError("catalog", repr(masked(uri)), f"a catalog without a table: {_EXPECTED}")
    return catalog


def open_namespace(uri: str) -> tuple[TableCatalog, Namespace]:
    """The catalog of a URI, and the database or namespace that it names, ``()`` without one; nothing is asked yet.

    Raises:
        QueryError: it is not the URI of a catalog or of a database.
    """
    catalog, name = _parse(uri)
    levels = tuple(name.split(".")) if name else ()
    if not all(levels):
        raise QueryError(
            "catalog", repr(masked(uri)), f"a database in a catalog: {_EXPECTED}, with the name of a database"
        )
    return catalog, levels


def uri_in_catalog(catalog: str, table: str) -> str:
    """The URI of a table, such as ``sales.orders``, in a catalog given by its URI.

    Raises:
        QueryError: it is not the URI of a catalog.
    """
    open_catalog(catalog)
    if catalog.lower().startswith("rest:"):
        return f"{catalog}#{quote(table)}"
    base, question_mark, query = catalog.partition("?")
    return f"{base.rstrip('/') if not base.endswith('://') else base}/{quote(table)}{question_mark}{query}"


def find_in_catalog(uri: str) -> CatalogTable:
    """The table of a URI.

    Raises:
        QueryError: the URI does not name a table in a catalog.
        TableNotFoundError: the catalog has no Hudi table of that name.
        StorageError: the catalog does not answer.
    """
    catalog, name = _parse(uri)
    *namespace, table = name.split(".")
    if not (namespace and all(namespace) and table):
        raise QueryError(
            "path", repr(masked(uri)), f"a table in a catalog, such as {catalog.shown_uri} with DATABASE.TABLE"
        )
    entry = catalog.find(tuple(namespace), table)
    if entry is None:
        raise TableNotFoundError(masked(uri), f"{catalog.shown_uri} has no Hudi table {name!r}")
    return entry


def _parse(uri: str) -> tuple[TableCatalog, str]:
    """The catalog, and the name of the table in it, empty if the URI has none."""
    if not is_catalog_uri(uri):
        raise QueryError("catalog", repr(masked(uri)), _EXPECTED)
    try:
        if uri.lower().startswith("rest:"):
            parts = urlsplit(uri.partition(":")[2])
            url = parts._replace(query="", fragment="").geturl()
            return RestCatalog(url, dict(parse_qsl(parts.query))), unquote(parts.fragment)
        parts = urlsplit(uri)
        name = unquote(parts.path.strip("/"))
        if parts.scheme == "glue":
            options = dict(parse_qsl(parts.query))
            return GlueCatalog(parts.hostname, options.get("catalog-id")), name
        if not parts.hostname:
            raise QueryError("catalog", repr(masked(uri)), "a host: hive://HOST:PORT")
        security = HiveSecurity.of_parameters(parts.hostname, dict(parse_qsl(parts.query)))
        return HiveCatalog(parts.hostname, parts.port or DEFAULT_PORT, security), name
    except ValueError as error:
        raise QueryError("catalog", repr(masked(uri)), f"{_EXPECTED} ({error})") from None
