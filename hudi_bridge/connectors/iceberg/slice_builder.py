"""A file slice -> the files that an Iceberg client reads for it.

The base file is used where it lies; rows that logs supersede or delete are named by their places in a position-delete
file, and the rows that come instead are a small data file. Where Iceberg would not read the base file as Hudi does, the
merged rows of the whole slice are written instead.

Source: the Iceberg specification, "Position Delete Files".
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from hudi_bridge.connectors.iceberg.columns import PATH_ID, POSITION_DELETES, POSITION_ID, Columns
from hudi_bridge.connectors.iceberg.compatibility import reason_to_rewrite, stored_paths
from hudi_bridge.connectors.iceberg.data_files import DataFile, data_file
from hudi_bridge.connectors.iceberg.name_mapping import names_to_ids
from hudi_bridge.connectors.iceberg.partitioning import Partitioning, in_path_and_file
from hudi_bridge.connectors.iceberg.rewriting import Rewriting
from hudi_bridge.connectors.iceberg.slice_files import SliceFiles
from hudi_bridge.connectors.publishing.locations import Locations
from hudi_bridge.connectors.publishing.payload_identity import payload_identity
from hudi_bridge.connectors.publishing.scratch import Scratch
from hudi_bridge.dispatch import reader_for
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.readers.base_file import ROWS_PER_BATCH, BaseFile
from hudi_bridge.readers.log_record_scanner import LogScan, log_memory_bytes
from hudi_bridge.readers.path_columns import path_values
from hudi_bridge.readers.request import RowRequest
from hudi_bridge.readers.slice_changes import SliceChanges
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage

DATA = "data"

# Part of every name: to be raised when slices of the same facts get other files.
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class SliceBuilder:
    """Builds the files of the slices of one snapshot; ``at_once`` slices share the memory for logs."""

    storage: Storage
    scratch: Scratch
    locations: Locations
    context: ReadContext
    columns: Columns
    partitioning: Partitioning
    at_once: int
    rewriting: Rewriting

    @cached_property
    def fingerprint(self) -> str:
        """What the files of a slice depend on, other than the slice itself and the log blocks that count."""
        context = self.context
        rule = context.merge_rule
        facts = [
            FORMAT,
            context.query_type,
            None if rule is None else asdict(replace(rule, payload=None)),
            None if rule is None or rule.payload is None else payload_identity(rule.payload),
            context.record_key_fields,
            context.populates_meta_fields,
            context.path_columns,
            context.float_widening,
            context.field_defaults,
            context.schema.to_string(),
            context.schema_ids,
            context.schema_history,
            self.columns.schema.model_dump_json(),
            self.columns.mapping.model_dump_json(),
            self.partitioning.names,
            asdict(self.rewriting),
            self.locations.uri(self.storage),
            self.locations.uri(self.scratch.storage),
        ]
        return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()

    def key(self, split: RealtimeFileSplit) -> str:
        """What stands for the slice's files, whichever of its log blocks count."""
        files = (split.partition_path, split.base_path, split.base_size_bytes, split.log_paths, split.log_size_bytes)
        return hashlib.sha256(f"{self.fingerprint}{files!r}".encode()).hexdigest()[:32]

    def counts(self, instant: str) -> bool:
        """Whether log blocks of an instant count in this snapshot."""
        return instant <= self.context.latest_instant and self.context.is_committed(instant)

    def build(self, split: RealtimeFileSplit) -> SliceFiles:
        """The files of a slice; those that are its own are complete when this returns.

        Raises:
            HudiReadError: the slice cannot be read.
        """
        rule = split.context.merge_rule
        scan = changes = None
        if rule is not None and split.log_paths:
            memory = log_memory_bytes(split.context, self.at_once)
            scan = LogScan(self.storage, split, rule, split.context.schema.names, memory)
            changes = SliceChanges(split, rule, scan, tuple(split.context.schema.names))
        counted = {instant: self.counts(instant) for instant in sorted(scan.instants)} if scan else {}
        name = f"{self.key(split)}-{hashlib.sha256(repr(counted).encode()).hexdigest()[:8]}"
        if split.base_path is not None:
            with BaseFile.open(self.storage, split, split.base_path, use_threads=False) as base:
                where_it_lies = self._where_it_lies(split, split.base_path, base)
                if where_it_lies is not None:
                    files = self._beside(split, base, where_it_lies, changes, name, counted)
                    if files is not None:
                        return files
        # Their log files are read again, and need not be in memory twice.
        del scan, changes
        return self._rewritten(split, name, counted)

    def _where_it_lies(self, split: RealtimeFileSplit, base_path: str, base: BaseFile) -> DataFile | None:
        """The base file as a data file; None if clients would not read it as Hudi does."""
        stored, footer = base.arrow_schema, base.footer
        reason = reason_to_rewrite(split, base_path, stored, footer, self.columns, rewrites_lists=self.rewriting.lists)
        if reason is not None:
            return None
        partition = self.partitioning.of_file(split, stored, footer)
        known = in_path_and_file(split, stored, footer)
        for name in path_values(split):
            if not known[name] or (name not in stored.names and partition is None):
                return None
        return data_file(
            self.locations.uri(self.storage, base_path),
            split.base_size_bytes,
            footer,
            self.columns.schema,
            names_to_ids(self.columns.mapping, self.columns.schema),
            partition,
        )

    def _beside(
        self,
        split: RealtimeFileSplit,
        base: BaseFile,
        kept: DataFile,
        changes: SliceChanges | None,
        name: str,
        counted: Mapping[str, bool],
    ) -> SliceFiles | None:
        """The base file where it lies, with files of its own for what logs change; None if they change too much."""
        written = deletes = None
        if changes is not None:
            written = self._write_rows(split, f"{name}-rows", changes.rows(base))
            gone = changes.gone
            if self.rewriting.is_due(len(gone), kept.rows):
                if written is not None:
                    self.scratch.remove(f"{DATA}/{self._own_name(written)}")
                return None
            if len(gone) < kept.rows:
                deletes = self._write_deletes(f"{name}-gone", kept, gone) if len(gone) else None
            else:
                kept = replace(kept, rows=0)
        return SliceFiles(
            name=name,
            data=tuple(file for file in (kept, written) if file is not None and file.rows),
            deletes=() if deletes is None else (deletes,),
            own_files=tuple(self._own_name(file) for file in (written, deletes) if file is not None),
            counted=counted,
            stored_paths=stored_paths(base.arrow_schema) if kept.rows else (),
        )

    def _rewritten(self, split: RealtimeFileSplit, name: str, counted: Mapping[str, bool]) -> SliceFiles:
        """All rows of the slice in a file of its own."""
        request = RowRequest.of(split.context.schema)
        reader = reader_for(self.storage, split, request, use_threads=False, at_once=self.at_once)
        written = self._write_rows(split, f"{name}-whole", reader.batches())
        return SliceFiles(
            name=name,
            data=() if written is None else (written,),
            deletes=(),
            own_files=() if written is None else (self._own_name(written),),
            counted=counted,
            stored_paths=(),
        )

    def _write_rows(self, split: RealtimeFileSplit, stem: str, batches: Iterator[pa.RecordBatch]) -> DataFile | None:
        """A data file of its own; None if there are no rows."""
        schema = self.columns.arrow
        tables = _tables(batches, schema)
        first = next(tables, None)
        if first is None:
            return None
        path = f"{DATA}/{stem}.parquet"
        with self.scratch.appearing(path) as file:
            with _parquet_writer(file, schema) as writer:
                writer.write_table(first)
                for table in tables:
                    writer.write_table(table)
            size = file.tell()
            footer = pq.read_metadata(file)
        location = self.locations.uri(self.scratch.storage, path)
        partition = self.partitioning.of_file(split, schema, footer)
        return data_file(location, size, footer, self.columns.schema, self.columns.ids, partition)

    def _write_deletes(self, stem: str, of: DataFile, gone: Positions) -> DataFile:
        """A file that names the rows of a data file that are gone; it has the partition of that file."""
        path = f"{DATA}/{stem}.parquet"
        paths = pa.repeat(pa.scalar(of.location), len(gone))
        with self.scratch.appearing(path) as file:
            # Positions are all different: a dictionary of them makes the file three times as large.
            with _parquet_writer(file, POSITION_DELETES, use_dictionary=["file_path"]) as writer:
                writer.write_table(pa.table([paths, pa.array(gone, pa.int64())], schema=POSITION_DELETES))
            size = file.tell()
        return DataFile(
            location=self.locations.uri(self.scratch.storage, path),
            rows=len(gone),
            size_bytes=size,
            partition=of.partition,
            value_counts={PATH_ID: len(gone), POSITION_ID: len(gone)},
            null_counts={PATH_ID: 0, POSITION_ID: 0},
            # Equal bounds tell clients that the file concerns no other data file.
            lower_bounds={PATH_ID: of.location.encode()},
            upper_bounds={PATH_ID: of.location.encode()},
            split_offsets=(),
        )

    def _own_name(self, file: DataFile) -> str:
        return file.location.rpartition("/")[2]


def _parquet_writer(file: BinaryIO, schema: pa.Schema, *, use_dictionary: bool | list[str] = True) -> Any:  # noqa: ANN401 - the stubs know no context manager
    dictionary: Any = use_dictionary  # of the names of columns, too, which the stubs do not know
    return pq.ParquetWriter(file, schema, compression="zstd", store_schema=False, use_dictionary=dictionary)


def _tables(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows in Iceberg's types, in stretches that make row groups of a good size; no stretch is empty."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROWS_PER_BATCH:
            yield pa.Table.from_batches(waiting).cast(schema)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).cast(schema)
