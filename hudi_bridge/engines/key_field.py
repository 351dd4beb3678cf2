"""Whether an engine may join base rows with log records by a record key field instead of the record key.

Conditions on the field then reach both sides of the join. How a field becomes a record key depends on the key generator
and on the release of Hudi, so nothing is assumed: every row of the base file is looked up both ways.
"""

from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column
from hudi_bridge.merge.log_records import LogRecordMap
from hudi_bridge.splits.split import ReadContext

_TYPES = (pa.string(), pa.int32(), pa.int64())
"""Types whose values are equal in SQL as in Arrow."""


def single_key_field(context: ReadContext) -> str | None:
    """The only record key field of a table; None if there are several, or if it is nested or of the partition path."""
    if len(context.record_key_fields) != 1:
        return None
    (name,) = context.record_key_fields
    if name not in context.schema.names or name in context.path_columns:
        return None
    return name if context.schema.field(name).type in _TYPES else None


class KeyFieldLookup:
    """Compares what base rows find by a record key field with what they find by record key.

    ``values`` are those of the log records: of deletes, which have no fields, the record key. ``is_same`` is whether
    all base rows so far have found the same log records both ways.
    """

    def __init__(self, name: str, values: Column, keys: Column) -> None:
        self.name = name
        self.values = values
        given: Any = values.drop_null()
        self.is_same = len(given.unique()) == len(given)
        self._is_key = values.equals(keys)

    @classmethod
    def of(cls, log: LogRecordMap, context: ReadContext) -> Self | None:
        """The lookup for log records; None without a key field to look up by."""
        name = single_key_field(context)
        if name is None or name not in log.rows.schema.names:
            return None
        rows = log.rows.column(name)
        try:
            deletes = log.keys.slice(len(rows)).cast(rows.type)
        except pa.ArrowInvalid:
            return None
        return cls(name, pa.concat_arrays([*rows.chunks, deletes]), log.keys)

    def look_up(self, fields: Column, keys: Column, found: Column) -> None:
        """Compare for a batch of base rows; ``found`` holds the log records that were found by ``keys``."""
        if self.is_same and not (self._is_key and fields.equals(keys)):
            by_field: Column = pc.index_in(fields, value_set=self.values, skip_nulls=True)
            self.is_same = by_field.equals(found)
