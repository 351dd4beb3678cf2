"""Checks of what writers keep while they are at work: their heartbeats, and markers of the files that they write."""

from collections.abc import Iterator

from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.doctor.examined import Examined
from hudi_bridge.doctor.findings import Finding, Severity, quoted
from hudi_bridge.doctor.limits import age_text, hours_between

_HEARTBEATS, _MARKERS = "heartbeats", "marker-folders"
_HEARTBEAT_FOLDER, _MARKER_FOLDER = f"{HOODIE_FOLDER}/.heartbeat", f"{HOODIE_FOLDER}/.temp"
_CHECKSUM = ".crc"


def heartbeats(examined: Examined) -> Iterator[Finding]:
    """There are no heartbeats of writers that have been gone for long."""
    remedy = "a clean rolls back what such a writer has left; then delete the file, when no writer is running"
    after = "delete the file, when no writer is running"
    yield from _leftovers(examined, _HEARTBEATS, _HEARTBEAT_FOLDER, "a heartbeat", (remedy, after), of_folders=False)


def marker_folders(examined: Examined) -> Iterator[Finding]:
    """There are no markers of files of writers that have been gone for long."""
    remedy = "a rollback of the instant removes what they name; else delete the folder, when no writer is running"
    # Files that markers of a completed write name are those that readers show.
    after = "delete the folder, when no writer is running"
    yield from _leftovers(examined, _MARKERS, _MARKER_FOLDER, "markers", (remedy, after), of_folders=True)


def _leftovers(
    examined: Examined, check: str, folder: str, what: str, remedies: tuple[str, str], *, of_folders: bool
) -> Iterator[Finding]:
    """Entries of a folder, named after instants, of writes that began longer ago than a write may take.

    ``remedies`` are that of a write that has not completed, and that of one that has.
    """
    limit = examined.limits.pending_hours
    pending = {one.requested_time for one in examined.timeline.instants if not one.is_completed}
    for info in examined.storage.list_directory(folder):
        hours = hours_between(info.name, examined.now)
        if info.is_dir is not of_folders or info.name.endswith(_CHECKSUM) or hours is None or hours <= limit:
            continue
        remedy, after = remedies
        if info.name in pending:
            state, severity = "which has not completed", Severity.WARNING
        elif examined.timeline.contains(info.name) or info.name in examined.archived_commits:
            state, severity, remedy = "which has completed", Severity.ADVICE, after
        else:
            state, severity = "which the timeline does not know", Severity.WARNING
        yield Finding(
            severity=severity,
            check=check,
            path=info.path,
            found=f"{what} of the instant {quoted(info.name)}, {state}; it began {age_text(hours)} ago",
            expected=f"the writer to remove them within {age_text(limit)}",
            remedy=remedy,
        )
