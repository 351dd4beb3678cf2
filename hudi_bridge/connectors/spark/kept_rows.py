"""Runs tasks that yield Arrow batches, and keeps the batches as long as a DataFrame of theirs is in use.

The batches stay as the workers have sent them, in the memory of executors and otherwise on their disks; operators of
Spark take columns from them as they need them. Nothing but the DataFrames refers to them: when the JVM collects the
last one, Spark's ``ContextCleaner`` frees the blocks. The JVM cannot before Python has collected its own garbage: a
DataFrame's object of Py4J refers to itself once it was used. Lost blocks are computed again.

The workers send pairs of a kind and of bytes. The job returns the reports and the batches that tasks tell the driver.
These batches stay in its JVM, and reports come in small pieces: to its Python, what has more than 8 KB often takes 40
ms by a socket, be it of Py4J or of an accumulator (Nagle's algorithm waits for an acknowledgement that is delayed).

Source: ``PythonRDD``, ``PairwiseRDD``, ``JavaPairRDD``, ``SQLUtils``, ``ArrowConverters``, ``LogicalRDD`` and
``ContextCleaner`` of Spark.

Classes of the JVM, by their full names.

Of ``jvm.org.apache.spark.X``, Py4J has the JVM look for classes ``org``, ``org.apache`` and so on in all archives: half
a millisecond each. Of ``jvm.X``, it asks the JVM which class that is, and of a class, whether it has a method.

Keeps Spark's own archives from being read again before each task of a Python worker.

PySpark 3.5 calls ``importlib.invalidate_caches`` before each task. Up to Python 3.12, each zip importer then reads the
directory of its archive again: fifteen times in all for PySpark, Py4J and a large JAR, which takes a tenth of a second.
An importer that is forgotten costs nothing, and is made again when a module is next imported. Those of archives that
jobs have added stay, since these may change.

Source: ``pyspark.worker.main``, ``PythonUtils.sparkPythonPath`` of Spark, ``zipimporter.invalidate_caches`` of Python.
"""

import gc
import os
import pickle
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary
from zipimport import zipimporter

import pyarrow as pa
from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from py4j.protocol import STATIC_PREFIX, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hudi_bridge.caching import BoundedCache


def java_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - of the JVM
    """A class to make objects of, which need not be one that a session can find by itself."""
    return JavaClass(name, _client(spark))


def static_method(spark: SparkSession, name: str, method: str) -> Any:  # noqa: ANN401 - of the JVM
    """A static method of a class; only a call finds out whether there is one."""
    return JavaMember(method, None, f"{STATIC_PREFIX}{name}", _client(spark))


def _client(spark: SparkSession) -> Any:  # noqa: ANN401 - of Py4J
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other access
    return gateway._gateway_client  # noqa: SLF001


@contextmanager
def forgetting_zip_importers() -> Iterator[None]:
    """A context after which this process has no importers for archives that it was started with."""
    try:
        yield
    finally:
        own = {str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
        for path, importer in tuple(sys.path_importer_cache.items()):
            if isinstance(importer, zipimporter) and importer.archive in own:
                # Another thread may have forgotten it.
                sys.path_importer_cache.pop(path, None)


T = TypeVar("T")
R = TypeVar("R")

_OF_PYTHON = "org.apache.spark.api.python"
_STORAGE_LEVEL = "org.apache.spark.storage.StorageLevel"
_SQL_OF_PYTHON = "org.apache.spark.sql.api.python.PythonSQLUtils"
_SQL_OF_R = "org.apache.spark.sql.api.r.SQLUtils"
_REPORTS = 0
# Some 40 bytes each; more than 8 KB in all would be slow.
_REPORTS_AT_ONCE = 128
TOLD = 1
"""The kind of the batches that become part of plans, and have to be small; greater numbers are kinds to keep."""
_KIND = struct.Struct(">q")

_MOST_SESSIONS = 16
_SESSIONS: "WeakKeyDictionary[SparkSession, BoundedCache]" = WeakKeyDictionary()

_COLLECT_AFTER_BYTES = 1 << 27
_KEPT_BYTES: "WeakKeyDictionary[SparkContext, int]" = WeakKeyDictionary()
"""What has been kept since Python last collected its garbage for it."""

Reports = dict[int, R]
"""What tasks tell the driver, by keys of theirs: a task that runs again tells the same."""

Sent = tuple[int, pa.RecordBatch]
"""A batch and its kind."""


class KeptBatches(Generic[R]):
    """The Arrow batches of tasks that have run, and their reports."""

    def __init__(self, spark: SparkSession, pairs: Any, results: Any) -> None:  # noqa: ANN401 - of the JVM
        self._spark = spark
        self._pairs = pairs
        self._told = java_class(spark, "java.util.ArrayList")()
        self.reports: Reports[R] = {}
        place, size = 0, len(results)
        while place < size:
            reports, told = pickle.loads(results.get(place))  # noqa: S301 - from the tasks of this job
            place += 1
            self.reports.update(reports)
            if told:
                self._told.addAll(results.subList(place, place + told))
                place += told

    def rows(self, kind: int, schema: StructType, size_bytes: int) -> DataFrame:
        """The rows of the batches of a kind, which Spark takes to be of about that size when it chooses a join."""
        context = self._spark.sparkContext
        _KEPT_BYTES[context] = _KEPT_BYTES.get(context, 0) + size_bytes
        java = _session_for(self._spark, size_bytes)._jsparkSession  # noqa: SLF001
        types = java.parseDataType(schema.json())
        of_kind = _of_kinds(self._pairs, kind, kind)
        batches = static_method(self._spark, f"{_OF_PYTHON}.PythonRDD", "valueOfPair")(of_kind)
        return self._of_user(static_method(self._spark, _SQL_OF_R, "toDataFrame")(batches, types, java))

    def told(self, schema: StructType) -> DataFrame:
        """The rows that tasks have told the driver, which are part of the plan."""
        return self._of_user(self._told_frame(schema))

    def told_rows(self, schema: StructType) -> Any:  # noqa: ANN401 - of the JVM
        """The same rows, a ``Seq[InternalRow]`` of the JVM."""
        return self._told_frame(schema).queryExecution().logical().data()

    def _told_frame(self, schema: StructType) -> Any:  # noqa: ANN401 - of the JVM
        batches = static_method(self._spark, f"{_OF_PYTHON}.PythonUtils", "toSeq")(self._told).iterator()
        # Their size is known from the plan.
        java = _session_for(self._spark, 1)._jsparkSession  # noqa: SLF001
        return static_method(self._spark, _SQL_OF_PYTHON, "toDataFrame")(batches, schema.json(), java)

    def _of_user(self, rows: Any) -> DataFrame:  # noqa: ANN401
        # A static method, of a class that is in another package in Spark 4.
        java = rows.ofRows(self._spark._jsparkSession, rows.queryExecution().logical())  # noqa: SLF001
        return DataFrame(java, self._spark)


def run_and_keep(
    spark: SparkSession,
    tasks: Sequence[T],
    run: Callable[[T, Reports[R]], Iterator[Sent]],
    meanwhile: Callable[[], object] = bool,
) -> KeptBatches[R]:
    """Runs each of ``tasks`` as one Spark task, which yields batches with their kinds and adds to its reports.

    The driver calls ``meanwhile`` while the tasks run.

    Raises:
        PySparkException: a task has failed, with the text of its error.
    """
    context = spark.sparkContext
    pickled = [pickle.dumps(task) for task in tasks]
    sent: Any = context.parallelize(pickled, len(pickled)).mapPartitions(partial(_run, run))
    # Java gets the bytes as they are.
    sent._bypass_serializer = True  # noqa: SLF001
    level = static_method(spark, _STORAGE_LEVEL, "MEMORY_AND_DISK")()
    rdd = java_class(spark, f"{_OF_PYTHON}.PairwiseRDD")(sent._jrdd.rdd())  # noqa: SLF001
    pairs = rdd.asJavaPairRDD().persist(level)
    # Submitted by this thread, the job has its group, pool and description.
    job = _of_kinds(pairs, _REPORTS, TOLD).values().collectAsync()
    try:
        meanwhile()
        _let_go_of_frames(spark.sparkContext)
        results = job.get()
    except BaseException as error:
        job.cancel(True)  # noqa: FBT003 - of Java
        if isinstance(error, Py4JJavaError):
            raise PySparkException(str(error)) from error
        raise
    return KeptBatches(spark, pairs, results)


def _let_go_of_frames(context: SparkContext) -> None:
    """Collect Python's garbage if much has been kept since; by itself, Python may not do so for hours."""
    if _KEPT_BYTES.get(context, 0) >= _COLLECT_AFTER_BYTES:
        _KEPT_BYTES[context] = 0
        gc.collect()


def _of_kinds(pairs: Any, first: int, last: int) -> Any:  # noqa: ANN401 - of the JVM
    return pairs.filterByRange(_java_long(first), _java_long(last))


def _java_long(kind: int) -> int:
    """A number that Py4J makes a ``Long`` of, as those of pairs are, since it has more than 32 bits."""
    return 1 + kind << 32


def _session_for(spark: SparkSession, size_bytes: int) -> SparkSession:
    """A session that takes rows to be of that size, or up to twice of it.

    Spark asks the session of rows that it does not know, not that of a query, how to read them, and how large they are.
    Reads of about the same size share one, as it takes a while to make.
    """
    known = _SESSIONS.setdefault(spark, BoundedCache(_MOST_SESSIONS))
    size = 1 << max(0, size_bytes - 1).bit_length()
    session: SparkSession | None = known.get(size)
    if session is None:
        session = spark.newSession()
        session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
        # What the driver is told is part of the plan, not a job.
        session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1g")
        session.conf.set("spark.sql.defaultSizeInBytes", str(size))
        known.put(size, session, 1)
    return session


def _pieces(reports: Reports[R]) -> Iterator[tuple[Reports[R], bool]]:
    """The reports in pieces, one at least, and whether it is the last."""
    items = list(reports.items())
    ends = range(_REPORTS_AT_ONCE, len(items) + _REPORTS_AT_ONCE, _REPORTS_AT_ONCE) or (0,)
    for end in ends:
        yield dict(items[max(0, end - _REPORTS_AT_ONCE) : end]), end >= len(items)


def _run(run: Callable[[T, Reports[R]], Iterator[Sent]], pickled: Iterable[bytes]) -> Iterator[object]:
    """Kinds and bytes in turn: of kept batches, of reports with the number of told batches that follow, of these."""
    with forgetting_zip_importers():
        for task in pickled:
            reports: Reports[R] = {}
            told = []
            for kind, batch in run(pickle.loads(task), reports):  # noqa: S301 - from the driver of this job
                if kind == TOLD:
                    told.append(batch)
                else:
                    yield from (_KIND.pack(_java_long(kind)), batch.serialize())
            for piece, is_last in _pieces(reports):
                yield from (_KIND.pack(_java_long(_REPORTS)), pickle.dumps((piece, len(told) * is_last)))
            for batch in told:
                yield from (_KIND.pack(_java_long(TOLD)), batch.serialize())
