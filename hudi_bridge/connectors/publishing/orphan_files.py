"""Orphan files, which nothing refers to any more: kept while a query that has begun may read them, then removed.

When a file was first found to be an orphan is noted in the folder itself, so that it holds for later processes, too.
"""

import json
import time
from collections.abc import Mapping

from hudi_bridge.connectors.publishing.scratch import Scratch

_NOTES = "orphan_files.json"


def remove_orphan_files(scratch: Scratch, needed: Mapping[str, tuple[set[str], tuple[str, ...]]], after: float) -> int:
    """Removes files that have been orphans for so many seconds, and returns how many there were.

    ``needed`` says of each folder which names are needed, and how the names of files end that may be removed.
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
    """The notes; none if they are damaged, so that orphan files stay for longer."""
    try:
        notes = json.loads(scratch.read(_NOTES) or b"{}")
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) else {}
