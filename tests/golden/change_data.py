"""Writes change_data.tar.xz: tables with change data capture by real Hudi, with the answers to its cdc queries.

    .venv-spark35/bin/python -m tests.golden.change_data work-folder
    tar -C work-folder -cf - . | xz -9e > tests/golden/change_data.tar.xz

Needs the PySpark 3.5 of ``make spark``. Instants come from the clock, so each run writes other files; operations, keys
and values are the same.

<table>/table        the table: every type, every supplemental logging mode, every way in which Hudi finds changes
<table>/cdc.parquet  the answer to the cdc query for all changes
"""

import datetime as dt
import random
import shutil
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.golden.generate.releases import RELEASES
from tests.golden.generate.session import spark_session

RELEASE = "1.2.0"
COLUMNS = (
    "id string, part string, ts bigint, bo boolean, sh smallint, f float, d double, s string, b binary, da date, "
    "tm timestamp, ntz timestamp_ntz, small decimal(10,2), large decimal(38,18), small_fraction decimal(38,38), "
    "m map<string,string>, mi map<string,bigint>, md map<string,decimal(10,2)>, "
    "ms map<string,struct<p:int,q:string,r:int,s:int,t:int>>, "
    "st struct<a:int,b:int,c:string,d:int,e:double,ff:float,g:string>, ar array<string>, "
    "ast array<struct<x:int,y:string>>, aa array<array<int>>, "
    "deep struct<z:array<struct<k:map<string,int>,bb:binary,dd:date,tt:timestamp>>>, ad array<decimal(20,3)>, "
    "mf map<string,double>"
)
TABLES = {
    "mor_op_key_only": ("MERGE_ON_READ", "OP_KEY_ONLY"),
    "mor_data_before": ("MERGE_ON_READ", "DATA_BEFORE"),
    "cow_data_before_after": ("COPY_ON_WRITE", "DATA_BEFORE_AFTER"),
}
CONTROLS = "".join(
    map(chr, [*range(32), 0x7F, 0x80, 0x9F, 0xA0, 0x2000, 0x2028, 0x20FF, 0x2100, 0xD7FF, 0xE000, 0xFFFF, 0x1F600])
)
STRINGS = [CONTROLS, "", "é", "a/b</script>", 'quote " and \\']
FLOATS = [
    0.0,
    -0.0,
    1.5,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e-45,
    3.4028235e38,
    0.1,
    12345678.9,
    1e-3,
    9.999e-4,
]
DOUBLES = [*FLOATS[:6], 5e-324, 1.7976931348623157e308, 1e22, 1e23, 2.0**-44, 1 / 3, 1e7, 9999999.0]
DATES = [dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]
TIMES = [
    dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
    dt.datetime(2024, 2, 29, 12, 34, 56, 789012),
    dt.datetime(9999, 12, 31, 23, 59, 59, 999999),
]
WORDS = ["a", "bb", "ccc", "Zz", "ünï", "日本", '"q"', "tab\t", *(f"key {number}" for number in range(40))]


def row(number: int, ts: int) -> tuple[Any, ...]:
    chance = random.Random(f"{number}/{ts}")

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    def entries(most: int, value: Callable[[], Any]) -> Any:
        return maybe({chance.choice(WORDS): maybe(value()) for _ in range(chance.randrange(most))})

    def items(most: int, value: Callable[[], Any]) -> Any:
        return maybe([value() for _ in range(chance.randrange(most))])

    def inner() -> tuple[Any, ...]:
        return (
            entries(8, lambda: 1),
            maybe(bytearray(b"\x00\xff")),
            maybe(chance.choice(DATES)),
            maybe(chance.choice(TIMES)),
        )

    return (
        f"k{number:03d}",
        "pq"[number % 2],
        ts,
        maybe(chance.random() < 0.5),
        maybe(chance.randrange(-(2**15), 2**15)),
        maybe(chance.choice(FLOATS)),
        maybe(chance.choice(DOUBLES)),
        maybe(chance.choice(STRINGS)),
        maybe(bytearray(range(256))),
        maybe(chance.choice(DATES)),
        maybe(chance.choice(TIMES)),
        maybe(chance.choice(TIMES)),
        maybe(Decimal(chance.choice(["99999999.99", "-1.10", "0"]))),
        maybe(Decimal("-0.000000000000000001")),
        maybe(Decimal("0." + "9" * 38)),
        entries(14, lambda: chance.choice(WORDS)),
        entries(6, lambda: chance.randrange(9)),
        entries(7, lambda: Decimal("1.50")),
        entries(7, lambda: (maybe(1), maybe("q"), maybe(3), maybe(4), maybe(5))),
        maybe((maybe(1), maybe(2), maybe("c"), maybe(4), maybe(1.5), maybe(0.1), maybe("g"))),
        items(4, lambda: "x"),
        items(3, lambda: (maybe(1), maybe("y"))),
        maybe([[1, 2], [], [3]]),
        maybe((items(3, inner),)),
        items(3, lambda: Decimal("-1.5")),
        entries(4, lambda: float("nan")),
    )


def write(spark: SparkSession, folder: Path, name: str, table_type: str, mode: str) -> None:
    table = folder / "table"
    base = {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": mode,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.upsert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1",
        "hoodie.index.bloom.num_entries": "50",
        "hoodie.bloom.index.filter.dynamic.max.entries": "50",
    }

    def step(numbers: Iterable[int], ts: int, operation: str = "upsert", **options: str) -> None:
        frame = spark.createDataFrame([row(number, ts) for number in numbers], COLUMNS).coalesce(1)
        writer = frame.write.format("hudi").options(**base | {"hoodie.datasource.write.operation": operation} | options)
        writer.mode("append").save(str(table))

    compaction = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    clustering = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
    step(range(16), 1)
    step([*range(0, 16, 2), 16], 2)
    step(range(0, 16, 5), 3, "delete")
    step(range(0, 16, 3), 4, **(compaction if table_type == "MERGE_ON_READ" else {}))
    step([0, 2, 17], 5, "insert_overwrite")
    step([2, 3], 6, **clustering)
    step([2, 5, 18], 7)
    step([1], 8, "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": "q"})
    question = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": "000",
        "hoodie.datasource.query.incremental.format": "cdc",
    }
    answer = [item.asDict() for item in spark.read.format("hudi").options(**question).load(str(table)).collect()]
    columns = pa.schema([(column, pa.string()) for column in ("op", "ts_ms", "before", "after")])
    pq.write_table(pa.Table.from_pylist(answer, columns), folder / "cdc.parquet", compression="none")
    for path in table.rglob("*.crc"):
        path.unlink()
    print(name, len(answer), "changes", flush=True)


def main() -> None:
    work = Path(sys.argv[1])
    with spark_session(RELEASE, RELEASES[RELEASE].bundle.fetched()) as spark:
        for name, (table_type, mode) in TABLES.items():
            shutil.rmtree(work / name, ignore_errors=True)
            (work / name).mkdir(parents=True)
            write(spark, work / name, name, table_type, mode)


if __name__ == "__main__":
    main()
