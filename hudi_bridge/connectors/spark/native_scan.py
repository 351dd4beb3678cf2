"""The base files of a table as a scan that Spark plans itself: with column pruning, and with filters on row groups.

Options of the read take the place of settings of the session that would change what is read.

Source: ``ParquetFileFormat``, ``FileScanRDD`` and ``ParquetFilters`` of Spark.

Where Spark finds the files of a table: by paths as Hadoop's file systems take them.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from hudi_bridge.connectors.spark.jobs import quoted
from hudi_bridge.connectors.spark.kept_rows import java_class, static_method
from hudi_bridge.connectors.spark.native_columns import has_floats
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
    # Hadoop's setting may leave out files, such as older ones of a file group. This filter accepts their names.
    "mapreduce.input.pathFilter.class": "org.apache.parquet.hadoop.util.HiddenFileFilter",
    "parquet.page.verify-checksum.enabled": "true",
}
# Spark looks for more files than this in a job of its own (``parallelPartitionDiscovery.threshold``).
_MOST_EXPECTED = 32
# Dictionaries and Bloom filters know 0.0 and -0.0 as two numbers, of which Spark would find only one.
_OPTIONS_WITH_FLOATS = {"parquet.filter.dictionary.enabled": "false", "parquet.filter.bloom.enabled": "false"}


class BaseFileScans:
    """The scans of one read. Spark looks for the files when a scan is made, which is sooner if it is ``expected``."""

    def __init__(self, spark: SparkSession, schema: pa.Schema) -> None:
        self._spark = spark
        self._schema = schema
        self._made: dict[tuple[str, ...], DataFrame] = {}

    def expect(self, paths: Sequence[str]) -> None:
        """Makes the scan of few files that are likely to be asked for. An error is one when they are."""
        if 0 < len(paths) <= _MOST_EXPECTED:
            with suppress(AnalysisException):
                self._made[tuple(paths)] = base_file_scan(self._spark, paths, self._schema)

    def of(self, paths: Sequence[str]) -> DataFrame:
        """The scan of base files.

        Raises:
            pyspark.errors.AnalysisException: a file is gone.
        """
        made = self._made.get(tuple(paths))
        return base_file_scan(self._spark, paths, self._schema) if made is None else made


def base_file_scan(spark: SparkSession, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of base files, for ``with_values_of``; ``paths`` are as Hadoop takes them."""
    given = _OPTIONS | (_OPTIONS_WITH_FLOATS if any(has_floats(field.type) for field in schema) else {})
    return spark.read.schema(spark_schema(schema)).options(**given).parquet(*paths)


def with_values_of(schema: pa.Schema, scan: DataFrame) -> DataFrame:
    """The rows of a ``base_file_scan``, with columns of which Spark loses no rows to a filter."""
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
# Letters that stay the same in URIs; names that begin with other signs are hidden from Spark.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_IN_FOLDERS = re.compile(r"[\[\]{}*?\\\x00-\x1f\x7f]")


class NotNativeError(Exception):
    """Raised if Spark can read no file of a table itself; the text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkFolder:
    """The folder of a table as Hadoop's ``Path`` takes it, in which nothing is escaped.

    ``only_ascii`` says that the JVM cannot name other files.
    """

    path: str
    only_ascii: bool

    @classmethod
    def of(cls, spark: SparkSession, table_path: str) -> Self:
        """The folder of a table, given as by the user.

        Raises:
            NotNativeError: Spark has no access to it, or not by this name.
        """
        storage = Storage.open(table_path)
        encoding = str(static_method(spark, "java.lang.System", "getProperty")("sun.jnu.encoding"))
        only_ascii = storage.is_local and encoding.upper() != "UTF-8"
        reasons = []
        for path in [f"file://{storage.root}"] if storage.is_local else _uris(table_path):
            folder = cls(path=path, only_ascii=only_ascii)
            reason = folder.why_not("x") or _why_not_found(spark, f"{path}/{_PROPERTIES}")
            if reason is None:
                return folder
            reasons.append(reason)
        raise NotNativeError(reasons[-1])

    def why_not(self, path: str) -> str | None:
        """The reason why Spark cannot be told of a file, relative to the table; None if it can."""
        folder, _, name = path.rpartition("/")
        if not _PLAIN_NAME.fullmatch(name):
            return "the name of its base file has signs that Spark changes"
        if _NOT_IN_FOLDERS.search(f"{self.path}/{folder}"):
            return "its folder has signs that Spark takes for a pattern"
        if self.only_ascii and not f"{self.path}/{folder}".isascii():
            return "its folder has letters that this JVM cannot name"
        return None


def _uris(table_path: str) -> list[str]:
    if without_secrets(table_path) != table_path or "%" in table_path or "#" in table_path:
        raise NotNativeError("the URI of the table has escaped signs, or says more than where the table is")
    scheme, _, rest = table_path.partition("://")
    return [f"{one}://{rest}" for one in _SCHEMES.get(scheme, (scheme,))]


def _why_not_found(spark: SparkSession, file: str) -> str | None:
    session: Any = spark._jsparkSession  # noqa: SLF001 - PySpark has no other access
    settings = session.sessionState().newHadoopConf()
    try:
        path = java_class(spark, "org.apache.hadoop.fs.Path")(file)
        if path.getFileSystem(settings).exists(path):
            return None
    except (Py4JJavaError, PySparkException) as error:
        # Its text may hold secrets.
        java = getattr(error, "java_exception", None)
        return f"Spark cannot reach the table: {type(error).__name__ if java is None else java.getClass().getName()}"
    return "Spark cannot reach the table: it finds none there"
