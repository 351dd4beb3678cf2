"""Reads the properties, the instants and the files of a table's timeline, for cases."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path

FIRST_VERSION_WITH_FOLDER = 8
"""The first table version whose timeline has a folder of its own (timeline layout 2)."""
WRITES = ("commit", "deltacommit", "replacecommit")

_STATES = ("requested", "inflight", "completed")
_NAME = re.compile(r"(\d{14,17})(?:_(\d{17}))?\.([a-z]+)(?:\.(requested|inflight))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """An action of the active timeline; ``completed`` is the completion time in its file name, if there is one."""

    requested: str
    completed: str | None
    action: str
    state: str

    def as_dict(self) -> dict[str, str | None]:
        """The entry of ``case.json``."""
        return asdict(self)


def properties(table: Path) -> dict[str, str]:
    """The properties in ``hoodie.properties``; empty without a table."""
    path = table / ".hoodie" / "hoodie.properties"
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def table_version(table: Path) -> int:
    """The table version, 0 without a table."""
    return int(properties(table).get("hoodie.table.version", "0"))


def timeline_folder(table: Path) -> Path:
    """The folder of the active timeline."""
    hoodie = table / ".hoodie"
    return hoodie / "timeline" if table_version(table) >= FIRST_VERSION_WITH_FOLDER else hoodie


def instants(table: Path) -> list[Instant]:
    """The active timeline by requested time, each action in its latest state."""
    furthest: dict[str, Instant] = {}
    folder = timeline_folder(table)
    for name in sorted(path.name for path in folder.iterdir() if path.is_file()) if folder.is_dir() else []:
        instant = _instant(name)
        if instant is None:
            continue
        known = furthest.get(instant.requested)
        if known is None or _STATES.index(instant.state) >= _STATES.index(known.state):
            furthest[instant.requested] = instant
    return [furthest[requested] for requested in sorted(furthest)]


def completed_file(table: Path, requested: str) -> Path:
    """The file of a completed action."""
    (path,) = (
        path
        for path in timeline_folder(table).iterdir()
        if path.name.startswith(requested) and path.suffix not in (".inflight", ".requested", ".crc")
    )
    return path


def _instant(name: str) -> Instant | None:
    # The name of an inflight commit of layout 1 has no action.
    match = _NAME.fullmatch(re.sub(r"^(\d+)\.inflight$", r"\1.commit.inflight", name))
    if match is None:
        return None
    requested, completed, action, state = match.groups()
    return Instant(requested=requested, completed=completed, action=action, state=state or "completed")
