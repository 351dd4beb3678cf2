"""Whether Trino's Hive connector reads the same values from a base file as Hudi.

The connector finds columns by name, ignoring case, skips files and folders whose names begin with a dot or an
underscore, and converts no types but int to long. Hudi may find a column by its id, and convert its type.

Source: ``HiveUtil``, ``ParquetPageSourceFactory`` and ``HiveFileIterator`` of Trino.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from hudi_bridge.engines import StoredBaseFile
from hudi_bridge.splits.split import ReadContext

_WIDENS = (("int", "long"),)
_KEY_TYPES = (pa.string(), pa.int32(), pa.int64())


def why_unreadable(base: StoredBaseFile) -> str | None:
    """Why the connector cannot read the base file; None if it can."""
    if any(part.startswith(("_", ".")) for part in base.path.split("/")):
        return "its path has a name that begins with _ or ., which the Hive connector passes over"
    if any(pa.types.is_time32(kind) for field in base.schema for kind in _types_within(field.type)):
        return "it has times of milliseconds"
    return base.why_incompatible(ignores_case=True, widens=_WIDENS)


def why_keys_unreadable(context: ReadContext) -> str | None:
    """Why SQL cannot compute the record keys of base rows as Hudi does; None if it can."""
    if context.populates_meta_fields:
        return None
    for name in context.key_columns:
        kind = context.schema.field(name).type
        if kind not in _KEY_TYPES:
            return f"record keys are made of column {name} of type {kind}"
    return None


def _types_within(kind: Any) -> Iterator[Any]:  # noqa: ANN401 - the stubs lack the attributes of types
    yield kind
    if pa.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from _types_within(kind.field(position).type)
