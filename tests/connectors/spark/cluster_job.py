"""Jobs on separate executors, run by ``test_spark_cluster``: ``cluster_job.py TABLE FOLDER``.

Prints the results as JSON, and writes into the folder which executors took part. In the second job, the executor of one
task is killed during its first attempt.
"""

import json
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import locate_keys, read, register


def executor_process() -> int:
    """The process id of the JVM of this Python worker."""
    process = os.getpid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        (process,) = (
            int(line.split()[1])
            for line in Path(f"/proc/{process}/status").read_text().splitlines()
            if line.startswith("PPid:")
        )
    return process


def observed(folder: Path, kill: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; notes their executor first."""
    context = TaskContext.get()
    assert context is not None
    for batch in batches:
        (folder / f"executor-{executor_process()}").touch()
        died = folder / "died"
        if kill and context.partitionId() == 1 and not died.exists():
            died.touch()
            os.kill(executor_process(), signal.SIGKILL)
        yield batch


def main(table: str, folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.scheduler.minRegisteredResourcesRatio", "1.0")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    register(spark)
    frames = {
        "format": spark.read.format("hudi_bridge").option("maxPartitionBytes", "1").load(table),
        "read": read(spark, table, options={"maxPartitionBytes": "1"}),
    }
    actual: dict[str, object] = {}
    for name, frame in frames.items():
        watched = frame.mapInArrow(partial(observed, folder, name == "read"), frame.schema)
        actual[name] = sorted(row[0] for row in watched.select("_hoodie_record_key").collect())
        actual[f"executors of {name}"] = len(list(folder.glob("executor-*")))
    keys = spark.createDataFrame([(key,) for key in (*map(str, actual["read"]), "nowhere")], "k string")  # type: ignore[call-overload]
    actual["located"] = sorted(row.record_key for row in locate_keys(spark, table, keys).collect() if row.file_id)
    print(json.dumps(actual))  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
