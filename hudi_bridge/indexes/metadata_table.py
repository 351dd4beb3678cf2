"""The metadata table of a table: whether it can be used, and its records of some keys, of a range of keys, or all.

It is a merge-on-read table of its own below ``.hoodie/metadata``, with HFiles as base files and HFile blocks in logs.

It is written before the data table's own commit completes. So an instant of it counts only if the data table has
completed or archived it, or does not have it at all: the creation of an index, or a log compaction of the metadata
table (releases before 1.0 mark these by a suffix of their instants). It is also listed later than the data table, and
may have writes that the state of the data table does not have yet. Only another listing of the data table distinguishes
them from the metadata table's own: ``Validity``.

Every index reads it by an ``IndexPartition``: an index that cannot be used is reported once, and is left out.

Source: ``HoodieBackedTableMetadata``, ``HoodieTableMetadataUtil.getValidInstantTimestamps``,
``HoodieBackedTableMetadataWriter.update`` of a rollback, ``HoodieIndexMetadata`` and ``HoodieIndexDefinition``.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import BoundedCache, cached_property
from hudi_bridge.common.threads import map_in_threads
from hudi_bridge.config import HOODIE_FOLDER, config_of_metadata_table
from hudi_bridge.errors import (
    CorruptTableError,
    DataFileGoneError,
    HudiReadError,
    QueryError,
    UnsupportedTableError,
)
from hudi_bridge.indexes.record_kinds import (
    DELETED,
    EXPRESSION_INDEX,
    KEY,
    RecordKind,
    file_id_prefix,
    group_numbers,
    is_of_one_state,
    record_kind,
)
from hudi_bridge.indexes.slice_records import KeyRange, SliceRecords
from hudi_bridge.indexes.whole_records import whole_records
from hudi_bridge.merge.arrays import Column
from hudi_bridge.options import METADATA_TABLE_KEY
from hudi_bridge.splits.committed_files import CommittedFiles
from hudi_bridge.splits.file_slice import FileSlice, is_data_file
from hudi_bridge.splits.file_system_view import TimelineView, build_file_groups, latest_snapshot_slice, view_timeline
from hudi_bridge.splits.partitions import PARTITION_METADATA
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Action, Instant
from hudi_bridge.timeline.instant_files import read_rolled_back
from hudi_bridge.timeline.timeline import TableState, Timeline, load_timeline

INDEX_DEFINITIONS = f"{HOODIE_FOLDER}/.index_defs/index.json"
_FIRST_INSTANT = "00000000000000"
# 17 digits of an instant of the data table, and three of an operation (001 to 006) or of a new index (from 010).
_OWN_OPERATION = re.compile(r"[0-9]{17}(?:00[1-6]|0[1-9][0-9]|[1-9][0-9]{2})")
# Actions of the metadata table that write what the data table has done; a commit is a compaction of its own.
_WRITES = frozenset({Action.DELTA_COMMIT, Action.RESTORE})
_REMOVES_RECORDS = frozenset({Action.ROLLBACK, Action.RESTORE})
# Actions of the data table that are written to the metadata table as well.
_WRITTEN = COMMIT_ACTIONS | _REMOVES_RECORDS | {Action.CLEAN}
_GROUPS_AT_ONCE = 8
"""Each file group takes several requests of its own, at the same time."""
_CACHE_BYTES = 32 * 1024 * 1024
"""Ranges of 100,000 files, which is what column stats ask for again with each query."""
_CACHE_KEY_OF_FOLDER = "storage of the metadata table"
_BYTES_OF_A_FOLDER = 1 << 20
"""How much the folder counts in the cache of the data table, with the commits that its own cache has."""
METADATA_FOLDER = f"{HOODIE_FOLDER}/metadata"
SWITCHED_OFF = f"{METADATA_TABLE_KEY} is false"
"""Why the metadata table is not used, if the options say so."""
_NOT_COMPLETE = "the table has none that is complete"
# The number of a file group, after the partition of the table that it is for; Hudi escapes dashes in its name.
_GROUP = re.compile(r"(?:(?P<scope>[^-]*)-)?(?P<number>[0-9]{4,})(?:-0)?")
Answer = TypeVar("Answer")
INDEX_ERRORS = (HudiReadError, OSError, pa.ArrowInvalid)
"""What reading the metadata table may raise; a file that a cleaner has removed is an OSError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """An index; ``name`` is its partition of the metadata table.

    ``kind`` is Hudi's type of the index, ``function`` the function of an expression index, with its ``options``.
    ``version`` is None in releases before 1.1.
    """

    name: str
    kind: str
    function: str
    source_fields: tuple[str, ...]
    options: Mapping[str, str]
    version: str | None


def read_index_definitions(storage: Storage, path: str = INDEX_DEFINITIONS) -> Mapping[str, IndexDefinition]:
    """The indexes of a table, by name; none if the table has no file at the path, as before 1.0.

    Raises:
        CorruptTableError: the file does not have Hudi's form.
        StorageError: it cannot be read.
    """
    if not storage.is_file(path):
        return {}
    try:
        entries = json.loads(storage.read_bytes(path))["indexDefinitions"].items()
        return {name: _definition(name, entry) for name, entry in entries}
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        actual = f"what cannot be understood: {error!r}"
        raise CorruptTableError(path, None, actual, "index definitions") from error


def _definition(name: str, entry: Mapping[str, Any]) -> IndexDefinition:
    return IndexDefinition(
        name=name,
        kind=str(entry["indexType"]),
        function=str(entry.get("indexFunction") or ""),
        source_fields=tuple(map(str, entry["sourceFields"])),
        options={str(key): str(value) for key, value in (entry.get("indexOptions") or {}).items()},
        version=entry.get("version"),
    )


@dataclass(frozen=True)
class Validity:
    """The timelines of a data table and of its metadata table, compared."""

    data: TableState
    own: Timeline

    def counts(self, instant: str) -> bool:
        """Whether what an instant wrote to the metadata table counts."""
        if not self.own.is_committed(instant) or instant in self._pending:
            return False
        if instant in self._completed or instant.startswith(_FIRST_INSTANT):
            return True
        if self.data.config.rules.trusts_metadata_instants or _OWN_OPERATION.fullmatch(instant):
            return True
        return instant < self.data.timeline_start

    @cached_property
    def _completed(self) -> frozenset[str]:
        return frozenset(instant.requested_time for instant in self.data.timeline.completed())

    @cached_property
    def _pending(self) -> frozenset[str]:
        return self.data.timeline.pending_times()

    def missing_instant(self) -> str | None:
        """The first completed instant of the data table that was not written to the metadata table, None if all were.

        Instants before the first that was written count as written: the metadata table was made from a listing, or has
        archived them. So do rollbacks of what was never written to it.
        """
        written = {instant.requested_time for instant in self.own.completed()}
        first = min((time for time in written if not time.startswith(_FIRST_INSTANT)), default=_FIRST_INSTANT)
        # A restore has its own instant in the metadata table, shortly after the one in the data table.
        restored = self.own.latest_completed(Action.RESTORE)
        for instant in self.data.timeline.completed():
            time = instant.requested_time
            if instant.action not in _WRITTEN or time in written or time < first:
                continue
            if instant.action is Action.RESTORE and restored is not None and restored.requested_time > time:
                continue
            if instant.action is Action.ROLLBACK and self._is_of_unwritten(instant, written):
                continue
            return time
        return None

    def _is_of_unwritten(self, rollback: Instant, written: AbstractSet[str]) -> bool:
        """Whether nothing that a rollback has undone was written to the metadata table.

        From table version 8 on, such a rollback is not written either: it has removed the files of its write, and of
        earlier versions it may have added some.
        """
        if self.data.config.layout.metadata_has_all_rollbacks:
            return False
        try:
            undone = read_rolled_back(self.data, rollback)
        except (CorruptTableError, DataFileGoneError):
            return False
        return bool(undone) and written.isdisjoint(undone)

    @cached_property
    def later_instant(self) -> str | None:
        """The first instant by which the metadata table is of a later state than the data table's, None if it is not.

        A base file of the metadata table may hold what such an instant wrote, so that it cannot be left out. The same
        is true of a write that is pending in both tables after it has completed, because its rollback failed. Lists the
        timeline of the data table, if the metadata table has instants that its state does not know.

        Raises:
            CorruptTimelineError: a folder has the name of an instant.
            StorageError: the timeline cannot be listed.
        """
        written = (instant.requested_time for instant in self.own.completed() if instant.action in _WRITES)
        unknown = {time for time in written if self._is_unknown(time)}
        if not unknown:
            return None
        now = load_timeline(self.data.storage, self.data.config)
        later = {time for time in unknown if now.is_archived(time)}
        for instant in now.instants:
            time, action = instant.requested_time, instant.comparable_action
            # A write that is pending in both states does not count, unless a compaction may contain its records.
            is_pending = time in self._pending and not instant.is_completed
            if time in self._completed or (is_pending and time not in self.rewritten):
                continue
            # What was rolled back since is on neither timeline any more.
            if action in _REMOVES_RECORDS or (action in COMMIT_ACTIONS and time in unknown):
                later.add(time)
        return min(later, default=None)

    @cached_property
    def rewritten(self) -> frozenset[str]:
        """The requested times of pending writes whose records the metadata table may have compacted with others.

        The metadata table may compact a write before the data table completes it. A completed write is pending again
        while it is rolled back, or if its rollback has failed.
        """
        of_data = self._completed | self._pending
        compactions = [commit.requested_time for commit in self.own.commits() if commit.requested_time not in of_data]
        return frozenset(
            time
            for time in self._pending
            if self.own.contains(time)
            and any(later > (self.own.completion_time_of(time) or time) for later in compactions)
        )

    def _is_unknown(self, instant: str) -> bool:
        """Whether an instant is neither completed in the data table's state nor certainly the metadata table's own."""
        if instant in self._completed or self.data.timeline.is_archived(instant):
            return False
        return not (instant.startswith(_FIRST_INSTANT) or _OWN_OPERATION.fullmatch(instant))


def why_not_there(state: TableState, partition: str) -> str | None:
    """Why a table has no usable partition of the metadata table with this name, by its properties and the options."""
    if not state.options.uses_metadata_table:
        return SWITCHED_OFF
    return None if partition in state.config.metadata_partitions else _NOT_COMPLETE


class MetadataTable:
    """The metadata table of a data table in one state; caches what is read of it."""

    def __init__(self, data: TableState) -> None:
        """The metadata table of ``data``; its timeline is listed.

        Raises:
            StorageError: the timeline cannot be listed.
        """
        own_config = config_of_metadata_table(data.config)
        # Later states of the table reuse the commits that its storage has cached.
        folder: Storage | None = data.storage.cache.get(_CACHE_KEY_OF_FOLDER)
        if folder is None:
            folder = data.storage.child(HOODIE_FOLDER, "metadata")
            data.storage.cache.put(_CACHE_KEY_OF_FOLDER, folder, _BYTES_OF_A_FOLDER)
        self.own = TableState.load(folder, own_config, data.options)
        self.validity = Validity(data, self.own.timeline)
        self.cache = BoundedCache(_CACHE_BYTES)
        """Answers to questions that are asked often, by the question."""
        self._data = data
        self._groups: dict[str, Mapping[str, tuple[SliceRecords, ...]]] = {}

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that are complete, as the properties of the data table say."""
        return self._data.config.metadata_partitions

    @cached_property
    def definitions(self) -> Mapping[str, IndexDefinition]:
        """What the indexes are made of, by partition; raises like ``read_index_definitions``."""
        path = self._data.config.index_definitions_path or INDEX_DEFINITIONS
        return read_index_definitions(self._data.storage, path)

    def require(self, partition: str) -> None:
        """Raise unless a partition can be used.

        Raises:
            UnsupportedTableError: it is missing or not complete, lacks a commit of the data table, or is of a later
                state and does not serve earlier ones.
            StorageError: the timeline of the data table cannot be listed.
        """
        reason = self.why_not(partition)
        if reason is not None:
            raise UnsupportedTableError(f"partition {partition} of the metadata table", reason, "a complete one")

    def why_not(self, partition: str) -> str | None:
        """Why a partition cannot be used, None if it can be; raises ``StorageError`` as ``require``."""
        reason = self.why_incomplete(partition)
        if reason is not None or not is_of_one_state(partition):
            return reason
        later = self.validity.later_instant
        return None if later is None else f"one of a later state, after the instant {later}"

    def why_incomplete(self, partition: str) -> str | None:
        """Why a partition cannot be used for any state, None if it is complete."""
        config = self._data.config
        if partition in config.metadata_partitions_inflight:
            return "one that is being built"
        if partition not in config.metadata_partitions:
            return "none in the properties of the table"
        if self.own.timeline.start is None:
            return "one without a commit"
        missing = self.validity.missing_instant()
        return None if missing is None else f"one that lacks the commit {missing}"

    def file_groups(self, partition: str) -> Mapping[str, tuple[SliceRecords, ...]]:
        """The newest slices of a partition, in the order of their file groups.

        A record index may have file groups for each partition of the table, which are then the keys; otherwise the only
        key is ``""``.

        Raises:
            QueryError: the kind of the partition's records is unknown.
            CorruptTableError: a file group is missing, or the name of a file is not one of Hudi's.
            StorageError: the partition cannot be listed.
        """
        groups = self._groups.get(partition)
        if groups is None:
            groups = self._groups[partition] = self._find_groups(partition)
        return groups

    def of_keys(self, partition: str, keys: Sequence[str], within: Iterable[str] | None = None) -> pa.Table:
        """The records of some keys, in no order, with the columns of their kind.

        ``within`` names the partitions to look in if an index has file groups for each partition, None for all.

        Raises:
            CorruptTableError: a file is damaged or missing.
            StorageError: a file cannot be read.
        """
        reads = [partial(group.of_keys, own) for group, own in self._by_group(partition, keys, within)]
        return self._joined(partition, self._all_read(reads))

    def keys_in_logs(self, partition: str, keys: Sequence[str]) -> Column:
        """Some keys that the logs have, whether they add the record or remove it.

        Raises:
            CorruptTableError: a file is damaged or missing.
            StorageError: a file cannot be read.
        """
        reads = [partial(group.of_keys_in_logs, own) for group, own in self._by_group(partition, keys)]
        return pc.unique(self._joined(partition, self._all_read(reads)).column(KEY).combine_chunks())

    def _by_group(
        self, partition: str, keys: Sequence[str], within: Iterable[str] | None = None
    ) -> Iterator[tuple[SliceRecords, list[bytes]]]:
        """The file groups that some keys may be in, each with its keys in order."""
        scopes = self.file_groups(partition)
        if within is not None and "" not in scopes:
            scopes = {name: scopes[name] for name in within if name in scopes}
        distinct = pc.unique(pa.array(keys, pa.string()))
        for groups in scopes.values():
            numbers = group_numbers(distinct, len(groups))
            for number, group in enumerate(groups):
                own = distinct.filter(pa.array(numbers == number))
                if len(own):
                    yield group, sorted(key.encode() for key in own.to_pylist() if key is not None)

    def of_prefix(self, partition: str, prefix: str) -> pa.Table:
        """The records whose keys begin with a prefix, of all file groups; raises like ``of_keys``."""
        return self.of_prefixes(partition, [prefix])

    def of_prefixes(
        self, partition: str, prefixes: Sequence[str], hashed: Sequence[Sequence[str]] | None = None
    ) -> pa.Table:
        """The records whose keys begin with one of some prefixes; no prefix begins with another.

        ``hashed`` are the texts by whose hash writers may have chosen the file group of each prefix; without them, all
        file groups are read.
        Raises like ``of_keys``.
        """
        groups = list(self._all_groups(partition))
        reads: list[Callable[[], pa.Table]] = []
        for number, prefix in enumerate(prefixes):
            texts = None if hashed is None else pa.array(hashed[number], pa.string())
            chosen = (
                groups
                if texts is None
                else [groups[group_number] for group_number in set(group_numbers(texts, len(groups)).tolist())]
            )
            reads += [partial(group.of_range, KeyRange.of_prefix(prefix.encode())) for group in chosen]
        return self._joined(partition, self._all_read(reads))

    def all(self, partition: str) -> Iterator[pa.Table]:
        """All records, a part at a time; raises like ``of_keys``."""
        for group in self._all_groups(partition):
            for part in group.all():
                yield part.drop_columns(DELETED)

    def whole_records(self) -> Iterator[pa.Table]:
        """All records with all of their fields, a part at a time, of all partitions that there are.

        Raises:
            CorruptTableError: a file is damaged or missing.
            QueryError: the kind of a partition's records is unknown.
            StorageError: a file cannot be read.
        """
        folders = (info for info in self.own.storage.list_directory("") if info.is_dir)
        for partition in (info.name for info in folders if not info.name.startswith(".")):
            kind = whole_records(self.kind(partition))
            for file_slice in self._slices(partition):
                group = SliceRecords(self.own.storage, file_slice, kind, self.validity.counts, {})
                for part in group.all():
                    yield part.drop_columns(DELETED)

    def _all_groups(self, partition: str) -> Iterator[SliceRecords]:
        return (group for groups in self.file_groups(partition).values() for group in groups)

    def _all_read(self, reads: Sequence[Callable[[], pa.Table]]) -> list[pa.Table]:
        """What all reads return; of an object store, several file groups are read at once."""
        if self.own.storage.is_local or not reads:
            return [read() for read in reads]
        return map_in_threads(lambda read: read(), reads, _GROUPS_AT_ONCE)

    def _joined(self, partition: str, tables: Iterable[pa.Table]) -> pa.Table:
        return pa.concat_tables([self.kind(partition).schema.empty_table(), *tables]).drop_columns(DELETED)

    def kind(self, partition: str) -> RecordKind:
        """The kind of a partition's records.

        Raises:
            QueryError: it is unknown.
            CorruptTableError: the definition of an expression index is damaged.
        """
        definition = self.definitions.get(partition) if partition.startswith(EXPRESSION_INDEX) else None
        kind = record_kind(partition, None if definition is None else definition.kind)
        if kind is None:
            raise QueryError("partition", partition, "a partition of the metadata table")
        return kind

    def _find_groups(self, partition: str) -> dict[str, tuple[SliceRecords, ...]]:
        kind, storage, valid = self.kind(partition), self.own.storage, self.validity.counts
        scopes: dict[str, dict[int, SliceRecords]] = defaultdict(dict)
        prefix = file_id_prefix(partition)
        slices = self._slices(partition)
        commits = {path: file.commit for path, file in self._committed.by_folder.get(partition, {}).items()}
        for file_slice in slices:
            name = _GROUP.fullmatch(file_slice.file_id.removeprefix(prefix))
            if name is None or not file_slice.file_id.startswith(prefix):
                raise self._corrupt(partition, f"the file group {file_slice.file_id}", f"{prefix}0000 …")
            records = SliceRecords(storage, file_slice, kind, valid, commits)
            scopes[unquote(name["scope"] or "")][int(name["number"])] = records
        for numbered in scopes.values():
            if sorted(numbered) != list(range(len(numbered))):
                numbers = ", ".join(map(str, sorted(numbered)))
                raise self._corrupt(partition, f"the file groups {numbers}", f"numbers from 0 to {len(numbered) - 1}")
        if not scopes:
            raise self._corrupt(partition, "no file groups", f"{prefix}0000 …")
        return {name: tuple(numbered[number] for number in sorted(numbered)) for name, numbered in scopes.items()}

    def _slices(self, partition: str) -> list[FileSlice]:
        files = self.own.storage.list_directory(partition)
        unknown = next((info.name for info in files if not _is_expected(info.name)), None)
        if unknown is not None:
            # A log file that is passed over would leave an old state.
            raise self._corrupt(partition, f"a file {unknown!r}", "base files and log files")
        self._committed.require(partition, files, self._timeline)
        groups = build_file_groups(partition, files, self._timeline)
        slices = (latest_snapshot_slice(group, self._timeline) for group in groups)
        return [file_slice for file_slice in slices if file_slice is not None]

    def _corrupt(self, partition: str, actual: str, expected: str) -> CorruptTableError:
        return CorruptTableError(f"{METADATA_FOLDER}/{partition}", None, actual, expected)

    @cached_property
    def _timeline(self) -> TimelineView:
        return view_timeline(self.own)

    @cached_property
    def _committed(self) -> CommittedFiles:
        return CommittedFiles(self.own, is_strict=True)


def _is_expected(name: str) -> bool:
    if name.startswith(PARTITION_METADATA) or name.endswith(".crc"):
        return True
    return is_data_file(name)


class IndexPartition:
    """A partition of the metadata table that a query uses, until it turns out that it cannot be used.

    An index only saves work, so no query fails because of one. The first error, or a partition that is not complete, is
    reported once; from then on ``ask`` returns None, and the caller reads without the index.
    """

    def __init__(
        self,
        metadata: Callable[[], MetadataTable],
        partition: str,
        why_not: str | None,
        report: Callable[[str], None],
    ) -> None:
        """Reads nothing before ``ask``.

        ``why_not`` is a reason that rules it out already, which is not reported. ``report`` logs why it is not used.
        """
        self.why_not = why_not
        self._metadata = metadata
        self._partition = partition
        self._report = report

    def ask(self, question: Callable[[MetadataTable], Answer]) -> Answer | None:
        """The answer of the metadata table to a question about the partition; None if it cannot be used."""
        if self.why_not is not None:
            return None
        try:
            return question(self._table)
        except INDEX_ERRORS as error:
            self.give_up(str(error))
            return None

    def give_up(self, reason: str) -> None:
        """Stops using the partition."""
        self.why_not = reason
        self._report(reason)

    @cached_property
    def _table(self) -> MetadataTable:
        table = self._metadata()
        table.require(self._partition)
        return table
