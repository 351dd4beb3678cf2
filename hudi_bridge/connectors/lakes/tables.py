"""What a service needs of the place where its tables are: folders (``Roots``), or a catalog (``CatalogTables``)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from hudi_bridge.config import QueryType
from hudi_bridge.storage import Storage

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
