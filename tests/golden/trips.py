"""The table of README and docs, written by Hudi 1.2: trips.tar.xz, which tests/project/test_snippets.py runs their
blocks on.

    .venv-spark35/bin/python -m tests.golden.trips work-folder
    tar -C work-folder -cf - . | xz -9e > tests/golden/trips.tar.xz

Needs the PySpark 3.5 of ``make spark``. Instants are those of the clock: pages that name some have to be changed with
the archive.

trips           the table: merge-on-read, version 9, ordered by ts, partitioned by city
trips.parquet   its snapshot, as Hudi returned it
"""

import shutil
import sys
from pathlib import Path

from tests.golden.generate.releases import NEWEST, RELEASES
from tests.golden.generate.session import spark_session

COLUMNS = "id string, rider string, fare double, ts bigint, city string"
CITIES = ("sf", "nyc", "la")
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
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
Row = tuple[str, str, float, int, str]


def trip(number: int, fare: float, ts: int) -> Row:
    return f"trip-{number}", f"rider-{number % 5}", fare, ts, CITIES[number % 3]


def operations() -> list[tuple[str, list[Row]]]:
    """New trips; corrected fares; deletes, and one that is too late to count; a late update and new trips."""
    return [
        ("bulk_insert", [trip(number, 5.0 + number, 10) for number in range(12)]),
        ("upsert", [trip(number, 20.0 + number, 20) for number in (0, 4, 7, 9)]),
        ("delete", [trip(number, 0.0, 30) for number in (1, 3)]),
        ("upsert", [trip(7, 1.0, 15), trip(6, 40.5, 40), trip(12, 18.5, 40), trip(13, 9.5, 40)]),
    ]


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with spark_session(NEWEST, RELEASES[NEWEST].bundle.fetched()) as spark:
        for kind, rows in operations():
            frame = spark.createDataFrame(rows, COLUMNS).coalesce(1)
            writer = frame.write.format("hudi").options(**OPTIONS).option("hoodie.datasource.write.operation", kind)
            writer.mode("append").save(str(folder / "trips"))
        spark.catalog.clearCache()
        spark.read.format("hudi").load(str(folder / "trips")).coalesce(1).write.parquet(str(folder / "answer"))
        (part,) = (folder / "answer").glob("*.parquet")
        part.rename(folder / "trips.parquet")
        shutil.rmtree(folder / "answer")
    for path in folder.rglob("*.crc"):
        path.unlink()


if __name__ == "__main__":
    main()
