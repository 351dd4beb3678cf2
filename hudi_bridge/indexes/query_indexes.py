"""The indexes of a table, and which of them serves which query: all queries get their indexes from here.

An index describes the merged records of the newest state, its base files, or single files. It serves a query whose rows
come from the same source: the record index has no entry for a record that a log deletes, yet a read-optimized query
returns the row that the base file still has.

Every plan needs the names of files: from the ``files`` partition of the metadata table, or by listing folders if it
cannot be used. The timeline decides what is read of the files, so that answers are the same either way.

For a filter, an index that names file groups is asked before anything is listed. Each other index is a step of
``DataSkipping``, and is asked about the slices that earlier steps leave; a step that cannot answer leaves all. The last
step costs no request: ranges of columns that the storage cached when earlier queries read the files.

Source: ``SparkBaseIndexSupport.supportsQueryType`` and ``RecordLevelIndexSupport`` of Hudi.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.caching import cached_property
from hudi_bridge.common.imports import LaterModule
from hudi_bridge.config import QueryType, TableType
from hudi_bridge.errors import CorruptTableError
from hudi_bridge.indexes.data_skipping import ColumnStatsOfTable, PartitionStatsOfTable, in_batches
from hudi_bridge.indexes.metadata_table import IndexPartition, MetadataTable, why_not_there
from hudi_bridge.indexes.record_kinds import ALL_PARTITIONS, FILES
from hudi_bridge.readers.column_ranges import columns_with_ranges, known_ranges, may_pass_in_any
from hudi_bridge.splits.file_slice import EXTERNAL_PATTERN
from hudi_bridge.splits.file_system_view import FILES as FILE_COLUMNS
from hudi_bridge.splits.notes import PlanNotes, warn_of_unused_metadata
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.splits.table_files import FolderListings
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.instant_files import GroupId
from hudi_bridge.timeline.timeline import TableState

if TYPE_CHECKING:
    from hudi_bridge.indexes import expression_index, key_index, record_index, secondary_index
else:
    expression_index = LaterModule("hudi_bridge.indexes.expression_index")
    key_index = LaterModule("hudi_bridge.indexes.key_index")
    record_index = LaterModule("hudi_bridge.indexes.record_index")
    secondary_index = LaterModule("hudi_bridge.indexes.secondary_index")

STEP = "ranges of files read before"
NOTED_BYTES = 1
"""What the metadata table has of an empty file."""
_NO_PARTITION = "."
"""The key of the files of a table without partitions."""


class SkippingStep(Protocol):
    """An index that rules out file slices for a filter."""

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass a filter that refers to some columns of a query."""


class GroupIndex(Protocol):
    """An index that names file groups for a filter."""

    def file_groups(
        self, row_filter: pc.Expression, columns: Sequence[str], context: ReadContext, notes: PlanNotes | None = None
    ) -> AbstractSet[GroupId] | None:
        """The partition path and file id of all groups with rows that may pass; None if the index cannot answer."""


@dataclass(frozen=True, slots=True)
class DataSkipping:
    """The steps by name, in the order in which they are asked, and the index that names file groups, if any."""

    steps: tuple[tuple[str, SkippingStep], ...]
    groups: GroupIndex | None = None

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass a filter that refers to some columns of a query."""
        left = iter(splits)
        for _, step in self.steps:
            left = step.splits_that_may_pass(left, row_filter, columns, context, notes)
        return left


class Describes(Enum):
    """What an index describes."""

    RECORDS = auto()
    """The merged records of the newest state: the record index and the secondary index."""
    BASE_FILES = auto()
    """The base files of the newest state, together: the partition stats."""
    FILES = auto()
    """Single files, which do not change: column stats, expression indexes, ranges, Bloom filters and keys of files."""


def serves(describes: Describes, query_type: QueryType, *, is_newest: bool, has_logs: bool) -> bool:
    """Whether an index may be asked for a query.

    ``is_newest`` is whether the query reads the newest state, ``has_logs`` whether the table has logs to merge: without
    them, its base files hold its merged records.
    """
    if describes is Describes.FILES:
        # The images of changes may be of rows that no file has as they are.
        return query_type is not QueryType.CHANGES
    if not is_newest or query_type not in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
        return False
    reads_records = query_type is QueryType.SNAPSHOT
    return not has_logs or reads_records == (describes is Describes.RECORDS)


class IndexesOfTable:
    """The indexes of a table in its newest state; each is made when it is first asked for."""

    def __init__(self, state: TableState) -> None:
        """The indexes of a state; nothing is read yet."""
        self._state = state

    @cached_property
    def metadata_table(self) -> MetadataTable:
        """The metadata table, where most indexes are."""
        return MetadataTable(self._state)

    def _metadata(self) -> MetadataTable:
        """The metadata table, for indexes that are made before it is needed."""
        return self.metadata_table

    def listings(self) -> FolderListings:
        """Listings that ask the metadata table first, unless the table has none or the options switch it off."""
        why_not = why_not_there(self._state, FILES)
        if why_not is not None:
            return FolderListings(self._state, why_no_index=why_not)
        return FolderListings(self._state, MetadataFileIndex(self._state, self._metadata))

    def of_query(self, query_type: QueryType, *, is_newest: bool) -> "IndexesOfQuery":
        """The indexes that serve a query of the newest state, or of an earlier one."""
        has_logs = self._state.config.table_type is not TableType.COPY_ON_WRITE
        return IndexesOfQuery(self, query_type, is_newest=is_newest, has_logs=has_logs)

    def partition_stats_for(self, query_type: QueryType) -> PartitionStatsOfTable | None:
        """The partition stats, if they serve a query of the newest state."""
        return self.of_query(query_type, is_newest=True).partition_stats

    @cached_property
    def record_index(self) -> "record_index.RecordIndexOfTable":
        """Where records are."""
        return record_index.RecordIndexOfTable(self._state, self._metadata)

    @cached_property
    def partition_stats(self) -> PartitionStatsOfTable:
        """Ranges of the base files of partitions."""
        return PartitionStatsOfTable(self._state, self._metadata)

    @cached_property
    def key_index(self) -> "key_index.KeyIndexOfTable":
        """Key ranges and Bloom filters of base files."""
        return key_index.KeyIndexOfTable(self._state, self._metadata)

    @cached_property
    def skipping_by_files(self) -> DataSkipping:
        """The steps that rule out file slices by indexes of their files."""
        expressions = expression_index.ExpressionIndexesOfTable(self._state, self._metadata)
        ranges = CachedRanges(self._state.storage)
        column_stats = ColumnStatsOfTable(self._state, self._metadata)
        return DataSkipping(
            (("column stats", column_stats), ("expression index", expressions), ("cached ranges", ranges))
        )

    @cached_property
    def skipping_by_records(self) -> DataSkipping:
        """The same steps, and the secondary index before them."""
        secondary = secondary_index.SecondaryIndexOfTable(self._state, self._metadata, self.record_index)
        return DataSkipping(self.skipping_by_files.steps, secondary)


@dataclass(frozen=True, slots=True)
class IndexesOfQuery:
    """The indexes of a table that serve a query; None in place of one that does not."""

    table: IndexesOfTable
    query_type: QueryType
    is_newest: bool
    has_logs: bool

    @property
    def record_index(self) -> "record_index.RecordIndexOfTable | None":
        """Where records are."""
        return self.table.record_index if self._serves(Describes.RECORDS) else None

    @property
    def partition_stats(self) -> PartitionStatsOfTable | None:
        """Ranges of the base files of partitions."""
        return self.table.partition_stats if self._serves(Describes.BASE_FILES) else None

    @property
    def key_index(self) -> "key_index.KeyIndexOfTable | None":
        """Key ranges and Bloom filters of base files."""
        return self.table.key_index if self._serves(Describes.FILES) else None

    @property
    def data_skipping(self) -> DataSkipping | None:
        """What rules out file slices for a filter."""
        if self._serves(Describes.RECORDS):
            return self.table.skipping_by_records
        return self.table.skipping_by_files if self._serves(Describes.FILES) else None

    def _serves(self, describes: Describes) -> bool:
        return serves(describes, self.query_type, is_newest=self.is_newest, has_logs=self.has_logs)


class CachedRanges:
    """Column ranges that the storage has cached: of base files from their footers, of log files from their rows."""

    def __init__(self, storage: Storage) -> None:
        """The ranges in the files of a table."""
        self._storage = storage

    def splits_that_may_pass(
        self,
        splits: Iterable[RealtimeFileSplit],
        row_filter: pc.Expression,
        columns: Sequence[str],
        context: ReadContext,
        notes: PlanNotes | None = None,
    ) -> Iterator[RealtimeFileSplit]:
        """The splits whose rows may pass a filter that refers to some columns of a query."""
        kinds = {name: context.schema.field(name).type for name in columns_with_ranges(columns, context)}
        for part in in_batches(splits):
            by_column = {
                name: (kind, [known_ranges(self._storage, split, name) for split in part])
                for name, kind in kinds.items()
            }
            # Before the first query, no range is cached.
            asked = {
                name: column_ranges
                for name, column_ranges in by_column.items()
                if any(split is not False for split in column_ranges[1])
            }
            if not asked:
                yield from part
                continue
            chosen = list(compress(part, may_pass_in_any(row_filter, asked, len(part)).tolist()))
            if notes is not None:
                notes.counted(STEP, len(part), len(chosen))
            yield from chosen


class MetadataFileIndex:
    """The files of a table in one state, as its metadata table has them.

    If it cannot be used although the properties say that it is complete, a warning says why, once.
    """

    def __init__(self, state: TableState, metadata: Callable[[], MetadataTable]) -> None:
        """The index of a state; nothing is read yet."""
        self._state = state
        report = partial(warn_of_unused_metadata, state.config.table_path)
        self._index = IndexPartition(metadata, FILES, None, report)
        self._partitions: tuple[str, ...] | None = None

    @property
    def why_not(self) -> str | None:
        """Why the metadata table cannot be used, if that has been found out."""
        return self._index.why_not

    def partitions(self) -> tuple[str, ...] | None:
        """The paths of all partitions, None if the metadata table cannot be used."""
        return self._index.ask(self._listed_partitions)

    def files(self, partition_paths: Sequence[str]) -> pa.Table | None:
        """The data files of partitions, as ``FileIndex`` has them, None if the metadata table cannot be used."""
        return self._index.ask(lambda table: self._sized(_files(table, partition_paths)))

    def _listed_partitions(self, table: MetadataTable) -> tuple[str, ...]:
        if self._partitions is None:
            names = _texts(table.of_keys(FILES, [ALL_PARTITIONS]).column("name"))
            paths = tuple("" if name == _NO_PARTITION else name for name in names)
            for path in paths:
                self._state.storage.resolve(path)
                if path and not all(path.split("/")):
                    # File systems drop such slashes, so that a folder may have files of several partitions.
                    raise CorruptTableError(FILES, None, f"a partition named {path!r}", "the path of a folder")
            self._partitions = paths
        return self._partitions

    def _sized(self, files: pa.Table) -> pa.Table:
        """Files with the sizes that they have, where Hudi notes one byte: for an empty log file that a failed write has
        left, and which its rollback found. A task that outlives the rollback may still write to it.
        """
        paths, names, sizes = (files.column(name) for name in FILE_COLUMNS.names)
        noted = np.flatnonzero(sizes.to_numpy() <= NOTED_BYTES).tolist()
        if not noted:
            return files
        actual = sizes.to_pylist()
        for position in noted:
            path = f"{paths[position].as_py()}/{names[position].as_py()}".lstrip("/")
            # A file that is gone is an error where it is read.
            with suppress(FileNotFoundError), self._state.storage.open_input(path) as file:
                actual[position] = file.size()
        return pa.table([paths, names, pa.array(actual, pa.int64())], schema=FILE_COLUMNS)


def _files(table: MetadataTable, partition_paths: Sequence[str]) -> pa.Table:
    records = table.of_keys(FILES, [path or _NO_PARTITION for path in partition_paths])
    names = records.column("name")
    nested = nested_names(names)
    if nested:
        raise CorruptTableError(FILES, None, f"a file named {nested[0]!r}", "names without slashes")
    keys: Any = records.column("key")
    partitions = pc.if_else(pc.equal(keys, pa.scalar(_NO_PARTITION)), pa.scalar(""), keys)
    return pa.table([partitions, names, records.column("size_bytes")], schema=FILE_COLUMNS)


def nested_names(names: "pa.ChunkedArray[Any]") -> list[str]:
    """The names with slashes, except those of external files, which may be in folders of their partition.

    Hudi writes them for logs whose path in the commit begins with the store of the table (``WriteStat``), and its
    readers do not find these logs.
    """
    nested: Any = names.filter(pc.match_substring(names, "/"))
    return _texts(nested.filter(pc.invert(pc.match_substring_regex(nested, EXTERNAL_PATTERN))))


def _texts(column: "pa.ChunkedArray[Any]") -> list[str]:
    return [str(text) for text in column.to_pylist()]
