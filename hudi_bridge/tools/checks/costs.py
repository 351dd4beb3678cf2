"""Checks what a table costs: logs to merge, small files, overdue compactions, skew, old slices;
the reach of time travel.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from hudi_bridge.common.display import size_text
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.time_travel import earliest_readable_instant
from hudi_bridge.tools.checks.examined import Examined
from hudi_bridge.tools.checks.findings import Finding, Severity, SliceCost, listed, quoted

_LOGS, _OVERDUE, _SMALL, _SKEW, _HORIZON, _OLD = (
    "log-ratio",
    "compaction-overdue",
    "small-files",
    "skew",
    "horizon",
    "old-slices",
)
_COMPACT = "CALL run_compaction(op => 'scheduleandexecute', table => …)"
_CLUSTER = "CALL run_clustering(table => …), or raise hoodie.parquet.small.file.limit"
_MIN_COMPARED = 4
_FEW_SMALL_FILES = 2
_MAX_OLD_RATIO = 2


def log_ratio(examined: Examined) -> Iterator[Finding]:
    """Slices whose logs are too large compared with their base files."""
    heavy = [
        cost for cost in examined.costs if cost.log_ratio is not None and cost.log_ratio > examined.limits.log_ratio
    ]
    if heavy:
        total = sum(cost.log_bytes for cost in heavy)
        yield Finding(
            severity=Severity.ADVICE,
            check=_LOGS,
            found=f"{len(heavy)} file slices with more than {examined.limits.log_ratio:g} bytes of logs for each byte "
            f"of the base file: {_slices(heavy)}; every snapshot merges {size_text(total)} of logs for them",
            remedy=_COMPACT,
        )


def compaction_overdue(examined: Examined) -> Iterator[Finding]:
    """Slices with as many writes in their logs as Hudi waits for, but without a planned compaction."""
    planned = set(examined.view.pending_compactions)
    overdue = [
        cost for cost in examined.costs if cost.is_overdue and (cost.partition_path, cost.file_id) not in planned
    ]
    if overdue:
        most = max(cost.delta_commits for cost in overdue)
        yield Finding(
            severity=Severity.ADVICE,
            check=_OVERDUE,
            found=f"{len(overdue)} file slices with {examined.limits.delta_commits} or more writes in their logs, "
            f"up to {most}: {_slices(overdue)}",
            expected=f"a compaction after {examined.limits.delta_commits} (hoodie.compact.inline.max.delta.commits)",
            remedy=_COMPACT,
        )


def small_files(examined: Examined) -> Iterator[Finding]:
    """Partitions with several small base files, which fewer files could replace."""
    limit = examined.limits.small_file_bytes
    by_partition: dict[str, list[int]] = defaultdict(list)
    for file_slice in examined.slices:
        if file_slice.base_file is not None and file_slice.base_size_bytes < limit:
            by_partition[file_slice.partition_path].append(file_slice.base_size_bytes)
    many = {path: sizes for path, sizes in by_partition.items() if len(sizes) > _FEW_SMALL_FILES}
    if many:
        files = sum(map(len, many.values()))
        fewer = sum(-(-sum(sizes) // limit) for sizes in many.values())
        yield Finding(
            severity=Severity.ADVICE,
            check=_SMALL,
            found=f"{files} base files below {size_text(limit)} in {len(many)} partitions ({listed(sorted(many))}); "
            f"{fewer} would do",
            remedy=_CLUSTER,
        )


def skew(examined: Examined) -> Iterator[Finding]:
    """Partitions and file groups that are much larger than the others."""
    by_partition: dict[str, int] = defaultdict(int)
    for file_slice in examined.slices:
        by_partition[file_slice.partition_path] += file_slice.base_size_bytes + file_slice.log_size_bytes
    groups = {
        f"{file_slice.partition_path}/{file_slice.file_id}": file_slice.base_size_bytes + file_slice.log_size_bytes
        for file_slice in examined.slices
    }
    for what, sizes in (("partition", by_partition), ("file group", groups)):
        if len(sizes) < _MIN_COMPARED:
            continue
        name, largest = max(sizes.items(), key=lambda entry: entry[1])
        usual = median(sizes.values())
        if usual and largest > examined.limits.skew * usual and largest > examined.limits.small_file_bytes:
            yield Finding(
                severity=Severity.ADVICE,
                check=_SKEW,
                found=f"the {what} {quoted(name)} with {size_text(largest)}, {largest / usual:.0f} times the median",
                expected=f"up to {examined.limits.skew:g} times",
                remedy="one task reads a file group: cluster it, or choose other partitions or more buckets",
            )


def horizon(examined: Examined) -> Iterator[Finding]:
    """How far back time travel and incremental readers can go."""
    commits = examined.timeline.commits()
    if not commits:
        return
    cleaned = earliest_readable_instant(examined.state)
    first = commits[0].requested_time
    reach = "nothing was cleaned" if cleaned is None else f"all files from {cleaned} on are there"
    yield Finding(
        severity=Severity.INFO,
        check=_HORIZON,
        found=f"a timeline that begins at {first}; {reach}: time travel and incremental reads reach back to "
        f"{cleaned or first}",
        remedy=None if cleaned is None else "to keep more, raise hoodie.clean.commits.retained",
    )


def old_slices(examined: Examined) -> Iterator[Finding]:
    """Base files of earlier slices that were not cleaned."""
    newest = {file_slice.base_file.path for file_slice in examined.slices if file_slice.base_file is not None}
    # External files belong to another table, and a clean would delete them too.
    own = (file for file in examined.files if file.base is not None and file.base.write_token)
    old = [file for file in own if file.path not in newest]
    total, current = (
        sum(file.size_bytes for file in old),
        sum(file_slice.base_size_bytes for file_slice in examined.slices),
    )
    has_cleaned = examined.timeline.latest_completed(Action.CLEAN) is not None
    if total > _MAX_OLD_RATIO * current and old and not has_cleaned:
        yield Finding(
            severity=Severity.ADVICE,
            check=_OLD,
            found=f"{len(old)} base files of earlier slices ({size_text(total)}), and no clean on the active timeline",
            remedy="CALL run_clean(table => …); time travel to these slices ends then",
        )


def _slices(costs: Sequence[SliceCost]) -> str:
    return listed(f"{cost.partition_path}/{cost.file_id}" for cost in costs)


def files_not_looked_into(examined: Examined) -> Iterator[Finding]:
    """Whether there are more files than the limit for reading footers and headers."""
    bases = sum(file_slice.base_file is not None for file_slice in examined.slices)
    logs = sum(len(file_slice.log_files) for file_slice in examined.slices)
    limit = examined.limits.files
    for count, what in ((bases, "base files"), (logs, "log files")):
        if count > limit:
            yield Finding(
                severity=Severity.INFO,
                check="files-not-looked-into",
                found=f"{count:,} {what}, of which the newest {limit:,} were opened",
                remedy="--files, or Limits(files=…), raises the limit",
            )
