"""Runs tasks of this package as Spark jobs: each yields Arrow batches.

Reads the splits of a task on an executor; a task that Spark runs again returns the same rows.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from hudi_bridge.connectors.spark.kept_rows import forgetting_zip_importers
from hudi_bridge.connectors.spark.native_files import noting_error_details
from hudi_bridge.connectors.spark.plan import Plan, Reading, load_split
from hudi_bridge.connectors.spark.types import arrow_layout, in_layout, spark_schema
from hudi_bridge.inspection import splits_to_table
from hudi_bridge.split_reader import open_reader_in
from hudi_bridge.splits.planner import Split
from hudi_bridge.storage.storage import Storage


def read_task(reading: Reading, task: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """The rows of a task, in the Arrow types that Spark takes."""
    with noting_error_details():
        splits = [load_split(pickled, reading.contexts) for pickled in task]
        batches = _descriptions(reading, splits) if reading.describes_splits else _rows(reading, splits)
        yield from in_layout(batches, arrow_layout(reading.schema))


def _rows(reading: Reading, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    storages: dict[str, Storage] = {}
    for split in splits:
        path = split.context.table_path
        if path not in storages:
            storages[path] = split.context.open_storage()
        reader = open_reader_in(
            storages[path],
            split,
            reading.schema.names,
            reading.row_filter,
            # A task has one core. As many tasks as the machine has cores may share its memory.
            use_threads=False,
            at_once=os.cpu_count() or 1,
        )
        yield from reader.batches()


def _descriptions(reading: Reading, splits: Sequence[Split]) -> Iterator[pa.RecordBatch]:
    every = splits_to_table(piece for split in splits for piece in split.slices)
    rows = every if reading.row_filter is None else every.filter(reading.row_filter)
    yield from rows.select(reading.schema.names).combine_chunks().to_batches()


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
