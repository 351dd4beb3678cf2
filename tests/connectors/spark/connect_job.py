"""Reads a table as a user of Spark Connect does, in a process of its own: ``connect_job.py REMOTE TABLE``.

Prints as JSON how many rows each way of reading has.
"""

import json
import sys
from typing import Any

from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import locate_keys, read, register, slice_routes
from hudi_bridge.connectors.spark.connect import runs_locally
from tests.connectors.spark.connect_server import SETTINGS


def main(remote: str, table: str) -> None:
    # A server that runs already has its own settings.
    settings: dict[str, Any] = dict(SETTINGS) if remote.startswith("local") else {}
    spark = SparkSession.builder.remote(remote).config(map=settings).getOrCreate()
    register(spark)
    frame = read(spark, table)
    counts = {
        "read": frame.count(),
        "format": spark.read.format("hudi_bridge").load(table).count(),
        "located": locate_keys(spark, table, frame.select("_hoodie_record_key")).where("file_id IS NOT NULL").count(),
        "others": sum(slice_routes(frame).others.values()),
        "runs locally": runs_locally(spark),
    }
    print(json.dumps(counts))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
