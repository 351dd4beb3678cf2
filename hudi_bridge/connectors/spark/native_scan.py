"""The base files of a table as a scan that Spark plans itself: with column pruning, and with filters on row groups.

Options of the read take the place of settings of the session that would change what is read.

Source: ``ParquetFileFormat``, ``FileScanRDD`` and ``ParquetFilters`` of Spark.
"""

from collections.abc import Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import col, expr

from hudi_bridge.connectors.spark.jobs import quoted
from hudi_bridge.connectors.spark.native_columns import has_floats
from hudi_bridge.connectors.spark.types import spark_schema

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
