"""How commands name tables: by path, or as ``--catalog`` has them."""

from contextvars import ContextVar

from hudi_bridge.catalogs.uris import find_in_catalog, is_catalog_uri, uri_in_catalog

_catalog: ContextVar[str | None] = ContextVar("catalog", default=None)


def name_tables_as_in(catalog: str | None) -> None:
    """From now on, names are those of tables in the catalog of this URI; None for paths alone."""
    _catalog.set(catalog)


def path_of(name: str) -> str:
    """The path or URI of the table that a command was given; what has a slash is one already.

    Raises:
        QueryError: ``--catalog`` is not the URI of a catalog.
    """
    catalog = _catalog.get()
    return name if catalog is None or "/" in name else uri_in_catalog(catalog, name)


def folder_of(name: str) -> str:
    """The path or URI of the folder of the table, which a catalog is asked for.

    Raises:
        QueryError: ``--catalog`` is not the URI of a catalog, or the name is not that of a table in one.
        TableNotFoundError: the catalog has no such table.
        StorageError: the catalog does not answer.
    """
    path = path_of(name)
    return find_in_catalog(path).location if is_catalog_uri(path) else path
