"""Writes histories.tar.xz: random histories by real Hudi, with the rows that Hudi returned after each step.

    .venv-spark35/bin/python -m tests.golden.histories 1.2.0 work-folder [history ...]
    .venv-spark35/bin/python -m tests.golden.histories 0.15.0 work-folder
    tar -C work-folder -cf - . | xz -9e > tests/golden/histories.tar.xz

Needs the PySpark 3.5 of ``make spark``; one process per release. Instants come from the clock, so each run writes other
files; operations, keys and values are the same.

<history>/table        the table
<history>/steps.json   for each step its operation, and the requested time of the newest commit after it
<history>/states.parquet   the rows after each step: the number of the step, and the columns id, part, ts, v
"""

import json
import random
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session

SCHEMA = "id string, part string, ts bigint, v double"
_STATE: dict[str, pa.DataType] = {
    "step": pa.int32(),
    "id": pa.string(),
    "part": pa.string(),
    "ts": pa.int64(),
    "v": pa.float64(),
}
STATES = pa.schema(_STATE)
Record = tuple[str, str, int, float]
MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
COPY_ON_WRITE = {"hoodie.datasource.write.table.type": "COPY_ON_WRITE"}
CLEANING = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "7",
}
KEEPING = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
LOGGED = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE"}
HISTORIES = {
    "mor_v9": ("1.2.0", 1, MERGE_ON_READ | KEEPING),
    "mor_v9_cleaned": ("1.2.0", 2, MERGE_ON_READ | CLEANING),
    "mor_v9_global": ("1.2.0", 3, MERGE_ON_READ | KEEPING | GLOBAL),
    "mor_v9_logged": ("1.2.0", 4, MERGE_ON_READ | KEEPING | LOGGED),
    "cow_v9": ("1.2.0", 5, COPY_ON_WRITE | KEEPING | GLOBAL),
    "cow_v9_logged": ("1.2.0", 6, COPY_ON_WRITE | KEEPING | LOGGED),
    "mor_v6_by_120": ("1.2.0", 7, MERGE_ON_READ | KEEPING | {"hoodie.write.table.version": "6"}),
    "mor_v6": ("0.15.0", 8, MERGE_ON_READ | KEEPING),
    "mor_v6_cleaned": ("0.15.0", 9, MERGE_ON_READ | CLEANING),
    "mor_v6_logged": (
        "0.15.0",
        10,
        MERGE_ON_READ | KEEPING | LOGGED | {"hoodie.table.cdc.supplemental.logging.mode": "data_before_after"},
    ),
}
STEPS = 12
KEYS = [f"k{number:02d}" for number in range(16)]


def operations(seed: int) -> Iterator[tuple[str, list[Record]]]:
    """The operation of each step, and its rows."""
    chance = random.Random(seed)
    home = {key: chance.choice("pq") for key in KEYS}
    alive: set[str] = set()
    for step in range(STEPS):
        kinds = [
            "upsert",
            "upsert",
            "upsert",
            "delete",
            "delete",
            "insert_overwrite",
            "delete_partition",
            "compact",
            "cluster",
        ]
        kind = "upsert" if step == 0 or not alive else chance.choice(kinds)
        keys = chance.sample(KEYS, chance.randrange(2, 7)) if step else KEYS[:10]
        if kind == "delete":
            keys = chance.sample(sorted(alive), min(len(alive), chance.choice([1, 2, 3, len(alive)])))
        if chance.random() < 0.3 and kind == "upsert":
            home |= {key: chance.choice("pq") for key in keys[:2]}
        yield kind, [(key, home[key], step * 10, chance.uniform(-9, 9)) for key in keys]
        alive = alive - set(keys) if kind == "delete" else alive | set(keys)


def newest_commit(table: Path) -> str:
    folder = table / ".hoodie" / "timeline"
    names = [path.name for path in (folder if folder.is_dir() else table / ".hoodie").iterdir()]
    done = [name for name in names if name.endswith((".commit", ".deltacommit", ".replacecommit"))]
    return max(name.partition(".")[0].partition("_")[0] for name in done)


def write_history(spark: SparkSession, folder: Path, name: str, seed: int, options: Mapping[str, str]) -> None:
    table = folder / "table"
    base = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.simple.index.parallelism": "1",
        "hoodie.global.simple.index.parallelism": "1",
        "hoodie.bloom.index.parallelism": "1",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
        "hoodie.parquet.compression.codec": "uncompressed",
        "hoodie.write.auto.upgrade": "false",
    } | dict(options)
    extra = {
        "compact": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
        "cluster": {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"},
    }
    steps: list[dict[str, str]] = []
    states: list[dict[str, Any]] = []
    is_merged = options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ"
    for drawn, rows in operations(seed):
        kind = "upsert" if drawn == "compact" and not is_merged else drawn
        operation = "upsert" if kind in extra else kind
        frame = spark.createDataFrame(rows, SCHEMA).coalesce(1)
        writer = frame.write.format("hudi").options(**base).option("hoodie.datasource.write.operation", operation)
        for key, value in extra.get(kind, {}).items():
            writer = writer.option(key, value)
        if kind == "delete_partition":
            writer = writer.option("hoodie.datasource.write.partitions.to.delete", rows[0][1])
        writer.mode("append").save(str(table))
        spark.catalog.clearCache()
        actual = spark.read.format("hudi").load(str(table)).select("id", "part", "ts", "v").collect()
        states += [{"step": len(steps)} | row.asDict() for row in actual]
        steps.append({"operation": kind, "commit": newest_commit(table)})
    (folder / "steps.json").write_text(json.dumps(steps, indent=1))
    pq.write_table(pa.Table.from_pylist(states, STATES), folder / "states.parquet", compression="none")
    for path in table.rglob("*.crc"):
        path.unlink()
    print(name, len(steps), "steps", flush=True)


def main() -> None:
    version, work, chosen = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    with spark_session(version, RELEASES[version].bundle.fetched()) as spark:
        for name, (release, seed, options) in HISTORIES.items():
            if release == version and (not chosen or name in chosen):
                shutil.rmtree(work / name, ignore_errors=True)
                (work / name).mkdir(parents=True)
                write_history(spark, work / name, name, seed, options)


if __name__ == "__main__":
    main()
