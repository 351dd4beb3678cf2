"""Builds the ``ReadContext`` of a query's splits."""

from dataclasses import replace

import pyarrow as pa

from hudi_bridge.config import FIRST_VERSION_OF_1X, QueryType, TableConfig, TableType
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.merge.ordering_fields import ordering_path, ordering_type
from hudi_bridge.merge.payloads import merge_rule
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.schema.defaults import Defaults
from hudi_bridge.splits.plan_warnings import warn_of_other_release
from hudi_bridge.splits.query_schema import QuerySchema, columns_of_query
from hudi_bridge.splits.split import FloatWidening, ReadContext
from hudi_bridge.timeline.table_state import TableState

_ORDERING = "plain columns, and plain fields of structs"
_COPYING_KEY_GENERATORS = frozenset(("SIMPLE", "COMPLEX", "TIMESTAMP", "CUSTOM", "NON_PARTITION", "GLOBAL_DELETE"))
"""Those that make record keys of the texts of the record key fields."""
_COPIED_TYPES = (pa.string(), pa.int32(), pa.int64())
"""The types whose texts are the same in Java as here."""


def build_read_context(
    state: TableState,
    query_schema: QuerySchema,
    query_type: QueryType,
    *,
    visible: TableState | None = None,
    commit_times: frozenset[str] | None = None,
) -> ReadContext:
    """The context of a query, with the columns and merge rule of ``state``.

    ``visible`` is the state whose files are read, ``state`` itself by default. An incremental query returns only rows
    of ``commit_times``.

    Raises:
        UnsupportedTableError: the table's records cannot be merged correctly.
    """
    config, options = state.config, state.options
    if not options.overrides_release:
        warn_of_other_release(config, newest_by_1x=query_schema.written_by_1x)
    shown = visible or state
    timeline = shown.timeline
    schema, path_columns = columns_of_query(query_schema, config, query_type)
    rule = _merge_rule(state, query_schema, query_type)
    context = ReadContext(
        table_path=state.storage.table_path,
        query_type=query_type,
        latest_instant=shown.instant,
        schema=schema,
        merge_rule=rule,
        record_key_fields=config.record_key_fields,
        populates_meta_fields=config.populates_meta_fields,
        committed_instants=frozenset(commit.requested_time for commit in timeline.commits()),
        pending_instants=frozenset(instant.requested_time for instant in timeline.instants if not instant.is_completed),
        timeline_start=shown.timeline_start,
        path_columns=path_columns,
        log_memory_bytes=options.log_memory_bytes,
        commit_times=commit_times,
        filters_base_rows_before_merge=commit_times is not None and _filters_before_merge(config),
        filters_parquet_blocks=commit_times is not None and config.written_by_11,
        float_widening=_float_widening(config, query_schema),
        field_defaults=known_defaults(config, query_schema),
        schema_ids=query_schema.ids,
        schema_history=query_schema.history,
        fields_spell_keys=(rule is None or rule.payload is None)
        and query_schema.ids is None
        and _fields_spell_keys(config, schema, path_columns),
        skips_slices=options.data_skipping,
        bucket_count=options.bucket_count,
        bucket_fields=options.bucket_fields,
        bootstrap_source=options.bootstrap_source,
        blob_sources=options.blob_sources,
        blob_content=options.blob_content,
        storage_options=state.storage.options,
        needs_keys=state.storage.decryption is not None,
    )
    if rule is not None and config.record_key_fields:
        # Log records are matched by key, so that a key of unknown text is refused before the first row.
        _ = context.key_columns
    return context


def _filters_before_merge(config: TableConfig) -> bool:
    """Whether Hudi filters base rows by commit time before merging, and not after it.

    Hudi 1.x does, but 1.0 not in tables of version 6. From 1.1 on, the filter is given to the reader of Parquet log
    blocks as well (``SparkFileFormatInternalRowReaderContext``).
    """
    return config.written_by_11 or config.table_version >= FIRST_VERSION_OF_1X


def known_defaults(config: TableConfig, query_schema: QuerySchema) -> Defaults:
    """The defaults that a table's release knows.

    Hudi 1.0 makes the schema that it reads into of Spark's, which has none
    (``HoodieFileGroupReaderBasedParquetFileFormat``).
    """
    return query_schema.defaults if config.written_by_11 or not config.written_by_1x else ()


def _fields_spell_keys(config: TableConfig, schema: pa.Schema, path_columns: tuple[str, ...]) -> bool:
    """Whether the record key of each row follows from the values of the key fields in the row.

    Not if a user's payload may change the values, or if columns have ids, so that a name may have meant another column.
    """
    names = config.record_key_fields
    if config.populates_meta_fields and config.key_generator not in _COPYING_KEY_GENERATORS:
        return False
    if not names or not set(schema.names).difference(path_columns).issuperset(names):
        return False
    return all(schema.field(name).type in _COPIED_TYPES for name in names)


def _float_widening(config: TableConfig, query_schema: QuerySchema) -> FloatWidening:
    if config.written_by_11 or query_schema.has_ids:
        return FloatWidening.BY_TEXT
    return FloatWidening.BY_TEXT_IN_PARQUET_COLUMNS if config.written_by_1x else FloatWidening.EXACT


def _merge_rule(state: TableState, query_schema: QuerySchema, query_type: QueryType) -> MergeRule | None:
    if query_type is QueryType.READ_OPTIMIZED or state.config.table_type is TableType.COPY_ON_WRITE:
        return None
    rule = merge_rule(state.config, state.options.payloads)
    if not rule.uses_ordering:
        return rule
    fields = tuple(name for name in rule.ordering_fields if _is_ordering_field(name, query_schema.arrow))
    kinds = [ordering_type(name, query_schema.arrow) for name in fields]
    return replace(rule, ordering_fields=fields).by_types(kinds)


def _is_ordering_field(name: str, schema: pa.Schema) -> bool:
    """Whether the table has the field; ordering fields that it does not have are ignored."""
    try:
        kind = ordering_type(name, schema)
    except KeyError as error:
        if ordering_path(name)[0] in schema.names:
            raise UnsupportedTableError("ordering field", f"{name}, no field of that struct", _ORDERING) from error
        return False
    if pa.types.is_nested(kind):
        raise UnsupportedTableError("ordering field", f"{name} of type {kind}", _ORDERING)
    return True
