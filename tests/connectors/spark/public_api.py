"""Sessions whose reads use Spark's public API alone, because the check of its private classes says no."""

from unittest import mock

from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import jvm

MISSING = jvm._Signature("org.apache.spark.api.python.PythonRDD", "valueOfPair", ("java.lang.String",))
"""A method that no release of Spark has."""


def public_session(spark: SparkSession) -> SparkSession:
    """Another session of the same JVM, which seems to have no such method; it is checked once."""
    session = spark.newSession()
    with mock.patch.object(jvm, "_SIGNATURES", (*jvm._SIGNATURES, MISSING)):
        assert jvm.jvm_of(session) is None
    assert jvm.jvm_of(session) is None
    assert jvm.jvm_of(spark) is not None
    return session
