"""The plans of pending compactions, clusterings, cleans and indexings, and the metadata of cleans and rollbacks.

Source: ``HoodieCompactionPlan``, ``HoodieRequestedReplaceMetadata``, ``HoodieIndexPlan``, ``HoodieCleanerPlan``,
``HoodieCleanMetadata`` and ``HoodieRollbackMetadata``, all Avro.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace

from hudi_bridge.timeline.commit_metadata import read_timeline_file
from hudi_bridge.timeline.instant import Action, Instant, InstantState, instant_file_name
from hudi_bridge.timeline.records import (
    Record,
    map_field,
    parse_record,
    records_field,
    text_field,
    texts_field,
)
from hudi_bridge.timeline.timeline import TableState

GroupId = tuple[str, str]
"""Partition path and file id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionOperation:
    """A file slice that a compaction will merge into a base file; file names do not include the partition."""

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: str | None
    log_files: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanMetadata:
    """The metadata of a clean; ``earliest_commit_to_retain`` is None under the policy that counts file versions."""

    earliest_commit_to_retain: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanPlan:
    """The plan of a clean; ``earliest_commit_to_retain`` is as in ``CleanMetadata``."""

    earliest_commit_to_retain: str | None


def read_compaction_plan(state: TableState, instant: Instant) -> tuple[CompactionOperation, ...]:
    """The operations of a pending compaction or log compaction.

    Raises:
        CorruptTimelineError: the plan is missing or damaged.
    """
    path = _requested_path(state, instant)
    record = parse_record(read_timeline_file(state.storage, path), path)
    return tuple(
        CompactionOperation(
            partition_path=text_field(operation, "partitionPath", path),
            file_id=text_field(operation, "fileId", path),
            base_instant_time=text_field(operation, "baseInstantTime", path),
            base_file=_file_name(text_field(operation, "dataFilePath", path)) or None,
            log_files=tuple(_file_name(name) for name in texts_field(operation, "deltaFilePaths", path)),
        )
        for operation in records_field(record, "operations", path)
    )


def read_pending_compactions(
    state: TableState, cached: MutableMapping[str, tuple[GroupId, ...]] | None = None
) -> dict[GroupId, str]:
    """The instant of the pending compaction by file group; reads every pending plan.

    ``cached`` has the file groups of plans that were read before, by instant; plans that are read now are added to it.

    Raises:
        CorruptTimelineError: a plan is missing or damaged.
    """
    cached = {} if cached is None else cached
    pending = state.timeline.pending(Action.COMPACTION)
    for instant in pending:
        if instant.requested_time not in cached:
            plan = read_compaction_plan(state, instant)
            cached[instant.requested_time] = tuple((operation.partition_path, operation.file_id) for operation in plan)
    return {group: instant.requested_time for instant in pending for group in cached[instant.requested_time]}


def read_clustering_plan(state: TableState, instant: Instant) -> tuple[GroupId, ...] | None:
    """The file groups that a pending clustering will replace, None if the instant is not a clustering.

    Raises:
        CorruptTimelineError: the plan is missing or damaged.
    """
    path = _requested_path(state, instant)
    data = read_timeline_file(state.storage, path)
    # The file of a requested replace commit that has no plan may be empty.
    record = parse_record(data, path) if data else {}
    if record.get("clusteringPlan") is None:
        return None
    groups = records_field(map_field(record, "clusteringPlan", path), "inputGroups", path)
    return tuple(
        (text_field(file_slice, "partitionPath", path), text_field(file_slice, "fileId", path))
        for group in groups
        for file_slice in records_field(group, "slices", path)
    )


def read_indexing_plan(state: TableState, instant: Instant) -> Mapping[str, str]:
    """For each index that an indexing builds, by its partition of the metadata table, the last commit that is in it.

    Raises:
        CorruptTimelineError: the plan is missing or damaged.
    """
    path = _requested_path(state, instant)
    record = parse_record(read_timeline_file(state.storage, path), path)
    return {
        text_field(info, "metadataPartitionPath", path): text_field(info, "indexUptoInstant", path)
        for info in records_field(record, "indexPartitionInfos", path)
    }


def read_clean_metadata(state: TableState, instant: Instant) -> CleanMetadata:
    """Reads the metadata of a completed clean.

    Raises:
        CorruptTimelineError: the file is missing or damaged.
    """
    record, path = _read(state, instant)
    return CleanMetadata(earliest_commit_to_retain=text_field(record, "earliestCommitToRetain", path) or None)


def read_clean_plan(state: TableState, instant: Instant) -> CleanPlan | None:
    """Reads the plan of a pending clean, None if it has none yet and so removes nothing.

    Raises:
        CorruptTimelineError: the plan is missing or damaged.
    """
    path = _requested_path(state, instant)
    data = read_timeline_file(state.storage, path)
    if not data:
        return None
    record = parse_record(data, path)
    if record.get("earliestInstantToRetain") is None:
        return CleanPlan(earliest_commit_to_retain=None)
    earliest_retained = text_field(map_field(record, "earliestInstantToRetain", path), "timestamp", path)
    return CleanPlan(earliest_commit_to_retain=earliest_retained or None)


def read_rolled_back(state: TableState, instant: Instant) -> tuple[str, ...]:
    """The requested times of the writes that a completed rollback has undone.

    Raises:
        CorruptTimelineError: the file is damaged.
        DataFileGoneError: it no longer exists.
    """
    record, path = _read(state, instant)
    return texts_field(record, "commitsRollback", path)


def _requested_path(state: TableState, instant: Instant) -> str:
    requested = replace(instant, state=InstantState.REQUESTED, completion_time=None)
    return f"{state.config.timeline_path}/{instant_file_name(requested)}"


def _read(state: TableState, instant: Instant) -> tuple[Record, str]:
    path = f"{state.config.timeline_path}/{instant_file_name(instant)}"
    return parse_record(read_timeline_file(state.storage, path), path), path


def _file_name(path: str) -> str:
    # Version 1 of the plans has absolute paths.
    return path.rpartition("/")[2]
