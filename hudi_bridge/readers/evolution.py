"""Which schema a file was written in, and how its columns become the query's.

A base file's schema is that of the instant in its name, a log block's that of the instant in its header.
"""

from functools import lru_cache

import pyarrow as pa

from hudi_bridge.schema.evolve import Evolution, FloatsByText, plan_evolution
from hudi_bridge.schema.internal import (
    InternalSchema,
    parse_internal_schema,
    parse_schema_history,
    schema_for_instant,
)
from hudi_bridge.splits.split import FloatWidening, ReadContext

_PLACE = ".hoodie/.schema"


def plan_file_evolution(
    file_schema: pa.Schema,
    query_schema: pa.Schema,
    instant_time: str,
    context: ReadContext,
    path: str,
    *,
    is_parquet: bool,
) -> Evolution:
    """How columns of a file or log block written at an instant become columns of the query.

    ``is_parquet`` is whether the values are stored as Parquet and not as Avro.

    Raises:
        SchemaEvolutionError: a column's type cannot become the query's.
    """
    file_ids, query_ids = internal_schemas(instant_time, context)
    return plan_evolution(
        file_schema,
        query_schema,
        file_ids=file_ids,
        query_ids=query_ids,
        path=path,
        floats_by_text=_floats_by_text(context.float_widening, is_parquet=is_parquet),
    )


def _floats_by_text(widening: FloatWidening, *, is_parquet: bool) -> FloatsByText:
    if widening is FloatWidening.BY_TEXT:
        return FloatsByText.EVERYWHERE
    if widening is FloatWidening.BY_TEXT_IN_PARQUET_COLUMNS and is_parquet:
        return FloatsByText.COLUMNS
    return FloatsByText.NOWHERE


def internal_schemas(instant_time: str, context: ReadContext) -> tuple[InternalSchema | None, InternalSchema | None]:
    """The ids of the columns of a file written at an instant, and those of the query; None where columns go by name."""
    if context.schema_ids is None or context.schema_history is None:
        return None, None
    return schema_for_instant(_history(context.schema_history), instant_time), _schema(context.schema_ids)


@lru_cache(maxsize=16)
def _schema(text: str) -> InternalSchema:
    return parse_internal_schema(text, _PLACE)


@lru_cache(maxsize=16)
def _history(text: str) -> tuple[InternalSchema, ...]:
    return parse_schema_history(text, _PLACE)
