"""The columns of a table as of an instant: from the newest commit that has a schema, else from data files.

Commits of table services do not decide on the columns of the newest state: they have the schema of their own client,
and no column ids. The meta columns come first; partition columns that the writer dropped from the files come last.

No commit on the active timeline has a schema if a streaming source has written nothing but empty batches lately. Hudi
reads the files of the newest commit that wrote any, and without one reads the table as empty; here the archive and the
newest data file are looked at then, and at last the schema of the table's creation. A data file also tells whether rows
have the operation of a changelog, as Flink writes it, which the properties need not say. The schema of a log file is in
the header of a block; of large files, only the head or the end is read.

Source: ``TableSchemaResolver``, ``HoodieActiveTimeline.getLastCommitMetadataWithValidSchema``,
``fetchSchemaFromFiles``, ``hasOperationField`` and ``HoodieFileIndex``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.config import TIMESTAMP_GENERATOR, MetaFieldsMode, QueryType, TableConfig, TableType
from hudi_bridge.errors import CorruptTableError, DataFileGoneError, HudiReadError, StorageError, UnsupportedTableError
from hudi_bridge.logformat.block import schema_at
from hudi_bridge.logformat.layout import MAGIC, MIN_BLOCK_SIZE, UNCOUNTED_SIZE
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.logformat.scan import ScanResult, block_before, scan_source
from hudi_bridge.releases import Series
from hudi_bridge.schema.avro import Defaults, arrow_schema, iter_defaults, parse_avro_schema
from hudi_bridge.schema.avro_types import VARIANT_FIELD
from hudi_bridge.schema.internal import SCHEMA_FOLDER, parse_internal_schema, to_arrow
from hudi_bridge.schema.meta_columns import META_COLUMNS, OPERATION_COLUMN
from hudi_bridge.schema.variants import VARIANT_PARTS, is_shredded
from hudi_bridge.splits.decryption import open_decrypted, properties_of
from hudi_bridge.splits.file_slice import (
    BaseFileName,
    LogFileName,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.notes import warn_of_schema_beside_commits
from hudi_bridge.splits.partitions import QueryColumns, columns_from_path, list_partitions
from hudi_bridge.storage.storage import Storage
from hudi_bridge.timeline.history import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant
from hudi_bridge.timeline.instant_files import CommitMetadata, WriteStat, read_commit_metadata, read_timeline_file
from hudi_bridge.timeline.timeline import TableState, Timeline

_PART_BYTES = 1 << 18
"""Enough for the header of a block of 100,000 records with their positions."""
_BEFORE_BYTES = 64
"""A block is read from its end: first its length, then the footer before it."""
_CONTENT_BYTES = 8
"""The version of an Avro or delete block, and the number of records of an Avro block."""
_AVRO_SCHEMA = b"parquet.avro.schema"
"""Where Parquet's Avro writer keeps the schema of the rows."""
_MOST_FILES = 3
_MOST_COMMITS = 3
_BYTES_OF_ANSWER = 128
"""What the answer counts in the cache, with its key."""
_KEY = "rows have operations"
_HISTORY_SUFFIX = ".schemacommit"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySchema:
    """The columns of a query.

    Attributes:
        arrow: the columns.
        defaults: the schema's defaults of missing fields, if they are not null.
        ids: the query's version of the schema with column ids, as Hudi's JSON, if the table has a schema history.
        history: all versions of the schema with column ids, as Hudi's JSON.
        series: the series of Hudi that wrote the schema's commit, as in ``CommitMetadata``.
        has_ids: whether the schema has column ids, even if the query finds columns by name.
        source: where the columns come from if neither a commit on the active timeline nor the properties have a schema.
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
    # Hudi takes the columns of a file of the newest commit, which has the same columns.
    newest = _newest_with_schema(state, commits, of_services=True)
    return _from_data_files(state, past or commits) if newest is None else _from_commit(state, *newest, with_ids=False)


def columns_of_query(query_schema: QuerySchema, config: TableConfig, query_type: QueryType) -> QueryColumns:
    """The columns in a query of the given type.

    A partition column of the timestamp-based key generator is text if it is read from the path, and in some releases
    also if it is read from the files. Partition columns of the ``CustomKeyGenerator`` have their own types.
    """
    schema = query_schema.arrow
    is_cow_range = query_type is QueryType.INCREMENTAL and config.table_type is TableType.COPY_ON_WRITE
    operation = schema.get_field_index(OPERATION_COLUMN)
    if is_cow_range and not config.rules.cow_ranges_have_operation and operation >= 0:
        schema = schema.remove(operation)
    from_path = columns_from_path(config, query_type, schema, has_ids=query_schema.ids is not None)
    as_in_0x = query_type is QueryType.INCREMENTAL and config.rules.ranges_as_in_0x
    shows_times = config.rules.shows_formatted_times and not as_in_0x
    texts = config.partition_fields if config.key_generator == TIMESTAMP_GENERATOR else ()
    for name in texts:
        position = schema.get_field_index(name)
        if position >= 0 and (shows_times or name in from_path):
            schema = schema.set(position, pa.field(name, pa.string()))
    return QueryColumns(schema=schema, from_path=from_path)


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
    leading: tuple[str, ...] = () if config.meta_fields is MetaFieldsMode.NONE else META_COLUMNS
    if config.populates_meta_fields and config.allow_operation_field:
        leading += (OPERATION_COLUMN,)
    columns = [pa.field(name, pa.string()) for name in leading]
    columns += [field for field in fields if field.name not in (*META_COLUMNS, *leading)]
    present = {field.name for field in columns}
    columns += [pa.field(name, pa.string()) for name in config.dropped_columns if name not in present]
    return pa.schema(columns)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """The columns in a file: the Avro schema of its writer, or Arrow's schema if it has none.

    ``source`` names where they come from.
    """

    source: str
    avro_text: str | None = None
    arrow: pa.Schema | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns.

        Raises:
            CorruptTableError: the Avro schema cannot be parsed.
        """
        arrow = self.arrow
        if arrow is None:
            arrow = arrow_schema(parse_avro_schema(self.avro_text or "", self.source))
        return arrow.names


def schema_beside_commits(state: TableState, commits: Sequence[Instant]) -> StoredSchema | None:
    """The columns of a table without a schema in its commits; None if it has no data file.

    Raises:
        CorruptTableError: the archived timeline, or a commit, is damaged.
        StorageError: a file cannot be read.
        UnsupportedTableError: there are data files, but none has a schema.
    """
    for commit in reversed(commits):
        stats = read_commit_metadata(state, commit).write_stats
        stored = _first_stored(state.storage, [stat.path for stat in stats])
        if stored is not None:
            return stored
    return _archived_schema(state) or _newest_stored(state)


def _archived_schema(state: TableState) -> StoredSchema | None:
    """The schema of the newest archived commit that has one; commits of table services count only if no other has."""
    times = [instant.requested_time for instant in load_archived_instants(state) if instant.action in COMMIT_ACTIONS]
    commits = read_archived_commits(state, [time for time in times if time <= state.instant])
    texts = [
        (commit.can_update_schema, time, commit.schema_text) for time, commit in commits.items() if commit.schema_text
    ]
    if not texts:
        return None
    _, time, text = max(texts)
    return StoredSchema(source=f"the archived commit {time}", avro_text=text)


def _newest_stored(state: TableState) -> StoredSchema | None:
    """The columns of the newest data file of a completed write; None if there is no such file."""
    storage, files = state.storage, []
    for folder in list_partitions(state, pa.schema([]), (), None, storage.list_directory):
        for info in storage.list_directory(folder):
            name: BaseFileName | LogFileName | None = parse_base_file_name(info.name) or parse_log_file_name(info.name)
            if name is not None and not info.is_dir and state.timeline.is_committed(name.instant_time):
                files.append((name.instant_time, info.path))
    files.sort(reverse=True)
    stored = _first_stored(storage, [path for _, path in files[:_MOST_FILES]])
    if stored is None and files:
        actual = f"none in the commits, in hoodie.table.create.schema, and in data files ({files[0][1]})"
        raise UnsupportedTableError("table schema", actual, "one in a commit, in the properties or in a data file")
    return stored


def _first_stored(storage: Storage, paths: Sequence[str]) -> StoredSchema | None:
    schemas = (stored_schema(storage, path) for path in paths)
    return next((stored for stored in schemas if stored is not None), None)


def stored_schema(storage: Storage, path: str) -> StoredSchema | None:
    """The columns of a data file; None if it is gone or damaged, or has no schema.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        return _read_schema(storage, path)
    except StorageError:
        raise
    except (FileNotFoundError, HudiReadError):
        # Whether it matters is found out when rows are read.
        return None
    except PARQUET_ERRORS as error:
        failure = storage.failure_of(path, error, pq.ParquetFile)
        if isinstance(failure, StorageError):
            raise failure from error
        return None


def _read_schema(storage: Storage, path: str) -> StoredSchema | None:
    name = path.rpartition("/")[2]
    base = parse_base_file_name(name)
    if base is not None and base.extension == "parquet":
        with storage.open_input(stored_path(path)) as opened, _parquet_file(storage, stored_path(path), opened) as file:
            text = (file.metadata.metadata or {}).get(_AVRO_SCHEMA)
            if text is not None:
                return StoredSchema(source=path, avro_text=text.decode("utf-8", "replace"))
            return StoredSchema(source=path, arrow=_as_in_avro(file.schema_arrow))
    if base is not None or parse_log_file_name(name) is None:
        return None
    text_of_log = newest_schema(storage, path)
    return StoredSchema(source=path, avro_text=text_of_log) if text_of_log else None


def _parquet_file(storage: Storage, path: str, opened: pa.NativeFile) -> pq.ParquetFile:
    properties = properties_of(storage, path)
    if properties is None:
        return pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
    return open_decrypted(storage, path, opened, properties)


def _as_in_avro(stored: pa.Schema) -> pa.Schema:
    """The columns with the types that the schemas of commits have: Avro has no numbers of one or two bytes.

    A VARIANT is known by being shredded; another one is the struct of its parts.
    """
    return pa.schema([_avro_field(field) for field in stored])


def _avro_field(field: "pa.Field[Any]") -> "pa.Field[Any]":
    if pa.types.is_struct(field.type) and is_shredded(field.type, VARIANT_PARTS):
        return pa.field(field.name, VARIANT_PARTS, metadata=VARIANT_FIELD)
    return pa.field(field.name, _avro_type(field.type))


def _avro_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([_avro_field(child) for child in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(pa.field("element", _avro_type(kind.value_type)))
    if isinstance(kind, pa.MapType):
        return pa.map_(_avro_type(kind.key_type), _avro_type(kind.item_type))
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def with_operations(state: TableState, read_commit: tuple[Instant, CommitMetadata] | None) -> TableConfig:
    """The table's configuration; if it does not state whether rows have operations, the newest commit's files are read.

    ``read_commit`` is a commit whose metadata has been read already, if any. The answer is cached: the writers of a
    table do not change it, and if they did, rows with an operation are refused.
    """
    config, cache = state.config, state.storage.cache
    if config.allow_operation_field is not None or not config.populates_meta_fields:
        return config
    answer: bool | None = cache.get(_KEY)
    if answer is None:
        names = (_column_names(state.storage, stat) for stat in islice(_newest_files(state, read_commit), _MOST_FILES))
        has_operation = next((OPERATION_COLUMN in some for some in names if some is not None), None)
        answer = bool(has_operation)
        if has_operation is not None:
            cache.put(_KEY, has_operation, _BYTES_OF_ANSWER)
    return replace(config, allow_operation_field=answer)


def _newest_files(state: TableState, read_commit: tuple[Instant, CommitMetadata] | None) -> Iterator[WriteStat]:
    """The files of the newest commit that has written rows, the smallest first: those take the fewest requests.

    Files that have nothing but deletes, as commits say, have no columns.
    """
    for commit in islice(reversed(state.timeline.commits()), _MOST_COMMITS):
        try:
            metadata = (
                read_commit[1]
                if read_commit is not None and commit == read_commit[0]
                else read_commit_metadata(state, commit)
            )
        except (CorruptTableError, DataFileGoneError):
            # A commit that is read for rows, too, is an error then.
            continue
        with_rows = [stat for stat in metadata.write_stats if stat.num_writes or not stat.num_deletes]
        if with_rows:
            yield from sorted(with_rows, key=lambda stat: stat.file_size_bytes)
            return


def _column_names(storage: Storage, stat: WriteStat) -> list[str] | None:
    """The columns of a data file; None if it is gone or damaged, or has no schema.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        stored = _first_of_log(storage, stat.path) or stored_schema(storage, stat.path)
        names = None if stored is None else stored.names
    except StorageError:
        raise
    except (FileNotFoundError, HudiReadError):
        # Whether it matters is found out when rows are read.
        return None
    return names


def _first_of_log(storage: Storage, path: str) -> StoredSchema | None:
    """The columns of the first block of a log file, whose head is read alone; None if it is no such block."""
    name = parse_log_file_name(path.rpartition("/")[2])
    if name is None or name.file_format:
        return None
    with _open_parts(storage, path) as parts:
        if parts.size < UNCOUNTED_SIZE + MIN_BLOCK_SIZE or parts.at(0, len(MAGIC)) != MAGIC:
            return None
        text = schema_at(parts, 0, path)
    return StoredSchema(source=path, avro_text=text) if text else None


def scan_heads(storage: Storage, path: str, size_bytes: int) -> ScanResult:
    """All blocks of a log file, with only the first bytes of their contents.

    Raises:
        CorruptLogFileError: the file does not start with a block, or the parts of a block do not add up.
        UnsupportedTableError: a block is of an unknown version or type.
        StorageError: the file cannot be read.
    """
    with _open_parts(storage, path, size_bytes) as parts:
        return scan_source(parts, path)


def newest_schema(storage: Storage, path: str) -> str | None:
    """The schema of the last data block of a log file, which is read from its end; None if there is none.

    Raises like ``scan_heads``. Source: ``HoodieLogFileReader.prev``, ``TableSchemaResolver.readSchemaFromLogFile``.
    """
    with _open_parts(storage, path) as parts:
        end = parts.size
        while end and (block := block_before(parts, end, path)) is not None:
            if block.is_data and block.schema_text:
                return block.schema_text
            end = block.offset
        if not end:
            return None
        # It has no such blocks, or is damaged at its end.
        blocks = scan_source(parts, path).blocks
        return next((block.schema_text for block in reversed(blocks) if block.is_data and block.schema_text), None)


@contextmanager
def _open_parts(storage: Storage, path: str, size_bytes: int = 0) -> "Iterator[PartsOfFile]":
    """A context with the bytes of a log file; its size is asked for if it is not given."""
    with storage.open_input(path, size_bytes or None) as file:
        yield PartsOfFile(partial(storage.read_range, file, path), file.size())


class PartsOfFile:
    """The bytes of a file, with a buffer for the last two parts: the head of a block and its end."""

    def __init__(self, read: Callable[[int, int], pa.Buffer], size: int) -> None:
        self.size = size
        self._read = read
        self._buffers: list[tuple[int, bytes]] = []

    def at(self, start: int, length: int) -> bytes:
        """The bytes at an offset; fewer at the end of the file."""
        length = max(0, min(length, self.size - start))
        if not length:
            return b""
        for first, content in self._buffers:
            if first <= start and start + length <= first + len(content):
                return content[start - first : start - first + length]
        first = max(0, min(start - _BEFORE_BYTES, self.size - _PART_BYTES))
        read = self._read(first, min(max(start - first + length, _PART_BYTES), self.size - first)).to_pybytes()
        self._buffers = [*self._buffers[-1:], (first, read)]
        return read[start - first : start - first + length]

    def content(self, start: int, length: int) -> pa.Buffer:
        """The first bytes of the content of a block."""
        return pa.py_buffer(self.at(start, min(_CONTENT_BYTES, length)))

    def next_magic(self, start: int) -> int:
        """The offset of the next possible block, or the end of the file."""
        while start < self.size:
            part = self.at(start, _PART_BYTES)
            position = part.find(MAGIC)
            if position >= 0:
                return start + position
            if start + len(part) >= self.size:
                break
            start += len(part) - len(MAGIC) + 1
        return self.size
