"""Registers the data source ``hudi_bridge`` with a Spark session."""

import pyspark
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark.worker_python import require_same_python
from hudi_bridge.errors import QueryError

try:
    from hudi_bridge.connectors.spark.data_source import HudiBridgeDataSource
except ModuleNotFoundError as missing:  # PySpark 3.5 has no data sources in Python.
    if missing.name != "pyspark.sql.datasource":
        raise
    HudiBridgeDataSource = None  # type: ignore[assignment, misc]

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_FIRST_WITH_PUSHDOWN = (4, 1)


def register(spark: SparkSession) -> None:
    """Enables ``spark.read.format("hudi_bridge")`` and ``spark.readStream.format("hudi_bridge")`` for a session.

    With PySpark 4.1 or later, this also turns on filter pushdown to data sources in Python.

    Raises:
        QueryError: this release of PySpark has no data sources in Python, or its workers run another version of Python.
    """
    if HudiBridgeDataSource is None:
        raise QueryError("register", f"PySpark {pyspark.__version__}", "PySpark 4.0 or later, or read() instead")
    # Data sources plan in processes on the driver's machine, on a cluster too.
    require_same_python(spark)
    # The processes of the driver that plan queries have no access to the session.
    known = {"parallelism": spark.sparkContext.defaultParallelism}
    spark.dataSource.register(type("HudiBridge", (HudiBridgeDataSource,), known))
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= _FIRST_WITH_PUSHDOWN:
        spark.conf.set(_PUSHDOWN, "true")
