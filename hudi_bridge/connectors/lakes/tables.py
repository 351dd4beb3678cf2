"""Tables by name, for services and engines: in folders (``Roots``) or in a catalog (``CatalogTables``).

    trips                              the snapshot
    trips$ro    trips__ro              read optimized: base files alone
    trips@TIME  trips__at_TIME         as of an instant, in any format that Hudi accepts
    trips__ro__at_TIME                 both

Trino reserves ``$`` and ``@``, hence the second forms. Tables of a catalog have the same names and namespaces as there.
Read options and payloads may differ by table.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Protocol, Self, TypeAlias

from hudi_bridge.catalogs.tables import CatalogTable, TableCatalog
from hudi_bridge.config import QueryType
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.options import require_table_options
from hudi_bridge.storage.storage import Storage, StorageOptions

Namespace: TypeAlias = tuple[str, ...]

DEFAULT_NAMESPACE = ("default",)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table, and the query type that its name stands for."""

    storage: Storage
    query_type: QueryType


class TablesByName(Protocol):
    """Tables by namespace and name."""

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the namespace exists."""

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the tables in a namespace."""

    def look_up(self, namespace: Namespace, table: str) -> FoundTable | None:
        """The table with this name; None if there is none."""

    def find_by_name(self, name: str) -> Storage | None:
        """The table with a dotted name like ``sales.orders``; None if there is none."""

    def walk(self, failed: Callable[[str, Exception], None]) -> Iterator[tuple[Namespace, str]]:
        """All tables; ``failed`` is called with the name and the error of each place that cannot be listed."""

    def without_paths(self, text: str) -> str:
        """The text without paths, which clients must not see."""

    def real_paths_of(self, table: Storage) -> tuple[Path, ...]:
        """The local folders that all files of a table have to be in, with links resolved."""


_MOST_BYTES = 255
"""The longest file name that common file systems allow."""
_OF_HUDI = ".hoodie"
_SEPARATORS = frozenset("/\0\x1f" + os.sep)
_NAME = re.compile(r"(?P<table>.+?)(?P<read_optimized>(?:\$|__)ro)?(?:(?:@|__at_)(?P<as_of>[^@]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A parsed name: the table, the query type and the instant, if any."""

    table: str
    query_type: QueryType
    as_of: str | None


def parse_table_name(name: str) -> TableName:
    """Splits a name into the table and its suffixes."""
    match = _NAME.fullmatch(name)
    if match is None:
        return TableName(table=name, query_type=QueryType.SNAPSHOT, as_of=None)
    query_type = QueryType.READ_OPTIMIZED if match["read_optimized"] else QueryType.SNAPSHOT
    return TableName(table=match["table"], query_type=query_type, as_of=match["as_of"])


def is_visible_folder_name(name: str) -> bool:
    """Whether a visible child folder may have the name: as that of a table, without a leading dot."""
    return is_table_folder_name(name) and not name.startswith(".")


def is_table_folder_name(name: str) -> bool:
    """Whether a table may have the name: one level, no control characters, and not the folder of Hudi's own files.

    Those that begin with a dot are found by name, and not listed.
    """
    if name in ("", ".", "..", _OF_HUDI) or set(name) & _SEPARATORS or not name.isprintable():
        return False
    return len(name.encode()) <= _MOST_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeSettings:
    """The ``options``, ``payloads`` and ``log_memory_bytes`` of one table, as for ``HudiTable.open``."""

    options: Mapping[str, str] = field(default_factory=dict)
    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergingByTable:
    """The merge settings of many tables. ``options_by_path`` holds further options by table path."""

    options: Mapping[str, str] = field(default_factory=dict)
    options_by_path: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    payloads: Mapping[str, RecordPayload] = field(default_factory=dict)
    log_memory_bytes: int | None = None

    @classmethod
    def parse(
        cls, texts: Iterable[str], payloads: Mapping[str, RecordPayload], find: Callable[[str], Storage | None]
    ) -> Self:
        """Parses ``NAME=VALUE``, for all tables, and ``sales.orders:NAME=VALUE``, for one of them.

        ``find`` returns the table with a name, or None.

        Raises:
            QueryError: a text is of neither form, or its option or table does not exist.
        """
        of_all: dict[str, str] = {}
        by_path: dict[str, dict[str, str]] = defaultdict(dict)
        for text in texts:
            name, sign, value = text.partition("=")
            table_name, colon, option = name.rpartition(":")
            if not (sign and option and bool(table_name) == bool(colon)):
                raise QueryError("--option", repr(text), "NAME=VALUE or NAMESPACE.TABLE:NAME=VALUE")
            require_table_options({option: value})
            if not table_name:
                of_all[option] = value
                continue
            table = find(table_name)
            if table is None:
                raise QueryError("--option", repr(text), f"a table that there is, not {table_name}")
            by_path[table.table_path][option] = value
        return cls(options=of_all, options_by_path=by_path, payloads=payloads)

    def of(self, table: Storage) -> MergeSettings:
        """The settings of one table."""
        own = self.options_by_path.get(table.table_path, {})
        options = {**self.options, **own}
        return MergeSettings(options=options, payloads=self.payloads, log_memory_bytes=self.log_memory_bytes)


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
        table_entry = self._catalog.find(namespace, table)
        return None if table_entry is None else FoundTable(self._open(table_entry), table_entry.query_type)

    def find_by_name(self, name: str) -> Storage | None:
        """The table with a dotted name like ``sales.orders``; None if there is none."""
        *levels, table = name.split(".")
        table_entry = self.look_up(tuple(levels) or DEFAULT_NAMESPACE, table)
        return None if table_entry is None else table_entry.storage

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
        places = {
            path
            for storage in opened
            for path in (storage.table_path, storage.shown_path, storage.location(), storage.root)
        }
        for path in sorted(places, key=len, reverse=True):
            text = text.replace(f"{path}/", "").replace(path, "the table")
        return text.replace(self._catalog.shown_uri, "the catalog")

    def _open(self, table: CatalogTable) -> Storage:
        with self._lock:
            if table.location not in self._opened:
                self._opened[table.location] = Storage.open(table.location, options=self._storage_options)
            return self._opened[table.location]
