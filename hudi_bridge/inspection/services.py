"""What table services have planned and done: compactions, clusterings, cleans, rollbacks, savepoints, indexings.

The plan of a service is in the file of its requested instant, the result in that of the completed one. A compaction
completes as a commit, whose files are its result.

Source: ``ShowCompactionProcedure``, ``ShowClusteringProcedure``, ``ShowCleansProcedure``, ``ShowCleansPlanProcedure``,
``ShowRollbacksProcedure``, ``ShowSavepointsProcedure``; the Avro schemas of plans and metadata in ``hudi-common``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from hudi_bridge.errors import HudiReadError, QueryError, StorageError
from hudi_bridge.inspection.rows import Archive, arrow_schema, read_archive, rows_to_table
from hudi_bridge.splits.file_slice import file_id_of, parse_base_file_name
from hudi_bridge.table import HudiTable
from hudi_bridge.timeline.history import ArchivedInstant, read_archived_contents
from hudi_bridge.timeline.instant import Action, Instant, InstantState, clock, instant_file_name, seconds_between
from hudi_bridge.timeline.instant_files import CommitMetadata, commit_metadata_of_record, read_commit_metadata
from hudi_bridge.timeline.records import (
    Record,
    map_field,
    number_field,
    parse_record,
    records_field,
    text_field,
    texts_field,
)
from hudi_bridge.timeline.timeline import TableState

SERVICES_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    service=pa.string(),
    state=pa.string(),
    completion_time=pa.string(),
    duration_seconds=pa.float64(),
    age_seconds=pa.float64(),
    target=pa.string(),
    partitions=pa.int64(),
    file_groups=pa.int64(),
    files_planned=pa.int64(),
    files_done=pa.int64(),
    files_failed=pa.int64(),
    hudi_command=pa.string(),
    details=pa.map_(pa.string(), pa.string()),
    archived=pa.bool_(),
    problem=pa.string(),
)
SERVICE_FILES_SCHEMA = arrow_schema(
    requested_time=pa.string(),
    service=pa.string(),
    partition_path=pa.string(),
    file_id=pa.string(),
    path=pa.string(),
    what=pa.string(),
    planned=pa.bool_(),
    state=pa.string(),
    size_bytes=pa.int64(),
    problem=pa.string(),
)
SERVICES = {
    "compactions": (Action.COMPACTION, Action.LOG_COMPACTION),
    "clusterings": (Action.CLUSTERING,),
    "cleans": (Action.CLEAN,),
    "rollbacks": (Action.ROLLBACK, Action.RESTORE),
    "savepoints": (Action.SAVEPOINT,),
    "indexings": (Action.INDEXING,),
}
"""Lists of services, with the actions in each."""
_ALL = tuple(action for kind in SERVICES.values() for action in kind)
_COMPLETED_AS = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
_OPERATIONS = {Action.COMPACTION: "COMPACT", Action.LOG_COMPACTION: "LOG_COMPACT", Action.CLUSTERING: "CLUSTER"}
COMMANDS = {
    Action.COMPACTION: "CALL run_compaction(op => 'execute', table => …, instants => '{time}')",
    Action.LOG_COMPACTION: "run the writer's table services, which finish it or take it back",
    Action.CLUSTERING: "CALL run_clustering(table => …, op => 'execute', instants => '{time}')",
    Action.CLEAN: "CALL run_clean(table => …), which finishes pending cleans first",
    Action.INDEXING: "start HoodieIndexer again with --mode execute",
}
"""What finishes a pending service, by its action."""
_TO_END = {
    **COMMANDS,
    Action.ROLLBACK: "the next write, which finishes pending rollbacks first",
    Action.RESTORE: "CALL rollback_to_savepoint(table => …, instant_time => '{target}')",
}
_END_OF_SAVEPOINT = "CALL delete_savepoint(table => …, instant_time => '{time}')"
_PLANNED, _DONE, _FAILED = "planned", "done", "failed"


class ServiceFile(NamedTuple):
    """A file in a plan or a result; ``what`` is its part in it, ``state`` planned, done or failed."""

    partition_path: str
    path: str
    what: str
    state: str
    size_bytes: int | None = None
    file_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A plan and what became of it.

    ``target`` is the instant that it is about: the earliest one that a clean retains, the one that a rollback takes
    back, the savepoint that a restore goes to, the last one that an index has. ``partitions`` are those in the plan of
    a compaction or clustering.
    """

    instant: Instant
    action: Action
    files: tuple[ServiceFile, ...] = ()
    partitions: frozenset[str] = frozenset()
    target: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    is_archived: bool = False
    problem: str | None = None


class _Contents(Protocol):
    """Where the plans and results of services are: in files of the timeline, or in the archive."""

    @property
    def is_archived(self) -> bool:
        """Whether it is the archive."""

    def plan(self, instant: Instant, action: Action) -> tuple[Record, str]:
        """The plan of an instant, which was requested as an action, with its path; empty if there is none."""

    def result(self, instant: Instant) -> tuple[Record, str]:
        """The result of an instant with its path; empty if it is pending."""

    def commit(self, instant: Instant) -> CommitMetadata:
        """What a completed commit wrote."""


@dataclass(frozen=True, slots=True)
class _OfTimeline:
    """The files of the active timeline."""

    state: TableState
    is_archived: bool = False

    def plan(self, instant: Instant, action: Action) -> tuple[Record, str]:
        # In layout 1, a clustering is requested as a replace commit.
        is_replace = action is Action.CLUSTERING and self.state.config.timeline_layout == 1
        requested_as = Action.REPLACE_COMMIT if is_replace else action
        requested = replace(instant, action=requested_as, state=InstantState.REQUESTED, completion_time=None)
        return self._read(requested)

    def result(self, instant: Instant) -> tuple[Record, str]:
        return self._read(instant) if instant.is_completed else ({}, "")

    def commit(self, instant: Instant) -> CommitMetadata:
        return read_commit_metadata(self.state, instant)

    def _read(self, instant: Instant) -> tuple[Record, str]:
        path = f"{self.state.config.timeline_path}/{instant_file_name(instant)}"
        try:
            data = self.state.storage.read_bytes(path)
        except FileNotFoundError:
            return {}, path
        return (parse_record(data, path) if data else {}), path


@dataclass(frozen=True, slots=True)
class _OfArchive:
    """Entries of the archived timeline."""

    entries: Mapping[tuple[str, Action], ArchivedInstant]
    is_archived: bool = True

    @classmethod
    def of(cls, entries: Iterable[ArchivedInstant]) -> "_OfArchive":
        """The entries by time and action."""
        return cls({(entry.instant.requested_time, entry.instant.action): entry for entry in entries})

    def plan(self, instant: Instant, action: Action) -> tuple[Record, str]:  # noqa: ARG002 - of the timeline
        entry = self._entry(instant)
        return entry.plan, entry.name

    def result(self, instant: Instant) -> tuple[Record, str]:
        entry = self._entry(instant)
        return entry.result, entry.name

    def commit(self, instant: Instant) -> CommitMetadata:
        return commit_metadata_of_record(*self.result(instant))

    def _entry(self, instant: Instant) -> ArchivedInstant:
        return self.entries[instant.requested_time, instant.action]


class _Planned(NamedTuple):
    """An instant of a service, the action under which it was planned, and where its contents are."""

    contents: _Contents
    instant: Instant
    action: Action


def inspect_services(table: HudiTable, kinds: Sequence[str] | None = None, *, archived: bool = False) -> pa.Table:
    """One row per table service on the active timeline, by requested time, in ``SERVICES_SCHEMA``.

    ``age_seconds`` is the time since the request of what has not completed. ``files_planned`` counts the files that a
    plan reads, deletes or keeps, ``files_done`` those that were written, deleted or kept; for a pending compaction or
    clustering, the base files that it has written so far. ``hudi_command`` is the procedure of Hudi that would run or
    end it. With ``archived``, services of the archived timeline are listed, too; the archive may lack their plans. A
    plan, or an archive, that cannot be read is a row with the ``problem``.

    Args:
        table: the table.
        kinds: which of ``SERVICES``, by default all.
        archived: whether to read the archived timeline.

    Raises:
        QueryError: there is no such kind.
        StorageError: a file or a folder cannot be read.
    """
    asked = tuple(SERVICES) if kinds is None else tuple(kinds)
    for kind in asked:
        if kind not in SERVICES:
            raise QueryError("kinds", repr(kind), ", ".join(SERVICES))
    actions = [action for kind in asked for action in SERVICES[kind]]
    state = table.planner().state
    archive = read_archive(state) if archived else Archive()
    problem = [] if archive.problem is None else [{"archived": True, "problem": archive.problem}]
    planned = _planned(state, state.timeline.instants, archive.entries, actions)
    services = [_service(table, entry) for entry in planned]
    return rows_to_table(SERVICES_SCHEMA, (*problem, *(_row(state, service) for service in services)))


def inspect_service(table: HudiTable, instant: str) -> pa.Table:
    """The row of ``inspect_services`` of one instant, also of an archived one, given by its requested time.

    Raises:
        QueryError: the table has no such service.
        CorruptTimelineError: its plan or its result, or a file of the archive, is damaged.
    """
    return rows_to_table(SERVICES_SCHEMA, [_row(table.planner().state, _find(table, instant))])


def inspect_service_files(table: HudiTable, instant: str | None = None) -> pa.Table:
    """One row per file in the plans and in the results of services, in ``SERVICE_FILES_SCHEMA``.

    ``what`` is the file's part in it: ``input``, ``output``, ``delete``, ``log block`` of a rollback, ``keep`` of a
    savepoint or ``index``. ``planned`` is whether the plan names it, ``state`` is ``planned``, ``done`` or ``failed``.
    Of all services, one whose plan cannot be read is a row with the ``problem``.

    Args:
        table: the table.
        instant: the requested time of a service, also of an archived one; by default all on the active timeline.

    Raises:
        QueryError, CorruptTimelineError: as for ``inspect_service``.
        StorageError: a file or a folder cannot be read.
    """
    if instant is not None:
        services = [_find(table, instant)]
    else:
        state = table.planner().state
        services = [_service(table, planned) for planned in _planned(state, state.timeline.instants, (), _ALL)]
    return rows_to_table(SERVICE_FILES_SCHEMA, (row for service in services for row in _file_rows(service)))


def _file_rows(service: Service) -> Iterator[Mapping[str, Any]]:
    of_service = {"requested_time": service.instant.requested_time, "service": str(service.action)}
    if service.problem is not None:
        yield of_service | {"problem": service.problem}
    planned = {(file.path, file.what) for file in service.files if file.state == _PLANNED}
    # What the result says of a file comes after the plan.
    latest = {(file.path, file.what): file for file in service.files}
    for key, file in latest.items():
        yield of_service | file._asdict() | {"planned": key in planned}


def is_service(table: HudiTable, instant: str) -> bool:
    """Whether the active timeline has a table service of that requested time, or the archive, and nothing else."""
    return bool(_services_at(table, instant))


def _find(table: HudiTable, instant: str) -> Service:
    matching = _services_at(table, instant)
    if not matching:
        raise QueryError("instant", repr(instant), "the requested time of a table service")
    return _service(table, matching[0], must_be_read=True)


def _services_at(table: HudiTable, requested_time: str) -> list[_Planned]:
    """The services of a requested time; a savepoint has that of its commit, which may be a service, and comes last."""
    state = table.planner().state
    active = [instant for instant in state.timeline.instants if instant.requested_time == requested_time]
    archived = () if active else read_archived_contents(state, requested_time)
    matching = _planned(state, active, archived, _ALL)
    return sorted(matching, key=lambda entry: entry.action is Action.SAVEPOINT)


def _planned(
    state: TableState, active: Iterable[Instant], archived: Sequence[ArchivedInstant], actions: Iterable[Action]
) -> Iterator[_Planned]:
    """The active and archived instants that are of services, with the action under which each was planned."""
    asked = frozenset(actions)
    of_archive, of_timeline = _OfArchive.of(archived), _OfTimeline(state)
    sources: list[tuple[_Contents, Instant]] = [(of_archive, entry.instant) for entry in archived]
    sources += [(of_timeline, instant) for instant in active]
    for contents, instant in sorted(sources, key=lambda source: source[1].requested_time):
        if instant.action in asked:
            yield _Planned(contents, instant, instant.action)
            continue
        for action in asked.intersection(_COMPLETED_AS):
            if instant.action is _COMPLETED_AS[action] and _is_service(contents, instant, action):
                yield _Planned(contents, instant, action)


def _is_service(contents: _Contents, instant: Instant, action: Action) -> bool:
    """Whether a commit is the result of a service, or a pending replace commit of layout 1 is a clustering."""
    try:
        if not instant.is_completed:
            plan = contents.plan(instant, instant.action)[0] if action is Action.CLUSTERING else {}
            return plan.get("clusteringPlan") is not None
        operation = contents.commit(instant).operation_type
    except StorageError:
        raise
    except HudiReadError:
        # What is pending and cannot be read may be a clustering: its row says so.
        return not instant.is_completed
    return operation == _OPERATIONS[action]


def _service(table: HudiTable, planned: _Planned, *, must_be_read: bool = False) -> Service:
    contents, instant, action = planned
    try:
        service = _READERS[action](contents, instant, action)
    except StorageError:
        raise
    except HudiReadError as error:
        if must_be_read:
            raise
        service = Service(instant=instant, action=action, problem=str(error))
    if not instant.is_completed and action in (Action.COMPACTION, Action.CLUSTERING):
        service = replace(service, files=(*service.files, *_written_so_far(table, service)))
    return replace(service, is_archived=contents.is_archived)


def _written_so_far(table: HudiTable, service: Service) -> Iterator[ServiceFile]:
    """The base files of a pending service that are there."""
    files, instant = table.planner().files, service.instant.requested_time
    for path in sorted(service.partitions):
        for info in files.in_partition(path, must_exist=False):
            name = None if info.is_dir or info.name.startswith(".") else parse_base_file_name(info.name)
            if name is not None and name.instant_time == instant:
                yield ServiceFile(path, info.path, "output", _DONE, info.size_bytes, name.file_id)


def _compaction(contents: _Contents, instant: Instant, action: Action) -> Service:
    plan, path = contents.plan(instant, action)
    files: list[ServiceFile] = []
    partitions: set[str] = set()
    for operation in records_field(plan, "operations", path):
        partition, file_id = text_field(operation, "partitionPath", path), text_field(operation, "fileId", path)
        partitions.add(partition)
        base = text_field(operation, "dataFilePath", path)
        names = [*([base] if base else []), *texts_field(operation, "deltaFilePaths", path)]
        files += [ServiceFile(partition, _in(partition, name), "input", _PLANNED, None, file_id) for name in names]
    return Service(
        instant=instant,
        action=action,
        files=(*files, *_outputs(contents, instant)),
        partitions=frozenset(partitions),
        details=_details(strategy=map_field(plan, "strategy", path).get("compactorClassName")),
    )


def _clustering(contents: _Contents, instant: Instant, action: Action) -> Service:
    requested, path = contents.plan(instant, action)
    plan = map_field(requested, "clusteringPlan", path)
    files: list[ServiceFile] = []
    outputs = 0
    groups = records_field(plan, "inputGroups", path)
    for group in groups:
        outputs += number_field(group, "numOutputFileGroups", path)
        for part in records_field(group, "slices", path):
            partition, file_id = text_field(part, "partitionPath", path), text_field(part, "fileId", path)
            base = text_field(part, "dataFilePath", path)
            names = [*([base] if base else []), *texts_field(part, "deltaFilePaths", path)]
            files += [ServiceFile(partition, _in(partition, name), "input", _PLANNED, None, file_id) for name in names]
    return Service(
        instant=instant,
        action=action,
        files=(*files, *_outputs(contents, instant)),
        partitions=frozenset(file.partition_path for file in files),
        details=_details(
            strategy=map_field(plan, "strategy", path).get("strategyClassName"),
            input_groups=len(groups),
            planned_file_groups=outputs or None,
        ),
    )


def _outputs(contents: _Contents, instant: Instant) -> Iterator[ServiceFile]:
    if instant.is_completed:
        for stat in contents.commit(instant).write_stats:
            yield ServiceFile(stat.partition_path, stat.path, "output", _DONE, stat.file_size_bytes, stat.file_id)


def _clean(contents: _Contents, instant: Instant, action: Action) -> Service:
    plan, path = contents.plan(instant, action)
    retained = text_field(map_field(plan, "earliestInstantToRetain", path), "timestamp", path)
    planned = [
        (partition, text_field(file, "filePath", path))
        for partition in map_field(plan, "filePathsToBeDeletedPerPartition", path)
        for file in records_field(map_field(plan, "filePathsToBeDeletedPerPartition", path), partition, path)
    ] + [
        (partition, name)
        for partition in map_field(plan, "filesToBeDeletedPerPartition", path)
        for name in texts_field(map_field(plan, "filesToBeDeletedPerPartition", path), partition, path)
    ]
    result, path_of_result = contents.result(instant)
    last_completed = text_field(plan, "lastCompletedCommitTimestamp", path)
    details = _details(
        policy=text_field(plan, "policy", path) or _policy_of(result, path_of_result),
        partitions_deleted=", ".join(texts_field(plan, "partitionsToBeDeleted", path)) or None,
        last_completed=last_completed or text_field(result, "lastCompletedCommitTimestamp", path_of_result) or None,
        started=text_field(result, "startCleanTime", path_of_result) or None,
        milliseconds=result.get("timeTakenInMillis"),
    )
    retained = retained or text_field(result, "earliestCommitToRetain", path_of_result)
    files = [_deleted(partition, name, _PLANNED) for partition, name in planned]
    files += _files_of_result(result, path_of_result)
    return Service(instant=instant, action=action, files=tuple(files), target=retained or None, details=details)


def _policy_of(result: Record, path: str) -> str | None:
    """The policy of a clean whose plan is not there."""
    partitions = map_field(result, "partitionMetadata", path)
    return next((text_field(map_field(partitions, name, path), "policy", path) for name in partitions), None)


def _rollback(contents: _Contents, instant: Instant, action: Action) -> Service:
    plan, path = contents.plan(instant, action)
    target = map_field(plan, "instantToRollback", path)
    files: list[ServiceFile] = []
    for request in records_field(plan, "RollbackRequests", path):
        partition = text_field(request, "partitionPath", path)
        files += [_deleted(partition, name, _PLANNED) for name in texts_field(request, "filesToBeDeleted", path)]
        blocks = map_field(request, "logBlocksToBeDeleted", path)
        files += [_log_block(partition, name, _PLANNED, number_field(blocks, name, path)) for name in blocks]
    result, path = contents.result(instant)
    files += _files_of_result(result, path)
    instants = texts_field(result, "commitsRollback", path)
    return Service(
        instant=instant,
        action=action,
        files=tuple(files),
        target=text_field(target, "commitTime", path) or (", ".join(instants) or None),
        details=_details(of=text_field(target, "action", path) or None, milliseconds=result.get("timeTakenInMillis")),
    )


def _restore(contents: _Contents, instant: Instant, action: Action) -> Service:
    plan, path = contents.plan(instant, action)
    taken_back = [text_field(entry, "commitTime", path) for entry in records_field(plan, "instantsToRollback", path)]
    savepoint = text_field(plan, "savepointToRestoreTimestamp", path)
    result, path = contents.result(instant)
    rollbacks = map_field(result, "hoodieRestoreMetadata", path)
    files = [
        file
        for key in rollbacks
        for rollback in records_field(rollbacks, key, path)
        for file in _files_of_result(rollback, path)
    ]
    return Service(
        instant=instant,
        action=action,
        files=tuple(files),
        target=savepoint or None,
        details=_details(rolled_back=", ".join(taken_back) or None),
    )


def _savepoint(contents: _Contents, instant: Instant, action: Action) -> Service:
    result, path = contents.result(instant)
    partitions = map_field(result, "partitionMetadata", path)
    files = [
        ServiceFile(partition, _in(partition, name), "keep", _DONE, None, file_id_of(name.rpartition("/")[2]))
        for partition in partitions
        for name in texts_field(map_field(partitions, partition, path), "savepointDataFile", path)
    ]
    details = _details(
        by=text_field(result, "savepointedBy", path) or None, comments=text_field(result, "comments", path) or None
    )
    return Service(instant=instant, action=action, files=tuple(files), target=instant.requested_time, details=details)


def _indexing(contents: _Contents, instant: Instant, action: Action) -> Service:
    plan, path = contents.plan(instant, action)
    infos = records_field(plan, "indexPartitionInfos", path)
    result, path_of_result = contents.result(instant)
    built = {
        text_field(info, "metadataPartitionPath", path_of_result)
        for info in records_field(result, "indexPartitionInfos", path_of_result)
    }
    names = [text_field(info, "metadataPartitionPath", path) for info in infos]
    files = tuple(ServiceFile("", name, "index", _DONE if name in built else _PLANNED) for name in names)
    upto = max((text_field(info, "indexUptoInstant", path) for info in infos), default="")
    return Service(
        instant=instant, action=action, files=files, target=upto or None, details=_details(indexes=", ".join(names))
    )


_READERS: Mapping[Action, Callable[[_Contents, Instant, Action], Service]] = {
    Action.COMPACTION: _compaction,
    Action.LOG_COMPACTION: _compaction,
    Action.CLUSTERING: _clustering,
    Action.CLEAN: _clean,
    Action.ROLLBACK: _rollback,
    Action.RESTORE: _restore,
    Action.SAVEPOINT: _savepoint,
    Action.INDEXING: _indexing,
}


def _files_of_result(result: Record, path: str) -> Iterator[ServiceFile]:
    """The files that a clean or a rollback deleted or failed to delete, and the log blocks that it has taken back."""
    partitions = map_field(result, "partitionMetadata", path)
    for partition in partitions:
        metadata = map_field(partitions, partition, path)
        for name in texts_field(metadata, "successDeleteFiles", path):
            yield _deleted(partition, name, _DONE)
        for name in texts_field(metadata, "failedDeleteFiles", path):
            yield _deleted(partition, name, _FAILED)
        logs = map_field(metadata, "rollbackLogFiles", path)
        for name in logs:
            yield _log_block(partition, name, _DONE, number_field(logs, name, path))


def _deleted(partition: str, name: str, state: str) -> ServiceFile:
    return ServiceFile(partition, _in(partition, name), "delete", state, None, file_id_of(name.rpartition("/")[2]))


def _log_block(partition: str, name: str, state: str, size_bytes: int) -> ServiceFile:
    path = _in(partition, name)
    return ServiceFile(partition, path, "log block", state, size_bytes, file_id_of(name.rpartition("/")[2]))


def _in(partition: str, path: str) -> str:
    """The path of a file in the table; plans have absolute ones, and ones in the partition."""
    name = path.rpartition("/")[2]
    return f"{partition}/{name}" if partition else name


def _details(**details: object) -> dict[str, str]:
    return {name.replace("_", " "): str(value) for name, value in details.items() if value is not None}


def _row(state: TableState, service: Service) -> Mapping[str, Any]:
    instant, files = service.instant, service.files
    inputs = [file for file in files if file.state == _PLANNED] or [file for file in files if file.what == "keep"]
    done = [file for file in files if file.state == _DONE]
    is_savepoint = service.action is Action.SAVEPOINT
    command = _END_OF_SAVEPOINT if is_savepoint and instant.is_completed else None
    if not instant.is_completed:
        command = _TO_END.get(service.action)
    completed = instant.completion_time
    return {
        "requested_time": instant.requested_time,
        "service": str(service.action),
        "state": instant.state.name.lower(),
        "completion_time": completed,
        "duration_seconds": None if completed is None else seconds_between(instant.requested_time, completed),
        "age_seconds": None if instant.is_completed else _age(state, instant.requested_time),
        "target": service.target,
        "partitions": len(service.partitions | {file.partition_path for file in files if file.what != "index"}),
        "file_groups": len(
            {(file.partition_path, file.file_id) for file in inputs or files if file.file_id is not None}
        ),
        "files_planned": len(inputs),
        "files_done": len(done),
        "files_failed": sum(file.state == _FAILED for file in files),
        "hudi_command": command and command.format(time=instant.requested_time, target=service.target),
        "details": list(service.details.items()),
        "archived": service.is_archived,
        "problem": service.problem,
    }


def _age(state: TableState, requested_time: str) -> float | None:
    """The seconds since an instant; None if it is not a time."""
    seconds = seconds_between(requested_time, clock(state.config.timeline_timezone))
    return None if seconds is None else max(0.0, seconds)
