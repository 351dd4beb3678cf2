"""Reads a table as a user of Spark Connect does, in a process of its own: ``connect_job.py REMOTE TABLE [ARTIFACT]``.

The artifact is a zip file of the package, or an archive ``FILE#FOLDER`` of an environment, which the workers get.
Prints as JSON how many rows each way of reading has, or the error of the format.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import attach_all, locate_keys, read, register, slice_routes
from hudi_bridge.connectors.spark.sessions import runs_locally
from tests.connectors.spark.connect_server import SETTINGS


def main(remote: str, table: str, artifact: str = "") -> None:
    # A server that runs already has its own settings.
    settings: dict[str, Any] = dict(SETTINGS) if remote.startswith("local") else {}
    spark = SparkSession.builder.remote(remote).config(map=settings).getOrCreate()
    folder = artifact.partition("#")[2]
    if folder:
        spark.addArtifacts(artifact, archive=True)
        spark.conf.set("spark.sql.execution.pyspark.python", f"{folder}/bin/python")
    elif artifact:
        spark.addArtifacts(artifact, pyfile=True)
    register(spark)
    frame = read(spark, table)
    lake = attach_all(spark, Path(table).parent)
    counts = {
        "read": frame.count(),
        "format": count_of_format(spark, table),
        "view": spark.table(f"`{Path(table).name}`").count(),
        "files": lake.attach(f"{Path(table).name}_files").count(),
        "located": locate_keys(spark, table, frame.select("_hoodie_record_key")).where("file_id IS NOT NULL").count(),
        "others": sum(slice_routes(frame).others.values()),
        "runs locally": runs_locally(spark),
    }
    print(json.dumps(counts))  # noqa: T201 - what the test reads
    spark.stop()


def count_of_format(spark: SparkSession, table: str) -> int | str:
    try:
        return spark.read.format("hudi_bridge").load(table).count()
    except PySparkException as error:
        return str(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
