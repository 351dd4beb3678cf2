"""What a report says of a table, gathered; how it looks is decided elsewhere.

A part that cannot be read leaves its error in the report, and the others go on.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import pyarrow as pa

from hudi_bridge.config import TableType
from hudi_bridge.doctor import Diagnosis, Limits, SliceCost, examine_state
from hudi_bridge.doctor.examined import Progress
from hudi_bridge.doctor.limits import clock
from hudi_bridge.errors import HudiReadError, QueryError
from hudi_bridge.inspection import inspect_timeline
from hudi_bridge.inspection_of_commits import inspect_commits
from hudi_bridge.merge.payloads import infer_merge_mode
from hudi_bridge.report.compaction import CompactionGain, compaction_gains
from hudi_bridge.schema_history import SchemaVersion
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.instant import Action, InstantLike, parse_query_instant, seconds_between
from hudi_bridge.trace.record_history import RecordHistory

_COMPLETED = "completed"
_Part = TypeVar("_Part")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """An instant of the active timeline.

    ``seconds`` is how long a completed action took, None where the timeline does not say it; of another action, how
    long ago it was requested. The numbers of rows and bytes are None unless it is a completed commit.
    """

    requested_time: str
    action: str
    state: str
    completion_time: str | None
    seconds: float | None
    operation: str | None
    rows_inserted: int | None
    rows_updated: int | None
    rows_deleted: int | None
    bytes_written: int | None
    extra_metadata: tuple[tuple[str, str], ...]

    @property
    def is_completed(self) -> bool:
        """Whether the action has ended."""
        return self.state == _COMPLETED


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCost:
    """What the newest slices of a partition cost a reader together; sizes in bytes.

    ``most_writes`` is the largest number of writes in the logs of one slice.
    """

    path: str
    slices: int
    base_bytes: int
    log_bytes: int
    log_files: int
    most_writes: int
    overdue: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What there is to say of a table.

    ``facts`` are names and values. ``partitions`` are those with the most log bytes first; the slices themselves are in
    ``diagnosis``. ``pending_compactions`` are instants. ``problems`` are parts that cannot be read, and why.
    """

    facts: tuple[tuple[str, str], ...]
    timeline: tuple[TimelineEntry, ...]
    diagnosis: Diagnosis
    partitions: tuple[PartitionCost, ...]
    gains: tuple[CompactionGain, ...]
    pending_compactions: tuple[str, ...]
    is_merge_on_read: bool
    columns: pa.Schema | None
    versions: tuple[SchemaVersion, ...]
    stories: tuple[RecordHistory, ...]
    problems: tuple[tuple[str, str], ...]


def gather(
    table: HudiTable,
    keys: Iterable[str] = (),
    *,
    deep: bool = False,
    now: InstantLike | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
) -> Report:
    """Reads what ``HudiTable.doctor`` reads, commits, schemas, and the files that may hold the record keys.

    ``now``, ``deep`` and ``limits`` are as for ``HudiTable.doctor``; ``progress`` is told what is being read.

    Raises:
        QueryError: ``now`` is no time, or a key no Unicode text.
    """
    config, tell = table.config, progress or (lambda *_: None)
    moment = (
        clock(config.timeline_timezone) if now is None else parse_query_instant(now, config.timeline_timezone, "now")
    )
    limits = limits or Limits()
    # Users get the diagnosis without being told what is being read.
    diagnosis = examine_state(table._state, deep=deep, now=moment, limits=limits, progress=tell)  # noqa: SLF001
    problems: list[tuple[str, str]] = []

    def part(name: str, read: Callable[[], _Part]) -> _Part | None:
        tell(name, 0, 0)
        try:
            return read()
        except QueryError:
            raise
        except (HudiReadError, OSError, pa.ArrowException) as error:
            problems.append((name, str(error)))
            return None

    commits = part("commits", lambda: inspect_commits(table)) or inspect_timeline(table)
    histories = (part(f"story of {key!r}", partial(table.history_of, key)) for key in dict.fromkeys(keys))
    stories = tuple(history for history in histories if history is not None)
    return Report(
        facts=tuple(_facts(table)),
        timeline=tuple(_entry(row, moment) for row in commits.to_pylist()),
        diagnosis=diagnosis,
        partitions=partition_costs(diagnosis.slices),
        gains=compaction_gains(diagnosis.slices, limits.delta_commits),
        pending_compactions=tuple(
            one.requested_time
            for one in table.timeline.instants
            if one.action is Action.COMPACTION and not one.is_completed
        ),
        is_merge_on_read=config.table_type is TableType.MERGE_ON_READ,
        columns=part("columns", lambda: table.schema),
        versions=part("schema history", lambda: table.schema_history) or (),
        stories=stories,
        problems=tuple(problems),
    )


def _facts(table: HudiTable) -> Iterable[tuple[str, str]]:
    config = table.config
    facts = (
        ("path", table.path),
        ("table type", str(config.table_type)),
        ("table version", str(config.table_version)),
        ("merge mode", str(infer_merge_mode(config))),
        ("record key", ", ".join(config.record_key_fields)),
        ("ordering fields", ", ".join(config.ordering_fields)),
        ("partition fields", ", ".join(config.partition_fields)),
        ("newest instant", table.latest_instant or "none yet"),
    )
    return (fact for fact in facts if fact[1])


def _entry(row: dict[str, Any], now: str) -> TimelineEntry:
    if row["state"] == _COMPLETED:
        seconds = row.get("duration_seconds")
    else:
        since = seconds_between(row["requested_time"], now)
        # The clock may be behind, or in another zone than a timeline that does not name its own.
        seconds = None if since is None or since < 0 else since
    return TimelineEntry(
        requested_time=row["requested_time"],
        action=row["action"],
        state=row["state"],
        completion_time=row["completion_time"],
        seconds=seconds,
        operation=row.get("operation"),
        rows_inserted=row.get("rows_inserted"),
        rows_updated=row.get("rows_updated"),
        rows_deleted=row.get("rows_deleted"),
        bytes_written=row.get("bytes_written"),
        extra_metadata=tuple(row.get("extra_metadata") or ()),
    )


def partition_costs(costs: Sequence[SliceCost]) -> tuple[PartitionCost, ...]:
    """The costs of the partitions, those with the most log bytes first."""
    by_path = groupby(sorted(costs, key=_path), key=_path)
    partitions = (_partition(path, tuple(pieces)) for path, pieces in by_path)
    return tuple(sorted(partitions, key=lambda one: (-one.log_bytes, one.path)))


def _path(cost: SliceCost) -> str:
    return cost.partition_path


def _partition(path: str, costs: Sequence[SliceCost]) -> PartitionCost:
    return PartitionCost(
        path=path,
        slices=len(costs),
        base_bytes=sum(cost.base_bytes for cost in costs),
        log_bytes=sum(cost.log_bytes for cost in costs),
        log_files=sum(cost.log_files for cost in costs),
        most_writes=max(cost.delta_commits for cost in costs),
        overdue=sum(cost.is_overdue for cost in costs),
    )
