"""The sample tables of the package, hudi_bridge/samples/tables.zip, which Hudi 1.2 wrote, and the rows that it gave.

    .venv-spark35/bin/python -m tests.golden.samples work-folder [TABLE...]
    .venv-spark35/bin/python -m tests.golden.samples work-folder --pack

The first writes tables, all of them or those named; the second packs all that are there. Needs the PySpark 3.5 of
``make spark``. Instants are those of the clock: pages that name some have to be changed with a table.

trips            merge-on-read, ordered by ts, partitioned by city, with updates and deletes in logs
lake             a folder of tables: trips, the same, and sales/refunds, of some trips
riders           columns with ids: renamed, promoted, dropped, added
riders_by_name   columns without ids, which changed likewise
counters         with a payload class of its own, in CounterPayload.java
customers        likewise, in AddressPayload.java
scores           with a merger of its own, in HighestScoreMerger.java
answers          the snapshot of each, as Hudi returned it
"""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from tests.golden.generate.releases import NEWEST, RELEASES, ROOT
from tests.golden.generate.session import spark_session

ARCHIVE = ROOT / "hudi_bridge" / "samples" / "tables.zip"
CITIES = ("sf", "nyc", "la")
COMMON = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.type": "SIMPLE",
    "hoodie.simple.index.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
    "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    "hoodie.index.bloom.num_entries": "50",
}
MERGER = {
    "hoodie.write.record.merge.mode": "CUSTOM",
    "hoodie.write.record.merge.strategy.id": "6d3f0c1e-52a4-4f0b-9a55-0e6b2f7a1c11",
    "hoodie.write.record.merge.custom.implementation.classes": "HighestScoreMerger",
    "hoodie.logfile.data.block.format": "parquet",
}
"""The options of scores."""
READING = {"scores": MERGER, "riders": {"hoodie.schema.on.read.enable": "true"}}
"""The options without which Hudi does not give the rows of a table."""
Row = tuple[object, ...]


def compiled(bundle: Path, folder: Path) -> Path:
    """A jar with the classes of tables."""
    java = Path(os.environ["JAVA_HOME"]) / "bin"
    sources = [Path(__file__).with_name(f"{name}.java") for name in JAVA]
    jars = Path(pyspark.__file__).parent / "jars"
    subprocess.run([java / "javac", "-cp", f"{bundle}:{jars}/*", "-d", folder / "classes", *sources], check=True)
    jar = folder / "payloads.jar"
    subprocess.run([java / "jar", "cf", jar, "-C", folder / "classes", "."], check=True)
    return jar


def write(
    spark: SparkSession, path: Path, operation: str, columns: str, rows: list[Row], more: Mapping[str, str]
) -> None:
    """One commit."""
    options = COMMON | {"hoodie.table.name": path.name, "hoodie.datasource.write.operation": operation} | dict(more)
    frame = spark.createDataFrame(rows, columns).coalesce(1)
    frame.write.format("hudi").options(**options).mode("append").save(str(path))


def trip(number: int, fare: float, ts: int) -> Row:
    return f"trip-{number}", f"rider-{number % 5}", fare, ts, CITIES[number % 3]


def write_trips(spark: SparkSession, path: Path) -> None:
    """New trips; corrected fares; deletes; an update that is too late to count, one that is not, and new trips."""
    for operation, rows in (
        ("bulk_insert", [trip(number, 5.0 + number, 10) for number in range(12)]),
        ("upsert", [trip(number, 20.0 + number, 20) for number in (0, 4, 7, 9)]),
        ("delete", [trip(number, 0.0, 30) for number in (1, 3)]),
        ("upsert", [trip(7, 1.0, 15), trip(6, 40.5, 40), trip(12, 18.5, 40), trip(13, 9.5, 40)]),
    ):
        columns = "id string, rider string, fare double, ts bigint, city string"
        write(spark, path, operation, columns, rows, {"hoodie.datasource.write.partitionpath.field": "city"})


def write_refunds(spark: SparkSession, path: Path) -> None:
    """What was paid back for some trips, and one amount corrected."""
    columns = "id string, amount double, ts bigint"
    write(spark, path, "bulk_insert", columns, [("trip-0", 2.0, 50), ("trip-9", 2.5, 50)], {})
    write(spark, path, "upsert", columns, [("trip-0", 2.5, 60)], {})


def write_riders(spark: SparkSession, path: Path) -> None:
    """Columns with ids, changed by ALTER TABLE between upserts."""
    spark.conf.set("hoodie.schema.on.read.enable", "true")
    spark.conf.set("hoodie.datasource.write.schema.allow.auto.evolution.column.drop", "true")
    properties = {"type": "mor", "primaryKey": "id", "preCombineField": "ts"} | {
        name: value for name, value in COMMON.items() if not name.startswith("hoodie.datasource.")
    }
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    name = path.name
    columns = "id STRING, name STRING, trips INT, score FLOAT, city STRING, ts BIGINT"
    rows = (
        ("rider-0", "Ada", 3, 4.5, "sf", 10),
        ("rider-1", "Grace", 2, 5.0, "la", 10),
        ("rider-2", "Alan", 7, 3.5, "la", 10),
    )
    for statement in (
        f"CREATE TABLE {name} ({columns}) USING hudi TBLPROPERTIES ({listed}) LOCATION '{path}'",
        f"INSERT INTO {name} VALUES {', '.join(map(str, rows))}",
        f"ALTER TABLE {name} RENAME COLUMN name TO full_name",
        f"ALTER TABLE {name} ALTER COLUMN trips TYPE BIGINT",
        f"UPDATE {name} SET full_name = 'Grace Hopper', trips = 4000000000, ts = 20 WHERE id = 'rider-1'",
        f"ALTER TABLE {name} DROP COLUMN city",
        f"ALTER TABLE {name} ADD COLUMNS (zip STRING AFTER full_name)",
        f"UPDATE {name} SET zip = '90001', ts = 30 WHERE id = 'rider-2'",
        f"ALTER TABLE {name} ALTER COLUMN score TYPE DOUBLE",
    ):
        spark.sql(statement)
    spark.sql(f"DROP TABLE {name}")
    spark.conf.unset("hoodie.schema.on.read.enable")


def write_riders_by_name(spark: SparkSession, path: Path) -> None:
    """Columns without ids, changed by the columns of what is written."""
    more = {
        "hoodie.datasource.write.reconcile.schema": "false",
        "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
        # Rows that are new go into files of their own, so that no old one is written again.
        "hoodie.parquet.small.file.limit": "0",
    }
    columns = "id string, ts bigint, trips int, name string"
    write(spark, path, "bulk_insert", columns, [("rider-0", 10, 3, "Ada"), ("rider-1", 10, 2, "Grace")], more)
    columns = "id string, ts bigint, trips bigint, full_name string"
    write(spark, path, "upsert", columns, [("rider-1", 20, 4_000_000_000, "Grace Hopper")], more)
    columns = "id string, ts bigint, trips bigint, full_name string, zip string"
    write(spark, path, "upsert", columns, [("rider-2", 30, 7, "Alan", "90001")], more)


def write_counters(spark: SparkSession, path: Path) -> None:
    """A counter, written twice."""
    more = {"hoodie.datasource.write.payload.class": "com.acme.CounterPayload"}
    columns = "id string, count bigint, ts bigint"
    write(spark, path, "bulk_insert", columns, [("a", 2, 1)], more)
    write(spark, path, "upsert", columns, [("a", 3, 2)], more)


def write_customers(spark: SparkSession, path: Path) -> None:
    """A customer whose address is newer than the row that comes after it."""
    more = {"hoodie.datasource.write.payload.class": "com.acme.AddressPayload"}
    columns = "id string, name string, address string, address_changed bigint, ts bigint"
    write(spark, path, "bulk_insert", columns, [("a", "A. Old", "new street", 5, 1)], more)
    write(spark, path, "upsert", columns, [("a", "A. New", "old street", 1, 2)], more)


def write_scores(spark: SparkSession, path: Path) -> None:
    """A score, written twice, of which the first is higher."""
    write(spark, path, "bulk_insert", "id string, score int, ts bigint", [("a", 9, 1)], MERGER)
    write(spark, path, "upsert", "id string, score int, ts bigint", [("a", 4, 2)], MERGER)


TABLES: Mapping[str, Callable[[SparkSession, Path], None]] = {
    "trips": write_trips,
    "lake/sales/refunds": write_refunds,
    "riders": write_riders,
    "riders_by_name": write_riders_by_name,
    "counters": write_counters,
    "customers": write_customers,
    "scores": write_scores,
}
JAVA = ("AddressPayload", "CounterPayload", "HighestScoreMerger")
"""The classes that tables name, which their readers do not need."""


def main() -> None:
    folder, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    if names == ["--pack"]:
        pack(folder)
        return
    bundle = RELEASES[NEWEST].bundle.fetched()
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        spark_session(NEWEST, bundle, {"spark.jars": f"{bundle},{compiled(bundle, Path(scratch))}"}) as spark,
    ):
        for name in names or TABLES:
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            TABLES[name](spark, folder / name)
            spark.catalog.clearCache()
            write_answer(spark, folder, name)


def write_answer(spark: SparkSession, folder: Path, name: str) -> None:
    """Writes the rows that Hudi returns for a table."""
    answer = folder / "answers" / name
    shutil.rmtree(answer, ignore_errors=True)
    frame = spark.read.format("hudi").options(**READING.get(name, {})).load(str(folder / name))
    frame.coalesce(1).write.parquet(str(answer))
    (part,) = answer.glob("*.parquet")
    part.rename(answer.with_suffix(".parquet"))
    shutil.rmtree(answer)


def pack(folder: Path) -> None:
    """Packs the tables and answers, and trips once more as one of a lake."""
    for name in ("", "answers/"):
        (folder / name / "lake").mkdir(parents=True, exist_ok=True)
    shutil.copytree(folder / "trips", folder / "lake" / "trips", dirs_exist_ok=True)
    shutil.copy(folder / "answers" / "trips.parquet", folder / "answers" / "lake" / "trips.parquet")
    with zipfile.ZipFile(ARCHIVE, "w") as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix != ".crc":
                # Without the times of files, the same tables give the same bytes.
                member = zipfile.ZipInfo(path.relative_to(folder).as_posix())
                archive.writestr(member, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
