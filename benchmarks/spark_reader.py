"""Times reads in one Spark session: ``spark_reader READER TABLE CORES HEAP KEY [BUNDLE]``.

READER is ``bundle`` for Hudi's own bundle, ``bridge`` for ``hudi_bridge``, ``public`` for the latter by Spark's public
API alone, ``connect`` for the same in a session of Spark Connect, ``passing`` with all rows passing through Python.
Each read runs once as a warm-up. Its answer and the names of reads are the first line of the output, in JSON. Each line
of the input is the name of a read, which is timed from opening the table to the last row; with the readers whose rows
do not all pass through Python, there is another of a DataFrame that is open already (``again``). Its seconds are a line
of the output. Rows go to Spark's ``noop`` sink, into an aggregate, or to Python. The last line, after the end of the
input, has the heap in use.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyspark
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count
from pyspark.sql.functions import sum as total

from benchmarks.process_tree import usage
from hudi_bridge.connectors.spark import jvm, read

ONE_PERCENT = "qty < 10"
Open = Callable[[], DataFrame]
Run = Callable[[DataFrame], object]
Reads = dict[str, Callable[[], object]]


def session(reader: str, cores: str, heap: str, bundle: str | None) -> SparkSession:
    # The server of Spark Connect is the JVM of this process.
    start = SparkSession.builder.remote if reader == "connect" else SparkSession.builder.master
    builder = (
        start(f"local[{cores}]")
        .config("spark.driver.memory", heap)
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
    """The function that opens the table, as a user of the reader would."""
    if reader == "bundle":
        return lambda: spark.read.format("hudi").load(table)
    if reader == "passing":
        # All rows pass through Python.
        return lambda: read(spark, table, options={"maxNativeFiles": "0"})
    if reader == "public":
        jvm.reason_unavailable = lambda spark: "a benchmark"  # noqa: ARG005 - called by name
    return lambda: read(spark, table)


def full_scan(rows: DataFrame) -> object:
    rows.write.format("noop").mode("overwrite").save()
    return None


def aggregate(rows: DataFrame) -> object:
    # Whole numbers add up to the same in any order. A cast to decimals does so, too, and takes longer than the read.
    sums = total("qty"), total((col("price") * 100).cast("long")), total("ts")
    return sorted(map(str, rows.groupBy("part").agg(count("*"), *sums).collect()))


def selective_filter(rows: DataFrame) -> object:
    return list(map(str, rows.where(ONE_PERCENT).select("id", "qty").agg(count("id"), total("qty")).collect()))


def one_key(key: str, rows: DataFrame) -> object:
    return sorted(map(str, rows.where(col("id") == key).select("id", "price", "qty", "note").collect()))


def heap_bytes() -> int:
    """What the JVM holds after a garbage collection."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark has no other access
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return int(runtime.totalMemory() - runtime.freeMemory())


def timed(run: Callable[[], object]) -> dict[str, float]:
    """The seconds of a read, and those of all processes on all cores."""
    used, start = usage(os.getpid()).cpu_seconds, time.perf_counter()
    run()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "cpu_seconds": usage(os.getpid()).cpu_seconds - used}


def main(reader: str, table: str, cores: str, heap: str, key: str, bundle: str | None = None) -> None:
    spark = session(reader, cores, heap, bundle)
    SparkContext.getOrCreate().setLogLevel("OFF")
    opened = opener(spark, reader, table)
    runs: dict[str, Run] = {
        "full scan": full_scan,
        "aggregate of four columns": aggregate,
        "filter, 1 % of rows": selective_filter,
        "one key": partial(one_key, key),
    }
    reads: Reads = {name: partial(lambda run: run(opened()), run) for name, run in runs.items()}
    answers = {name: run() for name, run in reads.items()}
    frame = opened()
    rows = frame.count()
    if reader in ("bridge", "public", "connect"):
        reads |= {again(name): partial(run, frame) for name, run in runs.items()}
    say({"spark": pyspark.__version__, "rows": rows, "answers": answers, "reads": list(reads)})
    for line in sys.stdin:
        say(timed(reads[line.strip()]))
    say({"heap_bytes": heap_bytes()})
    spark.stop()


def again(name: str) -> str:
    """The name of a read of a DataFrame that is open already."""
    return f"{name}, again"


def say(found: object) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
