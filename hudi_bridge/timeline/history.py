"""The archived timeline: completed instants that writers have moved off the active timeline.

In layout 1 it is read by ``archived_log``. In layout 2 it is Parquet files of instants, listed by a manifest:

    _version_                       the number of the valid manifest, as text
    manifest_<number>               JSON, {"files": [{"fileName": ..., "fileLen": ...}]}
    <first>_<last>_<level>.parquet  instantTime, completionTime, action, metadata, plan, version

``metadata`` is the content of the completed instant's file. Files outside the valid manifest are obsolete. Nothing is
cached: each call reads the files again.

``CompletionTimes`` are those of the active and of the archived timeline. In layout 1, the active one has none; as in
Hudi, they are the modification times of the files that completed the instants, and what the archive says of them.

Source: ``LSMTimeline``, ``ArchivedTimelineLoaderV2``, ``ArchivedTimelineV1`` and ``ArchivedTimelineV2``;
``InstantGeneratorV1`` and ``CompletionTimeQueryViewV2``.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudi_bridge.common.imports import LaterModule
from hudi_bridge.errors import CorruptTimelineError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS, first_line, footer_mismatch
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import (
    COMMIT_ACTIONS,
    Action,
    CompletionTimes,
    Instant,
    InstantState,
    instant_at,
    parse_action,
    parse_instant_file_name,
)
from hudi_bridge.timeline.instant_files import CommitMetadata, parse_commit_metadata
from hudi_bridge.timeline.records import Record, parse_record, records_field, text_field
from hudi_bridge.timeline.timeline import TableState, latest_states

_VERSION_FILE = "_version_"
_BINARY = ("metadata", "plan")
_MANIFEST = re.compile(r"manifest_([0-9]{1,9})")
_DATA_FILE = re.compile(r"([0-9]+)_([0-9]+)_[0-9]\.parquet")


def iter_instants(state: TableState, since: str) -> Iterator[Instant]:
    """The instants from ``since`` on, in the order of the files.

    Raises:
        CorruptTimelineError: a file is missing or damaged.
    """
    for path, _, last in _data_files(state):
        if last < since:
            continue
        for row in _read_rows(state.storage, path, ["instantTime", "completionTime", "action"]):
            action = parse_action(row["action"])
            if action is not None and row["instantTime"] >= since:
                yield Instant(
                    requested_time=row["instantTime"],
                    action=action,
                    state=InstantState.COMPLETED,
                    completion_time=row["completionTime"],
                )


def iter_commits(state: TableState, times: frozenset[str]) -> Iterator[tuple[str, CommitMetadata]]:
    """The metadata of the commits at ``times``; only files that may hold one are opened.

    Raises:
        CorruptTimelineError: a file is missing or damaged.
    """
    for path, first, last in _data_files(state):
        if not any(first <= time <= last for time in times):
            continue
        for row in _read_rows(state.storage, path, ["instantTime", "action", "metadata"], times):
            if parse_action(row["action"]) in COMMIT_ACTIONS:
                name = f"{path}, instant {row['instantTime']}"
                yield row["instantTime"], parse_commit_metadata(row["metadata"] or b"", name)


def _data_files(state: TableState) -> Iterator[tuple[str, str, str]]:
    """The path, first instant and last instant of each file in the valid manifest."""
    storage, folder = state.storage, state.config.archived_path
    version, listed = _manifest_version(storage, folder)
    if version is None:
        _require_named(state, listed, "")
        return
    manifest_path = f"{folder}/manifest_{version}"
    manifest = parse_record(_read_named(storage, manifest_path).to_pybytes(), manifest_path)
    if manifest.get("files") is None:
        raise CorruptTimelineError(manifest_path, None, f"the fields {list(manifest)}", "the list of files")
    files = []
    for entry in records_field(manifest, "files", manifest_path):
        name = text_field(entry, "fileName", manifest_path)
        match = _DATA_FILE.fullmatch(name)
        if match is None:
            raise CorruptTimelineError(manifest_path, None, repr(name), "<instant>_<instant>_<level>.parquet")
        files.append((f"{folder}/{name}", match[1], match[2]))
    _require_named(state, listed, max((last for _, _, last in files), default=""))
    yield from files


def _require_named(state: TableState, names: Iterable[str], last: str) -> None:
    """Requires of the files in the folder that a manifest which ends at an instant is the newest one.

    A file whose instants are all archived is in a manifest: a writer removes instants once it has written that.
    """
    start = state.timeline.start or ""
    for name in names:
        match = _DATA_FILE.fullmatch(name)
        if match is not None and last < match[1] and match[2] < start:
            path = f"{state.config.archived_path}/{_VERSION_FILE}"
            raise CorruptTimelineError(path, None, "no such file", f"the number of a manifest that names {name}")


def _read_named(storage: Storage, path: str) -> pa.Buffer:
    """Reads a file named by the version file or the manifest. Raises CorruptTimelineError if it is missing."""
    try:
        return storage.read_buffer(path)
    except FileNotFoundError as error:
        raise CorruptTimelineError(path, None, "no such file", "a file that the history names") from error


def _manifest_version(storage: Storage, folder: str) -> tuple[str | None, Sequence[str]]:
    """The number of the valid manifest, if there is one, and the names of all files if the version file is gone."""
    path = f"{folder}/{_VERSION_FILE}"
    try:
        text = storage.read_bytes(path).decode("ascii", "replace").strip()
    except FileNotFoundError:
        # A writer that fails between the two files leaves a manifest without a version file.
        names = [info.name for info in storage.list_directory(folder)]
        manifests = (_MANIFEST.fullmatch(name) for name in names)
        return max((match[1] for match in manifests if match), key=int, default=None), names
    if not re.fullmatch("[0-9]{1,9}", text):
        raise CorruptTimelineError(path, 0, repr(text[:16]), "the number of a manifest")
    return text, ()


def _read_rows(
    storage: Storage, path: str, columns: list[str], times: frozenset[str] | None = None
) -> list[dict[str, Any]]:
    content = pa.BufferReader(_read_named(storage, path))
    try:
        with pq.ParquetFile(content, page_checksum_verification=True) as file:
            if wrong := footer_mismatch(file.metadata):
                raise CorruptTimelineError(path, None, *wrong)
            rows = file.metadata.num_rows
            table = file.read(columns)
    except PARQUET_ERRORS as error:
        raise CorruptTimelineError(
            path, None, f"no readable Parquet ({first_line(error)})", "archived instants"
        ) from error
    # A damaged page may end a column early without an error.
    if table.num_rows != rows:
        raise CorruptTimelineError(path, None, f"{table.num_rows} rows", f"{rows}, as the footer says")
    types = {name: table.schema.field(name).type for name in table.column_names}
    expected = {name: pa.binary() if name in _BINARY else pa.string() for name in columns}
    if types != expected:
        raise CorruptTimelineError(path, None, f"columns {types}", f"columns {expected}")
    if times is not None:
        table = table.filter(pc.field("instantTime").isin(sorted(times)))
    return [row for row in table.to_pylist() if row["instantTime"] is not None]


if TYPE_CHECKING:
    from hudi_bridge.timeline import archived_log
else:
    archived_log = LaterModule("hudi_bridge.timeline.archived_log")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedInstant:
    """An archived instant with the contents of its files, empty where the archive has none.

    ``plan`` is that of the requested instant, ``result`` that of the completed one; ``name`` is for errors.
    """

    instant: Instant
    plan: Record
    result: Record
    name: str


def read_archived_contents(state: TableState, at: str | None = None) -> tuple[ArchivedInstant, ...]:
    """The archived instants with their contents, ordered by requested time: all, or those requested ``at`` a time.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    contents: dict[tuple[str, Action], ArchivedInstant] = {}
    iter_entries = archived_log.iter_contents if state.config.layout.archives_in_logs else _iter_contents
    entries = iter_entries(state, at)
    for instant, record, name in entries:
        key = (instant.requested_time, instant.comparable_action)
        entry = contents.get(key) or ArchivedInstant(instant=instant, plan={}, result={}, name=name)
        if instant.is_completed:
            contents[key] = replace(entry, instant=instant, result=record)
        else:
            contents[key] = replace(entry, plan=entry.plan or record)
    completed = (entry for entry in contents.values() if entry.instant.is_completed)
    return tuple(sorted(completed, key=lambda entry: entry.instant.requested_time))


def _iter_contents(state: TableState, at: str | None) -> Iterator[tuple[Instant, Record, str]]:
    columns, times = ["instantTime", "completionTime", "action", *_BINARY], None if at is None else frozenset((at,))
    for path, first, last in _data_files(state):
        if at is not None and not first <= at <= last:
            continue
        for row in _read_rows(state.storage, path, columns, times):
            action = parse_action(row["action"])
            if action is None:
                continue
            name = f"{path}, instant {row['instantTime']}"
            completed = Instant(
                requested_time=row["instantTime"],
                action=action,
                state=InstantState.COMPLETED,
                completion_time=row["completionTime"],
            )
            if row["plan"]:
                requested = replace(completed, state=InstantState.REQUESTED, completion_time=None)
                yield requested, parse_record(row["plan"], name), name
            yield completed, parse_record(row["metadata"], name) if row["metadata"] else {}, name


def load_archived_instants(state: TableState, since: str = "") -> tuple[Instant, ...]:
    """The archived instants, ordered by requested time, from ``since`` on.

    Layout 1: reads all files; the completion time is ``stateTransitionTime``, None in tables of Hudi 0.12.
    Layout 2: reads three columns of the files with instants from ``since`` on.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    if state.config.layout.archives_in_logs:
        return latest_states(archived_log.iter_instants(state, since))
    return latest_states(iter_instants(state, since))


def load_archived_states(state: TableState) -> tuple[Instant, ...]:
    """The archived instants, ordered by requested time; in layout 1, each in all states that it had.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    if not state.config.layout.archives_in_logs:
        return load_archived_instants(state)
    states = archived_log.iter_instants(state, "", of_all_states=True)
    return tuple(sorted(states, key=lambda instant: (instant.requested_time, instant.state)))


def read_archived_commits(state: TableState, instant_times: Collection[str]) -> dict[str, CommitMetadata]:
    """The metadata of archived commits by requested time, without instants that are not archived commits.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
    """
    if not instant_times:
        return {}
    if state.config.layout.archives_in_logs:
        return dict(archived_log.iter_commits(state, frozenset(instant_times)))
    return dict(iter_commits(state, frozenset(instant_times)))


def completion_times(state: TableState, commits: Iterable[Instant] | None = None) -> CompletionTimes:
    """The completion times of some commits, by default of all, archived ones too.

    Layout 1: lists the timeline once more, for modification times. A time before the request, as files may have that
    were copied, is left out.

    Raises:
        CorruptTimelineError: a file of the archived timeline is missing or damaged.
        CorruptLogFileError: one of its log files is not a log file.
        StorageError: the timeline cannot be listed.
    """
    if commits is None:
        commits = (*load_archived_instants(state), *state.timeline.commits())
    times = {commit.requested_time: commit.completion_time for commit in commits if commit.action in COMMIT_ACTIONS}
    if not state.config.layout.has_completion_times:
        times |= {time: modified for time, modified in _modification_times(state).items() if time in times}
    return CompletionTimes({time: end for time, end in times.items() if end is not None and end >= time})


def _modification_times(state: TableState) -> dict[str, str]:
    """When the files that completed the active commits of layout 1 were modified, by the commits' requested times.

    Raises:
        StorageError: the timeline cannot be listed.
    """
    config, times = state.config, {}
    for name, moment in state.storage.modification_times(config.timeline_path).items():
        instant = parse_instant_file_name(name, config.timeline_layout)
        if instant is not None and instant.is_completed and instant.action in COMMIT_ACTIONS:
            times[instant.requested_time] = instant_at(moment, config.timeline_timezone)
    return times
