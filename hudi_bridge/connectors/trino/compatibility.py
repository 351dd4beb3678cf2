"""Whether the Hive connector of Trino or Presto reads the same values from a base file as Hudi.

The connector finds columns by name, ignoring case, skips files and folders whose names begin with a dot or an
underscore, and converts no types but int to long. Hudi may find a column by its id, and convert its type.

Presto's cuts timestamps to milliseconds, and reads no binaries of a fixed size.

Source: ``HiveUtil``, ``ParquetPageSourceFactory`` and ``HiveFileIterator`` of Trino; ``ColumnReaderFactory`` of Presto.
"""

import pyarrow as pa

from hudi_bridge.connectors.trino.log_columns import LogColumns
from hudi_bridge.connectors.trino.sql_text import Engine
from hudi_bridge.connectors.trino.sql_types import types_within
from hudi_bridge.engines import Outcome, StoredBaseFile
from hudi_bridge.splits.split import ReadContext

_WIDENS = (("int", "long"),)
_KEY_TYPES = (pa.string(), pa.int32(), pa.int64())


def why_unreadable(base: StoredBaseFile, columns: LogColumns) -> str | None:
    """Why the connector cannot read the base file; None if it can."""
    if any(part.startswith(("_", ".")) for part in base.path.split("/")):
        return "its path has a name that begins with _ or ., which the Hive connector passes over"
    if any(pa.types.is_time32(kind) for field in base.schema for kind in types_within(field.type)):
        return "it has times of milliseconds"
    if columns.engine is Engine.PRESTO and (reason := _why_unreadable_by_presto(base, columns)) is not None:
        return reason
    return base.reason_incompatible(ignores_case=True, widens=_WIDENS)


def _why_unreadable_by_presto(base: StoredBaseFile, columns: LogColumns) -> str | None:
    wanted = {one.file_column for one in base.columns if one.column is not None and one.outcome is not Outcome.DROPPED}
    for field in base.schema:
        if field.name not in wanted:
            continue
        kinds = tuple(types_within(field.type))
        if not columns.cut_times and any(pa.types.is_timestamp(kind) and kind.unit != "ms" for kind in kinds):
            return f"Presto would cut the times of column {field.name} to milliseconds"
        if any(pa.types.is_fixed_size_binary(kind) for kind in kinds):
            return f"Presto does not read the fixed-size binaries of column {field.name}"
    return None


def why_keys_unreadable(context: ReadContext) -> str | None:
    """Why SQL cannot compute the record keys of base rows as Hudi does; None if it can."""
    if context.populates_meta_fields:
        return None
    for name in context.key_columns:
        kind = context.schema.field(name).type
        if kind not in _KEY_TYPES:
            return f"record keys are made of column {name} of type {kind}"
    return None
