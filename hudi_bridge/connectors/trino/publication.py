"""A publication: files from which SQL views add the log records to a table's base files.

::

    current.json                         the newest publication, and the read context for views
    <fingerprint>/slices/<id>.parquet    the file slices of a publication, with their base and published files
    <fingerprint>/log/<slice>.parquet    the log records of a slice, or all of its merged rows
    <fingerprint>/blocks/<id>.parquet    the blocks of all log files (optional; without merging, in place of the log)

Only ``current.json`` is ever changed: a view names its publication, and its rows stay the same. The fingerprint is a
hash of the table's schema and merge rule, so that all files of a folder have the same columns.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.connectors.scratch import Scratch
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.errors import QueryError
from hudi_bridge.merge.custom_payload import RecordPayload
from hudi_bridge.splits.split import ReadContext, context_from_json, context_to_json

CURRENT = "current.json"
LOG, SLICES, BLOCKS = "log", "slices", "blocks"
_FORMAT = 3
_PATH_COLUMN = "path_"
_SLICE_FIELDS: Mapping[str, pa.DataType] = {
    "publication": pa.string(),
    "number": pa.int64(),
    "partition_path": pa.string(),
    "file_id": pa.string(),
    "base_path": pa.string(),
    "base_uri": pa.string(),
    "log_file": pa.string(),
    "log_uri": pa.string(),
    "why_whole": pa.string(),
    "records": pa.int64(),
    "contested": pa.int64(),
    "merges_fields": pa.bool_(),
    "joins_by_field": pa.bool_(),
    "path_in_file": pa.bool_(),
    "key": pa.string(),
    "counted": pa.string(),
}
_PUBLICATION_FIELDS = ("publication", "number")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSlice:
    """One file slice of a publication.

    ``base_uri`` is the engine's URI of the base file, None if the file is not read; ``log_uri`` that of the published
    file, None if there is none. ``key`` is the identity of the slice, and ``counted`` holds for the instants of its log
    blocks whether they count, as JSON: if both are the same, the slice has not changed. ``path_values`` are the values
    of the columns that come from the partition path; ``path_in_file`` is whether all rows of the base file have them.
    """

    partition_path: str
    file_id: str
    base_path: str | None
    base_uri: str | None
    log_file: str | None
    log_uri: str | None
    why_whole: str | None
    records: int
    contested: int
    merges_fields: bool
    joins_by_field: bool
    path_in_file: bool
    key: str
    counted: str
    path_values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A publication for an engine, whose timestamps are cut to milliseconds with ``cut_times``.

    ``table_uri`` and ``own_uri`` are the engine's URIs of the table and of the published files. ``context`` is that of
    the table's splits, without the instants of the timeline. ``key_field`` is the record key field by which base rows
    find their log records, if there is one. ``kept`` lists the publications that are kept, as folder
    and id, oldest first. If not ``is_merged``, there are no log records, and Trino merges the ``block_rows`` rows of
    the blocks.
    """

    engine: Engine
    cut_times: bool
    publication: str
    instant: str
    folder: str
    table_name: str
    table_uri: str
    own_uri: str
    slices: int
    records: int
    contested: int
    merges_fields: bool
    key_field: str | None
    whole: int
    why_whole: str | None
    has_blocks: bool
    context: ReadContext
    kept: tuple[tuple[str, str], ...]
    is_merged: bool = True
    block_rows: int = 0

    @property
    def columns(self) -> LogColumns:
        """The columns of the published rows."""
        return LogColumns.of(self.context, self.engine, cut_times=self.cut_times)

    def to_json(self) -> str:
        """The content of ``current.json``."""
        document = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "context"}
        context = replace(self.context, committed_instants=frozenset(), pending_instants=frozenset())
        return json.dumps({"format": _FORMAT, **document, "context": context_to_json(context)}, indent=1)

    @classmethod
    def read(cls, scratch: Scratch, payloads: Mapping[str, RecordPayload] | None = None) -> Self | None:
        """The newest publication of a folder; None before the first.

        Raises:
            QueryError: ``current.json`` was not written by this package, or a payload is missing.
        """
        content = scratch.read(CURRENT)
        if content is None:
            return None
        try:
            document = json.loads(content)
            if (version := document.pop("format")) != _FORMAT:
                raise QueryError(CURRENT, f"format {version!r}", f"format {_FORMAT}: publish to a new folder")
            document["engine"] = Engine(document["engine"])
            context = context_from_json(document.pop("context"), payloads or {})
            kept = tuple((folder, publication) for folder, publication in document.pop("kept"))
            return cls(**document, context=context, kept=kept)
        except (LookupError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
            if isinstance(error, QueryError):
                raise
            raise QueryError(
                CURRENT, f"text that is no publication ({error})", "what publish log-records wrote"
            ) from error


def path_columns(context: ReadContext) -> dict[str, str]:
    """The columns of the slices table for values of the partition path, by the table's column."""
    return {name: f"{_PATH_COLUMN}{position}" for position, name in enumerate(context.path_columns)}


def slices_schema(context: ReadContext, columns: LogColumns) -> pa.Schema:
    """The schema of the slices table."""
    own = [pa.field(name, kind) for name, kind in _SLICE_FIELDS.items()]
    from_path = (pa.field(stored, columns.schema.field(name).type) for name, stored in path_columns(context).items())
    return pa.schema([*own, *from_path])


def write_slices(
    scratch: Scratch, folder: str, publication: str, slices: Iterable[PublishedSlice], schema: pa.Schema
) -> None:
    """Write the slices file of a publication, with the schema of ``slices_schema``."""
    stored = schema.names[len(_SLICE_FIELDS) :]
    rows = [
        {name: getattr(published, name) for name in _SLICE_FIELDS if name not in _PUBLICATION_FIELDS}
        | dict(zip(stored, published.path_values, strict=False))
        | {"publication": publication, "number": number}
        for number, published in enumerate(slices)
    ]
    with scratch.appearing(f"{folder}/{SLICES}/{publication}.parquet") as file:
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), file, store_schema=False)


def read_slices(scratch: Scratch, publication: Publication) -> tuple[PublishedSlice, ...]:
    """The file slices of a publication.

    Raises:
        QueryError: the file is missing or damaged.
    """
    name = f"{publication.folder}/{SLICES}/{publication.publication}.parquet"
    content = scratch.read(name)
    if content is None:
        raise QueryError("publication", f"{name} is gone", "the files that publish log-records wrote")
    try:
        schema = slices_schema(publication.context, publication.columns)
        rows = pq.read_table(pa.BufferReader(content)).cast(schema).to_pylist()
    except (pa.ArrowException, ValueError, OSError) as error:
        raise QueryError("publication", f"{name}: {error}", "the files that publish log-records wrote") from error
    return tuple(_published_slice(row, schema.names[len(_SLICE_FIELDS) :]) for row in rows)


def _published_slice(row: dict[str, Any], stored: Sequence[str]) -> PublishedSlice:
    own = {name: row[name] for name in _SLICE_FIELDS if name not in _PUBLICATION_FIELDS}
    return PublishedSlice(**own, path_values=tuple(row[name] for name in stored))
