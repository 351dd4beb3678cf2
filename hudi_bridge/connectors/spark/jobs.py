"""Runs tasks of this package as Spark jobs by ``mapInArrow``: each task yields Arrow batches.

``frame_of`` reads the splits of a plan, ``map_one_per_task`` runs any function. A task that Spark runs again returns
the same rows.
"""

import os
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from hudi_bridge.connectors.spark.errors import noting_error_details
from hudi_bridge.connectors.spark.plan import Plan, Reading, load_split
from hudi_bridge.connectors.spark.sessions import context_of, dropping_zip_importers, on_workers
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
    rows = splits_to_table(file_slice for split in splits for file_slice in split.slices)
    if reading.row_filter is not None:
        rows = rows.filter(reading.row_filter)
    yield from rows.select(reading.schema.names).combine_chunks().to_batches()


T = TypeVar("T")

# Tasks that are part of the function reach all workers. Larger ones become rows, which pass through one more worker.
_MAX_FUNCTION_BYTES = 1 << 20
_TASKS = StructType([StructField("task", BinaryType(), nullable=False)])
_NUMBERED_TASKS = StructType([StructField("id", LongType(), nullable=False), *_TASKS])


def frame_of(spark: SparkSession, plan: Plan) -> DataFrame:
    """The rows of a plan; each of its tasks runs as one Spark task."""
    return map_one_per_task(spark, plan.tasks, partial(read_task, plan.reading), spark_schema(plan.reading.schema))


def map_one_per_task(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T], Iterator[pa.RecordBatch]],
    schema: StructType | str,
) -> DataFrame:
    """The rows that ``run`` yields for each of ``tasks``, in one Spark task each."""
    pickled = [pickle.dumps(task) for task in tasks]
    numbers = spark.range(0, len(pickled), 1, max(1, len(pickled)))
    if sum(map(len, pickled)) <= _MAX_FUNCTION_BYTES:
        return numbers.mapInArrow(on_workers(partial(_run_numbered, run, pickled)), schema)
    rows = [(bytearray(task),) for task in pickled]
    context = context_of(spark)
    if context is not None:
        task_rows = spark.createDataFrame(context.parallelize(rows, len(rows)), _TASKS)
    else:
        # Spark Connect has no other way to make a partition of each row.
        numbered = spark.createDataFrame([(number, *row) for number, row in enumerate(rows)], _NUMBERED_TASKS)
        task_rows = numbers.join(numbered.hint("broadcast"), "id", "left").select(_TASKS.names)
    return task_rows.mapInArrow(on_workers(partial(_run_each, run)), schema)


def _run_numbered(
    run: Callable[[T], Iterator[pa.RecordBatch]], pickled: Sequence[bytes], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with dropping_zip_importers():
        for batch in batches:
            for number in map(int, batch.column(0).to_numpy()):
                yield from run(pickle.loads(pickled[number]))  # noqa: S301 - from the driver of this job


def _run_each(
    run: Callable[[T], Iterator[pa.RecordBatch]], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with dropping_zip_importers():
        for batch in batches:
            for task in batch.column(0):
                yield from run(pickle.loads(task.as_py()))  # noqa: S301 - from the driver of this job


def quoted(name: str) -> str:
    """A name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"
