"""The columns of a table as of an instant, from the newest commit that has a schema or else from the table's creation.

Commits of table services do not decide on the columns of the newest state: they have the schema of their own client,
and no column ids. The meta columns come first; partition columns that the writer dropped from the files come last.

Source: ``TableSchemaResolver``, ``HoodieActiveTimeline.getLastCommitMetadataWithValidSchema`` and ``HoodieFileIndex``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hudi_bridge.config import TIMESTAMP_GENERATOR, QueryType, TableConfig, TableType
from hudi_bridge.releases import Series
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.defaults import Defaults, iter_defaults
from hudi_bridge.schema.internal import SCHEMA_FOLDER, parse_internal_schema, to_arrow
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.notes import warn_of_schema_beside_commits
from hudi_bridge.splits.partitioning import QueryColumns, columns_from_path
from hudi_bridge.splits.stored_schema import schema_beside_commits, with_operations
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.commit_metadata import CommitMetadata, read_commit_metadata, read_timeline_file
from hudi_bridge.timeline.instant import Instant
from hudi_bridge.timeline.timeline import TableState, Timeline

_HISTORY_SUFFIX = ".schemacommit"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySchema:
    """The columns of a query.

    ``defaults`` holds the schema's defaults of missing fields that are not null. If the table keeps a schema history
    with column ids, ``ids`` is the query's version and ``history`` all versions, both as Hudi's JSON. ``series`` is
    that of the Hudi that made the schema's commit, as in ``CommitMetadata``. ``has_ids`` is whether the schema has
    column ids, also if the query finds columns by name. ``source`` says where the columns are from if no commit on the
    active timeline, nor the properties, have a schema.
    """

    arrow: pa.Schema
    defaults: Defaults = ()
    ids: str | None = None
    history: str | None = None
    series: Series | None = None
    has_ids: bool = False
    source: str | None = None


def read_query_schema(state: TableState) -> QuerySchema:
    """The columns as of the state's instant.

    Without column ids, if an option says so, columns are found by name, as in a Spark session without schema on read.
    Time travel takes the last commit at or before the instant, whatever it did. If none of them is on the active
    timeline any more, the newest commit decides, but without column ids, as in Hudi.

    Raises:
        CorruptTableError: a commit or its schema cannot be parsed.
        UnsupportedTableError: nothing tells the columns of the data files.
    """
    commits = state.timeline.commits()
    past = tuple(commit for commit in commits if commit.requested_time <= state.instant)
    newest = _newest_with_schema(state, past or commits, of_services=state.is_time_travel and bool(past))
    if newest is not None:
        return _from_commit(state, *newest, with_ids=bool(past))
    if state.config.create_schema:
        return _from_avro_text(state.config.create_schema, None, None, state.config, ".hoodie/hoodie.properties")
    # Hudi takes the columns of a file of the newest commit, which are those of the commit.
    newest = _newest_with_schema(state, commits, of_services=True)
    return _from_data_files(state, past or commits) if newest is None else _from_commit(state, *newest, with_ids=False)


def _from_data_files(state: TableState, commits: Sequence[Instant]) -> QuerySchema:
    """The columns of a table without a schema in its commits; none if nothing has been written to it."""
    stored = schema_beside_commits(state, commits)
    if stored is None:
        return QuerySchema(arrow=pa.schema([]))
    warn_of_schema_beside_commits(state.config.table_path, stored.source)
    config = with_operations(state, None)
    if stored.avro_text is not None:
        return replace(_from_avro_text(stored.avro_text, None, None, config, stored.source), source=stored.source)
    return QuerySchema(arrow=_with_meta_columns(stored.arrow or pa.schema([]), config), source=stored.source)


def _newest_with_schema(
    state: TableState, commits: Sequence[Instant], *, of_services: bool
) -> tuple[Instant, CommitMetadata] | None:
    """The newest of some commits that has a schema; commits of table services count only with ``of_services``."""
    for instant in reversed(commits):
        metadata = read_commit_metadata(state, instant)
        if metadata.schema_text and (of_services or metadata.can_update_schema):
            return instant, metadata
    return None


def _from_commit(state: TableState, instant: Instant, metadata: CommitMetadata, *, with_ids: bool) -> QuerySchema:
    kept_ids = metadata.latest_schema if with_ids else None
    config, ids = with_operations(state, (instant, metadata)), kept_ids if state.options.column_ids else None
    history = _read_history(state.storage, state.timeline) if ids else None
    name = f"commit {instant.requested_time}"
    schema = _from_avro_text(metadata.schema_text or "", ids, history, config, name)
    return replace(schema, series=metadata.series, has_ids=kept_ids is not None)


def _from_avro_text(
    schema_text: str, ids: str | None, history: str | None, config: TableConfig, path: str
) -> QuerySchema:
    avro = parse_avro_schema(schema_text, path)
    fields = arrow_schema(avro)
    if ids is not None:
        fields = _with_metadata_of(to_arrow(parse_internal_schema(ids, path)), fields)
    arrow = _with_meta_columns(fields, config)
    return QuerySchema(
        arrow=arrow,
        defaults=tuple(default for default in iter_defaults(avro) if default[0].partition(".")[0] in arrow.names),
        ids=ids,
        history=history or (f'{{"schemas":[{ids}]}}' if ids else None),
    )


def _with_metadata_of(schema: pa.Schema, labelled: pa.Schema) -> pa.Schema:
    """The columns with the metadata of the same names in ``labelled``: types with column ids cannot mark a VARIANT."""
    labels: Any = {field.name: field.metadata for field in labelled}
    return pa.schema([field.with_metadata(labels.get(field.name)) for field in schema])


def _read_history(storage: Storage, timeline: Timeline) -> str | None:
    """The newest committed file of the schema history, which holds every earlier version too."""
    committed = [
        info.path
        for info in storage.list_directory(SCHEMA_FOLDER)
        if info.name.endswith(_HISTORY_SUFFIX) and timeline.is_committed(info.name.partition(".")[0].partition("_")[0])
    ]
    return read_timeline_file(storage, max(committed)).decode("utf-8", "replace") if committed else None


def _with_meta_columns(fields: pa.Schema, config: TableConfig) -> pa.Schema:
    leading: tuple[str, ...] = META_COLUMNS if config.populates_meta_fields else ()
    if config.populates_meta_fields and config.allow_operation_field:
        leading += (OPERATION_COLUMN,)
    columns = [pa.field(name, pa.string()) for name in leading]
    columns += [field for field in fields if field.name not in (*META_COLUMNS, *leading)]
    present = {field.name for field in columns}
    columns += [pa.field(name, pa.string()) for name in config.dropped_columns if name not in present]
    return pa.schema(columns)


def columns_of_query(query_schema: QuerySchema, config: TableConfig, query_type: QueryType) -> QueryColumns:
    """The columns in a query of the given type.

    A partition column of the timestamp-based key generator is text if it is read from the path, and in some releases
    also if it is read from the files. Those of the ``CustomKeyGenerator`` have their own types.
    """
    schema = query_schema.arrow
    is_cow_range = query_type is QueryType.INCREMENTAL and config.table_type is TableType.COPY_ON_WRITE
    operation = schema.get_field_index(OPERATION_COLUMN)
    if is_cow_range and not config.rules.cow_ranges_have_operation and operation >= 0:
        schema = schema.remove(operation)
    from_path = columns_from_path(config, query_type, schema, has_ids=query_schema.ids is not None)
    texts = config.partition_fields if config.key_generator == TIMESTAMP_GENERATOR else ()
    for name in texts:
        position = schema.get_field_index(name)
        if position >= 0 and (config.rules.shows_formatted_times or name in from_path):
            schema = schema.set(position, pa.field(name, pa.string()))
    return QueryColumns(schema=schema, from_path=from_path)
