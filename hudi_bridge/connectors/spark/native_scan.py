"""The base files of a table as a scan that Spark plans itself, with column pruning and filters on row groups.

``base_file_scan`` makes the scan; options of the read replace settings of the session that would change what is read.
``SparkFolder`` is the folder of a table as Hadoop's file systems name it, and tells which files Spark cannot be given.

Source: ``ParquetFileFormat``, ``FileScanRDD`` and ``ParquetFilters`` of Spark.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from hudi_bridge.connectors.spark.jobs import quoted
from hudi_bridge.connectors.spark.jvm import SPARK_ERRORS, java_class_name, jvm_of
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
_MAX_PREPARED = 32
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

    def prepare(self, paths: Sequence[str]) -> None:
        """Makes the scan of a few files that ``of`` is likely to be asked for, which then raises any error."""
        if 0 < len(paths) <= _MAX_PREPARED:
            with suppress(AnalysisException):
                self._scans[tuple(paths)] = base_file_scan(self._spark, paths, self._schema)

    def of(self, paths: Sequence[str]) -> DataFrame:
        """The scan of base files.

        Raises:
            pyspark.errors.AnalysisException: a file is gone.
        """
        scan = self._scans.get(tuple(paths))
        return base_file_scan(self._spark, paths, self._schema) if scan is None else scan


def base_file_scan(spark: SparkSession, paths: Sequence[str], schema: pa.Schema) -> DataFrame:
    """The rows of base files, for ``safe_to_filter``; ``paths`` are as Hadoop takes them."""
    options = _OPTIONS | (_OPTIONS_WITH_FLOATS if any(has_floats(field.type) for field in schema) else {})
    return spark.read.schema(spark_schema(schema)).options(**options).parquet(*paths)


def safe_to_filter(schema: pa.Schema, scan: DataFrame) -> DataFrame:
    """The rows of a ``base_file_scan``, with columns whose filters lose no rows in Spark."""
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
