"""The schema versions of a table, the stored columns of a file, and a proposed history with column ids.

Tables with column ids keep their versions in ``.hoodie/.schema`` (``FileBasedInternalSchemaStorageManager``). In
others, the versions are the distinct consecutive schemas of the commits.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.common.display import html_of_properties, html_of_rows
from hudi_bridge.config import MetaFieldsMode, QueryType, TableConfig
from hudi_bridge.errors import CorruptBaseFileError, CorruptLogFileError, CorruptTableError, QueryError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.kinds import ColumnRows, RowFormat
from hudi_bridge.logformat.parquet import (
    END_BYTES,
    PARQUET_ERRORS,
    first_line,
    require_not_encrypted,
)
from hudi_bridge.logformat.scan import scan_blocks
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.schema.difference import SchemaChange, schema_changes
from hudi_bridge.schema.evolve import StoredAs
from hudi_bridge.schema.file_columns import ColumnMapping, map_columns
from hudi_bridge.schema.infer import (
    SchemaProposal,
    infer_schema_history,
    writer_schema_from_arrow,
    writer_schema_from_avro,
)
from hudi_bridge.schema.internal import (
    SCHEMA_FOLDER,
    InternalSchema,
    parse_internal_schema,
    parse_schema_history,
    schema_for_instant,
    to_arrow,
)
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.splits.committed_files import registered_files
from hudi_bridge.splits.decryption import open_decrypted, properties_of
from hudi_bridge.splits.file_slice import is_data_file, parse_base_file_name, stored_path
from hudi_bridge.splits.planner import release_defaults
from hudi_bridge.splits.query_schema import columns_of_query, read_query_schema
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import COMMIT_ACTIONS
from hudi_bridge.timeline.instant_files import CommitMetadata, read_commit_metadata
from hudi_bridge.timeline.timeline import TableState

_INSTANT = re.compile(r"[0-9]{1,32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaVersion:
    """One version of a table's schema, in force from ``instant`` on.

    With ``has_ids``, ``schema`` is Hudi's own, and ``changes`` distinguish renames from drops and adds. Otherwise
    ``schema`` comes from a commit, its ids are only the positions of columns, and columns are compared by name.
    ``changes`` are relative to the previous version; the first version has none.

    Made by ``HudiTable.schema_history``.
    """

    instant: str
    has_ids: bool
    schema: InternalSchema
    arrow_schema: pa.Schema
    changes: tuple[SchemaChange, ...]

    def _repr_html_(self) -> str:
        properties = (("in force from", self.instant), ("changes", tuple(map(str, self.changes))))
        columns = ((field.name, field.type) for field in self.arrow_schema)
        return html_of_properties("SchemaVersion", properties) + html_of_rows("Columns", ("name", "type"), columns)


class SchemaHistory(tuple[SchemaVersion, ...]):
    """The versions of a schema, oldest first, which a notebook shows as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        header = ("in force from", "columns", "changes")
        rows = ((version.instant, len(version.arrow_schema), tuple(map(str, version.changes))) for version in self)
        known_by = "id" if any(version.has_ids for version in self) else "name"
        properties = (("versions", f"{len(self):,}"), ("columns are known by", known_by if self else None))
        return html_of_properties("Schema history", properties) + html_of_rows("Versions", header, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """How the columns of a base file, or of one block of a log file, are mapped to the columns of a query.

    ``instant_time`` is the instant that wrote them; ``offset`` is the block's offset in the file, None for a base file.

    Made by ``HudiTable.file_columns``.
    """

    path: str
    offset: int | None
    instant_time: str
    columns: tuple[ColumnMapping, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StoredSchema:
    """The columns stored in a base file or log block; ``has_defaults`` if columns that it lacks have their defaults."""

    offset: int | None
    instant_time: str
    arrow: pa.Schema
    stored_as: StoredAs
    has_defaults: bool = False


def read_schema_history(state: TableState) -> SchemaHistory:
    """The versions of a table's schema, oldest first.

    Without column ids, reads all commits, archived ones too, and skips those without a schema and of table services.

    Raises:
        CorruptTableError: a commit, or a schema, cannot be parsed.
    """
    query = read_query_schema(state)
    if query.ids is not None and query.history is not None:
        by_version = {schema.version_id: schema for schema in parse_schema_history(query.history, SCHEMA_FOLDER)}
        latest = parse_internal_schema(query.ids, SCHEMA_FOLDER)
        schemas = [by_version[version] for version in sorted(by_version) if version < latest.version_id]
        times = [str(schema.version_id) for schema in (*schemas, latest)]
        if times[0] == "0":
            times[0] = _first_commit_time(state) or times[0]
        return _versions([*zip(times, [*schemas, latest], strict=True)], has_ids=True)
    commits = ((time, metadata) for time, metadata in _iter_commits(state) if metadata.can_update_schema)
    schemas_of_commits = ((time, _schema_of_commit(metadata, state.config, time)) for time, metadata in commits)
    return _versions(
        _distinct((time, schema) for time, schema in schemas_of_commits if schema is not None), has_ids=False
    )


def propose_schema_history(state: TableState) -> SchemaProposal:
    """Proposes a history with column ids for a table without one, from its commits, archived ones too.

    If a commit has no schema, it is read from a file of the commit that still exists. Nothing is written.

    Raises:
        CorruptTableError: a commit, a file or a schema cannot be parsed.
    """

    def schemas() -> Iterator[tuple[str, InternalSchema]]:
        for time, metadata in _iter_commits(state):
            schema = _schema_of_commit(metadata, state.config, time) or _schema_of_files(state, metadata)
            if schema is not None:
                yield time, schema

    return infer_schema_history(schemas())


def read_file_columns(state: TableState, path: str) -> tuple[FileColumns, ...]:
    """How a snapshot query reads the columns of a base file, or of each data block of a log file.

    ``path`` is relative to the table. Holds the whole log file in memory.

    Raises:
        QueryError: the path is not a data file of the table.
        CorruptTableError: the file, or a schema, cannot be parsed.
    """
    storage, query = state.storage, read_query_schema(state)
    columns, path_columns = columns_of_query(query, state.config, QueryType.SNAPSHOT)
    defaults = dict(release_defaults(state.config, query))
    history = parse_schema_history(query.history, SCHEMA_FOLDER) if query.history is not None else ()
    query_ids = parse_internal_schema(query.ids, SCHEMA_FOLDER) if query.ids is not None else None
    for folder in (storage.table_path, storage.location(), storage.shown_path):
        path = path.removeprefix(f"{folder}/")
    return tuple(
        FileColumns(
            path=path,
            offset=stored.offset,
            instant_time=stored.instant_time,
            columns=map_columns(
                stored.arrow,
                columns,
                file_ids=schema_for_instant(history, stored.instant_time),
                query_ids=query_ids,
                path_columns=path_columns,
                stored_as=stored.stored_as,
                defaults=defaults if stored.has_defaults else (),
            ),
        )
        for stored in _read_stored_schemas(storage, _path_in_commits(state, path))
    )


def _path_in_commits(state: TableState, path: str) -> str:
    """The path by which commits name a file that may be an external one."""
    if is_data_file(path):
        return path
    registered = (info.path for files in registered_files(state).values() for info in files)
    return next((file for file in registered if stored_path(file) == path), path)


def _versions(schemas: Iterable[tuple[str, InternalSchema]], *, has_ids: bool) -> SchemaHistory:
    listed = list(schemas)
    changes = [schema_changes(before, after, by_id=has_ids) for (_, before), (_, after) in pairwise(listed)]
    return SchemaHistory(
        SchemaVersion(
            instant=instant, has_ids=has_ids, schema=schema, arrow_schema=to_arrow(schema), changes=since_before
        )
        for (instant, schema), since_before in zip(listed, [(), *changes], strict=False)
    )


def _distinct(schemas: Iterable[tuple[str, InternalSchema]]) -> Iterator[tuple[str, InternalSchema]]:
    """The schemas that differ from the previous one."""
    last = None
    for instant, schema in schemas:
        if schema != last:
            yield instant, schema
        last = schema


def _archived_times(state: TableState) -> list[str]:
    """The requested times of archived commits that are not on the active timeline, oldest first."""
    archived = {instant.requested_time for instant in load_archived_instants(state) if instant.action in COMMIT_ACTIONS}
    return sorted(time for time in archived if _INSTANT.fullmatch(time) and not state.timeline.contains(time))


def _first_commit_time(state: TableState) -> str | None:
    active = [commit.requested_time for commit in state.timeline.commits()]
    return min([*_archived_times(state)[:1], *active[:1]], default=None)


def _iter_commits(state: TableState) -> Iterator[tuple[str, CommitMetadata]]:
    """The metadata of all commits, archived ones too, oldest first."""
    archived = read_archived_commits(state, _archived_times(state))
    active = {commit.requested_time: commit for commit in state.timeline.commits()}
    for time in sorted({*archived, *active}):
        yield time, archived[time] if time in archived else read_commit_metadata(state, active[time])


def _leading_columns(config: TableConfig) -> tuple[str, ...]:
    if config.meta_fields is MetaFieldsMode.NONE:
        return ()
    return (*META_COLUMNS, OPERATION_COLUMN) if config.allow_operation_field else META_COLUMNS


def _schema_of_commit(metadata: CommitMetadata, config: TableConfig, time: str) -> InternalSchema | None:
    if metadata.schema_text is None:
        return None
    avro = parse_avro_schema(metadata.schema_text, f"commit {time}")
    return writer_schema_from_avro(avro, _leading_columns(config), config.dropped_columns)


def _schema_of_files(state: TableState, metadata: CommitMetadata) -> InternalSchema | None:
    """The schema of the first file of a commit that still exists and has rows."""
    for stat in metadata.write_stats:
        if is_data_file(stat.path) and state.storage.exists(stored_path(stat.path)):
            for stored in _read_stored_schemas(state.storage, stat.path):
                return writer_schema_from_arrow(
                    stored.arrow, _leading_columns(state.config), state.config.dropped_columns
                )
    return None


def _read_stored_schemas(storage: Storage, path: str) -> tuple[_StoredSchema, ...]:
    """The schema of a base file, or of each data block of a log file."""
    expected = "a base file or log file, by its path from the table's folder"
    if not is_data_file(path):
        raise QueryError("file", path, expected)
    try:
        file = storage.open_input(stored_path(path))
    except (FileNotFoundError, CorruptTableError) as error:
        raise QueryError("file", f"{path}, which is not there", expected) from error
    with file:
        base = parse_base_file_name(path.rpartition("/")[2])
        if base is not None and base.extension != "parquet":
            raise QueryError("file", path, "a Parquet base file or a log file")
        if base is not None:
            arrow = _base_schema(storage, file, path)
            return (
                _StoredSchema(offset=None, instant_time=base.instant_time, arrow=arrow, stored_as=StoredAs.PARQUET),
            )
        blocks = scan_blocks(file.read_buffer(), path).blocks
    return tuple(
        _StoredSchema(
            offset=block.offset,
            instant_time=block.instant_time or "",
            arrow=_block_schema(block, rows),
            stored_as=rows.stored_as,
            has_defaults=block.has_defaults,
        )
        for block in blocks
        if (rows := block.kind.rows) is not None
    )


def _base_schema(storage: Storage, file: pa.NativeFile, path: str) -> pa.Schema:
    properties = properties_of(storage, stored_path(path))
    if properties is not None:
        with open_decrypted(storage, stored_path(path), file, properties) as parquet:
            return parquet.schema_arrow
    try:
        opened: Any = file  # the stubs lack read_at's second argument
        require_not_encrypted(opened.read_at(END_BYTES, max(0, opened.size() - END_BYTES)), path)
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
            return parquet.schema_arrow
    except PARQUET_ERRORS as error:
        raise CorruptBaseFileError(path, None, first_line(error), "a readable Parquet file") from error


def _block_schema(block: LogBlock, rows: RowFormat) -> pa.Schema:
    if isinstance(rows, ColumnRows):
        return rows.schema(block.content, block.path, block.content_offset)
    if block.schema_text is None:
        raise CorruptLogFileError(block.path, block.offset, "a data block without SCHEMA", "the writer's schema")
    return arrow_schema(parse_avro_schema(block.schema_text, block.path, block.offset))
