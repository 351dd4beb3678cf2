"""The default values of a schema's fields, as values of the query's columns.

Only plain values can be compared with: a default that is a list, a map or a record never equals a field.
"""

import json
from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from hudi_bridge.merge.arrays import Value
from hudi_bridge.splits.split import ReadContext


def field_defaults(context: ReadContext) -> Mapping[str, Value]:
    """The default of each column that has one other than null."""
    return {
        name: default
        for name, text in context.field_defaults
        if (default := _parse(text, context.schema.field(name).type)) is not None
    }


@lru_cache(maxsize=1024)
def _parse(text: str, to_type: pa.DataType) -> "Value | None":
    value = json.loads(text)
    if pa.types.is_binary(to_type) and isinstance(value, str):
        return pa.scalar(value.encode("latin-1", "replace"), to_type)
    try:
        return None if isinstance(value, list | dict) else pa.scalar(value, to_type)
    except (ValueError, OverflowError, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return None
