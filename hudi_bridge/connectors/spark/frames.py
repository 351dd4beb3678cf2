"""Reads a table as a DataFrame, with column pruning and filter pushdown (PySpark 3.5 or later).

Spark does not tell data sources in Python which columns a query uses, so ``read`` takes them as an argument.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.types import BinaryType, StructField, StructType

from hudi_bridge.connectors.spark.conditions import ParsedFilter, parse_filter
from hudi_bridge.connectors.spark.options import QUERY_TYPE, parse_options
from hudi_bridge.connectors.spark.plan import PinnedQuery, Plan, selected
from hudi_bridge.connectors.spark.tasks import read_task
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.connectors.spark.worker_python import require_same_python
from hudi_bridge.storage import PathLike, path_text

T = TypeVar("T")

_TASKS = StructType([StructField("task", BinaryType(), nullable=False)])
_NO_FILTER = ParsedFilter(columns=(), conditions=())


def read(
    spark: SparkSession,
    path: PathLike,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as pyarrow and DataFrames call it
    query_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A table as a DataFrame of ``columns`` (all by default) and of the rows that meet ``filter``, a SQL condition.

    The condition prunes partitions and row groups and filters rows on the executors; Spark checks it again.
    ``query_type`` is ``snapshot``, ``read_optimized``, ``incremental`` or ``splits``; ``options`` are those of
    ``spark.read.format("hudi_bridge")``.

    Raises:
        QueryError: a column, an option or the query does not fit the table, or local workers run another version of
            Python.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
        pyspark.errors.AnalysisException: the condition does not fit the table.
    """
    # On a cluster, the Python of this machine says nothing about that of the executors.
    if (spark.sparkContext.master or "").startswith("local"):
        require_same_python(spark)
    given = {**(options or {}), "path": path_text(path)} | ({} if query_type is None else {QUERY_TYPE: query_type})
    query = PinnedQuery.of(parse_options(given))
    wanted = selected(query.full_schema, query.options.columns if columns is None else columns).names
    parsed = _NO_FILTER
    if filter is not None:
        parsed = parse_filter(spark, spark_schema(query.full_schema), filter)
    needed = list(dict.fromkeys((*wanted, *parsed.columns)))
    rows = frame_of(spark, query.plan(needed, parsed.conditions, spark.sparkContext.defaultParallelism))
    if filter is not None:
        rows = rows.where(filter)
    return rows if needed == wanted else rows.select([col(quoted(name)) for name in wanted])


def frame_of(spark: SparkSession, plan: Plan) -> DataFrame:
    """The rows of a plan; each of its tasks runs as one Spark task."""
    return map_one_per_task(spark, plan.tasks, partial(read_task, plan.reading), spark_schema(plan.reading.schema))


def map_one_per_task(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """The rows that ``run`` returns for each of ``tasks``, one Spark task for each."""
    pickled = [(bytearray(pickle.dumps(task)),) for task in tasks]
    rows = spark.createDataFrame(spark.sparkContext.parallelize(pickled, max(1, len(pickled))), _TASKS)
    return rows.mapInArrow(partial(_run_each, run), schema)


def _run_each(
    run: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for task in batch.column(0):
            yield from run(pickle.loads(task.as_py()))  # noqa: S301 - from the driver of this job


def quoted(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
