"""Whether the Hive connector of Trino or Presto reads the same values from a base file as Hudi.

The connector finds columns by name, ignoring case, skips files and folders whose names begin with a dot or an
underscore, and converts no types but int to long. Hudi may find a column by its id, and convert its type. Presto's
connector cuts timestamps to milliseconds, and reads no binaries of a fixed size.

``LogColumns`` are the columns of published log records: the Hudi table's, and those that SQL needs to merge.

Source: ``HiveUtil``, ``ParquetPageSourceFactory`` and ``HiveFileIterator`` of Trino; ``ColumnReaderFactory`` of Presto.
"""

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from hudi_bridge.connectors.trino.sql_types import Engine, published_type, types_within, unused_prefix
from hudi_bridge.engines import StoredBaseFile
from hudi_bridge.merge.arrays import ordering_type
from hudi_bridge.schema.file_columns import Outcome
from hudi_bridge.splits.split import ReadContext


@dataclass(frozen=True, slots=True, kw_only=True)
class LogColumns:
    """The names of the columns that SQL needs to merge, and the schema of all columns, as ``engine`` reads them.

    ``file`` is the name of the published file, ``partition`` the partition path of the slice. ``key`` is the record
    key, null for rows of slices that are published whole. ``contested`` marks records that have to be compared with
    their base row. ``delete`` is whether the record removes its base row if it wins, ``explicit`` whether it is
    compared as a delete, ``always`` whether as one without an ordering value. ``unset`` holds for each of the table's
    columns whether it is unset, ``ordering`` the ordering values.
    """

    engine: Engine
    cut_times: bool
    file: str
    partition: str
    key: str
    contested: str
    delete: str
    explicit: str
    always: str
    unset: str
    ordering: tuple[str, ...]
    schema: pa.Schema

    @classmethod
    def of(cls, context: ReadContext, engine: Engine, *, cut_times: bool = False) -> Self:
        """The columns for a table's read context. With ``cut_times``, timestamps are cut to what Presto holds."""
        own, rule = context.schema, context.merge_rule
        prefix = unused_prefix(own.names, "_log_")
        texts = {name: f"{prefix}{name}" for name in ("file", "partition", "key")}
        flags = {name: f"{prefix}{name}" for name in ("contested", "delete", "explicit", "always")}
        unset = f"{prefix}unset"
        fields = rule.ordering_fields if rule is not None and rule.orders_base else ()
        ordering = {f"{prefix}ordering_{position}": field for position, field in enumerate(fields)}
        schema = pa.schema(
            [pa.field(name, pa.string()) for name in texts.values()]
            + [pa.field(name, pa.bool_()) for name in flags.values()]
            + [pa.field(unset, pa.list_(pa.bool_()))]
            + [pa.field(name, published_type(ordering_type(field, own), engine)) for name, field in ordering.items()]
            + [pa.field(field.name, published_type(field.type, engine, cut_times=cut_times)) for field in own]
        )
        return cls(
            engine=engine, cut_times=cut_times, **texts, **flags, unset=unset, ordering=tuple(ordering), schema=schema
        )


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
    file_columns = {
        column.file_column
        for column in base.columns
        if column.column is not None and column.outcome is not Outcome.DROPPED
    }
    for field in base.schema:
        if field.name not in file_columns:
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
