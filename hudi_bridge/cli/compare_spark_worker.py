"""Reads tables with Hudi on Spark: a script for any Python with PySpark, which need not have this package.

    python compare_spark_worker.py BUNDLE FOLDER < jobs.json

A job is ``{"table": path, "options": {name: value}, "answer": name}``. The rows are written to the folder as Parquet
files, or the error to ``<answer>.error``.
"""

import json
import sys
from pathlib import Path

SETTINGS = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}


def main() -> None:
    """Runs the jobs of standard input."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - of the Python that runs this script

    bundle, folder = sys.argv[1], Path(sys.argv[2])
    jobs = json.load(sys.stdin)
    builder = SparkSession.builder.appName("hudi-bridge compare")
    for name, value in {**SETTINGS, **({"spark.jars": bundle} if bundle else {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for job in jobs:
        try:
            rows = spark.read.format("hudi").options(**job["options"]).load(job["table"])
            rows.write.parquet(str(folder / job["answer"]))
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise is the answer
            (folder / f"{job['answer']}.error").write_text(str(error))
    spark.stop()


if __name__ == "__main__":
    main()
