"""Plans the splits of a query from the file slices of a table.

``SplitPlanner`` serves the queries of one state. Files are listed when splits are first iterated, and cached.
``build_read_context`` turns the table's configuration, schema and release into the ``ReadContext`` that all splits of a
query share. ``SnapshotPlan`` is the plan of a snapshot or read-optimized query.

A table that was bootstrapped by metadata has base files with meta columns only; the other columns stay in the files
that were there before, row ``i`` of both being one record. Updates go to logs; a compaction or an update writes
complete base files. An HFile names those source files, with a cell for each file group (``BootstrapSources``):

    key     ``part={partition path};fileid={file id}``
    value   an Avro container with ``HoodieBootstrapFilePartitionInfo``

Source: ``HFileBootstrapIndex`` and ``AbstractTableFileSystemView.addBootstrapBaseFileIfPresent`` of Hudi.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.config import BOOTSTRAP_INDEX, QueryType, TableConfig, TableType
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.merge.payloads import merge_rule, rule_for_showing, rule_of_columns
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.options import BOOTSTRAP_SOURCE_KEY, ReadOptions
from hudi_bridge.releases import FloatWidening
from hudi_bridge.schema.avro import Defaults
from hudi_bridge.splits.copy_on_write import TypeCheck
from hudi_bridge.splits.file_slice import BaseFile, FileSlice
from hudi_bridge.splits.file_system_view import ViewFiles
from hudi_bridge.splits.notes import PARTITION_CONDITION, PARTITIONS, FileSource, PlanNotes, warn_of_other_release
from hudi_bridge.splits.partitions import (
    PartitionValues,
    QueryColumns,
    certain_values,
    matching_partitions,
    partition_values,
)
from hudi_bridge.splits.query_schema import QuerySchema, columns_of_query, read_query_schema
from hudi_bridge.splits.split import (
    ReadContext,
    RealtimeFileSplit,
    in_order,
    require_commits_in_rows,
    stored_context,
    with_completion_times,
)
from hudi_bridge.splits.table_files import FolderListings, TableFiles
from hudi_bridge.timeline.instant import BOOTSTRAP_OF_METADATA, CompletionTimes
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.timeline.instant_range import next_after_snapshot
from hudi_bridge.timeline.records import map_field, number_field, parse_record, text_field
from hudi_bridge.timeline.timeline import TableState

INDEX_PATH = ".hoodie/.aux/.bootstrap/.fileids/00000000-0000-0000-0000-000000000000-0_1-0-1_00000000000001.hfile"
_COPYING_KEY_GENERATORS = frozenset(("SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM", "NON_PARTITION", "GLOBAL_DELETE"))
"""The key generators whose record keys consist of the texts of the record key fields."""
_COPIED_TYPES = (pa.string(), pa.int32(), pa.int64())
"""The types whose texts are the same in Java as here."""
_MOST_CACHED_SPLITS = 20_000
"""About 8 MB, at 400 bytes a split."""


class SourceFile(NamedTuple):
    """A Parquet file that a table was bootstrapped from; ``path`` is relative to the folder of these files."""

    path: str
    size_bytes: int


class BootstrapSources:
    """The source files of a table's file groups; none in a table that was not bootstrapped."""

    def __init__(self, state: TableState, *, reads_rows: bool = True) -> None:
        """Reads the index; with ``reads_rows``, the files that it names have to be allowed by an option.

        Raises:
            CorruptTableError: the index is damaged.
            UnsupportedTableError: rows are in files outside of the table, and no option allows to read them.
        """
        self._index = state.config.bootstrap_index
        has_index = bool(state.config.bootstrap_base_path) and self._index == BOOTSTRAP_INDEX
        self._files = _read_index(state) if has_index else {}
        if reads_rows and self._files and state.options.bootstrap_source is None:
            raise UnsupportedTableError(
                "bootstrapped table",
                f"rows that are in files of {state.config.bootstrap_base_path}",
                f"the option {BOOTSTRAP_SOURCE_KEY} with the path of that folder, which allows to read them",
            )

    def of(self, file_slice: FileSlice) -> SourceFile | None:
        """The source file of a slice's base file; None if the base file has all columns.

        Raises:
            CorruptTableError: the index does not name it.
            UnsupportedTableError: the table's properties name another index, or none.
        """
        base = file_slice.base_file
        if base is None or base.instant_time != BOOTSTRAP_OF_METADATA:
            return None
        if self._index != BOOTSTRAP_INDEX:
            raise UnsupportedTableError("bootstrap index", self._index, BOOTSTRAP_INDEX)
        return self._of_group((file_slice.partition_path, file_slice.file_id), base)

    def _of_group(self, group: GroupId, base: BaseFile) -> SourceFile:
        source = self._files.get(group)
        if source is None:
            raise CorruptTableError(base.path, None, f"no such base file in {INDEX_PATH}", "the file with its columns")
        return source


def _read_index(state: TableState) -> Mapping[GroupId, SourceFile]:
    try:
        content = state.storage.read_buffer(INDEX_PATH)
    except FileNotFoundError:
        # All records were written to the table.
        return {}
    cells = read_hfile(content, INDEX_PATH)
    keys: list[str] = cells.keys.cast(pa.string()).to_pylist()  # type: ignore[assignment]
    values, starts, ends = memoryview(cells.values), cells.value_starts.tolist(), cells.value_ends.tolist()
    return dict(_parse_cell(key, bytes(values[start:end])) for key, start, end in zip(keys, starts, ends, strict=True))


def _parse_cell(key: str, value: bytes) -> tuple[GroupId, SourceFile]:
    _, is_named, file_id = key.rpartition(";fileid=")
    if not is_named:
        raise CorruptTableError(INDEX_PATH, None, f"the key {key!r}", "part={partition path};fileid={file id}")
    record = parse_record(value, INDEX_PATH)
    status = map_field(record, "bootstrapFileStatus", INDEX_PATH)
    uri = text_field(map_field(status, "path", INDEX_PATH), "uri", INDEX_PATH)
    folder, name = text_field(record, "bootstrapPartitionPath", INDEX_PATH), uri.rpartition("/")[2]
    file = SourceFile(f"{folder}/{name}" if folder else name, number_field(status, "length", INDEX_PATH))
    return (text_field(record, "partitionPath", INDEX_PATH), file_id), file


def build_read_context(
    state: TableState,
    query_schema: QuerySchema,
    query_type: QueryType,
    *,
    visible: TableState | None = None,
    commit_times: frozenset[str] | None = None,
    merges: bool = True,
) -> ReadContext:
    """The context of a query, with the columns and merge rule of ``state``.

    ``visible`` is the state whose files are read, ``state`` itself by default. An incremental query returns only rows
    of ``commit_times``. Without ``merges``, log records are decoded and never merged, which needs no payload.

    Raises:
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    config, options = state.config, state.options
    if not options.overrides_release:
        warn_of_other_release(config, newest=query_schema.series)
    shown = visible or state
    timeline = shown.timeline
    schema, path_columns = columns_of_query(query_schema, config, query_type)
    rule = _merge_rule(state, query_schema, query_type, merges=merges)
    context = ReadContext(
        table_path=state.storage.table_path,
        query_type=query_type,
        latest_instant=shown.instant,
        schema=schema,
        merge_rule=rule,
        record_key_fields=config.record_key_fields,
        populates_meta_fields=config.populates_meta_fields,
        committed_instants=frozenset(commit.requested_time for commit in timeline.commits()),
        pending_instants=timeline.pending_times(),
        timeline_start=shown.timeline_start,
        path_columns=path_columns,
        log_memory_bytes=options.log_memory_bytes,
        commit_times=commit_times,
        filters_base_rows_before_merge=commit_times is not None and config.rules.filters_base_rows_before_merge,
        filters_parquet_blocks=commit_times is not None and config.rules.filters_parquet_blocks,
        replaces_compacted_blocks=replaces_compacted_blocks(config, options),
        float_widening=FloatWidening.BY_TEXT if query_schema.has_ids else config.rules.float_widening,
        field_defaults=release_defaults(config, query_schema),
        schema_ids=query_schema.ids,
        schema_history=query_schema.history,
        is_lsm_tree=config.is_lsm_tree,
        fields_spell_keys=(rule is None or rule.payload is None)
        and query_schema.ids is None
        and _fields_spell_keys(config, schema, path_columns),
        skips_slices=options.data_skipping,
        bucket_count=options.bucket_count,
        bucket_fields=options.bucket_fields,
        bootstrap_source=options.bootstrap_source,
        blob_sources=options.blob_sources,
        blob_content=options.blob_content,
        storage_options=state.storage.options,
        needs_keys=state.storage.decryption is not None,
        needs_filesystem=state.storage.needs_filesystem,
    )
    if rule is not None and config.record_key_fields:
        # Log records are matched by key, so that a key of unknown text is refused before the first row.
        _ = context.key_columns
    return context


def release_defaults(config: TableConfig, query_schema: QuerySchema) -> Defaults:
    """The defaults of fields that files lack, as far as the table's release knows them."""
    return query_schema.defaults if config.rules.knows_defaults else ()


def _fields_spell_keys(config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...]) -> bool:
    """Whether the record key of each row follows from the values of the key fields in the row.

    It does not if a user's payload may change the values, or if columns have ids, so that a name may have meant another
    column.
    """
    names = config.record_key_fields
    if config.populates_meta_fields and config.key_generator not in _COPYING_KEY_GENERATORS:
        return False
    if not names or not set(schema.names).difference(path_columns).issuperset(names):
        return False
    return all(schema.field(name).type in _COPIED_TYPES for name in names)


def replaces_compacted_blocks(config: TableConfig, options: ReadOptions) -> bool:
    """Whether the block of a log compaction counts in place of its originals."""
    rules = config.rules
    return rules.replaces_compacted_blocks or (rules.has_optimized_log_scan and options.optimized_log_scan)


def _merge_rule(
    state: TableState, query_schema: QuerySchema, query_type: QueryType, *, merges: bool
) -> MergeRule | None:
    payloads, schema = state.options.payloads, query_schema.arrow
    if not merges:
        return rule_for_showing(state.config, payloads, schema)
    if query_type is QueryType.READ_OPTIMIZED or state.config.table_type is TableType.COPY_ON_WRITE:
        return None
    rule = merge_rule(state.config, payloads, of_range=query_type is QueryType.INCREMENTAL)
    return rule_of_columns(rule, schema)


class PartitionIndex(Protocol):
    """An index that rules out partitions for a filter; if it cannot be used, it reports that itself."""

    def partitions_that_may_pass(
        self, paths: Sequence[str], row_filter: pc.Expression, context: ReadContext, notes: PlanNotes | None = None
    ) -> Sequence[str]:
        """The partitions in which rows may pass a filter."""


class SplitPlanner:
    """Plans the queries of one state of a table; they share its columns and folder listings.

    ``splits(query_type)`` lists the table and yields a ``RealtimeFileSplit`` for each slice; ``schema(query_type)``
    has the columns of their rows. All errors are subclasses of ``HudiReadError``. Other methods and attributes are for
    this package and may change with any release.

    Made by ``HudiTable.planner``.
    """

    def __init__(
        self,
        state: TableState,
        listings: FolderListings | None = None,
        partition_index: Callable[[QueryType], PartitionIndex | None] | None = None,
        view_files: ViewFiles | None = None,
        completion_times: Callable[[], CompletionTimes] | None = None,
    ) -> None:
        """A planner of a state; planners with the same ``listings`` and ``view_files`` read them once.

        ``partition_index`` returns the index for a type of query. Without ``completion_times``, rows have none.
        """
        self.state = state
        self._completion_times = completion_times
        self.files = TableFiles(state, listings, view_files)
        self._type_check = TypeCheck(state)
        self._partition_index = partition_index
        self._contexts: dict[QueryType, ReadContext] = {}
        self._cached: dict[QueryType, tuple[RealtimeFileSplit, ...]] = {}

    @cached_property
    def query_schema(self) -> QuerySchema:
        """The columns of the table, read once; raises like ``read_query_schema``."""
        return read_query_schema(self.state)

    def schema(self, query_type: QueryType) -> pa.Schema:
        """The columns of a query, with Arrow types.

        Raises:
            CorruptTableError: a commit or its schema cannot be parsed.
            UnsupportedTableError: nothing tells the columns, or one has a type that cannot be read correctly.
        """
        return self.columns(query_type).schema

    def columns(self, query_type: QueryType) -> QueryColumns:
        """The columns of a query, and the ones that are read from the path; raises like ``schema``."""
        if self._completion_times is not None:
            return QueryColumns(self.context(query_type).schema, self.context(query_type).path_columns)
        return columns_of_query(self.query_schema, self.state.config, query_type)

    def context(self, query_type: QueryType) -> ReadContext:
        """The context shared by the splits of a query.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        if query_type not in self._contexts:
            context = build_read_context(self.state, self.query_schema, query_type)
            if context.fields_spell_keys and context.populates_meta_fields and self.files.registers_external:
                # Rows of external files have no record key in a table with meta columns.
                context = replace(context, fields_spell_keys=False)
            if self._completion_times is not None and query_type in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
                require_commits_in_rows(self.state.config)
                context = with_completion_times(context, self._completion_times())
            self._contexts[query_type] = context
        return self._contexts[query_type]

    def file_slices(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None = None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> Iterator[FileSlice]:
        """The file slices that a query reads, ordered by partition and file id, made one at a time.

        Arguments and errors are those of ``splits``. Source: ``AbstractTableFileSystemView`` of Hudi.
        """
        return self.files.file_slices(query_type, self.columns(query_type), row_filter, notes=notes, within=within)

    def splits(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None = None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of a query, made one at a time; in a read-optimized query they have no log files.

        Args:
            query_type: a snapshot or read-optimized query.
            row_filter: rules out partitions; a reader has to apply it to the rows.
            notes: counts what is left out, for this package.
            within: if given, only splits in partitions with these paths are returned; the partitions need not exist.

        Raises:
            QueryError: the filter does not fit the table.
            UnsupportedTableError: the table's records cannot be merged correctly.
            CorruptTimelineError: a commit cannot be read.
            StorageError: a folder cannot be listed.
        """
        are_all = row_filter is None and within is None
        if are_all and notes is None and query_type in self._cached:
            return iter(self._cached[query_type])
        context = self.context(query_type)
        slices = self._selected_slices(query_type, row_filter, context, notes, within)
        splits = self._splits(self._slices_to_read(slices, context), context)
        return self._caching(splits, query_type) if are_all else splits

    def splits_of_groups(
        self,
        query_type: QueryType,
        groups: AbstractSet[GroupId],
        row_filter: pc.Expression | None,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of some file groups that a query reads; only their partitions are listed, which need not exist.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        if notes is None and query_type in self._cached:
            return (split for split in self._cached[query_type] if (split.partition_path, split.file_id) in groups)
        context, paths = self.context(query_type), {path for path, _ in groups}
        slices = self.files.file_slices(query_type, self.columns(query_type), row_filter, notes=notes, within=paths)
        listed = self._slices_to_read(slices, context)
        listed = listed if notes is None else notes.counting(listed)
        return self._splits(
            (file_slice for file_slice in listed if (file_slice.partition_path, file_slice.file_id) in groups), context
        )

    def cached_splits(self, query_type: QueryType) -> tuple[RealtimeFileSplit, ...] | None:
        """All splits of a query, if they were planned before and are cached; reads nothing."""
        return self._cached.get(query_type)

    def _selected_slices(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None,
        context: ReadContext,
        notes: PlanNotes | None,
        within: Collection[str] | None,
    ) -> Iterator[FileSlice]:
        index = None if self._partition_index is None else self._partition_index(query_type)
        if row_filter is None or index is None:
            return self.file_slices(query_type, row_filter, notes, within)
        choose = partial(index.partitions_that_may_pass, row_filter=row_filter, context=context, notes=notes)
        return self.files.file_slices(query_type, self.columns(query_type), row_filter, choose, notes, within)

    def _caching(self, splits: Iterator[RealtimeFileSplit], query_type: QueryType) -> Iterator[RealtimeFileSplit]:
        """The same splits, cached for the next query if they are not too many."""
        cached: list[RealtimeFileSplit] = []
        for split in splits:
            if len(cached) <= _MOST_CACHED_SPLITS:
                cached.append(split)
            yield split
        if len(cached) <= _MOST_CACHED_SPLITS:
            self._cached[query_type] = tuple(cached)

    def splits_of(
        self,
        slices: Iterable[FileSlice],
        context: ReadContext,
        row_filter: pc.Expression | None,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of given file slices, without splits in partitions that the filter rules out."""
        all_slices = tuple(slices)
        paths = dict.fromkeys(file_slice.partition_path for file_slice in all_slices)
        encoded = _is_encoded(context)
        values = {
            path: certain_values(path, self.state.config, context.schema, context.path_columns, encoded=encoded)
            for path in paths
        }
        passing = set(matching_partitions(self.state.storage, context.schema, row_filter, values))
        if notes is not None:
            notes.counted(PARTITION_CONDITION, len(values), len(passing), PARTITIONS)
        return self._splits((file_slice for file_slice in all_slices if file_slice.partition_path in passing), context)

    def split(self, file_slice: FileSlice, context: ReadContext) -> RealtimeFileSplit:
        """The split of one file slice.

        Raises:
            CorruptTableError: the slice's partition path does not hold the values of the partition columns.
        """
        return self._split(file_slice, context, self.partition_values(file_slice.partition_path, context))

    def _splits(self, slices: Iterable[FileSlice], context: ReadContext) -> Iterator[RealtimeFileSplit]:
        """The splits of slices that are ordered by partition."""
        for path, in_partition in groupby(slices, key=lambda file_slice: file_slice.partition_path):
            values = self.partition_values(path, context)
            for file_slice in in_partition:
                yield self._split(file_slice, context, values)

    def _slices_to_read(self, slices: Iterable[FileSlice], context: ReadContext) -> Iterator[FileSlice]:
        """The slices with a file that the query reads."""
        for file_slice in slices:
            if file_slice.base_file is not None or _has_logs_to_merge(file_slice, context):
                yield file_slice
            else:
                self._type_check.require(file_slice)

    @cached_property
    def _sources(self) -> BootstrapSources:
        return BootstrapSources(self.state)

    def _split(self, file_slice: FileSlice, context: ReadContext, values: PartitionValues) -> RealtimeFileSplit:
        self._type_check.require(file_slice)
        source = self._sources.of(file_slice)
        merged = _has_logs_to_merge(file_slice, context)
        split = RealtimeFileSplit(
            context=context,
            partition_path=file_slice.partition_path,
            partition_values=values,
            file_id=file_slice.file_id,
            base_instant_time=file_slice.base_instant_time,
            base_path=file_slice.base_file.path if file_slice.base_file else None,
            log_paths=tuple(log.path for log in file_slice.log_files) if merged else (),
            base_size_bytes=file_slice.base_size_bytes,
            log_size_bytes=file_slice.log_size_bytes if merged else 0,
            log_sizes=tuple(log.size_bytes for log in file_slice.log_files) if merged else (),
            source_path=source.path if source else None,
            source_size_bytes=source.size_bytes if source else 0,
        )
        return in_order(split)

    @cached_property
    def _context_for_showing(self) -> ReadContext:
        return build_read_context(self.state, self.query_schema, QueryType.SNAPSHOT, merges=False)

    def split_without_files(self, group: GroupId, *, merges: bool = True) -> RealtimeFileSplit:
        """A split of a snapshot for a file group, without files, for readers of log blocks that no snapshot reads.

        ``merges`` is as for ``build_read_context``.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        context = stored_context(self.context(QueryType.SNAPSHOT) if merges else self._context_for_showing)
        path, file_id = group
        values = partition_values(path, self.state.config, context.schema, context.path_columns)
        return RealtimeFileSplit(
            context=context,
            partition_path=path,
            partition_values=values or (),
            file_id=file_id,
            base_instant_time="",
            base_path=None,
            log_paths=(),
            base_size_bytes=0,
            log_size_bytes=0,
        )

    def partition_values(self, path: str, context: ReadContext) -> PartitionValues:
        """The values of the partition columns in a path, empty if the path does not determine them.

        Raises:
            CorruptTableError: values that only the path has are missing or do not have their columns' types.
        """
        config = self.state.config
        values = partition_values(path, config, context.schema, context.path_columns, encoded=_is_encoded(context))
        if values is None and context.path_columns and config.drops_partition_columns:
            expected = "values of " + ", ".join(
                f"{name} {context.schema.field(name).type}" for name in context.path_columns
            )
            raise CorruptTableError(path, None, "a partition path", expected)
        return values or ()


def _is_encoded(context: ReadContext) -> bool:
    """Whether values in the path stay encoded: in Hudi, only an incremental query does not decode them."""
    return context.query_type is QueryType.INCREMENTAL


def _has_logs_to_merge(file_slice: FileSlice, context: ReadContext) -> bool:
    return bool(file_slice.log_files) and context.merge_rule is not None


class Split(Protocol):
    """A part of a query that can be read independently, on any machine that can reach the table's files.

    Made by ``HudiDataset.splits``: a ``RealtimeFileSplit`` or a ``ChangeSplit``.
    """

    @property
    def context(self) -> ReadContext:
        """The context shared by the splits of one plan."""

    @property
    def slices(self) -> tuple[RealtimeFileSplit, ...]:
        """The file slices that a reader of the split merges."""

    def to_json(self) -> str:
        """The split, with its context, as JSON text."""


class QueryPlan(Protocol):
    """The plan that a ``HudiDataset`` reads."""

    @property
    def query_type(self) -> QueryType:
        """The kind of query."""

    @property
    def instant(self) -> str:
        """The instant at which the table is read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""

    @property
    def context(self) -> ReadContext:
        """The context shared by the splits, even if there are none."""

    @property
    def next_after(self) -> str | None:
        """The ``after`` of the incremental query that continues from here, None if it is unknown."""

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found; known once splits have been made."""

    def splits(self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None) -> Iterator[Split]:
        """The splits whose rows may pass the filter, made one at a time; ``notes`` record what was left out."""

    def left_out_log_files(self) -> int:
        """The number of log files with later changes that the query does not read."""


@dataclass(frozen=True, slots=True)
class SnapshotPlan:
    """All rows as of one instant, from base files and logs; from base files alone if read optimized."""

    planner: SplitPlanner
    query_type: QueryType

    @property
    def instant(self) -> str:
        """The instant at which the table is read."""
        return self.planner.state.instant

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table as of the instant."""
        return self.planner.schema(self.query_type)

    @property
    def context(self) -> ReadContext:
        """The context shared by the splits, even if there are none."""
        return self.planner.context(self.query_type)

    @property
    def next_after(self) -> str | None:
        """The ``after`` for changes since the snapshot; None for queries of base files only, which lack the changes in
        logs.
        """
        return next_after_snapshot(self.planner.state) if self.query_type is QueryType.SNAPSHOT else None

    @property
    def found_by(self) -> FileSource:
        """How the names of files are found; known once splits have been made."""
        return self.planner.files.found_by

    def splits(
        self, row_filter: pc.Expression | None = None, notes: PlanNotes | None = None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass the filter, made one at a time and not cached."""
        return self.planner.splits(self.query_type, row_filter, notes)

    def splits_of_groups(
        self, groups: AbstractSet[GroupId], row_filter: pc.Expression | None, notes: PlanNotes | None
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of some file groups; only their partitions are listed, which need not exist."""
        return self.planner.splits_of_groups(self.query_type, groups, row_filter, notes)

    def left_out_log_files(self) -> int:
        """The number of log files in the snapshot that are not merged in."""
        if self.query_type is QueryType.SNAPSHOT:
            return 0
        return sum(len(file_slice.log_files) for file_slice in self.planner.file_slices(QueryType.SNAPSHOT))
