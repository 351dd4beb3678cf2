"""Snapshots that Spark reads itself beside a writer of Hudi, which compacts, clusters and cleans meanwhile."""

import threading
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hudi_bridge import DataFileGoneError, HudiTable, InstantNotReadableError
from hudi_bridge.connectors.spark import cause_of, read, slice_routes
from tests.compare import differences
from tests.connectors.spark.test_spark_writer import running_writer, write_round

ROUNDS = 5
GONE = (DataFileGoneError, InstantNotReadableError)


def test_rows_beside_a_writer_are_those_of_the_instant(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "trips"
    compared = 0
    with running_writer(table, ROUNDS) as writer:
        write_round(writer)
        for _ in range(1, ROUNDS):
            writing = threading.Thread(target=write_round, args=(writer,))
            writing.start()
            is_last = False
            while not is_last:
                is_last = not writing.is_alive()
                compared += is_same_or_gone(spark, str(table))
            writing.join()
    assert compared >= ROUNDS


def is_same_or_gone(spark: SparkSession, path: str) -> bool:
    """Whether a snapshot was read, with the rows of its instant; not if the cleaner was faster."""
    opened = HudiTable.open(path)
    assert opened.latest_instant is not None
    try:
        expected = opened.snapshot().to_table()
        frame = read(spark, path, options={"as.of.instant": opened.latest_instant})
        found = frame.toArrow()
        counted = frame.where("fare > 30").count()
    except (*GONE, PySparkException, Py4JJavaError) as error:
        cause = cause_of(error)
        if isinstance(cause, GONE):
            return False
        raise
    assert slice_routes(frame).others == {}
    assert differences(expected, found) == []
    assert counted == sum((fare or 0) > 30 for fare in expected.column("fare").to_pylist())
    return True
