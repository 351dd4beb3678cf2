"""Sums up a table on executors of their own, twice: ``scale_reader WAY TABLE HEAP_MB PARTITION_BYTES``.

WAY is ``read``, by which Spark scans the base files; ``through Python``, which is ``read`` with all rows passing
through this package; or ``format``. The second time, one of the two executors is killed in the middle. Prints JSON.
"""

import json
import os
import sys
import time
from dataclasses import asdict
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count
from pyspark.sql.functions import sum as total

from benchmarks.executors import one_killed_in_the_middle, wait_for_executors, watched_memory
from benchmarks.process_tree import usage
from hudi_bridge.connectors.spark import read, register

EXECUTORS, WORKER_MB, DRIVER_MB = 2, 4096, 2048
_MOST_TRIES = 5
_OPENING_BYTES = 4 << 20


def session(heap_mb: int) -> SparkSession:
    """A session with two workers of one core and 4096 MB each, in processes of their own."""
    return (
        SparkSession.builder.master(f"local-cluster[{EXECUTORS},1,{WORKER_MB}]")
        .config("spark.driver.memory", f"{DRIVER_MB}m")
        .config("spark.executor.memory", f"{heap_mb}m")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", str(EXECUTORS))
        .getOrCreate()
    )


def opened(spark: SparkSession, way: str, table: str, partition_bytes: str) -> DataFrame:
    """The table, opened anew."""
    columns, options = ["id", "ts", "amount", "part"], {"maxPartitionBytes": partition_bytes}
    if way == "format":
        register(spark)
        named = options | {"columns": ",".join(columns)}
        return spark.read.format("hudi_bridge").options(**named).load(table)
    # A setting of its own for Spark's scan, which would cut files below what it takes opening one for.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(max(int(partition_bytes), _OPENING_BYTES)))
    passing = {"maxNativeFiles": "0"} if way == "through Python" else {}
    return read(spark, table, columns=columns, options=options | passing)


def sums(rows: DataFrame) -> dict[str, list[int]]:
    """The number of rows of each partition, and the sums of three columns."""
    found = rows.groupBy("part").agg(count("*"), total("id"), total("ts"), total("amount")).collect()
    return {one[0]: [int(number) for number in one[1:]] for one in found}


def main(way: str, table: str, heap_mb: str, partition_bytes: str) -> None:
    spark = session(int(heap_mb))
    context: Any = spark.sparkContext
    context.setLogLevel("OFF")
    wait_for_executors(os.getpid(), EXECUTORS)
    with watched_memory() as memory:
        used, begun = usage(os.getpid()).cpu_seconds, time.perf_counter()
        rows = opened(spark, way, table, partition_bytes)
        planned = time.perf_counter() - begun
        first = sums(rows)
        seconds, cpu_seconds = time.perf_counter() - begun, usage(os.getpid()).cpu_seconds - used
    result = {
        "spark": pyspark.__version__,
        "seconds": seconds,
        "opened_seconds": planned,
        "cpu_seconds": cpu_seconds,
        "sums": first,
        "driver": asdict(memory.driver),
        "worker": asdict(memory.worst),
    }
    # A stage of few tasks may end before it is seen.
    for _ in range(_MOST_TRIES):
        with one_killed_in_the_middle(context) as death:
            begun = time.perf_counter()
            result |= {"sums_though_killed": sums(rows), "seconds_though_killed": time.perf_counter() - begun}
        if death.tasks:
            break
    result["death"] = asdict(death)
    print(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
