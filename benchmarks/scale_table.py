"""A table of many file slices that Hudi writes in parts, and what an aggregate of it must be.

Each partition has a fixed number of buckets, so that changes need no look-up, and each bucket is one file slice. Rows
are narrow: a number as the record key, a version, an amount. A fifth of the partitions has updates in log files, and
half of these deletes. With ``copies``, Hudi writes a part, and the other file slices are copies of its files.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.copies import multiply_file_groups
from benchmarks.make_tables import make_tables
from benchmarks.recipes import NO_METADATA_TABLE, Recipe

UPDATED_PARTITIONS, UPDATED_ROWS = 5, 20
"""Every so many partitions, and rows in them, are updated."""
DELETED_PARTITIONS, DELETED_ROWS, DELETED_PLACE = 10, 1000, 7
"""Every so many partitions, and rows in them, have deletes."""
AMOUNTS, ADDED = 1000, 1_000_000
_WRITTEN_AT_ONCE = 10

_CREATE = """\
CREATE TABLE trades (id BIGINT, ts BIGINT, amount BIGINT, part STRING) USING hudi
TBLPROPERTIES (type = 'mor', primaryKey = 'id', preCombineField = 'ts')
PARTITIONED BY (part) LOCATION '{path}';"""
Sums = tuple[int, int, int, int]
"""The number of rows, and the sums of ``id``, ``ts`` and ``amount``."""

_SETTINGS = """\
SET hoodie.embed.timeline.server=false;
SET hoodie.metadata.index.column.stats.enable=false;
SET hoodie.compact.inline=false;
SET hoodie.parquet.compression.codec=snappy;
SET hoodie.logfile.data.block.format=avro;
SET hoodie.bulkinsert.shuffle.parallelism=20;
SET hoodie.index.type=BUCKET;
SET hoodie.bucket.index.num.buckets={buckets};
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleTable:
    """``partitions`` partitions of ``buckets`` file slices with about ``rows_in_slice`` rows each, ``copies`` times.

    Copies have the same keys as their originals, which matters to no reader: file groups are merged one by one.
    """

    partitions: int
    buckets: int
    rows_in_slice: int
    copies: int = 1

    @property
    def slices(self) -> int:
        """The number of file slices."""
        return self.partitions * self.buckets * self.copies

    @property
    def slices_with_logs(self) -> int:
        """The number of file slices with log files, if each has an updated row."""
        return len(range(0, self.partitions, UPDATED_PARTITIONS)) * self.buckets * self.copies

    @property
    def rows(self) -> int:
        """The number of rows that are inserted."""
        return self._written_rows * self.copies

    def made(self, cache: Path) -> Path:
        """The path of the table in a folder of tables; writes it unless it is there."""
        (path,) = make_tables([self.recipe], cache)
        return path if self.copies == 1 else multiply_file_groups(path, self.copies)

    @property
    def recipe(self) -> Recipe:
        """The SQL: bulk inserts of some partitions each, updates, deletes."""
        statements = [
            _CREATE,
            "SET hoodie.spark.sql.insert.into.operation=bulk_insert;",
        ]
        for first in range(0, self.partitions, _WRITTEN_AT_ONCE):
            end = min(first + _WRITTEN_AT_ONCE, self.partitions)
            rows = f"range({first * self._rows_in_partition}, {end * self._rows_in_partition}, 1, 4)"
            statements.append(f"INSERT INTO trades {self._rows(1, 0)} FROM {rows};")
        updated = (
            f"range(0, {self._written_rows}, {UPDATED_ROWS}, 4) WHERE {self._partition} % {UPDATED_PARTITIONS} = 0"
        )
        parts = ", ".join(f"'{name_of(number)}'" for number in range(0, self.partitions, DELETED_PARTITIONS))
        statements += [
            "SET hoodie.spark.sql.insert.into.operation=upsert;",
            f"INSERT INTO trades {self._rows(2, ADDED)} FROM {updated};",
            f"DELETE FROM trades WHERE part IN ({parts}) AND id % {DELETED_ROWS} = {DELETED_PLACE};",
        ]
        settings = _SETTINGS.replace("{buckets}", str(self.buckets))
        name = f"scale-{self.partitions}-{self.buckets}-{self.rows_in_slice}"
        if self.copies > 1:
            settings += "".join(f"SET {key}={value};\n" for key, value in NO_METADATA_TABLE.items())
            name += "-part"
        return Recipe(name=name, sql=settings + "\n".join(statements) + "\n")

    def sums(self) -> dict[str, Sums]:
        """What each partition holds in the end, from the same formulas as the rows."""
        return {name_of(number): self._sums(number) for number in range(self.partitions)}

    def _sums(self, number: int) -> Sums:
        ids = np.arange(number * self._rows_in_partition, (number + 1) * self._rows_in_partition, dtype=np.int64)
        versions, amounts = np.ones_like(ids), ids % AMOUNTS
        if number % UPDATED_PARTITIONS == 0:
            updated = ids % UPDATED_ROWS == 0
            versions[updated], amounts[updated] = 2, amounts[updated] + ADDED
        if number % DELETED_PARTITIONS == 0:
            left = ids % DELETED_ROWS != DELETED_PLACE
            ids, versions, amounts = ids[left], versions[left], amounts[left]
        of_one = len(ids), int(ids.sum()), int(versions.sum()), int(amounts.sum())
        rows, of_ids, of_versions, of_amounts = (number * self.copies for number in of_one)
        return rows, of_ids, of_versions, of_amounts

    @property
    def _written_rows(self) -> int:
        return self.partitions * self._rows_in_partition

    @property
    def _rows_in_partition(self) -> int:
        return self.buckets * self.rows_in_slice

    @property
    def _partition(self) -> str:
        return f"(id DIV {self._rows_in_partition})"

    def _rows(self, version: int, added: int) -> str:
        name = f"concat('p', lpad(CAST({self._partition} AS STRING), 4, '0'))"
        return f"SELECT id, CAST({version} AS BIGINT) AS ts, id % {AMOUNTS} + {added} AS amount, {name} AS part"


def name_of(number: int) -> str:
    """The value of the partition column in a partition."""
    return f"p{number:04d}"
