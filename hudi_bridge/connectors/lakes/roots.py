"""Folders of Hudi tables as namespaces and tables.

    ROOT/trips            default.trips
    ROOT/sales/orders     sales.orders
    ROOT/a/b/c            c in the namespace a.b

Symbolic links that lead out of the roots are ignored. Tables whose folder begins with a dot are found by name, and not
listed; other folders that do are not looked into.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hudi_bridge.config import QueryType
from hudi_bridge.connectors.lakes.names import is_table_folder_name, is_visible_folder_name
from hudi_bridge.connectors.lakes.tables import DEFAULT_NAMESPACE, FoundTable, Namespace
from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.masking import masked
from hudi_bridge.storage import PathLike, Storage, StorageOptions
from hudi_bridge.threads import map_while_waiting

_PROPERTIES = ".hoodie/hoodie.properties"
_MOST_LEVELS = 16
_CHECKS_AT_ONCE = 32
_SEEN_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """The folders that are searched for tables, and tables with a given name.

    Lists of a store's tables remember for a minute which folders are tables; new ones are seen at once.
    """

    folders: tuple[Storage, ...]
    tables: Mapping[tuple[Namespace, str], Storage]
    _seen: dict[str, float] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, folders: Sequence[PathLike], tables: Sequence[str], storage_options: StorageOptions | None = None
    ) -> Self:
        """Parses ``folders``, which are paths or URIs, and ``tables`` such as ``sales.orders=s3://bucket/orders``.

        ``storage_options`` are for all of them.

        Raises:
            QueryError: a table is not of this form, or nothing is given.
            TableNotFoundError: a path cannot be opened or does not exist.
        """
        named = {}
        for text in tables:
            name, sign, path = text.partition("=")
            *levels, table = name.split(".")
            is_name = all(map(is_visible_folder_name, levels)) and is_table_folder_name(table)
            if not (sign and path and is_name):
                raise QueryError("--table", repr(masked(text)), "NAME=PATH or NAMESPACE.NAME=PATH")
            named[tuple(levels) or DEFAULT_NAMESPACE, table] = Storage.open(path, options=storage_options)
        opened = [Storage.open(folder, options=storage_options) for folder in folders]
        for one in (*opened, *named.values()):
            if not one.exists(""):
                raise TableNotFoundError(one.shown_path, "there is no such folder")
            if one.is_local and not Path(one.root).is_dir():
                raise TableNotFoundError(one.shown_path, "it is no folder")
        named |= {(DEFAULT_NAMESPACE, one.root.rpartition("/")[2]): one for one in opened if is_table(one)}
        if not opened and not named:
            raise QueryError("roots", "none", "a folder of tables, or tables by name")
        return cls(folders=tuple(one for one in opened if not is_table(one)), tables=named)

    @property
    def real_paths(self) -> tuple[Path, ...]:
        """The local roots with links resolved; files outside of them are not served."""
        local = (one for one in (*self.folders, *self.tables.values()) if one.is_local)
        return tuple(Path(one.root).resolve() for one in local)

    def real_paths_of(self, table: Storage) -> tuple[Path, ...]:  # noqa: ARG002 - the same for all tables
        """The local roots with links resolved, which hold all files of all tables."""
        return self.real_paths

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""
        found = {name[: len(parent) + 1] for name, _ in self.tables if name[: len(parent)] == parent != name}
        for folder in self._below(parent):
            tables, others = self._children(folder)
            if tables and not parent:
                found.add(DEFAULT_NAMESPACE)
            found |= {(*parent, name) for name in others}
        return sorted(found)

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the namespace exists."""
        if any(name[: len(namespace)] == namespace for name, _ in self.tables):
            return True
        return namespace == DEFAULT_NAMESPACE or any(self._below(namespace))

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the tables in a namespace."""
        found = {table for name, table in self.tables if name == namespace}
        for folder in self._folders_of(namespace):
            found |= set(self._children(folder)[0])
        return sorted(found)

    def folder_names(self, namespace: Namespace) -> list[str]:
        """The names of the folders of a namespace, tables or namespaces; costs one listing for each root."""
        found = {table for name, table in self.tables if name == namespace}
        for folder in self._folders_of(namespace):
            found |= set(_folder_names(folder))
        return sorted(found)

    def look_up(self, namespace: Namespace, table: str) -> FoundTable | None:
        """As ``find``, with the query type that the name stands for."""
        found = self.find(namespace, table)
        return None if found is None else FoundTable(found, QueryType.SNAPSHOT)

    def find(self, namespace: Namespace, table: str) -> Storage | None:
        """The table with this name, or else the only one whose name differs in case alone; None if there is none."""
        found = self.find_exact(namespace, table)
        if found is None:
            alike = [name for name in self.folder_names(namespace) if name.lower() == table.lower()]
            tables = [one for name in alike if (one := self.find_exact(namespace, name)) is not None]
            found = tables[0] if len(tables) == 1 else None
        return found

    def find_exact(self, namespace: Namespace, table: str) -> Storage | None:
        """The table with exactly this name; None if there is none."""
        if (namespace, table) in self.tables:
            return self.tables[namespace, table]
        if not is_table_folder_name(table):
            return None
        folders = (folder.below(table) for folder in self._folders_of(namespace))
        return next((folder for folder in folders if is_table(folder) and self._is_within(folder)), None)

    def find_by_name(self, name: str) -> Storage | None:
        """The table with a dotted name like ``sales.orders``; None if there is none."""
        *levels, table = name.split(".")
        return self.find(tuple(levels) or DEFAULT_NAMESPACE, table)

    def walk(self, failed: Callable[[str, Exception], None]) -> Iterator[tuple[Namespace, str]]:
        """All tables; ``failed`` is called with the name and the error of each folder that cannot be listed."""
        yield from self.tables
        waiting: list[tuple[Namespace, Storage]] = [((), folder) for folder in self.folders]
        while waiting:
            namespace, folder = waiting.pop()
            try:
                names = _folder_names(folder)
            except Exception as error:  # noqa: BLE001 - any file system error; the other folders are still walked
                failed(".".join(namespace) or folder.shown_path, error)
                continue
            for name in names:
                child = folder.below(name)
                try:
                    is_hudi, is_within = is_table(child), self._is_within(child)
                except Exception as error:  # noqa: BLE001 - as above
                    failed(".".join((*namespace, name)), error)
                    continue
                if is_within and is_hudi:
                    yield namespace or DEFAULT_NAMESPACE, name
                elif is_within and len(namespace) < _MOST_LEVELS:
                    waiting.append(((*namespace, name), child))

    def without_paths(self, text: str) -> str:
        """The text without the paths of the roots, which clients must not see."""
        roots = (*self.folders, *self.tables.values())
        places = [place for one in roots for place in (one.table_path, one.shown_path, one.location(), one.root)]
        for place in sorted((*places, *map(str, self.real_paths)), key=len, reverse=True):
            text = text.replace(f"{place}/", "").replace(place, "the root")
        return text

    def _folders_of(self, namespace: Namespace) -> Iterator[Storage]:
        """The folders that hold the tables of a namespace."""
        if namespace == DEFAULT_NAMESPACE:
            yield from self.folders
        yield from self._below(namespace)

    def _below(self, namespace: Namespace) -> Iterator[Storage]:
        """The folder of a namespace under each root that has one."""
        if len(namespace) > _MOST_LEVELS or not all(map(is_visible_folder_name, namespace)):
            return
        for root in self.folders:
            folder = root.below(*namespace)
            if not namespace or (self._is_within(folder) and not is_table(folder) and folder.list_directory("")):
                yield folder

    def _children(self, folder: Storage) -> tuple[list[str], list[str]]:
        """The names of the child folders that are tables, and of those that are not; some requests at once."""
        inside = [one for name in _folder_names(folder) if self._is_within(one := folder.below(name))]
        now = time.monotonic()
        seen = set() if folder.is_local else {root for root, at in self._seen.items() if now - at < _SEEN_SECONDS}
        unknown = [one for one in inside if one.root not in seen]
        looked = map_while_waiting(is_table, unknown, 1 if folder.is_local else _CHECKS_AT_ONCE)
        others = {one.root for one, is_hudi in zip(unknown, looked, strict=True) if not is_hudi}
        self._seen.update((one.root, now) for one in unknown if one.root not in others)
        names: tuple[list[str], list[str]] = ([], [])
        for one in inside:
            names[1 if one.root in others else 0].append(one.root.rpartition("/")[2])
        return names

    def _is_within(self, folder: Storage) -> bool:
        """Whether a folder lies below a root when links are resolved."""
        return not folder.is_local or any(Path(folder.root).resolve().is_relative_to(root) for root in self.real_paths)


def is_table(folder: Storage) -> bool:
    """Whether a folder is that of a Hudi table."""
    return folder.exists(_PROPERTIES)


def is_folder_of_tables(folder: Storage) -> bool:
    """Whether a folder is no table and may hold some: it has folders other than hidden ones."""
    return not folder.exists(".hoodie") and folder.exists("") and bool(_folder_names(folder))


def _folder_names(folder: Storage) -> list[str]:
    return [info.name for info in folder.list_directory("") if info.is_dir and is_visible_folder_name(info.name)]
