"""Spark types of Arrow types, as in Hudi's own reader, and the Arrow types that Spark takes.

A time of day, which Spark's Avro reader does not support, becomes the stored number. A VARIANT column becomes a
``variant`` in Spark 4 or later; in 3.5, and inside other columns, it stays the stored struct. All columns are nullable,
since older files may lack them.

Source: ``SchemaConverters`` of Spark, ``AvroConversionUtils`` of Hudi.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyspark.sql.types
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.schema.avro_types import is_variant

# Spark 4 or later.
_VARIANT_TYPE = getattr(pyspark.sql.types, "VariantType", None)
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={"variant": "true"}),
    ]
)
"""The Arrow type that Spark reads as VARIANT (``ArrowUtils``)."""

_SIMPLE_TYPES: tuple[tuple[pa.DataType, pa.DataType, DataType], ...] = (
    (pa.null(), pa.null(), NullType()),
    (pa.bool_(), pa.bool_(), BooleanType()),
    (pa.int8(), pa.int8(), ByteType()),
    (pa.int32(), pa.int32(), IntegerType()),
    (pa.int64(), pa.int64(), LongType()),
    (pa.float32(), pa.float32(), FloatType()),
    (pa.float64(), pa.float64(), DoubleType()),
    (pa.string(), pa.string(), StringType()),
    (pa.binary(), pa.binary(), BinaryType()),
    (pa.date32(), pa.date32(), DateType()),
    (pa.time32("ms"), pa.int32(), IntegerType()),
    (pa.time64("us"), pa.int64(), LongType()),
)
"""The Arrow type in a table, the Arrow type that Spark takes, and the Spark type."""


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns.

    Raises:
        UnsupportedTableError: Spark has no type for a column.
    """
    return StructType([StructField(field.name, _column_type(field)) for field in schema])


def arrow_layout(schema: pa.Schema) -> pa.Schema:
    """The columns in the Arrow types that Spark takes."""
    return pa.schema([pa.field(field.name, _column_layout(field)) for field in schema])


def in_layout(batches: Iterator[pa.RecordBatch], layout: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Casts batches to the types of ``layout``."""
    for batch in batches:
        if batch.schema.equals(layout, check_metadata=True):
            yield batch
        else:
            columns = [_cast_to_layout(column, field.type) for column, field in zip(batch.columns, layout, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=layout)


def _column_type(field: "pa.Field[Any]") -> DataType:
    if is_variant(field) and _VARIANT_TYPE is not None:
        variant: DataType = _VARIANT_TYPE()
        return variant
    return _spark_type(field.type, field.name)


def _column_layout(field: "pa.Field[Any]") -> pa.DataType:
    return _VARIANT if is_variant(field) and _VARIANT_TYPE is not None else _layout(field.type)


def _cast_to_layout(column: "pa.Array[Any]", kind: pa.DataType) -> "pa.Array[Any]":
    if kind == _VARIANT:
        stored: Any = column
        # The parts of a null are not nullable either.
        parts = [pc.struct_field(stored, [part.name]).fill_null(b"") for part in kind]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=stored.is_null())
    # Spark has no nanoseconds: they are truncated.
    cast: pa.Array[Any] = column.cast(kind, safe=False)
    return cast


def _spark_type(kind: pa.DataType, column: str) -> DataType:
    for arrow, _, spark in _SIMPLE_TYPES:
        if kind == arrow:
            return spark
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return TimestampType() if kind.tz else TimestampNTZType()
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return ArrayType(_spark_type(kind.value_type, column))
    if pa.types.is_map(kind):
        return MapType(_spark_type(kind.key_type, column), _spark_type(kind.item_type, column))
    if pa.types.is_struct(kind):
        return StructType([StructField(field.name, _spark_type(field.type, column)) for field in kind])
    raise UnsupportedTableError(f"type of column {column} in Spark", str(kind), "types that Spark has")


def _layout(kind: pa.DataType) -> pa.DataType:
    for arrow, layout, _ in _SIMPLE_TYPES:
        if kind == arrow:
            return layout
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(pa.field("element", _layout(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_layout(kind.key_type), _layout(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _layout(field.type)) for field in kind])
    return kind
