"""Golden tables in the metastore of a server's Hive catalog, as Hudi's sync registers them, for tests."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from hudi_bridge import HudiTable

PARQUET = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
READ_OPTIMIZED = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
REALTIME = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"
SERDE = {
    "serDe": "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
    "outputFormat": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
}
"""What is the same with all of these input formats."""
SQL_TYPES = {
    pa.string(): "varchar",
    pa.int64(): "bigint",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}
"""Columns of other types are not registered."""


def sql_columns(table: HudiTable) -> str:
    """The columns in SQL, those of the partition last."""
    partition = table.config.partition_fields
    fields = sorted(table.schema, key=lambda field: field.name in partition)
    return ", ".join(f'"{field.name}" {SQL_TYPES[field.type]}' for field in fields if field.type in SQL_TYPES)


def partitions(table: HudiTable) -> Iterator[tuple[list[str], Path]]:
    """The values and the folder of each partition, for partitions of one column."""
    for split in {split.partition_path: split for split in table.splits()}.values():
        (value,) = (str(value) for _, value in split.partition_values)
        yield [value], Path(table.path) / split.partition_path
