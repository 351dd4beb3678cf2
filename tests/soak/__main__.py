"""Readers beside real writers of Hudi: ``python -m tests.soak --minutes 10 --versions 6,8,9 --seed 1``.

Every answer has to be the table at one completed instant; what changed, applied to an earlier state, has to lead to a
later one. Prints what each reader has met; the exit status is 1 if one was wrong, or had no right answer at all. Tables
of a run that fails are kept.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from hudi_bridge.connectors.spark import register
from tests.connectors.spark.processes import environment
from tests.soak.run import Soak, soak


def local_spark(folder: Path) -> SparkSession:
    """A session of the newest Spark, for the reader."""
    os.environ |= environment(Path(sys.executable))
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    return spark


def main() -> int:
    parser = argparse.ArgumentParser(description="Readers beside real writers of Hudi.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--versions", default="6,8,9", help="the table versions, with commas between them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill-seconds", type=float, default=120, help="how often a writer is killed")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="hudi-bridge-soak-"))
    versions = tuple(int(text) for text in given.versions.split(","))
    settings = Soak(
        folder=folder, versions=versions, minutes=given.minutes, seed=given.seed, kill_seconds=given.kill_seconds
    )
    spark = local_spark(folder)
    try:
        failures = soak(settings, spark)
    finally:
        spark.stop()
    for failure in failures:
        print(failure)
    if failures:
        print(f"FAILED with seed {given.seed}; the tables are kept in {folder}")
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
