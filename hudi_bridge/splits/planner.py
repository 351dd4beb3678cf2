"""Plans the splits of a query from the file slices of a table."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.caching import cached_property
from hudi_bridge.config import QueryType, TableType
from hudi_bridge.errors import CorruptTableError, UnsupportedTableError
from hudi_bridge.splits.bootstrap import BootstrapSources
from hudi_bridge.splits.file_slice import FileSlice
from hudi_bridge.splits.file_system_view import ViewFiles
from hudi_bridge.splits.partition_pruning import matching_partitions
from hudi_bridge.splits.partition_values import PartitionValues, QueryColumns, certain_values, partition_values
from hudi_bridge.splits.plan_notes import PARTITION_CONDITION, PARTITIONS, PlanNotes
from hudi_bridge.splits.query_schema import QuerySchema, columns_of_query, read_query_schema
from hudi_bridge.splits.read_context import build_read_context
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.splits.table_files import FolderListings, TableFiles
from hudi_bridge.timeline.instant import Action
from hudi_bridge.timeline.plans import GroupId
from hudi_bridge.timeline.table_state import TableState

_MOST_KEPT = 20_000


class PartitionIndex(Protocol):
    """Knows of partitions that no row of them passes a filter; it reports itself why it cannot be used."""

    def partitions_that_may_pass(
        self, paths: Sequence[str], row_filter: pc.Expression, context: ReadContext, notes: PlanNotes | None = None
    ) -> Sequence[str]:
        """The partitions in which rows may pass a filter."""


class SplitPlanner:
    """Plans the queries of one state of a table; they share its columns and folder listings."""

    def __init__(
        self,
        state: TableState,
        listings: FolderListings | None = None,
        partition_index: Callable[[QueryType], PartitionIndex | None] | None = None,
        view_files: ViewFiles | None = None,
    ) -> None:
        """A planner of a state; planners with the same ``listings`` and ``view_files`` read them once.

        ``partition_index`` gives the one that serves a type of query.
        """
        self.state = state
        self.files = TableFiles(state, listings, view_files)
        self._partition_index = partition_index
        self._contexts: dict[QueryType, ReadContext] = {}
        self._kept: dict[QueryType, tuple[RealtimeFileSplit, ...]] = {}

    @cached_property
    def query_schema(self) -> QuerySchema:
        """The columns of the table, read once."""
        return read_query_schema(self.state)

    def schema(self, query_type: QueryType) -> pa.Schema:
        """The columns of a query."""
        return self.columns(query_type).schema

    def columns(self, query_type: QueryType) -> QueryColumns:
        """The columns of a query, and which of them the path has."""
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
            self._contexts[query_type] = context
        return self._contexts[query_type]

    def file_slices(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None = None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> Iterator[FileSlice]:
        """The file slices that a query reads, ordered by partition and file id, made one at a time."""
        return self.files.file_slices(query_type, self.columns(query_type), row_filter, notes=notes, within=within)

    def splits(
        self,
        query_type: QueryType,
        row_filter: pc.Expression | None = None,
        notes: PlanNotes | None = None,
        within: Collection[str] | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of a query, made one at a time; those of a read-optimized query have no log files.

        With ``within``, those in partitions of these paths, which need not exist.

        Raises:
            UnsupportedTableError: the table's records cannot be merged correctly.
        """
        are_all = row_filter is None and within is None
        if are_all and notes is None and query_type in self._kept:
            return iter(self._kept[query_type])
        context = self.context(query_type)
        slices = self._chosen_slices(query_type, row_filter, context, notes, within)
        splits = self._splits(self._read(slices, context), context)
        return self._keeping(splits, query_type) if are_all else splits

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
        if notes is None and query_type in self._kept:
            return (split for split in self._kept[query_type] if (split.partition_path, split.file_id) in groups)
        context, paths = self.context(query_type), {path for path, _ in groups}
        slices = self.files.file_slices(query_type, self.columns(query_type), row_filter, notes=notes, within=paths)
        listed = self._read(slices, context)
        listed = listed if notes is None else notes.counting(listed)
        return self._splits((piece for piece in listed if (piece.partition_path, piece.file_id) in groups), context)

    def kept_splits(self, query_type: QueryType) -> tuple[RealtimeFileSplit, ...] | None:
        """All splits of a query, if they were planned before and are kept; reads nothing."""
        return self._kept.get(query_type)

    def _chosen_slices(
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

    def _keeping(self, splits: Iterator[RealtimeFileSplit], query_type: QueryType) -> Iterator[RealtimeFileSplit]:
        """The same splits, kept for the next query if they are not too many."""
        kept: list[RealtimeFileSplit] = []
        for split in splits:
            if len(kept) <= _MOST_KEPT:
                kept.append(split)
            yield split
        if len(kept) <= _MOST_KEPT:
            self._kept[query_type] = tuple(kept)

    def splits_of(
        self,
        slices: Iterable[FileSlice],
        context: ReadContext,
        row_filter: pc.Expression | None,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits of given file slices, without those in partitions that the filter rules out."""
        known = tuple(slices)
        paths = dict.fromkeys(piece.partition_path for piece in known)
        encoded = _is_encoded(context)
        values = {
            path: certain_values(path, self.state.config, context.schema, context.path_columns, encoded=encoded)
            for path in paths
        }
        kept = set(matching_partitions(self.state.storage, context.schema, row_filter, values))
        if notes is not None:
            notes.counted(PARTITION_CONDITION, len(values), len(kept), PARTITIONS)
        return self._splits((piece for piece in known if piece.partition_path in kept), context)

    def split(self, piece: FileSlice, context: ReadContext) -> RealtimeFileSplit:
        """The split of one file slice.

        Raises:
            CorruptTableError: the slice's partition path does not hold the values of the partition columns.
        """
        return self._split(piece, context, self.partition_values(piece.partition_path, context))

    def _splits(self, slices: Iterable[FileSlice], context: ReadContext) -> Iterator[RealtimeFileSplit]:
        """The splits of slices that are ordered by partition."""
        for path, pieces in groupby(slices, key=lambda piece: piece.partition_path):
            values = self.partition_values(path, context)
            for piece in pieces:
                yield self._split(piece, context, values)

    def _read(self, slices: Iterable[FileSlice], context: ReadContext) -> Iterator[FileSlice]:
        """The slices of which a query reads a file."""
        for piece in slices:
            if piece.base_file is not None or _has_logs_to_merge(piece, context):
                yield piece
            else:
                self._require_type_of(piece)

    @cached_property
    def _delta_commits(self) -> frozenset[str] | None:
        """The delta commits of a table that is to have none, None of any other table."""
        if self.state.config.table_type is not TableType.COPY_ON_WRITE:
            return None
        commits = self.state.timeline.commits()
        return frozenset(one.requested_time for one in commits if one.action is Action.DELTA_COMMIT)

    def _require_type_of(self, piece: FileSlice) -> None:
        """Refuses what a copy-on-write table does not have.

        Hudi passes over delta commits and logs there, and so loses rows without a word. Where the type of a table was
        changed after all of it had been compacted, neither is left in a slice that is read.
        """
        deltas = self._delta_commits
        if deltas is None or not (piece.log_files or piece.base_instant_time in deltas):
            return
        path = piece.log_files[0].path if piece.base_file is None or piece.log_files else piece.base_file.path
        kind = "the log file" if piece.log_files else "the file of a delta commit,"
        found = f"COPY_ON_WRITE, and {kind} {path}"
        raise UnsupportedTableError("table type", found, "hoodie.table.type as the writer has it, MERGE_ON_READ")

    @cached_property
    def _sources(self) -> BootstrapSources:
        return BootstrapSources(self.state)

    def _split(self, piece: FileSlice, context: ReadContext, values: PartitionValues) -> RealtimeFileSplit:
        self._require_type_of(piece)
        source = self._sources.of(piece)
        merged = _has_logs_to_merge(piece, context)
        return RealtimeFileSplit(
            context=context,
            partition_path=piece.partition_path,
            partition_values=values,
            file_id=piece.file_id,
            base_instant_time=piece.base_instant_time,
            base_path=piece.base_file.path if piece.base_file else None,
            log_paths=tuple(log.path for log in piece.log_files) if merged else (),
            base_size_bytes=piece.base_size_bytes,
            log_size_bytes=piece.log_size_bytes if merged else 0,
            log_sizes=tuple(log.size_bytes for log in piece.log_files) if merged else (),
            source_path=source.path if source else None,
            source_size_bytes=source.size_bytes if source else 0,
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
    """Whether values of the path stay as it spells them: in Hudi, only an incremental query does not decode it."""
    return context.query_type is QueryType.INCREMENTAL


def _has_logs_to_merge(piece: FileSlice, context: ReadContext) -> bool:
    return bool(piece.log_files) and context.merge_rule is not None
