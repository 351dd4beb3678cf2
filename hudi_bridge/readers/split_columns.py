"""Converts the columns of a file into the columns of a split.

A base file has the schema as of the instant in its name, a log block as of the instant in its header.
"""

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.merge.arrays import Column, ordering_values
from hudi_bridge.releases import FloatWidening
from hudi_bridge.schema.avro import Defaults
from hudi_bridge.schema.evolve import Evolution, FloatsByText, StoredAs, plan_evolution
from hudi_bridge.schema.internal import (
    SCHEMA_FOLDER,
    InternalSchema,
    parse_internal_schema,
    parse_schema_history,
    schema_for_instant,
)
from hudi_bridge.schema.java_text import value_text
from hudi_bridge.schema.meta_columns import RECORD_KEY_COLUMN
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit

_NULL_PART = "__null__"
_EMPTY_PART = "__empty__"
_WIDENED_AS_PARQUET = (StoredAs.PARQUET, StoredAs.LANCE)
"""Formats whose floats become doubles as in Parquet files."""


def plan_file_evolution(
    file_schema: pa.Schema,
    query_schema: pa.Schema,
    instant_time: str,
    context: ReadContext,
    path: str,
    *,
    stored_as: StoredAs,
    defaults: Defaults = (),
) -> Evolution:
    """Plans the conversion of a file or log block to the columns of the query.

    Args:
        file_schema: the columns of the file.
        query_schema: the columns to return.
        instant_time: when the file was written, which selects the version of the schema with column ids.
        context: the context of the query.
        path: names the file in errors.
        stored_as: the format that the values are stored in.
        defaults: values for columns that the file lacks, if the table has no column ids.

    Raises:
        SchemaEvolutionError: a stored type cannot be converted to the type of the query.
        UnsupportedTableError: a default does not have the type of its column.
    """
    file_ids, query_ids = internal_schemas(instant_time, context)
    return plan_evolution(
        file_schema,
        query_schema,
        file_ids=file_ids,
        query_ids=query_ids,
        path=path,
        stored_as=stored_as,
        floats_by_text=_floats_by_text(context.float_widening, stored_as),
        # Only 0.x widens floats exactly, and only 0.x does not read times as text.
        reads_times_as_text=context.float_widening is not FloatWidening.EXACT,
        defaults=defaults,
    )


def _floats_by_text(widening: FloatWidening, stored_as: StoredAs) -> FloatsByText:
    if widening is FloatWidening.BY_TEXT:
        return FloatsByText.EVERYWHERE
    if widening is FloatWidening.BY_TEXT_IN_PARQUET_COLUMNS and stored_as in _WIDENED_AS_PARQUET:
        return FloatsByText.COLUMNS
    return FloatsByText.NOWHERE


def internal_schemas(instant_time: str, context: ReadContext) -> tuple[InternalSchema | None, InternalSchema | None]:
    """The schemas with column ids of a file written at an instant, and of the query; None if the table has no ids."""
    versions = schema_versions(context)
    return (None, None) if versions is None else (schema_for_instant(versions[1], instant_time), versions[0])


def schema_versions(context: ReadContext) -> tuple[InternalSchema, tuple[InternalSchema, ...]] | None:
    """The query's schema with column ids, and all versions of the table's schema; None if columns
    are matched by name.
    """
    if context.schema_ids is None or context.schema_history is None:
        return None
    return _schema(context.schema_ids), _history(context.schema_history)


@lru_cache(maxsize=16)
def _schema(text: str) -> InternalSchema:
    return parse_internal_schema(text, SCHEMA_FOLDER)


@lru_cache(maxsize=16)
def _history(text: str) -> tuple[InternalSchema, ...]:
    return parse_schema_history(text, SCHEMA_FOLDER)


def without_path_columns(schema: pa.Schema, split: RealtimeFileSplit) -> pa.Schema:
    """The columns of the schema that are stored in files."""
    values = split.path_values
    return pa.schema([field for field in schema if field.name not in values])


def with_path_columns(rows: pa.RecordBatch, schema: pa.Schema, split: RealtimeFileSplit) -> pa.RecordBatch:
    """Adds the columns of the partition path to rows read from files."""
    values = split.path_values
    if values.keys().isdisjoint(schema.names):
        return rows
    columns = [
        pa.repeat(values[name], rows.num_rows)  # type: ignore[call-overload]
        if name in values
        else rows.column(name)
        for name in schema.names
    ]
    return pa.record_batch(columns, schema=schema)


def record_keys(rows: pa.RecordBatch, context: ReadContext) -> Column:
    """The record key of each row, as text; it is built from the key fields if the table has no meta columns.

    A delete block has the key that the writer's key generator made. For dates it differs, so that the delete matches no
    row.

    Source: ``RecordContext.virtualKeyExtractor`` and ``KeyGenerator.constructRecordKey`` of Hudi.
    """
    if context.populates_meta_fields:
        return rows.column(RECORD_KEY_COLUMN)
    texts = {name: value_text(ordering_values(name, rows)) for name in context.record_key_fields}
    if len(texts) == 1:
        return next(iter(texts.values()))
    parts = []
    for name, text in texts.items():
        value = text.fill_null(_NULL_PART)
        value = pc.if_else(pc.equal(value, pa.scalar("")), _EMPTY_PART, value)
        parts.append(pc.binary_join_element_wise(name, value, ":"))
    keys: Column = pc.binary_join_element_wise(*parts, ",")
    return keys
