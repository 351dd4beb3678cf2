"""Times reads in one Spark session; prints JSON: ``spark_reader READER TABLE ROUNDS CORES [BUNDLE]``.

READER is ``bundle`` for Hudi's own bundle, ``bridge`` for ``hudi_bridge``. Each read runs once as a warm-up and is then
timed from planning to the last row. Rows go to Spark's ``noop`` sink or into an aggregate.
"""

import json
import sys
import time
from collections.abc import Callable

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count
from pyspark.sql.functions import sum as total

from hudi_bridge.connectors.spark import read

ONE_PERCENT = "qty < 10"
Open = Callable[[list[str] | None, str | None], DataFrame]


def session(cores: str, bundle: str | None) -> SparkSession:
    builder = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "4g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", cores)
    )
    if bundle is not None:
        builder = (
            builder.config("spark.jars", bundle)
            .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
            .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
            .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        )
    return builder.getOrCreate()


def opener(spark: SparkSession, reader: str, table: str) -> Open:
    """The function that opens the table with some columns and a filter, as a user of the reader would."""

    def with_bundle(columns: list[str] | None, where: str | None) -> DataFrame:
        frame = spark.read.format("hudi").load(table)
        frame = frame if where is None else frame.where(where)
        return frame if columns is None else frame.select(columns)

    def with_bridge(columns: list[str] | None, where: str | None) -> DataFrame:
        return read(spark, table, columns=columns, filter=where)

    return with_bundle if reader == "bundle" else with_bridge


def full_scan(frames: Open) -> object:
    frames(None, None).write.format("noop").mode("overwrite").save()
    return None


def aggregate(frames: Open) -> object:
    rows = frames(["part", "price", "qty"], None)
    result = rows.groupBy("part").agg(count("*"), total("qty"), total(col("price").cast("decimal(20,2)"))).collect()
    return sorted(map(str, result))


def selective_filter(frames: Open) -> object:
    result = frames(["id", "qty"], ONE_PERCENT).agg(count("*"), total("qty")).collect()
    return list(map(str, result))


READS = {"full scan": full_scan, "aggregate of three columns": aggregate, "filter, 1 % of rows": selective_filter}


def main(reader: str, table: str, rounds: int, cores: str, bundle: str | None) -> None:
    spark = session(cores, bundle)
    spark.sparkContext.setLogLevel("OFF")
    frames = opener(spark, reader, table)
    answers: dict[str, object] = {}
    seconds: dict[str, list[float]] = {}
    for name, run in READS.items():
        answers[name] = run(frames)
        seconds[name] = []
        for _ in range(rounds):
            start = time.perf_counter()
            run(frames)
            seconds[name].append(time.perf_counter() - start)
    rows = frames(["id"], None).count()
    print(json.dumps({"spark": pyspark.__version__, "rows": rows, "answers": answers, "seconds": seconds}))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5] if len(sys.argv) > 5 else None)
