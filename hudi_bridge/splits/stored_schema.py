"""The columns of a table by its data files or its archived timeline, where no commit on the active one has a schema.

Such is the timeline of a streaming source of which nothing but empty batches has not been archived yet.

Source: ``TableSchemaResolver.fetchSchemaFromFiles``. Hudi reads the files of the newest commit that wrote any; where
there is none, it reads the table as empty. The archive, and the newest data file, are looked at here then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.errors import HudiReadError, StorageError, UnsupportedTableError
from hudi_bridge.logformat.parquet import PARQUET_ERRORS
from hudi_bridge.schema.avro import arrow_schema, parse_avro_schema
from hudi_bridge.splits.decryption import open_decrypted, properties_of
from hudi_bridge.splits.file_names import (
    BaseFileName,
    LogFileName,
    parse_base_file_name,
    parse_log_file_name,
    stored_path,
)
from hudi_bridge.splits.log_heads import newest_schema
from hudi_bridge.splits.partitions import list_partitions
from hudi_bridge.storage import Storage
from hudi_bridge.timeline.archived import load_archived_instants, read_archived_commits
from hudi_bridge.timeline.commit_metadata import read_commit_metadata
from hudi_bridge.timeline.instant import COMMIT_ACTIONS, Instant
from hudi_bridge.timeline.table_state import TableState

_AVRO_SCHEMA = b"parquet.avro.schema"
"""Where Parquet's Avro writer keeps the schema of the rows."""
_MOST_FILES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """The columns in a file: as the Avro schema of its writer, or as Arrow reads them if it has none.

    ``source`` says where they are from.
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
    """The columns of a table of which none of the commits has a schema; None if it has no data file.

    Raises:
        CorruptTableError: the archived timeline, or a commit, is damaged.
        StorageError: a file cannot be read.
        UnsupportedTableError: there are data files, and none of them tells.
    """
    for commit in reversed(commits):
        stats = read_commit_metadata(state, commit).write_stats
        stored = _first_stored(state.storage, [stat.path for stat in stats])
        if stored is not None:
            return stored
    return _archived_schema(state) or _newest_stored(state)


def stored_schema(storage: Storage, path: str) -> StoredSchema | None:
    """The columns of a data file; None if it is gone or damaged, or does not tell.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        return _read(storage, path)
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


def _read(storage: Storage, path: str) -> StoredSchema | None:
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
    """The columns with the types that the schemas of commits have: Avro has no numbers of one or two bytes."""
    return pa.schema([pa.field(field.name, _avro_type(field.type)) for field in stored])


def _avro_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct([pa.field(child.name, _avro_type(child.type)) for child in kind])
    if isinstance(kind, pa.ListType):
        return pa.list_(pa.field("element", _avro_type(kind.value_type)))
    if isinstance(kind, pa.MapType):
        return pa.map_(_avro_type(kind.key_type), _avro_type(kind.item_type))
    return pa.int32() if kind in (pa.int8(), pa.int16()) else kind


def _first_stored(storage: Storage, paths: Sequence[str]) -> StoredSchema | None:
    found = (stored_schema(storage, path) for path in paths)
    return next((stored for stored in found if stored is not None), None)


def _archived_schema(state: TableState) -> StoredSchema | None:
    """The schema of the newest archived commit that has one; those of table services count only if no other has."""
    times = [one.requested_time for one in load_archived_instants(state) if one.action in COMMIT_ACTIONS]
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
        found = f"none in the commits, in hoodie.table.create.schema, and in data files ({files[0][1]})"
        raise UnsupportedTableError("table schema", found, "one in a commit, in the properties or in a data file")
    return stored
