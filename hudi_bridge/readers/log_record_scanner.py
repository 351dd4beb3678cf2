"""Reads the log files of a split, and keeps the surviving log version of each record key.

Source: ``BaseHoodieLogRecordReader`` of Hudi.
"""

import errno
import logging
from collections import deque
from collections.abc import Iterable

import pyarrow as pa

from hudi_bridge.caching import cached_property
from hudi_bridge.errors import UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.scan import LiveBlocks, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Column
from hudi_bridge.merge.log_records import LogRecordMap, LogRecords
from hudi_bridge.merge.record_map import build_record_map
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.block_decoder import BlockDecoder, ToldPositions
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.decoded_size import bytes_of_row, bytes_when_decoded
from hudi_bridge.readers.late_log_rows import LateLogRows, may_be_late
from hudi_bridge.readers.missing_files import data_file_gone
from hudi_bridge.readers.parts_on_disk import LogRecordsOnDisk
from hudi_bridge.splits.split import ReadContext, RealtimeFileSplit
from hudi_bridge.storage import Storage
from hudi_bridge.system_memory import memory_bytes

_MAX_PARTS = 1024
_PARTS_IN_MEMORY = 2
"""How much smaller parts are than the memory, since some are larger than others."""
_MOST_BYTES = (1 << 31) - 1
"""The most bytes of one column that Arrow puts together: it counts them in 32 bits."""
_LOG = logging.getLogger(__name__)


class LogScan:
    """The log blocks of a split that count, decoded on demand.

    Holds the log files of the split in memory until they are decoded, or in copies on disk if they are larger than the
    memory for logs.
    """

    def __init__(
        self,
        storage: Storage,
        split: RealtimeFileSplit,
        rule: MergeRule,
        columns: Iterable[str],
        log_memory_bytes: int,
        wanted_keys: "Column | None" = None,
        first_columns: Iterable[str] | None = None,
        *,
        base_rows: int = 0,
    ) -> None:
        """A scan for the columns given and those that merging needs; with ``wanted_keys``, for their records only.

        With ``first_columns``, the others of the columns may be decoded later (``late_rows``). ``base_rows`` is the
        number of rows of the base file; without it, record positions do not count.

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
        self.parts = 1
        """The number of parts to merge one at a time, so that each fits into the memory for logs and into arrays."""
        told = ToldPositions(split, blocks, base_rows)
        self._is_by_position = told.are_complete
        is_merged = rule.merges_fields or any(block.is_partial for block in blocks)
        self.needs_keys_alone = not told.are_complete and not is_merged
        """Whether it is sure that base rows are found by their keys, and that no other fields of theirs are merged."""
        self._decoder = BlockDecoder(split, rule, columns, wanted_keys, told=told)
        self._kept: tuple[LogBlock, ...] | None = tuple(filter(self._decoder.is_merged, blocks))
        self._merges_all = len(self._kept) == len(blocks)
        blocks = self._kept
        if wanted_keys is None:
            most = max(1, min(log_memory_bytes, _MOST_BYTES))
            decoded_bytes = bytes_when_decoded(blocks, bytes_of_row(self._decoder.schema), most)
            if decoded_bytes > most:
                self.parts = min(_MAX_PARTS, 1 + _PARTS_IN_MEMORY * decoded_bytes // most)
        self._first: BlockDecoder | None = None
        if first_columns is not None and wanted_keys is None and self.parts == 1 and may_be_late(blocks, rule):
            self._first = BlockDecoder(split, rule, first_columns, told=told)
        self.late_rows: LateLogRows | None = None
        """What decodes the rows of ``records``, which have its numbers; None if they have all columns."""

    def records(self, ranges: RangesInLogs | None = None) -> LogRecordMap:
        """The surviving log records; log files are released as they are decoded, and read again by the next call.

        Those of which rows come late are held. ``ranges`` learn from all records.

        Raises:
            UnsupportedTableError: a column of them is larger than an array can be.
        """
        blocks = self._released()
        if self._first is None:
            schema = self._decoder.schema
            decoded = list(self._decoder.in_order(blocks))
        else:
            self.late_rows = LateLogRows(self._first, self._decoder)
            schema = self.late_rows.schema
            decoded = list(self.late_rows.in_order(blocks))
        if ranges is not None and self._merges_all:
            for records in decoded:
                ranges.add(records)
            ranges.keep(self._storage, self.instants)
        return self._record_map(decoded, schema)

    def records_of_part(self, part: int) -> LogRecordMap:
        """The surviving log records of one part of the record keys.

        If there are several, all records are decoded once, into a temporary file from which each part is read. A single
        part is that of ``records``.

        Raises:
            OSError: the temporary file cannot be written.
            UnsupportedTableError: a column of them is larger than an array can be.
        """
        if self.parts > 1:
            return self._record_map(self.on_disk.of_part(part), self._decoder.schema)
        return self._record_map(self._decoder.in_order(self._released()), self._decoder.schema)

    @cached_property
    def on_disk(self) -> LogRecordsOnDisk:
        """All log records, in a temporary file, in the parts of ``records_of_part``; raises like that."""
        records = LogRecordsOnDisk(self.parts)
        for piece in self._decoder.in_order(self._released(), are_held=False):
            records.add(piece)
        return records

    def _released(self) -> deque[LogBlock]:
        """The blocks, of which nothing else holds the log files; these are read again if this is called again."""
        kept, self._kept = self._kept, None
        if kept is None:
            live = read_live_blocks(self._storage, self._split, on_disk=self._on_disk)
            kept = tuple(filter(self._decoder.is_merged, live.blocks))
        return deque(kept)

    def _record_map(self, decoded: Iterable[LogRecords], schema: pa.Schema) -> LogRecordMap:
        records, defaults = list(decoded), self._split.context.defaults
        try:
            return build_record_map(records, self._rule, schema, defaults, by_position=self._is_by_position)
        except pa.ArrowInvalid as error:
            size = sum(one.rows.nbytes for one in records if one.rows is not None)
            if size <= _MOST_BYTES:
                raise
            found = f"{size} bytes of them to merge at once, from {self._split.log_paths[0]} on"
            supported = f"{_MOST_BYTES} bytes in a column: with a lower log_memory_bytes, or fewer record keys"
            raise UnsupportedTableError("size of log records", found, supported) from error


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
    files = [read_log_file(storage, split, path, size, on_disk=on_disk) for path, size in split.log_files]
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


def read_log_file(
    storage: Storage, split: RealtimeFileSplit, path: str, size_bytes: int | None, *, on_disk: bool
) -> pa.Buffer:
    """The bytes of a log file, of a size that may be known, in memory or on disk.

    Raises:
        DataFileGoneError: the file no longer exists.
    """
    try:
        return storage.copy_to_disk(path) if on_disk else storage.read_buffer(path, size_bytes)
    except FileNotFoundError as error:
        raise data_file_gone(storage, split, path) from error
