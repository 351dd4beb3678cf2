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
_CATALOG_ID = "catalog-id"
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
            return RestCatalog(url, _parameters(parts.query)), unquote(parts.fragment)
        parts = urlsplit(uri)
        if parts.fragment or "@" in parts.netloc:
            unexpected = "a # after the table" if parts.fragment else "a user before the host"
            raise QueryError("catalog", f"{masked(uri)!r} with {unexpected}", f"none: {_EXPECTED}")
        name = unquote(parts.path.strip("/"))
        parameters = _parameters(parts.query)
        if parts.scheme == "glue":
            for parameter in parameters:
                if parameter != _CATALOG_ID:
                    raise QueryError("catalog", f"the parameter {parameter!r}", _CATALOG_ID)
            return GlueCatalog(parts.hostname, parameters.get(_CATALOG_ID)), name
        if not parts.hostname:
            raise QueryError("catalog", repr(masked(uri)), "a host: hive://HOST:PORT")
        security = HiveSecurity.of_parameters(parts.hostname, parameters)
        return HiveCatalog(parts.hostname, parts.port or DEFAULT_PORT, security), name
    except ValueError as error:
        raise QueryError("catalog", repr(masked(uri)), f"{_EXPECTED} ({error})") from None


def _parameters(query: str) -> dict[str, str]:
    """The parameters of a URI, each of which has one value.

    Raises:
        QueryError: one is there twice, or has no value.
    """
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in parameters or not value:
            problem = "twice" if name in parameters else "without a value"
            raise QueryError("catalog", f"the parameter {name!r} {problem}", "NAME=VALUE once")
        parameters[name] = value
    return parameters
