"""Reads a table on HDFS in Spark, in a process of its own: ``hdfs_spark_job.py TABLE LOCALITY_WAIT``.

Prints as JSON how many rows each way of reading has, and whether Spark reads the base files.
"""

import json
import sys

from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import read, register, slice_routes


def main(table: str, locality_wait: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.locality.wait", locality_wait).getOrCreate()
    register(spark)
    frame = read(spark, table)
    counts = {
        "format": spark.read.format("hudi_bridge").load(table).count(),
        "read": frame.count(),
        "is native": slice_routes(frame).native > 0,
    }
    print(json.dumps(counts))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
