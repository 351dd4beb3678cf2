"""Parquet files with dates of the hybrid calendar."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.table_writer import TableWriter, at

DATE = {"type": "int", "logicalType": "date"}
TIME = {"type": "long", "logicalType": "timestamp-micros"}
FIELDS = (("id", "string"), ("ts", "long"), ("d", DATE), ("t", TIME))
SECOND = 1_000_000
DAY = 86_400 * SECOND

# 0001-01-01, 1500-03-01, 1582-10-04, 1582-10-15 and 2024-01-01 in the hybrid calendar, and as Hudi returns them.
STORED = (-719_164, -171_595, -141_428, -141_427, 19_723)
RETURNED = (-719_162, -171_605, -141_438, -141_427, 19_723)
LEGACY = {
    "org.apache.spark.version": "3.5.9",
    "org.apache.spark.legacyDateTime": "",
    "org.apache.spark.timeZone": "UTC",
}


def write(
    folder: Path,
    facts: Mapping[str, str],
    days: Sequence[int | None] = STORED,
    times: Sequence[int | None] | None = None,
    fields: tuple[tuple[str, Any], ...] = FIELDS,
    row_group_size: int | None = None,
    **options: Any,
) -> TableWriter:
    """A table with one base file whose footer has these facts; by default, times are the midnights of the days.

    A column ``n`` has the times, others than ``d`` and ``t`` have both in structs, lists and maps.
    """
    writer = TableWriter(folder=folder, fields=fields).create()
    if times is None:
        times = [None if day is None else day * DAY for day in days]
    rows = [
        {
            "id": str(number),
            "ts": 1,
            "d": day,
            "t": time,
            "n": time,
            "s": {"d": day, "in": {"t": time}},
            "l": [day, None],
            "m": {"k": time},
        }
        for number, (day, time) in enumerate(zip(days, times, strict=True))
    ]
    names = [name for name, _ in fields]
    path = writer.base_file(at(1), [{name: row[name] for name in names} for row in rows])
    table = pq.read_table(path)
    with pq.ParquetWriter(path, table.schema, store_schema=False, **options) as file:
        file.write_table(table, row_group_size)
        file.add_key_value_metadata(dict(facts))
    writer.commit(at(1))
    return writer


def plain(values: Any) -> list[int | None]:
    actual: list[int | None] = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64()).to_pylist()
    return actual
