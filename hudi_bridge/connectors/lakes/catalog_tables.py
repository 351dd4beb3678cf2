"""The Hudi tables that a catalog has, in the place of folders of tables: same names, same namespaces."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

from hudi_bridge.catalogs.tables import CatalogTable, TableCatalog
from hudi_bridge.connectors.lakes.tables import DEFAULT_NAMESPACE, FoundTable, Namespace
from hudi_bridge.storage import Storage, StorageOptions


class CatalogTables:
    """The tables of one catalog, which each call asks; their folders are opened once, with ``storage_options``.

    What a table's entry says of its query type is what its name stands for: ``orders_ro`` is read optimized.
    """

    def __init__(self, catalog: TableCatalog, storage_options: StorageOptions | None = None) -> None:
        self._catalog = catalog
        self._storage_options = storage_options
        self._lock = Lock()
        self._opened: dict[str, Storage] = {}

    def real_paths_of(self, table: Storage) -> tuple[Path, ...]:
        """The local folder that all files of a table have to be in, with links resolved: its own."""
        return (Path(table.root).resolve(),) if table.is_local else ()

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""
        return self._catalog.namespaces(parent)

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the namespace exists."""
        return namespace in self._catalog.namespaces(namespace[:-1])

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the Hudi tables in a namespace."""
        return self._catalog.table_names(namespace)

    def look_up(self, namespace: Namespace, table: str) -> FoundTable | None:
        """The table with this name, and the query type that the name stands for; None if there is none."""
        found = self._catalog.find(namespace, table)
        return None if found is None else FoundTable(self._open(found), found.query_type)

    def find_by_name(self, name: str) -> Storage | None:
        """The table with a dotted name like ``sales.orders``; None if there is none."""
        *levels, table = name.split(".")
        found = self.look_up(tuple(levels) or DEFAULT_NAMESPACE, table)
        return None if found is None else found.storage

    def walk(self, failed: Callable[[str, Exception], None]) -> Iterator[tuple[Namespace, str]]:
        """All tables; ``failed`` is called with the name and the error of each namespace that cannot be listed."""
        waiting: list[Namespace] = [()]
        while waiting:
            namespace = waiting.pop()
            try:
                waiting += self._catalog.namespaces(namespace)
                names = self._catalog.table_names(namespace) if namespace else []
            except Exception as error:  # noqa: BLE001 - whatever the server says; the others are still walked
                failed(".".join(namespace) or self._catalog.shown_uri, error)
                continue
            yield from ((namespace, name) for name in names)

    def without_paths(self, text: str) -> str:
        """The text without the paths of tables and the place of the catalog, which clients must not see."""
        with self._lock:
            opened = tuple(self._opened.values())
        places = {place for one in opened for place in (one.table_path, one.shown_path, one.location(), one.root)}
        for place in sorted(places, key=len, reverse=True):
            text = text.replace(f"{place}/", "").replace(place, "the table")
        return text.replace(self._catalog.shown_uri, "the catalog")

    def _open(self, table: CatalogTable) -> Storage:
        with self._lock:
            if table.location not in self._opened:
                self._opened[table.location] = Storage.open(table.location, options=self._storage_options)
            return self._opened[table.location]
