"""Runs files of SQL in one Spark session with Hudi's bundle: ``spark_writer BUNDLE DRAFT...``.

A file of which all statements have run is renamed from ``draft.sql`` to ``table.sql``: a table without it counts as
unfinished. All tables have the same name in the catalog, which is cleared between them.
"""

import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def write(spark: SparkSession, draft: Path) -> None:
    """Run the statements of a file, with the settings that it states and no others."""
    spark.sql("RESET")
    for statement in draft.read_text().split(";\n"):
        if statement.strip():
            spark.sql(statement)
    spark.sql("DROP TABLE trades")
    draft.rename(draft.with_name("table.sql"))


def main(bundle: str, *drafts: str) -> None:
    with tempfile.TemporaryDirectory(prefix="hudi-bridge-", ignore_cleanup_errors=True) as scratch:
        builder = SparkSession.builder.config("spark.jars", bundle).config("spark.sql.warehouse.dir", scratch)
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        for draft in map(Path, drafts):
            begun = time.perf_counter()
            write(spark, draft)
            print(f"{draft.parent.name} written in {time.perf_counter() - begun:.0f} s", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
