"""The record keys of rows: a column of their own, or built from the key fields of a table without meta columns.

Source: ``KeyGenUtils`` of Hudi.
"""

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import ReadContext

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"


def record_keys(rows: pa.RecordBatch, context: ReadContext) -> Column:
    """The record key of each row, as text."""
    names = context.key_columns
    if context.populates_meta_fields:
        return rows.column(RECORD_KEY_COLUMN)
    if len(names) == 1:
        return rows.column(names[0]).cast(pa.string())
    parts = []
    for name in names:
        value = rows.column(name).cast(pa.string()).fill_null(_NULL_PART)
        value = pc.if_else(pc.equal(value, pa.scalar("")), _EMPTY_PART, value)
        parts.append(pc.binary_join_element_wise(name, value, ":"))
    keys: Column = pc.binary_join_element_wise(*parts, ",")
    return keys
