"""Reads tables on a standalone cluster, run by ``test_spark_standalone``: ``standalone_job.py FOLDER``.

Answers the queries in ``FOLDER/queries.json`` into ``FOLDER/read``, ``FOLDER/view`` and, from PySpark 4 on,
``FOLDER/format``, and prints how many executors there are. If a query fails, prints the error, and the cause that the
package tells.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_bridge.connectors.spark import attach_all, cause_of, read, register

FIRST_WITH_FORMAT = 4


def main(folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    has_format = int(pyspark.__version__.partition(".")[0]) >= FIRST_WITH_FORMAT
    if has_format:
        register(spark)
    executors = spark.range(0, 16, 1, 16).mapInArrow(executor_folders, "folder string").distinct().count()
    for query in json.loads((folder / "queries.json").read_text()):
        path, options = query["path"], query["options"]
        lake = attach_all(spark, Path(path).parent, options=options)
        ways: dict[str, Callable[[], DataFrame]] = {
            "read": partial(read, spark, path, options=options),
            "view": partial(lake.attach, Path(path).name),
        }
        if has_format:
            ways["format"] = partial(spark.read.format("hudi_bridge").options(**options).load, path)
        for way, make in ways.items():
            try:
                make().coalesce(1).write.parquet(str(folder / way / query["name"]))
            except PySparkException as error:
                failure = {"way": way, "text": str(error), "cause": str(cause_of(error))}
                print(json.dumps(failure))  # noqa: T201 - what the test reads
    print(json.dumps({"executors": executors}))  # noqa: T201 - what the test reads
    spark.stop()


def executor_folders(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The folder of the executor; slowly, or else one of them may run all tasks."""
    time.sleep(0.2)
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"folder": [str(Path.cwd())]})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
