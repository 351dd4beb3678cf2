"""A Spark session with Hudi, the same for every release and case."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from tests.golden.generate.releases import number

_SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.session.timeZone": "UTC",
    # The first compiler alone has 48 MB for its code: they are full after two minutes, and Java interprets afterwards.
    "spark.driver.extraJavaOptions": (
        "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    ),
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # Dates before 1582 and timestamps before 1900 are not rebased, in answers and by Hudi's row writer.
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
}
_SINCE_13 = {"spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar"}
_BEFORE_13 = {
    # Hudi 0.12 needs an option that Spark 3.3.1, for which it was built, does not have.
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.hadoop.spark.sql.legacy.parquet.nanosAsLong": "false",
}


@contextmanager
def spark_session(version: str, bundle: Path, more: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """A Spark session in this process, with a release of Hudi, and with ``more`` settings.

    Settings of Spark's SQL stay at their defaults unless a comment above gives a reason: without code generation, for
    example, Hudi 0.12 loses rows.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("golden tables")
    settings = _SETTINGS | (_SINCE_13 if number(version) >= (0, 13) else _BEFORE_13)
    settings |= {"spark.jars": str(bundle), "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY", "2g")}
    settings |= more or {}
    with tempfile.TemporaryDirectory(prefix="golden-", ignore_cleanup_errors=True) as scratch:
        settings |= {"spark.sql.warehouse.dir": f"{scratch}/warehouse", "spark.local.dir": f"{scratch}/local"}
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            yield spark
        finally:
            spark.stop()
