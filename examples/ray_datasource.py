"""A Hudi table as a Ray dataset: one read task for each split, with the columns and conditions that Ray passes on.

    from ray_datasource import read_hudi

    read_hudi("s3://lake/trips").filter(expr=col("fare") > 10).select_columns(["id", "fare"])

Copy this file to where your program and Ray's workers find it. Made for Ray 2.60.
"""  # noqa: INP001 - to be copied

from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import ray.data
from ray.data import DataContext, Datasource, ReadTask
from ray.data.block import BlockMetadata

from hudi_bridge import HudiTable, RealtimeFileSplit, open_reader

_ROWS = "__rows"


def read_hudi(path_or_table: str | HudiTable, as_of: str | None = None) -> ray.data.Dataset:
    """The snapshot of a table, as of its newest instant or of ``as_of``."""
    table = path_or_table if isinstance(path_or_table, HudiTable) else HudiTable.open(path_or_table)
    return ray.data.read_datasource(HudiDatasource(table, as_of))


class HudiDatasource(Datasource):
    """A snapshot of a Hudi table. Conditions mean to the reader what they mean to Ray: both ask Arrow."""

    def __init__(self, table: HudiTable, as_of: str | None = None) -> None:
        super().__init__()
        self._table = table
        # All tasks read the same instant, even if Ray asks for them more than once.
        self._as_of = as_of or table.latest_instant
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
        """One task for each split; one without rows if there are none, so that the columns are known."""
        del parallelism, data_context
        columns, predicate = self._get_data_columns(), self.get_current_predicate()
        row_filter = None if predicate is None else predicate.to_pyarrow()
        schema = self._table.snapshot(self._as_of).schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        reads: list[Any] = [
            partial(read_split, split, columns, row_filter)
            for split in self._table.splits(self._as_of, filter=row_filter)
        ]
        metadata = BlockMetadata(num_rows=None, size_bytes=None, exec_stats=None, input_files=None)
        return [
            ReadTask(read, metadata, schema, per_task_row_limit)
            for read in reads or [partial(iter, [schema.empty_table()])]
        ]


def read_split(
    split: RealtimeFileSplit, columns: list[str] | None, row_filter: pc.Expression | None
) -> Iterator[pa.Table]:
    """The rows of a split, on a worker."""
    with open_reader(split, columns=columns, row_filter=row_filter) as reader:
        for batch in reader.batches():
            # To count, Ray asks for no columns; but without any it does not see how many rows there are.
            yield pa.Table.from_batches([batch]) if batch.num_columns else pa.table({_ROWS: pa.nulls(batch.num_rows)})
