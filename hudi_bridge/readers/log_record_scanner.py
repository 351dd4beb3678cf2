"""Reads the log files of a split, and keeps the surviving log version of each record key.

Source: ``BaseHoodieLogRecordReader`` of Hudi.
"""

import errno
import logging
from collections import deque
from collections.abc import Iterable
from typing import assert_never

import numpy as np
import pyarrow as pa

from hudi_bridge.errors import CorruptLogFileError
from hudi_bridge.logformat.avro_columns import decode_avro_block, decode_avro_records
from hudi_bridge.logformat.block import LogBlock, parse_record_positions
from hudi_bridge.logformat.delete_records import parse_delete_block
from hudi_bridge.logformat.hfile import read_hfile
from hudi_bridge.logformat.layout import BlockType
from hudi_bridge.logformat.parquet import decode_parquet_block, parquet_block_schema
from hudi_bridge.logformat.scan import LiveBlocks, live_blocks, scan_blocks
from hudi_bridge.merge.log_records import LogRecordMap, LogRecords, data_records, delete_records, part_of_keys, selected
from hudi_bridge.merge.ordering_fields import ordering_type
from hudi_bridge.merge.record_map import build_record_map
from hudi_bridge.merge.rules import MergeRule
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
    ) -> None:
        """A scan for the columns given and those that merging needs.

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
        self.parts = min(_MAX_PARTS, 1 + decoded_bytes // max(1, log_memory_bytes))
        """The number of parts to merge one at a time, so that the records of each fit into the memory for logs."""
        self._decoder = BlockDecoder(split, rule, columns)

    def records(self) -> LogRecordMap:
        """The surviving log records; log files are released as they are decoded, and read again by the next call."""
        blocks = deque(self._blocks())
        self._kept = None
        return self._record_map(self._decoder.decode(blocks.popleft()) for _ in range(len(blocks)))

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
        return storage.copy_to_disk(path) if on_disk else storage.read_buffer(path)
    except FileNotFoundError as error:
        raise data_file_gone(storage, split, path) from error


class BlockDecoder:
    """Decodes the log blocks of one split; blocks with the same writer schema share its parsing and evolution."""

    def __init__(self, split: RealtimeFileSplit, rule: MergeRule, columns: Iterable[str]) -> None:
        context = split.context
        needed = dict.fromkeys([*columns, *context.key_columns, *rule.columns_in(context.schema)])
        self.schema = pa.schema([context.schema.field(name) for name in needed])
        self._block_schema = without_path_columns(self.schema, split)
        self._split = split
        self._rule = rule
        self._writers: dict[str, AvroRecord] = {}
        self._evolutions: dict[tuple[str, str], Evolution] = {}

    def decode(self, block: LogBlock) -> LogRecords:
        """The records of a data or delete block.

        Raises:
            CorruptLogFileError: the content is not what its header says.
        """
        match block.block_type:
            case BlockType.DELETE:
                return self._deletes(block)
            case BlockType.AVRO_DATA:
                rows = self._avro_rows(block)
            case BlockType.HFILE_DATA:
                rows = self._hfile_rows(block)
            case BlockType.PARQUET_DATA:
                rows = self._parquet_rows(block)
            case BlockType.COMMAND | BlockType.CDC_DATA | BlockType.CORRUPT:
                raise ValueError(f"a {block.block_type.name} block has no records to merge")
            case _:
                assert_never(block.block_type)
        return self._data(block, rows)

    def _data(self, block: LogBlock, stored: pa.RecordBatch) -> LogRecords:
        rows = with_path_columns(stored, self.schema, self._split)
        keys = record_keys(rows, self._split.context)
        if keys.null_count:
            found = f"{keys.null_count} records without a record key"
            raise CorruptLogFileError(block.path, block.offset, found, "a record key in each record")
        return data_records(
            rows,
            keys,
            self._rule,
            absent=self._absent(block),
            base_positions=parse_record_positions(block, self._split.base_instant_time, rows.num_rows),
        )

    def _absent(self, block: LogBlock) -> frozenset[str]:
        """The columns that a partial update left out."""
        if not block.is_partial:
            return frozenset()
        columns = self._evolution(block, arrow_schema(self._writer(block))).columns
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

    def _avro_rows(self, block: LogBlock) -> pa.RecordBatch:
        writer = self._writer(block)
        evolution = self._evolution(block, arrow_schema(writer))
        rows = decode_avro_block(block.content, writer, evolution.file_columns, block.path, block.content_offset)
        return evolution.apply(rows)

    def _hfile_rows(self, block: LogBlock) -> pa.RecordBatch:
        writer = self._writer(block)
        evolution = self._evolution(block, arrow_schema(writer))
        hfile = read_hfile(block.content, block.path, block.content_offset)
        rows = decode_avro_records(
            hfile.values,
            hfile.value_starts,
            hfile.value_ends,
            writer,
            evolution.file_columns,
            block.path,
            block.content_offset,
        )
        # The record key is the key of the cell; in the value, the field is an empty string.
        key_column = self._split.context.key_columns[0]
        position = rows.schema.get_field_index(key_column)
        return evolution.apply(rows if position < 0 else rows.set_column(position, key_column, hfile.keys))

    def _parquet_rows(self, block: LogBlock) -> pa.RecordBatch:
        content, path, offset = block.content, block.path, block.content_offset
        evolution = self._evolution(block, parquet_block_schema(content, path, offset))
        return evolution.apply(decode_parquet_block(content, evolution.file_columns, path, offset))

    def _writer(self, block: LogBlock) -> AvroRecord:
        text = block.schema_text
        if text is None:
            raise CorruptLogFileError(block.path, block.offset, "a data block without SCHEMA", "the writer's schema")
        if text not in self._writers:
            self._writers[text] = parse_avro_schema(text, block.path, block.offset)
        return self._writers[text]

    def _evolution(self, block: LogBlock, file_schema: pa.Schema) -> Evolution:
        instant = block.instant_time or ""
        known = (block.schema_text or "", instant)
        if known not in self._evolutions:
            self._evolutions[known] = plan_file_evolution(
                file_schema,
                self._block_schema,
                instant,
                self._split.context,
                block.path,
                is_parquet=block.block_type is BlockType.PARQUET_DATA,
            )
        return self._evolutions[known]
