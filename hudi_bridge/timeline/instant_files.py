"""The contents of instant files: metadata of commits, plans of table services, and what cleans and rollbacks removed.

A commit with an empty file wrote nothing, as in Hudi.

Source: ``HoodieCommitMetadata``, ``HoodieReplaceCommitMetadata`` and ``HoodieWriteStat``; ``HoodieCompactionPlan``,
``HoodieRequestedReplaceMetadata``, ``HoodieIndexPlan``, ``HoodieCleanerPlan``, ``HoodieCleanMetadata`` and
``HoodieRollbackMetadata``, all Avro.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from hudi_bridge.common.threads import REQUESTS_AT_ONCE, KeyedLocks, map_in_threads
from hudi_bridge.errors import DataFileGoneError
from hudi_bridge.releases import Series
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import Action, Instant, InstantState, instant_file_name
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

_BYTES_IN_MEMORY = 8
"""About how many bytes of memory the metadata takes for each byte of its file."""
_STAT_OF_1X = "prevBaseFile"
_KEEPS_SCHEMA = frozenset(("CLUSTER", "COMPACT", "INDEX", "LOG_COMPACT"))
_STORE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_READING = KeyedLocks()
ReplacedFileIds = tuple[tuple[str, tuple[str, ...]], ...]
"""Partition paths with the ids of file groups that were replaced in them."""
GroupId = tuple[str, str]
"""Partition path and file id."""


class WriteStat(NamedTuple):
    """The write of a commit to one file of one file group; a tuple, because a commit may have thousands.

    ``path`` is relative to the table. ``prev_commit`` is the base instant of the previous slice, ``base_file`` the base
    file that a log file belongs to; each may be None. ``log_files`` are the names of the slice's log files at that
    time, ``cdc_stats`` the paths of change data files with their sizes in bytes.
    """

    partition_path: str
    file_id: str
    path: str
    prev_commit: str | None
    num_writes: int
    num_deletes: int
    num_inserts: int
    num_update_writes: int
    file_size_bytes: int
    base_file: str | None
    log_files: tuple[str, ...]
    log_offset: int
    cdc_stats: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The writes and replacements of a commit.

    ``schema_text`` is the writer's Avro schema, ``latest_schema`` the table's schema with field ids as JSON; each is
    None if the commit has none. ``replaced_file_ids`` pairs partitions with the ids of the file groups that this commit
    replaced. ``series`` is the series of Hudi that made the commit, None if it wrote no file.
    """

    operation_type: str
    is_compaction: bool
    schema_text: str | None
    latest_schema: str | None
    extra: tuple[tuple[str, str], ...]
    write_stats: tuple[WriteStat, ...]
    replaced_file_ids: ReplacedFileIds
    series: Series | None

    @property
    def can_update_schema(self) -> bool:
        """Whether the table may have the schema from then on, as in ``WriteOperationType``.

        Table services write with the schema of their own client, and without column ids.
        """
        return self.operation_type not in _KEEPS_SCHEMA


def parse_commit_metadata(data: bytes, path: str) -> CommitMetadata:
    """Parses the file of a completed instant; ``path`` names the file in errors.

    Raises:
        CorruptTimelineError: the bytes are not commit metadata.
    """
    return commit_metadata_of_record(parse_record(data, path) if data else {}, path)


def commit_metadata_of_record(record: Record, path: str) -> CommitMetadata:
    """The metadata in a decoded record; ``path`` names its file in errors.

    Raises:
        CorruptTimelineError: a field has the wrong type.
    """
    extra = map_field(record, "extraMetadata", path)
    replaced = map_field(record, "partitionToReplaceFileIds", path)
    operation_type = text_field(record, "operationType", path)
    stats_by_partition = map_field(record, "partitionToWriteStats", path)
    return CommitMetadata(
        operation_type=operation_type,
        is_compaction=operation_type == "COMPACT" or record.get("compacted") is True,
        schema_text=text_field(extra, "schema", path) or None,
        latest_schema=text_field(extra, "latest_schema", path) or None,
        extra=tuple((key, text_field(extra, key, path)) for key in sorted(extra)),
        write_stats=tuple(_iter_write_stats(stats_by_partition, path)),
        replaced_file_ids=tuple((key, texts_field(replaced, key, path)) for key in sorted(replaced)),
        series=_series(stats_by_partition, path),
    )


def read_commit_metadata(state: TableState, instant: Instant) -> CommitMetadata:
    """The metadata of a completed instant on the active timeline; cached by the storage.

    Raises:
        CorruptTimelineError: the file is damaged.
        DataFileGoneError: the file no longer exists.
    """
    path = f"{state.config.timeline_path}/{instant_file_name(instant)}"
    # In layout 1, a compaction that was restored and run again has a file of the same name.
    removals = (Action.RESTORE, Action.ROLLBACK)
    key = (path, *(removal and removal.requested_time for removal in map(state.timeline.latest_completed, removals)))
    cache = state.storage.cache
    metadata: CommitMetadata | None = cache.get(key)
    if metadata is not None:
        return metadata
    # A plan reads the newest commit for its columns while it reads all commits for their files.
    with _READING.locked((id(cache), key)):
        metadata = cache.get(key)
        if metadata is None:
            data = read_timeline_file(state.storage, path)
            metadata = parse_commit_metadata(data, path)
            cache.put(key, metadata, _BYTES_IN_MEMORY * len(data))
    return metadata


def read_all_commit_metadata(state: TableState, instants: Sequence[Instant]) -> list[CommitMetadata]:
    """Reads the metadata of several instants, some at a time; raises like ``read_commit_metadata``."""
    return map_in_threads(partial(read_commit_metadata, state), instants, REQUESTS_AT_ONCE)


def read_timeline_file(storage: Storage, path: str) -> bytes:
    """The bytes of a file found in a listing of the timeline.

    Raises:
        DataFileGoneError: the file has been removed since the listing.
    """
    try:
        return storage.read_bytes(path)
    except FileNotFoundError as error:
        raise DataFileGoneError(path, None, None) from error


def _series(stats_by_partition: Record, path: str) -> Series | None:
    stats = (stat for key in stats_by_partition for stat in records_field(stats_by_partition, key, path))
    first = next(stats, None)
    if first is None:
        return None
    return Series.V1 if _STAT_OF_1X in first else Series.V0


def _iter_write_stats(stats_by_partition: Record, path: str) -> Iterator[WriteStat]:
    for partition_path in stats_by_partition:
        for record in records_field(stats_by_partition, partition_path, path):
            file_id = text_field(record, "fileId", path)
            prev_commit = text_field(record, "prevCommit", path)
            cdc_stats = map_field(record, "cdcStats", path)
            yield WriteStat(
                partition_path=partition_path,
                file_id=file_id,
                path=_without_store(text_field(record, "path", path), partition_path, file_id),
                prev_commit=prev_commit if prev_commit != "null" else None,
                num_writes=number_field(record, "numWrites", path),
                num_deletes=number_field(record, "numDeletes", path),
                num_inserts=number_field(record, "numInserts", path),
                num_update_writes=number_field(record, "numUpdateWrites", path),
                file_size_bytes=number_field(record, "fileSizeInBytes", path),
                base_file=text_field(record, "baseFile", path) or None,
                log_files=texts_field(record, "logFiles", path),
                log_offset=number_field(record, "logOffset", path),
                cdc_stats=tuple((key, number_field(cdc_stats, key, path)) for key in cdc_stats),
            )


def _without_store(path: str, partition_path: str, file_id: str) -> str:
    """The path of a file in the table, where Hudi left the store of the table before it: ``file:part/.name.log.1``.

    Commits to tables up to version 6 so name the log files of repeated tasks if the table was written to by a path
    without a scheme (``CommitMetadataUtils.reconcileMetadataForMissingFiles``, ``HoodieWriteStat.setPath``).
    """
    folder = f"{partition_path}/" if partition_path else ""
    usual = f"{folder}.{file_id}_"
    start = path.rfind(usual)
    return path[start:] if file_id and start > 0 and _STORE.fullmatch(path, 0, start) else path


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
    # The file of a requested replace commit without a plan may be empty.
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
    """For each index that an indexing builds, by its partition of the metadata table, the last commit in it.

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


def read_cleaned_files(state: TableState, instant: Instant) -> frozenset[str]:
    """The paths in the table of the files that a completed clean has deleted.

    Raises:
        CorruptTimelineError: the file is missing or damaged.
    """
    record, path = _read(state, instant)
    partitions = map_field(record, "partitionMetadata", path)
    return frozenset(
        f"{partition}/{name.rpartition('/')[2]}".lstrip("/")
        for partition in partitions
        for name in texts_field(map_field(partitions, partition, path), "successDeleteFiles", path)
    )


def read_clean_plan(state: TableState, instant: Instant) -> CleanPlan | None:
    """The plan of a pending clean; None if it has none yet, and so removes nothing.

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


def read_files_to_clean(state: TableState, instant: Instant) -> frozenset[str] | None:
    """The paths in the table of the files that a clean deletes, by its plan; None if the plan does not name all.

    Raises:
        CorruptTimelineError: the plan is damaged.
        DataFileGoneError: it no longer exists.
    """
    path = _requested_path(state, instant)
    data = read_timeline_file(state.storage, path)
    if not data:
        return None
    record = parse_record(data, path)
    # Plans of version 1 have the former, later ones the latter.
    names, files = "filesToBeDeletedPerPartition", "filePathsToBeDeletedPerPartition"
    if (record.get(names) is None and record.get(files) is None) or record.get("partitionsToBeDeleted"):
        return None
    by_partition = map_field(record, names, path)
    to_delete = [(key, name) for key in by_partition for name in texts_field(by_partition, key, path)]
    by_partition = map_field(record, files, path)
    records = [(key, file) for key in by_partition for file in records_field(by_partition, key, path)]
    if any(file.get("isBootstrapBaseFile") for _, file in records):
        return None
    to_delete += [(key, text_field(file, "filePath", path)) for key, file in records]
    return frozenset(f"{key}/{_file_name(name)}".lstrip("/") for key, name in to_delete)


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
