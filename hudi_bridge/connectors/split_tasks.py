"""A query for libraries whose workers read: planned once, divided into tasks of similar size that can be pickled.

A ``TableQuery`` is pinned at the timeline of its table. Workers get a ``SplitTask`` each, which holds nothing but
splits: of the table it has neither the timeline nor what was listed.
"""

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.config import QueryType
from hudi_bridge.dataset import HudiDataset
from hudi_bridge.errors import QueryError
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.schema.meta_columns import own_columns
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.planner import Split
from hudi_bridge.storage.storage import PathLike
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments, opened, rows_of

TASK_BYTES = 128 << 20
"""The bytes of a task, as of a partition of Spark's file sources."""
_MIN_TASK_BYTES = 4 << 20
# Log files cost more per byte than base files: their records are decoded, merged by key, then merged with base rows.
_LOG_WEIGHT = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTask:
    """The splits that a worker reads one after the other, the columns of the rows, and the condition they meet."""

    splits: tuple[Split, ...]
    schema: pa.Schema
    row_filter: pc.Expression | None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, which without columns have no more than their number.

        Raises:
            HudiReadError: a file cannot be read.
        """
        storage = self.splits[0].context.open_storage()
        for split in self.splits:
            # As many tasks as the machine has cores may run beside this one, and share its memory.
            reader = open_reader_in(
                storage, split, self.schema.names, self.row_filter, use_threads=False, at_once=os.cpu_count() or 1
            )
            with reader:
                yield from reader.batches()


@dataclass(frozen=True, slots=True, kw_only=True)
class TableQuery:
    """The rows of a table, as of when it was opened; ``columns`` are those to return."""

    table: HudiTable
    rows: RowsArguments
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls,
        library: str,
        path_or_table: PathLike | HudiTable,
        arguments: OpenArguments,
        rows: RowsArguments,
        columns: Sequence[str] | None,
        *,
        meta_columns: bool,
    ) -> Self:
        """Opens the table for workers of a library, and plans the query.

        Raises:
            QueryError: a column does not exist, arguments exclude one another, an option is unknown or refused, or
                the workers could not open the table: it has keys, or a file system that was given.
            HudiReadError: the table cannot be opened, or the rows cannot be planned.
        """
        table = opened(path_or_table, arguments)
        table.storage.require_no_keys(library)
        dataset = rows_of(table, rows)
        if dataset.context.needs_filesystem:
            raise QueryError(
                "filesystem", f"one that was given, for workers of {library}", "a URI, with storage_options"
            )
        names = own_columns(dataset.schema.names) if columns is None and not meta_columns else columns
        return cls(table=table, rows=rows, columns=RowRequest.of(dataset.schema, names).columns)

    @property
    def dataset(self) -> HudiDataset:
        """The rows with all columns."""
        return rows_of(self.table, self.rows)

    @property
    def schema(self) -> pa.Schema:
        """The columns to return."""
        return selected(self.dataset.schema, self.columns)

    def tasks(
        self,
        columns: Sequence[str] | None = None,
        row_filter: pc.Expression | None = None,
        parallelism: int | None = None,
    ) -> list[SplitTask]:
        """The tasks that read ``columns``, by default all to return, of the rows that meet a condition.

        A table whose splits are all ruled out has no tasks. ``parallelism`` is as for ``pack``.

        Raises:
            QueryError: the condition does not fit the table.
            InstantNotReadableError: files of the query have been removed since the table was opened.
        """
        dataset = self.dataset
        schema = selected(dataset.schema, self.columns if columns is None else columns)
        splits = tuple(dataset.splits(row_filter))
        if dataset.query_type in (QueryType.SNAPSHOT, QueryType.READ_OPTIMIZED):
            # Ranges have been checked for the files that their commits name.
            self.table.require_files_of(dataset.instant)
        return [
            SplitTask(splits=tuple(splits[index] for index in group), schema=schema, row_filter=row_filter)
            for group in pack(list(map(weight, splits)), TASK_BYTES, parallelism)
            if group
        ]


def selected(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """The schema of some columns, in that order."""
    return pa.schema([schema.field(name) for name in columns])


def weight(split: Split) -> int:
    """What a split costs to read, in bytes of a base file."""
    return sum(part.base_size_bytes + _LOG_WEIGHT * part.log_size_bytes for part in split.slices)


def pack(weights: Sequence[int], task_bytes: int, parallelism: int | None) -> list[list[int]]:
    """Groups splits into tasks of about ``task_bytes``, given their weights in bytes; returns their indexes by task.

    A split larger than that is a task of its own. A small table is divided among ``parallelism`` tasks, by default the
    number of cores of this machine.
    """
    cores = parallelism or os.cpu_count() or 1
    size = min(task_bytes, max(_MIN_TASK_BYTES, sum(weights) // cores))
    groups: list[list[int]] = [[] for _ in range(min(len(weights), sum(weights) // size + 1))]
    lightest = [(0, group) for group in range(len(groups))]
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        load, group = heapq.heappop(lightest)
        groups[group].append(index)
        heapq.heappush(lightest, (load + weights[index], group))
    return groups
