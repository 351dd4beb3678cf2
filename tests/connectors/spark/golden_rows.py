"""Reads tables in PySpark 3.5: ``golden_rows.py FOLDER`` answers the queries in ``FOLDER/queries.json``.

Snapshots are answered twice: with Spark's private classes, and in ``FOLDER/public`` by its public API alone, as where
the check of these classes says no.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from hudi_bridge import HudiTable
from hudi_bridge.connectors.spark import attach_all, locate_keys, read, register, register_functions, slice_routes
from hudi_bridge.errors import QueryError
from tests.connectors.spark.public_api import public_session


def first_instant(table: str) -> str:
    return HudiTable.open(table).timeline.completed()[0].requested_time


def main(folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.datetimeRebaseModeInWrite", "CORRECTED")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    native = 0
    public = public_session(spark)
    for query in json.loads((folder / "queries.json").read_text()):
        frame = read(spark, query["path"], filter=query["filter"], options=query["options"])
        native += slice_routes(frame).native if query["is_snapshot"] else 0
        frame.coalesce(1).write.parquet(str(folder / query["name"]))
        if query["is_snapshot"]:
            frame = read(public, query["path"], filter=query["filter"], options=query["options"])
            frame.coalesce(1).write.parquet(str(folder / "public" / query["name"]))
    table = query["path"]
    keys = read(spark, table, columns=["_hoodie_record_key"])
    # The folder of the case has one table.
    lake = attach_all(spark, Path(table).parent)
    in_view = spark.sql(f"SELECT count(*) FROM `{Path(table).name}`").collect()[0][0]
    at_first = lake.sql(f"SELECT count(*) FROM `{Path(table).name}__at_{first_instant(table)}`").collect()[0][0]
    files = spark.sql(f"SELECT count(*) FROM `{Path(table).name}_files`").collect()[0][0]
    print(in_view, at_first, files)  # noqa: T201 - what the test reads
    print(native, keys.count(), locate_keys(spark, table, keys).where("file_id IS NOT NULL").count())  # noqa: T201 - what the test reads
    refusals = []
    for refused in (register, register_functions):
        try:
            refused(spark)
        except QueryError as error:
            refusals.append(str(error))
    print("; ".join(refusals))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
