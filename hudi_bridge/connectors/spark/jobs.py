"""Runs tasks of this package as Spark jobs: each yields Arrow batches."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from hudi_bridge.connectors.spark.plan import Plan
from hudi_bridge.connectors.spark.tasks import read_task
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.connectors.spark.worker_imports import forgetting_zip_importers

T = TypeVar("T")

# All workers get all tasks if these are part of the function. Rows with one task each pass through one more worker.
_MOST_IN_FUNCTION = 1 << 20
_TASKS = StructType([StructField("task", BinaryType(), nullable=False)])


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
    pickled = [pickle.dumps(task) for task in tasks]
    if sum(map(len, pickled)) <= _MOST_IN_FUNCTION:
        numbers = spark.range(0, len(pickled), 1, max(1, len(pickled)))
        return numbers.mapInArrow(partial(_run_numbered, run, pickled), schema)
    rows = spark.createDataFrame(
        spark.sparkContext.parallelize([(bytearray(one),) for one in pickled], len(pickled)), _TASKS
    )
    return rows.mapInArrow(partial(_run_each, run), schema)


def _run_numbered(
    run: Callable[[T], Iterator[pa.RecordBatch]], pickled: Sequence[bytes], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with forgetting_zip_importers():
        for batch in batches:
            for number in map(int, batch.column(0).to_numpy()):
                yield from run(pickle.loads(pickled[number]))  # noqa: S301 - from the driver of this job


def _run_each(
    run: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with forgetting_zip_importers():
        for batch in batches:
            for task in batch.column(0):
                yield from run(pickle.loads(task.as_py()))  # noqa: S301 - from the driver of this job


def quoted(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
