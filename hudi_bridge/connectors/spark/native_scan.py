"""The base files of a table as a scan that Spark plans itself, with column pruning and filters on row groups.

``BaseFileScans`` makes it; options of the read replace settings of the session that would change what is read.
``SparkFolder`` is the folder of a table as Hadoop's file systems name it, and tells which files Spark cannot be given.

Source: ``ParquetFileFormat``, ``FileScanRDD`` and ``ParquetFilters`` of Spark.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from hudi_bridge.connectors.spark.jobs import quoted
from hudi_bridge.connectors.spark.jvm import SPARK_ERRORS, java_class_name, jvm_of
from hudi_bridge.connectors.spark.native_columns import has_floats
from hudi_bridge.connectors.spark.sessions import parallelism_of
from hudi_bridge.connectors.spark.types import spark_schema
from hudi_bridge.storage.masking import without_secrets
from hudi_bridge.storage.storage import Storage

_MILLISECONDS = pa.timestamp("ms", "UTC")
_OPTIONS = {
    # Hudi's dates and times are those of the proleptic Gregorian calendar.
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    # No columns from folder names.
    "recursiveFileLookup": "true",
    "mergeSchema": "false",
    "parquet.page.verify-checksum.enabled": "true",
}
# Hadoop's setting may leave out files, such as older ones of a file group. This filter accepts their names. Spark
# cannot send it to the tasks of a job.
_ALL_FILES = {"mapreduce.input.pathFilter.class": "org.apache.parquet.hadoop.util.HiddenFileFilter"}
_MOST_WITHOUT_JOB = "spark.sql.sources.parallelPartitionDiscovery.threshold"
"""Spark looks for more files than this in a job of its own."""
_TASKS_OF_JOB = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
_TASKS_LOCK = Lock()
# Dictionaries and Bloom filters know 0.0 and -0.0 as two numbers, and Spark would find only one of them.
_OPTIONS_WITH_FLOATS = {"parquet.filter.dictionary.enabled": "false", "parquet.filter.bloom.enabled": "false"}


class BaseFileScans:
    """The scans of one read.

    Spark looks for the files when a scan is made; ``prepare`` does so ahead of time, while other work runs.
    """

    def __init__(self, spark: SparkSession, schema: pa.Schema) -> None:
        self._spark = spark
        self._schema = schema
        self._scans: dict[tuple[str, ...], DataFrame] = {}
        self._most_without_job = int(str(spark.conf.get(_MOST_WITHOUT_JOB)))

    def prepare(self, paths: Sequence[str]) -> None:
        """Makes the scan of a few files that ``of`` is likely to be asked for, which then raises any error."""
        if 0 < len(paths) <= self._most_without_job:
            with suppress(AnalysisException):
                self._scans[tuple(paths)] = self._scan(paths, _ALL_FILES)

    def of(self, paths: Sequence[str]) -> Sequence[tuple[DataFrame, Sequence[str]]]:
        """The scan of base files, or several, each with the paths of its files.

        Raises:
            pyspark.errors.AnalysisException: a file is gone.
        """
        scan = self._scans.get(tuple(paths))
        if scan is None and len(paths) > self._most_without_job:
            scan = self._by_job(paths)
        if scan is not None:
            return [(scan, paths)]
        size = max(1, self._most_without_job)
        parts = [paths[start : start + size] for start in range(0, len(paths), size)]
        return [(self._scan(part, _ALL_FILES), part) for part in parts]

    def _by_job(self, paths: Sequence[str]) -> DataFrame | None:
        """The scan of many files; None if Hadoop has a filter that leaves out some, or that Spark cannot send."""
        try:
            with _few_tasks(self._spark):
                scan = self._scan(paths, {})
                return scan if _count_files(self._spark, scan) == len(paths) else None
        except AnalysisException:
            raise
        except SPARK_ERRORS:
            return None

    def _scan(self, paths: Sequence[str], options: Mapping[str, str]) -> DataFrame:
        """The rows of base files, for ``safe_to_filter``; ``paths`` are as Hadoop takes them."""
        has_any_floats = any(has_floats(field.type) for field in self._schema)
        of_floats = _OPTIONS_WITH_FLOATS if has_any_floats else {}
        reader = self._spark.read.schema(spark_schema(self._schema))
        return reader.options(**_OPTIONS, **of_floats, **options).parquet(*paths)


@contextmanager
def _few_tasks(spark: SparkSession) -> Iterator[None]:
    """Lets jobs that look for files have no more tasks than run at a time; by default, each file has one."""
    tasks = parallelism_of(spark)
    # Two threads would restore one another's value.
    with _TASKS_LOCK:
        before = str(spark.conf.get(_TASKS_OF_JOB))
        spark.conf.set(_TASKS_OF_JOB, str(min(tasks, int(before))))
        try:
            yield
        finally:
            spark.conf.set(_TASKS_OF_JOB, before)


def _count_files(spark: SparkSession, scan: DataFrame) -> int:
    jvm = jvm_of(spark)
    # Py4J takes the names of the files one after the other.
    return len(scan.inputFiles()) if jvm is None else jvm.count_files(scan)


def safe_to_filter(schema: pa.Schema, scan: DataFrame) -> DataFrame:
    """The rows of a scan of base files, with columns whose filters lose no rows in Spark."""
    # Spark takes as long for a column that it selects as for one that it computes.
    if not any(field.type == _MILLISECONDS for field in schema):
        return scan
    return scan.select([_column(field) for field in schema])


def _column(field: "pa.Field[pa.DataType]") -> Column:
    if field.type == _MILLISECONDS:
        # Spark rounds the bounds of a filter on such a column to milliseconds and loses rows; a function hides the
        # column from it.
        return expr(f"timestamp_micros(unix_micros({quoted(field.name)}))").alias(field.name)
    return col(quoted(field.name))


_PROPERTIES = ".hoodie/hoodie.properties"
# Hadoop's own client of S3 goes by the last name.
_SCHEMES = {"s3": ("s3", "s3a"), "s3n": ("s3n", "s3a")}
# Characters that stay the same in URIs; Spark hides files whose names begin with other characters.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_IN_FOLDERS = re.compile(r"[\[\]{}*?\\\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFolder:
    """The folder of a table as Hadoop's ``Path`` takes it, in which nothing is escaped.

    ``only_ascii`` says that Spark cannot name other files.
    """

    path: str
    only_ascii: bool

    def reason_file_not_native(self, path: str) -> str | None:
        """The reason why Spark cannot be given a file, by its path relative to the table; None if it can."""
        folder, _, name = path.rpartition("/")
        if not _PLAIN_NAME.fullmatch(name):
            return "the name of its base file has signs that Spark changes"
        if _NOT_IN_FOLDERS.search(f"{self.path}/{folder}"):
            return "its folder has signs that Spark takes for a pattern"
        if self.only_ascii and not f"{self.path}/{folder}".isascii():
            return "its folder has letters that this JVM cannot name"
        return None

    def reason_unreachable(self, spark: SparkSession) -> str | None:
        """The reason why Spark does not find a Hudi table in this folder; None if it does."""
        if (reason := self.reason_file_not_native("x")) is not None:
            return reason
        try:
            if _file_exists(spark, f"{self.path}/{_PROPERTIES}"):
                return None
        except SPARK_ERRORS as error:
            # The text of the error may hold secrets.
            return f"Spark cannot reach the table: {java_class_name(error)}"
        return "Spark cannot reach the table: it finds none there"


def spark_folders(spark: SparkSession, table_path: str) -> Sequence[SparkFolder]:
    """The names that Spark may have for the folder of a table, given as by the user; none if the URI is no name."""
    storage = Storage.open(table_path)
    if not storage.is_local:
        return [SparkFolder(path=uri, only_ascii=False) for uri in _uris(table_path)]
    jvm = jvm_of(spark)
    # Without access to the JVM, its encoding is unknown.
    only_ascii = jvm is None or jvm.file_name_encoding().upper() != "UTF-8"
    return [SparkFolder(path=f"file://{storage.root}", only_ascii=only_ascii)]


def _uris(table_path: str) -> Sequence[str]:
    if without_secrets(table_path) != table_path or "%" in table_path or "#" in table_path:
        return ()
    scheme, _, rest = table_path.partition("://")
    return [f"{name}://{rest}" for name in _SCHEMES.get(scheme, (scheme,))]


def _file_exists(spark: SparkSession, file: str) -> bool:
    jvm = jvm_of(spark)
    if jvm is not None:
        return jvm.file_exists(file)
    try:
        _ = spark.read.text(file).schema
    except AnalysisException as error:
        if error.getErrorClass() == "PATH_NOT_FOUND":
            return False
        raise
    return True
