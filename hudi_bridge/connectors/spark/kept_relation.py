"""Keeps what a DataFrame has computed as long as the DataFrame, or any other that was made from it, is in use.

``DataFrame.persist`` would keep it until somebody calls ``unpersist``, and nobody knows when the last DataFrame that
was made from it is gone. Here no cache refers to the relation: when the JVM collects it, Spark's ``ContextCleaner``
frees the blocks. Lost blocks are computed again.

Source: ``CacheManager``, ``InMemoryRelation`` and ``ContextCleaner`` of Spark.
"""

from functools import reduce
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession


def session_to_keep_from(spark: SparkSession) -> SparkSession:
    """A session with settings of its own, for DataFrames that are to be kept."""
    session = spark.newSession()
    # Compression takes longer than all other steps together.
    session.conf.set("spark.sql.inMemoryColumnarStorage.compressed", "false")
    return session


def kept_while_used(frame: DataFrame, spark: SparkSession) -> DataFrame:
    """The rows of a DataFrame of ``session_to_keep_from``, as one of the user's session.

    They are computed once, into the memory of executors and otherwise onto their disks.
    """
    context = spark.sparkContext
    jvm: Any = context._jvm  # noqa: SLF001 - PySpark has no other access
    java: Any = frame._jdf  # noqa: SLF001
    level = context._getJavaStorageLevel(StorageLevel.MEMORY_AND_DISK)  # noqa: SLF001
    relations = getattr(jvm.org.apache.spark.sql.execution.columnar, "InMemoryRelation$")
    relation = getattr(relations, "MODULE$").apply(level, java.queryExecution(), jvm.scala.Option.empty())
    # Of another package in Spark 4.
    datasets = reduce(getattr, java.getClass().getName().split("."), jvm)
    return DataFrame(datasets.ofRows(spark._jsparkSession, relation), spark)  # noqa: SLF001
