"""Hudi tables as datasets of Ray Data, whose workers read them: a read task for each task of file slices.

Ray passes on columns, and conditions that it can say in Arrow: they mean to the reader what they mean to Ray.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.connectors.split_tasks import SplitTask, TableQuery, selected
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.storage.storage import PathLike, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments
from hudi_bridge.timeline.instant import InstantLike

with needing_extra("ray", "ray"):
    import ray.data
    from ray.data import DataContext, Datasource, ReadTask
    from ray.data.block import BlockMetadata

__all__ = ["HudiDatasource", "read"]
_ROWS = "__rows"


def read(
    path_or_table: PathLike | HudiTable,
    columns: Sequence[str] | None = None,
    *,
    filesystem: Any = None,  # noqa: ANN401 - of any library
    options: Mapping[str, str] | None = None,
    payloads: Mapping[str, RecordPayload] | None = None,
    log_memory_bytes: int | None = None,
    storage_options: StorageOptions | None = None,
    as_of: InstantLike | None = None,
    read_optimized: bool = False,
    after: InstantLike | None = None,
    up_to: InstantLike | None = None,
    meta_columns: bool = True,
) -> ray.data.Dataset:
    """The rows of a table as a dataset: its snapshot or, if asked, the base files alone or a range of commits.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``columns`` are those of the
    dataset, by default all, without Hudi's own unless ``meta_columns``. ``options``, ``payloads``, ``log_memory_bytes``
    and ``storage_options`` are those of ``HudiTable.open``; ``filesystem`` is refused, since workers open the table by
    its path. ``as_of`` is that of ``HudiTable.snapshot``. ``read_optimized`` leaves out the changes in log files.
    ``after``, and optionally ``up_to``, ask for the rows that commits in that range have written, as
    ``HudiTable.incremental`` does.

    The dataset stays at the instant that was newest at the time of this call, or at ``as_of``. Files are listed when
    Ray plans an execution, and read by each execution anew.

    Raises:
        QueryError: a column does not exist, the arguments exclude one another, an option is unknown or refused, or
            workers could not open the table.
        InstantNotReadableError: files of the instant or of the range have been removed, or are incomplete.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
    """
    arguments = OpenArguments(
        filesystem=filesystem,
        options=options,
        payloads=payloads,
        log_memory_bytes=log_memory_bytes,
        storage_options=storage_options,
    )
    rows = RowsArguments(as_of=as_of, read_optimized=read_optimized, after=after, up_to=up_to)
    query = TableQuery.of("Ray", path_or_table, arguments, rows, columns, meta_columns=meta_columns)
    return ray.data.read_datasource(HudiDatasource(query))


class HudiDatasource(Datasource):  # type: ignore[misc]  # Ray has no types
    """The rows of a query; made by ``read``."""

    def __init__(self, query: TableQuery) -> None:
        """A source of a pinned query: all of its tasks read the same instant, even if Ray asks for them again."""
        super().__init__()
        self._query = query
        self._projection_map: dict[str, str] | None = None

    def supports_projection_pushdown(self) -> bool:
        """Columns are passed on."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Conditions are passed on, and are not checked again."""
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """Unknown: files are compressed, and merged."""
        return None

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: DataContext | None = None
    ) -> list[ReadTask]:
        """About ``parallelism`` tasks; one without rows if there are no splits, so that the columns are there."""
        del data_context
        predicate = self.get_current_predicate()
        row_filter = None if predicate is None else predicate.to_pyarrow()
        names = self._get_data_columns()
        schema = self._query.schema if names is None else selected(self._query.schema, names)
        tasks = self._query.tasks(schema.names, row_filter, parallelism)
        reads: list[Any] = [partial(read_task, task) for task in tasks] or [partial(iter, [schema.empty_table()])]
        metadata = BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [ReadTask(read, metadata, schema, per_task_row_limit) for read in reads]


def read_task(task: SplitTask) -> Iterator[pa.Table]:
    """The rows of a task, on a worker; a table of no rows if there are none, so that their columns are there."""
    rows = 0
    for batch in task.batches():
        rows += batch.num_rows
        # To count, Ray asks for no columns; but without any it does not see how many rows there are.
        yield pa.Table.from_batches([batch]) if batch.num_columns else pa.table({_ROWS: pa.nulls(batch.num_rows)})
    if not rows:
        yield task.schema.empty_table()
