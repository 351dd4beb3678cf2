"""The columns of a split that are read from its partition path: the same value in every row."""

from collections.abc import Mapping

import pyarrow as pa

from hudi_bridge.merge.arrays import Value
from hudi_bridge.splits.split import RealtimeFileSplit


def path_values(split: RealtimeFileSplit) -> Mapping[str, Value]:
    """The values of those columns by name."""
    return {name: value for name, value in split.partition_values if name in split.context.path_columns}


def without_path_columns(schema: pa.Schema, split: RealtimeFileSplit) -> pa.Schema:
    """The columns of the schema that have to come from files."""
    return pa.schema([field for field in schema if field.name not in path_values(split)])


def with_path_columns(rows: pa.RecordBatch, schema: pa.Schema, split: RealtimeFileSplit) -> pa.RecordBatch:
    """Rows read from files, completed to the whole schema."""
    values = path_values(split)
    if values.keys().isdisjoint(schema.names):
        return rows
    columns = [
        pa.repeat(values[name], rows.num_rows)  # type: ignore[call-overload]
        if name in values
        else rows.column(name)
        for name in schema.names
    ]
    return pa.record_batch(columns, schema=schema)
