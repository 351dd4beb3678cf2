"""Hudi tables as data frames of Dask, whose workers read them: a partition for each task of file slices.

Columns that a computation does not use are not read. Dask passes on no conditions, so ``read`` takes one. Columns have
Arrow's types, in which a null is no NaN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.common.imports import needing_extra
from hudi_bridge.connectors.split_tasks import SplitTask, TableQuery, selected
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.storage.storage import PathLike, StorageOptions
from hudi_bridge.table import HudiTable, OpenArguments, RowsArguments
from hudi_bridge.timeline.instant import InstantLike

with needing_extra("dask", "dask", "pandas"):
    import dask.dataframe as dd
    import pandas as pd  # type: ignore[import-untyped]

__all__ = ["read"]


def read(
    path_or_table: PathLike | HudiTable,
    columns: Sequence[str] | None = None,
    filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
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
) -> dd.DataFrame:
    """The rows of a table as a data frame: its snapshot or, if asked, the base files alone or a range of commits.

    ``path_or_table`` is a path or URI as for ``HudiTable.open``, or an open table. ``columns`` are those of the frame,
    by default all, without Hudi's own unless ``meta_columns``. The rows are those that pass ``filter``, which indexes
    and statistics of files are asked for as well. ``options``, ``payloads``, ``log_memory_bytes`` and
    ``storage_options`` are those of ``HudiTable.open``; ``filesystem`` is refused, since workers open the table by its
    path. ``as_of`` is that of ``HudiTable.snapshot``. ``read_optimized`` leaves out the changes in log files.
    ``after``, and optionally ``up_to``, ask for the rows that commits in that range have written, as
    ``HudiTable.incremental`` does.

    The frame stays at the instant that was newest at the time of this call, or at ``as_of``. Files are listed now, and
    read by each computation anew.

    Raises:
        QueryError: a column does not exist, the filter does not fit the table, the arguments exclude one another, an
            option is unknown or refused, or workers could not open the table.
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
    query = TableQuery.of("Dask", path_or_table, arguments, rows, columns, meta_columns=meta_columns)
    empty = _frame(query.schema.empty_table())
    tasks = query.tasks(row_filter=filter)
    if not tasks:
        return dd.from_pandas(empty, npartitions=1)
    return dd.from_map(read_task, tasks, meta=empty, label="read-hudi")


def read_task(task: SplitTask, *, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """The rows of a partition, on a worker; Dask names the columns that it needs."""
    if columns is not None:
        task = replace(task, schema=selected(task.schema, columns))
    return _frame(pa.Table.from_batches(task.batches(), task.schema))


_frame = partial(pa.Table.to_pandas, types_mapper=pd.ArrowDtype)
