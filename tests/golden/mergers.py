"""Writes mergers.tar.xz: a table whose merge strategy is one of its writer's own, and Hudi's rows after each commit.

    .venv-spark35/bin/python -m tests.golden.mergers work-folder
    tar -C work-folder -cf - highest_score_120 | xz -9e > tests/golden/mergers.tar.xz

Needs the PySpark 3.5 of ``make spark``, and a JDK, which compiles the merger. Instants come from the clock.

highest_score_120/table                       the table
highest_score_120/answers/<instant>.parquet   the snapshot after the commit of that instant
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.histories import newest_commit

SOURCE = Path(__file__).with_name("HighestScoreMerger.java")
STRATEGY = "6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11"
SCHEMA = "id string, ts int, score int, note string"
MERGER = {
    "hoodie.write.record.merge.mode": "CUSTOM",
    "hoodie.write.record.merge.strategy.id": STRATEGY,
    "hoodie.write.record.merge.custom.implementation.classes": SOURCE.stem,
}
OPTIONS = MERGER | {
    "hoodie.table.name": "highest_score",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.index.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    "hoodie.logfile.data.block.format": "parquet",
}
Row = tuple[str, int, int, str]


def operations() -> Iterator[tuple[str, list[Row]]]:
    """The operation of each commit, and its rows: scores that rise, fall and stay, deletes, and keys that return."""
    yield "bulk_insert", [(f"k{key}", 1, 5, "first") for key in range(10)]
    yield "upsert", [(f"k{key}", 2, score, "second") for key, score in enumerate([9, 5, 1, 7, 1, 9])]
    yield "delete", [("k4", 3, 0, ""), ("k5", 3, 0, ""), ("k6", 3, 0, "")]
    yield "upsert", [(f"k{key}", 0, score, "third") for key, score in enumerate([8, 6, 3, 7, 0, 2, 9, 4])]
    yield "upsert", [("k8", 5, 1, "fourth"), ("k9", 5, 8, "fourth"), ("k5", 5, 1, "fourth"), ("k10", 5, 1, "fourth")]


def compiled(bundle: Path, folder: Path) -> Path:
    """A jar with the merger."""
    java = Path(os.environ["JAVA_HOME"]) / "bin"
    subprocess.run([java / "javac", "-cp", bundle, "-d", folder, SOURCE], check=True)
    jar = folder / "merger.jar"
    subprocess.run([java / "jar", "cf", jar, "-C", folder, f"{SOURCE.stem}.class"], check=True)
    return jar


def write_table(spark: SparkSession, folder: Path) -> None:
    for operation, rows in operations():
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
        writer = frame.write.format("hudi").options(**OPTIONS).option("hoodie.datasource.write.operation", operation)
        writer.mode("append").save(str(folder / "table"))
        spark.catalog.clearCache()
        found = spark.read.format("hudi").options(**MERGER).load(str(folder / "table")).coalesce(1)
        answer = folder / "answers" / newest_commit(folder / "table")
        found.write.option("compression", "none").parquet(str(answer))
        (part,) = answer.glob("*.parquet")
        part.rename(answer.with_suffix(".parquet"))
        shutil.rmtree(answer)
    for path in folder.rglob("*.crc"):
        path.unlink()


def main() -> None:
    folder = Path(sys.argv[1]) / "highest_score_120"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bundle = RELEASES[NEWEST].bundle.fetched()
    with tempfile.TemporaryDirectory() as scratch:
        jars = f"{bundle},{compiled(bundle, Path(scratch))}"
        with spark_session(NEWEST, Path(jars)) as spark:
            write_table(spark, folder)


if __name__ == "__main__":
    main()
