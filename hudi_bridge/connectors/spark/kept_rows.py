"""Runs tasks that yield Arrow batches, and keeps the batches as long as a DataFrame of theirs is in use.

The batches stay as the workers have sent them, in the memory of executors and otherwise on their disks; operators of
Spark take columns from them as they need them. Nothing but the DataFrames refers to them: when the JVM collects the
last one, Spark's ``ContextCleaner`` frees the blocks. Lost blocks are computed again.

Source: ``PythonRDD``, ``SQLUtils``, ``ArrowConverters``, ``LogicalRDD`` and ``ContextCleaner`` of Spark.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import Accumulator, AccumulatorParam, StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hudi_bridge.caching import BoundedCache
from hudi_bridge.connectors.spark.worker_imports import forgetting_zip_importers

T = TypeVar("T")
R = TypeVar("R")

_MOST_SESSIONS = 16
_SESSIONS: "WeakKeyDictionary[SparkSession, BoundedCache]" = WeakKeyDictionary()

Reports = dict[int, R]
"""What tasks tell the driver, by keys of theirs: a task that runs again tells the same."""


class KeptBatches(Generic[R]):
    """The Arrow batches of tasks that have run, and their reports."""

    def __init__(self, spark: SparkSession, batches: Any, reports: Reports[R]) -> None:  # noqa: ANN401 - of the JVM
        self._spark = spark
        self._batches = batches
        self.reports = reports
        self._jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other access

    def rows(self, schema: StructType, size_bytes: int) -> DataFrame:
        """The rows, which Spark takes to be of that size when it chooses a join."""
        java = _session_for(self._spark, size_bytes)._jsparkSession  # noqa: SLF001
        types = java.parseDataType(schema.json())
        return self._of_user(self._jvm.org.apache.spark.sql.api.r.SQLUtils.toDataFrame(self._batches, types, java))

    def rows_of_driver(self, batch: pa.RecordBatch, schema: StructType) -> DataFrame:
        """The rows of a small Arrow batch of the driver, which become part of the plan."""
        batches = self._jvm.PythonUtils.toSeq([batch.serialize().to_pybytes()]).iterator()
        # Their size is known from the plan.
        java = _session_for(self._spark, 1)._jsparkSession  # noqa: SLF001
        return self._of_user(self._jvm.PythonSQLUtils.toDataFrame(batches, schema.json(), java))

    def _of_user(self, rows: Any) -> DataFrame:  # noqa: ANN401
        # A static method, of a class that is in another package in Spark 4.
        java = rows.ofRows(self._spark._jsparkSession, rows.queryExecution().logical())  # noqa: SLF001
        return DataFrame(java, self._spark)


def run_and_keep(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T, Reports[R]], Iterator[pa.RecordBatch]],
    meanwhile: Callable[[], object] = bool,
) -> KeptBatches[R]:
    """Runs each of ``tasks`` as one Spark task, which yields batches and adds to its reports.

    The driver calls ``meanwhile`` while the tasks run.

    Raises:
        PySparkException: a task has failed, with the text of its error.
    """
    context = spark.sparkContext
    gathered: _Gathered[R] = _Gathered()
    reports = context.accumulator({}, gathered)
    pickled = [pickle.dumps(task) for task in tasks]
    rows: Any = context.parallelize(pickled, len(pickled)).mapPartitions(partial(_run, run, reports))
    # Java gets the bytes as they are.
    rows._bypass_serializer = True  # noqa: SLF001 - PySpark has no other access
    batches = rows._jrdd.persist(context._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK))  # noqa: SLF001
    # Submitted by this thread, the job has its group, pool and description.
    job = batches.countAsync()
    try:
        meanwhile()
        job.get()
    except BaseException as error:
        job.cancel(True)  # noqa: FBT003 - of Java
        if isinstance(error, Py4JJavaError):
            raise PySparkException(str(error)) from error
        raise
    found = dict(reports.value)
    # PySpark keeps accumulators for ever.
    reports.value.clear()
    gathered.is_closed = True
    return KeptBatches(spark, batches, found)


def _session_for(spark: SparkSession, size_bytes: int) -> SparkSession:
    """A session that takes rows to be of that size; the same one for all reads, as it takes a while to make.

    Spark asks the session of rows that it does not know, not that of a query, how to read them, and how large they are.
    """
    known = _SESSIONS.setdefault(spark, BoundedCache(_MOST_SESSIONS))
    session: SparkSession | None = known.get(size_bytes)
    if session is None:
        session = spark.newSession()
        session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
        session.conf.set("spark.sql.defaultSizeInBytes", str(max(1, size_bytes)))
        known.put(size_bytes, session, 1)
    return session


class _Gathered(AccumulatorParam[Reports[R]]):
    """Collects reports until it is closed."""

    is_closed = False

    def zero(self, value: Reports[R]) -> Reports[R]:  # noqa: ARG002 - as PySpark calls it
        return {}

    def addInPlace(self, value1: Reports[R], value2: Reports[R]) -> Reports[R]:  # noqa: N802 - PySpark's name
        if not self.is_closed:
            value1.update(value2)
        return value1


def _run(
    run: Callable[[T, Reports[R]], Iterator[pa.RecordBatch]],
    reports: "Accumulator[Reports[R]]",
    pickled: Iterable[bytes],
) -> Iterator[pa.Buffer]:
    with forgetting_zip_importers():
        for task in pickled:
            found: Reports[R] = {}
            for batch in run(pickle.loads(task), found):  # noqa: S301 - from the driver of this job
                yield batch.serialize()
            reports.add(found)
