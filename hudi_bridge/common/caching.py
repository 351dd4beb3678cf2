"""A cached property without a lock, a cache of limited size, and the memory that a process may use.

The property of Python 3.11 holds one lock for all instances of a class: threads would wait for one another, and for
ever if one of them ends the workers that another belongs to. The memory is that of the machine, or less in a container.
"""

import functools
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

_MISSING = object()
_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux tells the limit of a container: control groups of version 2, and of version 1."""


class cached_property(functools.cached_property[T]):  # noqa: N801 - named as the one of functools
    """A property that is computed when first asked for; threads that ask at once may each compute it."""

    if not TYPE_CHECKING and sys.version_info < (3, 12):

        def __get__(self, instance: Any, owner: type | None = None) -> Any:  # noqa: ANN401 - of any class
            if instance is None:
                return self
            values = instance.__dict__
            value = values.get(self.attrname, _MISSING)
            if value is _MISSING:
                value = values[self.attrname] = self.func(instance)
            return value


class BoundedCache:
    """Values by key, the most recently used ones of them, up to ``max_bytes`` in all.

    Threads may share it. A copy made by pickling is empty.
    """

    def __init__(self, max_bytes: int) -> None:
        """An empty cache."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:  # noqa: ANN401 - as ``object`` has it
        return type(self), (self._max_bytes,)

    def get(self, key: Hashable) -> Any:  # noqa: ANN401 - what was put
        """The value that was put under a key; None if it is not there."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: object, size_bytes: int) -> None:
        """Caches a value; if there is no room for all, the values not used for the longest time are dropped."""
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._bytes += size_bytes - (replaced[1] if replaced else 0)
            self._entries[key] = (value, size_bytes)
            while self._bytes > self._max_bytes:
                _, (_, dropped_bytes) = self._entries.popitem(last=False)
                self._bytes -= dropped_bytes


@cache
def memory_bytes(limits: tuple[Path, ...] = _LIMITS) -> int:
    """The memory of this machine, or of the container that limits it; as it was when first asked for."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *(limit for path in limits if (limit := _limit(path)) is not None)])


def _limit(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    # Without a limit, version 2 says "max", and version 1 a number beyond any memory.
    return int(text) if text.isdecimal() else None
