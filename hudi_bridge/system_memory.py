"""The memory that a process may use: that of the machine, or less in a container."""

import os
from functools import cache
from pathlib import Path

_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
"""Where Linux tells the limit of a container: control groups of version 2, and of version 1."""


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
