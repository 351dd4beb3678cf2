"""Finds the unset fields of a row, which are filled from the version that loses.

Source: ``PartialUpdateHandler`` of Hudi 1.x; ``PartialUpdateAvroPayload``,
``OverwriteNonDefaultsWithLatestAvroPayload`` and ``PostgresDebeziumAvroPayload`` of 0.x.
"""

from collections.abc import Mapping
from typing import Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Booleans, Column, Positions, Value, as_booleans
from hudi_bridge.merge.rules import FieldFill, MergeRule
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN

META_FIELDS = frozenset((*META_COLUMNS, OPERATION_COLUMN))

_LEAST_KEPT, _GREATEST_KEPT = -128, 127
"""The numbers of which Java keeps one object each (``Integer.valueOf``, ``Long.valueOf``)."""


def unset_value(rule: MergeRule, name: str, kind: ArrowType, default: "Value | None") -> "Value | None":
    """The value that marks a field as unset, which may be a null scalar; None if the field is never unset.

    ``default`` is the default of the field in the schema, None for null.
    """
    if rule.fill is None or name in META_FIELDS:
        return None
    match rule.fill:
        case FieldFill.NULLS:
            return _null()
        case FieldFill.DEFAULTS:
            if default is None:
                return _null()
            return default if _has_equals(default) else None
        case FieldFill.IDENTICAL_DEFAULTS:
            if default is None:
                return _null()
            return default if _is_one_object(default) else None
        case FieldFill.UNAVAILABLE:
            is_text = pa.types.is_string(kind) or pa.types.is_binary(kind)
            return pa.scalar(rule.unavailable_value).cast(kind) if is_text else None
        case FieldFill.UNAVAILABLE_TEXTS:
            return pa.scalar(rule.unavailable_value) if pa.types.is_string(kind) else None
        case _:
            assert_never(rule.fill)


def unset_fields(
    rows: pa.RecordBatch | pa.Table, rule: MergeRule, defaults: Mapping[str, Value]
) -> dict[str, Booleans]:
    """For each column that is unset in some rows, a mask of these rows.

    ``defaults`` holds the defaults of the schema that are not null.
    """
    found = {}
    for field in rows.schema:
        value = unset_value(rule, field.name, field.type, defaults.get(field.name))
        if value is None:
            continue
        column = rows.column(field.name)
        flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        of_field = _are_empty(flat) if pa.types.is_nested(value.type) else _equal(flat, value)
        if of_field.any():
            found[field.name] = of_field
    return found


def _equal(column: Column, value: Value) -> Booleans:
    return as_booleans(pc.equal(column, value) if value.is_valid else column.is_null())


def _are_empty(lists: Any) -> Booleans:  # noqa: ANN401 - of lists or maps, which are generic in the stubs alone
    lengths: Positions = np.diff(lists.offsets.to_numpy())
    return np.asarray(as_booleans(lists.is_valid()) & (lengths == 0), dtype=np.bool_)


def _has_equals(default: Value) -> bool:
    """Whether in Java a default equals what Avro's decoder makes of the same value.

    Not if it is bytes, decimals, which are bytes, or a record: these are of other classes.
    """
    kind: ArrowType = default.type
    if pa.types.is_list(kind) or pa.types.is_map(kind):
        return not default.as_py()
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_decimal(kind))


def _is_one_object(default: Value) -> bool:
    """Whether Java has one and the same object for a default and for an equal value of a row.

    It has for booleans and for small whole numbers, which Spark also keeps for dates and times: times in microseconds,
    so that a default in milliseconds is another number than its values, but for zero.
    """
    kind: ArrowType = default.type
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_timestamp(kind) and kind.unit == "ms":
        return bool(default.cast(pa.int64()).as_py() == 0)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        whole = pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64()
        return bool(_LEAST_KEPT <= default.cast(whole).as_py() <= _GREATEST_KEPT)
    return False


def _null() -> Value:
    null: Value = pa.scalar(None, pa.null())
    return null
