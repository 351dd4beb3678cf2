"""Answers questions with Hudi's bundle in one Spark session: ``spark_answers BUNDLE CORES``.

A question names a ``folder`` and, where not all is wanted, ``columns`` and ``where``, an SQL condition. Rows go to
Python (``collect``), nowhere (Spark's ``noop`` sink), or as Parquet into the folder ``into``; with ``plan``, none is
read, and ``rows`` is the number of files to read. ``metadata`` says whether the metadata table is used, which is the
default. The answer has the fields of a ``Reading``, from opening the table to the last row, and the number of rows that
Python got.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.hudi_bundle import hudi_bundle
from benchmarks.process_tree import peak_memory, usage
from benchmarks.reader_process import ReaderProcess, running
from benchmarks.spark_environment import PYTHON35, environment


@contextmanager
def spark_answers(python: Path = PYTHON35) -> Iterator[ReaderProcess]:
    """A session that starts when the context begins, and has started when it is first asked."""
    command = [str(python), "-m", "benchmarks.spark_answers", str(hudi_bundle()), str(os.cpu_count() or 1)]
    with running(command, environment(python)) as process:
        yield process


def main(bundle: str, cores: str) -> None:
    """Answer until the input ends."""
    from benchmarks.spark_reader import session  # noqa: PLC0415 - Spark is only in the process that answers

    spark = session("bundle", cores, "4g", bundle)
    spark.sparkContext.setLogLevel("OFF")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    for line in sys.stdin:
        try:
            answer = _answer(spark, json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever Hudi and Spark raise
            answer = {"error": " ".join(str(error).split())[:300]}
        print(json.dumps(answer), flush=True)
    spark.stop()


def _answer(spark: Any, question: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - see main
    rows = None
    before, start = usage(os.getpid()), time.perf_counter()
    with peak_memory(os.getpid()) as peak:
        # Without the second option, Hudi reads columns that were renamed as null.
        options = {"hoodie.metadata.enable": question.get("metadata", "true"), "hoodie.schema.on.read.enable": "true"}
        table = spark.read.format("hudi").options(**options).load(question["folder"])
        if question.get("where"):
            table = table.where(question["where"])
        if question.get("columns"):
            table = table.select(*question["columns"])
        if question.get("plan"):
            rows = _planned_files(spark, table)
        elif question.get("into"):
            table.write.mode("overwrite").parquet(question["into"])
        elif question.get("collect"):
            rows = len(table.collect())
        else:
            table.write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - start
    after = usage(os.getpid())
    return {
        "seconds": seconds,
        "cpu_seconds": after.cpu_seconds - before.cpu_seconds,
        "peak_bytes": max(peak.resident_bytes, after.resident_bytes),
        "read_bytes": after.read_bytes - before.read_bytes,
        "requests": after.read_calls - before.read_calls,
        "rows": rows,
    }


def _planned_files(spark: Any, table: Any) -> int:  # noqa: ANN401 - see main
    """The number of files that a scan of a table reads; plans it, and reads none."""
    # An adaptive plan is only known when it runs.
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    execution = table._jdf.queryExecution()  # noqa: SLF001 - PySpark has no other access
    execution.toRdd().getNumPartitions()
    return int(execution.executedPlan().collectLeaves().apply(0).metrics().apply("numFiles").value())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
