"""Queries Iceberg tables in PySpark 3.5, for ``spark_iceberg``: ``iceberg_queries.py RUNTIME URI FOLDER``.

Each line of input is a JSON object with ``sql``, or with ``metadata``, the path of a metadata file. The rows are
written to its ``folder``. The answer is a line of JSON with the error, null if there is none.
"""

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

CATALOGS: dict[str, dict[str, str]] = {"lake": {}, "planned": {"warehouse": "planned"}}
"""The names of catalogs, with the options in which they differ."""
ANSWER = "answer "
"""The prefix of answers, which tells them from what Spark prints."""


def main(runtime: str, uri: str, folder: str) -> None:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", runtime)
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.parquet.compression.codec", "uncompressed")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
    )
    for name, options in CATALOGS.items():
        for setting, value in catalog_settings(name, uri, **options).items():
            builder.config(setting, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    for line in sys.stdin:
        request = json.loads(line)
        print(ANSWER + json.dumps({"error": error_of(spark, request)}), flush=True)  # noqa: T201 - what the test reads
    spark.stop()


def catalog_settings(name: str, uri: str, **more: str) -> dict[str, str]:
    """The settings of Spark for a catalog."""
    catalog = f"spark.sql.catalog.{name}"
    options = {"type": "rest", "uri": uri, "cache-enabled": "false", **more}
    settings = {f"{catalog}.{option}": value for option, value in options.items()}
    return {catalog: "org.apache.iceberg.spark.SparkCatalog", **settings}


def error_of(spark: SparkSession, request: dict[str, Any]) -> str | None:
    """Write the rows; returns the error as text, None without one."""
    try:
        rows(spark, request).coalesce(1).write.parquet(request["folder"])
    except Exception as error:  # noqa: BLE001 - of Java or of Python, it is for the test to judge
        return str(error)
    return None


def rows(spark: SparkSession, request: dict[str, Any]) -> DataFrame:
    if "sql" in request:
        return spark.sql(request["sql"])
    return spark.read.format("iceberg").load(request["metadata"])


if __name__ == "__main__":
    main(*sys.argv[1:])
