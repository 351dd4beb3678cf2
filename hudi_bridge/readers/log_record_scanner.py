"""Reads the log files of a split, and keeps the surviving log version of each record key.

Source: ``BaseHoodieLogRecordReader`` of Hudi.
"""

import errno
import logging
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.avro_columns import content_bounds, decode_avro_records
from hudi_bridge.logformat.avro_cursors import Ints
from hudi_bridge.logformat.block import LogBlock, parse_record_positions
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.parquet import decode_parquet_block, parquet_block_schema
from hudi_bridge.logformat.scan import LiveBlocks, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Booleans, Column, as_booleans
from hudi_bridge.merge.log_records import LogRecordMap, LogRecords, data_records, delete_records, part_of_keys, selected
from hudi_bridge.merge.ordering_fields import ordering_type
from hudi_bridge.merge.record_map import build_record_map
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.missing_files import data_file_gone
from hudi_bridge.readers.split_columns import plan_file_evolution, record_keys, with_path_columns, without_path_columns
from hudi_bridge.schema.avro import AvroRecord, arrow_schema, parse_avro_schema
from hudi_bridge.schema.evolve import Evolution
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.system_memory import memory_bytes

_MAX_PARTS = 1024
_LOG = logging.getLogger(__name__)


class LogScan:
    """The log blocks of a split that count, decoded on demand.

    Holds the log files of the split in memory, or in copies on disk if they are larger than the memory for logs.
    """

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        rule: MergeRule,
        columns: Iterable[str],
        log_memory_bytes: int,
        wanted_keys: "Column | None" = None,
    ) -> None:
        """A scan for the columns given and those that merging needs; with ``wanted_keys``, for their records only.

        Raises:
            CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
            DataFileGoneError: a log file no longer exists.
            UnsupportedTableError: a block has an unknown type.
        """
        self._storage = storage
        self._split = split
        self._rule = rule
        self._on_disk = split.log_size_bytes > log_memory_bytes
        live = read_live_blocks(storage, split, on_disk=self._on_disk)
        blocks = live.blocks
        self.instants = live.instants
        """The instants of all blocks, as in ``LiveBlocks``."""
        decoded_bytes = sum(map(_decoded_bytes, blocks))
        self._kept: tuple[LogBlock, ...] | None = blocks
        self.parts = 1 if wanted_keys is not None else min(_MAX_PARTS, 1 + decoded_bytes // max(1, log_memory_bytes))
        """The number of parts to merge one at a time, so that the records of each fit into the memory for logs."""
        self._decoder = BlockDecoder(split, rule, columns, wanted_keys)

    def records(self, ranges: RangesInLogs | None = None) -> LogRecordMap:
        """The surviving log records; log files are released as they are decoded, and read again by the next call.

        ``ranges`` learn from all records.
        """
        blocks = deque(self._blocks())
        self._kept = None
        decoded = [self._decoder.decode(blocks.popleft()) for _ in range(len(blocks))]
        if ranges is not None:
            for records in decoded:
                ranges.add(records)
            ranges.keep(self._storage, self.instants)
        return self._record_map(decoded)

    def records_of_part(self, part: int) -> LogRecordMap:
        """The surviving log records of one part of the record keys."""
        self._kept = self._blocks()
        decoded: Iterable[LogRecords] = map(self._decoder.decode, self._kept)
        if self.parts > 1:
            decoded = (selected(records, part_of_keys(records.keys, self.parts) == part) for records in decoded)
        return self._record_map(decoded)

    def _blocks(self) -> tuple[LogBlock, ...]:
        if self._kept is None:
            return read_live_blocks(self._storage, self._split, on_disk=self._on_disk).blocks
        return self._kept

    def _record_map(self, decoded: Iterable[LogRecords]) -> LogRecordMap:
        return build_record_map(list(decoded), self._rule, self._decoder.schema, self._split.context.defaults)


def _decoded_bytes(block: LogBlock) -> int:
    """Estimates the decoded size of a block in bytes; Parquet and HFile blocks are compressed."""
    match block.block_type:
        case BlockType.AVRO_DATA | BlockType.DELETE:
            return block.content.size * 2
        case BlockType.HFILE_DATA:
            return block.content.size * 6
        case BlockType.PARQUET_DATA:
            return block.content.size * 8
        case BlockType.COMMAND | BlockType.CDC_DATA | BlockType.CORRUPT:
            return 0
        case _:
            assert_never(block.block_type)


def log_memory_bytes(context: ReadContext, at_once: int = 1) -> int:
    """The memory for the log records of one file slice, in bytes, if ``at_once`` slices are read at the same time."""
    return context.log_memory_bytes or memory_bytes() // 4 // at_once


def read_live_blocks(storage: Storage, split: RealtimeFileSplit, *, on_disk: bool = False) -> LiveBlocks:
    """The log blocks of a split that count as of its instant, oldest first; ``on_disk`` keeps the files out of memory.

    Raises:
        CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
        DataFileGoneError: a log file no longer exists.
        StorageError: a log file cannot be read, or is shorter than it was when the split was planned.
    """
    files = [read_log_file(storage, split, path, on_disk=on_disk) for path in split.log_paths]
    size = sum(file.size for file in files)
    if size < split.log_size_bytes:
        # Writers only append to log files, so a shorter file is incomplete.
        reason = (
            f"{len(files)} log files from this one on have {size} bytes, and had {split.log_size_bytes} when listed"
        )
        raise storage.failure("read", split.log_paths[0], OSError(errno.EIO, reason))
    scans = [scan_blocks(file, path) for file, path in zip(files, split.log_paths, strict=True)]
    for corrupt in (block for scan in scans for block in scan.corrupt):
        _LOG.warning("%s at byte %d: skipped a corrupt block: %s", corrupt.path, corrupt.offset, corrupt.reason)
    return live_blocks(scans, latest_instant=split.latest_instant, is_valid=split.context.is_committed)


def read_log_file(storage: Storage, split: RealtimeFileSplit, path: str, *, on_disk: bool) -> pa.Buffer:
    """The bytes of a log file, in memory or on disk.

    Raises:
        DataFileGoneError: the file no longer exists.
    """
    try:
        return storage.copy_to_disk(path) if on_disk else storage.read_buffer(path, split.size_of_log(path))
    except FileNotFoundError as error:
        raise data_file_gone(storage, split, path) from error


class BlockDecoder:
    """Decodes the log blocks of one split; blocks with the same writer schema share its parsing and evolution.

    With ``wanted_keys``, only the record keys of all records are decoded, and of the wanted ones the columns.
    """

    def __init__(
        self,
        split: RealtimeFileSplit,
        rule: MergeRule,
        columns: Iterable[str],
        wanted_keys: "Column | None" = None,
    ) -> None:
        context = split.context
        needed = dict.fromkeys([*columns, *context.key_columns, *rule.columns_in(context.schema)])
        self.schema = pa.schema([context.schema.field(name) for name in needed])
        self._block_schema = without_path_columns(self.schema, split)
        self._key_schema = pa.schema([context.schema.field(name) for name in context.key_columns])
        self._split = split
        self._rule = rule
        self._wanted_keys = wanted_keys
        self._writers: dict[str, AvroRecord] = {}
        self._evolutions: dict[tuple[str, str, bool], Evolution] = {}

    def decode(self, block: LogBlock) -> LogRecords:
        """The records of a data or delete block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        match block.block_type:
            case BlockType.DELETE:
                deletes = self._deletes(block)
                wanted = self._wanted(deletes.keys)
                return deletes if wanted is None else selected(deletes, wanted)
            case BlockType.AVRO_DATA | BlockType.HFILE_DATA:
                return self._datums(block)
            case BlockType.PARQUET_DATA:
                return self._parquet_rows(block)
            case BlockType.COMMAND | BlockType.CDC_DATA | BlockType.CORRUPT:
                raise ValueError(f"a {block.block_type.name} block has no records to merge")
            case _:
                assert_never(block.block_type)

    def keys(self, block: LogBlock) -> Column:
        """The record keys of a data block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        if block.block_type is BlockType.PARQUET_DATA:
            return self._keys_of(block, self._stored_parquet(block, of_keys=True))
        return self._keys_of(block, self._stored_datums(block, self._bounds(block), of_keys=True))

    def _wanted(self, keys: Column) -> Booleans | None:
        """Which of the keys are wanted; None for all."""
        if self._wanted_keys is None:
            return None
        return as_booleans(pc.is_in(keys, value_set=self._wanted_keys))

    def _keys_of(self, block: LogBlock, rows: pa.RecordBatch) -> Column:
        keys = record_keys(with_path_columns(rows, self._key_schema, self._split), self._split.context)
        if keys.null_count:
            found = f"{keys.null_count} records without a record key"
            raise CorruptLogFileError(block.path, block.offset, found, "a record key in each record")
        return keys

    def _data(self, block: LogBlock, stored: pa.RecordBatch, records: int, wanted: Booleans | None) -> LogRecords:
        """The given rows of a block of ``records`` records, of which ``wanted`` tells those that are given."""
        rows = with_path_columns(stored, self.schema, self._split)
        positions = parse_record_positions(block, self._split.base_instant_time, records)
        return data_records(
            rows,
            self._keys_of(block, rows),
            self._rule,
            absent=self._absent(block),
            base_positions=positions if positions is None or wanted is None else positions[wanted],
        )

    def _absent(self, block: LogBlock) -> frozenset[str]:
        """The columns that a partial update left out."""
        if not block.is_partial:
            return frozenset()
        columns = self._evolution(block, arrow_schema(self._writer(block)), of_keys=False).columns
        return frozenset(column.field.name for column in columns if column.source is None)

    def _deletes(self, block: LogBlock) -> LogRecords:
        deletes = parse_delete_block(block)
        fields = self._rule.ordering_fields if self._rule.uses_ordering else ()
        ordering_types = [ordering_type(name, self.schema) for name in fields]
        orderings = deletes.ordering_as(ordering_types)
        without_ordering = ~np.asarray(orderings.comparable.to_numpy(zero_copy_only=False), dtype=np.bool_)
        if self._rule.precedence.orders_as_0x and any(map(pa.types.is_string, ordering_types)):
            without_ordering[:] = True
        return delete_records(
            deletes.record_keys,
            orderings.columns,
            without_ordering | np.asarray(deletes.is_default),
            parse_record_positions(block, self._split.base_instant_time, len(deletes)),
        )

    def _datums(self, block: LogBlock) -> LogRecords:
        bounds = self._bounds(block)
        wanted = None
        if self._wanted_keys is not None:
            wanted = self._wanted(self._keys_of(block, self._stored_datums(block, bounds, of_keys=True)))
        records = len(bounds.starts)
        return self._data(block, self._stored_datums(block, bounds.chosen(wanted), of_keys=False), records, wanted)

    def _bounds(self, block: LogBlock) -> "_Datums":
        """Where the records of an Avro or HFile block are."""
        if block.block_type is BlockType.HFILE_DATA:
            hfile = read_hfile(block.content, block.path, block.content_offset)
            return _Datums(data=hfile.values, starts=hfile.value_starts, ends=hfile.value_ends, keys=hfile.keys)
        content = pa.py_buffer(block.content)
        starts, ends = content_bounds(content, block.path, block.content_offset)
        return _Datums(data=content, starts=starts, ends=ends, keys=None)

    def _stored_datums(self, block: LogBlock, datums: "_Datums", *, of_keys: bool) -> pa.RecordBatch:
        """The records at the bounds in the columns of the query, or those of the record key."""
        writer = self._writer(block)
        evolution = self._evolution(block, arrow_schema(writer), of_keys=of_keys)
        rows = decode_avro_records(
            datums.data,
            datums.starts,
            datums.ends,
            writer,
            evolution.file_columns,
            block.path,
            block.content_offset,
        )
        if datums.keys is not None:
            # The record key is the key of the cell; in the value, the field is an empty string.
            key_column = self._split.context.key_columns[0]
            position = rows.schema.get_field_index(key_column)
            rows = rows if position < 0 else rows.set_column(position, key_column, datums.keys)
        return evolution.apply(rows)

    def _parquet_rows(self, block: LogBlock) -> LogRecords:
        wanted = None
        if self._wanted_keys is not None:
            wanted = self._wanted(self._keys_of(block, self._stored_parquet(block, of_keys=True)))
        rows = self._stored_parquet(block, of_keys=False)
        chosen = rows if wanted is None else rows.filter(pa.array(wanted))
        return self._data(block, chosen, rows.num_rows, wanted)

    def _stored_parquet(self, block: LogBlock, *, of_keys: bool) -> pa.RecordBatch:
        content, path, offset = block.content, block.path, block.content_offset
        evolution = self._evolution(block, parquet_block_schema(content, path, offset), of_keys=of_keys)
        return evolution.apply(decode_parquet_block(content, evolution.file_columns, path, offset))

    def _writer(self, block: LogBlock) -> AvroRecord:
        text = block.schema_text
        if text is None:
            raise CorruptLogFileError(block.path, block.offset, "a data block without SCHEMA", "the writer's schema")
        if text not in self._writers:
            self._writers[text] = parse_avro_schema(text, block.path, block.offset)
        return self._writers[text]

    def _evolution(self, block: LogBlock, file_schema: pa.Schema, *, of_keys: bool) -> Evolution:
        instant = block.instant_time or ""
        known = (block.schema_text or "", instant, of_keys)
        if known not in self._evolutions:
            self._evolutions[known] = plan_file_evolution(
                file_schema,
                without_path_columns(self._key_schema, self._split) if of_keys else self._block_schema,
                instant,
                self._split.context,
                block.path,
                is_parquet=block.block_type is BlockType.PARQUET_DATA,
            )
        return self._evolutions[known]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Datums:
    """Where Avro datums are in ``data``, and their record keys in an HFile."""

    data: pa.Buffer
    starts: Ints
    ends: Ints
    keys: "Column | None"

    def chosen(self, wanted: Booleans | None) -> "_Datums":
        """Those that are wanted, or all."""
        if wanted is None:
            return self
        keys = None if self.keys is None else self.keys.filter(pa.array(wanted))
        return _Datums(data=self.data, starts=self.starts[wanted], ends=self.ends[wanted], keys=keys)
