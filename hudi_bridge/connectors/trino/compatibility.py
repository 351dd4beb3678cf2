"""Whether Trino's Hive connector, reading a base file where it lies, sees the values that a read of the table gives.

The connector finds columns by name, whatever its case, passes over files and folders whose names begin with a dot or an
underscore, and converts no types. Hudi may know a column by its id, and change its type.

Source: ``HiveUtil``, ``ParquetPageSourceFactory`` and ``HiveFileIterator`` of Trino.
"""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa

from hudi_bridge.readers.base_file import BaseFile
from hudi_bridge.readers.evolution import internal_schemas
from hudi_bridge.readers.path_columns import path_values
from hudi_bridge.readers.record_keys import key_columns
from hudi_bridge.schema.casts import ArrowType
from hudi_bridge.schema.file_columns import ColumnMapping, Outcome, map_columns
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

_NULL_IN_BOTH = (Outcome.ADDED_LATER, Outcome.MISSING)
_NOT_ASKED_FOR = (Outcome.DROPPED, Outcome.NOT_IN_QUERY, Outcome.FROM_PATH)
_WIDER = {("int", "long")}
_KEY_TYPES = (pa.string(), pa.int32(), pa.int64())


def why_unreadable(split: RealtimeFileSplit, base: BaseFile) -> str | None:
    """Why the base file cannot be read where it lies, None if it can."""
    if any(part.startswith(("_", ".")) for part in base.path.split("/")):
        return "its path has a name that begins with _ or ., which the Hive connector passes over"
    if path_values(split).keys() != set(split.context.path_columns):
        return "its partition path does not tell the values of the partition columns"
    stored, footer = base.arrow_schema, base.footer
    names = Counter(name.lower() for name in stored.names)
    if any(count > 1 for count in names.values()):
        return "names of its columns differ in nothing but case"
    if any(footer.schema.column(position).physical_type == "INT96" for position in range(footer.num_columns)):
        return "it has times of 96 bits"
    if any(pa.types.is_time32(kind) for field in stored for kind in _types_within(field.type)):
        return "it has times of milliseconds"
    file_ids, query_ids = internal_schemas(split.base_instant_time, split.context)
    path_columns = split.context.path_columns
    mappings = map_columns(
        stored, split.context.schema, file_ids=file_ids, query_ids=query_ids, path_columns=path_columns
    )
    return next((reason for one in mappings if (reason := _why_other_values(one, names)) is not None), None)


def why_keys_unreadable(context: ReadContext) -> str | None:
    """Why SQL cannot make the record keys of base rows as Hudi does, None if it can."""
    if context.populates_meta_fields:
        return None
    for name in key_columns(context):
        kind = context.schema.field(name).type
        if kind not in _KEY_TYPES:
            return f"record keys are made of column {name} of type {kind}"
    return None


def _why_other_values(one: ColumnMapping, names: Counter[str]) -> str | None:
    if one.outcome in _NOT_ASKED_FOR:
        return None
    name = (one.column or "").lower()
    if one.outcome in _NULL_IN_BOTH and name not in names:
        return None if "." not in name else f"{one.column}: {one}"
    if one.outcome is Outcome.READ and not one.is_renamed:
        return None
    if one.outcome is Outcome.CAST and (one.file_type, one.query_type) in _WIDER and "." not in name:
        return None
    return f"{one.column}: {one}"


def _types_within(kind: ArrowType) -> Iterator[ArrowType]:
    yield kind
    if pa.types.is_nested(kind):
        for position in range(kind.num_fields):
            yield from _types_within(kind.field(position).type)
