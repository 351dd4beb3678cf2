"""Arrow's columns as those of Polars.

VARIANT becomes the struct of its parts, and bytes of a fixed length become bytes.
"""

from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
from pyarrow import types

from hudi_bridge.errors import UnsupportedTableError

ArrowType: TypeAlias = Any


def columns_of(schema: pa.Schema) -> pl.Schema:
    """The columns of Polars for those of Arrow.

    Raises:
        UnsupportedTableError: Polars lacks the type of a column.
    """
    for field in schema:
        # Polars does not raise an exception for it: it panics.
        if (wide := _wide_decimal(field.type)) is not None:
            raise UnsupportedTableError(
                "type in Polars", f"{wide} in the column {field.name!r}", "decimals of up to 38 digits"
            )
    return pl.DataFrame(_unlabelled(schema).empty_table()).schema


def frame_of(batch: pa.RecordBatch) -> pl.DataFrame:
    """A batch as a frame with the types of ``columns_of``, and with its rows if it has no columns."""
    if not batch.num_columns:
        return pl.DataFrame(height=batch.num_rows)
    return pl.DataFrame(pa.RecordBatch.from_arrays(batch.columns, schema=_unlabelled(batch.schema)))


def type_of(kind: ArrowType) -> pl.DataType:
    """The type of Polars for one of Arrow."""
    return pl.Series(pa.array([], kind)).dtype


def _unlabelled(schema: pa.Schema) -> pa.Schema:
    """The schema without the label of VARIANT, which Polars takes for a type that has no operations."""
    return pa.schema([field.remove_metadata() for field in schema])


def _wide_decimal(kind: ArrowType) -> ArrowType | None:
    if types.is_decimal256(kind):
        return kind
    inner = (_wide_decimal(kind.field(place).type) for place in range(kind.num_fields)) if types.is_nested(kind) else ()
    return next((one for one in inner if one is not None), None)
