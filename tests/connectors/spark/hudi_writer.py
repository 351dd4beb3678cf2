"""A writer of Hudi, run by ``test_spark_writer`` in PySpark 3.5: ``hudi_writer.py BUNDLE TABLE ROUNDS``.

Waits for a line before each round, and answers when it is written: upserts and deletes, with compaction, clustering,
cleaning and archiving as they fall due.
"""

import sys

from tests.connectors.spark.hudi_session import hudi_session

ROWS = 60
SETTINGS = {
    "hoodie.embed.timeline.server": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "4",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "8",
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "5",
}


def main(bundle: str, table: str, rounds: int) -> None:
    spark = hudi_session(bundle, "local[1]", {"spark.sql.warehouse.dir": f"{table}-warehouse"})
    for name, value in SETTINGS.items():
        spark.sql(f"SET {name}={value}")
    properties = "type = 'mor', primaryKey = 'id', preCombineField = 'ts'"
    spark.sql(
        "CREATE TABLE trips (id STRING, ts BIGINT, fare DOUBLE, city STRING) USING hudi "
        f"TBLPROPERTIES ({properties}) PARTITIONED BY (city) LOCATION '{table}'"
    )
    for number in range(rounds):
        sys.stdin.readline()
        first = number * 7 % ROWS
        rows = (
            f"SELECT concat('k', lpad(id, 3, '0')) AS id, {number}L AS ts, id + {number} / 100.0D AS fare, "
            f"concat('c', id % 2) AS city FROM range({first if number else 0}, {first + 20 if number else ROWS})"
        )
        spark.sql(
            f"MERGE INTO trips USING ({rows}) AS new ON trips.id = new.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        spark.sql(f"DELETE FROM trips WHERE id LIKE 'k__{number % 10}' AND fare < {first + 12}")
        print("written", flush=True)  # noqa: T201 - what the test reads
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
