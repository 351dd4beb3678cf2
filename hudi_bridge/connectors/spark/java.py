"""Classes of the JVM, by their full names.

Of ``jvm.org.apache.spark.X``, Py4J has the JVM look for classes ``org``, ``org.apache`` and so on in all archives: half
a millisecond each. Of ``jvm.X``, it asks the JVM which class that is, and of a class, whether it has a method.
"""

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from py4j.protocol import STATIC_PREFIX  # type: ignore[import-untyped]
from pyspark.sql import SparkSession


def java_class(spark: SparkSession, name: str) -> Any:  # noqa: ANN401 - of the JVM
    """A class to make objects of, which need not be one that a session can find by itself."""
    return JavaClass(name, _client(spark))


def static_method(spark: SparkSession, name: str, method: str) -> Any:  # noqa: ANN401 - of the JVM
    """A static method of a class; only a call finds out whether there is one."""
    return JavaMember(method, None, f"{STATIC_PREFIX}{name}", _client(spark))


def _client(spark: SparkSession) -> Any:  # noqa: ANN401 - of Py4J
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other access
    return gateway._gateway_client  # noqa: SLF001
