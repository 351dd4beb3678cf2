"""The base files of a table as a scan that Spark plans itself: with column pruning, and with filters on row groups.

Options of the read take the place of settings of the session that would change what is read.

Source: ``ParquetFileFormat``, ``FileScanRDD`` and ``ParquetFilters`` of Spark.
"""

from collections.abc import Sequence

import pyarrow as pa
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
    "parquet.page.verify-checksum.enabled": "true",
}
# Dictionaries and Bloom filters know 0.0 and -0.0 as two numbers, of which Spark would find only one.
_OPTIONS_WITH_FLOATS = {"parquet.filter.dictionary.enabled": "false", "parquet.filter.bloom.enabled": "false"}


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
