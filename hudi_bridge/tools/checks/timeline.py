"""Checks of the active and the archived timeline: their files, order, contents, and actions under way for too long."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import CorruptTableError, HudiReadError
from hudi_bridge.inspection.services import COMMANDS
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.storage.storage import FileInfo
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Action, Instant, InstantState, parse_instant_file_name, time_of
from hudi_bridge.timeline.instant_files import commit_metadata_of_record
from hudi_bridge.timeline.records import Record, number_field, parse_record, records_field, text_field, texts_field
from hudi_bridge.tools.checks.examined import Examined, TimelineFile
from hudi_bridge.tools.checks.findings import Finding, Severity, age_text, hours_between, listed, of_error, quoted

_FILES, _ORDER, _GAPS, _PENDING, _ROLLBACKS = (
    "timeline-files",
    "timeline-order",
    "timeline-gaps",
    "pending-actions",
    "rollbacks",
)
_PLANNED = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
"""Actions whose requested file has the plan, which is needed to finish them and to read the table meanwhile."""
_ROLLBACK = (
    "CALL rollback_to_instant(table => …, instant_time => '{time}'), or start a writer, which rolls failed writes back"
)
_EMPTY_WRITE = (
    "readers show the rows of its files, as Hudi does; incremental queries do not, and what it replaced is there"
    " again: restore the file from a backup"
)
_ALL_WRITES = "the archived timeline to know every write before the active one"
_SPECIAL = "0000000000000"
"""The start of the instants of bootstraps and of new indexes, which are not times."""


def timeline_files(examined: Examined) -> Iterator[Finding]:
    """Every file of an instant can be parsed, and files with similar names are instants."""
    layout = examined.config.timeline_layout
    for info in examined.storage.list_directory(examined.config.timeline_path):
        looks_like_instant = info.name[:1].isdigit() and not info.is_dir and not info.name.endswith((".crc", ".tmp"))
        if looks_like_instant and parse_instant_file_name(info.name, layout) is None:
            yield Finding(
                severity=Severity.WARNING,
                check=_FILES,
                path=info.path,
                found=f"the file name {quoted(info.name)}",
                expected="the name of an instant of this timeline layout",
                remedy="find out who wrote it; every reader ignores it",
            )
    for file in examined.timeline_files:
        yield from _content(file)


def _content(file: TimelineFile) -> Iterator[Finding]:
    instant, record = file.instant, file.record
    if record is None:
        if instant.is_completed and instant.action is not Action.SAVEPOINT:
            is_write = instant.action in COMMIT_ACTIONS
            yield Finding(
                severity=Severity.ERROR if is_write else Severity.WARNING,
                check=_FILES,
                path=file.path,
                found="an empty file of a completed action",
                expected="what the action has done",
                remedy=_EMPTY_WRITE if is_write else "restore the file from a backup",
            )
        elif instant.action in _PLANNED and instant.state is InstantState.REQUESTED:
            yield Finding(
                severity=Severity.ERROR,
                check=_FILES,
                path=file.path,
                found="an empty plan",
                expected=f"the plan of a {instant.action}",
                remedy="restore the file from a backup; in hudi-cli, compaction unschedule takes the plan back",
            )
        return
    error = record if isinstance(record, HudiReadError) else _error_in(record, file)
    if error is not None:
        # The contents of other files are not needed once the action is completed.
        is_needed = instant.is_completed or (instant.action in _PLANNED and instant.state is InstantState.REQUESTED)
        yield of_error(
            error,
            severity=Severity.ERROR if is_needed else Severity.WARNING,
            check=_FILES,
            path=file.path,
            remedy="CALL repair_corrupted_clean_files(table => …) for cleans; otherwise restore the file from a backup",
        )


def _error_in(record: Record, file: TimelineFile) -> HudiReadError | None:
    if not (file.instant.is_completed and file.instant.action in COMMIT_ACTIONS):
        return None
    try:
        commit_metadata_of_record(record, file.path)
    except CorruptTableError as error:
        return error
    return None


def timeline_order(examined: Examined) -> Iterator[Finding]:
    """Instants are times, complete once and after they were requested, and are not in the future."""
    by_key: dict[tuple[str, Action], list[TimelineFile]] = defaultdict(list)
    for file in examined.timeline_files:
        by_key[file.instant.requested_time, file.instant.comparable_action].append(file)
    for (time, action), files in sorted(by_key.items()):
        if time_of(time) is None and not time.startswith(_SPECIAL):
            yield Finding(
                severity=Severity.WARNING,
                check=_ORDER,
                path=files[0].path,
                found=f"the instant {quoted(time)}",
                expected="a time as yyyyMMddHHmmssSSS",
                remedy="no writer of Hudi makes such instants; find out who wrote it",
            )
        completed = [file for file in files if file.instant.is_completed]
        if len(completed) > 1:
            yield Finding(
                severity=Severity.ERROR,
                check=_ORDER,
                path=completed[1].path,
                found=f"the {action} {time} completed twice: {listed(file.path for file in completed)}",
                expected="one completed file",
                remedy="find out which completion is right: the order of file slices depends on its time",
            )
        for file in completed:
            yield from _order_of(file, examined)


def _order_of(file: TimelineFile, examined: Examined) -> Iterator[Finding]:
    requested, completed = file.instant.requested_time, file.instant.completion_time
    if completed is not None and completed < requested:
        yield Finding(
            severity=Severity.ERROR,
            check=_ORDER,
            path=file.path,
            found=f"a completion at {completed}, before the request at {requested}",
            expected="a completion time after the requested time",
            remedy="check the clocks of the writers; file slices depend on this order",
        )
    ahead = hours_between(examined.now, completed or requested)
    if ahead is not None and ahead > 24:  # noqa: PLR2004 - more than any difference between time zones
        yield Finding(
            severity=Severity.WARNING,
            check=_ORDER,
            path=file.path,
            found=f"an instant {age_text(ahead)} in the future",
            expected=f"instants up to {examined.now}",
            remedy="check the clocks of the writers; until then, newer writes sort before this one",
        )


def timeline_gaps(examined: Examined) -> Iterator[Finding]:
    """No plan is missing, and all instants of data files are on the active or the archived timeline."""
    states: dict[tuple[str, Action], set[InstantState]] = defaultdict(set)
    for file in examined.timeline_files:
        states[file.instant.requested_time, file.instant.action].add(file.instant.state)
    for instant in examined.timeline.instants:
        existing_states = states[instant.requested_time, instant.action]
        if not instant.is_completed and instant.action in _PLANNED and InstantState.REQUESTED not in existing_states:
            yield Finding(
                severity=Severity.ERROR,
                check=_GAPS,
                path=examined.timeline_path(instant),
                found=f"a {instant.action} that has begun without its plan",
                expected=f"{instant.requested_time}.{instant.action}.requested",
                remedy="restore the plan from a backup, or roll the action back",
            )
    yield from _lost_completions(examined)
    yield from _unknown_instants(examined)


def _lost_completions(examined: Examined) -> Iterator[Finding]:
    for instant, evidence in examined.lost_completions.items():
        yield Finding(
            severity=Severity.ERROR,
            check=_GAPS,
            path=examined.timeline_path(instant),
            found=f"a {instant.action} that has not completed, although {evidence}",
            expected=f"the file of the completed {instant.action} {instant.requested_time}",
            remedy="restore that file from a backup before a writer starts: it would roll the write back, and its rows"
            " would be lost for good. Until then, no reader shows them",
        )


def _unknown_instants(examined: Examined) -> Iterator[Finding]:
    archived = [time for time in _instants_of_files(examined) if examined.timeline.is_archived(time)]
    if not examined.archived:
        # The table may have been copied without its history.
        earlier = (stat.prev_commit for commit in examined.commits.values() for stat in commit.write_stats)
        archived += [time for time in earlier if time is not None and examined.timeline.is_archived(time)]
        if archived:
            yield Finding(
                severity=Severity.INFO,
                check=_GAPS,
                path=examined.config.archived_path,
                found=f"no archived instants, although data files or commits name {listed(sorted(set(archived)))}",
                expected=_ALL_WRITES,
                remedy=f"only ranges that begin before {examined.timeline.start} need them, and are refused",
            )
        return
    known_instants = examined.archived_commits | {instant.requested_time for instant in examined.timeline.instants}
    oldest = min(instant.requested_time for instant in examined.archived)
    missing = [time for time in archived if time not in known_instants and time > oldest]
    if missing:
        yield Finding(
            severity=Severity.WARNING,
            check=_GAPS,
            path=examined.config.archived_path,
            found=f"no instant {listed(missing)}, although there are data files of it",
            expected=_ALL_WRITES,
            remedy="all readers take these files for committed; a backup of the archived timeline tells if they are",
        )


def _instants_of_files(examined: Examined) -> list[str]:
    names = (file for file in examined.files if file.base is not None or examined.logs_name_their_own_instant)
    return sorted({file.instant_time for file in names if not file.is_cdc})


def pending_actions(examined: Examined) -> Iterator[Finding]:
    """No action has been under way for too long."""
    recent: list[Instant] = []
    for instant in examined.timeline.instants:
        if instant.is_completed or instant in examined.lost_completions:
            # What ends pending writes would delete rows of these.
            continue
        hours = hours_between(instant.requested_time, examined.now)
        is_service = instant.action in COMMANDS or _is_clustering(examined, instant)
        limit = examined.limits.service_hours if is_service else examined.limits.pending_hours
        if hours is None or hours <= limit:
            recent.append(instant)
            continue
        remedy = COMMANDS.get(Action.CLUSTERING if is_service and instant.action in COMMIT_ACTIONS else instant.action)
        yield Finding(
            severity=Severity.WARNING,
            check=_PENDING,
            path=examined.timeline_path(instant),
            found=f"a {instant.action} that has been {instant.state.name.lower()} for {age_text(hours)}",
            expected=f"an end within {age_text(limit)}",
            remedy=(remedy or _ROLLBACK).format(time=instant.requested_time),
        )
    for instant in recent:
        yield Finding(
            severity=Severity.INFO,
            check=_PENDING,
            path=examined.timeline_path(instant),
            found=f"a {instant.action} that is {instant.state.name.lower()}",
        )


def _is_clustering(examined: Examined, instant: Instant) -> bool:
    """Whether a pending replace commit of layout 1 is a clustering, by its plan."""
    requested = (file.record for file in _files_of(examined, instant) if file.instant.state is InstantState.REQUESTED)
    record = next(requested, None)
    return isinstance(record, Mapping) and record.get("clusteringPlan") is not None


def _files_of(examined: Examined, instant: Instant) -> Sequence[TimelineFile]:
    key = (instant.requested_time, instant.action)
    return [file for file in examined.timeline_files if (file.instant.requested_time, file.instant.action) == key]


def rollbacks(examined: Examined) -> Iterator[Finding]:
    """The instants that rollbacks have undone are no longer on the timeline."""
    by_time = {instant.requested_time: instant for instant in examined.timeline.instants}
    for file in examined.timeline_files:
        if file.instant.action is not Action.ROLLBACK or not file.instant.is_completed:
            continue
        if not isinstance(file.record, Mapping):
            continue
        for time in texts_field(file.record, "commitsRollback", file.path):
            target = by_time.get(time)
            if target is None or target.requested_time >= file.instant.requested_time:
                continue
            # A compaction or clustering that is rolled back is planned again with the same instant.
            commit = examined.commits.get(time)
            is_service = commit is not None and (commit.is_compaction or commit.operation_type == "CLUSTER")
            is_write = target.action in COMMIT_ACTIONS and not is_service and not _is_clustering(examined, target)
            if is_write:
                yield Finding(
                    severity=Severity.ERROR if target.is_completed else Severity.WARNING,
                    check=_ROLLBACKS,
                    path=examined.timeline_path(target),
                    found=f"the {target.action} {time}, which the rollback {file.instant.requested_time} has undone",
                    expected="no file of it on the timeline",
                    remedy=_remedy_of_undone(examined, time),
                )


def _remedy_of_undone(examined: Examined, time: str) -> str:
    """The remedy for a write that remains although it was rolled back; readers show its remaining files."""
    named = examined.written.get(time)
    remaining = sorted(
        file.path for file in examined.files if file.instant_time == time or (named is not None and file.path in named)
    )
    if named and not remaining:
        return "delete its files from the timeline: its data files are gone"
    shown = f"its data files {listed(remaining)}" if remaining else "data files of it, if there are any"
    return f"readers show {shown}: compare the rows with a backup"


_CHECK = "archived-timeline"
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")
_DATA_FILE = re.compile(r"([0-9]+)_([0-9]+)_[0-9]\.parquet")
_REMEDY = "restore the file from a backup; without it, time travel and incremental reads lack completion times"


def archived_timeline(examined: Examined) -> Iterator[Finding]:
    """The whole archived timeline can be read, and agrees with the active one."""
    folder = examined.config.archived_path
    listing = {info.name: info for info in examined.storage.list_directory(folder) if not info.is_dir}
    if not examined.config.layout.archives_in_logs and listing:
        yield from _manifest(examined, folder, listing)
    archived = {
        (instant_of_archive.requested_time, instant_of_archive.action): instant_of_archive
        for instant_of_archive in examined.archived
    }
    for instant in examined.timeline.completed():
        other = archived.get((instant.requested_time, instant.action))
        if (
            other is not None
            and None not in (times := {instant.completion_time, other.completion_time})
            and len(times) > 1
        ):
            yield Finding(
                severity=Severity.WARNING,
                check=_CHECK,
                path=examined.timeline_path(instant),
                found=f"the completion at {instant.completion_time}, but at {other.completion_time} in the archive",
                expected="the same time in both",
                remedy="find out which write is meant; the active timeline counts",
            )


def _manifest(examined: Examined, folder: str, listing: Mapping[str, FileInfo]) -> Iterator[Finding]:
    manifests = [name for name in listing if _MANIFEST.fullmatch(name)]
    if not manifests:
        if parts := [name for name in listing if _DATA_FILE.fullmatch(name)]:
            yield Finding(
                severity=Severity.ERROR,
                check=_CHECK,
                path=folder,
                found=f"files of archived instants ({listed(parts)}) without a manifest",
                expected="manifest_<number> and _version_",
                remedy=_REMEDY,
            )
        return
    if "_version_" not in listing:
        yield Finding(
            severity=Severity.WARNING,
            check=_CHECK,
            path=f"{folder}/_version_",
            found="no such file, although there is a manifest",
            expected="the number of the newest manifest",
            remedy="CALL archive_commits(table => …), which writes it again",
        )
        version = max(manifests, key=lambda name: int(name.partition("_")[2]))
    else:
        version = "manifest_" + examined.storage.read_bytes(f"{folder}/_version_").decode("ascii", "replace").strip()
    if version not in listing:
        yield Finding(
            severity=Severity.ERROR,
            check=_CHECK,
            path=f"{folder}/_version_",
            found=f"the manifest {quoted(version)}, which is not there",
            expected=f"one of {listed(manifests)}",
            remedy=_REMEDY,
        )
        return
    path = f"{folder}/{version}"
    record = parse_record(examined.storage.read_bytes(path), path)
    for entry in records_field(record, "files", path):
        name, length = text_field(entry, "fileName", path), number_field(entry, "fileLen", path)
        info = listing.get(name)
        if info is None or (length and info.size_bytes != length):
            yield Finding(
                severity=Severity.ERROR,
                check=_CHECK,
                path=f"{folder}/{name}" if info else path,
                found="no such file" if info is None else f"{info.size_bytes} bytes",
                expected=f"{quoted(name)}, of {length} bytes, as the manifest says",
                remedy=_REMEDY,
            )
        elif match := _DATA_FILE.fullmatch(name):
            yield from _range(examined, info, match[1], match[2])


def _range(examined: Examined, info: FileInfo, first: str, last: str) -> Iterator[Finding]:
    """The instants in a file lie in the range of its name, by which readers find them."""
    try:
        content = pa.BufferReader(examined.storage.read_buffer(info.path))
        times = pq.read_table(content, columns=["instantTime"]).column(0).to_pylist()
    except (HudiReadError, *PARQUET_ERRORS):
        # Reading the whole archive reports the error.
        return
    outside = [time for time in times if time is not None and not first <= time <= last]
    if outside:
        yield Finding(
            severity=Severity.ERROR,
            check=_CHECK,
            path=info.path,
            found=f"the instants {listed(outside)}",
            expected=f"instants from {first} to {last}, as its name says",
            remedy="readers look for these instants in vain; restore the file from a backup",
        )
