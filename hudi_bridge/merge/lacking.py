"""Which rows lack a field: have nothing of their own in it, so that a losing version's value is taken instead.

Source: ``PartialUpdateHandler`` of Hudi 1.x; ``PartialUpdateAvroPayload``,
``OverwriteNonDefaultsWithLatestAvroPayload`` and ``PostgresDebeziumAvroPayload`` of 0.x.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Booleans, Column, Value, as_booleans
from hudi_bridge.merge.payloads import FieldFill, MergeRule
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN

META_FIELDS = frozenset((*META_COLUMNS, OPERATION_COLUMN))


def lacking_fields(
    rows: pa.RecordBatch | pa.Table, rule: MergeRule, defaults: Mapping[str, Value]
) -> dict[str, Booleans]:
    """For each column that some row lacks, which rows lack it.

    ``defaults`` holds the values that the schema gives to missing fields, where they are not null.
    """
    if rule.fill is None:
        return {}
    lacks = {
        name: _lacks(_flat(rows.column(name)), rule, defaults.get(name))
        for name in rows.schema.names
        if name not in META_FIELDS
    }
    return {name: of_field for name, of_field in lacks.items() if of_field is not None and of_field.any()}


def _lacks(column: Column, rule: MergeRule, default: "Value | None") -> Booleans | None:
    if rule.fill is FieldFill.UNAVAILABLE:
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            return None
        return as_booleans(pc.equal(column, pa.scalar(rule.unavailable_value).cast(column.type)))
    if rule.fill is FieldFill.DEFAULTS and default is not None:
        return as_booleans(pc.equal(column, default))
    return as_booleans(column.is_null())


def _flat(column: "Column | pa.ChunkedArray[Any]") -> Column:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
