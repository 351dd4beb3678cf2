"""The columns of published log records: the Hudi table's, and those that SQL needs to merge."""

from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from hudi_bridge.connectors.trino.sql_text import Engine, unused_prefix
from hudi_bridge.connectors.trino.sql_types import published_type
from hudi_bridge.engines import ordering_type
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
