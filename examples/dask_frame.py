"""A Hudi table as a Dask data frame: one partition for each split, of the columns that Dask asks for.

    from dask_frame import read_hudi

    read_hudi("s3://lake/trips", pc.field("city") == "sf")[["id", "fare"]].compute()

Copy this file to where your program and Dask's workers find it. Made for Dask 2026.8.
"""  # noqa: INP001 - to be copied

from collections.abc import Sequence

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge import HudiTable, RealtimeFileSplit, open_reader


def read_hudi(
    path_or_table: str | HudiTable, row_filter: pc.Expression | None = None, as_of: str | None = None
) -> dd.DataFrame:
    """The snapshot of a table, as of its newest instant or of ``as_of``.

    Dask passes on columns alone: name the condition here. Columns have Arrow's types, in which a null is no NaN.
    """
    table = path_or_table if isinstance(path_or_table, HudiTable) else HudiTable.open(path_or_table)
    empty = _frame(table.snapshot(as_of).schema.empty_table())
    splits = table.splits(as_of, filter=row_filter)
    if not splits:
        return dd.from_pandas(empty, npartitions=1)
    return dd.from_map(read_split, splits, row_filter=row_filter, meta=empty, label="read-hudi")


def read_split(
    split: RealtimeFileSplit, *, columns: Sequence[str] | None = None, row_filter: pc.Expression | None = None
) -> pd.DataFrame:
    """The rows of a split, on a worker."""
    with open_reader(split, columns=columns, row_filter=row_filter) as reader:
        return _frame(reader.to_table())


def _frame(rows: pa.Table) -> pd.DataFrame:
    return rows.to_pandas(types_mapper=pd.ArrowDtype)
