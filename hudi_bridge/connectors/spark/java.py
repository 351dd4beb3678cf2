"""Classes of the JVM, by their full names."""

from typing import Any

from py4j.java_gateway import JavaClass  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - of the JVM
    """A class, which need not be one that a session can find by itself.

    Of ``jvm.org.apache.spark.X``, Py4J has the JVM look for classes ``org``, ``org.apache`` and so on in all archives:
    half a millisecond each.
    """
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other access
    return JavaClass(name, gateway._gateway_client)  # noqa: SLF001
