"""Runs the checks on a table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hudi_bridge.doctor import (
    base_files,
    costs,
    files,
    indexes,
    key_indexes,
    leftovers,
    properties,
    rows,
    schemas,
    statistics,
    timeline,
)
from hudi_bridge.doctor.archive import archived_timeline
from hudi_bridge.doctor.examined import Examined, Progress
from hudi_bridge.doctor.findings import Diagnosis, Finding, Severity, SliceCost, of_error, ordered, remedy_of
from hudi_bridge.doctor.limits import Limits, clock
from hudi_bridge.doctor.logs import LogChecks
from hudi_bridge.errors import CorruptTableError, HudiReadError, StorageError, TableNotFoundError, UnsupportedTableError
from hudi_bridge.splits.opening import open_state
from hudi_bridge.storage import PathLike, Storage, StorageOptions
from hudi_bridge.timeline.instant import InstantLike, parse_query_instant
from hudi_bridge.timeline.table_state import TableState

_OPEN = "open"
_BACKUP = "restore the file from a backup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A check by name; ``is_deep`` says whether it reads data."""

    name: str
    run: Callable[[Examined], Iterator[Finding]]
    is_deep: bool = False


CHECKS: tuple[Check, ...] = (
    Check(name="timeline-files", run=timeline.timeline_files),
    Check(name="timeline-order", run=timeline.timeline_order),
    Check(name="timeline-gaps", run=timeline.timeline_gaps),
    Check(name="pending-actions", run=timeline.pending_actions),
    Check(name="rollbacks", run=timeline.rollbacks),
    Check(name="heartbeats", run=leftovers.heartbeats),
    Check(name="marker-folders", run=leftovers.marker_folders),
    Check(name="archived-timeline", run=archived_timeline),
    Check(name="properties", run=properties.properties),
    Check(name="partition-metadata", run=files.partition_metadata),
    Check(name="files-of-failed-writes", run=files.files_of_failed_writes),
    Check(name="files-no-commit-names", run=files.files_no_commit_names),
    Check(name="base-file-twice", run=files.base_file_twice),
    Check(name="logs-of-compactions", run=files.logs_of_compactions),
    Check(name="missing-files", run=files.missing_files),
    Check(name="base-footers", run=base_files.base_footers),
    Check(name="base-file-sizes", run=base_files.base_file_sizes),
    Check(name="meta-columns", run=base_files.meta_columns),
    Check(name="log-blocks", run=lambda examined: LogChecks(examined).blocks()),
    Check(name="log-instants", run=lambda examined: LogChecks(examined).instants()),
    Check(name="log-sizes", run=lambda examined: LogChecks(examined).sizes()),
    Check(name="record-positions", run=lambda examined: LogChecks(examined).positions()),
    Check(name="schema-history", run=schemas.schema_history),
    Check(name="file-schemas", run=schemas.file_schemas),
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
    Check(name="column-stats", run=statistics.column_stats, is_deep=True),
    Check(name="partition-stats", run=statistics.partition_stats, is_deep=True),
    Check(name="expression-stats", run=statistics.expression_stats, is_deep=True),
    Check(name="bloom-filters", run=key_indexes.bloom_filters, is_deep=True),
    Check(name="secondary-index", run=key_indexes.secondary_indexes, is_deep=True),
    Check(name="rows", run=rows.rows, is_deep=True),
)
"""All checks, in the order in which they run: what later ones need has been checked by earlier ones."""


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
    """Examine the table in a folder, also one that cannot be opened for reading; nothing is changed.

    ``path``, ``filesystem``, ``options`` and ``storage_options`` are as for ``HudiTable.open``. With ``deep``, all rows
    are read. ``now`` is the time by which something is too old, in one of Hudi's formats, by default that of the clock.

    Raises:
        TableNotFoundError: the folder has no Hudi table.
        StorageError: the file system fails before anything is known of the table.
        QueryError: an option is unknown, or ``now`` is no time.
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
    return examine_state(state, deep=deep, now=now, limits=limits, progress=progress)


def examine_state(
    state: TableState,
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """As ``examine``, for a table that is open."""
    config = state.config
    moment = (
        clock(config.timeline_timezone) if now is None else parse_query_instant(now, config.timeline_timezone, "now")
    )
    shown = progress or (lambda *_: None)
    examined = Examined(state, moment, limits or Limits(), shown, deep=deep)
    chosen = [check for check in CHECKS if deep or not check.is_deep]
    findings = [finding for check in chosen for finding in _run(check, examined)]
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
        checks=tuple(check.name for check in chosen),
    )


def _run(check: Check, examined: Examined) -> Iterator[Finding]:
    """The findings of a check; what cannot be read for it is one more."""
    examined.progress(check.name, 0, 0)
    try:
        yield from check.run(examined)
    except (HudiReadError, OSError, pa.ArrowException) as error:
        yield _not_checked(check.name, error)


def _costs(examined: Examined) -> tuple[SliceCost, ...]:
    try:
        return examined.costs
    except (HudiReadError, OSError):
        # The checks of slices say why there are none.
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
