"""Reads the log files of a split, and keeps the surviving log version of each record key.

Source: ``BaseHoodieLogRecordReader`` of Hudi.

Decodes the columns of log records that neither merging nor the filter needs, where a record passes the filter.

Most of the time for a log is that of its columns.
"""

import errno
import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from hudi_bridge.common.caching import cached_property
from hudi_bridge.errors import CorruptLogFileError, UnsupportedTableError
from hudi_bridge.logformat.block import LogBlock
from hudi_bridge.logformat.scan import LiveBlocks, live_blocks, scan_blocks
from hudi_bridge.merge.arrays import Positions
from hudi_bridge.merge.record_map import LogRecordMap, LogRecords, build_record_map
from hudi_bridge.merge.rules import MergeRule
from hudi_bridge.readers.base_formats.stored import data_file_gone
from hudi_bridge.readers.block_decoder import (
    BlockDecoder,
    Datums,
    ToldPositions,
    bytes_of_row,
    bytes_when_decoded,
    runs,
)
from hudi_bridge.readers.column_ranges import RangesInLogs
from hudi_bridge.readers.request import SliceRead
from hudi_bridge.readers.spill import LogRecordsOnDisk
from hudi_bridge.splits.split import RealtimeFileSplit
from hudi_bridge.storage.storage import Storage


def may_be_late(blocks: Sequence[LogBlock], rule: MergeRule) -> bool:
    """Whether rows of the blocks can be decoded late: they are not merged, and found without decoding others."""
    if rule.merges_fields:
        return False
    return all(block.kind.holds_deletes or (block.kind.has_plain_rows and not block.is_partial) for block in blocks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _NumberedBlocks:
    blocks: Sequence[LogBlock]
    datums: Datums
    first_number: int


class LateLogRows:
    """The rows of data blocks by number, counted over all blocks; holds the blocks in memory."""

    def __init__(self, first: BlockDecoder, rest: BlockDecoder) -> None:
        """``first`` decodes what merging needs, ``rest`` the rows."""
        self._first = first
        self._rest = rest
        self._runs: list[_NumberedBlocks] = []
        self._records = 0
        self.number_column = "".join(first.schema.names) + "#"
        """The column of the numbers; the table has none of that name."""
        self.schema = first.schema.append(pa.field(self.number_column, pa.int64()))
        """The columns of the records."""

    def in_order(self, blocks: deque[LogBlock]) -> Iterator[LogRecords]:
        """The records of data and delete blocks, with their numbers in place of the columns that come late.

        Takes the blocks out of ``blocks`` as they are decoded.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        for run in runs(blocks, self._first.likeness):
            yield self._numbered(run) if run[0].is_data else self._first.decode(run[0])

    def _numbered(self, run: Sequence[LogBlock]) -> LogRecords:
        datums, counts = self._first.joined(run)
        records = self._first.of_run(run, datums, counts)
        start, self._records = self._records, self._records + len(datums)
        held = run if len(run) == 1 else tuple(_blocks_within(datums.data, run))
        self._runs.append(_NumberedBlocks(blocks=held, datums=datums, first_number=start))
        assert records.rows is not None
        numbers = pa.array(np.arange(start, self._records))
        rows = pa.record_batch([*records.rows.columns, numbers], schema=self.schema)
        return replace(records, rows=rows)

    def rows(self, numbers: Positions) -> Iterator[pa.RecordBatch]:
        """The rows with these numbers, in no particular order.

        Raises:
            CorruptLogFileError: the content of a block is not what its header says.
        """
        ascending = np.sort(numbers)
        ends = np.cumsum([len(one.datums) for one in self._runs])
        parts = np.split(ascending, np.searchsorted(ascending, ends)[:-1]) if len(ends) else []
        for one, part in zip(self._runs, parts, strict=True):
            if len(part):
                yield self._rows(one, part)

    def _rows(self, run: _NumberedBlocks, numbers: Positions) -> pa.RecordBatch:
        try:
            return self._rest.rows(run.blocks[0], run.datums.at(numbers - run.first_number))
        except CorruptLogFileError:
            self._rest.find_damage(run.blocks)
            raise


def _blocks_within(data: pa.Buffer, blocks: Iterable[LogBlock]) -> Iterator[LogBlock]:
    """The same blocks with their contents in ``data``, where these follow one another, so that one copy is held."""
    start = 0
    for block in blocks:
        size = block.content.size
        yield replace(block, content=data.slice(start, size))
        start += size


_MAX_PARTS = 1024
_PARTS_IN_MEMORY = 2
"""How much smaller parts are than the memory, since some are larger than others."""
_MOST_BYTES = (1 << 31) - 1
"""The most bytes of one column that Arrow puts together: it counts them in 32 bits."""
_LEAST_LATE_BYTES = 1 << 20
"""Of small logs, little of the time is decoding."""
_LOG = logging.getLogger(__name__)


class LogScan:
    """The log blocks of a split that count, decoded on demand.

    Holds the log files of the split in memory until they are decoded, or in copies on disk if they are larger than the
    memory for logs.
    """

    def __init__(self, read: SliceRead, *, base_rows: int = 0) -> None:
        """A scan for the columns of a read and those that merging needs, and for the record keys that it names, if any.

        ``base_rows`` is the number of rows of the base file; without it, record positions do not count.

        Raises:
            CorruptLogFileError: a log file is damaged in a way that Hudi does not skip.
            DataFileGoneError: a log file no longer exists.
            UnsupportedTableError: a block has an unknown type.
        """
        split, rule, wanted_keys = read.split, read.rule, read.request.record_keys
        self._read = read
        self._on_disk = split.log_size_bytes > read.log_memory_bytes
        live = read_live_blocks(read.storage, split, on_disk=self._on_disk)
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
        self._decoder = BlockDecoder(split, read.columns, wanted_keys, told=told)
        self._kept: tuple[LogBlock, ...] | None = tuple(filter(self._decoder.is_merged, blocks))
        self._merges_all = len(self._kept) == len(blocks)
        blocks = self._kept
        if wanted_keys is None:
            most = max(1, min(read.log_memory_bytes, _MOST_BYTES))
            decoded_bytes = bytes_when_decoded(blocks, bytes_of_row(self._decoder.schema), most)
            if decoded_bytes > most:
                self.parts = min(_MAX_PARTS, 1 + _PARTS_IN_MEMORY * decoded_bytes // most)
        self._first: BlockDecoder | None = None
        if _is_late(read) and self.parts == 1 and may_be_late(blocks, rule):
            self._first = BlockDecoder(split, read.request.filter_columns, told=told)

    def records(self) -> LogRecordMap:
        """The surviving log records; log files are released as they are decoded, and read again by the next call.

        Raises:
            UnsupportedTableError: a column of them is larger than an array can be.
        """
        return self._record_map(self._decoder.in_order(self._released()), self._decoder.schema)

    def records_and_late_rows(self, ranges: RangesInLogs | None = None) -> tuple[LogRecordMap, LateLogRows | None]:
        """The surviving log records, and what decodes their rows by number; None if the records have all columns.

        Blocks whose rows are decoded late are held. ``ranges`` learn from all records. Otherwise as ``records``.
        """
        blocks = self._released()
        late = None if self._first is None else LateLogRows(self._first, self._decoder)
        decoded = list(self._decoder.in_order(blocks) if late is None else late.in_order(blocks))
        if ranges is not None and self._merges_all:
            for records in decoded:
                ranges.add(records)
            ranges.keep(self._read.storage, self.instants)
        return self._record_map(decoded, self._decoder.schema if late is None else late.schema), late

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
        return self.records()

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
            live = read_live_blocks(self._read.storage, self._read.split, on_disk=self._on_disk)
            kept = tuple(filter(self._decoder.is_merged, live.blocks))
        return deque(kept)

    def _record_map(self, decoded: Iterable[LogRecords], schema: pa.Schema) -> LogRecordMap:
        records, defaults = list(decoded), self._read.context.defaults
        try:
            return build_record_map(records, self._read.rule, schema, defaults, by_position=self._is_by_position)
        except pa.ArrowInvalid as error:
            size = sum(one.rows.nbytes for one in records if one.rows is not None)
            if size <= _MOST_BYTES:
                raise
            found = f"{size} bytes of them to merge at once, from {self._read.split.log_paths[0]} on"
            supported = f"{_MOST_BYTES} bytes in a column: with a lower log_memory_bytes, or fewer record keys"
            raise UnsupportedTableError("size of log records", found, supported) from error


def _is_late(read: SliceRead) -> bool:
    """Whether columns of log records are decoded only where a record passes the filter."""
    context, request = read.context, read.request
    if request.row_filter is None or request.record_keys is not None:
        return False
    first = {*context.key_columns, *read.rule.columns_in(context.schema), *request.filter_columns}
    return not first.issuperset(read.columns) and read.split.log_size_bytes >= _LEAST_LATE_BYTES


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
