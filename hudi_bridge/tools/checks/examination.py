"""Runs the checks on a table, or on all tables below a folder.

A table is a folder with ``.hoodie`` in it, even if its properties are lost. The checks of heartbeats and markers, which
writers keep while they are at work, are here too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from hudi_bridge.config import HOODIE_FOLDER
from hudi_bridge.errors import CorruptTableError, HudiReadError, StorageError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.splits.table_files import open_state
from hudi_bridge.storage.storage import PathLike, Storage, StorageOptions
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import InstantLike, clock, parse_query_instant
from hudi_bridge.timeline.timeline import TableState
from hudi_bridge.tools.checks import costs, files, indexes, properties, rows, timeline
from hudi_bridge.tools.checks.examined import Examined, Progress
from hudi_bridge.tools.checks.findings import (
    Diagnosis,
    Finding,
    Limits,
    Severity,
    SliceCost,
    age_text,
    hours_between,
    of_error,
    ordered,
    quoted,
    remedy_of,
)
from hudi_bridge.tools.checks.logs import LogChecks
from hudi_bridge.tools.checks.timeline import archived_timeline

_HEARTBEATS, _MARKERS = "heartbeats", "marker-folders"
_HEARTBEAT_FOLDER, _MARKER_FOLDER = f"{HOODIE_FOLDER}/.heartbeat", f"{HOODIE_FOLDER}/.temp"
_CHECKSUM = ".crc"


def heartbeats(examined: Examined) -> Iterator[Finding]:
    """There are no old heartbeats of writers."""
    remedy = "a clean rolls back what such a writer has left; then delete the file, when no writer is running"
    after = "delete the file, when no writer is running"
    yield from _leftovers(examined, _HEARTBEATS, _HEARTBEAT_FOLDER, "a heartbeat", (remedy, after), of_folders=False)


def marker_folders(examined: Examined) -> Iterator[Finding]:
    """There are no old markers of files of writers."""
    remedy = "a rollback of the instant removes what they name; else delete the folder, when no writer is running"
    # Readers show the files that markers of a completed write name.
    after = "delete the folder, when no writer is running"
    yield from _leftovers(examined, _MARKERS, _MARKER_FOLDER, "markers", (remedy, after), of_folders=True)


def _leftovers(
    examined: Examined, check: str, folder: str, what: str, remedies: tuple[str, str], *, of_folders: bool
) -> Iterator[Finding]:
    """Entries of a folder, named after instants, whose writes started longer ago than a write may take.

    ``remedies`` are for a write that has not completed, and for one that has.
    """
    limit = examined.limits.pending_hours
    pending = examined.timeline.pending_times()
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


_OPEN = "open"
_BACKUP = "restore the file from a backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check by name; ``is_deep`` if it reads data."""

    name: str
    run: Callable[[Examined], Iterator[Finding]]
    is_deep: bool = False


CHECKS: tuple[Check, ...] = (
    Check(name="timeline-files", run=timeline.timeline_files),
    Check(name="timeline-order", run=timeline.timeline_order),
    Check(name="timeline-gaps", run=timeline.timeline_gaps),
    Check(name="pending-actions", run=timeline.pending_actions),
    Check(name="rollbacks", run=timeline.rollbacks),
    Check(name="heartbeats", run=heartbeats),
    Check(name="marker-folders", run=marker_folders),
    Check(name="archived-timeline", run=archived_timeline),
    Check(name="properties", run=properties.properties),
    Check(name="partition-metadata", run=files.partition_metadata),
    Check(name="files-of-failed-writes", run=files.files_of_failed_writes),
    Check(name="files-no-commit-names", run=files.files_no_commit_names),
    Check(name="base-file-twice", run=files.base_file_twice),
    Check(name="logs-of-compactions", run=files.logs_of_compactions),
    Check(name="missing-files", run=files.missing_files),
    Check(name="base-footers", run=files.base_footers),
    Check(name="base-file-sizes", run=files.base_file_sizes),
    Check(name="meta-columns", run=files.meta_columns),
    Check(name="log-blocks", run=lambda examined: LogChecks(examined).blocks()),
    Check(name="log-instants", run=lambda examined: LogChecks(examined).instants()),
    Check(name="log-sizes", run=lambda examined: LogChecks(examined).sizes()),
    Check(name="record-positions", run=lambda examined: LogChecks(examined).positions()),
    Check(name="schema-history", run=properties.schema_history),
    Check(name="file-schemas", run=properties.file_schemas),
    Check(name="metadata-table", run=indexes.metadata_table),
    Check(name="metadata-files", run=indexes.metadata_files),
    Check(name="log-ratio", run=costs.log_ratio),
    Check(name="compaction-overdue", run=costs.compaction_overdue),
    Check(name="small-files", run=costs.small_files),
    Check(name="skew", run=costs.skew),
    Check(name="old-slices", run=costs.old_slices),
    Check(name="horizon", run=costs.horizon),
    Check(name="files-not-looked-into", run=costs.files_not_looked_into),
    Check(name="metadata-records", run=indexes.metadata_records, is_deep=True),
    Check(name="column-stats", run=indexes.column_stats, is_deep=True),
    Check(name="partition-stats", run=indexes.partition_stats, is_deep=True),
    Check(name="expression-stats", run=indexes.expression_stats, is_deep=True),
    Check(name="bloom-filters", run=indexes.bloom_filters, is_deep=True),
    Check(name="secondary-index", run=indexes.secondary_indexes, is_deep=True),
    Check(name="timestamp-units", run=properties.timestamp_units, is_deep=True),
    Check(name="rows", run=rows.rows, is_deep=True),
)
"""All checks, in the order in which they run: later ones rely on what earlier ones have checked."""


def examine(
    path: PathLike,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    options: Mapping[str, str] | None = None,
    storage_options: StorageOptions | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examines the table in a folder, even if it cannot be opened for reading; nothing is changed.

    Args:
        path: as for ``HudiTable.open``, like ``filesystem``, ``options`` and ``storage_options``.
        filesystem: as for ``HudiTable.open``.
        deep: whether all rows are read.
        now: the time from which ages are counted, in one of Hudi's formats, by default the current time.
        limits: when something is too old, too small or too much.
        options: as for ``HudiTable.open``.
        storage_options: as for ``HudiTable.open``.
        progress: as for ``doctor``.

    Raises:
        TableNotFoundError: the folder has no Hudi table.
        StorageError: the file system fails before anything is known of the table.
        QueryError: an option is unknown, or ``now`` is not a time.
    """
    storage = Storage.open(path, filesystem, storage_options)
    return examine_storage(storage, deep=deep, now=now, limits=limits, options=options, progress=progress)


def examine_storage(
    storage: Storage,
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    options: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """As ``examine``, with an open storage."""
    try:
        state = open_state(storage, options or {}, {}, None)
    except (TableNotFoundError, StorageError):
        raise
    except UnsupportedTableError as error:
        return Diagnosis(path=storage.shown_path, findings=(_not_checked(_OPEN, error),))
    except HudiReadError as error:
        if isinstance(error, ValueError):
            raise
        return Diagnosis(path=storage.shown_path, findings=(_not_checked(_OPEN, error),))
    return _examine_state(state, deep=deep, now=now, limits=limits, progress=progress)


def doctor(
    table: HudiTable,
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """What is damaged, contradictory, under way for too long or costly in a table; nothing is changed.

    Reads listings, the timeline, footers, the headers of log blocks and the list of files in the metadata table; with
    ``deep``, all rows and indexes too. ``examine`` also takes tables that cannot be opened.

    Args:
        table: the table.
        deep: whether all rows and indexes are read.
        now: the time from which ages are counted, by default the current time.
        limits: when something is too old, too small or too much.
        progress: called with what is being read, how many parts are done, and the number of parts.

    Raises:
        QueryError: ``now`` is not a time.
    """
    return _examine_state(table.planner().state, deep=deep, now=now, limits=limits, progress=progress)


def _examine_state(
    state: TableState,
    *,
    deep: bool,
    now: InstantLike | None,
    limits: Limits | None,
    progress: Progress | None,
) -> Diagnosis:
    config = state.config
    moment = (
        clock(config.timeline_timezone) if now is None else parse_query_instant(now, config.timeline_timezone, "now")
    )
    report_progress = progress or (lambda *_: None)
    examined = Examined(state, moment, limits or Limits(), report_progress, deep=deep)
    checks = [check for check in CHECKS if deep or not check.is_deep]
    findings = [finding for check in checks for finding in _run(check, examined)]
    latest = state.timeline.latest_commit()
    return Diagnosis(
        path=state.storage.shown_path,
        name=config.name,
        table_type=str(config.table_type),
        table_version=config.table_version,
        instant=None if latest is None else latest.requested_time,
        deep=deep,
        findings=ordered(findings),
        slices=_costs(examined),
        checks=tuple(check.name for check in checks),
    )


def _run(check: Check, examined: Examined) -> Iterator[Finding]:
    """The findings of a check, and one more if something cannot be read."""
    examined.progress(check.name, 0, 0)
    try:
        yield from check.run(examined)
    except (HudiReadError, OSError, pa.ArrowException) as error:
        yield _not_checked(check.name, error)


def _costs(examined: Examined) -> tuple[SliceCost, ...]:
    try:
        return examined.costs
    except (HudiReadError, OSError):
        # The checks of slices report the error.
        return ()


def _not_checked(name: str, error: Exception) -> Finding:
    is_unsupported = isinstance(error, UnsupportedTableError)
    remedy = "this part of the table cannot be examined" if is_unsupported else remedy_of(error, _BACKUP)
    return of_error(
        error,
        severity=Severity.WARNING if is_unsupported else Severity.ERROR,
        check=name,
        path=error.path if isinstance(error, CorruptTableError) else None,
        remedy=remedy,
    )


_MAX_LEVELS = 16


def is_table_folder(folder: Storage) -> bool:
    """Whether a folder is a table, which may be damaged."""
    return folder.exists(HOODIE_FOLDER)


def tables_below(root: Storage, failed: Callable[[Storage, HudiReadError], None]) -> Iterator[Storage]:
    """Yields the tables below a folder, by path; ``failed`` is called for folders that cannot be listed.

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
        elif level < _MAX_LEVELS:
            inside = (folder.child(name) for name in names if not name.startswith("."))
            waiting += [
                (child, level + 1) for child in reversed([subfolder for subfolder in inside if not _is_link(subfolder)])
            ]


def _is_link(folder: Storage) -> bool:
    return folder.is_local and Path(folder.root).is_symlink()
