"""All access to Spark's JVM and to its private classes; no other module knows Py4J or an attribute of PySpark.

``jvm_of`` returns the access, or None if the session has no JVM (Spark Connect) or if a class is not as expected. The
callers then do the same with Spark's public API. The check runs at the first use of a session.

What it buys: tasks send Arrow batches to the JVM, which caches them as they are. Operators of Spark take columns from
them as they need them. Only DataFrames refer to them: when the JVM collects the last one, Spark's ``ContextCleaner``
frees the blocks. The JVM cannot before Python has collected its own garbage, because a DataFrame's Py4J object refers
to itself once it was used. Lost blocks are computed again.

Results of the job reach Python in small chunks. More than 8 KB often take 40 ms by a socket, be it of Py4J or of an
accumulator: Nagle's algorithm waits for an acknowledgement that is delayed.

Py4J resolves ``jvm.org.apache.spark.X`` by looking for classes ``org``, ``org.apache`` and so on in all archives, half
a millisecond each. Classes are therefore addressed by their full names.

Source: ``PythonRDD``, ``PairwiseRDD``, ``JavaPairRDD``, ``SQLUtils``, ``PythonSQLUtils``, ``ArrowConverters``,
``LogicalRDD``, ``LocalRelation``, ``Literal`` and ``ContextCleaner`` of Spark.
"""

import logging
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from py4j.protocol import STATIC_PREFIX, Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import lit
from pyspark.sql.types import StructType

from hudi_bridge.common.caching import BoundedCache
from hudi_bridge.connectors.spark.sessions import dropping_zip_importers, on_workers

_LOG = logging.getLogger(__name__)

SPARK_ERRORS = (Py4JJavaError, PySparkException)
"""Errors of Spark, whether PySpark has a class of its own for them or not."""

_PYTHON = "org.apache.spark.api.python"
_PYTHON_SQL = "org.apache.spark.sql.api.python.PythonSQLUtils"
_R_SQL = "org.apache.spark.sql.api.r.SQLUtils"
_STORAGE_LEVEL = "org.apache.spark.storage.StorageLevel"
_LITERAL = "org.apache.spark.sql.catalyst.expressions.Literal"
_PATH = "org.apache.hadoop.fs.Path"
_PLANS = "org.apache.spark.sql.catalyst.plans"
_PLAN = f"{_PLANS}.logical.LogicalPlan"
_QUERY = "org.apache.spark.sql.execution.QueryExecution"
_PAIRS = "org.apache.spark.api.java.JavaPairRDD"
_OBJECT, _STRING = "java.lang.Object", "java.lang.String"
# In Spark 4, a classic session and its DataFrames are of classes in another package.
_SESSION, _DATASET = "{package}.SparkSession", "{package}.Dataset"
_BASE_PACKAGE = "org.apache.spark.sql"


class _Signature(NamedTuple):
    """A method that this module calls, or a constructor (without ``method``), with the classes of its parameters."""

    owner: str
    method: str | None
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = self.owner if self.method is None else f"{self.owner}.{self.method}"
        return f"{name}({', '.join(self.parameters)})"

    def in_package(self, package: str) -> "_Signature":
        parameters = tuple(name.format(package=package) for name in self.parameters)
        return _Signature(self.owner.format(package=package), self.method, parameters)


_SIGNATURES = (
    _Signature(f"{_PYTHON}.PythonRDD", "valueOfPair", (_PAIRS,)),
    _Signature(f"{_PYTHON}.PairwiseRDD", None, ("org.apache.spark.rdd.RDD",)),
    _Signature(f"{_PYTHON}.PairwiseRDD", "asJavaPairRDD"),
    _Signature(f"{_PYTHON}.PythonUtils", "toSeq", ("java.util.List",)),
    _Signature(_PYTHON_SQL, "toDataFrame", ("scala.collection.Iterator", _STRING, _SESSION)),
    _Signature(
        _R_SQL, "toDataFrame", ("org.apache.spark.api.java.JavaRDD", "org.apache.spark.sql.types.StructType", _SESSION)
    ),
    _Signature(_PAIRS, "filterByRange", (_OBJECT, _OBJECT)),
    _Signature(_STORAGE_LEVEL, "MEMORY_AND_DISK"),
    _Signature(_SESSION, "parseDataType", (_STRING,)),
    _Signature(_SESSION, "sessionState"),
    _Signature(_DATASET, "ofRows", (_SESSION, _PLAN)),
    _Signature(_DATASET, "queryExecution"),
    _Signature(_DATASET, "inputFiles"),
    _Signature(_QUERY, "logical"),
    _Signature(_QUERY, "analyzed"),
    _Signature(_QUERY, "optimizedPlan"),
    _Signature(_PLAN, "output"),
    _Signature(_PLAN, "toJSON"),
    _Signature(f"{_PLANS}.logical.LocalRelation", "data"),
    _Signature(_LITERAL, None, (_OBJECT, "org.apache.spark.sql.types.DataType")),
    _Signature(_PATH, "getFileSystem", ("org.apache.hadoop.conf.Configuration",)),
)

_REASONS: "WeakKeyDictionary[SparkSession, str | None]" = WeakKeyDictionary()


def reason_unavailable(spark: SparkSession) -> str | None:
    """The reason why reads of a session cannot use the JVM; None if they can.

    Checked once for each session; the reason is then logged.
    """
    if spark not in _REASONS:
        _REASONS[spark] = reason = _check(spark)
        if reason is not None:
            _LOG.info("reads use the public API of Spark, which takes longer: %s", reason)
    return _REASONS[spark]


def _check(spark: SparkSession) -> str | None:
    if getattr(spark, "_jsparkSession", None) is None:
        return "a session of Spark Connect has no JVM"
    access = Jvm(spark)
    try:
        loader = access.static_method("java.lang.Thread", "currentThread")().getContextClassLoader()
        package = access.session.getClass().getName().rpartition(".")[0]
        for signature in _SIGNATURES:
            variants = dict.fromkeys((signature.in_package(package), signature.in_package(_BASE_PACKAGE)))
            if not any(_exists(access, loader, variant) for variant in variants):
                return f"this Spark has no {next(iter(variants))}"
    except (Py4JError, PySparkException, AttributeError) as error:
        return f"the JVM cannot be asked about its classes ({type(error).__name__})"
    return None


def _exists(access: "Jvm", loader: Any, signature: _Signature) -> bool:  # noqa: ANN401 - of the JVM
    descriptor = "".join(f"L{name.replace('.', '/')};" for name in signature.parameters)
    try:
        owner = access.static_method("java.lang.Class", "forName")(signature.owner, False, loader)  # noqa: FBT003 - of Java
        types = access.static_method("java.lang.invoke.MethodType", "fromMethodDescriptorString")(
            f"({descriptor})V", loader
        ).parameterArray()
        if signature.method is None:
            owner.getConstructor(types)
        else:
            owner.getMethod(signature.method, types)
    except SPARK_ERRORS:
        return False
    return True


def java_class_name(error: BaseException) -> str:
    """The class of an error of Spark, as the JVM names it if it comes from there."""
    java = getattr(error, "java_exception", None)
    return type(error).__name__ if java is None else str(java.getClass().getName())


def jvm_of(spark: SparkSession) -> "Jvm | None":
    """The access to the JVM of a session; None if reads have to use the public API (``reason_unavailable``)."""
    return Jvm(spark) if reason_unavailable(spark) is None else None


class FilterPlans(NamedTuple):
    """The plans of a filter over a DataFrame, as JSON; ``columns`` has the names of its columns by expression ID."""

    columns: Mapping[int, str]
    analyzed: str
    optimized: str


@dataclass(frozen=True, slots=True)
class Jvm:
    """The JVM of a classic session, whose classes are as expected. Made by ``jvm_of``."""

    spark: SparkSession

    @property
    def session(self) -> Any:  # noqa: ANN401 - of the JVM
        """The session's object in the JVM."""
        return self.spark._jsparkSession  # noqa: SLF001 - PySpark has no other access

    def java_class(self, name: str) -> Any:  # noqa: ANN401 - of the JVM
        """A class to make objects of."""
        return JavaClass(name, self._client)

    def static_method(self, owner: str, method: str) -> Any:  # noqa: ANN401 - of the JVM
        """A static method of a class; Py4J does not look for it before it is called."""
        return JavaMember(method, None, f"{STATIC_PREFIX}{owner}", self._client)

    def file_name_encoding(self) -> str:
        """The encoding in which the JVM names local files."""
        return str(self.static_method("java.lang.System", "getProperty")("sun.jnu.encoding"))

    def file_exists(self, path: str) -> bool:
        """Whether Hadoop's client finds a file.

        Raises:
            SPARK_ERRORS: the file system cannot be reached.
        """
        file = self.java_class(_PATH)(path)
        return bool(file.getFileSystem(self.session.sessionState().newHadoopConf()).exists(file))

    def count_files(self, scan: DataFrame) -> int:
        """The number of files of a scan, whose names stay in the JVM."""
        return len(scan._jdf.inputFiles())  # noqa: SLF001

    def filter_plans(self, frame: DataFrame, condition: str) -> FilterPlans:
        """Plans a SQL condition over a DataFrame.

        Raises:
            pyspark.errors.AnalysisException: the text is not a condition over these columns.
        """
        output = frame._jdf.queryExecution().analyzed().output()  # noqa: SLF001
        execution = frame.where(condition)._jdf.queryExecution()  # noqa: SLF001
        return FilterPlans(
            {output.apply(index).exprId().id(): name for index, name in enumerate(frame.columns)},
            str(execution.analyzed().toJSON()),
            str(execution.optimizedPlan().toJSON()),
        )

    def array_literals(self, rows: Any, schema: StructType, key: str, value: str) -> dict[str, Column]:  # noqa: ANN401
        """The arrays in column ``value`` of rows (``KeptBatches.collected_rows``) as literals, by column ``key``."""
        key_index, value_index = map(schema.fieldNames().index, (key, value))
        kind = self.session.parseDataType(schema[value].dataType.json())
        literal = self.java_class(_LITERAL)
        columns: dict[str, Column] = {}
        for index in range(rows.size()):
            row = rows.apply(index)
            columns[row.getString(key_index)] = lit(literal(row.getArray(value_index), kind))
        return columns

    @property
    def _client(self) -> Any:  # noqa: ANN401 - of Py4J
        gateway: Any = self.spark.sparkContext._gateway  # noqa: SLF001
        return gateway._gateway_client  # noqa: SLF001


T = TypeVar("T")
R = TypeVar("R")

_REPORTS = 0
# Some 40 bytes each; more than 8 KB in all would be slow.
_REPORTS_PER_CHUNK = 128
COLLECTED = 1
"""The kind of batches that the driver collects into plans, and that have to be small; greater kinds are kept."""
_KIND = struct.Struct(">q")

_MAX_SESSIONS = 16
_SIZED_SESSIONS: "WeakKeyDictionary[SparkSession, BoundedCache]" = WeakKeyDictionary()

Reports = dict[int, R]
"""What tasks report to the driver, by keys of the tasks. A task that runs again has to report the same."""

KindBatch = tuple[int, pa.RecordBatch]
"""A batch and its kind."""


class KeptBatches(Generic[R]):
    """The Arrow batches of a job that has run, cached by Spark, and the reports of its tasks.

    ``pairs`` is an RDD of (kind, batch); ``results`` has the reports, each followed by the batches that the driver has
    collected.
    """

    def __init__(self, jvm: Jvm, pairs: Any, results: Any) -> None:  # noqa: ANN401 - of the JVM
        self._jvm = jvm
        self._pairs = pairs
        self._collected = jvm.java_class("java.util.ArrayList")()
        self.reports: Reports[R] = {}
        index, size = 0, len(results)
        while index < size:
            reports, batches = pickle.loads(results.get(index))  # noqa: S301 - from the tasks of this job
            index += 1
            self.reports.update(reports)
            if batches:
                self._collected.addAll(results.subList(index, index + batches))
                index += batches

    def rows(self, kind: int, schema: StructType, size_bytes: int) -> DataFrame:
        """The rows of the cached batches of a kind; Spark plans joins as for rows of about ``size_bytes``."""
        java = _sized_session(self._jvm.spark, size_bytes)._jsparkSession  # noqa: SLF001
        of_kind = _of_kinds(self._pairs, kind, kind)
        batches = self._jvm.static_method(f"{_PYTHON}.PythonRDD", "valueOfPair")(of_kind)
        to_frame = self._jvm.static_method(_R_SQL, "toDataFrame")
        return self._in_session(to_frame(batches, java.parseDataType(schema.json()), java))

    def collected(self, schema: StructType) -> DataFrame:
        """The rows of the batches of kind ``COLLECTED``, as a part of the plan."""
        return self._in_session(self._collected_frame(schema))

    def collected_rows(self, schema: StructType) -> Any:  # noqa: ANN401 - of the JVM
        """The same rows, a ``Seq[InternalRow]`` of the JVM."""
        return self._collected_frame(schema).queryExecution().logical().data()

    def _collected_frame(self, schema: StructType) -> Any:  # noqa: ANN401 - of the JVM
        batches = self._jvm.static_method(f"{_PYTHON}.PythonUtils", "toSeq")(self._collected).iterator()
        # Spark knows the size from the plan.
        java = _sized_session(self._jvm.spark, 1)._jsparkSession  # noqa: SLF001
        return self._jvm.static_method(_PYTHON_SQL, "toDataFrame")(batches, schema.json(), java)

    def _in_session(self, frame: Any) -> DataFrame:  # noqa: ANN401 - of the JVM
        # A static method, called by an object because its class is in another package in Spark 4.
        return DataFrame(frame.ofRows(self._jvm.session, frame.queryExecution().logical()), self._jvm.spark)


def run_and_keep(
    jvm: Jvm,
    tasks: Sequence[T],
    run: Callable[[T, Reports[R]], Iterator[KindBatch]],
    meanwhile: Callable[[], object] = bool,
) -> KeptBatches[R]:
    """Runs one Spark task for each of ``tasks``: ``run`` yields batches with their kinds and fills in its reports.

    The driver calls ``meanwhile`` while the tasks run.

    Raises:
        PySparkException: a task has failed, with the text of its error.
    """
    pickled = [pickle.dumps(task) for task in tasks]
    sent: Any = jvm.spark.sparkContext.parallelize(pickled, len(pickled)).mapPartitions(on_workers(partial(_run, run)))
    # Java gets the bytes as they are.
    sent._bypass_serializer = True  # noqa: SLF001
    level = jvm.static_method(_STORAGE_LEVEL, "MEMORY_AND_DISK")()
    rdd = jvm.java_class(f"{_PYTHON}.PairwiseRDD")(sent._jrdd.rdd())  # noqa: SLF001
    pairs = rdd.asJavaPairRDD().persist(level)
    # Submitted by this thread, the job has its group, pool and description.
    job = _of_kinds(pairs, _REPORTS, COLLECTED).values().collectAsync()
    try:
        meanwhile()
        results = job.get()
    except BaseException as error:
        job.cancel(True)  # noqa: FBT003 - of Java
        if isinstance(error, Py4JJavaError):
            raise PySparkException(str(error)) from error
        raise
    return KeptBatches(jvm, pairs, results)


def _of_kinds(pairs: Any, first: int, last: int) -> Any:  # noqa: ANN401 - of the JVM
    return pairs.filterByRange(_java_long(first), _java_long(last))


def _java_long(kind: int) -> int:
    """A key for a kind with more than 32 bits, so that Py4J makes it a ``Long`` as the keys of pairs are."""
    return 1 + kind << 32


def _sized_session(spark: SparkSession, size_bytes: int) -> SparkSession:
    """A session for which rows of unknown origin have ``size_bytes``, rounded up to a power of two.

    Spark asks the session in which such rows were made, not the session of the query, how to read them and how large
    they are. Reads of about the same size share a session, as it takes a while to make.
    """
    sessions = _SIZED_SESSIONS.setdefault(spark, BoundedCache(_MAX_SESSIONS))
    size = 1 << max(0, size_bytes - 1).bit_length()
    session: SparkSession | None = sessions.get(size)
    if session is None:
        session = spark.newSession()
        session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
        # Collected batches are part of the plan, not a job.
        session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "1g")
        session.conf.set("spark.sql.defaultSizeInBytes", str(size))
        sessions.put(size, session, 1)
    return session


def _run(run: Callable[[T, Reports[R]], Iterator[KindBatch]], pickled: Iterable[bytes]) -> Iterator[object]:
    """Yields kind and payload in turns: kept batches, then reports, each followed by the batches that it announces."""
    with dropping_zip_importers():
        for task in pickled:
            reports: Reports[R] = {}
            collected = []
            for kind, batch in run(pickle.loads(task), reports):  # noqa: S301 - from the driver of this job
                if kind == COLLECTED:
                    collected.append(batch)
                else:
                    yield from (_KIND.pack(_java_long(kind)), batch.serialize())
            for chunk, is_last in _chunks(reports):
                announced = len(collected) if is_last else 0
                yield from (_KIND.pack(_java_long(_REPORTS)), pickle.dumps((chunk, announced)))
            for batch in collected:
                yield from (_KIND.pack(_java_long(COLLECTED)), batch.serialize())


def _chunks(reports: Reports[R]) -> Iterator[tuple[Reports[R], bool]]:
    """The reports in chunks, at least one, and whether it is the last."""
    items = list(reports.items())
    ends = range(_REPORTS_PER_CHUNK, len(items) + _REPORTS_PER_CHUNK, _REPORTS_PER_CHUNK) or (0,)
    for end in ends:
        yield dict(items[max(0, end - _REPORTS_PER_CHUNK) : end]), end >= len(items)
