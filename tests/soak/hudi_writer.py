"""A writer of Hudi for ``tests.soak``, run in PySpark 3.5: ``hudi_writer.py BUNDLE``.

Reads a command a line, as JSON: the folder of a table, its options, and writes that are to be done at the same time.
Answers each with a line of JSON that begins with ``DONE``: for each write, what it failed with, or null.
"""

import json
import sys
import time
from threading import Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

from tests.connectors.spark.hudi_session import hudi_session

FIELDS = "id string, city string, ts bigint, fare double, note string"
MARK = "hoodie.soak."
"""What begins with it is kept in the metadata of commits."""
BEFORE_COMMIT = "hoodie.precommit.validators"
FAILING = {
    BEFORE_COMMIT: "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    f"{BEFORE_COMMIT}.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
}
"""Lets a write fail when its files are written and its commit is not."""


def slowly(frame: DataFrame, seconds: float) -> DataFrame:
    """A frame whose first row takes its time, so that the write that has it overlaps others."""
    slept: list[bool] = []

    def late(note: str) -> str:
        if not slept:
            slept.append(True)
            time.sleep(seconds)
        return note

    return frame.withColumn("note", udf(late)("note"))


def write(spark: SparkSession, command: dict[str, Any], one: dict[str, Any]) -> None:
    """One write of a command."""
    options = {f"{MARK}delta": str(one["number"]), "hoodie.datasource.write.commitmeta.key.prefix": MARK}
    options |= command["options"] | (FAILING if one["operation"] == "fail" else {})
    # Two writers that cluster the same files at once lose rows in Hudi: only one has table services.
    options |= {"hoodie.table.services.enabled": str(not one["delay"]).lower()}
    frame = spark.createDataFrame([tuple(row) for row in one["rows"]], FIELDS).coalesce(1)
    if one["operation"] == "partial":
        merge(spark, command, options, frame)
        return
    if one["seconds"]:
        frame = slowly(frame, one["seconds"])
    operation = "delete" if one["operation"] == "delete" else "upsert"
    options |= {"hoodie.datasource.write.operation": operation}
    frame.write.format("hudi").options(**options).mode("append").save(command["table"])


def merge(spark: SparkSession, command: dict[str, Any], options: dict[str, str], frame: DataFrame) -> None:
    """Update two columns of the rows that are there."""
    name = command["name"]
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{command['table']}'")
    # Names of data sources' options are not those of SQL.
    settings = {key: value for key, value in options.items() if not key.startswith("hoodie.datasource.write.pre")}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        frame.createOrReplaceTempView("updates")
        spark.sql(
            f"MERGE INTO {name} t USING updates s ON t.id = s.id WHEN MATCHED THEN UPDATE SET ts = s.ts, fare = s.fare"
        )
    finally:
        for key in settings:
            spark.conf.unset(key)


def run(spark: SparkSession, command: dict[str, Any]) -> list[str | None]:
    """Do the writes of a command at the same time."""
    failures: list[str | None] = [None] * len(command["writes"])

    def attempt(place: int, one: dict[str, Any]) -> None:
        try:
            time.sleep(one["delay"])
            write(spark, command, one)
        except Exception as error:  # noqa: BLE001 - the loser of a conflict fails in many ways
            failures[place] = str(error)[:2000]

    threads = [Thread(target=attempt, args=pair) for pair in enumerate(command["writes"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


def main(bundle: str) -> None:
    spark = hudi_session(bundle, "local[2]", {"spark.default.parallelism": "1"})
    for line in sys.stdin:
        print("DONE" + json.dumps(run(spark, json.loads(line))), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
