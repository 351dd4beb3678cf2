"""Folders of Hudi tables as namespaces and tables.

    ROOT/trips            default.trips
    ROOT/sales/orders     sales.orders
    ROOT/a/b/c            c in the namespace a.b

A symbolic link may name a table of its own namespace, or of one below it. Other links are ignored: they would show
tables to those who have rights for another namespace, or lead back to a folder above. Tables whose folder begins with a
dot are found by name, and not listed; other folders that do are not looked into.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from hudi_bridge.common.threads import map_while_waiting
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.lakes.tables import (
    DEFAULT_NAMESPACE,
    FoundTable,
    Namespace,
    is_table_folder_name,
    is_visible_folder_name,
)
from hudi_bridge.errors import QueryError, TableNotFoundError
from hudi_bridge.storage.masking import masked
from hudi_bridge.storage.storage import PathLike, Storage, StorageOptions

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
        for storage in (*opened, *named.values()):
            if not storage.exists(""):
                raise TableNotFoundError(storage.shown_path, "there is no such folder")
            if storage.is_local and not Path(storage.root).is_dir():
                raise TableNotFoundError(storage.shown_path, "it is no folder")
        named |= {
            (DEFAULT_NAMESPACE, storage.root.rpartition("/")[2]): storage for storage in opened if is_table(storage)
        }
        if not opened and not named:
            raise QueryError("roots", "none", "a folder of tables, or tables by name")
        return cls(folders=tuple(storage for storage in opened if not is_table(storage)), tables=named)

    @property
    def real_paths(self) -> tuple[Path, ...]:
        """The local roots with links resolved; files outside of them are not served."""
        local = (storage for storage in (*self.folders, *self.tables.values()) if storage.is_local)
        return tuple(Path(storage.root).resolve() for storage in local)

    def real_paths_of(self, table: Storage) -> tuple[Path, ...]:
        """The local folder that all files of a table have to be in, with links resolved: its own."""
        return (Path(table.root).resolve(),) if table.is_local else ()

    def namespaces(self, parent: Namespace) -> list[Namespace]:
        """The direct children of a namespace; top-level namespaces for ``()``."""
        namespaces = {name[: len(parent) + 1] for name, _ in self.tables if name[: len(parent)] == parent != name}
        for folder in self._below(parent):
            tables, others = self._children(folder, parent)
            if tables and not parent:
                namespaces.add(DEFAULT_NAMESPACE)
            namespaces |= {(*parent, name) for name in others}
        return sorted(namespaces)

    def has_namespace(self, namespace: Namespace) -> bool:
        """Whether the namespace exists."""
        if any(name[: len(namespace)] == namespace for name, _ in self.tables):
            return True
        return namespace == DEFAULT_NAMESPACE or any(self._below(namespace))

    def table_names(self, namespace: Namespace) -> list[str]:
        """The names of the tables in a namespace."""
        names = {table for name, table in self.tables if name == namespace}
        for folder in self._folders_of(namespace):
            names |= set(self._children(folder, namespace)[0])
        return sorted(names)

    def folder_names(self, namespace: Namespace) -> list[str]:
        """The names of the folders of a namespace, tables or namespaces; costs one listing for each root."""
        names = {table for name, table in self.tables if name == namespace}
        for folder in self._folders_of(namespace):
            names |= set(_folder_names(folder))
        return sorted(names)

    def look_up(self, namespace: Namespace, table: str) -> FoundTable | None:
        """As ``find``, with the query type that the name stands for."""
        storage = self.find(namespace, table)
        return None if storage is None else FoundTable(storage, QueryType.SNAPSHOT)

    def find(self, namespace: Namespace, table: str) -> Storage | None:
        """The table with this name, or else the only one whose name differs in case alone; None if there is none."""
        storage = self.find_exact(namespace, table)
        if storage is None:
            twins = [name for name in self.folder_names(namespace) if name.lower() == table.lower()]
            tables = [storage for name in twins if (storage := self.find_exact(namespace, name)) is not None]
            storage = tables[0] if len(tables) == 1 else None
        return storage

    def find_exact(self, namespace: Namespace, table: str) -> Storage | None:
        """The table with exactly this name; None if there is none."""
        if (namespace, table) in self.tables:
            return self.tables[namespace, table]
        if not is_table_folder_name(table):
            return None
        folders = (folder.child(table) for folder in self._folders_of(namespace))
        return next((folder for folder in folders if is_table(folder) and self._has_table(namespace, folder)), None)

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
                child, levels = folder.child(name), (*namespace, name)
                try:
                    is_hudi = is_table(child)
                    is_shown = self._has_table(namespace, child) if is_hudi else self._is_namespace(levels, child)
                except Exception as error:  # noqa: BLE001 - as above
                    failed(".".join(levels), error)
                    continue
                if is_shown and is_hudi:
                    yield namespace or DEFAULT_NAMESPACE, name
                elif is_shown and len(namespace) < _MOST_LEVELS:
                    waiting.append((levels, child))

    def without_paths(self, text: str) -> str:
        """The text without the paths of the roots, which clients must not see."""
        roots = (*self.folders, *self.tables.values())
        places = [path for root in roots for path in (root.table_path, root.shown_path, root.location(), root.root)]
        for path in sorted((*places, *map(str, self.real_paths)), key=len, reverse=True):
            text = text.replace(f"{path}/", "").replace(path, "the root")
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
            folder = root.child(*namespace)
            is_there = self._is_namespace(namespace, folder) and not is_table(folder) and folder.list_directory("")
            if not namespace or is_there:
                yield folder

    def _children(self, folder: Storage, namespace: Namespace) -> tuple[list[str], list[str]]:
        """The names of child folders: of tables, then of namespaces. Sends several requests at once."""
        children = [folder.child(name) for name in _folder_names(folder)]
        now = time.monotonic()
        seen = set() if folder.is_local else {root for root, at in self._seen.items() if now - at < _SEEN_SECONDS}
        unknown = [child for child in children if child.root not in seen]
        looked = map_while_waiting(is_table, unknown, 1 if folder.is_local else _CHECKS_AT_ONCE)
        others = {child.root for child, is_hudi in zip(unknown, looked, strict=True) if not is_hudi}
        self._seen.update((child.root, now) for child in unknown if child.root not in others)
        tables, namespaces = [], []
        for child in children:
            name = child.root.rpartition("/")[2]
            if child.root not in others and self._has_table(namespace, child):
                tables.append(name)
            elif child.root in others and self._is_namespace((*namespace, name), child):
                namespaces.append(name)
        return tables, namespaces

    def _is_namespace(self, namespace: Namespace, folder: Storage) -> bool:
        """Whether a folder is a namespace itself, and not a link to one."""
        return not folder.is_local or any(levels == namespace for levels in self._real_levels(folder))

    def _has_table(self, namespace: Namespace, folder: Storage) -> bool:
        """Whether the folder of a table, and its timeline, lie in a namespace or below when links are resolved."""
        if not folder.is_local:
            return True
        is_within = any(_is_in(levels[:-1], namespace) for levels in self._real_levels(folder) if levels)
        return is_within and folder.real_path(_PROPERTIES).startswith(f"{folder.real_path('')}/")

    def _real_levels(self, folder: Storage) -> Iterator[tuple[str, ...]]:
        """The folders from each root down to a local folder, when links are resolved."""
        real = Path(folder.real_path(""))
        for root in self.folders:
            real_root = Path(root.real_path(""))
            if root.is_local and real.is_relative_to(real_root):
                yield real.relative_to(real_root).parts


def _is_in(levels: Namespace, namespace: Namespace) -> bool:
    """Whether folders from a root down belong to a namespace or to one below it."""
    if namespace in ((), DEFAULT_NAMESPACE):
        # Its tables lie in the root itself, or in a folder of its name.
        return levels[:1] in ((), DEFAULT_NAMESPACE)
    return levels[: len(namespace)] == namespace


def is_table(folder: Storage) -> bool:
    """Whether a folder holds a Hudi table."""
    return folder.exists(_PROPERTIES)


def is_folder_of_tables(folder: Storage) -> bool:
    """Whether a folder is no table and may hold some: it has folders other than hidden ones."""
    return not folder.exists(".hoodie") and folder.exists("") and bool(_folder_names(folder))


def _folder_names(folder: Storage) -> list[str]:
    return [info.name for info in folder.list_directory("") if info.is_dir and is_visible_folder_name(info.name)]
