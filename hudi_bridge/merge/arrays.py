"""Types of merging, masks and positions, and the values of ordering fields.

An ordering field is a column, or a field of structs with a dotted name (``o.a.ts``); the field of a null struct is
null. Record key fields have such names too, where keys are built from them.

Source: ``HoodieAvroUtils.getNestedFieldVal``, by which Hudi finds ordering values.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.schema.casts import ArrowType

Column: TypeAlias = "pa.Array[Any]"
Value: TypeAlias = "pa.Scalar[Any]"
Positions: TypeAlias = npt.NDArray[np.int64]
Booleans: TypeAlias = npt.NDArray[np.bool_]
Ranks: TypeAlias = npt.NDArray[np.int64]
Kinds: TypeAlias = npt.NDArray[np.int8]


def as_booleans(column: Column) -> Booleans:
    """A boolean column as a mask; null is false."""
    return np.asarray(column.fill_null(False).to_numpy(zero_copy_only=False), dtype=np.bool_)  # noqa: FBT003


def all_positions(parts: Sequence[Positions | None]) -> Positions | None:
    """The positions of all parts, concatenated; None if a part has none, or there is no part."""
    present = [part for part in parts if part is not None]
    return np.concatenate(present) if present and len(present) == len(parts) else None


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
    """Whether a missing value of the type counts as 0 under rules with ``nulls_as_zero``."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def ordering_values(name: str, rows: pa.RecordBatch | pa.Table) -> Column:
    """The values of an ordering field."""
    column, *inner = ordering_path(name)
    values = rows.column(column)
    for part in inner:
        values = pc.struct_field(values, part)
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
