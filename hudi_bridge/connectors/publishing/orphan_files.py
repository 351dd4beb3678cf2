"""Removes files to which nothing refers any more, when running queries no longer need them.

The folder itself keeps when a file was first found to be an orphan, for later processes.
"""

import json
import time
from collections.abc import Mapping

from hudi_bridge.connectors.publishing.scratch import Scratch

_NOTES = "orphan_files.json"


def remove_orphan_files(scratch: Scratch, needed: Mapping[str, tuple[set[str], tuple[str, ...]]], after: float) -> int:
    """Removes files that have been orphans for ``after`` seconds; returns their number.

    ``needed`` has for each folder the names that are needed, and the suffixes of the files that may be removed.
    """
    notes, now = _read(scratch), time.time()
    orphans = {
        f"{folder}/{name}": notes.get(f"{folder}/{name}", now)
        for folder, (names, suffixes) in needed.items()
        for name in scratch.all_names(folder)
        if name not in names and name.endswith(suffixes)
    }
    due = [name for name, since in orphans.items() if now - since >= after]
    for name in due:
        scratch.remove(name)
        del orphans[name]
    if orphans != notes:
        scratch.write(_NOTES, json.dumps(orphans).encode())
    return len(due)


def _read(scratch: Scratch) -> dict[str, float]:
    """The times, in seconds since the epoch, by file; none if they are damaged, and files then stay longer."""
    try:
        notes = json.loads(scratch.read(_NOTES) or b"{}")
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}
