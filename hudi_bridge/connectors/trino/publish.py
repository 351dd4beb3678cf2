"""Publishes the log records of a table, one file slice at a time, for SQL views over its base files.

A slice that has not changed since the last publication is not read. The publication is written after its files, so that
views never see an incomplete one.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.common.operations import watched_work
from hudi_bridge.common.threads import map_in_threads
from hudi_bridge.config import QueryType
from hudi_bridge.connectors.scratch import UNFINISHED, Locations, Scratch, remove_orphan_files
from hudi_bridge.connectors.trino.blocks import Blocks
from hudi_bridge.connectors.trino.compatibility import LogColumns
from hudi_bridge.connectors.trino.publication import (
    BLOCKS,
    CURRENT,
    LOG,
    SLICES,
    Publication,
    PublishedSlice,
    read_slices,
    slices_schema,
    write_slices,
)
from hudi_bridge.connectors.trino.slice_content import SliceContent, slice_content, unmerged_content
from hudi_bridge.connectors.trino.sql_types import Engine
from hudi_bridge.connectors.trino.unmerged_view import check_mergeable
from hudi_bridge.engines import context_identity, slice_identity
from hudi_bridge.engines.slice_delta import single_key_field
from hudi_bridge.errors import QueryError, UnsupportedTableError
from hudi_bridge.splits.split import RealtimeFileSplit, sizes_of
from hudi_bridge.storage.storage import PathLike, Storage
from hudi_bridge.table import HudiTable

_FORMAT = 5
"""To be raised when the published files for a slice change in form or content."""

_SUFFIX = ".parquet"
_EMPTY = f"empty{_SUFFIX}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The result of a call: ``built`` slices were read, ``reused`` ones had not changed."""

    publication: Publication
    built: int
    reused: int
    removed_files: int


def publish_log_records(
    table: HudiTable,
    folder: PathLike,
    *,
    engine: Engine = Engine.TRINO,
    cut_times: bool = False,
    locations: Locations | None = None,
    keep: int = 2,
    leave_seconds: float = 3600,
    blocks: bool = False,
    unmerged: bool = False,
) -> Published:
    """Publish a table as of its newest commit to a folder, which must lie outside of the table.

    For Presto, which has no functions in Python, slices with contested rows that need one are merged here. Its
    timestamps have milliseconds: those of microseconds become numbers, unless ``cut_times`` allows to cut them.
    ``locations`` maps the table and the folder to the engine's URIs. The newest ``keep`` publications are kept for
    views. Other files are kept for ``leave_seconds``, which must cover the longest query or publication. With
    ``blocks``, the blocks of the log files are published too; with ``unmerged``, they are published in place of log
    records, for Trino to merge.

    Raises:
        QueryError: the folder lies within the table, or has publications of another table or for another engine;
            ``cut_times`` without Presto, or ``unmerged`` with it; the table was opened for its base files alone.
        UnsupportedTableError: the table has no columns, or cannot be merged, or with ``unmerged`` not by Trino.
        HudiReadError: the table cannot be read.
    """
    if table.query_type is not QueryType.SNAPSHOT:
        raise QueryError("table", f"one that is opened as {table.query_type}", "one whose log records are wanted")
    scratch = Scratch.open(folder)
    scratch.require_outside(table.storage)
    publisher = _Publisher(
        table, scratch, locations or Locations(), engine, cut_times=cut_times, is_merged=not unmerged
    )
    return publisher.publish(max(1, keep), blocks=blocks or unmerged, leave_seconds=leave_seconds)


class _Publisher:
    def __init__(
        self,
        table: HudiTable,
        scratch: Scratch,
        locations: Locations,
        engine: Engine,
        *,
        cut_times: bool,
        is_merged: bool,
    ) -> None:
        if cut_times and engine is not Engine.PRESTO:
            raise QueryError("--cut-times", f"--for {engine}", "--for presto, whose timestamps have milliseconds")
        if not is_merged and engine is not Engine.TRINO:
            raise QueryError("--unmerged", f"--for {engine}", "--for trino, which can decode log blocks")
        if not len(table.schema):
            raise UnsupportedTableError("table", "no columns: nothing has been committed yet", "a table with columns")
        self._table = table
        self._storage = table.storage
        self._scratch = scratch
        self._locations = locations
        self._splits = table.splits()
        self._context = self._splits[0].context if self._splits else table.read_context()
        self._context.require_no_completion_times("Trino and Presto")
        if not is_merged:
            check_mergeable(self._context)
        self._is_merged = is_merged
        self._columns = LogColumns.of(self._context, engine, cut_times=cut_times)
        self._table_uri, self._own_uri = self._uri(table.storage), self._uri(scratch.storage)
        self._identity = context_identity(
            self._context, _FORMAT, engine, cut_times, is_merged, self._table_uri, self._own_uri
        )
        # All files of a folder have the same columns, with values computed in the same way.
        self._folder = self._identity[:8]

    def publish(self, keep: int, *, blocks: bool, leave_seconds: float) -> Published:
        """Publish, and remove orphan files."""
        last = self._last()
        cached = self._unchanged(last)
        reused = [cached.get(self._key(split)) for split in self._splits]
        at_once = max(1, min(len(self._splits), os.cpu_count() or 1))
        build = partial(self._build, at_once=at_once)
        work = watched_work()
        if work is not None:
            work.begin(sizes_of(self._splits))

        def published(pair: tuple[RealtimeFileSplit, PublishedSlice | None]) -> PublishedSlice:
            split, unchanged = pair
            built = unchanged or build(split)
            if work is not None:
                work.finish(sizes_of([split]))
            return built

        slices = map_in_threads(published, zip(self._splits, reused, strict=True), at_once)
        self._write_empty()
        digest = hashlib.sha256(
            repr([(published.key, published.counted) for published in slices]).encode()
        ).hexdigest()[:8]
        name = f"{self._context.latest_instant}-{digest}"
        block_rows = self._write_blocks(name) if blocks else 0
        write_slices(self._scratch, self._folder, name, slices, slices_schema(self._context, self._columns))
        others = [entry for entry in (last.kept if last else ()) if entry != (self._folder, name)]
        publication = self._publication(name, slices, (*others, (self._folder, name))[-keep:], blocks, block_rows)
        self._scratch.write(CURRENT, publication.to_json().encode())
        built = sum(published is None for published in reused)
        removed = self._remove(publication, leave_seconds)
        return Published(publication=publication, built=built, reused=len(slices) - built, removed_files=removed)

    def _last(self) -> Publication | None:
        rule = self._context.merge_rule
        payloads = {rule.payload_class: rule.payload} if rule and rule.payload and rule.payload_class else {}
        last = Publication.read(self._scratch, payloads)
        if last is not None and (last.table_uri, last.engine) != (self._table_uri, self._columns.engine):
            description, expected = (
                f"{last.table_uri}, for {last.engine}",
                f"{self._table_uri}, for {self._columns.engine}",
            )
            raise QueryError("folder for published files", f"those of {description}", f"a folder for {expected}, alone")
        return last

    def _unchanged(self, last: Publication | None) -> Mapping[str, PublishedSlice]:
        """The slices of the last publication for which the same log blocks count, by identity."""
        if last is None or last.folder != self._folder:
            return {}
        slices = read_slices(self._scratch, last)
        return {
            published.key: published
            for published in slices
            if published.counted == self._counted(json.loads(published.counted))
        }

    def _counted(self, instants: Iterable[str]) -> str:
        return json.dumps({instant: self._context.counts(instant) for instant in sorted(instants)})

    def _key(self, split: RealtimeFileSplit) -> str:
        return slice_identity(split, self._identity)[:24]

    def _build(self, split: RealtimeFileSplit, *, at_once: int) -> PublishedSlice:
        if self._is_merged:
            content = slice_content(self._storage, split, self._columns, at_once)
        else:
            content = unmerged_content(self._storage, split, self._columns)
        counted = json.dumps(content.counted_instants)
        key = self._key(split)
        base_uri = None
        if split.base_path is not None and content.reads_base:
            base_uri = self._uri(self._storage, split.base_path)
        name = f"{key}-{hashlib.sha256(counted.encode()).hexdigest()[:8]}.parquet"
        is_written = self._write(name, content)
        values = split.path_values
        return PublishedSlice(
            partition_path=split.partition_path,
            file_id=split.file_id,
            base_path=split.base_path,
            base_uri=base_uri,
            log_file=name if is_written else None,
            log_uri=self._uri(self._scratch.storage, f"{self._folder}/{LOG}/{name}") if is_written else None,
            why_whole=content.why_whole,
            records=content.records,
            contested=content.contested,
            merges_fields=content.merges_fields,
            joins_by_field=content.joins_by_field,
            path_in_file=content.path_in_file,
            key=key,
            counted=counted,
            path_values=tuple(
                values[name].cast(self._columns.schema.field(name).type).as_py()
                for name in self._context.path_columns
                if name in values
            ),
        )

    def _uri(self, storage: Storage, path: str = "") -> str:
        """The URI of a file or folder, as the engine's ``"$path"`` has it."""
        uri = self._locations.uri(storage, path)
        # As Hadoop's Path spells it.
        return re.sub("^file:/+", "file:/", uri) if self._columns.engine is Engine.PRESTO else uri

    def _write(self, name: str, content: SliceContent) -> bool:
        """Write the published file of a slice; False if there is nothing to publish."""
        batches = (batch for batch in content.batches if batch.num_rows)
        first = next(iter(batches), None)
        if first is None:
            return False
        with (
            self._scratch.appearing(f"{self._folder}/{LOG}/{name}") as file,
            pq.ParquetWriter(file, self._columns.schema, compression="zstd", store_schema=False) as writer,
        ):
            for batch in chain([first], batches):
                writer.write_batch(self._with_file_name(batch, name))
        return True

    def _with_file_name(self, batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
        """The batch with the name of its file in the ``file`` column."""
        position = batch.schema.get_field_index(self._columns.file)
        return batch.set_column(position, self._columns.file, pa.repeat(pa.scalar(name), batch.num_rows))

    def _write_blocks(self, publication: str) -> int:
        """Write the blocks; returns the number of their rows."""
        path = f"{self._folder}/{BLOCKS}/{publication}{_SUFFIX}"
        blocks = Blocks.of(self._storage, self._context, self._columns, publication, for_merging=not self._is_merged)
        rows = 0
        with (
            self._scratch.appearing(path) as file,
            pq.ParquetWriter(file, blocks.schema, compression="zstd", store_schema=False) as writer,
        ):
            for table in blocks.tables(self._splits):
                writer.write_table(table)
                rows += table.num_rows
        return rows

    def _write_empty(self) -> None:
        """Write a file without rows: engines need a folder with at least one file."""
        name = f"{self._folder}/{LOG}/{_EMPTY}"
        if not self._scratch.storage.exists(name):
            with self._scratch.appearing(name) as file:
                pq.write_table(self._columns.schema.empty_table(), file, store_schema=False)

    def _publication(
        self,
        name: str,
        slices: list[PublishedSlice],
        kept: tuple[tuple[str, str], ...],
        has_blocks: bool,  # noqa: FBT001 - one of many values
        block_rows: int,
    ) -> Publication:
        whole = [
            published for published in slices if published.why_whole is not None and published.base_path is not None
        ]
        return Publication(
            engine=self._columns.engine,
            cut_times=self._columns.cut_times,
            publication=name,
            instant=self._context.latest_instant,
            folder=self._folder,
            table_name=self._table.config.name,
            table_uri=self._table_uri,
            own_uri=self._own_uri,
            slices=len(slices),
            records=sum(published.records for published in slices),
            contested=sum(published.contested for published in slices),
            merges_fields=any(published.merges_fields for published in slices),
            key_field=single_key_field(self._context)
            if all(published.joins_by_field for published in slices)
            else None,
            whole=len(whole),
            why_whole=whole[0].why_whole if whole else None,
            has_blocks=has_blocks,
            context=self._context,
            kept=kept,
            is_merged=self._is_merged,
            block_rows=block_rows,
        )

    def _remove(self, publication: Publication, leave_seconds: float) -> int:
        """Remove files that no kept publication lists; returns their number."""
        needed = {}
        folders = {info.name for info in self._scratch.storage.list_directory("") if info.is_dir}
        for folder in sorted(folders | {self._folder}):
            publications = {f"{name}{_SUFFIX}" for its, name in publication.kept if its == folder}
            logs = {_EMPTY} if publications else set()
            for name in publications:
                logs |= _log_files(self._scratch, f"{folder}/{SLICES}/{name}")
            for part, names in ((LOG, logs), (SLICES, publications), (BLOCKS, publications)):
                needed[f"{folder}/{part}"] = (names, (_SUFFIX, UNFINISHED))
        return remove_orphan_files(self._scratch, needed, leave_seconds)


def _log_files(scratch: Scratch, name: str) -> set[str]:
    content = scratch.read(name)
    if content is None:
        return set()
    names = pq.read_table(pa.BufferReader(content), columns=["log_file"])["log_file"].to_pylist()
    return {str(name) for name in names if name is not None}
