"""A table -> a DataFrame that reads no more than the columns asked for.

Spark does not tell sources in Python which columns a query uses, so ``read`` takes them. It also takes the condition
that rows must meet, which then reaches partitions, row groups and executors; Spark checks it once more. The tasks are
rows of a DataFrame that ``mapInArrow`` turns into the rows of the table, which every release from 3.5 on can do.
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
_EVERYTHING = ParsedFilter(columns=(), conditions=())


def read(
    spark: SparkSession,
    path: PathLike,
    columns: Sequence[str] | None = None,
    filter: str | None = None,  # noqa: A002 - as pyarrow and DataFrames call it
    query_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A table as a DataFrame with some columns, by default all, of the rows that meet a condition in SQL.

    ``query_type`` is ``snapshot``, ``read_optimized``, ``incremental`` or ``splits``; ``options`` are those of
    ``spark.read.format("hudi_bridge")``.

    Raises:
        QueryError: a column, an option or the query does not fit the table, or local workers run another Python.
        TableNotFoundError: there is no Hudi table.
        UnsupportedTableError: the table uses something that cannot be read correctly.
        pyspark.errors.AnalysisException: the condition does not fit the table.
    """
    # On a cluster, what this machine calls so says nothing of the executors.
    if (spark.sparkContext.master or "").startswith("local"):
        require_same_python(spark)
    given = {**(options or {}), "path": path_text(path)} | ({} if query_type is None else {QUERY_TYPE: query_type})
    query = PinnedQuery.of(parse_options(given))
    wanted = selected(query.full_schema, query.options.columns if columns is None else columns).names
    parsed = _EVERYTHING
    if filter is not None:
        parsed = parse_filter(spark, spark_schema(query.full_schema), filter)
    needed = list(dict.fromkeys((*wanted, *parsed.columns)))
    rows = frame_of(spark, query.plan(needed, parsed.conditions, spark.sparkContext.defaultParallelism))
    if filter is not None:
        rows = rows.where(filter)
    return rows if needed == wanted else rows.select([col(quoted(name)) for name in wanted])


def frame_of(spark: SparkSession, plan: Plan) -> DataFrame:
    """The rows of a plan; each of its tasks is one of Spark."""
    return each_on_its_own(spark, plan.tasks, partial(read_task, plan.reading), spark_schema(plan.reading.schema))


def each_on_its_own(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """What a function makes of some values, each in a Spark task of its own."""
    pickled = [(bytearray(pickle.dumps(task)),) for task in tasks]
    rows = spark.createDataFrame(spark.sparkContext.parallelize(pickled, max(1, len(pickled))), _TASKS)
    return rows.mapInArrow(partial(_run_each, run), schema)


def _run_each(
    run: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for task in batch.column(0):
            yield from run(pickle.loads(task.as_py()))  # noqa: S301 - of this job's own driver


def quoted(name: str) -> str:
    """A name as SQL takes it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
