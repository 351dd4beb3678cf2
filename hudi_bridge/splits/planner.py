"""From a table at an instant to the splits that hold its rows.

A planner belongs to one instant. Folders are listed when a query first needs them, and once; a filter that rules out a
partition keeps its folder from being listed at all.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType, TableConfig, TableType
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.merge.ordering_fields import ordering_path, ordering_type
from hudi_bridge.merge.payloads import MergeRule, merge_rule
from hudi_bridge.options import ReadOptions
from hudi_bridge.splits.file_slice import FileGroup, FileSlice
from hudi_bridge.splits.file_system_view import (
    GroupId,
    TimelineFacts,
    build_file_groups,
    latest_read_optimized_slice,
    latest_snapshot_slice,
)
from hudi_bridge.splits.partitions import (
    PartitionValues,
    columns_from_path,
    list_partitions,
    partition_values,
)
from hudi_bridge.splits.query_schema import QuerySchema, read_query_schema, schema_as_read
from hudi_bridge.splits.split import FloatWidening, ReadContext, RealtimeFileSplit
from hudi_bridge.splits.two_hands import warn_of_two_hands
from hudi_bridge.storage import FileInfo, Storage
from hudi_bridge.timeline.commit_metadata import read_commit_metadata
from hudi_bridge.timeline.history import load_history
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.instant_range import next_after_snapshot
from hudi_bridge.timeline.plans import read_pending_compactions
from hudi_bridge.timeline.timeline import Timeline

_FIRST_VERSION_NAMING_DELTA_INSTANTS = 8
_BEFORE_ALL_INSTANTS = "0"
_ORDERING = "plain columns, and plain fields of structs"


class SplitPlanner:
    """Plans reads of a table as of one instant; what it learns from files and folders it keeps."""

    def __init__(
        self,
        storage: Storage,
        config: TableConfig,
        timeline: Timeline,
        query_instant: str | None,
        options: ReadOptions,
        listings: dict[str, tuple[FileInfo, ...]] | None = None,
    ) -> None:
        """A planner for an instant, None for a table without a completed commit.

        Planners that are given the same ``listings`` list each folder once.
        """
        self._options = options
        self.query_instant = query_instant or _BEFORE_ALL_INSTANTS
        self._storage = storage
        self._config = config
        self._timeline = timeline
        self._listings = {} if listings is None else listings
        self._groups: dict[str, tuple[FileGroup, ...]] = {}
        self._contexts: dict[QueryType, ReadContext] = {}

    def schema(self, query_type: QueryType) -> pa.Schema:
        """The columns of a query."""
        path_columns = columns_from_path(self._config, query_type)
        return schema_as_read(self._query_schema.arrow, self._config, path_columns)

    def next_after(self) -> str:
        """The ``after`` of the range of commits that begins where the snapshot ends.

        Raises:
            CorruptTableError: the file of a replace commit is gone or damaged.
        """
        return next_after_snapshot(self._storage, self._config, self._timeline, self.query_instant)

    @cached_property
    def _query_schema(self) -> QuerySchema:
        return read_query_schema(self._storage, self._config, self._timeline, self.query_instant)

    def file_slices(self, query_type: QueryType, row_filter: pc.Expression | None = None) -> tuple[FileSlice, ...]:
        """The file slices that a query reads, by partition and file id."""
        latest = latest_read_optimized_slice if query_type is QueryType.READ_OPTIMIZED else latest_snapshot_slice
        slices = (latest(group, self._facts) for group in self._file_groups(query_type, row_filter))
        return tuple(piece for piece in slices if piece is not None)

    def splits(self, query_type: QueryType, row_filter: pc.Expression | None = None) -> tuple[RealtimeFileSplit, ...]:
        """The splits of a query; those of a read-optimized query have no log files.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        slices = self.file_slices(query_type, row_filter)
        context = self.context(query_type)
        splits = (self.split(piece, context) for piece in slices)
        return tuple(split for split in splits if split.base_path or split.log_paths)

    def iter_splits(
        self, query_type: QueryType, row_filter: pc.Expression | None = None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of a query, made one after another: nothing is kept but the listings, until they are used.

        For plans of very many splits that are made once.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        latest = latest_read_optimized_slice if query_type is QueryType.READ_OPTIMIZED else latest_snapshot_slice
        context = self.context(query_type)
        partitions = dict(
            self._list_partitions(query_type, row_filter, partial(self._storage.list_directory, must_exist=True))
        )
        for path in sorted(partitions):
            for group in build_file_groups(path, partitions.pop(path), self._facts):
                piece = latest(group, self._facts)
                split = None if piece is None else self.split(piece, context)
                if split is not None and (split.base_path or split.log_paths):
                    yield split

    def slices_of(self, groups: Iterable[GroupId]) -> Mapping[GroupId, FileSlice]:
        """The file slices of some file groups that a snapshot reads; groups that are not part of it are left out.

        Lists no partition but theirs.
        """
        wanted = set(groups)
        found = (
            latest_snapshot_slice(group, self._facts)
            for path in sorted({path for path, _ in wanted})
            for group in self._groups_of(path, self.list_directory(path))
            if (path, group.file_id) in wanted
        )
        return {(piece.partition_path, piece.file_id): piece for piece in found if piece is not None}

    def context(self, query_type: QueryType) -> ReadContext:
        """What the splits of a query share.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        if query_type not in self._contexts:
            self._contexts[query_type] = self._context(query_type)
        return self._contexts[query_type]

    def with_visibility(self, context: ReadContext) -> ReadContext:
        """Another plan's context, for the files of this one: with what is visible at this one's instant."""
        timeline = self._timeline
        pending = (instant.requested_time for instant in timeline.instants if not instant.is_completed)
        return replace(
            context,
            latest_instant=self.query_instant,
            committed_instants=frozenset(commit.requested_time for commit in timeline.commits()),
            pending_instants=frozenset(pending),
            timeline_start=timeline.start or _BEFORE_ALL_INSTANTS,
        )

    def _context(self, query_type: QueryType) -> ReadContext:
        config = self._config
        if not self._options.tells_release:
            warn_of_two_hands(config, newest_by_1x=self._query_schema.written_by_1x)
        context = ReadContext(
            table_path=self._storage.table_path,
            query_type=query_type,
            latest_instant=self.query_instant,
            schema=self.schema(query_type),
            merge_rule=self._merge_rule(query_type),
            record_key_fields=config.record_key_fields,
            populates_meta_fields=config.populates_meta_fields,
            committed_instants=frozenset(),
            pending_instants=frozenset(),
            timeline_start=_BEFORE_ALL_INSTANTS,
            path_columns=columns_from_path(config, query_type),
            log_memory_bytes=self._options.log_memory_bytes,
            commit_times=None,
            meets_commit_times_only=False,
            float_widening=self._float_widening(),
            field_defaults=self._query_schema.defaults,
            schema_ids=self._query_schema.ids,
            schema_history=self._query_schema.history,
        )
        return self.with_visibility(context)

    def _float_widening(self) -> FloatWidening:
        if self._config.written_by_11 or self._query_schema.ids is not None:
            return FloatWidening.BY_TEXT
        return FloatWidening.BY_TEXT_IN_PARQUET_COLUMNS if self._config.written_by_1x else FloatWidening.EXACT

    def _merge_rule(self, query_type: QueryType) -> MergeRule | None:
        if query_type is QueryType.READ_OPTIMIZED or self._config.table_type is TableType.COPY_ON_WRITE:
            return None
        rule = merge_rule(self._config, self._options.payloads)
        if not rule.orders_logs:
            return rule
        return replace(rule, ordering_fields=tuple(filter(self._is_ordering_field, rule.ordering_fields)))

    def _is_ordering_field(self, name: str) -> bool:
        """Whether the table has the field; one that it does not have orders nothing."""
        schema = self._query_schema.arrow
        try:
            kind = ordering_type(name, schema)
        except KeyError as error:
            if ordering_path(name)[0] in schema.names:
                raise UnsupportedTableError("ordering field", f"{name}, no field of that struct", _ORDERING) from error
            return False
        if pa.types.is_nested(kind):
            raise UnsupportedTableError("ordering field", f"{name} of type {kind}", _ORDERING)
        return True

    def split(self, piece: FileSlice, context: ReadContext) -> RealtimeFileSplit:
        """The split of one file slice.

        Raises:
            CorruptTableError: the slice's partition path does not hold the values of the partition columns.
        """
        merged = context.merge_rule is not None
        return RealtimeFileSplit(
            context=context,
            partition_path=piece.partition_path,
            partition_values=self.partition_values(piece.partition_path, context),
            file_id=piece.file_id,
            base_instant_time=piece.base_instant_time,
            base_path=piece.base_file.path if piece.base_file else None,
            log_paths=tuple(log.path for log in piece.log_files) if merged else (),
            base_size_bytes=piece.base_size_bytes,
            log_size_bytes=piece.log_size_bytes if merged else 0,
        )

    def partition_values(self, path: str, context: ReadContext) -> PartitionValues:
        """The values of the partition columns that a path stands for, nothing where it does not tell them for certain.

        Raises:
            CorruptTableError: values that no file holds are missing or are not of their columns' types.
        """
        # Of Hudi's queries, an incremental one does not decode the path.
        encoded = context.query_type is QueryType.INCREMENTAL
        values = partition_values(path, self._config, context.schema, context.path_columns, encoded=encoded)
        if values is None and context.path_columns and self._config.drops_partition_columns:
            expected = "values of " + ", ".join(
                f"{name} {context.schema.field(name).type}" for name in context.path_columns
            )
            raise CorruptTableError(path, None, "a partition path", expected)
        return values or ()

    def partition_files(
        self, query_type: QueryType, row_filter: pc.Expression | None = None
    ) -> Mapping[str, tuple[FileInfo, ...]]:
        """The files in the partitions that a query reads, whether or not it reads them, by partition path."""
        return self._list_partitions(query_type, row_filter, partial(self.list_directory, must_exist=True))

    def _list_partitions(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None,
        list_directory: Callable[[str], tuple[FileInfo, ...]],
    ) -> Mapping[str, tuple[FileInfo, ...]]:
        return list_partitions(
            self._storage,
            self._config,
            self.schema(query_type),
            columns_from_path(self._config, query_type),
            row_filter,
            list_directory,
        )

    def _file_groups(self, query_type: QueryType, row_filter: pc.Expression | None) -> Iterable[FileGroup]:
        partitions = self.partition_files(query_type, row_filter)
        for path in sorted(partitions):
            yield from self._groups_of(path, partitions[path])

    def _groups_of(self, path: str, files: Iterable[FileInfo]) -> tuple[FileGroup, ...]:
        if path not in self._groups:
            self._groups[path] = build_file_groups(path, files, self._facts)
        return self._groups[path]

    def list_directory(self, path: str, *, must_exist: bool = False) -> tuple[FileInfo, ...]:
        """The entries of a folder of the table, as they were when it was first asked for."""
        if path not in self._listings:
            self._listings[path] = self._storage.list_directory(path, must_exist=must_exist)
        return self._listings[path]

    @cached_property
    def _facts(self) -> TimelineFacts:
        return TimelineFacts(
            logs_name_their_own_instant=self._config.table_version >= _FIRST_VERSION_NAMING_DELTA_INSTANTS,
            query_instant=self.query_instant,
            is_committed=self._timeline.is_committed,
            completion_time_of=self._completion_time_of,
            pending_compactions=read_pending_compactions(self._storage, self._config, self._timeline),
            replaced=self._replaced_file_groups(),
        )

    def _completion_time_of(self, instant_time: str) -> str | None:
        return self._timeline.completion_time_of(instant_time) or self._archived_completion_times.get(instant_time)

    @cached_property
    def _archived_completion_times(self) -> Mapping[str, str]:
        history = load_history(self._storage, self._config)
        return {instant.requested_time: instant.completion_time for instant in history if instant.completion_time}

    def _replaced_file_groups(self) -> dict[tuple[str, str], str]:
        replaced: dict[tuple[str, str], str] = {}
        for instant in self._timeline.commits():
            if instant.action is Action.REPLACE_COMMIT:
                metadata = read_commit_metadata(self._storage, self._config, instant)
                for partition, file_ids in metadata.replaced_file_ids:
                    for file_id in file_ids:
                        replaced.setdefault((partition, file_id), instant.requested_time)
        return replaced
