"""The columns of a split that are read from its partition path: the same value in every row."""

import pyarrow as pa

from hudi_bridge.splits.split import RealtimeFileSplit


def without_path_columns(schema: pa.Schema, split: RealtimeFileSplit) -> pa.Schema:
    """The columns of the schema that have to come from files."""
    values = split.path_values
    return pa.schema([field for field in schema if field.name not in values])


def with_path_columns(rows: pa.RecordBatch, schema: pa.Schema, split: RealtimeFileSplit) -> pa.RecordBatch:
    """Rows read from files, completed to the whole schema."""
    values = split.path_values
    if values.keys().isdisjoint(schema.names):
        return rows
    columns = [
        pa.repeat(values[name], rows.num_rows)  # type: ignore[call-overload]
        if name in values
        else rows.column(name)
        for name in schema.names
    ]
    return pa.record_batch(columns, schema=schema)
