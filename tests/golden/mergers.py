"""Writes mergers.tar.xz: tables whose merge strategy is one of their writer's own, and Hudi's rows after each commit.

    .venv-spark35/bin/python -m tests.golden.mergers work-folder [table ...]
    tar -C work-folder --sort=name -cf - . | xz -9e > tests/golden/mergers.tar.xz

Needs the PySpark 3.5 of ``make spark``, and a JDK, which compiles the mergers. Instants come from the clock.

<table>/table                       the table
<table>/answers/<instant>.parquet   the snapshot after the commit of that instant
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.histories import newest_commit

COMMON = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    # Rows that are new go into files of their own, so that no update is merged while writing.
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.index.type": "SIMPLE",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    "hoodie.logfile.data.block.format": "parquet",
}
Step = tuple[str, Sequence[tuple[object, ...]]]
"""The operation of a commit, and its rows."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its merger, the id of its strategy, and what is written."""

    merger: str
    strategy: str
    schema: str
    steps: tuple[Step, ...]

    @property
    def merging(self) -> dict[str, str]:
        """The options that name the merger, which readers need, too."""
        return {
            "hoodie.write.record.merge.mode": "CUSTOM",
            "hoodie.write.record.merge.strategy.id": self.strategy,
            "hoodie.write.record.merge.custom.implementation.classes": self.merger,
        }


TABLES = {
    # Scores that rise, fall and stay, deletes, and keys that return.
    "highest_score_120": Table(
        merger="HighestScoreMerger",
        strategy="6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11",
        schema="id string, ts int, score int, note string",
        steps=(
            ("bulk_insert", [(f"k{key}", 1, 5, "first") for key in range(10)]),
            ("upsert", [(f"k{key}", 2, score, "second") for key, score in enumerate([9, 5, 1, 7, 1, 9])]),
            ("delete", [("k4", 3, 0, ""), ("k5", 3, 0, ""), ("k6", 3, 0, "")]),
            ("upsert", [(f"k{key}", 0, score, "third") for key, score in enumerate([8, 6, 3, 7, 0, 2, 9, 4])]),
            ("upsert", [(key, 5, score, "fourth") for key, score in (("k8", 1), ("k9", 8), ("k5", 1), ("k10", 1))]),
        ),
    ),
    # Deletes that come late, meet rows and deletes, and are refused; rows that come late; sums that delete.
    "sum_of_scores_120": Table(
        merger="SumOfScoresMerger",
        strategy="0b8f4b52-9a43-4b8e-8f0e-2f6f6f7c9a34",
        schema="id string, ts int, score int, note string, _hoodie_is_deleted boolean",
        steps=(
            ("bulk_insert", [(f"k{key:02}", 10, 5, "stays" if key > 11 else "first", False) for key in range(16)]),
            (
                "upsert",
                [
                    *((f"k{key:02}", ts, 6, "second", False) for key, ts in enumerate([12, 8, 12, 12, 12])),
                    *((f"k{key:02}", ts, 0, "", True) for key, ts in ((5, 9), (6, 11), (7, 15), (8, 15), (12, 20))),
                    ("k13", 12, 1, "stays", False),
                    ("k20", 12, 1, "in", False),
                ],
            ),
            (
                "upsert",
                [
                    *((f"k{key:02}", 20, 15, "third", False) for key in (0, 1, 9)),
                    *((f"k{key:02}", ts, 0, "", True) for key, ts in ((2, 11), (3, 13), (5, 20), (6, 5), (13, 30))),
                    *((f"k{key:02}", ts, 1, "third", False) for key, ts in ((7, 14), (8, 16), (20, 5))),
                ],
            ),
            ("delete", [(f"k{key:02}", 1, 0, "", False) for key in (1, 4, 10, 14)]),
            (
                "upsert",
                [
                    *((f"k{key:02}", ts, 2, "fifth", False) for key, ts in ((0, 21), (1, 1), (3, 12), (4, 30))),
                    *((f"k{key:02}", ts, 2, "fifth", False) for key, ts in ((6, 7), (10, 9), (13, 40), (5, 19))),
                    *((f"k{key:02}", 50, 0, "", True) for key in (9, 20)),
                ],
            ),
        ),
    ),
}


def compiled(bundle: Path, folder: Path) -> Path:
    """A jar with the mergers."""
    java = Path(os.environ["JAVA_HOME"]) / "bin"
    sources = [Path(__file__).with_name(f"{table.merger}.java") for table in TABLES.values()]
    subprocess.run([java / "javac", "-cp", bundle, "-d", folder / "classes", *sources], check=True)
    jar = folder / "mergers.jar"
    subprocess.run([java / "jar", "cf", jar, "-C", folder / "classes", "."], check=True)
    return jar


def write_table(spark: SparkSession, folder: Path, name: str, table: Table) -> None:
    """Writes a table, and asks Hudi for its rows after each commit."""
    shutil.rmtree(folder, ignore_errors=True)
    path = folder / "table"
    for operation, rows in table.steps:
        writer = spark.createDataFrame(rows, table.schema).coalesce(1).write.format("hudi")
        writer = writer.options(**COMMON, **{"hoodie.table.name": name.rpartition("_")[0]}, **table.merging)
        writer.option("hoodie.datasource.write.operation", operation).mode("append").save(str(path))
        spark.catalog.clearCache()
        actual = spark.read.format("hudi").options(**table.merging).load(str(path)).coalesce(1)
        answer = folder / "answers" / newest_commit(path)
        actual.write.option("compression", "none").parquet(str(answer))
        (part,) = answer.glob("*.parquet")
        part.rename(answer.with_suffix(".parquet"))
        shutil.rmtree(answer)
    for crc in folder.rglob("*.crc"):
        crc.unlink()


def main() -> None:
    """Writes all tables, or those that are named."""
    to, *names = sys.argv[1:]
    bundle = RELEASES[NEWEST].bundle.fetched()
    with tempfile.TemporaryDirectory() as scratch:
        jars = f"{bundle},{compiled(bundle, Path(scratch))}"
        with spark_session(NEWEST, Path(jars)) as spark:
            for name in names or TABLES:
                write_table(spark, Path(to).resolve() / name, name, TABLES[name])


if __name__ == "__main__":
    main()
