"""Ordering fields: columns, or fields of structs with dotted names (``o.a.ts``).

The field of a null struct is null. Record key fields have such names too, where keys are built from them.

Source: ``HoodieAvroUtils.getNestedFieldVal``, by which Hudi finds ordering values.
"""

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column
from hudi_bridge.schema.casts import ArrowType


def ordering_path(name: str) -> tuple[str, ...]:
    """The column of an ordering field, then the names of the fields within it; Avro names have no dots."""
    return tuple(name.split("."))


def ordering_type(name: str, schema: pa.Schema) -> ArrowType:
    """The type of an ordering field's values.

    Raises:
        KeyError: the schema has no such field.
    """
    column, *inner = ordering_path(name)
    kind = schema.field(column).type
    for part in inner:
        if not pa.types.is_struct(kind):
            raise KeyError(name)
        kind = kind.field(part).type
    return kind


def is_number(kind: ArrowType) -> bool:
    """Whether a missing value of the type counts as 0, under the rules for which missing numbers do."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def ordering_values(name: str, rows: pa.RecordBatch | pa.Table) -> Column:
    """The values of an ordering field."""
    column, *inner = ordering_path(name)
    values = rows.column(column)
    for part in inner:
        values = pc.struct_field(values, part)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
