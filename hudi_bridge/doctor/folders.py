"""Finds the tables below a folder, also those whose properties are gone: a table is a folder with ``.hoodie`` in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import HudiReadError
from hudi_bridge.storage import Storage

_MOST_LEVELS = 16


def is_table_folder(folder: Storage) -> bool:
    """Whether a folder is that of a table, which may be damaged."""
    return folder.exists(HOODIE_FOLDER)


def tables_below(root: Storage, failed: Callable[[Storage, HudiReadError], None]) -> Iterator[Storage]:
    """The tables below a folder, by path; ``failed`` is told of folders that cannot be listed.

    Hidden folders are left out, and so are symbolic links, which may lead out of the root or back up.
    """
    waiting = [(root, 0)]
    while waiting:
        folder, level = waiting.pop()
        try:
            names = sorted(info.name for info in folder.list_directory("", must_exist=True) if info.is_dir)
        except HudiReadError as error:
            failed(folder, error)
            continue
        if HOODIE_FOLDER in names:
            yield folder
        elif level < _MOST_LEVELS:
            inside = (folder.below(name) for name in names if not name.startswith("."))
            waiting += [(child, level + 1) for child in reversed([one for one in inside if not _is_link(one)])]


def _is_link(folder: Storage) -> bool:
    return folder.is_local and Path(folder.root).is_symlink()
