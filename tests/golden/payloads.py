"""Writes payloads.tar.xz: random writes with each payload, by releases that merge them differently, and Hudi's rows.

    .venv-spark35/bin/python -m tests.golden.payloads 0.15.0 work-folder [table ...]
    .venv-spark35/bin/python -m tests.golden.payloads 1.0.2 work-folder
    .venv-spark35/bin/python -m tests.golden.payloads 1.2.0 work-folder
    tar -C work-folder -cf - . | xz -9e > tests/golden/payloads.tar.xz

Needs the PySpark 3.5 of ``make spark``; one process per release. Instants come from the clock, so each run writes other
files; operations, keys and values are the same.

<payload>_<release>[_v<table version>]/table                   the table
<payload>_<release>[_v<table version>]/answers/<instant>.parquet   the snapshot after the commit of that instant
"""

import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session
from tests.golden.histories import newest_commit

PACKAGE = "org.apache.hudi.common.model."
UNAVAILABLE = "__debezium_unavailable_value"
PLAIN = "id string, ts int, a string, b int, st struct<x:int,y:string>, _hoodie_is_deleted boolean"
DMS = "id string, ts int, a string, b int, Op string"
POSTGRES = "id string, _event_lsn bigint, a string, b int, _change_operation_type string"
MYSQL = (
    "id string, a string, b int, _change_operation_type string, _event_bin_file string, _event_pos bigint, "
    "_event_seq string"
)
NOT_OF_10 = ("postgres", "mysql")
"""Hudi 1.0 fails to read deletes that it wrote under Debezium's payloads, or compares their sequences as text."""
KEYS = 30
KINDS = ("bulk_insert", "upsert", "delete", "upsert")

Row = tuple[Any, ...]


def perhaps(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.4 else value


def plain_row(chance: random.Random, key: str, ts: int, *, deleted: bool) -> Row:
    struct = perhaps(chance, (perhaps(chance, 1), "y"))
    return key, ts, perhaps(chance, f"a{ts}"), perhaps(chance, ts), struct, True if deleted else perhaps(chance, False)


def dms_row(chance: random.Random, key: str, ts: int, *, deleted: bool) -> Row:
    return key, ts, perhaps(chance, f"a{ts}"), perhaps(chance, ts), "D" if deleted else chance.choice(["I", "U", None])


def postgres_row(chance: random.Random, key: str, ts: int, *, deleted: bool) -> Row:
    return key, ts, chance.choice([UNAVAILABLE, None, f"a{ts}"]), ts, "d" if deleted else chance.choice("cu")


def mysql_row(chance: random.Random, key: str, ts: int, *, deleted: bool) -> Row:
    file, position = 5 + ts // 10, ts * 7 % 23 + 90
    operation = "d" if deleted else chance.choice("cu")
    return key, perhaps(chance, f"a{ts}"), ts, operation, f"mysql-bin.{file:06d}", position, f"{file:06d}.{position}"


PAYLOADS: dict[str, tuple[str, str, str, Callable[..., Row]]] = {
    "default": ("DefaultHoodieRecordPayload", "ts", PLAIN, plain_row),
    "latest": ("OverwriteWithLatestAvroPayload", "ts", PLAIN, plain_row),
    "partial": ("PartialUpdateAvroPayload", "ts", PLAIN, plain_row),
    "nondefaults": ("OverwriteNonDefaultsWithLatestAvroPayload", "ts", PLAIN, plain_row),
    "dms": ("AWSDmsAvroPayload", "ts", DMS, dms_row),
    "postgres": ("debezium.PostgresDebeziumAvroPayload", "_event_lsn", POSTGRES, postgres_row),
    "mysql": ("debezium.MySqlDebeziumAvroPayload", "_event_seq", MYSQL, mysql_row),
}
VERSIONS: dict[str, tuple[int | None, ...]] = {"0.15.0": (None,), "1.0.2": (None,), "1.2.0": (6, 8, None)}
"""The table versions that a release writes here, None for its own."""


def operations(row: Callable[..., Row]) -> Iterator[tuple[str, list[Row]]]:
    """The operation of each step, and its rows: late ones and ties among them."""
    chance = random.Random(row.__name__)
    for kind in KINDS:
        share = 0.8 if kind == "bulk_insert" else 0.3 if kind == "delete" else 0.6
        keys = [f"k{number:02d}" for number in range(KEYS) if chance.random() < share]
        times = [10 if kind == "bulk_insert" else chance.choice([5, 10, 15, 20]) for _ in keys]
        yield (
            kind,
            [
                row(chance, key, ts, deleted=kind == "upsert" and chance.random() < 0.25)
                for key, ts in zip(keys, times, strict=True)
            ],
        )


def write_table(spark: SparkSession, folder: Path, payload: str, release: str, version: int | None) -> None:
    java_class, ordering, schema, row = PAYLOADS[payload]
    if payload == "mysql" and release == "1.2.0":
        ordering = "_event_bin_file,_event_pos"
    options = {
        "hoodie.table.name": folder.name,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.precombine.field": ordering,
        "hoodie.table.ordering.fields": ordering,
        "hoodie.datasource.write.payload.class": PACKAGE + java_class,
        "hoodie.payload.ordering.field": ordering.partition(",")[0],
        "hoodie.payload.event.time.field": ordering.partition(",")[0],
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.index.type": "SIMPLE",
        "hoodie.simple.index.parallelism": "1",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.parquet.compression.codec": "uncompressed",
        "hoodie.write.auto.upgrade": "false",
    }
    if release == "0.15.0":
        del options["hoodie.table.ordering.fields"]
    if version is not None:
        options["hoodie.write.table.version"] = str(version)
    for kind, rows in operations(row):
        frame = spark.createDataFrame(rows, schema).coalesce(1)
        writer = frame.write.format("hudi").options(**options).option("hoodie.datasource.write.operation", kind)
        writer.mode("append").save(str(folder / "table"))
        spark.catalog.clearCache()
        actual = spark.read.format("hudi").load(str(folder / "table")).coalesce(1)
        answer = folder / "answers" / newest_commit(folder / "table")
        actual.write.option("compression", "none").parquet(str(answer))
        (part,) = answer.glob("*.parquet")
        part.rename(answer.with_suffix(".parquet"))
        shutil.rmtree(answer)
    for path in folder.rglob("*.crc"):
        path.unlink()
    print(folder.name, flush=True)


def main() -> None:
    release, work, chosen = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    with spark_session(release, RELEASES[release].bundle.fetched()) as spark:
        for version in VERSIONS[release]:
            for payload in PAYLOADS:
                name = f"{payload}_{release.replace('.', '')}" + (f"_v{version}" if version else "")
                is_left_out = release == "1.0.2" and payload in NOT_OF_10
                if not is_left_out and (not chosen or name in chosen):
                    shutil.rmtree(work / name, ignore_errors=True)
                    (work / name).mkdir(parents=True)
                    write_table(spark, work / name, payload, release, version)


if __name__ == "__main__":
    main()
